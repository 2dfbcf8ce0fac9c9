#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Write Uncorrectable: marked blocks fail every command that reads them, on every queue, and are healed by every
command that writes them; the error log names them; marks survive the process. NVM Command Set 1.1, section 3.3.7.
"""

import os
import signal
import struct
import tempfile

import nvmetcp as n
import target
from tap import Tap

SPEC = 'NVM 3.3.7'
MEM, FILE, READ_ONLY, OTHER, BAD_FLUSH = 1, 2, 3, 4, 5
UUIDS = {MEM: '6c6b6c6d-0001-4000-8000-000000000001', FILE: '6c6b6c6d-0002-4000-8000-000000000002'}


def mark(conn, nsid, lba, blocks):
    return conn.wait(conn.rw(n.WRITE_UNCORRECTABLE, nsid, lba, blocks, 512))


def entry(lba, blocks):
    return struct.pack('<8xQH14x', lba, blocks - 1)


def reads(conn, nsid, lba, blocks):
    """Statuses of the commands that read: Read, Compare, Verify, Copy."""
    return [conn.read(nsid, lba, blocks).status,
            conn.wait(conn.rw(n.COMPARE, nsid, lba, blocks, 512, bytes(512 * blocks))).status,
            conn.wait(conn.rw(n.VERIFY, nsid, lba, blocks, 512)).status,
            conn.do(n.COPY, nsid, data=entry(lba, blocks), cdw10=1500).status]


def last_lba(host):
    return struct.unpack_from('<Q', bytes(host.admin.get_log(1, 64).data), 16)[0]


def marked(t, host, conn, other):
    t.ok(struct.unpack_from('<H', bytes(host.admin.identify(1).data), 520)[0] & 2,
         'ONCS says Write Uncorrectable', 'Base 5.1.13.2.1, ONCS')
    for nsid in (MEM, FILE):
        zero = bytes(512 * 20)
        conn.put(nsid, 100, zero)
        t.status(mark(conn, nsid, 104, 4), n.OK, 'marks 4 blocks: %d' % nsid, SPEC)
        for name, lba, blocks, bad in (('before', 100, 4, 0), ('the first', 104, 1, 1),
                                       ('the last', 107, 1, 1), ('behind', 108, 4, 0),
                                       ('around', 100, 12, 1)):
            want = [n.UNRECOVERED_READ if bad else n.OK] * 4
            t.eq(reads(conn, nsid, lba, blocks), want,
                 'Read, Compare, Verify, Copy, %s: %d' % (name, nsid), SPEC)
        t.eq(reads(other, nsid, 104, 1), [n.UNRECOVERED_READ] * 4,
             'the same on another queue: %d' % nsid, SPEC)
        conn.read(nsid, 101, 10)
        t.eq(last_lba(host), 104, 'the error log names the first bad block: %d' % nsid,
             'Base 5.1.12.1.2, LBA')
        cmd = conn.read(nsid, 104, 1)
        t.eq(bytes(cmd.data), b'', 'no data comes: %d' % nsid, SPEC)
    t.status(mark(conn, MEM, 104, 4), n.OK, 'marking them again', SPEC)
    errors = struct.unpack_from('<Q', bytes(host.admin.get_log(2, 512).data), 160)[0]
    conn.read(MEM, 104, 1)
    again = struct.unpack_from('<Q', bytes(host.admin.get_log(2, 512).data), 160)[0]
    t.eq(again, errors + 1, 'SMART counts the error', 'Base 5.1.12.1.3')


def healed(t, conn, other):
    """Heals one block by each writing command; its neighbours stay bad."""
    zero = bytes(512)
    ways = [
        ('Write', lambda nsid, lba: conn.put(nsid, lba, zero)),
        ('Write by R2T', lambda nsid, lba: conn.put(nsid, lba, zero, way='r2t')),
        ('Write with FUA', lambda nsid, lba: conn.put(nsid, lba, zero, cdw12=1 << 30)),
        ('Write Zeroes', lambda nsid, lba: conn.wait(conn.rw(n.WRITE_ZEROES, nsid, lba, 1, 512))),
        ('Write Zeroes with DEAC',
         lambda nsid, lba: conn.wait(conn.rw(n.WRITE_ZEROES, nsid, lba, 1, 512, cdw12=1 << 25))),
        ('Dataset Management',
         lambda nsid, lba: conn.do(n.DSM, nsid, data=struct.pack('<IIQIIQ', 0, 1, 0, 0, 1, lba),
                                   cdw10=1, cdw11=4)),
        ('Copy', lambda nsid, lba: conn.do(n.COPY, nsid, data=entry(0, 1), cdw10=lba)),
    ]
    for nsid in (MEM, FILE):
        conn.put(nsid, 0, zero)
        for name, do in ways:
            conn.put(nsid, 200, bytes(512 * 3))
            mark(conn, nsid, 200, 3)
            t.status(do(nsid, 201), n.OK, '%s to a bad block: %d' % (name, nsid), SPEC)
            t.eq([other.read(nsid, 200 + i, 1).status for i in range(3)],
                 [n.UNRECOVERED_READ, n.OK, n.UNRECOVERED_READ],
                 '%s heals what it writes: %d' % (name, nsid), SPEC)
            t.eq(bytes(conn.read(nsid, 201, 1).data), zero, 'and that is there: %d' % nsid, SPEC)
        conn.put(nsid, 198, n.pattern(512 * 6))
        t.eq(bytes(other.read(nsid, 198, 6).data), n.pattern(512 * 6),
             'a Write across both edges heals all: %d' % nsid, SPEC)
    mark(conn, MEM, 300, 10)
    cmd = conn.do(n.COPY, MEM, data=entry(0, 5) + entry(302, 1), cdw10=300, cdw12=1)
    t.eq((cmd.status, cmd.dw0), (n.UNRECOVERED_READ, 1),
         'a Copy whose second source is bad', 'NVM 3.3.2')
    t.eq((conn.read(MEM, 300, 5).status, conn.read(MEM, 305, 1).status),
         (n.OK, n.UNRECOVERED_READ), 'has healed what its first range wrote', SPEC)
    t.status(conn.do(n.DSM, MEM, data=struct.pack('<IIQ', 0, 4, 306), cdw11=1), n.OK,
             'a hint about bad blocks', SPEC)
    t.status(conn.read(MEM, 306, 1), n.UNRECOVERED_READ, 'heals nothing', SPEC)
    t.status(conn.put(MEM, 300, bytes(512 * 10)), n.OK, 'and they are written at last', SPEC)


def deallocate(conn, nsid, lba, blocks):
    return conn.do(n.DSM, nsid, data=struct.pack('<IIQ', 0, blocks, lba), cdw11=4)


def flushed_first(t, conn):
    """
    A deallocation may still be in a volatile cache when its marks are removed for good: the cache is flushed
    first, and when the flush fails the marks stay. The first flush fails.
    """
    for lba in (400, 410):
        conn.put(BAD_FLUSH, lba, b'\xbb' * 512)
        mark(conn, BAD_FLUSH, lba, 1)
    t.status(deallocate(conn, BAD_FLUSH, 390, 5), n.OK,
             'Dataset Management of good blocks needs no flush', SPEC)
    t.status(deallocate(conn, BAD_FLUSH, 400, 1), n.WRITE_FAULT,
             'Dataset Management of a bad block whose flush fails', SPEC)
    t.status(conn.read(BAD_FLUSH, 400, 1), n.UNRECOVERED_READ, 'heals nothing', SPEC)
    t.status(deallocate(conn, BAD_FLUSH, 400, 1), n.OK, 'once more: the flush works', SPEC)
    t.eq((conn.read(BAD_FLUSH, 400, 1).status, conn.read(BAD_FLUSH, 410, 1).status),
         (n.OK, n.UNRECOVERED_READ), 'and that one is healed', SPEC)
    conn.put(BAD_FLUSH, 410, bytes(512))


def crowd(t, conn, other):
    """Concurrent marks and writes of two queues: each is in force when it is answered."""
    conn.put(MEM, 1000, bytes(512 * 200))
    cmds = [(c, c.rw(n.WRITE_UNCORRECTABLE, MEM, 1000 + i, 1, 512))
            for i in range(0, 200, 2) for c in (conn if i % 4 else other,)]
    for c, cmd in cmds:
        c.wait(cmd)
    t.eq({cmd.status for _, cmd in cmds}, {n.OK}, '100 marks at once on two queues', SPEC)
    t.eq([other.read(MEM, 1000 + i, 1).status == n.OK for i in range(200)], [False, True] * 100,
         'every second block is bad', SPEC)
    cmds = [(c, c.rw(n.WRITE, MEM, 1000 + i, 2, 512, bytes(1024)))
            for i in range(0, 100, 2) for c in (conn if i % 4 else other,)]
    for c, cmd in cmds:
        c.wait(cmd)
    t.eq({cmd.status for _, cmd in cmds}, {n.OK}, '50 writes at once', SPEC)
    t.eq([conn.read(MEM, 1000 + i, 1).status == n.OK for i in range(200)],
         [True] * 100 + [False, True] * 50, 'half of them are healed', SPEC)
    t.status(conn.put(MEM, 1000, bytes(512 * 200)), n.OK, 'and the rest at last', SPEC)


def refusals(t, conn):
    blocks = 2048
    for name, nsid, lba, count, want in (
            ('one block beyond', MEM, blocks, 1, n.LBA_RANGE),
            ('the last and one beyond', MEM, blocks - 1, 2, n.LBA_RANGE),
            ('LBA 2^64 - 1, overflow', MEM, (1 << 64) - 1, 2, n.LBA_RANGE),
            ('NSID 0', 0, 0, 1, n.INVALID_NS),
            ('an inactive NSID', 77, 0, 1, n.INACTIVE_NS),
            ('NSID FFFFFFFFh', 0xffffffff, 0, 1, n.INVALID_NS),
            ('a read-only namespace', READ_ONLY, 0, 1, n.WRITE_PROTECTED)):
        t.status(mark(conn, nsid, lba, count), want, 'Write Uncorrectable: ' + name, SPEC, 1)
    t.status(mark(conn, OTHER, 0, blocks), n.OK, 'all blocks at once', SPEC)
    t.status(conn.read(OTHER, blocks - 1, 1), n.UNRECOVERED_READ, 'the last one too', SPEC)
    t.status(conn.put(OTHER, 0, bytes(512 * 1024)), n.OK, 'half of them written', SPEC)
    t.eq((conn.read(OTHER, 0, 1024).status, conn.read(OTHER, 1024, 1).status),
         (n.OK, n.UNRECOVERED_READ), 'half of them healed', SPEC)
    cmd = conn.do(n.WRITE_UNCORRECTABLE, MEM, data=bytes(512))
    t.status(cmd, n.SGL_LENGTH, 'with data', 'Base 4.2.3.1', 1)


def persistence(t, folder, spaces):
    """Acknowledged marks and healed blocks survive SIGKILL."""
    tgt = target.Target(folder=folder, namespaces=spaces)
    try:
        with tgt.host() as host:
            conn = host.queue()
            conn.put(FILE, 600, bytes(512 * 20))
            t.eq((mark(conn, FILE, 600, 10).status, conn.put(FILE, 604, bytes(512)).status),
                 (n.OK, n.OK), 'marked and, in part, written', SPEC)
            tgt.process.send_signal(signal.SIGKILL)
            tgt.process.wait()
        tgt.start()
        with tgt.host() as host:
            conn = host.queue()
            t.eq([conn.read(FILE, lba, 1).status == n.OK for lba in (599, 600, 604, 605, 609, 610)],
                 [True, False, True, False, False, True], 'the same after SIGKILL', SPEC)
            conn.put(FILE, 600, bytes(512 * 10))
    finally:
        tgt.finish(t)


def bad_of(tgt, lbas, block):
    """The blocks that a new host cannot read."""
    with tgt.host() as host:
        conn = host.queue()
        return [lba for lba in lbas if conn.read(FILE, lba, 1, block).status == n.UNRECOVERED_READ]


def set_block(tgt, block):
    def change(config):
        space = config['subsystems'][0]['namespaces'][0]
        space['media'] = space['media'].rsplit('=', 1)[0] + '=%d' % block
    tgt.reload(change)


def block_sizes(t):
    """The operator changes the block size: marks stay with their bytes, also over SIGKILL."""
    tgt = target.Target(start=False)
    file = 'file:%s,size=1M,block=512' % os.path.join(tgt.folder, 'a')
    tgt.config['subsystems'][0]['namespaces'] = [target.namespace(FILE, file, uuid=UUIDS[FILE])]
    tgt.write_config()
    tgt.start()
    small, large = range(96, 121), (11, 12, 13, 14, 20, 104, 105)
    try:
        with tgt.host() as host:
            conn = host.queue()
            conn.put(FILE, 0, bytes(512 * 256))
            mark(conn, FILE, 105, 2)  # bytes of block 13 of 4096
        set_block(tgt, 4096)
        t.eq(bad_of(tgt, large, 4096), [13], 'with 4096 bytes the block around the marks is bad', SPEC)
        tgt.kill()
        tgt.start()
        t.eq(bad_of(tgt, large, 4096), [13], 'the same after SIGKILL', SPEC)
        set_block(tgt, 512)
        t.eq(bad_of(tgt, small, 512), [105, 106], 'with 512 bytes again, the blocks of before', SPEC)
        set_block(tgt, 4096)
        with tgt.host() as host:
            conn = host.queue()
            t.eq((conn.wait(conn.rw(n.WRITE, FILE, 13, 1, 4096, bytes(4096))).status,
                  conn.wait(conn.rw(n.WRITE_UNCORRECTABLE, FILE, 14, 1, 4096)).status),
                 (n.OK, n.OK), 'one block of 4096 bytes is healed, the next is marked', SPEC)
        t.eq(bad_of(tgt, large, 4096), [14], 'and that one is bad', SPEC)
        set_block(tgt, 512)
        t.eq(bad_of(tgt, small, 512), list(range(112, 120)), 'which is eight blocks of 512 bytes', SPEC)
        with tgt.host() as host:
            host.queue().put(FILE, 112, bytes(512 * 8))
    finally:
        tgt.finish(t)


def test(t, tgt):
    with tgt.host() as host:
        conn, other = host.queue(1), host.queue(2)
        with t.guard('marked'):
            marked(t, host, conn, other)
        with t.guard('healed'):
            healed(t, conn, other)
        with t.guard('flushed_first'):
            flushed_first(t, conn)
        with t.guard('crowd'):
            crowd(t, conn, other)
        with t.guard('refusals'):
            refusals(t, conn)


def start():
    with tempfile.TemporaryDirectory(prefix='weft-wire-') as folder:
        file = 'file:%s,size=1M,block=512' % os.path.join(folder, 'a')
        spaces = [
            target.namespace(MEM, 'mem:1M,block=512', uuid=UUIDS[MEM]),
            target.namespace(FILE, file, uuid=UUIDS[FILE]),
            target.namespace(READ_ONLY, 'mem:1M,block=512', read_only=True),
            target.namespace(OTHER, 'mem:1M,block=512'),
            target.namespace(BAD_FLUSH, 'fault:fail:op=flush:count=1@file:%s,size=1M,block=512'
                             % os.path.join(folder, 'b')),
        ]
        t = Tap()
        with t.guard('persistence'):
            persistence(t, folder, spaces)
        with t.guard('block_sizes'):
            block_sizes(t)
        target.run(t, test, namespaces=spaces)


start()
