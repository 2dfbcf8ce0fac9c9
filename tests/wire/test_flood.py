#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
A host sends more Write Uncorrectable than the target can carry out. Each is a commit on the control thread.
Hosts take turns. Commands above a limit are refused for a retry. Commands of a closed connection or of a
fenced or removed host are not carried out. The control thread is stopped while the commands arrive, so that
all of them wait. docs/adr/0034, NVM Command Set 1.1, section 3.3.7.
"""

import contextlib
import os
import struct
import tempfile

import nvmetcp as n
import restapi
import target
import threadstop
from tap import Tap

SPEC = 'ADR 0034'
REGISTER, ACQUIRE, RELEASE, FLUSH = 0x0d, 0x11, 0x15, 0x00
INTERRUPTED, INTERNAL, CONFLICT, PREEMPTED = (0, 0x21), (0, 0x06), (0, 0x83), (0, 0x1b)
NSID, OTHER = 1, 2
A, B = ('nqn.2014-08.org.example:%s' % name for name in 'ab')
QUEUES, EACH = 10, 120
PER_HOST = 1024   # waiting commands at most
RANGES_MAX = 4096  # ranges of marked blocks at most
FEW = 64           # served at most before the rest has arrived
HOLES = 65536      # LBA above all blocks of the flood
PATIENCE_S = 60
FOLDER = tempfile.mkdtemp(prefix='weft-wire-flood-')


def image(name):
    return os.path.join(FOLDER, name)


def connect(tgt, nqn):
    return tgt.host(hostnqn=nqn, hostid=nqn[-16:].encode())


def mark(conn, lba, nsid=NSID):
    return conn.submit(n.WRITE_UNCORRECTABLE, nsid, cdw10=lba)


def flood(conns):
    """Marks every second block; returns when all commands have arrived."""
    cmds = [(conn, mark(conn, 2 * (i * EACH + j))) for i, conn in enumerate(conns) for j in range(EACH)]
    for conn in conns:
        conn.do(FLUSH, OTHER)
    return cmds


def results(cmds):
    """Count of each status."""
    found = {}
    for conn, cmd in cmds:
        status = conn.wait(cmd, PATIENCE_S).status
        found[status] = found.get(status, 0) + 1
    return found


def bad_count(conn):
    """Number of blocks of the flood that are marked."""
    count = 0
    for first in range(0, QUEUES * EACH, 100):
        cmds = [conn.submit(n.READ, NSID, read_bytes=512, cdw10=2 * i) for i in range(first, first + 100)]
        count += sum(conn.wait(cmd, PATIENCE_S).status == n.UNRECOVERED_READ for cmd in cmds)
    return count


@contextlib.contextmanager
def healed(tgt):
    """Removes all reservations and marks at the end, for the next part."""
    try:
        yield
    finally:
        with connect(tgt, B) as b:
            conn = b.queue()
            for opcode, data, cdw10, cdw11 in ((REGISTER, struct.pack('<QQ', 0, 2), 0, 0), (RELEASE, struct.pack('<Q', 2), 1, 0),
                                               (n.DSM, struct.pack('<IIQ', 0, 1 << 17, 0), 0, 4)):
                cmd = conn.wait(conn.submit(opcode, NSID, data=data, cdw10=cdw10, cdw11=cdw11), PATIENCE_S)
                if cmd.status != n.OK:
                    raise n.Violation('opcode %02Xh at the end of a part: status %d/%02Xh' % (opcode, *cmd.status))


def hole(i):
    return struct.pack('<IIQ', 0, 1, HOLES + 1 + 2 * i)


def fill(conn, ranges):
    """Makes `ranges` ranges of marked blocks without a commit for each: one range with holes."""
    conn.do(n.WRITE_UNCORRECTABLE, NSID, cdw10=HOLES, cdw12=2 * ranges - 2)
    for i in range(0, ranges - 1, 250):
        count = min(250, ranges - 1 - i)
        conn.wait(conn.submit(n.DSM, NSID, data=b''.join(hole(i + j) for j in range(count)), cdw10=count - 1, cdw11=4),
                  PATIENCE_S)


def take_turns(t, tgt):
    """Few more ranges fit: late marks find no room. The mark of B comes early."""
    with healed(tgt), connect(tgt, A) as a, connect(tgt, B) as b:
        conns, qb = a.many_queues(range(1, QUEUES + 1)), b.queue()
        fill(qb, RANGES_MAX - FEW)
        with threadstop.Stopped(tgt.process, threadstop.MAIN):
            cmds = flood(conns)
            own = mark(qb, HOLES - 2)
            qb.do(FLUSH, OTHER)
        t.status(qb.wait(own, PATIENCE_S), n.OK, 'a host with one mark waits for few of another', SPEC)
        found = results(cmds)
        t.ok(set(found) == {n.OK, INTERRUPTED, INTERNAL}, 'marks are made, refused, or find no room', SPEC, why=found)
        t.eq(found.get(n.OK), FEW - 1, 'as many as there was room for', SPEC)
        over = QUEUES * EACH - PER_HOST
        t.ok(over - FEW <= found.get(INTERRUPTED, 0) <= over, 'what is over the bound of the host gets Command Interrupted', SPEC,
             why=found)


def operator(t, tgt):
    """The operator removes the host of the flood."""
    try:
        removed(t, tgt)
    finally:
        back = restapi.Client(os.path.join(tgt.folder, 'state', 'weft.sock')).post('/v1/subsystems/%s/hosts' % target.NQN, {'nqn': A})
        t.ok(back.status in (200, 201), 'and allows it again', why=back.status)


def removed(t, tgt):
    with connect(tgt, A) as a, healed(tgt), connect(tgt, B) as b:
        conns, qb = a.many_queues(range(1, QUEUES + 1)), b.queue()
        with threadstop.Stopped(tgt.process, threadstop.MAIN):
            flood(conns)
            asked = restapi.Connection(os.path.join(tgt.folder, 'state', 'weft.sock'))
            asked.send(restapi.request('DELETE', '/v1/subsystems/%s/hosts/%s' % (target.NQN, A)))
            tgt.wait_taken(asked)
        with asked:
            t.eq(asked.receive().status, 200, 'the operator removes the host')
        t.ok(a.admin.wait_closed(PATIENCE_S), 'its connections are closed')
        qb.wait(mark(qb, HOLES), PATIENCE_S)
        count = bad_count(qb)
        t.ok(count < QUEUES * EACH // 4, "the operator's change waits for few marks of a host", SPEC, why=count)


def gone(t, tgt):
    """The flooding host disconnects."""
    with healed(tgt), connect(tgt, B) as b:
        qb, other = b.many_queues((1, 2))
        for i in range(3):
            with threadstop.Stopped(tgt.process, threadstop.MAIN):
                a = connect(tgt, A)
                conns = a.many_queues(range(1, QUEUES + 1))
                flood(conns)
                a.close()
                for conn in (qb, other):  # one queue on each reactor: both have seen the connections end
                    for _ in range(10):
                        conn.do(FLUSH, OTHER)
        t.status(qb.wait(mark(qb, HOLES), PATIENCE_S), n.OK, 'another host marks a block')
        t.ok(bad_count(qb) < FEW, 'marks of connections that are gone are not made', SPEC, why=bad_count(qb))


def fenced(t, tgt, abort):
    what = 'Preempt and Abort' if abort else 'Preempt'
    with healed(tgt), connect(tgt, A) as a, connect(tgt, B) as b:
        conns, qb = a.many_queues(range(1, QUEUES + 1)), b.queue()
        for conn, key in ((conns[0], 1), (qb, 2)):
            conn.do(REGISTER, NSID, data=struct.pack('<QQ', 0, key))
        status = conns[0].do(ACQUIRE, NSID, data=struct.pack('<QQ', 1, 0), cdw10=1 << 8).status
        t.eq(status, n.OK, 'A holds the reservation')
        with threadstop.Stopped(tgt.process, threadstop.MAIN):
            cmds = flood(conns)
            preempt = qb.submit(ACQUIRE, NSID, data=struct.pack('<QQ', 2, 1), cdw10=(2 if abort else 1) | 1 << 8)
            qb.do(FLUSH, OTHER)
        t.status(qb.wait(preempt, PATIENCE_S), n.OK, what + ' by B', SPEC)
        before = bad_count(qb)
        found = results(cmds)
        t.ok(before < FEW, what + ' comes before the marks of A', SPEC, why=(before, found))
        t.ok(set(found) <= {n.OK, INTERRUPTED, CONFLICT} | ({PREEMPTED} if abort else set()), what + ': they are refused', SPEC,
             why=found)
        t.eq(bad_count(qb), before, what + ': none is made after its answer', SPEC)


def aborted(t, tgt):
    with connect(tgt, A) as a:
        conn = a.queue()
        with threadstop.Stopped(tgt.process, threadstop.MAIN):
            cmd = mark(conn, 0)
            conn.do(FLUSH, OTHER)
            abort = a.admin.submit(0x08, cdw10=cmd.cid << 16 | 1)
            a.admin.identify(1)
        t.status(conn.wait(cmd, PATIENCE_S), n.ABORT_REQUESTED, 'Abort of a mark that waits', 'Base 5.1.1')
        t.eq(a.admin.wait(abort, PATIENCE_S).dw0 & 1, 0, 'it was aborted', 'Base 5.1.1')
        t.status(conn.read(NSID, 0, 1), n.OK, 'and the block is not marked', SPEC)


def test(t, tgt):
    cannot = threadstop.why_not()
    if cannot:
        t.skip('floods of Write Uncorrectable', cannot)
        return
    for part in (aborted, take_turns, operator, gone):
        with t.guard(part.__name__):
            part(t, tgt)
    for abort in (True, False):
        with t.guard('fenced'):
            fenced(t, tgt, abort)


try:
    target.run(Tap(), test, reactors=2, subsystems=[
        {'nqn': target.NQN, 'serial': 'FLOOD', 'hosts': [A, B], 'namespaces': [
            target.namespace(NSID, 'file:%s,size=64M,block=512' % image('a.img')), target.namespace(OTHER, 'mem:1M,block=512')]}])
finally:
    for name in os.listdir(FOLDER):
        os.unlink(image(name))
    os.rmdir(FOLDER)
