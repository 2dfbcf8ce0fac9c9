#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Reads of a memory namespace that are sent directly from that memory, by a host that does not receive. After
the host lost its right to read (Preempt, Preempt and Abort, a mask, removal from the subsystem, another
namespace in the same memory) and the change was answered, nothing written later is sent. A read that has begun
sends the data as of the change, or ends with its connection when no buffer is free to copy it; other reads are
refused. docs/adr/0028. The data time-out is an hour here: no command ends because of it.
"""

import socket
import uuid

import nvmetcp as n
import target
from tap import Tap

SPEC = 'ADR 0028'
MEM, MARK, SLOW = 1, 2, 3
HOLDER, VICTIM = 'nqn.2026-11.io.weft:holder', 'nqn.2026-11.io.weft:victim'
REGISTER, ACQUIRE, RELEASE = 0x0d, 0x11, 0x15
PREEMPT, PREEMPT_AND_ABORT, EXCLUSIVE_ACCESS = 1, 2, 2 << 8
CONFLICT = (0, 0x83)
BLOCK = 4096
CHUNK = 127 * BLOCK  # three fill one send, which a socket seldom takes as a whole
READS = 80  # more than the sockets of both sides take
MEGABYTES = (READS * CHUNK >> 20) + 1
OLD, NEW = b'o', b'S'
LIMITS = {'data_timeout_ms': 3600000}
WAYS = (('with the SUCCESS flag', 4), ('with a completion of its own', 0))


def key(value):
    return value.to_bytes(8, 'little')


def fill(conn, byte):
    cmds = [conn.rw(n.WRITE, MEM, i * (CHUNK // BLOCK), CHUNK // BLOCK, BLOCK, byte * CHUNK, way='r2t')
            for i in range(READS)]
    return {conn.wait(cmd).status for cmd in cmds}


class Scene:
    """
    The victim reads all of the namespace and receives nothing. The mark of the queue's last command shows
    that the target has answered the commands before it.
    """
    marks = 0

    def __init__(self, t, tgt, cattr):
        self.holder = tgt.host(hostnqn=HOLDER, hostid=b'\x01' * 16)
        self.victim = tgt.host(hostnqn=VICTIM, hostid=b'\x02' * 16)
        self.mine, self.theirs = self.holder.queue(1), self.victim.queue(1, cattr=cattr)
        self.theirs.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, CHUNK)
        t.eq(fill(self.mine, OLD), {n.OK}, 'the namespace is written', SPEC)

    def ask(self, t):
        Scene.marks += 1
        mark = bytes([Scene.marks]) * BLOCK
        self.cmds = [self.theirs.rw(n.READ, MEM, i * (CHUNK // BLOCK), CHUNK // BLOCK, BLOCK)
                     for i in range(READS)]
        self.last = self.theirs.rw(n.WRITE, MARK, 0, 1, BLOCK, mark, way='capsule')
        t.ok(target.poll(lambda: bytes(self.mine.read(MARK, 0, 1, BLOCK).data) == mark),
             'reads wait for a host that does not take them', SPEC)

    def take(self):
        """
        Receives. Returns how often each status came, the data read before the end, and whether the connection
        ended.
        """
        statuses, data, is_closed = [], [], False
        try:
            for cmd in self.cmds:
                statuses.append(self.theirs.wait(cmd).status)
            self.theirs.wait(self.last)
        except n.Closed:
            is_closed = True
        for cmd in self.cmds:
            data.append(bytes(cmd.data))
        return statuses, b''.join(data), is_closed

    def close(self):
        self.holder.close()
        self.victim.close()


def judge(t, scene, what, want):
    statuses, data, is_closed = scene.take()
    t.eq(data.count(NEW), 0, '%s: nothing that was written later is read' % what, SPEC)
    t.ok(not is_closed, 'the connection goes on', SPEC)
    t.eq(set(statuses[:1]), {n.OK}, 'what had begun to leave ends well', SPEC)
    t.eq(set(statuses[-1:]), {want}, 'what had not is refused', SPEC)
    t.eq(set(statuses), {n.OK, want}, 'and nothing else came', SPEC)


def preempted(t, tgt, what, action, cattr):
    scene = Scene(t, tgt, cattr)
    mine, theirs = scene.mine, scene.theirs
    t.status(mine.do(REGISTER, MEM, data=key(0) + key(1)), n.OK, 'register', SPEC)
    t.status(theirs.do(REGISTER, MEM, data=key(0) + key(2)), n.OK, 'register', SPEC)
    t.status(theirs.do(ACQUIRE, MEM, data=key(2) + key(0), cdw10=EXCLUSIVE_ACCESS), n.OK, 'acquire', SPEC)
    scene.ask(t)
    t.status(mine.do(ACQUIRE, MEM, data=key(1) + key(2), cdw10=action | EXCLUSIVE_ACCESS), n.OK, what, SPEC)
    t.eq(fill(mine, NEW), {n.OK}, 'the new holder writes', SPEC)
    judge(t, scene, what, CONFLICT)
    t.status(theirs.read(MEM, 0, 1, BLOCK), CONFLICT, 'a new read is refused as they were', SPEC)
    t.status(mine.do(RELEASE, MEM, data=key(1), cdw10=1), n.OK, 'clear', SPEC)
    t.eq(bytes(theirs.read(MEM, 0, 1, BLOCK).data), NEW * BLOCK, 'with the right to it, it reads what is there', SPEC)
    scene.close()


def change(tgt, nsid, **fields):
    def edit(config):
        for ns in config['subsystems'][0]['namespaces']:
            if ns['nsid'] == nsid:
                ns.update(fields)
    tgt.reload(edit)


def hidden(t, tgt, cattr):
    scene = Scene(t, tgt, cattr)
    scene.ask(t)
    change(tgt, MEM, hidden_from=[VICTIM])
    t.eq(fill(scene.mine, NEW), {n.OK}, 'another host writes', SPEC)
    judge(t, scene, 'hidden', n.INVALID_FIELD)
    change(tgt, MEM, hidden_from=[])
    scene.close()


def grown(t, tgt, cattr):
    """A change that takes no right stops no read; a read during a write may return either data."""
    scene = Scene(t, tgt, cattr)
    scene.ask(t)
    change(tgt, MEM, media='mem:%dM,block=%d' % (MEGABYTES + 8, BLOCK))
    statuses, data, is_closed = scene.take()
    t.eq((set(statuses), is_closed, len(data)), ({n.OK}, False, READS * CHUNK), 'a namespace that grows', SPEC)
    scene.close()


def revoked(t, tgt, cattr):
    scene = Scene(t, tgt, cattr)
    scene.ask(t)

    def edit(config):
        config['subsystems'][0].update(allow_any_host=False, hosts=[HOLDER])
    tgt.reload(edit)
    t.eq(fill(scene.mine, NEW), {n.OK}, 'another host writes', SPEC)
    statuses, data, is_closed = scene.take()
    t.eq(data.count(NEW), 0, 'a host that is not allowed any more reads nothing of it', SPEC)
    t.ok(is_closed or scene.theirs.wait_closed(), 'and its connection ends', SPEC)
    tgt.reload(lambda config: config['subsystems'][0].update(allow_any_host=True, hosts=[]))
    scene.close()


def removed(t, tgt, cattr):
    """The memory is released although the connection stays open."""
    scene = Scene(t, tgt, cattr)
    scene.ask(t)

    def edit(config):
        spaces = config['subsystems'][0]['namespaces']
        spaces[:] = [ns for ns in spaces if ns['nsid'] != MEM]
    tgt.reload(edit)
    judge(t, scene, 'removed', n.INVALID_FIELD)
    t.status(scene.theirs.read(MARK, 0, 1, BLOCK), n.OK, 'other namespaces are there', SPEC)
    tgt.reload(lambda config: config['subsystems'][0]['namespaces'].append(memory()))
    scene.close()


def handed_over(t, tgt, cattr):
    """Another namespace gets the NSID and the memory in one change."""
    scene = Scene(t, tgt, cattr)
    scene.ask(t)
    change(tgt, MEM, uuid=str(uuid.uuid4()))
    target.know(scene.holder, scene.mine, MEM, BLOCK)
    t.eq(fill(scene.mine, NEW), {n.OK}, 'the host of the next namespace writes', SPEC)
    judge(t, scene, 'handed over', n.INVALID_NS)
    scene.close()


def poor(t):
    """One reactor whose buffers for this host are all at a medium that takes an hour."""
    tgt = target.Target(reactors=1, limits=LIMITS, subsystems=subsystems(target.namespace(
        SLOW, 'fault:delay:op=read:ms=%d@mem:8M,block=%d' % (LIMITS['data_timeout_ms'], BLOCK))))
    try:
        scene = Scene(t, tgt, 4)
        taker = scene.victim.queue(2)
        for _ in range(100):
            taker.rw(n.READ, SLOW, 0, CHUNK // BLOCK, BLOCK)
        t.status(taker.do(n.FLUSH, MARK), n.OK, 'its buffers are taken', SPEC)
        scene.ask(t)
        change(tgt, MEM, hidden_from=[VICTIM])
        t.eq(fill(scene.mine, NEW), {n.OK}, 'another host writes', SPEC)
        statuses, data, is_closed = scene.take()
        t.eq(data.count(NEW), 0, 'nothing that was written later is read where there is no buffer', SPEC)
        # The kernel may have stopped in the middle of a read, which then cannot be copied.
        t.ok(is_closed or set(statuses) == {n.OK, n.INVALID_FIELD}, 'the connection ends, or all is answered', SPEC)
        scene.close()
    finally:
        tgt.kill()
        tgt.remove()


def memory():
    return target.namespace(MEM, 'mem:%dM,block=%d' % (MEGABYTES, BLOCK))


def subsystems(*more):
    return [{'nqn': target.NQN, 'serial': 'READS', 'allow_any_host': True, 'rights': target.ALL_RIGHTS,
             'namespaces': [memory(), target.namespace(MARK, 'mem:1M,block=%d' % BLOCK)] + list(more)}]


def test(t, tgt):
    for way, cattr in WAYS:
        for name, part in (('preempt', lambda: preempted(t, tgt, 'Preempt', PREEMPT, cattr)),
                           ('abort', lambda: preempted(t, tgt, 'Preempt and Abort', PREEMPT_AND_ABORT, cattr)),
                           ('hidden', lambda: hidden(t, tgt, cattr)),
                           ('revoked', lambda: revoked(t, tgt, cattr)),
                           ('removed', lambda: removed(t, tgt, cattr)),
                           ('handed over', lambda: handed_over(t, tgt, cattr)),
                           ('grown', lambda: grown(t, tgt, cattr))):
            with t.guard('%s, %s' % (name, way)):
                part()
    with t.guard('poor'):
        poor(t)


target.run(Tap(), test, limits=LIMITS, subsystems=subsystems())
