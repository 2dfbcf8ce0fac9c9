#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Cross-Controller Reset (38h) within one target: who may reset whom, every status, the logs 1Eh and 1Fh with
their notices, and the guarantee: after a reset is reported done, no command of the controller reaches the
medium. NVMe Base 2.3, Rapid Path Failure Recovery (TP8028).
"""

import select
import struct
import time

import nvmetcp as n
import target
from tap import Tap

SPEC = 'TP8028'
CCR = 0x38
IN_PROGRESS, LOG_FULL, LIMIT = (1, 0x3f), (1, 0x40), (1, 0x41)
FAST, SLOW, STUCK, LONG, LINGER = 1, 2, 3, 4, 5
STUCK_MS, LONG_MS, LINGER_MS = 6000, 2000, 500
HOUR_MS = 3600000
CCRL, LOG_MAX = 4, 32
NOTICE_RESET, NOTICE_LOST = 0xf4, 0xf5
LOG_RESET, LOG_LOST = 0x1e, 0x1f
LOST_KATO, LOST_CONNECTION = 1, 2
OLD, NEW = b'\x11' * 4096, b'\x22' * 4096


class Instance:
    """The identity of a controller, as a host needs it for a reset."""

    def __init__(self, host):
        page = bytes(host.admin.identify(1).data)
        self.cntlid = host.cntlid
        self.ciu = page[135]
        self.cirn = struct.unpack_from('<Q', page, 136)[0]


def ask(host, who, ciu=None, cirn=None, **kwargs):
    cirn = who.cirn if cirn is None else cirn
    return host.admin.submit(CCR, cdw10=who.cntlid | (who.ciu if ciu is None else ciu) << 16,
                             cdw12=cirn & 0xffffffff, cdw13=cirn >> 32, **kwargs)


def reset(host, who, **kwargs):
    return host.admin.wait(ask(host, who, **kwargs))


def entries(host, lid=LOG_RESET, lsp=0, rae=1):
    page = bytes(host.admin.get_log(lid, 8 + 8 * LOG_MAX, lsp=lsp, rae=rae).data)
    count = struct.unpack_from('<H', page)[0]
    return [page[8 + 8 * i:16 + 8 * i] for i in range(count)]


def resets(host, **kwargs):
    """(ICID, CIU, ACID, CCRS, CCRF) of every entry."""
    return [struct.unpack('<HBxHBB', raw) for raw in entries(host, **kwargs)]


def victim(tgt, **kwargs):
    host = tgt.host(**kwargs)
    return host, Instance(host)


def notice(aer):
    return aer.dw0 & 7, aer.dw0 >> 8 & 0xff, aer.dw0 >> 16 & 0xff


# ---- what a controller says --------------------------------------------------------------------


def identify(t, tgt):
    with tgt.host() as host:
        page = bytes(host.admin.identify(1).data)
        t.eq(page[1807], CCRL, 'Identify: CCRL', SPEC)
        t.eq(struct.unpack_from('<H', page, 386)[0], 1000, 'Identify: CQT', 'TP4129')
        oaes = struct.unpack_from('<I', page, 92)[0]
        t.eq(oaes >> 20 & 3, 3, 'Identify: OAES has both notices', SPEC)
        who = Instance(host)
        t.ok(who.ciu != 0 and who.cirn != 0, 'Identify: CIU and CIRN', SPEC)
        host.admin.set_feature(0x0b, 3 << 20)
        t.eq(host.admin.get_feature(0x0b).dw0 >> 20 & 3, 3, 'feature 0Bh takes both', SPEC)
        page = bytes(host.admin.get_log(0x05, 4096).data)
        t.eq(struct.unpack_from('<I', page, 4 * CCR)[0] & 1, 1, 'effects log: 38h', SPEC)
        page = bytes(host.admin.get_log(0x00, 1024).data)
        t.eq([page[4 * lid] & 1 for lid in (LOG_RESET, LOG_LOST)], [1, 1],
             'supported logs: 1Eh and 1Fh', SPEC)
        with tgt.host() as other:
            t.ok(Instance(other).cirn != who.cirn, 'CIRN of two controllers differ', SPEC)
    with tgt.host(subnqn=n.DISCOVERY_NQN) as host:
        page = bytes(host.admin.identify(1).data)
        t.eq((page[135:144], page[386:388], page[1807]), (bytes(9), bytes(2), 0),
             'a discovery controller says nothing of it', SPEC)
        t.status(host.admin.do(CCR, cdw10=1), n.INVALID_OPCODE, 'nor does it know 38h', SPEC)
        for lid in (LOG_RESET, LOG_LOST):
            t.status(host.admin.get_log(lid, 8), n.INVALID_LOG_PAGE, 'nor log %02Xh' % lid, SPEC)


def checks(t, tgt):
    host, other = tgt.host(), tgt.host()
    me, who = Instance(host), Instance(other)
    t.status(reset(host, me), n.INVALID_FIELD, 'of itself', SPEC, dnr=1)
    for cntlid in (0, 0xfff0, 0xffff):
        cmd = host.admin.do(CCR, cdw10=cntlid)
        t.status(cmd, n.INVALID_FIELD, 'of identifier %04Xh, which cannot be' % cntlid, SPEC, dnr=1)
    foreign = tgt.host(hostnqn='nqn.2014-08.org.example:another')
    t.status(reset(host, Instance(foreign)), n.INVALID_FIELD, 'of another host: NQN', SPEC, dnr=1)
    twin = tgt.host(hostid=bytes(range(16)))
    t.status(reset(host, Instance(twin)), n.INVALID_FIELD, 'of another host: identifier', SPEC)
    for name, fields in (('CIU', {'ciu': who.ciu ^ 1}), ('CIRN', {'cirn': who.cirn ^ 1 << 40})):
        cmd = reset(host, who, **fields)
        t.eq((cmd.status, cmd.dw0), (n.OK, 1), 'another instance, by its %s: done' % name, SPEC)
        cmd = reset(host, me, **{key: value ^ who.__dict__[key] ^ me.__dict__[key] for key, value in fields.items()})
        t.eq((cmd.status, cmd.dw0), (n.OK, 1), 'one that had our own identifier before, by its %s: done' % name, SPEC)
    for peer, name in ((host, 'itself'), (other, 'meant'), (foreign, 'of another host'), (twin, 'its twin')):
        t.status(peer.admin.do(n.KEEP_ALIVE), n.OK, 'and nobody was ended: ' + name, SPEC)
    free = Instance(other)
    free.cntlid = 0x7fff
    cmd = reset(host, free)
    t.eq((cmd.status, cmd.dw0), (n.OK, 1), 'an identifier that nobody has: done', SPEC)
    cmd = host.admin.do(CCR, data=bytes(16), cdw10=who.cntlid)
    t.status(cmd, n.SGL_LENGTH, 'with data', SPEC)
    t.eq(resets(host), [], 'nothing of it is in the log', SPEC)
    for peer in (host, other, foreign, twin):
        peer.close()


# ---- resets -------------------------------------------------------------------------------------


def idle(t, tgt):
    host = tgt.host()
    other, who = victim(tgt)
    conns = [other.queue(qid) for qid in (1, 2, 3)]
    cmd = reset(host, who)
    t.eq((cmd.status, cmd.dw0), (n.OK, 1), 'of an idle controller: done at once', SPEC)
    t.ok(all(conn.wait_closed() for conn in [other.admin] + conns), 'its connections are closed')
    cmd = reset(host, who)
    t.eq((cmd.status, cmd.dw0), (n.OK, 1), 'once more: it is gone, done', SPEC)
    for _ in range(3):
        with tgt.host() as newer:
            t.ok(newer.cntlid != who.cntlid, 'its identifier is not used again soon', SPEC)
    host.close()
    other.close()


def cancelled(t, tgt):
    """Commands that the medium would hold for an hour, and writes that have not begun."""
    host = tgt.host()
    host.queue().put(FAST, 0, OLD)
    other, who = victim(tgt)
    conn = other.queue()
    for i in range(8):
        conn.rw(n.WRITE, SLOW, i % 2 * 8, 8, 512, NEW)  # some at the medium, some behind them
    owed = conn.rw(n.WRITE, FAST, 0, 8, 512, NEW, way='r2t', is_auto=False)
    conn.wait_r2t(owed)
    conn.send(conn.h2cdata(owed.cid, owed.r2ts[0].ttag, 0, NEW[:1024], last=False))
    conn.do(n.FLUSH, FAST)
    cmd = reset(host, who)
    t.eq((cmd.status, cmd.dw0), (n.OK, 1), 'amid slow commands: they are cancelled', SPEC)
    late = conn.h2cdata(owed.cid, owed.r2ts[0].ttag, 1024, NEW[1024:])
    try:
        conn.send(late)
    except n.Closed:
        pass
    conn.wait_closed()
    data = bytes(host.queues[1].read(FAST, 0, 8).data)
    t.ok(data == NEW[:1024] + OLD[1024:], 'of a write that was half received no more lands', SPEC,
         data[:16] + data[1016:1032])
    host.close()
    other.close()


def slow(t, tgt):
    """The medium completes nothing: the log and a notice report the end."""
    host, third = tgt.host(), tgt.host()
    other, who = victim(tgt)
    conn = other.queue()
    host.admin.set_feature(0x0b, 3 << 20)
    aer = host.admin.submit(n.AER)
    conn.rw(n.WRITE, STUCK, 0, 8, 512, NEW)
    conn.rw(n.WRITE, STUCK, 0, 8, 512, OLD)  # waits behind it
    conn.do(n.FLUSH, FAST)
    start = time.monotonic()
    cmd = reset(host, who)
    t.eq((cmd.status, cmd.dw0), (n.OK, 0), 'of one whose medium is slow: not done yet', SPEC)
    t.ok(time.monotonic() - start < STUCK_MS / 1000, 'and the answer does not wait for it')
    t.eq(resets(host), [(who.cntlid, who.ciu, host.cntlid, 0, 3)], 'log 1Eh: in progress', SPEC)
    t.eq(resets(third), [], 'and not in that of another controller', SPEC)
    t.status(reset(host, who), IN_PROGRESS, 'the same once more, here', SPEC, dnr=0)
    t.status(reset(third, who), IN_PROGRESS, 'or through another controller', SPEC, dnr=0)
    t.ok(' gone: its host asked' not in tgt.log().rsplit('controller %d:' % who.cntlid, 1)[-1],
         'it is not said to be gone')
    host.admin.wait(aer)
    took = time.monotonic() - start
    t.eq(notice(aer), (2, NOTICE_RESET, LOG_RESET), 'a notice names the log', SPEC)
    t.ok(took > STUCK_MS / 2000, 'after the medium was done', why=took)
    t.eq(resets(host), [(who.cntlid, who.ciu, host.cntlid, 1, 3)], 'log 1Eh: success', SPEC)
    t.eq(len(resets(host, rae=0)), 1, 'a read leaves the entry', SPEC)
    t.eq(len(resets(host, lsp=1)), 1, 'a read that removes it still has it', SPEC)
    t.eq(resets(host), [], 'then it is gone', SPEC)
    data = bytes(host.queue().read(STUCK, 0, 8).data)
    t.ok(data == NEW, 'what waited in line behind the slow write never began', SPEC, data[:16])
    for peer in (host, third, other):
        peer.close()


def gone_last(t, tgt):
    """However a controller is lost, it ends after its last command has left the medium."""
    for name, kato_ms in (('connection lost', 0), ('keep alive expired', 300)):
        host = tgt.host()
        host.queue().put(STUCK, 16, bytes(4096))
        other, who = victim(tgt, kato_ms=kato_ms)
        conn = other.queue()
        start = time.monotonic()
        conn.rw(n.WRITE, STUCK, 16, 8, 512, NEW)
        conn.rw(n.WRITE, STUCK, 16, 8, 512, OLD)
        conn.do(n.FLUSH, FAST)
        if kato_ms == 0:
            other.close()
        line = 'controller %d: host %s gone: ' % (who.cntlid, n.HOST_NQN)
        t.ok(tgt.wait_log(line), name + ': the controller goes', SPEC)
        t.ok(time.monotonic() - start > STUCK_MS / 1000, 'after its last command', SPEC,
             time.monotonic() - start)
        data = bytes(host.queues[1].read(STUCK, 16, 8).data)
        t.ok(data == NEW, 'what had begun is done, what had not never begins', SPEC, data[:16])
        cmd = reset(host, who)
        t.eq((cmd.status, cmd.dw0), (n.OK, 1), 'a reset of it is done at once', SPEC)
        host.close()
        other.close()


def too_slow(t, tgt):
    """A medium that takes longer than CQT breaks the guarantee; the log reports that."""
    (other, who), = busy_victims(tgt, 1)
    other.close()
    t.ok(tgt.wait_log('controller %d: its last command ended ' % who.cntlid),
         'commands that end after CQT are reported', 'TP4129')


def busy_victims(tgt, count, nsid=LONG):
    """
    Controllers with a read that is at the medium and cannot be cancelled; reads do not wait for each other.
    Returns when all reads have begun.
    """
    victims = [victim(tgt) for _ in range(count)]
    conns = [other.queue() for other, _ in victims]
    for conn in conns:
        conn.rw(n.READ, nsid, 0, 1, 512)
    for conn in conns:
        conn.do(n.FLUSH, FAST)
    return victims


def limits(t, tgt):
    host = tgt.host()
    victims = busy_victims(tgt, CCRL + 1)
    cmds = [ask(host, who) for _, who in victims[:CCRL]]
    t.status(reset(host, victims[CCRL][1]), LIMIT, 'one more than CCRL', SPEC, dnr=0)
    for cmd in cmds:
        host.admin.wait(cmd)
    t.eq([(cmd.status, cmd.dw0) for cmd in cmds], [(n.OK, 0)] * CCRL, 'those within it run', SPEC)
    t.status(reset(host, victims[CCRL][1]), LIMIT, 'answered, they still count', SPEC)
    victims[CCRL][0].admin.do(n.KEEP_ALIVE)
    t.ok(target.poll(lambda: [e[3] for e in resets(host)] == [1] * CCRL, 10),
         'all of them succeed', SPEC, resets(host))
    cmd = reset(host, victims[CCRL][1])
    t.eq(cmd.status, n.OK, 'then another one may be asked for', SPEC)
    host.close()
    for other, _ in victims:
        other.close()


def aborted(t, tgt):
    host = tgt.host()
    (other, who), = busy_victims(tgt, 1)
    cmd = ask(host, who, send=False)
    abort = host.admin.submit(n.ABORT, cdw10=cmd.cid << 16, send=False)
    host.admin.send(cmd.wire + abort.wire)  # one send, so that nothing runs between the two
    host.admin.wait(cmd)
    answer = host.admin.wait(abort)
    t.eq((answer.dw0 & 1, cmd.status), (0, n.ABORT_REQUESTED), 'Abort of a held reset', SPEC)
    t.eq([e[3] for e in resets(host)], [0], 'the reset goes on', SPEC)
    t.ok(other.admin.wait_closed(), 'to its end')
    t.ok(target.poll(lambda: [e[3] for e in resets(host)] == [1], 10), 'and is logged', SPEC)
    host.close()
    other.close()


def asker_goes(t, tgt):
    """However the requesting host leaves, the reset completes and leaves nothing behind."""
    for name, leave in (('connection lost', lambda host: host.close()),
                        ('CC.EN', lambda host: host.admin.set_property(n.CC, 0)),
                        ('another reset', None)):
        with t.guard(name):
            host, third = tgt.host(), tgt.host()
            me = Instance(host)
            (other, who), = busy_victims(tgt, 1, LINGER)
            ask(host, who)
            host.admin.do(n.KEEP_ALIVE)  # answered: the reset before it has arrived
            if leave:
                leave(host)
            else:
                cmd = reset(third, me)
                t.eq((cmd.status, cmd.dw0), (n.OK, 1), 'the one that waits is reset itself', SPEC)
            line = 'controller %d: host %s gone' % (who.cntlid, n.HOST_NQN)
            t.ok(tgt.wait_log(line), 'the asking controller went, the reset ends: ' + name, SPEC)
            for peer in (host, third, other):
                peer.close()


def log_full(t, tgt):
    host = tgt.host()
    deadline = time.monotonic() + 60
    while len(resets(host)) < LOG_MAX and time.monotonic() < deadline:
        victims = busy_victims(tgt, min(CCRL, LOG_MAX - len(resets(host))), LINGER)
        for cmd in [ask(host, who) for _, who in victims]:
            host.admin.wait(cmd)
        target.poll(lambda: 0 not in [e[3] for e in resets(host)])
        for other, _ in victims:
            other.close()
    t.eq(len(resets(host)), LOG_MAX, 'the log takes %d entries' % LOG_MAX, SPEC)
    other, who = victim(tgt)
    t.status(reset(host, who), LOG_FULL, 'and then no more', SPEC, dnr=0)
    other.admin.do(n.KEEP_ALIVE)
    host.admin.get_log(LOG_RESET, 16, lsp=1)
    t.eq(len(resets(host)), LOG_MAX - 1, 'only what was read is removed', SPEC)
    cmd = reset(host, who)
    t.eq((cmd.status, cmd.dw0), (n.OK, 1), 'with room again it is taken', SPEC)
    host.admin.set_property(n.CC, 0)
    host.admin.csts_until(0, 1)
    host.admin.enable()
    t.eq(resets(host), [], 'a reset of the controller empties its log', SPEC)
    host.close()
    other.close()


# ---- the other log ------------------------------------------------------------------------------


def lost(t, tgt):
    target.poll(lambda: tgt.log().count(' gone: ') == tgt.log().count(' connected to '))
    host = tgt.host()
    foreign = tgt.host(hostnqn='nqn.2014-08.org.example:another')
    host.admin.set_feature(0x0b, 3 << 20)
    aer = host.admin.submit(n.AER)
    gone, who = victim(tgt)
    gone.close()
    host.admin.wait(aer)
    t.eq(notice(aer), (2, NOTICE_LOST, LOG_LOST), 'a connection lost: notice', SPEC)
    t.eq(entries(host, LOG_LOST), [struct.pack('<HBBI', who.cntlid, LOST_CONNECTION, who.ciu, 0)],
         'log 1Fh names it', SPEC)
    silent, who2 = victim(tgt, kato_ms=300)
    t.ok(silent.admin.wait_closed(), 'keep alive expires')
    t.ok(target.poll(lambda: len(entries(host, LOG_LOST)) == 2), 'log 1Fh has it too', SPEC)
    t.eq(entries(host, LOG_LOST)[1:], [struct.pack('<HBBI', who2.cntlid, LOST_KATO, who2.ciu, 0)],
         'with its reason', SPEC)
    polite, _ = victim(tgt)
    polite.admin.set_property(n.CC, n.CC_ENABLE | 1 << 14)
    polite.admin.csts_until(2 << 2, 3 << 2)
    polite.close()
    other, who3 = victim(tgt)
    reset(host, who3)
    third, _ = victim(tgt)
    third.close()
    t.ok(target.poll(lambda: len(entries(host, LOG_LOST)) >= 3), 'another one')
    t.eq(len(entries(host, LOG_LOST)), 3, 'one that shut down is not in it, nor one that was reset',
         SPEC)
    t.eq(entries(foreign, LOG_LOST), [], 'other hosts are not told', SPEC)
    aer = host.admin.submit(n.AER)
    t.ok(not select.select([host.admin.sock], [], [], 0.05)[0], 'the notice waits for a read')
    entries(host, LOG_LOST, rae=0)
    fourth, _ = victim(tgt)
    fourth.close()
    host.admin.wait(aer)
    t.eq(notice(aer), (2, NOTICE_LOST, LOG_LOST), 'after it there is another', SPEC)
    for peer in (host, foreign, silent, other):
        peer.close()


def test(t, tgt):
    for part in (identify, checks, idle, cancelled, slow, gone_last, too_slow, limits, aborted,
                 asker_goes, log_full, lost):
        with t.guard(part.__name__):
            part(t, tgt)


SPACES = [
    target.namespace(FAST, 'mem:1M,block=512'),
    target.namespace(SLOW, 'fault:delay:op=write:ms=%d@mem:1M,block=512' % HOUR_MS),
    target.namespace(STUCK, 'fault:stuck:op=write:ms=%d@mem:1M,block=512' % STUCK_MS),
    target.namespace(LONG, 'fault:stuck:op=read:ms=%d@mem:1M,block=512' % LONG_MS),
    target.namespace(LINGER, 'fault:stuck:op=read:ms=%d@mem:1M,block=512' % LINGER_MS),
]

if __name__ == '__main__':
    target.run(Tap(), test, namespaces=SPACES)
