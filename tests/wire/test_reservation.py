#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Reservations: Register, Acquire, Release, Report by two to four hosts on two reactors, conflicts on
every queue as soon as a command is answered, Preempt and Abort, notifications with their log page
(80h) and mask (82h), persistence (83h) through a kill of the target, and a thousand registrants.
NVMe Base 2.1, sections 7.6 to 7.9, 8.1.22, 5.1.12.1.31, 5.1.25.1.28 and 5.1.25.1.29.
"""

import struct

import nvmetcp as n
import target
from tap import Tap

REGISTER, REPORT, ACQUIRE, RELEASE = 0x0d, 0x0e, 0x11, 0x15
VERIFY, COPY, WRITE_UNCORRECTABLE = 0x0c, 0x19, 0x04
WE, EA, WERO, EARO, WEAR, EAAR = range(1, 7)
KEEP, OFF, ON = 0, 2, 3
CONFLICT = (0, 0x83)
HOST_ID_FORMAT = (0, 0x18)
HOST_ID_MISSING = (0, 0x27)
ABORT_PREEMPT = (0, 0x1b)
NOTICE = 6 | 0 << 8 | 0x80 << 16
PREEMPTED, RELEASED, CLEARED = 1, 2, 3
SPEC = 'Base 8.1.22'
SLOW, PLAIN = 3, 2
REPLACED = 4
SLOW_MS = 3600000  # an hour: longer than any test
DYNAMIC = 0xffff  # CNTLID of entries: the controllers are dynamic
# No NSID, a missing one, an invalid one.
WRONG_NSIDS = ((0, n.INVALID_NS), (9, n.INVALID_FIELD), (0xfffffffe, n.INVALID_NS))


def host_id(number):
    return struct.pack('<IQI', number, 0xfeed, 0xbeef)


def nqn(number):
    return 'nqn.2026-11.io.weft:host-%d' % number


def key(number):
    return 0xabc000 + number


class Peer:
    """A host with two I/O queues on different reactors."""

    def __init__(self, tgt, number, queues=2):
        self.number = number
        self.host = tgt.host(hostnqn=nqn(number), hostid=host_id(number))
        self.admin = self.host.admin
        self.queues = [self.host.queue(qid + 1) for qid in range(queues)]
        self.conn = self.queues[0]

    def register(self, nsid=1, action=0, crkey=0, nrkey=None, iekey=0, cptpl=KEEP, conn=None,
                 **more):
        data = struct.pack('<QQ', crkey, key(self.number) if nrkey is None else nrkey)
        return (conn or self.conn).do(REGISTER, nsid, data=more.pop('data', data),
                                      cdw10=action | iekey << 3 | cptpl << 30, **more)

    def unregister(self, nsid=1, **more):
        return self.register(nsid, 1, key(self.number), 0, **more)

    def submit_acquire(self, rtype, nsid=1, action=0, crkey=None, prkey=0, iekey=0, **more):
        data = struct.pack('<QQ', key(self.number) if crkey is None else crkey, prkey)
        return self.conn.submit(ACQUIRE, nsid, data=more.pop('data', data),
                                cdw10=action | iekey << 3 | rtype << 8, **more)

    def acquire(self, rtype, nsid=1, **more):
        return self.conn.wait(self.submit_acquire(rtype, nsid, **more))

    def preempt(self, rtype, victim, nsid=1, **more):
        return self.acquire(rtype, nsid, action=1, prkey=victim, **more)

    def release(self, rtype, nsid=1, action=0, crkey=None, iekey=0, pad=b''):
        data = struct.pack('<Q', key(self.number) if crkey is None else crkey) + pad
        return self.conn.do(RELEASE, nsid, data=data, cdw10=action | iekey << 3 | rtype << 8)

    def clear(self, nsid=1):
        return self.release(0, nsid, 1)

    def report(self, nsid=1, length=4096, eds=1):
        return self.conn.do(REPORT, nsid, read_bytes=length, cdw10=length // 4 - 1, cdw11=eds)

    def log(self, **more):
        page = bytes(self.admin.get_log(0x80, 64, **more).data)
        return struct.unpack_from('<QBBxxI', page)

    def write(self, nsid=1, conn=None):
        return (conn or self.conn).put(nsid, 0, bytes(512))

    def read(self, nsid=1, conn=None):
        return (conn or self.conn).read(nsid, 0, 1)

    def close(self):
        self.host.close()


def parse(cmd):
    """Generation, type, persistence, {host number: (holder, key, [controllers])}."""
    data = bytes(cmd.data)
    generation, rtype, count, ptpls = struct.unpack_from('<IBHxxB', data)
    hosts = {}
    for i in range(min(count, (len(data) - 64) // 64)):
        cntlid, status, rkey, hostid = struct.unpack_from('<HB5xQ16s', data, 64 + 64 * i)
        number = struct.unpack_from('<I', hostid)[0]
        old = hosts.get(number, (0, 0, []))
        hosts[number] = (status, rkey, old[2] + [cntlid])
    return generation, rtype, ptpls, hosts


def nothing_came(conn, cmd):
    conn.do(n.KEEP_ALIVE)
    return not cmd.is_done


def identify(t, tgt):
    a = Peer(tgt, 1)
    page = bytes(a.admin.identify(1).data)
    t.ok(struct.unpack_from('<H', page, 520)[0] & 1 << 5, 'ONCS: reservations', 'Base 5.1.13.2.1')
    t.ok(struct.unpack_from('<I', page, 96)[0] & 1, 'CTRATT: 128-bit host identifiers',
         'Base 5.1.13.2.1')
    t.eq(a.admin.identify(0, 1).data[31], 0xff, 'RESCAP: all types, PTPL, IEKEY of 1.3',
         'NVM 4.1.5.1')
    a.close()


def refused(t, tgt):
    a = Peer(tgt, 1)
    for nsid, want in ((0, n.INVALID_NS), (9, n.INACTIVE_NS), (0xffffffff, n.INVALID_NS)):
        t.status(a.register(nsid), want, 'Register: NSID %Xh' % nsid, SPEC, 1)
        t.status(a.acquire(WE, nsid), want, 'Acquire: NSID %Xh' % nsid, SPEC, 1)
        t.status(a.release(WE, nsid), want, 'Release: NSID %Xh' % nsid, SPEC, 1)
        t.status(a.report(nsid), want, 'Report: NSID %Xh' % nsid, SPEC, 1)
    for action in (3, 7):
        t.status(a.register(action=action), n.INVALID_FIELD, 'RREGA %d' % action, 'Base 7.7')
        t.status(a.acquire(WE, action=action), n.INVALID_FIELD, 'RACQA %d' % action, 'Base 7.6')
        t.status(a.release(WE, action=action), n.INVALID_FIELD, 'RRELA %d' % action, 'Base 7.8')
    t.status(a.register(cptpl=1), n.INVALID_FIELD, 'CPTPL 1', 'Base 7.7')
    t.status(a.register(nrkey=0), n.INVALID_FIELD, 'a key of 0', SPEC)
    t.status(a.acquire(WE), CONFLICT, 'Acquire by a host that is not registered', SPEC, 1)
    t.status(a.release(WE), CONFLICT, 'Release by one', SPEC, 1)
    t.status(a.clear(), CONFLICT, 'Clear by one', SPEC, 1)
    t.status(a.preempt(WE, 5), CONFLICT, 'Preempt by one', SPEC, 1)
    t.status(a.unregister(), CONFLICT, 'Unregister by one', SPEC, 1)
    for length in (8, 15, 17, 32):
        t.status(a.register(data=bytes(length)), n.SGL_LENGTH, 'Register: %d bytes' % length,
                 'Base 4.2.3.1')
        t.status(a.acquire(WE, data=bytes(length)), n.SGL_LENGTH, 'Acquire: %d bytes' % length,
                 'Base 4.2.3.1')
    nobody = tgt.host(hostnqn=nqn(9), hostid=bytes(16))
    conn = nobody.queue(1)
    for name, opcode, length in (('Register', REGISTER, 16), ('Acquire', ACQUIRE, 16),
                                 ('Release', RELEASE, 8)):
        t.status(conn.do(opcode, 1, data=bytes(length), cdw10=WE << 8), HOST_ID_MISSING,
                 name + ' by a host without an identifier', SPEC, 1)
    nobody.close()
    t.status(a.report(eds=0), HOST_ID_FORMAT, 'Report without EDS', 'Base 7.9', 1)
    t.status(a.report(length=1 << 20), n.INVALID_FIELD, 'Report beyond MDTS', 'Base 7.9')
    t.eq(parse(a.report()), (0, 0, 0, {}), 'refused commands change nothing', SPEC)
    t.status(a.register(), n.OK, 'Register', SPEC)
    for rtype in (0, 7, 255):
        t.status(a.acquire(rtype), n.INVALID_FIELD, 'Acquire: RTYPE %d' % rtype, 'Base 7.6')
    t.status(a.acquire(WE, iekey=1), n.INVALID_FIELD, 'Acquire: IEKEY', 'Base 7.6')
    t.status(a.acquire(WE, crkey=1), CONFLICT, 'Acquire: a wrong key', SPEC)
    t.status(a.release(WE, iekey=1), n.INVALID_FIELD, 'Release: IEKEY', 'Base 7.8')
    t.status(a.release(WE, crkey=1), CONFLICT, 'Release: a wrong key', SPEC)
    t.status(a.preempt(WE, 0), n.INVALID_FIELD, 'Preempt of key 0, not of all registrants', SPEC)
    t.status(a.preempt(WE, 77), CONFLICT, 'Preempt of a key that nobody has', SPEC)
    t.eq(parse(a.report()), (1, 0, 0, {1: (0, key(1), [DYNAMIC])}), 'nor do these', SPEC)
    t.status(a.release(WE, pad=bytes(8)), n.OK, 'Release: room for a second key', 'Base 7.8')
    a.unregister()
    a.close()


def registering(t, tgt):
    a, b = Peer(tgt, 1), Peer(tgt, 2)
    second = tgt.host(hostnqn=nqn(1), hostid=host_id(1))
    start = parse(a.report())[0]
    t.status(a.register(), n.OK, 'Register', SPEC)
    t.status(a.register(conn=a.queues[1]), n.OK, 'again with the same key', SPEC)
    t.status(a.register(nrkey=5), CONFLICT, 'again with another key', SPEC)
    t.eq(parse(b.report()), (start + 2, 0, 0, {1: (0, key(1), [DYNAMIC])}),
         'Report: one entry for the host, which has two controllers', 'Base 7.9')
    second.close()
    t.status(a.register(nrkey=5, iekey=1), CONFLICT, 'IEKEY: another key needs Replace', 'Base 7.7')
    t.status(a.register(action=2, crkey=6, nrkey=7), CONFLICT, 'Replace with a wrong key', SPEC)
    t.status(a.register(action=2, crkey=key(1), nrkey=7), n.OK, 'Replace', SPEC)
    t.status(a.register(action=2, crkey=6, nrkey=key(1), iekey=1), n.OK, 'Replace with IEKEY',
             'Base 7.7')
    t.status(b.register(action=2, crkey=key(2)), CONFLICT, 'Replace by one that is not registered',
             SPEC)
    t.status(b.register(action=2, crkey=6, iekey=1), n.OK, 'with IEKEY that registers it',
             'Base 8.1.22.3')
    a.close()
    want = {1: (0, key(1), [DYNAMIC]), 2: (0, key(2), [DYNAMIC])}
    t.eq(parse(b.report())[3], want, 'a registration survives its controllers', 'Base 7.9')
    short = b.report(length=64 + 64)
    t.eq((struct.unpack_from('<H', bytes(short.data), 5)[0], len(parse(short)[3])), (2, 1),
         'Report into little room: the count is whole', 'Base 7.9')
    t.status(b.report(length=4), n.OK, 'Report of one dword', 'Base 7.9')
    a = Peer(tgt, 1)
    t.status(a.unregister(), n.OK, 'Unregister', SPEC)
    t.status(b.register(action=1, crkey=1, iekey=1), n.OK, 'Unregister with IEKEY', 'Base 7.7')
    t.eq(parse(b.report())[3], {}, 'none is left', SPEC)
    a.close()
    b.close()


# What holder, registrant and other hosts may do: A allowed, C conflict. Base 8.1.22.1.
TABLE = {WE: ('AAA', 'ACC'), EA: ('ACC', 'ACC'), WERO: ('AAA', 'AAC'), EARO: ('AAC', 'AAC'),
         WEAR: ('AAA', 'AAC'), EAAR: ('AAC', 'AAC')}


def reads(conn):
    yield 'Read', conn.read(1, 0, 1)
    yield 'Compare', conn.wait(conn.rw(n.COMPARE, 1, 0, 1, 512, bytes(512)))
    yield 'Verify', conn.do(VERIFY, 1, cdw12=0)


def writes(conn):
    yield 'Write', conn.put(1, 0, bytes(512))
    yield 'Write of R2T', conn.put(1, 0, bytes(512), way='r2t')
    yield 'Flush', conn.do(n.FLUSH, 1)
    yield 'Write Zeroes', conn.do(n.WRITE_ZEROES, 1, cdw10=8)
    yield 'Dataset Management', conn.do(n.DSM, 1, data=struct.pack('<IIQ', 0, 8, 8), cdw11=4)
    yield 'Write Uncorrectable', conn.do(WRITE_UNCORRECTABLE, 1, cdw10=16)


def conflicts(t, tgt):
    peers = [Peer(tgt, number) for number in (1, 2, 3)]
    a, b, other = peers
    a.register()
    b.register()
    for rtype, (may_read, may_write) in TABLE.items():
        t.status(a.acquire(rtype), n.OK, 'Acquire type %d' % rtype, SPEC)
        for role, peer in enumerate(peers):
            # Both queues, on both reactors, right after the answer.
            for conn in peer.queues:
                for commands, allowed in ((reads, may_read), (writes, may_write)):
                    want = n.OK if allowed[role] == 'A' else CONFLICT
                    got = {name: cmd.status for name, cmd in commands(conn)}
                    t.eq(got, {name: want for name in got}, 'type %d, %s, queue %d: %s' % (
                        rtype, ('holder', 'registrant', 'other')[role],
                        peer.queues.index(conn) + 1, commands.__name__), 'Base 8.1.22.1')
        t.status(other.acquire(rtype), CONFLICT, 'type %d: another cannot acquire' % rtype, SPEC)
        t.status(b.acquire(rtype % 6 + 1), CONFLICT, 'type %d: nor with another type' % rtype, SPEC)
        t.status(a.acquire(rtype), n.OK, 'type %d: the holder again' % rtype, SPEC)
        t.status(a.release(rtype % 6 + 1), n.INVALID_FIELD, 'type %d: released as another' % rtype,
                 SPEC)
        t.status(other.register(), n.OK, 'type %d: Register is not kept out' % rtype, SPEC)
        other.unregister()
        t.eq({who: entry[0] for who, entry in parse(b.report())[3].items()},
             {1: 1, 2: int(rtype >= WEAR)}, 'type %d: who holds it' % rtype, 'Base 7.9')
        t.status(a.release(rtype), n.OK, 'Release', SPEC)
        t.eq([peer.write(conn=conn).status for peer in peers for conn in peer.queues],
             [n.OK] * 6, 'type %d: released on every queue' % rtype, SPEC)
    t.status(peers[0].write(PLAIN), n.OK, 'another namespace is not concerned', SPEC)
    a.clear()
    for peer in peers:
        peer.close()


def preempting(t, tgt):
    a, b, c = peers = [Peer(tgt, number) for number in (1, 2, 3)]
    for peer in peers:
        peer.register()
    a.acquire(WE)
    generation = parse(a.report())[0]
    t.status(b.preempt(EA, key(1)), n.OK, 'Preempt the holder', SPEC)
    _, rtype, _, hosts = parse(b.report())
    t.eq((rtype, {who: entry[0] for who, entry in hosts.items()}), (EA, {2: 1, 3: 0}),
         'the holder is unregistered, the new one holds', SPEC)
    t.eq(parse(b.report())[0], generation + 1, 'the generation counts it', 'Base 7.9')
    t.eq([a.write(conn=conn).status for conn in a.queues], [CONFLICT] * 2,
         'the former holder is kept out at once', SPEC)
    t.status(b.preempt(WEAR, key(2)), n.OK, 'Preempt oneself: another type', SPEC)
    t.eq(parse(b.report())[1], WEAR, 'which is in force', SPEC)
    t.status(c.preempt(WE, 0), n.OK, 'Preempt all registrants', SPEC)
    t.eq(list(parse(c.report())[3]), [3], 'only the new holder is left', SPEC)
    t.status(c.clear(), n.OK, 'Clear', SPEC)
    t.eq(parse(c.report())[1:], (0, 0, {}), 'nothing is left', SPEC)
    for peer in peers:
        peer.close()


def preempt_and_abort(t, tgt):
    a, b = Peer(tgt, 1), Peer(tgt, 2)
    for peer in (a, b):
        peer.register(SLOW)
    a.acquire(WE, SLOW)
    slow = [(conn, conn.rw(n.READ, SLOW, i, 1, 512)) for i in range(3) for conn in a.queues]
    mine = b.conn.rw(n.READ, SLOW, 0, 1, 512)
    for conn in a.queues + [b.conn]:
        conn.do(n.FLUSH, PLAIN)
    t.status(b.acquire(WE, SLOW, action=2, prkey=key(1)), n.OK, 'Preempt and Abort', SPEC)
    for conn, cmd in slow:
        conn.wait(cmd)
    t.eq([cmd.status for _, cmd in slow], [ABORT_PREEMPT] * len(slow),
         'commands of the preempted host end with Preempt and Abort', SPEC)
    t.ok(not mine.is_done, "the host's own goes on", SPEC)
    b.admin.do(n.ABORT, cdw10=1 | mine.cid << 16)
    b.conn.wait(mine)
    b.clear(SLOW)

    # A write into memory media waits for data: the answer to Preempt and Abort waits for the write.
    for peer in (a, b):
        peer.register(PLAIN)
    write = a.conn.rw(n.WRITE, PLAIN, 0, 8, 512, b'\xab' * 4096, way='r2t', is_auto=False)
    a.conn.wait_r2t(write)
    before = bytes(b.queues[1].read(PLAIN, 0, 8).data)
    acquire = b.submit_acquire(WE, PLAIN, action=2, prkey=key(1))
    t.ok(target.poll(lambda: b.queues[1].wait(
        b.queues[1].submit(REPORT, PLAIN, read_bytes=128, cdw10=31, cdw11=1)).data[0] > 2),
         'the truth has changed', SPEC)
    # Messages of the control reactor carry reports and this change: once reports are answered, the change is
    # there.
    for _ in range(20):
        for conn in a.queues + b.queues[1:]:
            conn.do(REPORT, PLAIN, read_bytes=128, cdw10=31, cdw11=1)
    a.conn.answer_r2t(write, write.r2ts[0])
    a.conn.wait(write)
    b.conn.wait(acquire)
    t.eq((write.status, acquire.status), (ABORT_PREEMPT, n.OK), 'a write that owed data', SPEC)
    t.eq(bytes(b.queues[1].read(PLAIN, 0, 8).data), before, 'nothing of it was written', SPEC)
    b.clear(PLAIN)
    a.close()
    b.close()


def notices(t, tgt):
    a, b, c = peers = [Peer(tgt, number) for number in (1, 2, 3)]
    spec = 'Base 5.1.12.1.31'
    t.eq(a.log(), (0, 0, 0, 0), 'log 80h: empty at first', spec)
    for peer in peers:
        peer.register()
    a.acquire(WERO)
    aers = [peer.admin.submit(n.AER) for peer in peers]
    a.release(WERO)
    for peer, aer in ((b, aers[1]), (c, aers[2])):
        peer.admin.wait(aer)
        t.eq((aer.status, aer.dw0), (n.OK, NOTICE), 'Release: the event', 'Base 5.1.2.1')
        t.eq(peer.log(rae=1), (1, RELEASED, 0, 1), 'Release: log 80h, RAE 1', spec)
        t.eq(peer.log(), (1, RELEASED, 0, 1), 'RAE 0 reads the same', spec)
        t.eq(peer.log(), (0, 0, 0, 0), 'and takes it away', spec)
    t.ok(nothing_came(a.admin, aers[0]), 'who released is not told', SPEC)
    a.acquire(WE)
    t.eq((a.release(WE).status, b.log()), (n.OK, (0, 0, 0, 0)), 'Release of type 1: nobody is told',
         SPEC)
    a.acquire(EARO)
    b.preempt(WE, key(1))
    a.admin.wait(aers[0])
    t.eq((aers[0].dw0, a.log()), (NOTICE, (1, PREEMPTED, 0, 1)), 'Preempt: who was preempted', SPEC)
    aer = c.admin.do(n.AER)
    t.eq((aer.dw0, c.log()), (NOTICE, (2, RELEASED, 0, 1)), 'Preempt with another type: who stays',
         SPEC)
    t.eq(b.log(), (0, 0, 0, 0), 'who preempted is not told', SPEC)
    a.register()
    aer = a.admin.submit(n.AER)
    b.clear()
    a.admin.wait(aer)
    t.eq(a.log(), (2, CLEARED, 0, 1), 'Clear: all others', SPEC)
    t.ok(target.poll(lambda: c.log(rae=1)[0] == 3), 'all of them', SPEC)
    c.log()

    # Several notifications before the log is read: first in, first out.
    for nsid in (1, PLAIN):
        a.register(nsid)
        b.register(nsid)
        a.clear(nsid)
        b.register(nsid)
        a.register(nsid)
        a.acquire(WEAR, nsid)
        a.release(WEAR, nsid)
    t.ok(target.poll(lambda: b.log(rae=1)[2] == 3), 'four pages are there', spec)
    t.eq(b.admin.do(n.AER).dw0, NOTICE, 'they are one event, which waited for a request',
         'Base 5.1.2')
    aer = b.admin.submit(n.AER)
    t.ok(nothing_came(b.admin, aer), 'and no more until a page is read', 'Base 5.1.2')
    t.eq(b.log(), (2, CLEARED, 3, 1), 'the first', spec)
    b.admin.wait(aer)
    t.eq(aer.dw0, NOTICE, 'there are more: another event', 'Base 5.1.2')
    aer = b.admin.submit(n.AER)
    t.eq([b.log() for _ in range(4)], [(3, RELEASED, 2, 1), (4, CLEARED, 1, PLAIN),
                                       (5, RELEASED, 0, PLAIN), (0, 0, 0, 0)], 'in order', spec)
    a.clear(PLAIN)
    a.clear()
    for peer in peers:
        peer.close()


def masks(t, tgt):
    a, b = Peer(tgt, 1), Peer(tgt, 2)
    spec = 'Base 5.1.25.1.28'
    t.eq(b.admin.get_feature(0x82, nsid=1).dw0, 0, 'FID 82h: nothing is masked at first', spec)
    t.status(b.admin.set_feature(0x82, 1 << RELEASED, nsid=1), n.OK, 'FID 82h: set', spec)
    t.eq((b.admin.get_feature(0x82, nsid=1).dw0, b.admin.get_feature(0x82, nsid=PLAIN).dw0),
         (1 << RELEASED, 0), 'FID 82h: for this namespace', spec)
    t.eq(a.admin.get_feature(0x82, nsid=1).dw0, 0, 'FID 82h: and this controller', spec)
    aer = b.admin.submit(n.AER)
    for nsid in (1, PLAIN):
        a.register(nsid)
        b.register(nsid)
        a.acquire(WERO, nsid)
        a.release(WERO, nsid)
    b.admin.wait(aer)
    t.eq(b.log(), (1, RELEASED, 0, PLAIN), 'a masked notification makes no page', spec)
    t.status(b.admin.set_feature(0x82, 0xffffffff, nsid=0xffffffff), n.OK, 'FID 82h: all', spec)
    t.eq([b.admin.get_feature(0x82, nsid=nsid).dw0 for nsid in (1, PLAIN, SLOW)], [0xe] * 3,
         'FID 82h: all namespaces, the bits that exist', spec)
    t.eq(b.admin.get_feature(0x82, 1, nsid=1).dw0, 0, 'FID 82h: default', 'Base 5.1.11, SEL')
    for nsid, want in WRONG_NSIDS:
        t.status(b.admin.get_feature(0x82, nsid=nsid), want, 'FID 82h: get, NSID %d' % nsid, spec)
        t.status(b.admin.set_feature(0x82, 2, nsid=nsid), want, 'FID 82h: set, NSID %d' % nsid,
                 spec)
    aer = b.admin.submit(n.AER)
    for nsid in (1, PLAIN):
        a.clear(nsid)
    t.ok(nothing_came(b.admin, aer) and b.log() == (0, 0, 0, 0), 'all masked: nothing comes', spec)
    b.admin.set_feature(0x82, 0, nsid=0xffffffff)
    t.eq(b.admin.get_feature(0x82, nsid=1).dw0, 0, 'FID 82h: unmasked again', spec)
    b.admin.set_feature(0x82, 2, nsid=1)
    b.close()
    b = Peer(tgt, 2)
    t.eq(b.admin.get_feature(0x82, nsid=1).dw0, 0, 'FID 82h: a new controller begins anew', spec)
    a.close()
    b.close()


def mask_is_of_the_namespace(t, tgt):
    """Another namespace that gets the NSID does not inherit a mask."""
    spec = 'Base 5.1.25.1.28'

    def put(uuid):
        def edit(config):
            others = [ns for ns in config['subsystems'][0]['namespaces'] if ns['nsid'] != REPLACED]
            config['subsystems'][0]['namespaces'] = others + (
                [target.namespace(REPLACED, 'mem:1M,block=512', uuid=uuid)] if uuid else [])
        tgt.reload(edit)

    put('aaaaaaaa-0001-4000-8000-000000000001')
    a, b = Peer(tgt, 1), Peer(tgt, 2)
    t.status(b.admin.set_feature(0x82, 0xe, nsid=REPLACED), n.OK, 'FID 82h: all masked', spec)
    put(None)
    put('bbbbbbbb-0001-4000-8000-000000000001')
    t.ok(target.poll(lambda: b.admin.get_feature(0x82, nsid=REPLACED).status == n.OK), 'the NSID has a namespace again')
    t.eq(b.admin.get_feature(0x82, nsid=REPLACED).dw0, 0,
         'FID 82h: another namespace under the NSID has no mask', spec)
    # Reports the namespace of the NSID as changed until the host has read its identity.
    for peer in (a, b):
        peer.admin.identify(3, REPLACED)
    t.ok(target.poll(lambda: a.register(REPLACED).status == n.OK and b.register(REPLACED).status == n.OK), 'both register', SPEC)
    b.log()
    a.clear(REPLACED)
    t.ok(target.poll(lambda: b.log(rae=1)[1:] == (CLEARED, 0, REPLACED)), 'and its notices come', spec)
    t.status(b.admin.set_feature(0x82, 0xe, nsid=REPLACED), n.OK, 'FID 82h: its own mask', spec)
    t.eq(b.admin.get_feature(0x82, nsid=REPLACED).dw0, 0xe, 'FID 82h: reads back', spec)
    a.close()
    b.close()
    put(None)


def gone(t, tgt):
    """Hosts leave while the control thread has their command, or while it aborts others."""
    keeper = Peer(tgt, 1)
    keeper.register()
    for number in range(2, 42):
        peer = Peer(tgt, number)
        for conn in peer.queues:
            conn.submit(REGISTER, 1, data=struct.pack('<QQ', 0, key(number)), cdw10=ON << 30)
            conn.submit(REPORT, 1, read_bytes=4096, cdw10=1023, cdw11=1)
            conn.submit(ACQUIRE, 1, data=struct.pack('<QQ', key(number), key(number - 1)),
                        cdw10=2 | WEAR << 8)
            conn.rw(n.WRITE, 1, 0, 8, 512, bytes(4096), way='r2t', is_auto=False)
        peer.admin.submit(n.SET_FEATURES, 1, cdw10=0x83, cdw11=number % 2)
        peer.close()
    last = Peer(tgt, 100)
    last.register(cptpl=OFF)
    t.status(last.report(), n.OK, 'hosts that leave amid reservation commands', SPEC)
    t.status(last.clear(), n.OK, 'and the reservation works on', SPEC)
    last.admin.set_feature(0x83, 0, nsid=1)
    keeper.close()
    last.close()


def admin_commands(t, tgt):
    """Commands that change a namespace are refused like writes."""
    a, b, c = peers = [Peer(tgt, number) for number in (1, 2, 3)]

    def statuses(peer):
        ctrls = struct.pack('<HH', 1, peer.host.cntlid).ljust(4096, b'\0')
        yield 'Format NVM', peer.admin.do(0x80, PLAIN)
        yield 'delete', peer.admin.do(0x0d, PLAIN, cdw10=1)
        yield 'delete all', peer.admin.do(0x0d, 0xffffffff, cdw10=1)
        yield 'attach', peer.admin.do(0x15, PLAIN, data=ctrls, cdw10=0, way='r2t')
        yield 'detach', peer.admin.do(0x15, PLAIN, data=ctrls, cdw10=1, way='r2t')
        yield 'Set Features 84h', peer.admin.set_feature(0x84, 1, nsid=PLAIN)

    a.register(PLAIN)
    b.register(PLAIN)
    for rtype, outs in ((WE, (b, c)), (EA, (b, c)), (WERO, (c,)), (EARO, (c,)), (WEAR, (c,)),
                        (EAAR, (c,))):
        t.status(a.acquire(rtype, PLAIN), n.OK, 'Acquire type %d' % rtype, SPEC)
        for peer in outs:
            for name, cmd in statuses(peer):
                t.status(cmd, CONFLICT, 'type %d, host %d: %s' % (rtype, peer.number, name),
                         'Base 8.1.22.1', 1)
        may = b if rtype > EA else a
        t.eq([may.admin.set_feature(0x84, protect, nsid=PLAIN).status for protect in (1, 0)],
             [n.OK] * 2, 'type %d: Set Features 84h by one who may' % rtype, 'Base 8.1.22.1')
        t.status(may.admin.do(0x80, PLAIN), n.OK, 'type %d: so does Format NVM' % rtype,
                 'Base 8.1.22.1')
        t.status(c.admin.get_feature(0x84, nsid=PLAIN), n.OK, 'type %d: Get Features' % rtype,
                 'Base 8.1.22.1')
        a.release(rtype, PLAIN)
    a.clear(PLAIN)
    for peer in peers:
        peer.close()


def log_page(t, tgt):
    a = Peer(tgt, 1)
    spec = 'Base 5.1.12.1.31'
    t.status(a.admin.get_log(0x80, 4), n.OK, 'log 80h: one dword', spec)
    t.status(a.admin.get_log(0x80, 4096), n.OK, 'log 80h: more than there is', spec)
    t.status(a.admin.get_log(0x80, 4, offset=60), n.OK, 'log 80h: its last dword', spec)
    t.status(a.admin.get_log(0x80, 4, offset=68), n.INVALID_FIELD, 'log 80h: behind its end', spec)
    a.close()


def persistence(t, tgt):
    a, b = Peer(tgt, 1), Peer(tgt, 2)
    spec = 'Base 5.1.25.1.29'
    t.eq([a.admin.get_feature(0x83, sel, nsid=1).dw0 for sel in (0, 1, 2)], [0, 0, 0],
         'FID 83h: off at first', spec)
    a.register(cptpl=ON)
    t.eq([b.admin.get_feature(0x83, sel, nsid=1).dw0 for sel in (0, 1, 2)], [1, 0, 1],
         'CPTPL 3 turns it on, for every host', spec)
    t.eq(parse(b.report())[2], 1, 'Report: PTPLS', 'Base 7.9')
    b.register()
    b.acquire(WERO)
    a.register(PLAIN)
    a.acquire(WE, PLAIN)
    t.status(b.admin.set_feature(0x83, 1, nsid=SLOW, save=1), n.OK, 'FID 83h: set, SV', spec)
    for nsid, want in WRONG_NSIDS:
        t.status(b.admin.get_feature(0x83, nsid=nsid), want, 'FID 83h: get, NSID %d' % nsid, spec)
        t.status(b.admin.set_feature(0x83, 1, nsid=nsid), want, 'FID 83h: set, NSID %d' % nsid,
                 spec)
    a.close()
    want = parse(b.report())[:3]
    b.close()
    tgt.kill()
    tgt.start()

    a, b, c = [Peer(tgt, number) for number in (1, 2, 3)]
    generation, rtype, ptpls, hosts = parse(a.report())
    t.eq((generation, rtype, ptpls), want, 'after SIGKILL: the reservation is there', SPEC)
    t.eq({who: entry[:2] for who, entry in hosts.items()}, {1: (0, key(1)), 2: (1, key(2))},
         'with its registrants', SPEC)
    t.eq([c.write(conn=conn).status for conn in c.queues], [CONFLICT] * 2,
         'and in force from the first command on', SPEC)
    t.eq([a.write(conn=conn).status for conn in a.queues], [n.OK] * 2, 'for all roles', SPEC)
    t.eq(parse(a.report(PLAIN)), (0, 0, 0, {}), 'without PTPL nothing was kept', SPEC)
    t.eq(a.admin.get_feature(0x83, nsid=SLOW).dw0, 1, 'FID 83h was kept', spec)
    t.status(b.register(action=2, crkey=key(2), nrkey=key(2), cptpl=OFF), n.OK, 'CPTPL 2', SPEC)
    t.eq(parse(a.report())[1:3], (WERO, 0), 'the reservation stays', SPEC)
    t.status(a.admin.set_feature(0x83, 0, nsid=0xffffffff), n.OK, 'FID 83h: all off', spec)
    t.eq(a.admin.get_feature(0x83, nsid=SLOW).dw0, 0, 'FID 83h: is off', spec)
    for peer in (a, b, c):
        peer.close()
    tgt.kill()
    tgt.start()
    a = Peer(tgt, 1)
    t.eq([parse(a.report(nsid)) for nsid in (1, SLOW)], [(0, 0, 0, {})] * 2,
         'what was turned off is forgotten', SPEC)
    a.close()


def thousand(t, tgt):
    count = 1000
    first = Peer(tgt, 1)
    first.register()
    for number in range(2, count + 1):
        peer = Peer(tgt, number, 1)
        if peer.register().status != n.OK:
            t.ok(False, 'registrant %d' % number, SPEC)
        peer.close()
    length = 64 + 64 * count
    hosts = parse(first.report(length=length))[3]
    t.eq((len(hosts), sum(entry[1] for entry in hosts.values())),
         (count, sum(key(number) for number in range(1, count + 1))), '1,000 registrants', SPEC)
    first.acquire(EAAR)
    some, none = Peer(tgt, 500), Peer(tgt, count + 1)
    t.eq([some.write().status, none.write().status], [n.OK, CONFLICT], 'all of which hold it', SPEC)
    t.status(some.preempt(EA, 0), n.OK, 'Preempt of all of them', SPEC)
    t.eq(list(parse(some.report())[3]), [500], 'leaves one', SPEC)
    t.eq((first.admin.do(n.AER).dw0, first.log()[1]), (NOTICE, PREEMPTED), 'the others are told',
         SPEC)
    some.clear()
    for peer in (first, some, none):
        peer.close()


def test(t, tgt):
    for part in (identify, refused, registering, conflicts, preempting, preempt_and_abort, notices,
                 masks, mask_is_of_the_namespace, admin_commands, log_page, gone, thousand, persistence):
        with t.guard(part.__name__):
            part(t, tgt)


SPACES = [
    # Explicit UUIDs: memory would get another UUID, and so no reservation, after a restart.
    target.namespace(1, 'mem:4M,block=512', uuid='6f1c7b9a-52e0-4d0b-9a39-1f0f5c1d2e01'),
    target.namespace(PLAIN, 'mem:4M,block=512', uuid='6f1c7b9a-52e0-4d0b-9a39-1f0f5c1d2e02'),
    target.namespace(SLOW, 'fault:delay:op=read:ms=%d@mem:1M,block=512' % SLOW_MS,
                     uuid='6f1c7b9a-52e0-4d0b-9a39-1f0f5c1d2e03'),
]

target.run(Tap(), test, namespaces=SPACES, rights=target.ALL_RIGHTS)
