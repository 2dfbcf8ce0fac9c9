#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Get LBA Status, allocated LBAs (ATYPE 02h): NVM Command Set 1.1, section 4.2.1. An unlisted block reads as zeroes;
a block in unknown state is listed as allocated.
"""

import os
import struct
import tempfile

import nvmetcp as n
import target
from tap import Tap

GET_LBA_STATUS = 0x86
SPEC = 'NVM 4.2.1'
BLOCKS = 2048  # of 4 KiB, in every namespace
FILE, MEMORY, FAULT, SMALL = 1, 2, 3, 4
FULL, DONE = 1, 2


def ask(host, nsid, first=0, count=0, size=4096, action=2):
    return host.admin.do(GET_LBA_STATUS, nsid=nsid, cdw10=first & 0xffffffff, cdw11=first >> 32, cdw12=size // 4 - 1,
                         cdw13=action << 24 | count, read_bytes=size)


def run(entry):
    """DSLBA and NLB of a descriptor. NLB is zero-based, and the status of allocated blocks is 010b."""
    first, blocks, reserved, status, rest = struct.unpack('<QIBBH', entry)
    assert (reserved, status, rest) == (0, 2, 0), entry.hex()
    return first, blocks + 1


def runs(host, nsid, first=0, count=0, size=4096):
    """(completion condition, [(first block, blocks)])"""
    cmd = ask(host, nsid, first, count, size)
    assert cmd.status == n.OK, cmd.status
    page = bytes(cmd.data)
    number, end = struct.unpack_from('<IB', page)
    return end, [run(page[8 + 16 * i:][:16]) for i in range(number)]


def offered(t, host):
    page = bytes(host.admin.identify(1).data)
    t.eq(struct.unpack_from('<H', page, 256)[0] & 1 << 9, 0, 'OACS: GLSS would promise ATYPE 10h and 11h, and log page 0Eh',
         'NVM 5.2.1')
    page = bytes(host.admin.identify(6).data)
    t.eq(struct.unpack_from('<H', page, 18)[0], 1, 'AOCS: allocated LBAs are told', 'NVM 4.1.5.4')
    page = bytes(host.admin.get_log(5, 4096).data)
    t.ok(struct.unpack_from('<I', page, 4 * GET_LBA_STATUS)[0] & 1, 'effects: supported', 'Base 5.1.12.1.6')


def tells(t, host, conn):
    for nsid, what in ((FILE, 'a file'), (MEMORY, 'memory')):
        conn.do(n.DSM, nsid, data=struct.pack('<IIQ', 0, BLOCKS, 0), cdw11=4)
        t.eq(runs(host, nsid), (DONE, []), what + ': nothing is allocated', SPEC)
        conn.put(nsid, 1000, n.pattern(8192, 1), 4096)
        end, found = runs(host, nsid)
        t.ok(end == DONE and any(at <= 1000 and at + blocks >= 1002 for at, blocks in found), what + ': what was written',
             SPEC, why=repr(found))
        t.eq(runs(host, nsid, 1000, 1), (DONE, [(1000, 1)]), what + ': one block', SPEC)
        t.eq(runs(host, nsid, 1000, 2), (DONE, [(1000, 2)]), what + ': the range bounds it', SPEC)
    t.eq(runs(host, FILE), (DONE, [(1000, 2)]), 'a file: and no more', SPEC)
    t.eq(runs(host, FILE, 1001), (DONE, [(1001, 1)]), 'RL 0: to the end', SPEC)
    t.eq(runs(host, FILE, 1500, 65535), (DONE, []), 'a range that reaches behind the end ends there', SPEC)
    t.eq(runs(host, FAULT), (DONE, [(0, BLOCKS)]), 'a medium that cannot tell: all of it', SPEC)
    t.eq(runs(host, SMALL, 8000, 64), (DONE, []), 'blocks of 512 bytes', SPEC)
    conn.put(SMALL, 8001, n.pattern(512, 1))
    end, found = runs(host, SMALL, 8000, 64)
    t.ok(end == DONE and found and found[0][0] <= 8001 < sum(found[0]), 'one of them: by the page of the file', SPEC,
         why=repr(found))


def many(t, host, conn):
    for i in range(100):
        conn.put(FILE, 2 * i, n.pattern(4096, i), 4096)
    want = [(2 * i, 1) for i in range(100)]
    t.eq(runs(host, FILE, 0, 200), (DONE, want), '100 runs', SPEC)
    t.eq(runs(host, FILE, 0, 200, size=8 + 16 * 7), (FULL, want[:7]), 'a buffer for seven: the first seven', SPEC)
    t.eq(runs(host, FILE, 0, 200, size=8), (FULL, []), 'a header alone', SPEC)
    t.eq(bytes(ask(host, FILE, 0, 200, size=4).data), bytes(4), 'the number alone', SPEC)
    at, found = 0, []
    while at < 200:
        end, part = runs(host, FILE, at, 200 - at, size=8 + 16 * 9)
        found += part
        at = 200 if end == DONE else sum(part[-1])
    t.eq(found, want, 'asked again from the last one: all', SPEC)


def marked(t, host, conn):
    conn.do(n.DSM, FILE, data=struct.pack('<IIQ', 0, BLOCKS, 0), cdw11=4)
    t.status(conn.wait(conn.rw(n.WRITE_UNCORRECTABLE, FILE, 1200, 1, 4096)), n.OK, 'Write Uncorrectable of a hole')
    end, found = runs(host, FILE)
    t.ok(end == DONE and any(at <= 1200 < at + blocks for at, blocks in found), 'a marked block is no hole', SPEC)
    conn.put(FILE, 1200, bytes(4096), 4096)


def cut(t, tgt, host, path):
    """Another program truncated the file: the state of all blocks is unknown."""
    os.truncate(path, 4 << 20)
    t.eq(runs(host, FILE), (DONE, [(0, BLOCKS)]), 'a file that was cut: all of it', SPEC)
    os.truncate(path, 8 << 20)


def refused(t, host):
    for action in (0, 1, 3, 0x10, 0x11, 0xff):
        t.status(ask(host, FILE, action=action), n.INVALID_FIELD, 'ATYPE %02xh' % action, SPEC)
    t.status(ask(host, FILE, BLOCKS), n.LBA_RANGE, 'behind the end', SPEC)
    t.status(ask(host, FILE, 1 << 63), n.LBA_RANGE, 'far behind it', SPEC)
    t.status(ask(host, 9), n.INACTIVE_NS, 'an inactive NSID', 'Base 3.2.1.5')
    t.status(ask(host, 0xffffffff), n.INVALID_NS, 'all namespaces', SPEC)
    t.status(host.admin.do(GET_LBA_STATUS, nsid=FILE, cdw12=1023, cdw13=2 << 24, read_bytes=512), n.SGL_LENGTH,
             'a buffer of another length', 'Base 4.3.2')


def format_is_seen(t, tgt):
    """A host that has not read the new block size gets no list: it would misread the LBAs."""
    with tgt.host() as a, tgt.host() as b:
        a.admin.do(0x80, nsid=SMALL, cdw10=1)
        t.status(ask(b, SMALL), (0, 0x82), 'after a format: not before Identify', 'Base 5.1.2.1')
        b.admin.identify(0, SMALL)
        t.status(ask(b, SMALL), n.OK, 'then it is', SPEC)
        a.admin.do(0x80, nsid=SMALL, cdw10=0)


def test(t, tgt):
    with tgt.host() as host:
        conn = host.queue()
        for part, args in ((offered, (host,)), (tells, (host, conn)), (many, (host, conn)), (marked, (host, conn)),
                           (cut, (tgt, host, PATH)), (refused, (host,)), (format_is_seen, (tgt,))):
            with t.guard(part.__name__):
                part(t, *args)


if __name__ == '__main__':
    with tempfile.TemporaryDirectory(prefix='weft-lba-status-') as FOLDER:
        PATH = os.path.join(FOLDER, 'file.img')
        target.run(Tap(), test, rights=target.ALL_RIGHTS, namespaces=[
            target.namespace(FILE, 'file:%s,size=8M' % PATH),
            target.namespace(MEMORY, 'mem:8M'),
            target.namespace(FAULT, 'fault:fail:op=fua@mem:8M'),
            target.namespace(SMALL, 'file:%s/small.img,size=8M,block=512' % FOLDER),
        ])
