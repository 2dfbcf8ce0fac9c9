#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Abort of held event requests, of commands on a slow medium, and of commands whose data the host has not sent;
and what Abort returns when there is nothing to abort. NVMe Base 2.1, section 5.1.1.
"""

import os
import struct
import tempfile

import nvmetcp as n
import target
from tap import Tap

SPEC = 'Base 5.1.1'
SLOW_READ, SLOW_WRITE, SLOW_DISCARD, SLOW_FLUSH = 2, 3, 4, 5
SLOW_MS = 3600000  # an hour: longer than any test


def abort(host, sqid, cid, **kwargs):
    return host.admin.submit(n.ABORT, cdw10=sqid | cid << 16, **kwargs)


def done(host, sqid, cid):
    return host.admin.wait(abort(host, sqid, cid))


def arrived(conn):
    """Waits for a later command on the same queue: the commands before it have reached the target."""
    conn.do(n.FLUSH, 1)


def event_request(t, host):
    aers = [host.admin.submit(n.AER) for _ in range(3)]
    cmd = done(host, 0, aers[1].cid)
    t.eq((cmd.status, cmd.dw0 & 1), (n.OK, 0), 'Abort of a held event request: aborted', SPEC)
    host.admin.wait(aers[1])
    t.status(aers[1], n.ABORT_REQUESTED, 'the request ends with Command Abort Requested', SPEC)
    t.ok(not aers[0].is_done and not aers[2].is_done, 'its neighbours are still held', SPEC)
    for aer in (aers[0], aers[2]):
        done(host, 0, aer.cid)
        host.admin.wait(aer)


def slow_command(t, host, conn):
    for name, make in (
            ('Read', lambda: conn.rw(n.READ, SLOW_READ, 0, 8, 512)),
            ('Write', lambda: conn.rw(n.WRITE, SLOW_WRITE, 0, 8, 512, n.pattern(4096)))):
        cmd = make()
        arrived(conn)
        answer = done(host, 1, cmd.cid)
        t.eq((answer.status, answer.dw0 & 1), (n.OK, 0), 'Abort of a slow %s: aborted' % name,
             SPEC)
        conn.wait(cmd)
        t.status(cmd, n.ABORT_REQUESTED, 'the %s ends with Command Abort Requested' % name, SPEC)
        t.eq(bytes(cmd.data), b'', 'an aborted %s has no data' % name, SPEC)
    others = [conn.rw(n.READ, SLOW_READ, i, 1, 512) for i in range(4)]
    arrived(conn)
    done(host, 1, others[2].cid)
    conn.wait(others[2])
    t.eq([cmd.is_done for cmd in others], [False, False, True, False],
         'Abort hits the command that it names', SPEC)
    for i in (0, 1, 3):
        done(host, 1, others[i].cid)
        conn.wait(others[i])
    t.status(conn.read(1, 0, 1), n.OK, 'the queue works on', SPEC)


def nothing_to_abort(t, host, conn):
    cmd = done(host, 1, 0x7777)
    t.eq((cmd.status, cmd.dw0 & 1), (n.OK, 1), 'unknown command identifier: not aborted', SPEC)
    cmd = done(host, 0, 0x7777)
    t.eq((cmd.status, cmd.dw0 & 1), (n.OK, 1), 'the same on the admin queue', SPEC)
    finished = conn.read(1, 0, 1)
    cmd = done(host, 1, finished.cid)
    t.eq((cmd.status, cmd.dw0 & 1), (n.OK, 1), 'a command that has ended: not aborted', SPEC)
    cmd = abort(host, 0, host.admin.next_cid)
    host.admin.wait(cmd)
    t.eq((cmd.status, cmd.dw0 & 1), (n.OK, 1), 'an Abort of itself: not aborted', SPEC)
    for sqid in (9, 0xffff):
        cmd = done(host, sqid, 1)
        t.status(cmd, n.INVALID_FIELD, 'queue %d does not exist' % sqid, SPEC)


def limit(t, host, conn):
    """Writes wait for data that the host does not send, so their Aborts wait too, up to the limit (ACL)."""
    acl = host.admin.identify(1).data[258] + 1
    writes = [conn.rw(n.WRITE, 1, 8 * i, 8, 512, b'\xab' * 4096, way='r2t', is_auto=False)
              for i in range(acl + 1)]
    for cmd in writes:
        conn.wait_r2t(cmd)
    before = bytes(conn.read(1, 0, 8 * (acl + 1)).data)
    aborts = [abort(host, 1, cmd.cid) for cmd in writes]
    host.admin.wait(aborts[acl])
    t.status(aborts[acl], n.ABORT_LIMIT, 'one Abort more than ACL', 'Base 5.1.1, ACL')
    t.ok(not any(cmd.is_done for cmd in aborts[:acl]), 'the others wait for their commands', SPEC)
    for cmd in writes[:acl]:
        conn.answer_r2t(cmd, cmd.r2ts[0])
        conn.wait(cmd)
    for cmd in aborts[:acl]:
        host.admin.wait(cmd)
    t.eq([cmd.status for cmd in writes[:acl]], [n.ABORT_REQUESTED] * acl,
         'writes aborted while their data was on its way', SPEC)
    t.eq([cmd.dw0 & 1 for cmd in aborts[:acl]], [0] * acl, 'and their Aborts say so', SPEC)
    t.eq(bytes(conn.read(1, 0, 8 * acl).data), before[:4096 * acl], 'nothing of them was written',
         SPEC)
    conn.answer_r2t(writes[acl], writes[acl].r2ts[0])
    t.status(conn.wait(writes[acl]), n.OK, 'the one that was not aborted is done', SPEC)


def aborted(t, host, conn, cmd, name):
    """Aborts the command, which must end as aborted without waiting for the medium."""
    answer = done(host, 1, cmd.cid)
    conn.wait(cmd)
    t.eq((answer.status, answer.dw0 & 1, cmd.status), (n.OK, 0, n.ABORT_REQUESTED),
         'Abort of %s: aborted' % name, SPEC)


def every_state(t, host, conn):
    """Aborts commands in every state: at the medium, between steps, waiting for blocks or buffers."""
    ranges = b''.join(struct.pack('<IIQ', 0, 8, 16 * i) for i in range(4))
    cmd = conn.submit(n.DSM, SLOW_DISCARD, data=ranges, cdw10=3, cdw11=4)
    arrived(conn)
    aborted(t, host, conn, cmd, 'Dataset Management')
    cmd = conn.rw(n.COMPARE, SLOW_READ, 0, 8, 512, bytes(4096))
    arrived(conn)
    aborted(t, host, conn, cmd, 'a Compare')
    for name, nsid in (('a Flush', SLOW_FLUSH), ('a Flush of all namespaces', 0xffffffff)):
        cmd = conn.submit(n.FLUSH, nsid)
        arrived(conn)
        aborted(t, host, conn, cmd, name)
    # The medium has as many reads as there are buffers; the rest wait for buffers.
    cmds = [conn.rw(n.READ, SLOW_READ, 0, 1024, 512) for _ in range(100)]
    arrived(conn)
    for cmd in reversed(cmds):
        answer = done(host, 1, cmd.cid)
        conn.wait(cmd)
        if answer.dw0 & 1 or cmd.status != n.ABORT_REQUESTED:
            break
    t.eq([cmd.status for cmd in cmds], [n.ABORT_REQUESTED] * 100,
         'Abort of 100 large Reads, those that wait for room first', SPEC)


def arriving_once(host, conn):
    """Aborts a Write whose capsule is not complete; returns its statuses, and whether data was written."""
    conn.put(SLOW_DISCARD, 40, bytes(4096))
    cmd = conn.rw(n.WRITE, SLOW_DISCARD, 40, 8, 512, b'\xcd' * 4096, way='capsule', send=False)
    conn.send(cmd.wire[:2048])
    try:
        for _ in range(50):  # until an Abort is held: the target has seen the start of the command
            answer = abort(host, 1, cmd.cid)
            host.admin.wait(answer, 0.3)
    except n.Late:
        pass
    conn.send(cmd.wire[2048:])
    conn.wait(cmd)
    host.admin.wait(answer)
    written = bytes(conn.read(SLOW_DISCARD, 40, 8).data) != bytes(4096)
    return cmd.status, answer.dw0 & 1, written


def arriving(t, host, conn):
    """The Abort ends when the capsule is complete. Which of them arrives first depends on the network."""
    ends = set()
    for _ in range(20):
        ends.add(arriving_once(host, conn))
        if (n.ABORT_REQUESTED, 0, False) in ends:
            break
    t.ok((n.ABORT_REQUESTED, 0, False) in ends,
         'Abort of a command that is still arriving: aborted, nothing written', SPEC, ends)
    t.eq(ends - {(n.ABORT_REQUESTED, 0, False), (n.OK, 1, True)}, set(),
         'and it says what happened', SPEC)


def gone(t, tgt):
    """A host leaves amid slow commands: they end, and the target goes on."""
    with tgt.host() as host:
        conn = host.queue()
        for i in range(8):
            conn.rw(n.READ, SLOW_READ, i, 1, 512)
        arrived(conn)
    with tgt.host() as host:
        t.status(host.queue().read(1, 0, 1), n.OK, 'after a host left amid slow commands', SPEC)
    t.ok(target.poll(lambda: tgt.log().count(' gone: ') >= 2), 'its controller goes at once',
         'Base 3.1.2')


def test(t, tgt):
    with tgt.host() as host:
        conn = host.queue()
        with t.guard('event request'):
            event_request(t, host)
        for part in (slow_command, nothing_to_abort, limit, every_state, arriving):
            with t.guard(part.__name__):
                part(t, host, conn)
    with t.guard('gone'):
        gone(t, tgt)


def start():
    with tempfile.TemporaryDirectory(prefix='weft-wire-') as folder:
        file = 'file:%s,size=1M,block=512' % os.path.join(folder, 'a')
        flush = target.namespace(SLOW_FLUSH, 'fault:delay:op=flush:count=2:ms=%d@%s' %
                                 (SLOW_MS, file))
        target.run(Tap(), test, namespaces=SPACES + [flush])


SPACES = [
    target.namespace(1, 'mem:4M,block=512'),
    target.namespace(SLOW_READ, 'fault:delay:op=read:ms=%d@mem:1M,block=512' % SLOW_MS),
    target.namespace(SLOW_WRITE, 'fault:delay:op=write:ms=%d@mem:1M,block=512' % SLOW_MS),
    target.namespace(SLOW_DISCARD, 'fault:delay:op=discard:ms=%d@mem:1M,block=512' % SLOW_MS),
]

start()
