#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Get Log Page: every page, offsets and lengths, the counters of SMART, and what an error leaves
behind. NVMe Base 2.1, section 5.1.12.
"""

import struct

import nvmetcp as n
import target
from tap import Tap


def u128(page, at):
    return int.from_bytes(page[at:at + 16], 'little')


def u32(page, at):
    return struct.unpack_from('<I', page, at)[0]


def supported(t, host):
    spec = 'Base 5.1.12.1.1'
    page = bytes(host.admin.get_log(0, 1024).data)
    have = [lid for lid in range(256) if u32(page, lid * 4) & 1]
    t.eq(have, [0, 1, 2, 3, 4, 5, 0x0c], 'LID 00h lists the pages there are', spec)
    for lid in range(256):
        status = host.admin.get_log(lid, 512).status
        want = n.OK if lid in have else n.INVALID_LOG_PAGE
        if status != want:
            t.ok(False, 'LID %02Xh as LID 00h says' % lid, spec, 'status %d/%02Xh' % status)
            return
    t.ok(True, 'each of 256 LIDs is read or refused as LID 00h says', spec)


def smart(t, host, conn):
    spec = 'Base 5.1.12.1.3'
    before = bytes(host.admin.get_log(2, 512).data)
    t.eq(before[0], 0, 'SMART: no critical warning', spec)
    t.ok(250 < struct.unpack_from('<H', before, 1)[0] < 350, 'SMART: temperature in kelvin', spec)
    t.eq((before[3], before[5]), (100, 0), 'SMART: all spare, nothing used', spec)
    t.eq(u128(before, 112), 1, 'SMART: power cycles are starts of the target', spec)
    t.eq(u128(before, 144), 0, 'SMART: no unsafe shutdown', spec)
    for i in range(3):
        conn.put(2, 128 * i, n.pattern(512 << 10, i), 4096)
    for i in range(5):
        conn.read(2, 0, 128, 4096)
    conn.read(1, 0, 1)
    after = bytes(host.admin.get_log(2, 512).data)
    t.eq(u128(after, 64) - u128(before, 64), 6, 'SMART: Host Read Commands by 6', spec)
    t.eq(u128(after, 80) - u128(before, 80), 3, 'SMART: Host Write Commands by 3', spec)
    # Thousands of 512-byte units, rounded up: 2.5 MiB and 512 B are 5121 units, 1.5 MiB 3072.
    t.eq(u128(after, 32), 6, 'SMART: Data Units Read', spec)
    t.eq(u128(after, 48), 4, 'SMART: Data Units Written', spec)
    t.eq(u128(after, 160), 0, 'SMART: no media errors', spec)
    conn.read(3, 0, 1)
    conn.put(4, 0, bytes(512))
    again = bytes(host.admin.get_log(2, 512).data)
    t.eq(u128(again, 160), 2, 'SMART: two media errors', spec)
    other = bytes(host.admin.get_log(2, 512, nsid=0).data)
    t.eq(other[32:160], again[32:160], 'SMART: NSID 0 is the controller too', spec)
    t.status(host.admin.get_log(2, 512, nsid=1), n.INVALID_FIELD,
             'SMART of one namespace, not offered (LPA bit 0)', spec)


def errors(t, tgt):
    spec = 'Base 5.1.12.1.2'
    with tgt.host() as host:
        conn = host.queue(3)
        t.eq(bytes(host.admin.get_log(1, 64).data), bytes(64), 'error log is empty at first', spec)
        bad = conn.rw(n.READ, 1, 0x123456789, 1, 512)
        conn.wait(bad)
        t.status(bad, n.LBA_RANGE, 'an error to be logged', 'NVM 3.3.4')
        entry = bytes(host.admin.get_log(1, 64).data)
        count, sqid, cid, status, where, lba, nsid = struct.unpack_from('<QHHHHQI', entry)
        t.eq(count, 1, 'error log: error count', spec)
        t.eq((sqid, cid), (3, bad.cid), 'error log: queue and command', spec)
        t.eq((status >> 1 & 0xff, status >> 9 & 7), (0x80, 0), 'error log: status field', spec)
        t.eq(lba, 0x123456789, 'error log: LBA', spec)
        t.eq(nsid, 1, 'error log: namespace', spec)
        t.eq(where & 0xff, 40, 'error log: byte of the command at fault (SLBA)', spec)
        worse = host.admin.identify(0xfe)
        page = bytes(host.admin.get_log(1, 128).data)
        counts = struct.unpack_from('<Q', page)[0], struct.unpack_from('<Q', page, 64)[0]
        t.eq(counts, (2, 1), 'error log: newest first', spec)
        t.eq(struct.unpack_from('<HH', page, 8), (0, worse.cid), 'error log: admin queue', spec)
        t.eq(bytes(host.admin.get_log(1, 64, offset=64).data), page[64:],
             'error log: the second entry by its offset', spec)
        smart_page = bytes(host.admin.get_log(2, 512).data)
        t.eq(u128(smart_page, 176), 2, 'SMART: number of error log entries', 'Base 5.1.12.1.3')
        elpe = host.admin.identify(1).data[262] + 1
        for _ in range(elpe + 3):
            host.admin.identify(0xfe)
        page = bytes(host.admin.get_log(1, 64 * elpe).data)
        counts = [struct.unpack_from('<Q', page, 64 * i)[0] for i in range(elpe)]
        t.eq(counts, list(range(elpe + 5, 5, -1)), 'error log: full, it keeps the newest', spec)


def firmware(t, host):
    page = bytes(host.admin.get_log(3, 512).data)
    revision = bytes(host.admin.identify(1).data)[64:72]
    t.eq((page[0] & 7, page[8:16].rstrip(b' \0')), (1, revision.rstrip(b' ')),
         'LID 03h: slot 1 is active with the revision of Identify', 'Base 5.1.12.1.4')


def effects(t, host):
    spec = 'Base 5.1.12.1.6'
    page = bytes(host.admin.get_log(5, 4096).data)
    admin = [op for op in range(256) if u32(page, op * 4) & 1]
    io = [op for op in range(256) if u32(page, 1024 + op * 4) & 1]
    t.eq(admin, [0x02, 0x06, 0x08, 0x09, 0x0a, 0x0c, 0x18], 'LID 05h: admin commands', spec)
    t.eq(io, [0x00, 0x01, 0x02, 0x05, 0x08, 0x09], 'LID 05h: I/O commands', spec)
    t.eq([op for op in io if u32(page, 1024 + op * 4) & 2], [0x01, 0x08, 0x09],
         'LID 05h: LBCC for those that change data', spec)
    t.status(host.admin.get_log(5, 4096, cdw14=1 << 24), n.INVALID_FIELD,
             'LID 05h of another command set', spec)


def ana(t, host):
    spec = 'Base 5.1.12.1.13'
    page = bytes(host.admin.get_log(0x0c, 4096).data)
    _, groups = struct.unpack_from('<QH', page)
    t.eq(groups, 2, 'LID 0Ch: two groups', spec)
    group, count = struct.unpack_from('<II', page, 16)
    t.eq((group, count, page[32] & 15), (1, 3, 1), 'LID 0Ch: group 1, 3 namespaces, optimized',
         spec)
    t.eq(struct.unpack_from('<3I', page, 48), (1, 2, 3), 'LID 0Ch: NSIDs of group 1', spec)
    group, count = struct.unpack_from('<II', page, 60)
    t.eq((group, count, page[76] & 15), (7, 1, 2), 'LID 0Ch: group 7, non-optimized', spec)
    t.eq(u32(page, 92), 4, 'LID 0Ch: NSID of group 7', spec)
    page = bytes(host.admin.get_log(0x0c, 4096, lsp=1).data)
    t.eq((struct.unpack_from('<II', page, 16), struct.unpack_from('<II', page, 48)),
         ((1, 0), (7, 0)), 'LID 0Ch with RGO: groups without NSIDs', spec)


def windows(t, host):
    spec = 'Base 5.1.12, LPO'
    for lid, size in ((0, 1024), (3, 512), (4, 4096), (5, 4096), (0x0c, 96)):
        whole = bytes(host.admin.get_log(lid, size, rae=1).data)
        parts = b''.join(bytes(host.admin.get_log(lid, 32, at, rae=1).data)
                         for at in range(0, size, 32))
        t.eq(parts, whole, 'LID %02Xh in windows of 32 bytes' % lid, spec)
    page = bytes(host.admin.get_log(3, 1024).data)
    t.eq(page[512:], bytes(512), 'bytes behind the end of a page are zero', spec)
    t.status(host.admin.get_log(3, 64, 4096), n.INVALID_FIELD, 'an offset behind the end', spec)
    t.status(host.admin.get_log(3, 64, 1 << 63), n.INVALID_FIELD, 'an offset of 2^63', spec)
    t.status(host.admin.get_log(3, 64, 2), n.INVALID_FIELD, 'an offset not in dwords', spec)
    t.status(host.admin.get_log(3, 64, 0, cdw14=1 << 23), n.INVALID_FIELD,
             'an offset as an index (OT), not offered', spec)
    t.status(host.admin.get_log(5, 512 << 10), n.OK, 'as many bytes as MDTS', 'Base 5.1.12, NUMD')
    cmd = host.admin.get_log(5, (512 << 10) + 4)
    t.status(cmd, n.INVALID_FIELD, 'one dword more than MDTS', 'Base 5.1.13.2.1, MDTS')
    cmd = host.admin.do(n.GET_LOG, 0xffffffff, cdw10=2 | 0xffff << 16, cdw11=0xffff)
    t.status(cmd, n.INVALID_FIELD, 'NUMD of 16 GiB', 'Base 5.1.13.2.1, MDTS')
    cmd = host.admin.do(n.GET_LOG, 0xffffffff, sgl=n.sgl_transport(256), cdw10=2 | 127 << 16)
    t.status(cmd, n.SGL_LENGTH, 'SGL shorter than NUMD', 'Base 4.2.3.1')


def test(t, tgt):
    with tgt.host() as host:
        conn = host.queue()
        with t.guard('SMART'):
            smart(t, host, conn)
        for part in (supported, firmware, effects, ana, windows):
            with t.guard(part.__name__):
                part(t, host)
    with t.guard('error log'):
        errors(t, tgt)


def start():
    port = target.free_port()
    spaces = [
        target.namespace(1, 'mem:1M,block=512'),
        target.namespace(2, 'mem:8M,block=4096'),
        target.namespace(3, 'fault:fail:op=read@mem:1M,block=512'),
        target.namespace(4, 'fault:fail:op=write@mem:1M,block=512', ana_group=7),
    ]
    config = target.config_of(port, namespaces=spaces)
    config['ports'][0]['ana'] = [{'group': 7, 'state': 'non-optimized'}]
    target.run(Tap(), test, config=config, port=port)


start()
