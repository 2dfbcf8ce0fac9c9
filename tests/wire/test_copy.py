#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Copy: one and many source ranges, within a namespace and between namespaces (descriptor formats 0h
and 2h), its limits, every refusal, failures of a later range, and Aborts. NVM Command Set 1.1, section
3.3.2; Host Behavior Support: NVMe Base 2.1, section 5.1.25.1.14.
"""

import os
import struct
import tempfile

import nvmetcp as n
import target
from tap import Tap

SPEC = 'NVM 3.3.2'
RANGES, RANGE_BLOCKS, BLOCKS = 128, 8192, 65536
FUA, LR = 1 << 30, 1 << 31
MEM, FILE, BIG, OTHER_SIZE, BAD_READ, BAD_WRITE, READ_ONLY, SLOW_READ, SLOW_WRITE, BAD_FUA = \
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10
HIDDEN, INACTIVE = 11, 77
NSID_MAX = 16384
OTHER_NQN = 'nqn.2014-08.org.nvmexpress:uuid:99999999-2222-4333-8444-555555555555'
OTHER_ID = bytes(range(0x30, 0x40))
RESERVATION_CONFLICT = (0, 0x83)
REGISTER, ACQUIRE, RELEASE = 0x0d, 0x11, 0x15


def entry(lba, blocks, nsid=0, sopt=0):
    """A source range entry of format 0h (nsid 0) or 2h."""
    return struct.pack('<I4xQH4xH8x', nsid, lba, blocks - 1, sopt)


def copy(conn, nsid, dest, ranges, form=0, cdw12=0, **kwargs):
    count = kwargs.pop('count', len(ranges))
    return conn.submit(n.COPY, nsid, data=b''.join(ranges), cdw10=dest & 0xffffffff,
                       cdw11=dest >> 32, cdw12=count - 1 | form << 8 | cdw12, **kwargs)


def done(conn, *args, **kwargs):
    return conn.wait(copy(conn, *args, **kwargs))


def enable(host, cdfe):
    data = bytearray(512)
    struct.pack_into('<H', data, 4, cdfe)
    return host.admin.set_feature(0x16, data=bytes(data))


def within(t, conn):
    for nsid, name in ((MEM, 'memory'), (FILE, 'a file')):
        for way in ('capsule', 'r2t'):
            data = n.pattern(512 * 400, nsid)
            conn.put(nsid, 0, data)
            conn.put(nsid, 1000, bytes(512 * 400))
            ranges = [entry(300, 7), entry(0, 1), entry(10, 250), entry(399, 1)]
            cmd = done(conn, nsid, 1000, ranges, way=way)
            t.eq((cmd.status, cmd.dw0), (n.OK, 0), '4 ranges on %s, by %s' % (name, way), SPEC)
            want = data[300 * 512:307 * 512] + data[:512] + data[10 * 512:260 * 512] + \
                data[399 * 512:]
            got = bytes(conn.read(nsid, 1000, 400).data)
            t.eq(got[:259 * 512], want, 'and they stand one behind the other: %s' % name, SPEC)
            t.eq(got[259 * 512:], bytes(141 * 512), 'and nothing behind them: %s' % name, SPEC)
    cmd = done(conn, FILE, 2000, [entry(5, 3)], cdw12=FUA | LR)
    t.status(cmd, n.OK, 'FUA and LR', SPEC)


def many(t, conn):
    """Copies the maximum number of ranges (MSRC), of different lengths, out of order."""
    data = n.pattern(512 * 2048, 9)
    for i in range(2):
        conn.put(FILE, 1024 * i, data[i * 512 * 1024:(i + 1) * 512 * 1024])
    where = [((i * 37) % RANGES * 15, i % 15 + 1) for i in range(RANGES)]
    total = sum(blocks for _, blocks in where)
    cmd = done(conn, FILE, 4096, [entry(lba, blocks) for lba, blocks in where])
    t.status(cmd, n.OK, '128 ranges', 'NVM 4.1.5.1, MSRC')
    want = b''.join(data[lba * 512:(lba + blocks) * 512] for lba, blocks in where)
    got = b''.join(bytes(conn.read(FILE, 4096 + at, min(1024, total - at)).data)
                   for at in range(0, total, 1024))
    t.eq(got, want, 'all of them, in the order of the entries', SPEC)
    cmd = done(conn, FILE, 4096, [entry(0, 1)] * (RANGES + 1))
    t.status(cmd, n.SIZE_LIMIT, '129 ranges', 'NVM 3.3.2, MSRC', 1)
    cmd = done(conn, FILE, 4096, [entry(0, 1)] * 256)
    t.status(cmd, n.SIZE_LIMIT, '256 ranges', 'NVM 3.3.2, MSRC', 1)


def sizes(t, conn):
    conn.put(BIG, 0, b'\x5c' * 512)
    conn.put(BIG, RANGE_BLOCKS - 1, b'\xc5' * 512)
    cmd = done(conn, BIG, 100000, [entry(0, RANGE_BLOCKS)])
    t.status(cmd, n.OK, 'a range of MSSRL blocks', 'NVM 4.1.5.1, MSSRL')
    t.eq((bytes(conn.read(BIG, 100000, 1).data), bytes(conn.read(BIG, 108191, 1).data)),
         (b'\x5c' * 512, b'\xc5' * 512), 'its first and its last block', SPEC)
    cmd = done(conn, BIG, 100000, [entry(0, RANGE_BLOCKS + 1)])
    t.status(cmd, n.SIZE_LIMIT, 'a range of MSSRL + 1 blocks', 'NVM 3.3.2, MSSRL', 1)
    cmd = done(conn, BIG, 100000, [entry(0, 65536)])
    t.status(cmd, n.SIZE_LIMIT, 'a range of 65,536 blocks', 'NVM 3.3.2, MSSRL', 1)
    cmd = done(conn, BIG, 100000, [entry(0, RANGE_BLOCKS)] * 8)
    t.status(cmd, n.OK, 'MCL blocks in all', 'NVM 4.1.5.1, MCL')
    cmd = done(conn, BIG, 100000, [entry(0, RANGE_BLOCKS)] * 8 + [entry(0, 1)])
    t.eq((cmd.status, cmd.dw0), (n.SIZE_LIMIT, 0), 'MCL + 1 blocks in all', 'NVM 3.3.2, MCL')


def identity(t, host):
    page = bytes(host.admin.identify(1).data)
    oncs, ocfs = struct.unpack_from('<H', page, 520)[0], struct.unpack_from('<H', page, 534)[0]
    t.ok(oncs & 1 << 8, 'ONCS says Copy', 'Base 5.1.13.2.1, ONCS')
    t.eq(ocfs, 5, 'OCFS: formats 0h and 2h', 'Base 5.1.13.2.1, OCFS')
    page = bytes(host.admin.identify(0, nsid=MEM).data)
    mssrl, mcl, msrc = struct.unpack_from('<HIB', page, 74)
    t.eq((mssrl, mcl, msrc), (RANGE_BLOCKS, BLOCKS, RANGES - 1), 'MSSRL, MCL, MSRC',
         'NVM 4.1.5.1')


def overlap(t, host, conn):
    """A range copied onto itself is read as it was before: format 0h allows it."""
    for nsid, name in ((MEM, 'memory'), (FILE, 'a file')):
        for source, dest in ((0, 100), (100, 0), (0, 1), (1, 0), (50, 50)):
            data = n.pattern(512 * 900, 17 + dest)
            conn.put(nsid, source, data)
            t.status(done(conn, nsid, dest, [entry(source, 900)]), n.OK,
                     '%d to %d, overlapping: %s' % (source, dest, name), SPEC)
            t.eq(bytes(conn.read(nsid, dest, 900).data), data,
                 '%d to %d: what was there before: %s' % (source, dest, name), SPEC)
    enable(host, 1 << 2)
    cmd = done(conn, MEM, 100, [entry(0, 5, MEM), entry(90, 12, MEM)], 2)
    t.status(cmd, n.OVERLAPPING_RANGE, 'format 2h: a source overlaps the destination', SPEC, 1)
    cmd = done(conn, MEM, 100, [entry(101, 1, MEM), entry(0, 1, MEM)], 2)
    t.status(cmd, n.OVERLAPPING_RANGE, 'format 2h: one block of it', SPEC, 1)
    t.status(done(conn, MEM, 100, [entry(95, 5, MEM), entry(110, 5, MEM)], 2), n.OK,
             'format 2h: sources that touch it', SPEC)
    enable(host, 0)


def model_copy(blocks, dest, ranges):
    """The expected blocks: ranges one after another, each read when its turn comes."""
    for lba, count in ranges:
        blocks[dest:dest + count] = blocks[lba:lba + count]
        dest += count


def overlap_many(t, conn):
    """Several ranges, each overlapping its destination in a different way."""
    size = 2048
    rows = [
        ('down, then up', 300, [(500, 600), (600, 700)]),
        ('up, then down', 400, [(100, 600), (1100, 600)]),
        ('apart, then up', 700, [(0, 10), (400, 700)]),
        ('up, then apart', 400, [(100, 600), (1990, 10)]),
        ('apart, then down', 100, [(1900, 20), (200, 700)]),
        ('up, up, down', 100, [(50, 300), (350, 300), (800, 600)]),
        ('onto itself, then up', 100, [(100, 300), (300, 500)]),
        ('up by one block, twice', 1, [(0, 500), (500, 500)]),
        ('down by one block, twice', 0, [(1, 500), (501, 500)]),
        ('ends where its destination begins', 600, [(100, 500), (601, 500)]),
    ]
    data = n.pattern(512 * size, 23)
    for nsid, where in ((MEM, 'memory'), (FILE, 'a file')):
        for name, dest, ranges in rows:
            for at in range(0, size, 1024):
                conn.put(nsid, at, data[at * 512:(at + 1024) * 512])
            want = [data[i * 512:(i + 1) * 512] for i in range(size)]
            model_copy(want, dest, ranges)
            cmd = done(conn, nsid, dest, [entry(lba, count) for lba, count in ranges])
            t.eq((cmd.status, cmd.dw0), (n.OK, 0), 'overlapping, %s: %s' % (name, where), SPEC)
            got = b''.join(bytes(conn.read(nsid, at, 1024).data) for at in range(0, size, 1024))
            wrong = [i for i in range(size) if got[i * 512:(i + 1) * 512] != want[i]]
            t.eq(wrong[:8], [], 'overlapping, %s: each range as it was: %s' % (name, where), SPEC)


def ranges(t, conn, blocks):
    conn.put(MEM, 700, b'\x77' * 512)
    rows = [
        ('the last block', 700, [entry(blocks - 1, 1)], n.OK),
        ('one block beyond', 700, [entry(blocks, 1)], n.LBA_RANGE),
        ('the last and one beyond', 700, [entry(0, 1), entry(blocks - 1, 2)], n.LBA_RANGE),
        ('LBA 2^64 - 1, overflow', 700, [entry(0, 1), entry((1 << 64) - 1, 2)], n.LBA_RANGE),
        ('LBA 2^63', 700, [entry(0, 1), entry(1 << 63, 1)], n.LBA_RANGE),
        ('to the last block', blocks - 1, [entry(0, 1)], n.OK),
        ('beyond the last block by one', blocks - 1, [entry(0, 1), entry(1, 1)], n.LBA_RANGE),
        ('to LBA 2^64 - 1', (1 << 64) - 1, [entry(0, 2)], n.LBA_RANGE),
        ('to LBA 2^63', 1 << 63, [entry(0, 1)], n.LBA_RANGE),
    ]
    for name, dest, entries, want in rows:
        cmd = done(conn, MEM, dest, entries)
        t.eq((cmd.status, cmd.dw0), (want, 0), 'Copy: ' + name, 'NVM 3.1.2, LBA Out of Range')
        if dest == 700 and want == n.OK:
            conn.put(MEM, 700, b'\x77' * 512)
    t.eq(bytes(conn.read(MEM, 700, 1).data), b'\x77' * 512, 'those refused copied nothing', SPEC)


def refusals(t, conn):
    one = [entry(0, 1)]
    for name, nsid, form, cdw12, want in (
            ('format 1h', MEM, 1, 0, n.INVALID_FIELD),
            ('format 2h, not enabled', MEM, 2, 0, n.INVALID_FIELD),
            ('format 3h', MEM, 3, 0, n.INVALID_FIELD),
            ('format Fh', MEM, 15, 0, n.INVALID_FIELD),
            ('DTYPE', MEM, 0, 1 << 20, n.INVALID_FIELD),
            ('CETYPE', MEM, 0, 1 << 16, n.INVALID_FIELD),
            ('NSID 0', 0, 0, 0, n.INVALID_NS),
            ('NSID FFFFFFFFh', 0xffffffff, 0, 0, n.INVALID_NS),
            ('an inactive NSID', INACTIVE, 0, 0, n.INACTIVE_NS),
            ('a read-only namespace', READ_ONLY, 0, 0, n.WRITE_PROTECTED)):
        t.status(done(conn, nsid, 10, one, form, cdw12), want, 'Copy: ' + name, SPEC, 1)
    cmd = done(conn, MEM, 10, one, count=2)
    t.status(cmd, n.SGL_LENGTH, 'fewer entries than NR', 'Base 4.2.3.1', 1)
    cmd = done(conn, MEM, 10, one * 2, count=1)
    t.status(cmd, n.SGL_LENGTH, 'more entries than NR', 'Base 4.2.3.1', 1)
    cmd = conn.do(n.COPY, MEM, cdw10=10)
    t.status(cmd, n.SGL_LENGTH, 'no entries', 'Base 4.2.3.1', 1)


def across(t, host, conn):
    t.status(enable(host, 1 << 2), n.OK, 'CDFE enables format 2h', 'Base 5.1.25.1.14')
    a, b = n.pattern(512 * 300, 41), n.pattern(512 * 20, 42)
    conn.put(MEM, 0, a)
    conn.put(FILE, 0, b)
    cmd = done(conn, BIG, 5, [entry(10, 290, MEM), entry(0, 20, FILE), entry(0, 2, MEM)], 2)
    t.eq((cmd.status, cmd.dw0), (n.OK, 0), 'from two namespaces to a third', 'NVM 3.3.2, TP4130')
    t.eq(bytes(conn.read(BIG, 5, 312).data), a[5120:] + b + a[:1024], 'all of it is there', SPEC)
    cmd = done(conn, FILE, 5000, [entry(3, 4, READ_ONLY)], 2)
    t.status(cmd, n.OK, 'from a read-only namespace', SPEC)
    t.status(done(conn, BIG, 5000, [entry(0, 2048, READ_ONLY)], 2), n.OK, 'all of a namespace', SPEC)
    conn.put(MEM, 0, b'\x12' * 512)
    for name, entries, want in (
            ('SNSID 0', [entry(0, 1, MEM), entry(0, 1, 0)], n.INVALID_NS),
            ('SNSID FFFFFFFFh', [entry(0, 1, 0xffffffff)], n.INVALID_NS),
            ('an inactive SNSID', [entry(0, 1, MEM), entry(0, 1, INACTIVE)], n.INACTIVE_NS),
            ('the last SNSID there can be', [entry(0, 1, NSID_MAX)], n.INACTIVE_NS),
            ('the one behind it', [entry(0, 1, NSID_MAX + 1)], n.INVALID_NS),
            ('SNSID FFFFFFFEh', [entry(0, 1, MEM), entry(0, 1, 0xfffffffe)], n.INVALID_NS),
            ('a source with other blocks', [entry(0, 1, MEM), entry(0, 1, OTHER_SIZE)],
             n.INCOMPATIBLE_NS),
            ('fast copy only', [entry(0, 1, MEM), entry(0, 1, MEM, 1 << 15)],
             n.FAST_COPY_IMPOSSIBLE),
            ('beyond the end of its namespace', [entry(0, 1, MEM), entry(2048, 1, READ_ONLY)],
             n.LBA_RANGE),
            ('more than its namespace has', [entry(0, 1, MEM), entry(0, 2049, READ_ONLY)],
             n.LBA_RANGE)):
        conn.put(BIG, 0, b'\x77' * 512)
        cmd = done(conn, BIG, 0, entries, 2)
        t.eq((cmd.status, cmd.dnr, cmd.dw0), (want, 1, 0), 'format 2h: ' + name, SPEC)
        t.eq(bytes(conn.read(BIG, 0, 1).data), b'\x77' * 512, 'and nothing was copied: ' + name,
             SPEC)
    enable(host, 0)
    t.status(done(conn, BIG, 5, [entry(0, 1, MEM)], 2), n.INVALID_FIELD, 'switched off again',
             'Base 5.1.25.1.14', 1)
    t.status(done(conn, BIG, 5, [entry(0, 1)]), n.OK, 'format 0h needs no switch', SPEC)


def masked(t, tgt, host, conn):
    """A hidden namespace is refused as a source; a visible one is accepted."""
    enable(host, 1 << 2)
    cmd = done(conn, MEM, 50, [entry(0, 1, MEM), entry(0, 1, HIDDEN)], 2)
    t.eq((cmd.status, cmd.dnr, cmd.dw0), (n.INACTIVE_NS, 1, 0), 'a source that is masked', SPEC)
    t.status(done(conn, HIDDEN, 0, [entry(0, 1, MEM)], 2), n.INACTIVE_NS,
             'a destination that is masked', SPEC, 1)
    with tgt.host(hostnqn=OTHER_NQN, hostid=OTHER_ID) as other:
        enable(other, 1 << 2)
        queue = other.queue()
        queue.put(HIDDEN, 0, n.pattern(512, 8))
        t.status(done(queue, MEM, 50, [entry(0, 1, HIDDEN)], 2), n.OK,
                 'for the host that sees it', SPEC)
    t.eq(bytes(conn.read(MEM, 50, 1).data), n.pattern(512, 8), 'it is copied', SPEC)
    enable(host, 0)


def reserved(t, tgt, host, conn):
    """Reservations apply to the sources as for Reads, to the destination as for Writes."""
    enable(host, 1 << 2)
    spec = 'Base 8.1.22'
    with tgt.host(hostnqn=OTHER_NQN, hostid=OTHER_ID) as other:
        queue = other.queue()
        key = struct.pack('<QQ', 0, 0x77)
        held = struct.pack('<QQ', 0x77, 0)
        queue.do(REGISTER, FILE, data=key)
        # type 1, Write Exclusive: others may read; type 2, Exclusive Access: others may not read
        for kind, source in ((1, n.OK), (2, RESERVATION_CONFLICT)):
            cmd = queue.do(ACQUIRE, FILE, data=held, cdw10=kind << 8)
            t.status(cmd, n.OK, 'another host holds reservation type %d' % kind, spec)
            cmd = done(conn, MEM, 60, [entry(0, 1, MEM), entry(0, 1, FILE)], 2)
            t.eq((cmd.status, cmd.dw0), (source, 0), 'as a source: type %d' % kind, spec)
            t.status(done(conn, FILE, 60, [entry(0, 1, MEM)], 2), RESERVATION_CONFLICT,
                     'as the destination: type %d' % kind, spec)
            queue.do(RELEASE, FILE, data=held[:8], cdw10=kind << 8)
        queue.do(REGISTER, FILE, data=held, cdw10=1)
    t.status(done(conn, FILE, 60, [entry(0, 1, MEM)], 2), n.OK, 'released', spec)
    enable(host, 0)


def failures(t, host, conn):
    enable(host, 1 << 2)
    good = n.pattern(1024, 5)
    conn.put(MEM, 0, good)
    cmd = done(conn, FILE, 100, [entry(0, 2, MEM), entry(0, 1, BAD_READ), entry(0, 1, MEM)], 2)
    t.eq((cmd.status, cmd.dw0), (n.UNRECOVERED_READ, 1), 'the second source cannot be read', SPEC)
    t.eq(bytes(conn.read(FILE, 100, 2).data), good, 'the first one is copied', SPEC)
    cmd = done(conn, BAD_WRITE, 100, [entry(0, 2, MEM), entry(0, 1, MEM)], 2)
    t.eq((cmd.status, cmd.dw0), (n.WRITE_FAULT, 0), 'the destination cannot be written', SPEC)
    cmd = done(conn, BAD_FUA, 0, [entry(0, 2, MEM)], 2)
    t.status(cmd, n.OK, 'without FUA where FUA fails', SPEC)
    cmd = done(conn, BAD_FUA, 0, [entry(0, 2, MEM)], 2, FUA)
    t.status(cmd, n.WRITE_FAULT, 'with FUA: it reaches the medium', SPEC)
    enable(host, 0)


def aborts(t, host, conn):
    enable(host, 1 << 2)
    for name, nsid, source in (('reading', BIG, SLOW_READ), ('writing', SLOW_WRITE, MEM)):
        cmd = copy(conn, nsid, 0, [entry(0, 8, MEM), entry(0, 500, source), entry(0, 1, MEM)], 2)
        conn.do(n.FLUSH, MEM)
        answer = host.admin.do(n.ABORT, cdw10=1 | cmd.cid << 16)
        conn.wait(cmd)
        t.eq((answer.status, answer.dw0 & 1, cmd.status), (n.OK, 0, n.ABORT_REQUESTED),
             'Abort of a Copy while %s' % name, 'Base 5.1.1')
        t.eq(cmd.dw0, 1 if nsid == BIG else 0, 'DW0: the first range not copied: %s' % name, SPEC)
    enable(host, 0)


def crowd(t, host, conn):
    """More Copies at once than buffers: they wait, and all complete."""
    data = n.pattern(512 * 64, 3)
    conn.put(FILE, 0, data)
    cmds = [copy(conn, FILE, 64 * (i + 1), [entry(0, 64)]) for i in range(100)]
    for cmd in cmds:
        conn.wait(cmd)
    t.eq({cmd.status for cmd in cmds}, {n.OK}, '100 Copies at once', SPEC)
    t.ok(all(bytes(conn.read(FILE, 64 * (i + 1), 64).data) == data for i in range(100)),
         'each did its own', SPEC)


def test(t, tgt):
    with tgt.host() as host:
        conn = host.queue()
        with t.guard('identity'):
            identity(t, host)
        with t.guard('within'):
            within(t, conn)
        with t.guard('many'):
            many(t, conn)
        with t.guard('sizes'):
            sizes(t, conn)
        with t.guard('ranges'):
            ranges(t, conn, 8192)
        with t.guard('refusals'):
            refusals(t, conn)
        with t.guard('overlap_many'):
            overlap_many(t, conn)
        for part in (overlap, across, failures, aborts, crowd):
            with t.guard(part.__name__):
                part(t, host, conn)
        for part in (masked, reserved):
            with t.guard(part.__name__):
                part(t, tgt, host, conn)


def start():
    with tempfile.TemporaryDirectory(prefix='weft-wire-') as folder:
        file = 'file:%s,size=8M,block=512' % os.path.join(folder, 'a')
        spaces = [
            target.namespace(MEM, 'mem:4M,block=512'),
            target.namespace(FILE, file),
            target.namespace(BIG, 'mem:128M,block=512'),
            target.namespace(OTHER_SIZE, 'mem:4M,block=4096'),
            target.namespace(BAD_READ, 'fault:fail:op=read@mem:1M,block=512'),
            target.namespace(BAD_WRITE, 'fault:fail:op=write@mem:1M,block=512'),
            target.namespace(READ_ONLY, 'mem:1M,block=512', read_only=True),
            target.namespace(SLOW_READ, 'fault:delay:op=read:ms=3600000@mem:1M,block=512'),
            target.namespace(SLOW_WRITE, 'fault:delay:op=write:ms=3600000@mem:1M,block=512'),
            target.namespace(BAD_FUA, 'fault:fail:op=fua@mem:1M,block=512'),
            target.namespace(HIDDEN, 'mem:1M,block=512', hosts=[OTHER_NQN]),
        ]
        target.run(Tap(), test, namespaces=spaces)


start()
