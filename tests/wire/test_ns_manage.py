#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Namespace Management (create, delete), Namespace Attachment (attach, detach) and Format NVM: effects, notices to
hosts, commands in flight, survival of a kill, and the status of every error. NVMe Base 2.1, sections 5.1.10,
5.1.20, 5.1.21, 8.1.15; NVM Command Set 1.1, section 4.1.6.
"""

import os
import struct
import tempfile

import nvmetcp as n
import restapi
import target
from tap import Tap

MANAGEMENT, ATTACHMENT, FORMAT = 0x0d, 0x15, 0x80
CREATE, DELETE, ATTACH, DETACH = 0, 1, 0, 1
HOST_A = 'nqn.2014-08.org.nvmexpress:uuid:aaaaaaaa-0000-4000-8000-000000000001'
HOST_B = 'nqn.2014-08.org.nvmexpress:uuid:bbbbbbbb-0000-4000-8000-000000000002'
NS_NOTICE = 2 | 0x00 << 8 | 0x04 << 16
NS_BIT = 1 << 8
INVALID_FORMAT = (1, 0x0a)
INSUFFICIENT_CAPACITY = (1, 0x15)
ALREADY_ATTACHED = (1, 0x18)
IS_PRIVATE = (1, 0x19)
NOT_ATTACHED = (1, 0x1a)
THIN = (1, 0x1b)
LIST_INVALID = (1, 0x1c)
GROUP_INVALID = (1, 0x24)
ATTACH_FAILED = (1, 0x25)
SET_NOT_SUPPORTED = (1, 0x29)
OPERATION_DENIED = (0, 0x15)
FORMAT_IN_PROGRESS = (0, 0x84)
NOT_READY = (0, 0x82)
POOL = 64 << 20
ALL = 0xffffffff
CREATE_SPEC, ATTACH_SPEC, FORMAT_SPEC = 'Base 5.1.21', 'Base 5.1.20', 'Base 5.1.10'


def fields(nsze, ncap=None, flbas=0, dps=0, nmic=1, group=0, nvmset=0, endgid=0):
    page = bytearray(4096)
    struct.pack_into('<QQ', page, 0, nsze, nsze if ncap is None else ncap)
    page[26], page[29], page[30] = flbas, dps, nmic
    struct.pack_into('<I', page, 92, group)
    struct.pack_into('<HH', page, 100, nvmset, endgid)
    return bytes(page)


def create(host, page, csi=0, **kwargs):
    return host.admin.do(MANAGEMENT, data=page, cdw10=CREATE, cdw11=csi << 24, **kwargs)


def delete(host, nsid):
    return host.admin.do(MANAGEMENT, nsid=nsid, cdw10=DELETE)


def ctrl_list(*cntlids, count=None):
    page = struct.pack('<%dH' % (1 + len(cntlids)), len(cntlids) if count is None else count,
                       *cntlids)
    return page + bytes(4096 - len(page))


def attach(host, nsid, page, sel=ATTACH):
    return host.admin.do(ATTACHMENT, nsid=nsid, data=page, cdw10=sel)


def detach(host, nsid, page):
    return attach(host, nsid, page, DETACH)


def numbers(host, cns):
    return [nsid for nsid in struct.unpack('<1024I', bytes(host.admin.identify(cns, 0).data))
            if nsid]


def capacity(host):
    page = bytes(host.admin.identify(1).data)
    return struct.unpack_from('<Q', page, 280)[0], struct.unpack_from('<Q', page, 296)[0]


def wrong_fields(t, tgt):
    with tgt.host(hostnqn=HOST_A) as host:
        before = numbers(host, 0x10)
        rows = [
            ('no blocks', fields(0), n.INVALID_FIELD),
            ('NCAP above NSZE', fields(100, 101), n.INVALID_FIELD),
            ('NCAP below NSZE', fields(100, 99), THIN),
            ('NCAP 0', fields(100, 0), THIN),
            ('an LBA format that is not there', fields(100, flbas=2), INVALID_FORMAT),
            ('the last LBA format', fields(100, flbas=0x6f), INVALID_FORMAT),
            ('metadata inline', fields(100, flbas=0x10), INVALID_FORMAT),
            ('protection information', fields(100, dps=1), INVALID_FORMAT),
            ('reserved bits of NMIC', fields(100, nmic=2), n.INVALID_FIELD),
            ('an NVM set', fields(100, nvmset=1), n.INVALID_FIELD),
            ('an endurance group', fields(100, endgid=1), n.INVALID_FIELD),
            ('a group behind ANAGRPMAX', fields(100, group=1025), GROUP_INVALID),
            ('the last group there is', fields(100, group=0xffffffff), GROUP_INVALID),
            ('more than the pool has', fields(POOL // 512 + 1), INSUFFICIENT_CAPACITY),
            ('more than numbers hold', fields((1 << 64) - 1), INSUFFICIENT_CAPACITY),
            ('a size that overflows in bytes', fields(1 << 55, flbas=1), INSUFFICIENT_CAPACITY),
        ]
        for name, page, want in rows:
            t.status(create(host, page), want, 'create: ' + name, CREATE_SPEC)
        t.status(create(host, fields(100), csi=2), SET_NOT_SUPPORTED,
                 'create: another command set', CREATE_SPEC)
        t.status(create(host, fields(100), nsid=5), n.INVALID_FIELD, 'create: with an NSID',
                 CREATE_SPEC)
        t.status(create(host, fields(100)[:4092]), n.SGL_LENGTH, 'create: less than a page',
                 'Base 4.3.2')
        t.status(host.admin.do(MANAGEMENT, cdw10=2), n.INVALID_FIELD, 'an unknown operation',
                 CREATE_SPEC)
        for name, nsid, want in (('0', 0, n.INVALID_NS), ('unallocated', 999, n.INACTIVE_NS),
                                 ('behind NN', 99999, n.INVALID_NS)):
            t.status(delete(host, nsid), want, 'delete: NSID ' + name, CREATE_SPEC)
        t.status(delete(host, 1), OPERATION_DENIED, "delete: one of the administrator's",
                 CREATE_SPEC)
        t.eq(numbers(host, 0x10), before, 'nothing of all this changed anything')
    with tgt.host(n.DISCOVERY_NQN) as host:
        for opcode in (MANAGEMENT, ATTACHMENT, FORMAT):
            t.status(host.admin.do(opcode), n.INVALID_OPCODE,
                     'a discovery controller does not know %02xh' % opcode, 'Base 3.1.3.3')


def life(t, tgt):
    """Create, attach, use, grow the list of hosts, detach, delete."""
    with tgt.host(hostnqn=HOST_A) as a, tgt.host(hostnqn=HOST_B) as b:
        for host in (a, b):
            host.admin.set_feature(11, NS_BIT)
        total, unused = capacity(a)
        t.eq((total, unused), (POOL + (1 << 20), POOL),
             'TNVMCAP is the pool and the namespace outside of it, UNVMCAP the unused pool', 'Base 8.1.15')
        aer = a.admin.submit(n.AER)
        cmd = create(a, fields(2048, flbas=1, group=5))
        t.status(cmd, n.OK, 'create', CREATE_SPEC)
        nsid = cmd.dw0
        t.eq(nsid, 2, 'the lowest free NSID in DW0', CREATE_SPEC)
        t.eq(capacity(a), (POOL + (1 << 20), POOL - (8 << 20)), 'the pool has so much less', 'Base 8.1.15')
        t.ok(nsid in numbers(a, 0x10) and nsid not in numbers(a, 2),
             'it is allocated and not active', 'Base 3.2.1.3')
        conn_a, conn_b = a.queue(), b.queue()
        t.status(conn_a.read(nsid, 0, 1, 4096), n.INACTIVE_NS, 'no I/O before it is attached',
                 'Base 3.2.1')
        t.ok(not aer.is_done, 'nothing is told before it is attached', 'Base 5.1.2.1')
        t.status(detach(a, nsid, ctrl_list(a.cntlid)), NOT_ATTACHED, 'detach what is not attached',
                 ATTACH_SPEC)

        t.status(attach(a, nsid, ctrl_list(a.cntlid)), n.OK, 'attach', ATTACH_SPEC)
        a.admin.wait(aer)
        t.eq(aer.dw0, NS_NOTICE, 'attached: notice', 'Base 5.1.2.1')
        page = bytes(a.admin.identify(0, nsid).data)
        t.eq((struct.unpack_from('<Q', page)[0], page[26] & 15, struct.unpack_from('<I', page, 92)),
             (2048, 1, (5,)), 'Identify: size, format and group', 'NVM 4.1.5.1')
        data = n.pattern(4096, 3)
        t.eq((conn_a.put(nsid, 2047, data, 4096).status,
              bytes(conn_a.read(nsid, 2047, 1, 4096).data)), (n.OK, data), 'its last block is used')
        t.status(conn_b.read(nsid, 0, 1, 4096), n.INACTIVE_NS, 'not by another host', 'Base 3.2.1')
        t.status(attach(a, nsid, ctrl_list(a.cntlid)), ALREADY_ATTACHED, 'attach twice',
                 ATTACH_SPEC)

        both = ctrl_list(*sorted((a.cntlid, b.cntlid)))
        t.status(attach(a, nsid, both), ALREADY_ATTACHED, 'attach, one of two has it', ATTACH_SPEC)
        t.status(attach(a, nsid, ctrl_list(b.cntlid)), n.OK, 'attach to the other host',
                 ATTACH_SPEC)
        t.eq(bytes(conn_b.read(nsid, 2047, 1, 4096).data), data, 'which reads the same')
        with tgt.host(hostnqn=HOST_A) as again:
            t.ok(nsid in numbers(again, 2), 'a new controller of the host has it too')
        t.status(detach(a, nsid, ctrl_list(b.cntlid)), n.OK, 'detach', ATTACH_SPEC)
        t.status(conn_b.read(nsid, 0, 1, 4096), n.INACTIVE_NS, 'detached: no I/O', 'Base 3.2.1')

        tgt.kill()
    tgt.start()
    with tgt.host(hostnqn=HOST_A) as a, tgt.host(hostnqn=HOST_B) as b:
        t.ok(nsid in numbers(a, 2) and nsid not in numbers(b, 2), 'all of it survives a kill')
        t.eq(bytes(a.queue().read(nsid, 2047, 1, 4096).data), data, 'with its data')
        files = os.listdir(tgt.pool)
        t.status(delete(a, nsid), n.OK, 'delete', CREATE_SPEC)
        t.ok(nsid not in numbers(a, 0x10), 'it is gone', CREATE_SPEC)
        t.eq(capacity(a), (POOL + (1 << 20), POOL), 'the pool has all again', 'Base 8.1.15')
        t.ok(len(os.listdir(tgt.pool)) < len(files), 'and its file is removed')


def lists(t, tgt):
    with tgt.host(hostnqn=HOST_A) as host, tgt.host(n.DISCOVERY_NQN) as discovery:
        nsid = create(host, fields(100)).dw0
        own = host.cntlid
        rows = [
            ('an empty list', ctrl_list()),
            ('more than a list holds', ctrl_list(own, count=2048)),
            ('a controller that is not there', ctrl_list(own, 0xffee)),
            ('controller 0', ctrl_list(0)),
            ('a reserved identifier', ctrl_list(0xffff)),
            ('a discovery controller', ctrl_list(discovery.cntlid)),
            ('the same one twice', ctrl_list(own, own)),
            ('out of order', ctrl_list(own + 1, own)),
        ]
        for name, page in rows:
            for sel, what in ((ATTACH, 'attach'), (DETACH, 'detach')):
                t.status(attach(host, nsid, page, sel), LIST_INVALID, '%s: %s' % (what, name),
                         ATTACH_SPEC)
        for name, number, want in (('0', 0, n.INVALID_NS), ('FFFFFFFFh', ALL, n.INVALID_NS),
                                   ('unallocated', 999, n.INACTIVE_NS)):
            t.status(attach(host, number, ctrl_list(own)), want, 'attach: NSID ' + name,
                     ATTACH_SPEC)
        t.status(host.admin.do(ATTACHMENT, nsid=nsid, data=ctrl_list(own), cdw10=2),
                 n.INVALID_FIELD, 'attach: an unknown operation', ATTACH_SPEC)
        t.status(host.admin.do(ATTACHMENT, nsid=nsid, data=ctrl_list(own)[:8]), n.SGL_LENGTH,
                 'attach: less than a page', 'Base 4.3.2')
        t.ok(nsid not in numbers(host, 2), 'and it is attached to nobody')
        tgt_port(tgt, [{'group': 1, 'state': 'persistent-loss'}])
        t.status(attach(host, nsid, ctrl_list(own)), ATTACH_FAILED,
                 'attach: where its group is lost', 'Base 8.1.1.7')
        tgt_port(tgt, [])
        delete(host, nsid)


def tgt_port(tgt, ana):
    """By PATCH: a new document would lack the namespaces made since."""
    client = restapi.Client(os.path.join(tgt.folder, 'state', 'weft.sock'))
    assert client.patch('/v1/ports/1', {'ana': ana}).status == 200


def private(t, tgt):
    with tgt.host(hostnqn=HOST_A) as a, tgt.host(hostnqn=HOST_B) as b:
        nsid = create(a, fields(100, nmic=0)).dw0
        t.status(attach(a, nsid, ctrl_list(a.cntlid)), n.OK, 'a private one: attach', ATTACH_SPEC)
        t.eq(bytes(a.admin.identify(0, nsid).data)[30] & 1, 0, 'NMIC says so', 'NVM 4.1.5.1')
        t.status(attach(a, nsid, ctrl_list(b.cntlid)), IS_PRIVATE, 'attach to another host too',
                 ATTACH_SPEC)
        t.status(delete(b, nsid), n.INACTIVE_NS, 'a host that does not see it cannot delete it',
                 'Base 3.2.1')
        t.status(detach(a, nsid, ctrl_list(a.cntlid)), n.OK, 'detach', ATTACH_SPEC)
        t.status(attach(b, nsid, ctrl_list(b.cntlid)), n.OK, 'then the other host may have it',
                 ATTACH_SPEC)
        t.status(delete(b, nsid), n.OK, 'and delete it', CREATE_SPEC)


def under_io(t, tgt):
    """I/O in flight ends with a status when its namespace is detached or deleted."""
    with tgt.host(hostnqn=HOST_A) as host:
        conn = host.queue()
        for what in ('detach', 'delete'):
            nsid = create(host, fields(2048)).dw0
            attach(host, nsid, ctrl_list(host.cntlid))
            target.know(host, conn, nsid)
            owed = conn.rw(n.WRITE, nsid, 0, 64, 512, bytes(32768), way='r2t', is_auto=False)
            r2t = conn.wait_r2t(owed)
            reads = [conn.rw(n.READ, nsid, i, 8, 512) for i in range(32)]
            cmd = (detach(host, nsid, ctrl_list(host.cntlid)) if what == 'detach'
                   else delete(host, nsid))
            t.status(cmd, n.OK, what + ' with I/O under way', ATTACH_SPEC)
            for read in reads:
                conn.wait(read)
            conn.answer_r2t(owed, r2t)
            conn.wait(owed)
            t.ok(owed.is_done and all(read.is_done for read in reads),
                 what + ': every command was answered')
            t.status(conn.read(nsid, 0, 1), n.INACTIVE_NS, what + ': the next is refused',
                     'Base 3.2.1')
            if what == 'detach':
                t.status(delete(host, nsid), n.OK, 'and it can be deleted', CREATE_SPEC)
        for _ in range(3):
            nsid = create(host, fields(256)).dw0
            attach(host, nsid, ctrl_list(host.cntlid))
        t.status(delete(host, ALL), n.OK, 'delete all', CREATE_SPEC)
        t.eq(numbers(host, 0x10), [1], "leaves the administrator's", CREATE_SPEC)


def reach(t, tgt):
    """Hosts cannot change what the administrator configured or what other hosts own."""
    client = restapi.Client(os.path.join(tgt.folder, 'state', 'weft.sock'))
    path = '/v1/subsystems/' + target.NQN + '/namespaces'
    with tgt.host(hostnqn=HOST_A) as a, tgt.host(hostnqn=HOST_B) as b:
        for name, host in (('itself', a), ('another host', b)):
            t.status(detach(a, 1, ctrl_list(host.cntlid)), OPERATION_DENIED,
                     "detach one of the administrator's from " + name, ATTACH_SPEC)
        t.ok(1 in numbers(a, 2) and 1 in numbers(b, 2), 'both have it as before')
        client.post(path, {'nsid': 7, 'media': 'mem:1M', 'hosts': [HOST_A]})
        t.status(attach(a, 7, ctrl_list(b.cntlid)), OPERATION_DENIED,
                 "attach one of the administrator's to another host", ATTACH_SPEC)
        t.status(attach(b, 7, ctrl_list(b.cntlid)), n.INACTIVE_NS,
                 'attach what is hidden to itself', 'Base 3.2.1')
        t.ok(7 not in numbers(b, 0x10), 'it stays hidden')
        client.patch(path + '/1', {'hidden_from': [HOST_B]})
        t.status(attach(b, 1, ctrl_list(b.cntlid)), n.INACTIVE_NS, 'undo "hidden_from"',
                 'Base 3.2.1')
        t.status(attach(a, 1, ctrl_list(b.cntlid)), OPERATION_DENIED, 'nor for another host',
                 ATTACH_SPEC)
        t.ok(1 not in numbers(b, 2), 'it stays hidden')
        client.patch(path + '/1', {'hidden_from': None})

        mine, its, free = [create(a, fields(64)).dw0 for _ in range(3)]
        attach(a, mine, ctrl_list(a.cntlid))
        attach(a, its, ctrl_list(b.cntlid))
        client.patch('%s/%d' % (path, free), {'hidden_from': [HOST_B]})
        t.status(attach(a, free, ctrl_list(b.cntlid)), OPERATION_DENIED,
                 'attach one of the pool to a host that it is hidden from', ATTACH_SPEC)
        t.status(attach(b, mine, ctrl_list(b.cntlid)), n.INACTIVE_NS,
                 "attach another host's of the pool", 'Base 3.2.1')
        t.status(delete(b, free), n.INVALID_NS, 'delete one that is hidden', 'Base 3.2.1')
        t.status(delete(b, ALL), n.OK, 'delete all', CREATE_SPEC)
        left = [ns['nsid'] for ns in client.get(path).json['namespaces']]
        t.eq(left, sorted([1, 7, mine, free]), 'takes what the host has, or nobody, and no more',
             CREATE_SPEC)
        t.status(delete(a, ALL), n.OK, 'delete all, by the other one', CREATE_SPEC)
        client.delete(path + '/7')
        t.eq(numbers(a, 0x10), [1], 'takes the rest', CREATE_SPEC)


def formats(t, tgt):
    with tgt.host(hostnqn=HOST_A) as host:
        admin, conn = host.admin, host.queue()
        admin.set_feature(11, NS_BIT)
        nsid = create(host, fields(4096)).dw0
        attach(host, nsid, ctrl_list(host.cntlid))
        host.admin.get_log(4, 4096)
        data = n.pattern(4096, 9)
        conn.put(nsid, 0, data)
        rows = [
            ('an LBA format that is not there', 2, INVALID_FORMAT),
            ('an LBA format above 15', 0x1000, INVALID_FORMAT),
            ('metadata inline', 1 << 4, INVALID_FORMAT),
            ('protection information', 1 << 5, INVALID_FORMAT),
            ('its place', 1 << 8, INVALID_FORMAT),
            ('cryptographic erase', 2 << 9, n.INVALID_FIELD),
            ('a reserved erase', 7 << 9, n.INVALID_FIELD),
        ]
        for name, cdw10, want in rows:
            t.status(admin.do(FORMAT, nsid=nsid, cdw10=cdw10), want, 'format: ' + name, FORMAT_SPEC)
        for name, number, want in (('0', 0, n.INVALID_NS), ('inactive', 999, n.INACTIVE_NS),
                                   ('behind NN', 16385, n.INVALID_NS)):
            t.status(admin.do(FORMAT, nsid=number), want, 'format: NSID ' + name, FORMAT_SPEC)
        t.eq(bytes(conn.read(nsid, 0, 8).data), data, 'nothing of all this touched the data')

        aer = admin.submit(n.AER)
        t.status(admin.do(FORMAT, nsid=nsid, cdw10=1 | 1 << 9), n.OK,
                 'format: 4096 byte blocks, user data erased', FORMAT_SPEC)
        admin.wait(aer)
        t.eq(aer.dw0, NS_NOTICE, 'format: notice', 'Base 5.1.2.1')
        page = bytes(admin.identify(0, nsid).data)
        t.eq((struct.unpack_from('<Q', page)[0], page[26] & 15), (512, 1),
             'format: Identify tells the new blocks', 'NVM 4.1.5.1')
        t.eq(bytes(conn.read(nsid, 0, 1, 4096).data), bytes(4096), 'format: the data are erased',
             FORMAT_SPEC)
        t.status(conn.read(nsid, 511, 1, 4096), n.OK, 'format: the last block', 'NVM 4.1.5.1')
        t.status(conn.read(nsid, 512, 1, 4096), n.LBA_RANGE, 'format: and none behind it',
                 'NVM 4.1.5.1')
        conn.put(nsid, 3, n.pattern(4096, 4), 4096)
        t.status(admin.set_feature(0x84, 1, nsid=nsid), n.OK, 'write protect it', 'Base 8.1.16')
        t.status(admin.do(FORMAT, nsid=nsid, cdw10=0), n.WRITE_PROTECTED,
                 'format: a protected one is refused', 'Base 8.1.16')
        t.status(admin.set_feature(0x84, 0, nsid=nsid), n.OK, 'and no longer', 'Base 8.1.16')
        owed = conn.rw(n.WRITE, nsid, 0, 8, 4096, bytes(32768), way='r2t', is_auto=False)
        r2t = conn.wait_r2t(owed)
        cmd = admin.submit(FORMAT, nsid=nsid, cdw10=0)
        refused = target.poll(lambda: conn.read(nsid, 0, 1, 4096).status == FORMAT_IN_PROGRESS)
        t.ok(refused, 'format with I/O under way: new I/O gets Format in Progress', FORMAT_SPEC)
        t.status(admin.do(FORMAT, nsid=nsid, cdw10=1), FORMAT_IN_PROGRESS,
                 'and a second Format too', FORMAT_SPEC)
        t.ok(not cmd.is_done, 'it waits for what is under way')
        conn.answer_r2t(owed, r2t)
        conn.wait(owed)
        admin.wait(cmd)
        t.status(cmd, n.OK, 'and ends well', FORMAT_SPEC)
        t.status(conn.read(nsid, 4095, 1), n.OK, 'then there is I/O again', FORMAT_SPEC)
        delete(host, nsid)


def format_all(t, tgt):
    """NSID FFFFFFFFh formats every namespace that the host sees, to its last block, and no other."""
    blocks = 4096
    marks = (0, blocks // 2, blocks - 8)
    with tgt.host(hostnqn=HOST_A) as host, tgt.host(hostnqn=HOST_B, hostid=bytes(range(16))) as other:
        admin, conn, there = host.admin, host.queue(), other.queue()
        mine = [create(host, fields(blocks)).dw0 for _ in range(3)]
        foreign = create(other, fields(blocks)).dw0
        for nsid in mine:
            attach(host, nsid, ctrl_list(host.cntlid))
        attach(other, foreign, ctrl_list(other.cntlid))

        def fill():
            for nsid in mine:
                for at in marks:
                    conn.put(nsid, at, n.pattern(4096, nsid + at))
            there.put(foreign, 0, n.pattern(4096, foreign))
            conn.put(1, 0, n.pattern(4096, 1))

        def kept(nsid, at, queue=conn):
            return bytes(queue.read(nsid, at, 8).data) == n.pattern(4096, nsid + at)

        def is_zero(nsid, at):
            return bytes(conn.read(nsid, at, 8).data) == bytes(4096)

        fill()
        t.status(admin.set_feature(0x84, 1, nsid=mine[1]), n.OK, 'write protect one', 'Base 8.1.16')
        t.status(admin.do(FORMAT, nsid=ALL, cdw10=1 << 9), n.WRITE_PROTECTED,
                 'format all: one that is protected refuses all', FORMAT_SPEC)
        t.ok(all(kept(nsid, at) for nsid in mine for at in marks) and kept(1, 0),
             'format all, refused: nothing is erased', FORMAT_SPEC)
        admin.set_feature(0x84, 0, nsid=mine[1])
        t.status(admin.do(FORMAT, nsid=ALL, cdw10=0), n.OK, 'format all, without erasing', FORMAT_SPEC)
        t.status(admin.do(FORMAT, nsid=ALL, cdw10=1 << 9), n.OK, 'format all, erasing', FORMAT_SPEC)
        t.eq([(nsid, at) for nsid in mine for at in marks if not is_zero(nsid, at)], [],
             'format all: each of them is erased, to its end', FORMAT_SPEC)
        t.ok(is_zero(1, 0), 'format all: one that was there before too', FORMAT_SPEC)
        t.ok(kept(foreign, 0, there), 'format all: one of another host is not', FORMAT_SPEC)
        fill()
        t.status(admin.do(FORMAT, nsid=ALL, cdw10=1 | 1 << 9), n.OK, 'format all: other blocks', FORMAT_SPEC)
        t.eq([bytes(admin.identify(0, nsid).data)[26] & 15 for nsid in mine + [1]], [1] * 4,
             'format all: each of them has the new blocks', FORMAT_SPEC)
        t.eq(bytes(other.admin.identify(0, foreign).data)[26] & 15, 0,
             'format all: one of another host has its own', FORMAT_SPEC)
        t.status(admin.do(FORMAT, nsid=1), n.OK, 'and one of them back', FORMAT_SPEC)
        for nsid in mine:
            delete(host, nsid)
        delete(other, foreign)


def format_in_pieces(t, tgt):
    """The target erases 16 MiB at a time; the last piece ends where the namespace ends."""
    piece = 16 << 20
    with tgt.host(hostnqn=HOST_A) as host:
        conn = host.queue()
        for size in (piece - 4096, piece, piece + 4096, 2 * piece):
            nsid = create(host, fields(size // 512)).dw0
            attach(host, nsid, ctrl_list(host.cntlid))
            target.know(host, conn, nsid)
            marks = sorted({at // 512 for at in (0, piece - 4096, piece, size - 4096) if at < size})
            for at in marks:
                conn.put(nsid, at, n.pattern(4096, at))
            t.status(host.admin.do(FORMAT, nsid=nsid, cdw10=1 << 9), n.OK, 'format of %d bytes' % size, FORMAT_SPEC)
            t.eq([at for at in marks if bytes(conn.read(nsid, at, 8).data) != bytes(4096)], [],
                 'format of %d bytes: all is erased' % size, FORMAT_SPEC)
            delete(host, nsid)


def unseen_format(t, tgt):
    """A host that has not read a new format cannot erase blocks: its LBAs mean other blocks."""
    with tgt.host(hostnqn=HOST_A) as a, tgt.host(hostnqn=HOST_B) as b:
        nsid = create(a, fields(4096)).dw0
        attach(a, nsid, ctrl_list(a.cntlid, b.cntlid))
        conns = {'the host that formats': (a, a.queue()), 'another host': (b, b.queue())}
        for who, (host, conn) in conns.items():
            host.admin.identify(0, nsid)
            t.status(conn.wait(conn.rw(n.WRITE_ZEROES, nsid, 0, 1, 512)), n.OK, who + ': Write Zeroes')
        for lbaf, block in ((1, 4096), (0, 512)):
            t.status(a.admin.do(FORMAT, nsid=nsid, cdw10=lbaf), n.OK, 'format', FORMAT_SPEC)
            for who, (host, conn) in conns.items():
                data = struct.pack('<IIQ', 0, 1, 0)
                entry = struct.pack('<8xQH14x', 1, 0)
                asked = {
                    'Write Zeroes': lambda: conn.wait(conn.rw(n.WRITE_ZEROES, nsid, 0, 1, block)),
                    'Verify': lambda: conn.wait(conn.rw(n.VERIFY, nsid, 0, 1, block)),
                    'Write Uncorrectable': lambda: conn.wait(conn.rw(n.WRITE_UNCORRECTABLE, nsid, 0, 1, block)),
                    'Dataset Management': lambda: conn.do(n.DSM, nsid, data=data, cdw11=4),
                    'Copy': lambda: conn.do(n.COPY, nsid, data=entry, cdw10=0),
                }
                for name, ask in asked.items():
                    t.status(ask(), NOT_READY, '%s, before Identify: %s' % (who, name), 'Base 5.1.2.1')
                other = 4608 - block
                t.status(conn.read(nsid, 0, 1, other), n.SGL_LENGTH, who + ': a Read betrays itself', 'Base 4.3.2')
                host.admin.identify(3, nsid)
                t.status(asked['Verify'](), NOT_READY, who + ': descriptors tell no format', 'Base 5.1.13')
                host.admin.identify(0, nsid)
                for name, ask in asked.items():
                    t.status(ask(), n.OK, '%s, after Identify: %s' % (who, name), 'NVM 3.3')
        delete(a, nsid)
        with tgt.host(hostnqn=HOST_B) as late:
            conn = late.queue()
            t.status(conn.wait(conn.rw(n.WRITE_ZEROES, 1, 0, 1, 512)), n.OK, 'what never changed needs no Identify')


def test(t, tgt):
    for part in (wrong_fields, life, lists, private, under_io, reach, formats, format_all, format_in_pieces,
                 unseen_format):
        with t.guard(part.__name__):
            part(t, tgt)


def main():
    tap = Tap()
    pool = tempfile.TemporaryDirectory(prefix='weft-pool-')
    tgt = None
    try:
        with tap.guard('the test as a whole'):
            tgt = target.Target(rights=target.ALL_RIGHTS, namespaces=[target.namespace(1, 'mem:1M,block=512')],
                                pool={'folder': pool.name, 'capacity': str(POOL)})
            tgt.pool = pool.name
            test(tap, tgt)
    finally:
        if tgt:
            tgt.finish(tap)
        pool.cleanup()
    raise SystemExit(tap.done())


main()
