#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
A right that is taken away while commands use it: Preempt and Abort, Acquire, a mask, removal, write protection. The
sources of a Copy count like its destination. A command of several pieces ends before its next piece, and the
change is answered when the last piece has left its medium. Slow media keep the commands running. docs/adr/0028.
"""

import os
import struct
import tempfile

import nvmetcp as n
import restapi
import target
from tap import Tap

SPEC = 'ADR 0028'
SOURCE, DEST, SLOW_WRITE, ONE_SLOW, STUCK, FILE, SLOW_DISCARD = 1, 2, 3, 4, 5, 6, 7
REGISTER, ACQUIRE, RELEASE, VERIFY, DSM = 0x0d, 0x11, 0x15, 0x0c, 0x09
CONFLICT, PREEMPTED, INTERNAL = (0, 0x83), (0, 0x1b), (0, 0x06)
# Of a command that has done a part. Invalid Field would promise that nothing was done, and a host may send a Copy again.
INTERRUPTED = (0, 0x21)
EXCLUSIVE_ACCESS = 2
THIEF, OWNER = 'nqn.2014-08.org.example:thief', 'nqn.2014-08.org.example:owner'
KEY_THIEF, KEY_OWNER = (1).to_bytes(8, 'little'), (2).to_bytes(8, 'little')
PIECE_MS, WRITE_MS, STUCK_MS = 50, 1500, 14000
BARRIER_S = 45.0
RANGE, RANGES = 2048, 4  # blocks; 1 MiB is eight pieces
LAST = RANGE * RANGES - 1
OLD, SECRET = b'old.' * 128, b'SECRET! ' * 64
PROTECT = 0x84
FOLDER = tempfile.mkdtemp(prefix='weft-wire-taken-')


def api(tgt):
    return restapi.Client(os.path.join(tgt.folder, 'state', 'weft.sock'))


def change(tgt, nsid, **fields):
    return api(tgt).patch('/v1/subsystems/%s/namespaces/%d' % (target.NQN, nsid), fields).status


def protect(host, nsid, state):
    """A write protection that waits for a medium is answered after 9 s at most."""
    return host.admin.wait(host.admin.submit(n.SET_FEATURES, nsid, cdw10=PROTECT, cdw11=state), BARRIER_S).status


def copy(conn, source, dest, lba=0):
    """A Copy of 4 MiB in format 2h: 32 pieces."""
    ranges = [struct.pack('<I4xQH14x', source, lba + i * RANGE, RANGE - 1) for i in range(RANGES)]
    return conn.submit(n.COPY, dest, data=b''.join(ranges), cdw10=lba, cdw12=RANGES - 1 | 2 << 8)


def begun(t, conn, cmd, nsid, lba, what):
    """Waits until the first piece has arrived."""
    t.ok(target.poll(lambda: bytes(conn.read(nsid, lba, 1).data) == OLD), what + ' has begun', SPEC)
    t.ok(not cmd.is_done, 'and has not ended', SPEC)


def register(t, thief, owner):
    t.status(thief.do(REGISTER, SOURCE, data=bytes(8) + KEY_THIEF), n.OK, 'the first host registers', SPEC)
    t.status(owner.do(REGISTER, SOURCE, data=bytes(8) + KEY_OWNER), n.OK, 'and the second', SPEC)


def preempt(t, owner):
    """Exclusive Access, then Preempt and Abort of the other registrant."""
    t.status(owner.do(ACQUIRE, SOURCE, data=KEY_OWNER + bytes(8), cdw10=EXCLUSIVE_ACCESS << 8), n.OK, 'Acquire', SPEC)
    cmd = owner.submit(ACQUIRE, SOURCE, data=KEY_OWNER + KEY_THIEF, cdw10=2 | EXCLUSIVE_ACCESS << 8)
    t.status(owner.wait(cmd, BARRIER_S), n.OK, 'Preempt and Abort', SPEC)


def acquire(t, owner):
    t.status(owner.do(ACQUIRE, SOURCE, data=KEY_OWNER + bytes(8), cdw10=EXCLUSIVE_ACCESS << 8), n.OK, 'Acquire', SPEC)


def sources(t, tgt, thief, owner):
    """What is written to the source after the change was answered does not reach the host that lost it."""
    qid = 1
    for what, take, give, want in (
            ('Preempt and Abort', preempt, True, (PREEMPTED, CONFLICT)),
            ('Acquire', acquire, True, (CONFLICT,)),
            ('hiding the source', lambda t, owner: t.eq(change(tgt, SOURCE, hidden_from=[THIEF]), 200, 'hidden', SPEC),
             False, (INTERRUPTED,))):
        mine, theirs, other = owner.queue(qid), thief.queue(qid), thief.queue(qid + 1)
        mine.put(SOURCE, LAST, OLD)
        mine.put(DEST, LAST, bytes(512))
        mine.put(DEST, 0, bytes(512))
        if give:
            register(t, theirs, mine)
        cmd = copy(theirs, SOURCE, DEST)
        begun(t, other, cmd, DEST, 0, 'a Copy beside %s' % what)
        take(t, mine)
        t.status(mine.put(SOURCE, LAST, SECRET), n.OK, 'the last block is written after it', SPEC)
        t.ok(theirs.wait(cmd).status in want, 'the Copy ends before its next piece', SPEC, why=str(cmd.status))
        t.eq(bytes(other.read(DEST, LAST, 1).data), bytes(512), 'and its host has not got the block', SPEC)
        if not give:
            t.status(theirs.wait(copy(theirs, SOURCE, DEST)), n.INVALID_FIELD, 'a new Copy is refused', SPEC)
        if give:
            t.status(mine.do(RELEASE, SOURCE, data=KEY_OWNER, cdw10=1), n.OK, 'clear', SPEC)
        else:
            t.eq(change(tgt, SOURCE, hidden_from=[]), 200, 'given back', SPEC)
        qid += 2


def verified(t, tgt, thief):
    conn = thief.queue(10)
    cmd = conn.submit(VERIFY, SOURCE, cdw10=0, cdw12=32767)
    conn.do(n.FLUSH, DEST)
    t.eq(change(tgt, SOURCE, hidden_from=[THIEF]), 200, 'the namespace of a Verify is hidden', SPEC)
    t.status(conn.wait(cmd), n.INVALID_FIELD, 'the Verify ends as a new one would', SPEC)
    t.eq(change(tgt, SOURCE, hidden_from=[]), 200, 'given back', SPEC)


def protected_copy(t, tgt, thief, owner):
    """A protected namespace does not change after the answer."""
    qid = 12
    for what, take, give in (
            ('a host', lambda: protect(owner, SLOW_WRITE, 1), lambda: protect(owner, SLOW_WRITE, 0)),
            ('the operator', lambda: change(tgt, SLOW_WRITE, read_only=True),
             lambda: change(tgt, SLOW_WRITE, read_only=False))):
        conn, other = thief.queue(qid), thief.queue(qid + 1)
        for lba in range(0, 8192, 1024):
            other.put(FILE, lba, OLD * 1024)
            other.put(SLOW_WRITE, lba, bytes(512 * 1024))
        cmd = copy(conn, FILE, SLOW_WRITE)
        begun(t, other, cmd, SLOW_WRITE, 0, 'a Copy to what %s protects' % what)
        t.ok(take() in (n.OK, 200), 'protected by %s' % what, SPEC)
        then = [bytes(other.read(SLOW_WRITE, lba, 1).data) for lba in range(0, 8192, 64)]
        t.status(conn.wait(cmd), n.WRITE_PROTECTED, 'the Copy ends before its next piece', SPEC)
        now = [bytes(other.read(SLOW_WRITE, lba, 1).data) for lba in range(0, 8192, 64)]
        t.ok(now == then and OLD in now and bytes(512) in now, 'the namespace has not changed since', SPEC)
        t.ok(give() in (n.OK, 200), 'protection ends', SPEC)
        qid += 2


def protected_write(t, thief, owner):
    """A write that is at its medium ends before the answer, and is whole."""
    conn = thief.queue(20)
    cmd = conn.rw(n.WRITE, ONE_SLOW, 0, 1, 512, SECRET)
    conn.do(n.FLUSH, DEST)
    t.eq(protect(owner, ONE_SLOW, 1), n.OK, 'protected while a write is at its medium', SPEC)
    t.ok(cmd.is_done or conn.is_readable(0), 'the write was answered before', SPEC)
    t.status(conn.wait(cmd), n.OK, 'as written', SPEC)


def protected_stuck(t, tgt, thief, owner):
    """A medium that does not end a write: the host learns that the namespace may still change."""
    conn = thief.queue(21)
    cmd = conn.rw(n.WRITE, STUCK, 0, 1, 512, SECRET)
    conn.do(n.FLUSH, DEST)
    protection = owner.admin.submit(n.SET_FEATURES, STUCK, cdw10=PROTECT, cdw11=1)
    t.ok(target.poll(lambda: thief.admin.get_feature(PROTECT, nsid=STUCK).dw0 == 1),
         'a protection while a write hangs in its medium', SPEC)
    t.eq(change(tgt, FILE, hidden_from=[THIEF]), 200, 'other changes do not wait', SPEC)
    t.ok(not protection.is_done and not owner.admin.is_readable(0), 'for its answer', SPEC)
    t.status(owner.admin.wait(protection, BARRIER_S), INTERNAL, 'the answer is an error', SPEC)
    t.ok(not cmd.is_done and not conn.is_readable(0), 'and hangs still', SPEC)
    t.status(thief.queue(22).put(STUCK, 8, OLD), n.WRITE_PROTECTED, 'the protection is in force', SPEC)
    conn.wait(cmd, BARRIER_S)


def finished(t, tgt, thief):
    """The right is lost while the last piece is with the medium: the command is complete."""
    conn, other = thief.queue(26), thief.queue(27)
    for what, lose in (('hidden', lambda: change(tgt, SLOW_DISCARD, hidden_from=[THIEF])),
                       ('protected', lambda: change(tgt, SLOW_DISCARD, read_only=True))):
        other.put(SLOW_DISCARD, 8, OLD)
        cmd = conn.submit(DSM, SLOW_DISCARD, data=struct.pack('<IIQ', 0, 1, 8), cdw11=4)
        conn.do(n.FLUSH, DEST)  # answered: the medium has the deallocation
        t.eq(lose(), 200, '%s while a deallocation is with its medium' % what, SPEC)
        t.status(conn.wait(cmd, BARRIER_S), n.OK, 'which is done, and answered so', SPEC)
        t.eq(change(tgt, SLOW_DISCARD, hidden_from=[], read_only=False), 200, 'given back', SPEC)
        target.know(thief, other, SLOW_DISCARD)
        t.eq(bytes(other.read(SLOW_DISCARD, 8, 1).data), bytes(512), 'the block is deallocated', SPEC)


def removed(t, tgt, thief, owner):
    conn, other = thief.queue(24), thief.queue(25)
    other.put(DEST, 0, bytes(512))
    cmd = copy(conn, SOURCE, DEST)
    begun(t, other, cmd, DEST, 0, 'a Copy whose source is removed')
    answer = api(tgt).delete('/v1/subsystems/%s/namespaces/%d' % (target.NQN, SOURCE))
    t.eq(answer.status, 200, 'removed', SPEC)
    t.status(conn.wait(cmd), INTERRUPTED, 'the Copy ends before its next piece', SPEC)
    t.status(conn.wait(copy(conn, SOURCE, DEST)), n.INVALID_FIELD, 'a new Copy is refused', SPEC)


def test(t, tgt):
    thief = tgt.host(hostnqn=THIEF, hostid=bytes(range(1, 17)))
    owner = tgt.host(hostnqn=OWNER, hostid=bytes(range(101, 117)))
    thief.admin.set_feature(0x16, data=bytes(4) + b'\x04'.ljust(508, b'\0'))
    writer = owner.queue(60)
    for lba in range(0, 8192, 1024):
        writer.put(SOURCE, lba, OLD * 1024)
    for name, part in (('sources', lambda: sources(t, tgt, thief, owner)),
                       ('verified', lambda: verified(t, tgt, thief)),
                       ('protected_copy', lambda: protected_copy(t, tgt, thief, owner)),
                       ('protected_write', lambda: protected_write(t, thief, owner)),
                       ('protected_stuck', lambda: protected_stuck(t, tgt, thief, owner)),
                       ('finished', lambda: finished(t, tgt, thief)),
                       ('removed', lambda: removed(t, tgt, thief, owner))):
        with t.guard(name):
            part()
    thief.close()
    owner.close()


def file_ns(nsid, fault=''):
    return target.namespace(nsid, '%sfile:%s,size=64M,block=512' % (fault, os.path.join(FOLDER, str(nsid))))


try:
    target.run(Tap(), test, rights=target.ALL_RIGHTS, namespaces=[
        file_ns(SOURCE, 'fault:delay:op=read:ms=%d@' % PIECE_MS), target.namespace(DEST, 'mem:64M,block=512'),
        file_ns(SLOW_WRITE, 'fault:delay:op=write:ms=%d@' % PIECE_MS),
        file_ns(ONE_SLOW, 'fault:delay:op=write:ms=%d@' % WRITE_MS),
        file_ns(STUCK, 'fault:stuck:op=write:ms=%d@' % STUCK_MS), file_ns(FILE),
        file_ns(SLOW_DISCARD, 'fault:delay:op=discard:ms=%d@' % WRITE_MS)])
finally:
    for name in os.listdir(FOLDER):
        os.unlink(os.path.join(FOLDER, name))
    os.rmdir(FOLDER)
