#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Fused Compare and Write: statuses of both when the pair succeeds, when the comparison fails, and when either
is refused, aborted or lost; and a counter that several queues on two reactors increment by pairs without
losing a step. NVMe Base 2.1, section 3.4.2; NVM Command Set 1.1, sections 2.1.4 and 3.3.1.
"""

import multiprocessing
import os
import struct
import tempfile

import nvmetcp as n
import target
from tap import Tap

SPEC = 'Base 3.4.2'
FIRST, SECOND, BOTH = 0x41, 0x42, 0x43  # with PSDT 01b
FUSED_FAIL, FUSED_MISSING, ATOMIC_UNIT = (0, 0x09), (0, 0x0a), (0, 0x14)
MEM512, MEM4096, FILE, READ_ONLY, BAD_WRITE, BAD_READ, SLOW, LARGE = 1, 2, 3, 4, 5, 6, 7, 8
TRIM_MEM, TRIM_FILE, SLOW_TRIM, SWAPPED = 9, 10, 11, 12
BLOCK = {MEM512: 512, MEM4096: 4096, FILE: 4096, READ_ONLY: 512, BAD_WRITE: 512, BAD_READ: 512,
         SLOW: 4096, LARGE: 512, TRIM_MEM: 4096, TRIM_FILE: 4096, SLOW_TRIM: 4096,
         SWAPPED: 512}
MIB_BLOCKS = 256  # of 4 KiB


def pair(conn, nsid, lba, old, new, **kwargs):
    """Submits both commands in one send."""
    block = BLOCK[nsid]
    first = conn.rw(n.COMPARE, nsid, lba, len(old) // block, block, old, flags=FIRST, send=False,
                    **kwargs)
    second = conn.rw(n.WRITE, nsid, lba, len(new) // block, block, new, flags=SECOND, send=False,
                     **kwargs)
    conn.send(first.wire + second.wire)
    return first, second


def both(conn, *args, **kwargs):
    first, second = pair(conn, *args, **kwargs)
    return conn.wait(first).status, conn.wait(second).status


def stored(conn, nsid, lba, blocks=1):
    return bytes(conn.read(nsid, lba, blocks, BLOCK[nsid]).data)


def works(t, host):
    conn = host.queue(1)
    for nsid in (MEM512, MEM4096, FILE, SLOW):
        block = BLOCK[nsid]
        for way in ('capsule', 'r2t'):
            old, new, other = (n.pattern(block, seed) for seed in (1, 2, 3))
            conn.put(nsid, 8, old, block)
            t.eq(both(conn, nsid, 8, old, new, way=way), (n.OK, n.OK),
                 'Compare and Write, %s, namespace %d' % (way, nsid), SPEC)
            t.eq(stored(conn, nsid, 8), new, 'it is written: %s, %d' % (way, nsid), SPEC)
            first, second = pair(conn, nsid, 8, old, other, way=way)
            t.status(conn.wait(first), n.COMPARE_FAILURE, 'other data: %s, %d' % (way, nsid),
                     SPEC, 1)
            t.status(conn.wait(second), FUSED_FAIL, 'then the Write fails: %s, %d' % (way, nsid),
                     SPEC)
            t.eq(stored(conn, nsid, 8), new, 'and nothing is written: %s, %d' % (way, nsid), SPEC)
    t.eq(both(conn, FILE, 8, new, old, cdw12=1 << 30), (n.OK, n.OK), 'with FUA', SPEC)


def any_order(t, host):
    """The host answers both R2Ts in either order; the Compare runs before the Write."""
    conn = host.queue(1)
    for nsid in (MEM4096, FILE):
        for name, turn in (('the first', 1), ('the second', -1)):
            old, new = n.pattern(4096, 5), n.pattern(4096, 6)
            conn.put(nsid, 3, old, 4096)
            cmds = pair(conn, nsid, 3, old, new, way='r2t', is_auto=False)
            for cmd in cmds:
                conn.wait_r2t(cmd)
            conn.answer_r2t(cmds[::turn][0], cmds[::turn][0].r2ts[0])
            t.eq(stored(conn, nsid, 3), old, 'data of %s alone does nothing: %d' % (name, nsid),
                 SPEC)
            t.ok(not cmds[0].is_done and not cmds[1].is_done, 'both wait', SPEC)
            conn.answer_r2t(cmds[::turn][1], cmds[::turn][1].r2ts[0])
            t.eq(tuple(conn.wait(cmd).status for cmd in cmds), (n.OK, n.OK),
                 'data of %s first: namespace %d' % (name, nsid), SPEC)
            t.eq(stored(conn, nsid, 3), new, 'and it is written', SPEC)


def sizes(t, host):
    """NACWU: a block on memory, the transfer limit elsewhere."""
    conn = host.queue(1)
    for size in (8192, 65536, 262144, 524288):
        old, new = n.pattern(size, 7), n.pattern(size, 8)
        conn.put(FILE, 0, old, 4096)
        t.eq(both(conn, FILE, 0, old, new), (n.OK, n.OK), '%d bytes on a file' % size, SPEC)
        t.eq(stored(conn, FILE, 0, size // 4096), new, 'all is written', SPEC)
    old = bytes(1024)
    first, second = pair(conn, MEM512, 0, old, old)
    t.status(conn.wait(first), ATOMIC_UNIT, 'two blocks on memory: Atomic Write Unit Exceeded',
             'NVM 2.1.4', 1)
    t.status(conn.wait(second), FUSED_FAIL, 'and its Write', SPEC)


def refused(t, host):
    """One row per error: (first, second) of (opcode, nsid, lba, blocks, flags)."""
    conn = host.queue(1)
    for nsid in (MEM512, LARGE):
        conn.put(nsid, 8, bytes(1024))
    plain = (n.COMPARE, MEM512, 8, 1, FIRST)
    write = (n.WRITE, MEM512, 8, 1, SECOND)
    field = n.INVALID_FIELD
    rows = [
        ('another LBA', plain, (n.WRITE, MEM512, 9, 1, SECOND), field, field),
        ('another length', plain, (n.WRITE, MEM512, 8, 2, SECOND), field, field),
        ('another namespace', plain, (n.WRITE, LARGE, 8, 1, SECOND), field, field),
        ('a Compare as the second', plain, (n.COMPARE, MEM512, 8, 1, SECOND), field, field),
        ('a Read as the second', plain, (n.READ, MEM512, 8, 1, SECOND), field, field),
        ('a Write as the first', (n.WRITE, MEM512, 8, 1, FIRST), write, field, FUSED_FAIL),
        ('a Read as the first', (n.READ, MEM512, 8, 1, FIRST), write, field, FUSED_FAIL),
        ('an unknown opcode', (0x81, MEM512, 8, 1, FIRST), write, field, FUSED_FAIL),
        ('FUSE 11b', (n.COMPARE, MEM512, 8, 1, BOTH), (n.READ, MEM512, 8, 1, 0x40), field, n.OK),
        ('a first alone, then a Read', plain, (n.READ, MEM512, 8, 1, 0x40), FUSED_MISSING, n.OK),
        ('a first alone, then FUSE 11b', plain, (n.READ, MEM512, 8, 1, BOTH), FUSED_MISSING,
         field),
        ('beyond the end', (n.COMPARE, MEM512, 1 << 40, 1, FIRST),
         (n.WRITE, MEM512, 1 << 40, 1, SECOND), n.LBA_RANGE, FUSED_FAIL),
        ('no such namespace', (n.COMPARE, 99, 8, 1, FIRST), (n.WRITE, 99, 8, 1, SECOND),
         n.INACTIVE_NS, FUSED_FAIL),
        ('a namespace that is not to be written', (n.COMPARE, READ_ONLY, 0, 1, FIRST),
         (n.WRITE, READ_ONLY, 0, 1, SECOND), FUSED_FAIL, n.WRITE_PROTECTED),
        ('a medium that cannot write', (n.COMPARE, BAD_WRITE, 0, 1, FIRST),
         (n.WRITE, BAD_WRITE, 0, 1, SECOND), n.OK, n.WRITE_FAULT),
        ('a medium that cannot read', (n.COMPARE, BAD_READ, 0, 1, FIRST),
         (n.WRITE, BAD_READ, 0, 1, SECOND), n.UNRECOVERED_READ, FUSED_FAIL),
    ]
    for name, one, two, want_one, want_two in rows:
        for way in ('capsule', 'r2t'):
            with t.guard(name, SPEC):
                cmds = []
                for opcode, nsid, lba, blocks, flags in (one, two):
                    data = b'' if opcode == n.READ else bytes(512 * blocks)
                    cmds.append(conn.rw(opcode, nsid, lba, blocks, 512, data, flags=flags,
                                        way=way, send=False))
                conn.send(cmds[0].wire + cmds[1].wire)
                t.eq(tuple(conn.wait(cmd).status for cmd in cmds), (want_one, want_two),
                     '%s, %s' % (name, way), SPEC)
    cmd = conn.put(MEM512, 8, bytes(512), flags=SECOND)
    t.status(cmd, FUSED_MISSING, 'a second alone', SPEC)
    first = conn.rw(n.COMPARE, MEM512, 8, 1, 512, bytes(512), flags=FIRST)
    t.eq(both(conn, MEM512, 8, bytes(512), n.pattern(512)), (n.OK, n.OK),
         'a first alone, then a pair: the pair works', SPEC)
    t.status(conn.wait(first), FUSED_MISSING, 'and the lone one is missing its second', SPEC)
    t.status(host.admin.do(n.IDENTIFY, read_bytes=4096, cdw10=1, flags=FIRST), field,
             'a fused admin command', SPEC, 1)


def digest(t, tgt):
    with tgt.host(ddgst=True) as host:
        conn = host.queue(1)
        for name, spoil, want in (('first', 0, (n.TRANSIENT_TRANSPORT, FUSED_FAIL)),
                                  ('second', 1, (FUSED_FAIL, n.TRANSIENT_TRANSPORT))):
            cmds = []
            for i, (opcode, flags) in enumerate(((n.COMPARE, FIRST), (n.WRITE, SECOND))):
                cmds.append(conn.rw(opcode, FILE, 30, 1, 4096, bytes(4096), flags=flags,
                                    send=False, spoil_ddgst=i == spoil))
            conn.send(cmds[0].wire + cmds[1].wire)
            t.eq(tuple(conn.wait(cmd).status for cmd in cmds), want,
                 'a wrong digest of the data of the ' + name, 'TCP 3.3.1.3')
        t.eq(both(conn, MEM4096, 30, bytes(4096), n.pattern(4096)), (n.OK, n.OK),
             'with data digests', SPEC)


def abort(host, cid):
    cmd = host.admin.do(n.ABORT, cdw10=1 | cid << 16)
    return cmd.status, cmd.dw0 & 1


def aborted(t, host):
    conn = host.queue(1)
    zero = bytes(4096)
    conn.put(FILE, 40, zero, 4096)
    first = conn.rw(n.COMPARE, FILE, 40, 1, 4096, zero, flags=FIRST)
    target.poll(lambda: abort(host, first.cid) == (n.OK, 0))
    t.status(conn.wait(first), n.ABORT_REQUESTED, 'Abort of a first that waits', 'Base 5.1.1')
    t.status(conn.put(FILE, 40, zero, 4096, flags=SECOND), FUSED_FAIL, 'its second fails', SPEC)
    for name, victim, want in (
            ('first', 0, (n.ABORT_REQUESTED, FUSED_FAIL)),
            ('second', 1, (FUSED_FAIL, n.ABORT_REQUESTED))):
        cmds = pair(conn, FILE, 40, zero, zero, way='r2t', is_auto=False)
        for cmd in cmds:
            conn.wait_r2t(cmd)
        other = cmds[1 - victim]
        conn.answer_r2t(other, other.r2ts[0])
        # The Abort's answer waits for the end of the command, which waits for its data.
        asked = host.admin.submit(n.ABORT, cdw10=1 | cmds[victim].cid << 16)
        host.admin.identify(1)  # answered later: the victim's queue has the Abort
        stored(conn, FILE, 40)
        conn.answer_r2t(cmds[victim], cmds[victim].r2ts[0])
        t.eq(tuple(conn.wait(cmd).status for cmd in cmds), want,
             'Abort of a %s whose data is owed' % name, 'Base 5.1.1')
        host.admin.wait(asked)
    # On a slow medium a write holds the block, and the pair waits for the block.
    slow = conn.rw(n.WRITE, SLOW, 0, 1, 4096, zero)
    cmds = pair(conn, SLOW, 0, zero, n.pattern(4096))
    target.poll(lambda: abort(host, cmds[0].cid) == (n.OK, 0))
    t.eq(tuple(conn.wait(cmd).status for cmd in cmds), (n.ABORT_REQUESTED, FUSED_FAIL),
         'Abort of a pair that waits for its range', 'Base 5.1.1')
    waits = conn.rw(n.WRITE, SLOW, 0, 1, 4096, zero)
    target.poll(lambda: abort(host, waits.cid) == (n.OK, 0))
    t.status(conn.wait(waits), n.ABORT_REQUESTED, 'Abort of a Write that waits for its range',
             'Base 5.1.1')
    t.status(conn.wait(slow), n.OK, 'whoever had the range is not touched', 'Base 5.1.1')
    t.eq(both(conn, SLOW, 0, zero, zero), (n.OK, n.OK), 'and the range is free again', SPEC)


def trim(conn, nsid, *ranges):
    """Starts a deallocation of ranges (LBA, blocks)."""
    data = b''.join(struct.pack('<IIQ', 0, blocks, lba) for lba, blocks in ranges)
    return conn.submit(n.DSM, nsid, data=data, cdw10=len(ranges) - 1, cdw11=4)


def deallocated(t, tgt):
    """
    A deallocation never runs between a Compare and its Write, however large it is. The Write is slow, and the
    deallocation arrives meanwhile on another reactor: it runs after the pair, so the block ends deallocated.
    """
    spec = 'Base 3.4.2, NVM 3.3.3'
    old, new, zero = n.pattern(4096, 11), n.pattern(4096, 12), bytes(4096)
    rows = (
        ('4 MiB', [(0, 4 * MIB_BLOCKS)]),
        ('8 MiB', [(0, 8 * MIB_BLOCKS)]),
        ('all', [(0, 16 * MIB_BLOCKS)]),
        ('two ranges', [(8 * MIB_BLOCKS, 8 * MIB_BLOCKS), (1, 6 * MIB_BLOCKS)]),
    )
    with tgt.host() as host:
        a, b = host.queue(1), host.queue(2)
        t.ok(tgt.reactor_of(a) != tgt.reactor_of(b), 'pairs and deallocations on two reactors')
        for nsid in (TRIM_MEM, TRIM_FILE):
            for name, ranges in rows:
                what = 'a deallocation of %s beside a pair: namespace %d' % (name, nsid)
                with t.guard(what, spec):
                    a.put(nsid, 8, old, 4096)
                    cmds = pair(a, nsid, 8, old, new)
                    stored(a, nsid, 15 * MIB_BLOCKS)  # answered later: the pair runs
                    beside = trim(b, nsid, *ranges)
                    t.eq(tuple(a.wait(cmd).status for cmd in cmds), (n.OK, n.OK), what, spec)
                    t.status(b.wait(beside), n.OK, 'and it is done', spec)
                    t.eq(stored(b, nsid, 8), zero, 'behind the pair, not within it', spec)


def wait_for_large(t, tgt):
    """
    Pairs that wait for a large deallocation, and the other way round: aborted, and their connection lost.
    """
    zero = bytes(4096)
    large = (0, 8 * MIB_BLOCKS)
    for name, victim, want in (('first', 0, (n.ABORT_REQUESTED, FUSED_FAIL)),
                               ('second', 1, (FUSED_FAIL, n.ABORT_REQUESTED)),
                               ('connection', 0, None)):
        with tgt.host() as host, tgt.host() as other:
            a, b = host.queue(1), other.queue(1)
            beside = trim(b, SLOW_TRIM, large)
            stored(b, SLOW_TRIM, 15 * MIB_BLOCKS)
            cmds = pair(a, SLOW_TRIM, 8, zero, zero)
            stored(a, SLOW_TRIM, 15 * MIB_BLOCKS)
            if want:
                target.poll(lambda: abort(host, cmds[victim].cid) == (n.OK, 0))
                t.ok(not beside.is_done, 'the deallocation goes on')
                t.eq(tuple(a.wait(cmd).status for cmd in cmds), want,
                     'Abort of the %s of a pair that waits for it' % name, 'Base 5.1.1')
            else:
                host.close()
            t.status(b.wait(beside), n.OK, 'the deallocation is not touched: %s' % name, SPEC)
            t.eq(both(b, SLOW_TRIM, 8, zero, zero), (n.OK, n.OK), 'and all is free again', SPEC)
    with tgt.host() as host, tgt.host() as other:
        a, b = host.queue(1), other.queue(1)
        a.put(TRIM_MEM, 8, zero, 4096)
        cmds = pair(a, TRIM_MEM, 8, zero, n.pattern(4096))
        stored(a, TRIM_MEM, 15 * MIB_BLOCKS)
        beside = trim(b, TRIM_MEM, large)
        target.poll(lambda: abort(other, beside.cid) == (n.OK, 0))
        t.ok(not cmds[0].is_done and not cmds[1].is_done, 'the pair goes on')
        t.status(b.wait(beside), n.ABORT_REQUESTED,
                 'Abort of a large deallocation that waits for a pair', 'Base 5.1.1')
        t.eq(tuple(a.wait(cmd).status for cmd in cmds), (n.OK, n.OK), 'the pair is not touched',
             SPEC)
        t.eq(stored(b, TRIM_MEM, 8), n.pattern(4096), 'and what it wrote is there', SPEC)


def lost(t, tgt):
    """
    Connections end at every stage of a pair, and by a reset: nothing hangs, and the blocks are released.
    """
    zero = bytes(4096)
    with tgt.host() as host:
        host.queue(1).put(FILE, 50, zero, 4096)
    for stage in range(6):
        for way in ('close', 'reset'):
            host = tgt.host()
            conn = host.queue(1)
            if stage == 0:  # a first command that waits for its second
                conn.rw(n.COMPARE, FILE, 50, 1, 4096, zero, flags=FIRST)
            elif stage == 1:  # a first command without its data
                conn.wait_r2t(conn.rw(n.COMPARE, FILE, 50, 1, 4096, zero, flags=FIRST, way='r2t',
                                      is_auto=False))
            elif stage in (2, 3):  # both commands, one without its data
                cmds = pair(conn, FILE, 50, zero, zero, way='r2t', is_auto=False)
                for cmd in cmds:
                    conn.wait_r2t(cmd)
                conn.answer_r2t(cmds[stage - 2], cmds[stage - 2].r2ts[0])
            elif stage == 4:  # both wait for their blocks
                conn.rw(n.WRITE, SLOW, 0, 1, 4096, zero)
                pair(conn, SLOW, 0, zero, zero)
            else:  # both run
                pair(conn, SLOW, 0, zero, zero)
            conn.do(n.FLUSH, MEM512) if stage > 1 else None
            if way == 'reset':
                host.admin.set_property(n.CC, 0)
                t.ok(host.admin.csts_until(0, 1) & 1 == 0,
                     'CC.EN 0 with fused commands at stage %d: ready goes' % stage, 'Base 3.7')
            host.close()
    with tgt.host() as host:
        conn = host.queue(1)
        t.eq((both(conn, FILE, 50, zero, zero), both(conn, SLOW, 0, zero, zero)),
             ((n.OK, n.OK), (n.OK, n.OK)), 'the ranges of those that went are free', SPEC)


def changed(t, tgt):
    """The configuration changes between the two commands."""
    with tgt.host() as host:
        conn = host.queue(1)
        first = conn.rw(n.COMPARE, MEM512, 0, 1, 512, bytes(512), flags=FIRST)
        owed = host.queue(2)
        late = owed.rw(n.COMPARE, MEM512, 0, 1, 512, bytes(512), flags=FIRST, way='r2t',
                       is_auto=False)
        owed.wait_r2t(late)
        host.admin.identify(1)
        tgt.reload(lambda config: config['subsystems'][0]['namespaces'].append(
            target.namespace(30, 'mem:1M,block=512')))
        t.status(conn.wait(first), FUSED_FAIL, 'a lone first does not outlive its configuration',
                 SPEC)
        t.status(conn.put(MEM512, 0, bytes(512), flags=SECOND), FUSED_FAIL, 'nor its second', SPEC)
        owed.answer_r2t(late, late.r2ts[0])
        t.status(owed.wait(late), FUSED_FAIL, 'nor one whose data comes later', SPEC)


def other_medium(t, tgt):
    """The NSID has another namespace when the second command arrives: nothing is written to it."""
    with tgt.host() as host:
        conn = host.queue(1)
        first = conn.rw(n.COMPARE, SWAPPED, 0, 1, 512, bytes(512), flags=FIRST, way='r2t', is_auto=False)
        conn.wait_r2t(first)

        def swap(config):
            spaces = config['subsystems'][0]['namespaces']
            spaces[:] = [ns for ns in spaces if ns['nsid'] != SWAPPED]
            spaces.append(target.namespace(SWAPPED, 'mem:2M,block=512'))

        tgt.reload(swap)
        second = conn.rw(n.WRITE, SWAPPED, 0, 1, 512, b'\x5a' * 512, flags=SECOND)
        conn.answer_r2t(first, first.r2ts[0])
        t.eq((conn.wait(first).status, conn.wait(second).status), (FUSED_FAIL, FUSED_FAIL),
             'a pair over two media fails', SPEC)
        t.eq(stored(conn, SWAPPED, 0), bytes(512), 'and writes nothing', SPEC)


def raise_counter(conn, nsid, times):
    """Child: increments the number in a block `times` times by Compare and Write."""
    block = BLOCK[nsid]
    done = 0
    now = stored(conn, nsid, 1)
    while done < times:
        value, = struct.unpack_from('<Q', now)
        # Every byte depends on the value, so that a torn block equals no value.
        new = struct.pack('<Q', value + 1) + bytes([(value + 1) % 251]) * (block - 8)
        got = both(conn, nsid, 1, now, new)
        if got == (n.OK, n.OK):
            done += 1
            now = new
        elif got == (n.COMPARE_FAILURE, FUSED_FAIL):
            now = stored(conn, nsid, 1)
        else:
            os._exit(3)
    os._exit(0)


def counter(t, tgt):
    with tgt.host() as host:
        conns = [host.queue(qid) for qid in range(1, 5)]
        reactors = {tgt.reactor_of(conn) for conn in conns}
        t.eq(len(reactors), 2, 'four queues on two reactors')
        for nsid, times in ((MEM512, 300), (MEM4096, 300), (FILE, 150)):
            conns[0].put(nsid, 1, bytes(BLOCK[nsid]), BLOCK[nsid])
            children = [multiprocessing.Process(target=raise_counter, args=(conn, nsid, times))
                        for conn in conns]
            for child in children:
                child.start()
            for child in children:
                child.join(60)
            t.eq([child.exitcode for child in children], [0] * 4,
                 'four queues raise a number: namespace %d' % nsid, SPEC)
            # The children have used CIDs that this process does not know of.
            value, = struct.unpack_from('<Q', stored(conns[0], nsid, 1))
            t.eq(value, 4 * times, 'and no step is lost: namespace %d' % nsid, SPEC)


def test(t, tgt):
    for part in (works, any_order, sizes, refused, aborted):
        with t.guard(part.__name__), tgt.host() as host:
            part(t, host)
    for part in (digest, counter, deallocated, wait_for_large, lost, changed, other_medium):
        with t.guard(part.__name__):
            part(t, tgt)


def start():
    with tempfile.TemporaryDirectory(prefix='weft-wire-') as folder:
        spaces = [
            target.namespace(MEM512, 'mem:1M,block=512'),
            target.namespace(MEM4096, 'mem:1M,block=4096'),
            target.namespace(FILE, 'file:%s/a,size=4M,block=4096' % folder),
            target.namespace(READ_ONLY, 'mem:1M,block=512', read_only=True),
            target.namespace(BAD_WRITE, 'fault:fail:op=write@mem:1M,block=512'),
            target.namespace(BAD_READ, 'fault:fail:op=read@mem:1M,block=512'),
            target.namespace(SLOW, 'fault:delay:ms=400:op=write@mem:1M,block=4096'),
            target.namespace(LARGE, 'mem:1M,block=512'),
            target.namespace(TRIM_MEM, 'fault:delay:ms=150:op=write@mem:16M,block=4096'),
            target.namespace(TRIM_FILE, 'fault:delay:ms=150:op=write@file:%s/b,size=16M,block=4096'
                             % folder),
            target.namespace(SLOW_TRIM, 'fault:delay:ms=400:op=discard@mem:16M,block=4096'),
            target.namespace(SWAPPED, 'mem:1M,block=512'),
        ]
        target.run(Tap(), test, reactors=2, namespaces=spaces)


start()
