#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
A namespace that another process serves too. The two processes share no atomicity and no host state, so
reservations, marks of bad blocks, fused pairs, write protection and labels are refused, and Identify shows
that. Answers to the operator name the members that a change does not reach. NVMe Base 2.1, sections 3.4.2 and
8.1.22; NVM Command Set 1.1, section 2.1.4.
"""

import tempfile

import nvmetcp as n
import target
from peerlink import World
from tap import Tap

REGISTER, REPORT, ACQUIRE, RELEASE = 0x0d, 0x0e, 0x11, 0x15
FUSE_FIRST, FUSE_SECOND = 0x41, 0x42
FUSED_FAIL = (0, 0x09)
OPERATION_DENIED = (0, 0x15)
BLOCK = 4096


def identify(t, host):
    page = bytes(host.admin.identify(0, 1).data)
    t.eq(page[31], 0, 'RESCAP: no reservations', 'Base 8.1.22')
    t.eq((page[34:36], page[38:40]), (bytes(2), bytes(2)), 'NAWUN and NACWU: one block', 'NVM 2.1.4')
    page = bytes(host.admin.identify(8, 1).data)
    t.eq(page[5], 0, 'RESCAP of CNS 08h likewise', 'Base 8.1.22')


def refused(t, conn):
    for opcode, name, kwargs in (
            (REGISTER, 'Reservation Register', {'data': bytes(16)}),
            (REPORT, 'Reservation Report', {'read_bytes': 64, 'cdw10': 15, 'cdw11': 1}),
            (ACQUIRE, 'Reservation Acquire', {'data': bytes(16)}),
            (RELEASE, 'Reservation Release', {'data': bytes(8)}),
            (n.WRITE_UNCORRECTABLE, 'Write Uncorrectable', {})):
        t.status(conn.do(opcode, 1, **kwargs), n.INVALID_OPCODE, name, 'Base 8.1.22', dnr=1)


def features(t, host):
    for cdw11, name in ((1, 'write protection'), (2, 'write protection until power cycle'), (3, 'permanent one')):
        t.status(host.admin.do(n.SET_FEATURES, 1, cdw10=0x84, cdw11=cdw11), OPERATION_DENIED,
                 'Set Features, %s' % name, 'Base 5.1.25.1.30', dnr=1)
    t.status(host.admin.do(n.SET_FEATURES, 1, data=b'label'.ljust(256, b'\0'), cdw10=0x1f), OPERATION_DENIED,
             'Set Features, label', 'Base 5.1.25.1.24', dnr=1)
    t.status(host.queue(2).put(1, 0, bytes(BLOCK), BLOCK), n.OK, 'it can be written')
    page = bytes(host.admin.identify(1).data)
    t.eq(page[3096], 1, 'Identify Controller: clustered', 'docs/spec-coverage.md')


def operator(t, world):
    """An operator's change applies to one member, and the answer names the others."""
    path = '/v1/subsystems/%s/namespaces/1' % target.NQN
    for body, what in (({'write_protect': 'protected'}, 'can write through members without write protection'),
                       ({'write_protect': 'none'}, 'repeat the change on b'),
                       ({'size': '16M'}, 'only through members with the same size'),
                       ({'label': 'x'}, 'to this member only')):
        answer = world.api('a').patch(path, body)
        notes = ' '.join(answer.json.get('notes', ()))
        t.ok(answer.status == 200 and what in notes and 'on b' in notes,
             'the answer to %s says that the other member does not have it' % body, why=answer.json)


def fused(t, conn):
    old, new = b'\x11' * BLOCK, b'\x22' * BLOCK
    conn.put(1, 0, old, BLOCK)
    first = conn.rw(n.COMPARE, 1, 0, 1, BLOCK, old, flags=FUSE_FIRST)
    second = conn.rw(n.WRITE, 1, 0, 1, BLOCK, new, flags=FUSE_SECOND)
    conn.wait(first)
    conn.wait(second)
    t.status(first, n.INVALID_FIELD, 'Compare of a fused pair', 'Base 3.4.2', dnr=1)
    t.status(second, FUSED_FAIL, 'and its Write', 'Base 3.4.2')
    t.eq(bytes(conn.read(1, 0, 1, BLOCK).data), old, 'nothing is written', 'Base 3.4.2')
    t.status(conn.wait(conn.rw(n.COMPARE, 1, 0, 1, BLOCK, old)), n.OK, 'a plain Compare works')


def test(t, world):
    with world['a'].host() as host:
        conn = host.queue()
        for part, arg in ((identify, host), (refused, conn), (fused, conn), (features, host), (operator, world)):
            with t.guard(part.__name__):
                part(t, arg)


def in_flight(t, where):
    """
    Writes must not wait in the ring (RWF_NOWAIT). A file system without RWF_NOWAIT refuses the first writes,
    all at once; none of them may fail.
    """
    world = World(start=False, where=where)
    try:
        world['a'].start()
        with world['a'].host() as host:
            conns = [host.queue(qid=qid) for qid in (1, 2)]
            cmds = [(conn, conn.rw(n.WRITE, 1, 2 * lba + i, 1, BLOCK, bytes([lba + 1]) * BLOCK))
                    for lba in range(24) for i, conn in enumerate(conns)]
            for conn, cmd in cmds:
                conn.wait(cmd)
            bad = [cmd.status for _, cmd in cmds if cmd.status != n.OK]
            t.eq(bad, [], '%d writes at once, the first ones after the start, in %s' % (len(cmds), where))
            got = bytes(conns[0].read(1, 0, 48, BLOCK).data)
            t.ok(got == b''.join(bytes([i // 2 + 1]) * BLOCK for i in range(48)), 'and all are there')
    finally:
        world.finish(t)


def is_tmpfs(folder):
    with open('/proc/mounts') as file:
        return any(line.split()[1:3] == [folder, 'tmpfs'] for line in file)


def start():
    t = Tap()
    for where in (tempfile.gettempdir(), '/dev/shm'):
        with t.guard('in flight'):
            if where == '/dev/shm' and not is_tmpfs(where):
                t.skip('writes in flight on tmpfs', '/dev/shm is none')
            else:
                in_flight(t, where)
    world = World(start=False)
    try:
        with t.guard('the test as a whole'):
            world['a'].start()
            test(t, world)
    finally:
        world.finish(t)
    return t.done()


target.weft_path()
raise SystemExit(start())
