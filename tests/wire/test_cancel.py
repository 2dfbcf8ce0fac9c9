#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Cancel of one command, of all commands of a namespace, and of a queue; its counts of commands that end later;
every refusal. NVMe Base 2.1, section 7.1 (TP4097).
"""


import nvmetcp as n
import target
from tap import Tap

INVALID_CID = (1, 0x84)
SPEC = 'Base 7.1'
MEM, SLOW, SLOW_TOO = 1, 2, 3
ONE, MANY = 0, 1
ALL = 0xffffffff


def cancel(conn, cid, action=ONE, nsid=ALL, sqid=1, **kwargs):
    return conn.submit(n.CANCEL, nsid, cdw10=sqid | cid << 16, cdw11=action, **kwargs)


def done(conn, *args, **kwargs):
    return conn.wait(cancel(conn, *args, **kwargs))


def slow(conn, nsid=SLOW, lba=0):
    return conn.rw(n.READ, nsid, lba, 8, 512)


def counts(cmd):
    """Status, number of commands aborted at once, number deferred."""
    return cmd.status, cmd.dw0 & 0xffff, cmd.dw0 >> 16


def one(t, conn):
    cmds = [slow(conn, lba=i) for i in range(3)]
    answer = done(conn, cmds[1].cid)
    t.eq(counts(answer), (n.OK, 1, 0), 'Cancel of one command', SPEC)
    t.ok(cmds[1].is_done, 'its completion comes before that of the Cancel', SPEC)
    t.status(cmds[1], n.ABORT_REQUESTED, 'it ends with Command Abort Requested', SPEC)
    t.ok(not cmds[0].is_done and not cmds[2].is_done, 'the others run on', SPEC)
    t.eq(counts(done(conn, cmds[0].cid, nsid=SLOW)), (n.OK, 1, 0), 'with its namespace', SPEC)
    t.eq(counts(done(conn, cmds[2].cid, nsid=MEM)), (n.OK, 0, 0),
         'with another namespace: nothing', SPEC)
    t.ok(not cmds[2].is_done, 'and it runs on', SPEC)
    t.eq(counts(done(conn, cmds[2].cid)), (n.OK, 1, 0), 'until it is named right', SPEC)
    t.eq(counts(done(conn, 0x7777)), (n.OK, 0, 0), 'a command that is not there', SPEC)
    gone = conn.read(MEM, 0, 1)
    t.eq(counts(done(conn, gone.cid)), (n.OK, 0, 0), 'a command that has ended', SPEC)


def many(t, host, conn):
    other = host.queue(2)
    cmds = [slow(conn, SLOW, i) for i in range(5)] + [slow(conn, SLOW_TOO, i) for i in range(4)]
    foreign = slow(other)
    t.eq(counts(done(conn, 0xffff, MANY, SLOW)), (n.OK, 5, 0), 'all of a namespace', SPEC)
    t.eq([cmd.is_done for cmd in cmds], [True] * 5 + [False] * 4, 'and of no other', SPEC)
    t.eq(counts(done(conn, 0xffff, MANY)), (n.OK, 4, 0), 'all of the queue', SPEC)
    t.eq({cmd.status for cmd in cmds}, {n.ABORT_REQUESTED}, 'each Command Abort Requested', SPEC)
    t.ok(not foreign.is_done and other.is_silent(), 'other queues are left alone', SPEC)
    t.eq(counts(done(other, 0xffff, MANY, sqid=2)), (n.OK, 1, 0), 'until they ask', SPEC)
    t.eq(counts(done(conn, 0xffff, MANY)), (n.OK, 0, 0), 'nothing is left', SPEC)
    cmds = [slow(conn, SLOW, i) for i in range(120)]
    t.eq(counts(done(conn, 0xffff, MANY)), (n.OK, 120, 0),
         '120 commands, those that wait for buffers too', SPEC)
    t.eq({cmd.status for cmd in cmds}, {n.ABORT_REQUESTED}, 'all are answered', SPEC)


def steps(t, conn):
    """A command of many steps ends between two steps."""
    verify = conn.rw(n.VERIFY, SLOW, 0, 2048, 512)
    t.eq(counts(done(conn, verify.cid)), (n.OK, 1, 0), 'Cancel of a Verify', SPEC)
    t.status(verify, n.ABORT_REQUESTED, 'which ends', SPEC)


def deferred(t, conn):
    """A Write whose data the host owes ends when the data has arrived."""
    conn.put(MEM, 0, bytes(4096))
    write = conn.rw(n.WRITE, MEM, 0, 8, 512, b'\xab' * 4096, way='r2t', is_auto=False)
    conn.wait_r2t(write)
    read = slow(conn)
    t.eq(counts(done(conn, 0xffff, MANY)), (n.OK, 1, 1), 'one at once, one later', SPEC)
    t.ok(read.is_done and not write.is_done, 'the one that waits for data is not over', SPEC)
    conn.answer_r2t(write, write.r2ts[0])
    t.status(conn.wait(write), n.ABORT_REQUESTED, 'it ends when its data is there', SPEC)
    t.eq(bytes(conn.read(MEM, 0, 8).data), bytes(4096), 'and has written nothing', SPEC)


def refusals(t, host, conn):
    for name, do, want in (
            ('itself', lambda: done(conn, conn.next_cid), INVALID_CID),
            ('another queue', lambda: done(conn, 5, sqid=2), n.INVALID_FIELD),
            ('the admin queue', lambda: done(conn, 5, sqid=0), n.INVALID_FIELD),
            ('queue FFFFh', lambda: done(conn, 5, sqid=0xffff), n.INVALID_FIELD),
            ('many, with a command', lambda: done(conn, 5, MANY), n.INVALID_FIELD),
            ('action 10b', lambda: done(conn, 0xffff, 2), n.INVALID_FIELD),
            ('action 11b', lambda: done(conn, 0xffff, 3), n.INVALID_FIELD),
            ('NSID 0', lambda: done(conn, 5, nsid=0), n.INVALID_NS),
            ('an inactive NSID', lambda: done(conn, 0xffff, MANY, 77), n.INACTIVE_NS)):
        t.status(do(), want, 'Cancel: ' + name, SPEC, 1)
    t.status(conn.do(n.CANCEL, ALL, data=bytes(16), cdw10=1), n.SGL_LENGTH, 'Cancel with data',
             'Base 4.2.3.1', 1)
    effects = bytes(host.admin.get_log(5, 4096).data)
    t.ok(effects[1024 + 4 * n.CANCEL] & 1, 'the effects log has Cancel', 'Base 5.1.12.1.6')


def aborted(t, host, conn):
    """Abort and Cancel of the same command: both are answered."""
    cmd = slow(conn)
    conn.do(n.FLUSH, MEM)
    abort = host.admin.submit(n.ABORT, cdw10=1 | cmd.cid << 16)
    answer = done(conn, cmd.cid)
    host.admin.wait(abort)
    conn.wait(cmd)
    t.eq((answer.status, abort.status, cmd.status), (n.OK, n.OK, n.ABORT_REQUESTED),
         'Abort and Cancel of one command', SPEC)


def gone(t, tgt):
    """A host leaves while its Cancel waits."""
    with tgt.host() as host:
        conn = host.queue()
        for i in range(4):
            slow(conn, SLOW, i)
        cancel(conn, 0xffff, MANY)
    with tgt.host() as host:
        t.status(host.queue().read(MEM, 0, 1), n.OK, 'after a host left amid a Cancel', SPEC)


def test(t, tgt):
    with tgt.host() as host:
        conn = host.queue()
        for name, part in (('one', one), ('steps', steps), ('deferred', deferred)):
            with t.guard(name):
                part(t, conn)
        for name, part in (('many', many), ('refusals', refusals), ('aborted', aborted)):
            with t.guard(name):
                part(t, host, conn)
    with t.guard('gone'):
        gone(t, tgt)


SPACES = [
    target.namespace(MEM, 'mem:4M,block=512'),
    target.namespace(SLOW, 'fault:delay:op=read:ms=3600000@mem:1M,block=512'),
    target.namespace(SLOW_TOO, 'fault:delay:op=read:ms=3600000@mem:1M,block=512'),
]

target.run(Tap(), test, namespaces=SPACES)
