#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Verify: reads its blocks and transfers no data; its limit and ranges, failing media, and Aborts of running
commands. NVM Command Set 1.1, section 3.3.5; VSL: section 4.1.5.4.
"""

import os
import struct
import tempfile

import nvmetcp as n
import target
from tap import Tap

SPEC = 'NVM 3.3.5'
LIMIT = 16 << 20
MEM, FILE, FILE_4K, BAD, BAD_LATER, SLOW, READ_ONLY = 1, 2, 3, 4, 5, 6, 7
NS = {MEM: (512, 131072), FILE: (512, 65536), FILE_4K: (4096, 8192)}


def verify(conn, nsid, lba, blocks, cdw12=0, **kwargs):
    return conn.rw(n.VERIFY, nsid, lba, blocks, 512, cdw12=cdw12, **kwargs)


def done(conn, *args, **kwargs):
    return conn.wait(verify(conn, *args, **kwargs))


def identity(t, host):
    page = bytes(host.admin.identify(1).data)
    t.ok(struct.unpack_from('<H', page, 520)[0] & 1 << 7, 'ONCS says Verify',
         'Base 5.1.13.2.1, ONCS')
    t.eq(4096 << host.admin.identify(6).data[0], LIMIT, 'VSL', 'NVM 4.1.5.4, VSL')


def sizes(t, conn):
    for nsid, (block, blocks) in NS.items():
        conn.put(nsid, 3, n.pattern(block * 4, nsid), block)
        for size in (block, 131072, 131072 + block, LIMIT):
            cmd = done(conn, nsid, 1, size // block)
            t.eq((cmd.status, bytes(cmd.data)), (n.OK, b''),
                 'Verify of %d bytes: namespace %d' % (size, nsid), SPEC)
        if blocks * block > LIMIT and LIMIT // block < 65536:
            t.status(done(conn, nsid, 0, LIMIT // block + 1), n.INVALID_FIELD,
                     'Verify beyond VSL: namespace %d' % nsid, 'NVM 4.1.5.4, VSL', 1)
        t.eq(bytes(conn.read(nsid, 3, 4, block).data), n.pattern(block * 4, nsid),
             'and changes nothing: namespace %d' % nsid, SPEC)
        for name, lba, count, want in (
                ('the last block', blocks - 1, 1, n.OK),
                ('one block beyond', blocks, 1, n.LBA_RANGE),
                ('the last and one beyond', blocks - 1, 2, n.LBA_RANGE),
                ('LBA 2^64 - 1, overflow', (1 << 64) - 1, 2, n.LBA_RANGE)):
            t.status(done(conn, nsid, lba, count), want, 'Verify: %s: %d' % (name, nsid),
                     'NVM 3.1.2, LBA Out of Range')
    for nsid, want in ((0, n.INVALID_NS), (77, n.INACTIVE_NS), (0xffffffff, n.INVALID_NS)):
        t.status(done(conn, nsid, 0, 1), want, 'Verify with NSID %X' % nsid, SPEC, 1)
    t.status(done(conn, READ_ONLY, 0, 8), n.OK, 'Verify on a read-only namespace', SPEC)
    t.status(done(conn, MEM, 0, 8, 1 << 30 | 1 << 31), n.OK, 'FUA and LR', SPEC)
    cmd = conn.do(n.VERIFY, MEM, sgl=n.sgl_transport(512))
    t.status(cmd, n.SGL_LENGTH, 'Verify with an SGL', 'Base 4.2.3.1', 1)


def failures(t, host, conn):
    t.status(done(conn, BAD, 0, 1), n.UNRECOVERED_READ, 'a medium that cannot be read', SPEC)
    cmd = done(conn, BAD_LATER, 0, 1024)
    t.status(cmd, n.UNRECOVERED_READ, 'one that fails in the third piece', SPEC)
    newest = bytes(host.admin.get_log(1, 64).data)
    lba = struct.unpack_from('<Q', newest, 16)[0]
    t.ok(512 <= lba < 1024, 'the error log names a block of that piece', 'Base 5.1.12.1.2', lba)


def aborts(t, host, conn):
    cmd = verify(conn, SLOW, 0, 2048)
    conn.do(n.FLUSH, MEM)
    answer = host.admin.do(n.ABORT, cdw10=1 | cmd.cid << 16)
    conn.wait(cmd)
    t.eq((answer.status, answer.dw0 & 1, cmd.status), (n.OK, 0, n.ABORT_REQUESTED),
         'Abort of a Verify, which does not wait for the medium (an hour)', 'Base 5.1.1')


def crowd(t, conn):
    """More Verifies at once than buffers."""
    cmds = [verify(conn, FILE, 0, 4096) for _ in range(100)]
    for cmd in cmds:
        conn.wait(cmd)
    t.eq({cmd.status for cmd in cmds}, {n.OK}, '100 at once', SPEC)


def test(t, tgt):
    with tgt.host() as host:
        conn = host.queue()
        with t.guard('identity'):
            identity(t, host)
        with t.guard('sizes'):
            sizes(t, conn)
        with t.guard('failures'):
            failures(t, host, conn)
        with t.guard('aborts'):
            aborts(t, host, conn)
        with t.guard('crowd'):
            crowd(t, conn)


def start():
    with tempfile.TemporaryDirectory(prefix='weft-wire-') as folder:
        def file(name, block):
            return 'file:%s,size=32M,block=%d' % (os.path.join(folder, name), block)
        spaces = [
            target.namespace(MEM, 'mem:64M,block=512'),
            target.namespace(FILE, file('a', 512)),
            target.namespace(FILE_4K, file('b', 4096)),
            target.namespace(BAD, 'fault:fail:op=read@mem:1M,block=512'),
            target.namespace(BAD_LATER, 'fault:fail:op=read:after=2@mem:1M,block=512'),
            target.namespace(SLOW, 'fault:delay:op=read:after=3:ms=3600000@mem:1M,block=512'),
            target.namespace(READ_ONLY, 'mem:1M,block=512', read_only=True),
        ]
        target.run(Tap(), test, namespaces=spaces)


start()
