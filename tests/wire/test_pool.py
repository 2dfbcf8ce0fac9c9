#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
The files of a pool: created with their namespace and its size, removed only with it; files left by a kill are
reported, not removed; the capacity counts all of that. A killed Format leaves the old format with all, some or
none of the data, or the new format; a Format whose medium fails leaves the old one, open to I/O again. Write
protection until the power cycle ends with the next start, permanent protection does not. NVMe Base 2.1, sections
5.1.10, 5.1.21, 8.1.15, 8.1.16.
"""

import glob
import os
import struct
import tempfile

import nvmetcp as n
import restapi
import target
from tap import Tap

MANAGEMENT, ATTACHMENT, FORMAT = 0x0d, 0x15, 0x80
POOL = 64 << 20
ALL = 0xffffffff
NOT_CHANGEABLE = (1, 0x0e)
WRITE_FAULT = (2, 0x80)
POOL_SPEC, FORMAT_SPEC, PROTECT_SPEC = 'Base 8.1.15', 'Base 5.1.10', 'Base 8.1.16'
FAILING, SLOW = 2, 3
SLOW_BYTES = 48 << 20


def create(host, blocks, flbas=0):
    page = bytearray(4096)
    struct.pack_into('<QQ', page, 0, blocks, blocks)
    page[26], page[30] = flbas, 1
    return host.admin.do(MANAGEMENT, data=bytes(page), cdw10=0).dw0


def delete(host, nsid):
    return host.admin.do(MANAGEMENT, nsid=nsid, cdw10=1)


def attach(host, nsid):
    page = struct.pack('<HH', 1, host.cntlid)
    return host.admin.do(ATTACHMENT, nsid=nsid, data=page + bytes(4096 - len(page)), cdw10=0)


def unused(host):
    return struct.unpack_from('<Q', bytes(host.admin.identify(1).data), 296)[0]


def shape(host, nsid):
    page = bytes(host.admin.identify(0, nsid).data)
    return struct.unpack_from('<Q', page)[0], page[26] & 15


def files(tgt):
    return {os.path.basename(path): os.path.getsize(path)
            for path in glob.glob(tgt.pool + '/*')}


def restart(tgt):
    tgt.kill()
    tgt.start()


def account(t, tgt):
    with tgt.host() as host:
        t.eq((unused(host), files(tgt)), (POOL, {}), 'at first: all of it, and no file', POOL_SPEC)
        small, large = create(host, 2048), create(host, 1024, 1)
        t.eq(sorted(files(tgt).values()), [1 << 20, 4 << 20], 'a file for each, of its size')
        t.eq(unused(host), POOL - (5 << 20), 'the rest is unused', POOL_SPEC)
        guid = bytes(host.admin.identify(0x11, large).data)[104:120].hex()
        t.eq(files(tgt).get(guid + '.img'), 4 << 20, 'named by the NGUID')
        for name in files(tgt):
            t.eq(os.stat(os.path.join(tgt.pool, name)).st_mode & 0o777, 0o600, 'nobody else reads it')
        with open(os.path.join(tgt.pool, 'precious.img'), 'w') as file:
            file.write('not ours')
    restart(tgt)
    with tgt.host() as host:
        t.eq(unused(host), POOL - (5 << 20), 'after a kill: the same account', POOL_SPEC)
        t.status(delete(host, small), n.OK, 'deleted', POOL_SPEC)
        t.eq((unused(host), len(files(tgt))), (POOL - (4 << 20), 2), 'its file and its share are back',
             POOL_SPEC)
        t.status(delete(host, ALL), n.OK, 'all deleted', POOL_SPEC)
        t.eq((unused(host), files(tgt)), (POOL, {'precious.img': 8}), 'what is not ours stays',
             POOL_SPEC)


def orphans(t, tgt):
    orphan = '00112233445566778899aabbccddeeff.img'
    with open(os.path.join(tgt.pool, orphan), 'w') as file:
        file.write('left')
    t.ok(orphan not in tgt.log(), 'a file that appears is not looked for')
    restart(tgt)
    t.ok(orphan + ' belongs to no namespace' in tgt.log(), 'the next start names it')
    t.ok('precious' not in tgt.log(), 'and not what is not ours')
    t.eq(files(tgt).get(orphan), 4, 'but does not remove it')
    with tgt.host() as host:
        t.eq(unused(host), POOL, 'it is not in the account', POOL_SPEC)
    os.unlink(os.path.join(tgt.pool, orphan))


def format_killed(t, tgt):
    with tgt.host() as host:
        nsid = create(host, 8192)
        attach(host, nsid)
        conn = host.queue()
        data = n.pattern(4096, 5)
        conn.put(nsid, 0, data)
        # A write that waits for its data delays the Format, then the target is killed: nothing has changed.
        owed = conn.rw(n.WRITE, nsid, 64, 64, 512, bytes(32768), way='r2t', is_auto=False)
        conn.wait_r2t(owed)
        host.admin.submit(FORMAT, nsid=nsid, cdw10=1 | 1 << 9)
        target.poll(lambda: conn.read(nsid, 0, 8).status == (0, 0x84))
        restart(tgt)
    with tgt.host() as host:
        conn = host.queue()
        t.eq(shape(host, nsid), (8192, 0), 'killed before the erase: the old format', FORMAT_SPEC)
        t.eq(bytes(conn.read(nsid, 0, 8).data), data, 'and its data', FORMAT_SPEC)
        t.status(conn.put(nsid, 0, data), n.OK, 'and I/O', FORMAT_SPEC)
        t.status(host.admin.do(FORMAT, nsid=nsid, cdw10=1 | 1 << 9), n.OK, 'format', FORMAT_SPEC)
        restart(tgt)
    with tgt.host() as host:
        conn = host.queue()
        t.eq(shape(host, nsid), (1024, 1), 'killed after the answer: the new format', FORMAT_SPEC)
        t.eq(bytes(conn.read(nsid, 0, 1, 4096).data), bytes(4096), 'and no data', FORMAT_SPEC)
        delete(host, nsid)


def format_killed_halfway(t, tgt):
    """SLOW is erased in slow pieces of 16 MiB; the target is killed after the first."""
    last = (SLOW_BYTES >> 9) - 8
    with tgt.host() as host:
        conn = host.queue()
        first, end = n.pattern(4096, 6), n.pattern(4096, 7)
        conn.put(SLOW, 0, first)
        conn.put(SLOW, last, end)
        conn.do(n.FLUSH, SLOW)
        before = shape(host, SLOW)

        def is_erased():
            with open(os.path.join(tgt.pool, '..', 'slow'), 'rb') as file:
                return file.read(4096) == bytes(4096)
        t.ok(not is_erased(), 'data is on the medium')
        cmd = host.admin.submit(FORMAT, nsid=SLOW, cdw10=1 | 1 << 9)
        t.ok(target.poll(is_erased), 'the erase has begun')
        tgt.kill()
        t.ok(not cmd.is_done, 'killed before the answer')
    tgt.start()
    with tgt.host() as host:
        conn = host.queue()
        t.eq(shape(host, SLOW), before, 'killed in the erase: the old format', FORMAT_SPEC)
        t.eq(bytes(conn.read(SLOW, 0, 8).data), bytes(4096), 'some of it is erased', FORMAT_SPEC)
        t.eq(bytes(conn.read(SLOW, last, 8).data), end, 'some of it is not', FORMAT_SPEC)
        t.status(conn.put(SLOW, 0, first), n.OK, 'and there is I/O', FORMAT_SPEC)
        t.status(host.admin.do(FORMAT, nsid=SLOW, cdw10=1 | 1 << 9), n.OK, 'format again',
                 FORMAT_SPEC)
        t.eq(shape(host, SLOW), (SLOW_BYTES >> 12, 1), 'now the new format', FORMAT_SPEC)
        for lba in (0, (SLOW_BYTES >> 12) - 1):
            t.eq(bytes(conn.read(SLOW, lba, 1, 4096).data), bytes(4096), 'and nothing is left',
                 FORMAT_SPEC)


def format_fails(t, tgt):
    with tgt.host() as host:
        conn = host.queue()
        before = shape(host, FAILING)
        t.status(host.admin.do(FORMAT, nsid=FAILING, cdw10=(1 - before[1]) | 1 << 9), WRITE_FAULT,
                 'format: the medium fails', FORMAT_SPEC)
        t.eq(shape(host, FAILING), before, 'format failed: the old format', FORMAT_SPEC)
        t.status(conn.read(FAILING, 0, 1), n.OK, 'format failed: I/O again', FORMAT_SPEC)
        t.status(host.admin.do(FORMAT, nsid=FAILING, cdw10=(1 - before[1]) | 1 << 9), n.OK,
                 'format: the second time it does not', FORMAT_SPEC)


def protection(t, tgt):
    with tgt.host() as host:
        temporary, permanent = create(host, 8), create(host, 8)
        for nsid in (temporary, permanent):
            attach(host, nsid)
        t.status(host.admin.set_feature(0x84, 2, nsid=temporary), n.OK, 'until power cycle',
                 PROTECT_SPEC)
        t.status(host.admin.set_feature(0x84, 0, nsid=temporary), NOT_CHANGEABLE,
                 'not before it', PROTECT_SPEC)
        t.status(delete(host, temporary), n.WRITE_PROTECTED, 'nor deleted', PROTECT_SPEC)
        t.status(host.admin.set_feature(0x84, 3, nsid=permanent), n.OK, 'permanent', PROTECT_SPEC)
        t.status(host.admin.set_feature(0x84, 0, nsid=permanent), NOT_CHANGEABLE, 'for good',
                 PROTECT_SPEC)
    restart(tgt)
    with tgt.host() as host:
        conn = host.queue()
        t.eq(host.admin.get_feature(0x84, nsid=temporary).dw0, 0, 'the next start ends it', PROTECT_SPEC)
        t.status(conn.put(temporary, 0, bytes(512)), n.OK, 'and it is writable', PROTECT_SPEC)
        t.eq(host.admin.get_feature(0x84, nsid=permanent).dw0, 3, 'permanent stays', PROTECT_SPEC)
        t.status(conn.put(permanent, 0, bytes(512)), n.WRITE_PROTECTED, 'and protects', PROTECT_SPEC)
        t.status(delete(host, ALL), n.WRITE_PROTECTED, 'no deletion of all either', PROTECT_SPEC)
        t.eq(len(files(tgt)), 3, 'and none of them is gone')


def api_of(tgt):
    return restapi.Client(os.path.join(tgt.folder, 'state', 'weft.sock'))


def ns_path(nsid):
    return '/v1/subsystems/%s/namespaces/%d' % (target.NQN, nsid)


def dropped(t, tgt):
    """Permanent protection, kept by UUID, outlives the namespace in the document."""
    api = api_of(tgt)
    with tgt.host() as host:
        nsid = create(host, 8)
        attach(host, nsid)
        host.admin.set_feature(0x84, 3, nsid=nsid)
        t.status(host.admin.do(FORMAT, nsid=nsid, cdw10=0), n.WRITE_PROTECTED,
                 'permanent: not formatted', PROTECT_SPEC)
    was = api.get(ns_path(nsid)).json
    del was['live']
    answer = api.delete(ns_path(nsid) + '?delete_data=true')
    t.eq(answer.status, 409, 'permanent: its data are not deleted by the administrator either')
    t.ok('write protected' in answer.json['error'], 'which says why', why=answer.json)
    answer = api.delete(ns_path(nsid))
    t.eq((answer.status, answer.json['data'], 'file:' + answer.json['file'] in was['media']),
         (200, 'kept', True), 'it can be left out of the document, and its data stay')
    path = ns_path(nsid).rsplit('/', 1)[0]
    for restarts in (False, True):
        if restarts:
            restart(tgt)
        answer = api.post(path, {key: was[key] for key in was if key != 'write_protect'})
        t.eq(answer.status, 400, 'the same UUID without a word on protection is refused',
             PROTECT_SPEC)
        t.ok('permanent' in answer.json['error'], 'which says why', why=answer.json)
    t.eq(api.post(path, was).status, 201, 'with it, it is taken')
    with tgt.host() as host:
        t.status(host.queue().put(nsid, 0, bytes(512)), n.WRITE_PROTECTED, 'and protects',
                 PROTECT_SPEC)
    answer = api.patch(ns_path(nsid), {'write_protect': 'none'})
    t.eq(answer.status, 200, 'the administrator lifts it in so many words')
    with tgt.host() as host:
        t.status(host.queue().put(nsid, 0, bytes(512)), n.OK, 'and hosts write again')
    for restarts in (False, True):
        if restarts:
            restart(tgt)
        api.delete(ns_path(nsid))
        answer = api.post(path, {key: was[key] for key in was if key != 'write_protect'})
        t.eq(answer.status, 201, 'lifted: nothing of it is remembered under the UUID')
    t.eq(api.violations, [], 'every answer is as docs/openapi.json describes it')


def deleted_by_api(t, tgt):
    """DELETE of a namespace leaves its file unless asked to delete it, which works only in the pool."""
    api = api_of(tgt)
    outside = os.path.join(tgt.folder, 'outside')
    inside = os.path.join(tgt.pool, 'named-by-hand.img')
    with tgt.host() as host:
        keep, drop = create(host, 8), create(host, 8)
    paths = {nsid: api.get(ns_path(nsid)).json['media'].split(':')[1].split(',')[0]
             for nsid in (keep, drop)}
    answer = api.delete(ns_path(keep))
    t.eq((answer.status, answer.json['data'], answer.json['file']), (200, 'kept', paths[keep]),
         'removed: its file stays, and the answer names it')
    t.ok(os.path.exists(paths[keep]), 'it does')
    answer = api.delete(ns_path(drop) + '?delete_data=true&dry_run=true')
    t.eq((answer.status, answer.json['applied'], os.path.exists(paths[drop])), (200, False, True),
         'a dry run deletes nothing')
    answer = api.delete(ns_path(drop) + '?delete_data=true')
    t.eq((answer.status, answer.json['data'], os.path.exists(paths[drop])), (200, 'deleted', False),
         'with delete_data the file goes too')
    path = ns_path(1).rsplit('/', 1)[0]
    for name, media in (('outside the pool', 'file:%s,size=1M' % outside), ('in memory', 'mem:1M'),
                        ('in the pool, but not made by it', 'file:%s,size=1M' % inside)):
        nsid = api.post(path, {'media': media}).json['nsid']
        answer = api.delete(ns_path(nsid) + '?delete_data=true')
        t.eq(answer.status, 409, 'delete_data: not ' + name)
        t.ok('without --delete-data' in answer.json['error'], 'which says what to do',
             why=answer.json)
        t.eq(api.get(ns_path(nsid)).status, 200, 'and the namespace is still there')
        answer = api.delete(ns_path(nsid))
        t.eq((answer.status, answer.json['data']), (200, 'none' if media == 'mem:1M' else 'kept'),
             'without it: removed')
    t.ok(os.path.exists(outside) and os.path.exists(inside), 'those files stay')
    for path in (paths[keep], inside):
        os.unlink(path)
    t.eq(api.delete(ns_path(99) + '?delete_data=true').status, 404, 'one that is not there')
    t.eq(api.delete(ns_path(1) + '?delete_data=maybe').status, 400, 'neither true nor false')
    t.eq(api.violations, [], 'every answer is as docs/openapi.json describes it')


def main():
    tap = Tap()
    tgt = None
    with tempfile.TemporaryDirectory(prefix='weft-pool-') as folder:
        try:
            with tap.guard('the test as a whole'):
                tgt = target.Target(
                    rights=target.ALL_RIGHTS,
                    namespaces=[target.namespace(1, 'mem:1M,block=512'),
                                target.namespace(FAILING, 'fault:fail:op=zero:count=1@mem:1M,block=512'),
                                target.namespace(SLOW, 'fault:delay:op=zero:ms=400@file:%s/slow,size=%d,block=512'
                                                 % (folder, SLOW_BYTES))],
                    pool={'folder': folder + '/pool', 'capacity': str(POOL)})
                tgt.pool = folder + '/pool'
                for part in (account, orphans, format_killed, format_killed_halfway, format_fails,
                             deleted_by_api, protection, dropped):
                    with tap.guard(part.__name__):
                        part(tap, tgt)
        finally:
            if tgt:
                tgt.finish(tap)
    raise SystemExit(tap.done())


main()
