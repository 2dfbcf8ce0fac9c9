#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Namespaces that grow while they are served, on files and in memory: hosts get a notice, Identify has the new size,
the last new block works and the block after it does not. Shrinking is refused and changes nothing. A block size
changes. A file is truncated under the target: lost blocks fail with a status, the rest is served. NVMe Base 2.1,
sections 5.1.2.1, 5.1.13; NVM 4.1.5.1.
"""

import os
import signal
import struct
import tempfile

import nvmetcp as n
import target
from tap import Tap

BLOCK = 4096
NS_NOTICE, NS_BIT = 2 | 0x04 << 16, 1 << 8
MIB = 1 << 20
BLOCKS_PER_MIB = MIB // BLOCK
NOTICE = 'Base 5.1.2.1'
SIZE = 'NVM 4.1.5.1'
FOLDER = tempfile.mkdtemp(prefix='weft-resize-')


def spec(nsid, mib, options=''):
    if nsid == 1:
        return 'file:%s/one.img,size=%dM%s' % (FOLDER, mib, options)
    if nsid == 2:
        return 'mem:%dM%s' % (mib, options)
    if nsid == 3:
        return 'null:%dM%s' % (mib, options)
    return 'fault:delay:ms=1:count=1@mem:%dM%s' % (mib, options)


def spaces(mib):
    return [target.namespace(nsid, spec(nsid, mib)) for nsid in (1, 2, 3, 4)]


def set_media(nsid, text):
    def change(config):
        for ns in config['subsystems'][0]['namespaces']:
            if ns['nsid'] == nsid:
                ns['media'] = text
    return change


def nsze(host, nsid):
    return struct.unpack_from('<Q', bytes(host.admin.identify(0, nsid).data))[0]


def changed(host):
    return [nsid for nsid in struct.unpack('<1024I', bytes(host.admin.get_log(4, 4096).data))
            if nsid]


def ends_at(t, conn, nsid, blocks, name):
    t.status(conn.put(nsid, blocks - 1, n.pattern(BLOCK, nsid), BLOCK), n.OK,
             name + ': the last block can be written', SIZE)
    cmd = conn.read(nsid, blocks - 1, 1, BLOCK)
    want = n.pattern(BLOCK, nsid) if nsid != 3 else bytes(BLOCK)
    t.eq((cmd.status, bytes(cmd.data)), (n.OK, want), name + ': and read back', SIZE)
    t.status(conn.read(nsid, blocks, 1, BLOCK), n.LBA_RANGE, name + ': the one behind it not', SIZE, 1)
    t.status(conn.read(nsid, blocks - 1, 2, BLOCK), n.LBA_RANGE, name + ': nor both', SIZE, 1)


def grows(t, tgt, host, conn):
    for nsid in (1, 2, 3, 4):
        name = 'namespace %d' % nsid
        ends_at(t, conn, nsid, BLOCKS_PER_MIB, name)
        t.status(conn.put(nsid, 7, n.pattern(BLOCK, 70 + nsid), BLOCK), n.OK, name + ': a block', SIZE)
        uuid = bytes(host.admin.identify(3, nsid).data)
        aer = host.admin.submit(n.AER)
        tgt.reload(set_media(nsid, spec(nsid, 3)))
        host.admin.wait(aer)
        t.eq((aer.dw0, changed(host)), (NS_NOTICE, [nsid]), name + ' grows: hosts hear of it', NOTICE)
        t.eq(nsze(host, nsid), 3 * BLOCKS_PER_MIB, name + ': Identify has the new size', SIZE)
        t.eq(bytes(host.admin.identify(3, nsid).data), uuid, name + ': it is the same namespace',
             'Base 5.1.13.2.3')
        ends_at(t, conn, nsid, 3 * BLOCKS_PER_MIB, name + ', grown')
        cmd = conn.read(nsid, 7, 1, BLOCK)
        want = n.pattern(BLOCK, 70 + nsid) if nsid != 3 else bytes(BLOCK)
        t.eq((cmd.status, bytes(cmd.data)), (n.OK, want), name + ', grown: the data is there', SIZE)
        if nsid != 3:
            cmd = conn.read(nsid, 2 * BLOCKS_PER_MIB, 1, BLOCK)
            t.eq((cmd.status, bytes(cmd.data)), (n.OK, bytes(BLOCK)),
                 name + ', grown: what is new reads as zeroes', SIZE)
    t.eq(os.path.getsize(FOLDER + '/one.img'), 3 * MIB, 'the file has grown')


def never_shrinks(t, tgt, host, conn):
    before = tgt.config
    for nsid in (1, 2):
        seen = tgt.log().count('shrink to %d' % MIB)
        tgt.config = dict(before)
        config = {**before, 'subsystems': [dict(before['subsystems'][0])]}
        config['subsystems'][0]['namespaces'] = [dict(ns) for ns in
                                                 before['subsystems'][0]['namespaces']]
        set_media(nsid, spec(nsid, 1))(config)
        tgt.config = config
        tgt.write_config()
        tgt.process.send_signal(signal.SIGHUP)
        t.ok(target.poll(lambda: tgt.log().count('shrink to %d' % MIB) > seen),
             'namespace %d: shrinking is refused, by name' % nsid, why=tgt.log()[-2000:])
        t.eq(nsze(host, nsid), 3 * BLOCKS_PER_MIB, 'namespace %d: and changes nothing' % nsid, SIZE)
        t.status(conn.read(nsid, 3 * BLOCKS_PER_MIB - 1, 1, BLOCK), n.OK,
                 'namespace %d: its end is where it was' % nsid, SIZE)
    tgt.config = before
    tgt.write_config()


def block_size(t, tgt, host, conn):
    for nsid in (1, 2):
        tgt.reload(set_media(nsid, spec(nsid, 3, ',block=512')))
        name = 'namespace %d, blocks of 512 bytes' % nsid
        changed(host)
        t.eq(nsze(host, nsid), 3 * MIB // 512, name + ': Identify', SIZE)
        cmd = conn.read(nsid, 7 * 8, 8, 512)
        t.eq((cmd.status, bytes(cmd.data)), (n.OK, n.pattern(BLOCK, 70 + nsid)),
             name + ': the same data', SIZE)
        t.status(conn.put(nsid, 3 * MIB // 512 - 1, bytes(512), 512), n.OK, name + ': the last', SIZE)
        t.status(conn.read(nsid, 3 * MIB // 512, 1, 512), n.LBA_RANGE, name + ': and no more', SIZE, 1)
        tgt.reload(set_media(nsid, spec(nsid, 3)))
        changed(host)


def cut_file(t, tgt, host, conn):
    for nsid, lba in ((1, 0), (1, 8)):
        conn.put(nsid, lba, n.pattern(BLOCK, lba), BLOCK)
    os.truncate(FOLDER + '/one.img', 8 * BLOCK + 1000)
    cmd = conn.read(1, 0, 1, BLOCK)
    t.eq((cmd.status, bytes(cmd.data)), (n.OK, n.pattern(BLOCK, 0)), 'cut: what is left is served')
    for name, lba, count in (('the block with the cut', 8, 1), ('one behind it', 9, 1),
                             ('the last one', 3 * BLOCKS_PER_MIB - 1, 1),
                             ('a range over the cut', 4, 8)):
        t.status(conn.read(1, lba, count, BLOCK), n.UNRECOVERED_READ, 'cut: ' + name,
                 'NVM 3.2.4')
    # A write would make the file longer again, with a hole in place of data.
    t.status(conn.put(1, 100, n.pattern(BLOCK, 1), BLOCK), n.WRITE_FAULT, 'cut: no write', 'NVM 3.3.6')
    for lba in (9, 100):
        t.status(conn.read(1, lba, 1, BLOCK), n.UNRECOVERED_READ, 'cut: behind it nothing is back',
                 'NVM 3.2.4')
    t.status(conn.read(2, 0, 1, BLOCK), n.OK, 'cut: other namespaces do not notice')


def test(t, tgt):
    with tgt.host() as host:
        host.admin.set_feature(11, NS_BIT)
        conn = host.queue()
        grows(t, tgt, host, conn)
        never_shrinks(t, tgt, host, conn)
        block_size(t, tgt, host, conn)
        cut_file(t, tgt, host, conn)


try:
    target.run(Tap(), test, namespaces=spaces(1))
finally:
    for name in os.listdir(FOLDER):
        os.unlink(os.path.join(FOLDER, name))
    os.rmdir(FOLDER)
