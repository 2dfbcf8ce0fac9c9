#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
The NVM command set: Read, Write, Compare, Flush, Write Zeroes, Dataset Management, with every way of data transfer
and one row per status. NVM Command Set 1.1, section 3.3; NVMe Base 2.1, sections 4.1 to 4.3 and 7.2; NVMe/TCP 1.1,
sections 3.4 and 3.5.
"""

import os
import struct
import tempfile

import nvmetcp as n
import target
from tap import Tap

MDTS = 512 << 10
FUA, DEAC, LR = 1 << 30, 1 << 25, 1 << 31
# nsid: block size and blocks
NS = {1: (512, 8192), 2: (4096, 4096), 3: (512, 16384), 4: (4096, 2048)}
READ_ONLY, BAD_READ, BAD_WRITE, NO_SPACE, BAD_ZERO, BAD_FLUSH, SLOW, BAD_FUA = range(10, 18)
SPARSE = 18


def transfers(t, host, conn, name):
    """Every size, in the capsule where it fits and by R2T, on memory and on a file."""
    for nsid, (block, _) in NS.items():
        bad = []
        for size in (512, 1024, 4096, 8192, 12288, 65536, 131072, 262144, MDTS):
            if size % block:
                continue
            for way in ('capsule', 'r2t'):
                if way == 'capsule' and size > 8192:
                    continue
                data = n.pattern(size, size + nsid)
                lba = 16 if size < MDTS else 0
                wrote = conn.put(nsid, lba, data, block, way=way)
                cmd = conn.read(nsid, lba, size // block, block)
                if wrote.status != n.OK or cmd.status != n.OK or bytes(cmd.data) != data:
                    bad.append((size, way, wrote.status, cmd.status))
        t.eq(bad, [], '%s: writes and reads of 512 B to 512 KiB on namespace %d' % (name, nsid),
             'NVM 3.3.4, 3.3.6')


def neighbours(t, conn):
    """A write changes its blocks and no others."""
    for nsid, (block, _) in NS.items():
        conn.put(nsid, 100, b'\xaa' * block * 5, block)
        conn.put(nsid, 102, b'\x55' * block, block)
        want = b'\xaa' * block * 2 + b'\x55' * block + b'\xaa' * block * 2
        t.eq(bytes(conn.read(nsid, 100, 5, block).data), want,
             'a write touches its own blocks: namespace %d' % nsid, 'NVM 3.3.6')


def flags(t, conn):
    for nsid, (block, _) in NS.items():
        data = n.pattern(block, 77)
        t.status(conn.put(nsid, 7, data, block, cdw12=FUA), n.OK, 'Write with FUA: %d' % nsid,
                 'NVM 3.3.6')
        t.status(conn.read(nsid, 7, 1, block, cdw12=FUA | LR), n.OK,
                 'Read with FUA and LR: %d' % nsid, 'NVM 3.3.4')
        t.status(conn.do(n.FLUSH, nsid), n.OK, 'Flush: %d' % nsid, 'Base 7.2')
        for prinfo in (1, 8, 15):
            t.eq((conn.put(nsid, 7, data, block, cdw12=prinfo << 26).status,
                  conn.read(nsid, 7, 1, block, cdw12=prinfo << 26).status), (n.OK, n.OK),
                 'PRINFO %Xh means nothing without protection: %d' % (prinfo, nsid),
                 'NVM 5.2.2, PRINFO')
        t.status(conn.put(nsid, 7, bytes(block), block, cdw12=1 << 20), n.INVALID_FIELD,
                 'Write with a directive, none is supported: %d' % nsid, 'Base 8.1.8', 1)
        t.eq(bytes(conn.read(nsid, 7, 1, block).data), data,
             'and it wrote nothing: %d' % nsid, 'NVM 3.3.6')


def zeroes(t, conn):
    for nsid, (block, _) in NS.items():
        for name, cdw12 in (('Write Zeroes', 0), ('Write Zeroes with DEAC', DEAC)):
            conn.put(nsid, 200, b'\xee' * block * 16, block)
            cmd = conn.wait(conn.rw(n.WRITE_ZEROES, nsid, 204, 8, block, cdw12=cdw12))
            t.status(cmd, n.OK, '%s: namespace %d' % (name, nsid), 'NVM 3.3.8')
            want = b'\xee' * block * 4 + bytes(block * 8) + b'\xee' * block * 4
            t.eq(bytes(conn.read(nsid, 200, 16, block).data), want,
                 '%s: namespace %d reads zeroes there' % (name, nsid), 'NVM 3.3.8')


def dsm(t, conn):
    for nsid, (block, blocks) in NS.items():
        conn.put(nsid, 300, b'\xdd' * block * 16, block)
        ranges = struct.pack('<IIQIIQIIQ', 0, 2, 302, 0, 0, 305, 0, 3, 310)
        cmd = conn.do(n.DSM, nsid, data=ranges, cdw10=2, cdw11=4)
        t.status(cmd, n.OK, 'Dataset Management of 3 ranges: namespace %d' % nsid, 'NVM 3.3.3')
        got = bytes(conn.read(nsid, 300, 16, block).data)
        kept = [i for i in range(16) if got[i * block:(i + 1) * block] == b'\xdd' * block]
        t.ok(set(kept) >= set(range(16)) - {2, 3, 10, 11, 12},
             'Dataset Management leaves the other blocks: namespace %d' % nsid, 'NVM 3.3.3', kept)
        gone = b''.join(got[i * block:(i + 1) * block] for i in (2, 3, 10, 11, 12))
        t.eq(gone, bytes(len(gone)), 'deallocated blocks read zeroes, as DLFEAT says: %d' % nsid,
             'NVM 3.2.3.2')
        cmd = conn.do(n.DSM, nsid, data=ranges, cdw10=2, cdw11=1)
        t.status(cmd, n.OK, 'Dataset Management as a hint: %d' % nsid, 'NVM 3.3.3')
        far = struct.pack('<IIQIIQ', 0, 2, 320, 0, 2, blocks - 1)
        conn.put(nsid, 320, b'\xdd' * block * 2, block)
        t.status(conn.do(n.DSM, nsid, data=far, cdw10=1, cdw11=4), n.LBA_RANGE,
                 'Dataset Management beyond the end: %d' % nsid, 'NVM 3.3.3')
        t.eq(bytes(conn.read(nsid, 320, 2, block).data), b'\xdd' * block * 2,
             'and none of its ranges was done: %d' % nsid, 'NVM 3.3.3')
    cmd = conn.do(n.DSM, 1, data=bytes(16 * 256), cdw10=255, cdw11=4)
    t.status(cmd, n.OK, 'Dataset Management of 256 ranges', 'NVM 3.3.3')
    for nsid, (block, blocks) in NS.items():
        conn.put(nsid, 0, b'\xdd' * block * 64, block)
        odd = b''.join(struct.pack('<IIQ', 0, 1, 2 * i + 1) for i in range(32))
        odd += b''.join(struct.pack('<IIQ', 0, 0, i) for i in range(224))
        t.status(conn.do(n.DSM, nsid, data=odd, cdw10=255, cdw11=4), n.OK,
                 'every second block in 256 ranges, most of them empty: %d' % nsid, 'NVM 3.3.3')
        t.eq(bytes(conn.read(nsid, 0, 64, block).data), (b'\xdd' * block + bytes(block)) * 32,
             'all of those were done: %d' % nsid, 'NVM 3.3.3')
        bad = odd[:-16] + struct.pack('<IIQ', 0, 2, blocks - 1)
        conn.put(nsid, 0, b'\xdd' * block * 64, block)
        t.status(conn.do(n.DSM, nsid, data=bad, cdw10=255, cdw11=7), n.LBA_RANGE,
                 'the last of 256 ranges is beyond the end: %d' % nsid, 'NVM 3.3.3', 1)
        t.eq(bytes(conn.read(nsid, 0, 64, block).data), b'\xdd' * block * 64,
             'and none of the 255 before it was done: %d' % nsid, 'NVM 3.3.3')
        whole = struct.pack('<IIQ', 0x0333, blocks, 0)
        t.status(conn.do(n.DSM, nsid, data=whole, cdw11=7), n.OK,
                 'the whole namespace, with IDR, IDW and context attributes: %d' % nsid,
                 'NVM 3.3.3')
        t.eq(bytes(conn.read(nsid, 0, 64, block).data), bytes(64 * block),
             'is deallocated: %d' % nsid, 'NVM 3.3.3')
        far = struct.pack('<IIQ', 0, 0xffffffff, (1 << 64) - 1)
        t.status(conn.do(n.DSM, nsid, data=far, cdw11=4), n.LBA_RANGE,
                 'a range that overflows: %d' % nsid, 'NVM 3.3.3', 1)
    cmd = conn.do(n.DSM, 1, data=bytes(16), cdw10=1, cdw11=4)
    t.status(cmd, n.SGL_LENGTH, 'Dataset Management with fewer ranges than NR', 'Base 4.2.3.1')


def dsm_pieces(t, conn):
    """
    Ranges longer than the pieces in which they are executed (1 GiB on a file), with unaligned ends: checks the
    blocks at all edges, inside and outside.
    """
    gib = 1 << 18  # blocks
    for first, last in ((gib - 3, 3 * gib + 4), (gib, 2 * gib - 1), (5, 3 * gib - 1)):
        edges = {gib * i + at for i in range(4) for at in (-1, 0, 1)} - {-1}
        lbas = sorted(edges | {first - 1, first, last, last + 1})
        for lba in lbas:
            conn.put(SPARSE, lba, b'\xdd' * 4096, 4096)
        data = struct.pack('<IIQ', 0, last - first + 1, first)
        t.status(conn.do(n.DSM, SPARSE, data=data, cdw11=4), n.OK,
                 'Dataset Management of LBA %d to %d' % (first, last), 'NVM 3.3.3')
        got = [conn.read(SPARSE, lba, 1, 4096).data[0] == 0xdd for lba in lbas]
        t.eq(got, [not first <= lba <= last for lba in lbas], 'these blocks and no others',
             'NVM 3.3.3')


def compare(t, conn):
    for nsid, (block, _) in NS.items():
        for size in (block, 65536):
            data = n.pattern(size, 3)
            conn.put(nsid, 400, data, block)
            cmd = conn.wait(conn.rw(n.COMPARE, nsid, 400, size // block, block, data))
            t.status(cmd, n.OK, 'Compare of %d equal bytes: %d' % (size, nsid), 'NVM 3.3.1')
            wrong = data[:-1] + bytes([data[-1] ^ 1])
            cmd = conn.wait(conn.rw(n.COMPARE, nsid, 400, size // block, block, wrong))
            t.status(cmd, n.COMPARE_FAILURE, 'Compare of %d, last bit wrong: %d' % (size, nsid),
                     'NVM 3.3.1')
        t.eq(bytes(conn.read(nsid, 400, 65536 // block, block).data), n.pattern(65536, 3),
             'Compare writes nothing: %d' % nsid, 'NVM 3.3.1')


def ranges(t, conn):
    for nsid, (block, blocks) in NS.items():
        rows = [
            ('the last block', blocks - 1, 1, n.OK),
            ('one block beyond', blocks, 1, n.LBA_RANGE),
            ('the last and one beyond', blocks - 1, 2, n.LBA_RANGE),
            ('LBA 2^63', 1 << 63, 1, n.LBA_RANGE),
            ('LBA 2^64 - 1, overflow', (1 << 64) - 1, 2, n.LBA_RANGE),
            ('LBA 2^64 - 8, overflow in bytes', (1 << 64) - 8, 8, n.LBA_RANGE),
            ('LBA 2^55, overflow of the byte offset', 1 << 55, 1, n.LBA_RANGE),
        ]
        bad = []
        for name, lba, count, want in rows:
            for op, text, data in ((n.READ, 'Read', b''), (n.WRITE, 'Write', bytes(count * block)),
                                   (n.COMPARE, 'Compare', bytes(count * block)),
                                   (n.WRITE_ZEROES, 'Write Zeroes', b'')):
                cmd = conn.wait(conn.rw(op, nsid, lba, count, block, data))
                if cmd.status != want:
                    bad.append((text, name, cmd.status))
        t.eq(bad, [], 'LBA ranges at and beyond the end: namespace %d' % nsid,
             'NVM 3.1.2, LBA Out of Range')


def namespaces(t, conn):
    for name, nsid in (('0', 0), ('5, inactive', 5), ('16384', 16384), ('FFFFFFFEh', 0xfffffffe),
                       ('FFFFFFFFh', 0xffffffff)):
        for text, do in (('Read', lambda: conn.read(nsid, 0, 1)),
                         ('Write', lambda: conn.put(nsid, 0, bytes(512))),
                         ('Write Zeroes',
                          lambda: conn.wait(conn.rw(n.WRITE_ZEROES, nsid, 0, 1, 512))),
                         ('Flush', lambda: conn.do(n.FLUSH, nsid))):
            if text == 'Flush' and nsid == 0xffffffff:
                continue  # all namespaces: see flush_all
            want = n.INACTIVE_NS if nsid in (5, 16384) else n.INVALID_NS
            t.status(do(), want, '%s with NSID %s' % (text, name), 'Base 3.2.1.5, VWC', 1)


def flush_all(t, tgt):
    """NSID FFFFFFFFh flushes every namespace; one failure fails the command after all are flushed."""
    with tempfile.TemporaryDirectory(prefix='weft-wire-') as folder:
        file = 'file:%s,size=1M,block=512' % os.path.join(folder, 'a')
        late = 'file:%s,size=1M,block=512' % os.path.join(folder, 'b')
        spaces = [target.namespace(i, 'mem:64K,block=512') for i in range(1, 700)]
        spaces.append(target.namespace(700, file))
        spaces.append(target.namespace(701, 'fault:fail:op=flush:count=1@' + late))
        hidden = 'file:%s,size=1M,block=512' % os.path.join(folder, 'c')
        spaces.append(target.namespace(702, 'fault:fail:op=flush@' + hidden,
                                       hosts=['nqn.2026-11.io.weft:somebody-else']))
        tgt = target.Target(namespaces=spaces)
        try:
            with t.guard('flush all'), tgt.host() as host:
                conn = host.queue()
                vwc = host.admin.identify(1).data[525]
                t.eq(vwc & 7, 7, 'VWC: there is a cache, and Flush may name all namespaces',
                     'Base 5.1.13.2.1, VWC')
                t.status(conn.do(n.FLUSH, 0xffffffff), n.WRITE_FAULT,
                         'Flush of all where one fails', 'Base 7.2')
                t.status(conn.do(n.FLUSH, 0xffffffff), n.OK,
                         'Flush of all, but for one that this host does not see', 'Base 7.2')
                cmds = [conn.submit(n.FLUSH, 0xffffffff) for _ in range(50)]
                for cmd in cmds:
                    conn.wait(cmd)
                t.eq({cmd.status for cmd in cmds}, {n.OK}, '50 at once', 'Base 7.2')
                t.status(conn.do(n.FLUSH, 0xffffffff, data=bytes(16)), n.SGL_LENGTH,
                         'Flush with data', 'Base 4.2.3.1', 1)
        finally:
            tgt.finish(t)


def limits(t, conn):
    cmd = conn.read(1, 0, MDTS // 512 + 1)
    t.status(cmd, n.INVALID_FIELD, 'Read of MDTS and a block', 'Base 5.1.13.2.1, MDTS', 1)
    cmd = conn.put(1, 0, bytes(MDTS + 512))
    t.status(cmd, n.INVALID_FIELD, 'Write of MDTS and a block', 'Base 5.1.13.2.1, MDTS', 1)
    cmd = conn.wait(conn.rw(n.COMPARE, 1, 0, MDTS // 512 + 1, 512, bytes(MDTS + 512)))
    t.status(cmd, n.INVALID_FIELD, 'Compare of MDTS and a block', 'Base 5.1.13.2.1, MDTS', 1)
    cmd = conn.wait(conn.rw(n.WRITE_ZEROES, 1, 0, 8192, 512))
    t.status(cmd, n.OK, 'Write Zeroes of 4 MiB, within WZSL', 'NVM 4.1.5.4, WZSL')
    cmd = conn.wait(conn.rw(n.WRITE_ZEROES, 3, 0, 8193, 512))
    t.status(cmd, n.INVALID_FIELD, 'Write Zeroes beyond WZSL', 'NVM 4.1.5.4, WZSL')


def desc(kind, length=512, address=0):
    return struct.pack('<QI3xB', address, length, kind)


# name, opcode, SGL, data in the capsule, status, section
SGLS = [
    ('Write: data block by address', n.WRITE, desc(0x00), b'', n.SGL_TYPE, 'Base 4.3.2, type'),
    ('Write: bit bucket', n.WRITE, desc(0x10), b'', n.SGL_TYPE, 'Base 4.3.2, type'),
    ('Write: keyed data block', n.WRITE, desc(0x40), b'', n.SGL_TYPE, 'TCP 3.4'),
    ('Write: transport, sub type 0', n.WRITE, desc(0x50), b'', n.SGL_TYPE, 'TCP 3.4'),
    ('Write: type Fh', n.WRITE, desc(0xf0), b'', n.SGL_TYPE, 'Base 4.3.2, type'),
    ('Write: segment', n.WRITE, desc(0x21), b'', n.SGL_SEGMENT, 'Base 4.3.2, MSDBD 1'),
    ('Write: last segment', n.WRITE, desc(0x31), b'', n.SGL_SEGMENT, 'Base 4.3.2, MSDBD 1'),
    ('Write: in-capsule without data', n.WRITE, desc(0x01), b'', n.SGL_LENGTH, 'Base 4.2.3.1'),
    ('Write: in-capsule longer than the data', n.WRITE, desc(0x01), bytes(256), n.SGL_LENGTH,
     'Base 4.2.3.1'),
    ('Write: offset behind the capsule', n.WRITE, desc(0x01, 512, 4096), bytes(512), n.SGL_OFFSET,
     'Base 4.2.3.1, SGL Offset Invalid'),
    ('Write: offset 2^63', n.WRITE, desc(0x01, 512, 1 << 63), bytes(512), n.SGL_OFFSET,
     'Base 4.2.3.1, SGL Offset Invalid'),
    ('Write: offset + length behind the capsule', n.WRITE, desc(0x01, 512, 256), bytes(512),
     n.SGL_LENGTH, 'Base 4.2.3.1'),
    ('Write: SGL shorter than the blocks', n.WRITE, desc(0x01, 256), bytes(256), n.SGL_LENGTH,
     'Base 4.2.3.1'),
    ('Write: SGL longer than the blocks', n.WRITE, desc(0x01, 1024), bytes(1024), n.SGL_LENGTH,
     'Base 4.2.3.1'),
    ('Write: transport SGL shorter than the blocks', n.WRITE, desc(0x5a, 256), b'', n.SGL_LENGTH,
     'Base 4.2.3.1'),
    ('Write: transport SGL longer than the blocks', n.WRITE, desc(0x5a, 1024), b'', n.SGL_LENGTH,
     'Base 4.2.3.1'),
    ('Write: transport SGL with data in the capsule', n.WRITE, desc(0x5a), bytes(512), n.SGL_TYPE,
     'TCP 3.4'),
    ('Write: no SGL', n.WRITE, desc(0x5a, 0), b'', n.SGL_LENGTH, 'Base 4.2.3.1'),
    ('Read: SGL shorter than the blocks', n.READ, desc(0x5a, 256), b'', n.SGL_LENGTH,
     'Base 4.2.3.1'),
    ('Read: SGL longer than the blocks', n.READ, desc(0x5a, 1024), b'', n.SGL_LENGTH,
     'Base 4.2.3.1'),
    ('Read: SGL of 4 GiB - 1', n.READ, desc(0x5a, 0xffffffff), b'', n.SGL_LENGTH, 'Base 4.2.3.1'),
    ('Read: in-capsule SGL', n.READ, desc(0x01), bytes(512), n.SGL_TYPE, 'TCP 3.4'),
    ('Read: no SGL', n.READ, desc(0x5a, 0), b'', n.SGL_LENGTH, 'Base 4.2.3.1'),
]


def sgls(t, conn):
    conn.put(1, 0, b'\x11' * 512)
    for name, opcode, sgl, data, want, spec in SGLS:
        with t.guard(name, spec):
            cmd = conn.submit(opcode, 1, data=data, way='capsule', sgl=sgl)
            conn.wait(cmd)
            t.status(cmd, want, name, spec, 1)
    data = b'\x22' * 256 + b'\x33' * 512 + b'\x44' * 256
    cmd = conn.do(n.WRITE, 1, data=data, way='capsule', sgl=desc(0x01, 512, 256), cdw10=1)
    t.status(cmd, n.OK, 'Write: in-capsule data at offset 256', 'Base 4.3.2, offset')
    t.eq(bytes(conn.read(1, 0, 2).data), b'\x11' * 512 + b'\x33' * 512,
         'refused writes wrote nothing; the offset was obeyed', 'Base 4.3.2')
    for name, psdt in (('PSDT 00b', 0x00), ('PSDT 11b', 0xc0)):
        cmd = conn.do(n.READ, 1, sgl=n.sgl_transport(512), flags=psdt)
        t.status(cmd, n.INVALID_FIELD, name, 'Base 4.1.1, PSDT', 1)
    cmd = conn.do(n.READ, 1, sgl=n.sgl_transport(512), flags=0x43)
    t.status(cmd, n.INVALID_FIELD, 'FUSE 11b, reserved', 'Base 4.1.1, FUSE', 1)


def opcodes(t, conn):
    known = {n.FLUSH, n.WRITE, n.READ, n.COMPARE, n.WRITE_ZEROES, n.DSM, n.FABRICS,
             n.WRITE_UNCORRECTABLE, n.VERIFY, n.CANCEL, n.COPY,
             0x0d, 0x0e, 0x11, 0x15}  # reservations
    bad = []
    for opcode in range(256):
        if opcode not in known:
            cmd = conn.do(opcode, 1)
            if cmd.status != n.INVALID_OPCODE or not cmd.dnr:
                bad.append((opcode, cmd.status))
    t.eq(bad, [], 'every unknown opcode: Invalid Command Opcode with DNR', 'Base 4.2.3.1')
    cmd = conn.submit(0x81, 1, data=bytes(4096), way='capsule')
    t.status(conn.wait(cmd), n.INVALID_OPCODE, 'unknown opcode with data in the capsule',
             'Base 4.2.3.1')


def read_only(t, conn):
    for name, do in (
            ('Write', lambda: conn.put(READ_ONLY, 0, bytes(512))),
            ('Write by R2T', lambda: conn.put(READ_ONLY, 0, bytes(512), way='r2t')),
            ('Write Zeroes', lambda: conn.wait(conn.rw(n.WRITE_ZEROES, READ_ONLY, 0, 1, 512))),
            ('Dataset Management', lambda: conn.do(n.DSM, READ_ONLY, data=bytes(16), cdw11=4))):
        t.status(do(), n.WRITE_PROTECTED, name + ' on a read-only namespace',
                 'Base 4.2.3.1, Namespace is Write Protected', 1)
    t.status(conn.read(READ_ONLY, 0, 1), n.OK, 'Read on a read-only namespace', 'NVM 3.3.4')
    t.status(conn.do(n.FLUSH, READ_ONLY), n.OK, 'Flush on a read-only namespace', 'Base 7.2')


def media_errors(t, conn):
    rows = [
        ('Read', lambda: conn.read(BAD_READ, 0, 1), n.UNRECOVERED_READ),
        ('Compare', lambda: conn.wait(conn.rw(n.COMPARE, BAD_READ, 0, 1, 512, bytes(512))),
         n.UNRECOVERED_READ),
        ('Write', lambda: conn.put(BAD_WRITE, 0, bytes(512)), n.WRITE_FAULT),
        ('Write by R2T', lambda: conn.put(BAD_WRITE, 0, bytes(512), way='r2t'), n.WRITE_FAULT),
        ('Write without FUA where FUA fails', lambda: conn.put(BAD_FUA, 0, bytes(512)), n.OK),
        ('Write with FUA: it reaches the medium',
         lambda: conn.put(BAD_FUA, 0, bytes(512), cdw12=1 << 30), n.WRITE_FAULT),
        ('Write without space', lambda: conn.put(NO_SPACE, 0, bytes(512)), n.CAPACITY_EXCEEDED),
        ('Write Zeroes', lambda: conn.wait(conn.rw(n.WRITE_ZEROES, BAD_ZERO, 0, 1, 512)),
         n.WRITE_FAULT),
        ('Flush', lambda: conn.do(n.FLUSH, BAD_FLUSH), n.WRITE_FAULT),
    ]
    for name, do, want in rows:
        with t.guard(name):
            cmd = do()
            t.status(cmd, want, 'medium fails: ' + name, 'NVM 3.1.2')
            t.eq(bytes(cmd.data), b'', 'medium fails: %s: no data' % name, 'NVM 3.1.2')
    t.status(conn.put(BAD_READ, 0, bytes(512)), n.OK, 'other commands there still work',
             'NVM 3.3.6')


def digest_errors(t, tgt):
    with tgt.host(ddgst=True) as host:
        conn = host.queue()
        for nsid, (block, _) in NS.items():
            good = n.pattern(block, 1)
            conn.put(nsid, 50, good, block)
            cmd = conn.wait(conn.rw(n.WRITE, nsid, 50, 1, block, n.pattern(block, 2),
                                    way='capsule', spoil_ddgst=True))
            t.status(cmd, n.TRANSIENT_TRANSPORT, 'data digest error in a capsule: %d' % nsid,
                     'TCP 3.5, data digest', 0)
            cmd = conn.rw(n.WRITE, nsid, 50, 4, block, n.pattern(4 * block, 2), way='r2t',
                          is_auto=False)
            r2t = conn.wait_r2t(cmd)
            for i in range(4):
                conn.send(conn.h2cdata(cmd.cid, r2t.ttag, i * block,
                                       cmd.write_data[i * block:(i + 1) * block], i == 3,
                                       spoil_ddgst=i == 1))
            t.status(conn.wait(cmd), n.TRANSIENT_TRANSPORT,
                     'data digest error in one of four H2CData: %d' % nsid, 'TCP 3.5, data digest',
                     0)
            t.eq(bytes(conn.read(nsid, 50, 1, block).data), good,
                 'data with a wrong digest is not written: %d' % nsid, 'TCP 3.5, data digest')
        t.status(conn.put(1, 50, bytes(512)), n.OK, 'and the connection goes on', 'TCP 3.5')


def alignment(t, tgt):
    """Conn checks PDO of every C2HData against HPDA."""
    for hpda in (1, 3, 15, 17, 31):
        for dgst in (False, True):
            name = 'HPDA %d%s' % (hpda, ', digests' if dgst else '')
            with t.guard(name), tgt.host(hpda=hpda, hdgst=dgst, ddgst=dgst) as host:
                conn = host.queue()
                data = n.pattern(8192, hpda)
                conn.put(1, 0, data)
                t.eq(bytes(conn.read(1, 0, 16).data), data, name + ': Read', 'TCP 3.6.2.8, PDO')


def flow_control(t, tgt):
    with tgt.host() as host:
        conn = host.queue(1, 7, cattr=4)
        cmd = conn.read(1, 0, 8)
        t.ok(cmd.by_flag, 'SQ flow control disabled: SUCCESS flag instead of a response',
             'TCP 3.6.2.8, SUCCESS')
        cmd = conn.put(1, 0, bytes(512))
        t.eq((cmd.status, cmd.sqhd), (n.OK, 0), 'and SQHD is reserved', 'Base 4.2.1, SQHD')
        conn = host.queue(2, 7, cattr=0)
        heads = []
        for _ in range(20):
            cmd = conn.read(1, 0, 1)
            if cmd.by_flag:
                break
            heads.append(cmd.sqhd)
        want = [(heads[0] + i) % 8 for i in range(20)] if heads else None
        t.eq(heads, want,
             'SQ flow control enabled: a response each, SQHD goes on by one modulo 8',
             'Base 3.3.2.1, SQHD')


def whole_blocks(t, conn):
    """H2CData PDUs that end inside blocks: a read meanwhile returns each block old or new."""
    for nsid, (block, _) in NS.items():
        old, new = n.pattern(8 * block, 31), n.pattern(8 * block, 32)
        conn.put(nsid, 64, old, block)
        cmd = conn.rw(n.WRITE, nsid, 64, 8, block, new, way='r2t', is_auto=False)
        ttag = conn.wait_r2t(cmd).ttag
        torn = 0
        cuts = [0, block, block + 4, 2 * block - 4, 3 * block, 5 * block + block // 2, 8 * block]
        for start, end in zip(cuts, cuts[1:]):
            conn.send(conn.h2cdata(cmd.cid, ttag, start, new[start:end], end == cuts[-1]))
            # On the same connection: it is executed after the data before it.
            seen = bytes(conn.read(nsid, 64, 8, block).data)
            for at in range(0, 8 * block, block):
                torn += seen[at:at + block] not in (old[at:at + block], new[at:at + block])
        conn.wait(cmd)
        t.status(cmd, n.OK, 'H2CData cut inside blocks: %d' % nsid, 'TCP 3.6.2.8')
        t.eq(torn, 0, 'and nobody sees half a block: %d' % nsid, 'NVM 2.1.4')
        t.eq(bytes(conn.read(nsid, 64, 8, block).data), new, 'and all is there: %d' % nsid,
             'NVM 3.3.6')


def many_at_once(t, host):
    conn = host.queue(4)
    data = [n.pattern(131072, i) for i in range(12)]
    cmds = [conn.rw(n.WRITE, 1, 256 * i, 256, 512, data[i], way='r2t', is_auto=False)
            for i in range(12)]
    for cmd in cmds:
        conn.wait_r2t(cmd)
    t.eq(len({cmd.r2ts[0].ttag for cmd in cmds}), 12, '12 writes, 12 different TTAGs',
         'TCP 3.6.2.9, TTAG')
    for cmd in reversed(cmds):
        conn.answer_r2t(cmd, cmd.r2ts[0], 16384)
    for cmd in cmds:
        conn.wait(cmd)
    t.eq([cmd.status for cmd in cmds], [n.OK] * 12, 'answered in another order', 'TCP 3.6.2.9')
    t.ok(all(bytes(conn.read(1, 256 * i, 256).data) == data[i] for i in range(12)),
         'each has its own data', 'TCP 3.6.2.9')
    # More data in flight than there are buffers of that size, on a medium that needs buffers.
    cmds = [conn.rw(n.READ, SLOW, 0, 1024, 512) for _ in range(60)]
    for cmd in cmds:
        conn.wait(cmd)
    t.eq({cmd.status for cmd in cmds}, {n.OK}, '60 reads of 512 KiB at once', 'NVM 3.3.4')
    # In-capsule data on another queue of the same target while no buffer is free.
    cmds = [conn.rw(n.READ, SLOW, 0, 1024, 512) for _ in range(60)]
    other = host.queue(5)
    writes = [other.put(3, i, n.pattern(512, i)) for i in range(40)]
    for cmd in cmds:
        conn.wait(cmd)
    t.ok(all(cmd.status == n.OK for cmd in cmds + writes), 'small writes beside them',
         'NVM 3.3.6')
    # A full queue: as many commands as it has entries.
    cmds = [conn.rw(n.READ, 1, i, 1, 512, send=False) for i in range(127)]
    conn.send(b''.join(cmd.wire for cmd in cmds))
    for cmd in cmds:
        conn.wait(cmd)
    t.ok(all(cmd.status == n.OK for cmd in cmds), '127 commands in a queue of 128',
         'Base 3.3.2.1')


def two_queues(t, host):
    """Two queues on two reactors see each other's data."""
    a, b = host.queue(6), host.queue(7)
    bad = []
    for i in range(50):
        data = n.pattern(4096, i)
        a.put(2, i, data, 4096)
        if bytes(b.read(2, i, 1, 4096).data) != data:
            bad.append(i)
        a, b = b, a
    t.eq(bad, [], 'what one queue wrote the other reads', 'NVM 2.1.4')


def small_capsules(t):
    tgt = target.Target(limits={'in_capsule_bytes': 0, 'transfer_bytes': 131072})
    try:
        with t.guard('no in-capsule data'), tgt.host() as host:
            conn = host.queue()
            page = bytes(host.admin.identify(1).data)
            t.eq((struct.unpack_from('<I', page, 1792)[0], page[77]), (4, 5),
                 'IOCCSZ of 64 bytes, MDTS of 128 KiB', 'Base 5.1.13.2.1')
            cmd = conn.put(1, 0, bytes(512), way='capsule')
            t.status(cmd, n.SGL_LENGTH, 'in-capsule data beyond IOCCSZ is refused',
                     'Base 5.1.13.2.1, IOCCSZ')
            data = n.pattern(131072, 5)
            t.status(conn.put(1, 0, data, way='r2t'), n.OK, 'R2T instead', 'TCP 3.4')
            t.eq(bytes(conn.read(1, 0, 256).data), data, 'and it is there', 'NVM 3.3.4')
            t.status(conn.read(1, 0, 257), n.INVALID_FIELD, 'MDTS of 128 KiB is kept to',
                     'Base 5.1.13.2.1, MDTS')
    finally:
        tgt.finish(t)


def test(t, tgt):
    with t.guard('transfers'), tgt.host() as host:
        transfers(t, host, host.queue(), 'plain')
    with t.guard('transfers'), tgt.host(hdgst=True, ddgst=True) as host:
        transfers(t, host, host.queue(), 'both digests')
    with tgt.host() as host:
        conn = host.queue()
        for part in (neighbours, flags, zeroes, dsm, dsm_pieces, compare, ranges, namespaces, limits, sgls,
                     opcodes, read_only, media_errors, whole_blocks):
            with t.guard(part.__name__):
                part(t, conn)
        with t.guard('many at once'):
            many_at_once(t, host)
        with t.guard('two queues'):
            two_queues(t, host)
    for part in (digest_errors, alignment, flow_control, flush_all):
        with t.guard(part.__name__):
            part(t, tgt)
    small_capsules(t)


def start():
    with tempfile.TemporaryDirectory(prefix='weft-wire-') as folder:
        def file(name, size, block):
            return 'file:%s,size=%s,block=%d' % (os.path.join(folder, name), size, block)
        spaces = [
            target.namespace(1, 'mem:4M,block=512'),
            target.namespace(2, 'mem:16M,block=4096'),
            target.namespace(3, file('a', '8M', 512)),
            target.namespace(4, file('b', '8M', 4096)),
            target.namespace(READ_ONLY, 'mem:1M,block=512', read_only=True),
            target.namespace(BAD_READ, 'fault:fail:op=read@mem:1M,block=512'),
            target.namespace(BAD_WRITE, 'fault:fail:op=write@mem:1M,block=512'),
            target.namespace(NO_SPACE, 'fault:fail:op=write:errno=ENOSPC@mem:1M,block=512'),
            target.namespace(BAD_ZERO, 'fault:fail:op=zero@mem:1M,block=512'),
            target.namespace(BAD_FLUSH, 'fault:fail:op=flush@' + file('c', '1M', 512)),
            target.namespace(BAD_FUA, 'fault:fail:op=fua@mem:1M,block=512'),
            target.namespace(SLOW, 'fault:delay:op=read:ms=20@mem:1M,block=512'),
            target.namespace(SPARSE, file('d', '4G', 4096)),
        ]
        target.run(Tap(), test, namespaces=spaces)


start()
