#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Get Log Page: every page, offsets and lengths, the SMART counters, and the entries of errors. NVMe Base 2.1,
section 5.1.12.
"""

import struct
import tempfile

import nvmetcp as n
import target
from tap import Tap

ALL = 0xffffffff


def u128(page, at):
    return int.from_bytes(page[at:at + 16], 'little')


def u32(page, at):
    return struct.unpack_from('<I', page, at)[0]


def supported(t, host):
    spec = 'Base 5.1.12.1.1'
    page = bytes(host.admin.get_log(0, 1024).data)
    have = [lid for lid in range(256) if u32(page, lid * 4) & 1]
    t.eq(have, [0, 1, 2, 3, 4, 5, 0x0c, 0x0d, 0x12, 0x13, 0x1e, 0x1f, 0x80],
         'LID 00h lists the pages there are', spec)
    t.eq(u32(page, 0x0d * 4) >> 16, 1, 'LID 00h: 0Dh can give its header alone', spec)
    t.ok(not any(u32(page, lid * 4) & 2 for lid in range(256)), 'LID 00h: no index offsets', spec)
    for lid in range(256):
        if lid == 0x0d:
            continue  # needs a context: see persistent_events
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
        t.eq(where, 40, 'error log: byte of the command at fault (SLBA), bit 0', spec)
        t.eq((entry[28], entry[29]), (0, 0), 'error log: no vendor page, not of the transport',
             spec)
        t.eq((entry[30], entry[31]), (0, n.READ), 'error log: command set and opcode', spec)
        t.eq((entry[32:63], entry[63]), (bytes(31), 1), 'error log: version 1', spec)
        worse = host.admin.identify(0xfe)
        page = bytes(host.admin.get_log(1, 128).data)
        counts = struct.unpack_from('<Q', page)[0], struct.unpack_from('<Q', page, 64)[0]
        t.eq(counts, (2, 1), 'error log: newest first', spec)
        t.eq(struct.unpack_from('<HH', page, 8), (0, worse.cid), 'error log: admin queue', spec)
        t.eq(bytes(host.admin.get_log(1, 64, offset=64).data), page[64:],
             'error log: the second entry by its offset', spec)
        lone = conn.rw(n.WRITE, 1, 0, 1, 512, bytes(512), flags=0x42)
        t.status(conn.wait(lone), (0, 0x0a), 'a fused second alone', 'Base 3.4.2')
        t.eq(struct.unpack_from('<H', bytes(host.admin.get_log(1, 64).data), 14)[0], 0xffff,
             'error log: no byte of the command is at fault', spec)
        smart_page = bytes(host.admin.get_log(2, 512).data)
        t.eq(u128(smart_page, 176), 3, 'SMART: number of error log entries', 'Base 5.1.12.1.3')
        elpe = host.admin.identify(1).data[262] + 1
        for _ in range(elpe + 3):
            host.admin.identify(0xfe)
        page = bytes(host.admin.get_log(1, 64 * elpe).data)
        counts = [struct.unpack_from('<Q', page, 64 * i)[0] for i in range(elpe)]
        t.eq(counts, list(range(elpe + 6, 6, -1)), 'error log: full, it keeps the newest', spec)


def busy_by(t, tgt):
    """Any I/O command counts as busy time, not only reads and writes; busy time is rounded up to minutes."""
    spec = 'Base 5.1.12.1.3'
    rows = [('Flush', n.FLUSH, 1), ('Flush of all', n.FLUSH, ALL), ('Verify', n.VERIFY, 1),
            ('Write Zeroes', n.WRITE_ZEROES, 1), ('a Read that is refused', n.READ, 1)]
    for i, (name, opcode, nsid) in enumerate(rows):
        nqn = 'nqn.2026-11.io.weft:busy-%d' % i
        tgt.reload(lambda config: config['subsystems'].append(
            {'nqn': nqn, 'namespaces': [target.namespace(1, 'mem:1M,block=512')]}))
        with tgt.host(nqn) as host:
            t.eq(u128(bytes(host.admin.get_log(2, 512).data), 96), 0, name + ': not busy yet', spec)
            lba = 1 << 40 if opcode == n.READ else 0
            host.queue().do(opcode, nsid, cdw10=lba & 0xffffffff, cdw11=lba >> 32,
                            read_bytes=512 if opcode == n.READ else 0)
            t.eq(u128(bytes(host.admin.get_log(2, 512).data), 96), 1, name + ': busy', spec)
        tgt.reload(lambda config: config['subsystems'].pop())


def busy(t, host):
    spec = 'Base 5.1.12.1.3'
    page = bytes(host.admin.get_log(2, 512).data)
    t.ok(1 <= u128(page, 96) <= 10, 'SMART: busy with reads and writes', spec)
    t.eq(u128(page, 128), 0, 'SMART: no hour yet', spec)


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
    t.eq(admin, [0x02, 0x06, 0x08, 0x09, 0x0a, 0x0c, 0x0d, 0x15, 0x18, 0x38, 0x80, 0x86],
         'LID 05h: admin commands', spec)
    t.eq(io, [0x00, 0x01, 0x02, 0x04, 0x05, 0x08, 0x09, 0x0c, 0x0d, 0x0e, 0x11, 0x15, 0x18, 0x19],
         'LID 05h: I/O commands', spec)
    t.eq([op for op in io if u32(page, 1024 + op * 4) & 2], [0x01, 0x04, 0x08, 0x09, 0x19],
         'LID 05h: LBCC for those that change data', spec)
    t.eq([u32(page, op * 4) & 0xfffff for op in (0x0d, 0x15)], [9, 9],
         'LID 05h: NIC for Namespace Management and Attachment', spec)
    t.eq(u32(page, 0x80 * 4) & 0xfffff, 1 | 2 | 4 | 1 << 16,
         'LID 05h: Format NVM: LBCC, NCC, alone in its namespace', spec)
    t.ok(all(u32(page, at) >> 20 for at in [op * 4 for op in admin] + [1024 + op * 4 for op in io]),
         'LID 05h: every command has a scope', spec)
    zoned = bytes(host.admin.get_log(5, 4096, cdw14=2 << 24).data)
    t.eq((zoned[:1024], zoned[1024:2048]), (page[:1024], bytes(1024)),
         'LID 05h of a command set that we do not have: admin commands, no I/O commands', spec)
    t.status(host.admin.get_log(5, 4096, cdw14=0x50 << 24), n.INVALID_FIELD,
             'LID 05h of a reserved command set', spec)


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


def establish(admin, size=512, action=1):
    return admin.get_log(0x0d, size, lsp=action)


def events_of(page):
    """(type, controller or None, data) of every event, newest first."""
    count, total = struct.unpack_from('<IQ', page, 4)
    at, found = 512, []
    for _ in range(count):
        kind, _, header, place = page[at:at + 4]
        vendor, length = struct.unpack_from('<HH', page, at + 20)
        cntlid = struct.unpack_from('<H', page, at + 4)[0] if place & 3 == 1 else None
        found.append((kind, cntlid, page[at + 3 + header + vendor:at + 3 + header + length]))
        at += 3 + header + length
    if at != total:
        raise n.Violation('%d events end at %d of %d' % (count, at, total))
    return found


def read_events(admin):
    """Establishes a context, reads the log in parts, releases the context."""
    header = bytes(establish(admin).data)
    total = struct.unpack_from('<Q', header, 8)[0]
    page = header
    while len(page) < total:
        size = min(4096, -(-(total - len(page)) // 4) * 4)
        page += bytes(admin.get_log(0x0d, size, offset=len(page)).data)
    admin.get_log(0x0d, 4, lsp=2)
    return page


def persistent_events(t, tgt):
    spec = 'Base 5.1.12.1.14'
    with tgt.host() as host, tgt.host() as second:
        admin = host.admin
        t.status(admin.get_log(0x0d, 512), n.CMD_SEQUENCE, 'LID 0Dh: read without a context', spec)
        t.status(admin.get_log(0x0d, 4, lsp=2), n.OK, 'LID 0Dh: release without a context', spec)
        cmd = establish(admin)
        page = bytes(cmd.data)
        t.status(cmd, n.OK, 'LID 0Dh: establish and read', spec)
        t.eq((page[0], u32(page, 18) & 0xffff), (0x0d, 492), 'LID 0Dh: LID and LHL', spec)
        ident = bytes(admin.identify(1).data)
        t.eq((page[56:76], page[76:116]), (ident[4:24], ident[24:64]), 'LID 0Dh: SN and MN', spec)
        t.eq(page[116:372].rstrip(b'\0'), target.NQN.encode(), 'LID 0Dh: SUBNQN', spec)
        t.eq(struct.unpack_from('<Q', page, 44)[0], 1, 'LID 0Dh: power cycles', spec)
        t.ok(u32(page, 20) | u32(page, 24), 'LID 0Dh: a timestamp', spec)
        t.eq(page[480:512], struct.pack('<I', 1 << 1 | 1 << 3 | 1 << 4 | 7 << 6 | 1 << 11)
             .ljust(32, b'\0'), 'LID 0Dh: supported events', spec)
        t.status(establish(admin), n.CMD_SEQUENCE, 'LID 0Dh: establish a second one', spec)
        header = bytes(establish(admin, 1024, 3).data)
        t.eq((u32(header, 374), header[:374]), (1 << 18 | 1 << 16 | 1, page[:374]),
             'LID 0Dh: establish or read the header: the one there is, RCE and the port', spec)
        t.eq(header[512:], bytes(512), 'LID 0Dh: no event behind the header', spec)
        t.status(establish(second.admin), n.OK, 'LID 0Dh: another controller has its own', spec)
        total = struct.unpack_from('<Q', page, 8)[0]
        t.status(admin.get_log(0x0d, 512, offset=total), n.OK, 'LID 0Dh: at its end', spec)
        t.status(admin.get_log(0x0d, 512, offset=total + 4), n.INVALID_FIELD,
                 'LID 0Dh: an offset behind its end', spec)
        again = bytes(admin.get_log(0x0d, 512).data)
        t.eq(again, page, 'LID 0Dh: the header again', spec)
        admin.get_log(0x0d, 4, lsp=2)
        t.status(admin.get_log(0x0d, 512), n.CMD_SEQUENCE, 'LID 0Dh: released', spec)
        cmd = establish(admin, 1024, 3)
        t.eq((cmd.status, bytes(cmd.data)[372:374] != page[372:374]), (n.OK, True),
             'LID 0Dh: establish and read the header; its generation is another', spec)
        t.eq(bytes(cmd.data)[512:], bytes(512), 'LID 0Dh: the header alone', spec)
        admin.set_property(n.CC, n.CC_ENABLE & ~1)
        admin.csts_until(0, 1)
        admin.enable()
        t.status(admin.get_log(0x0d, 512), n.CMD_SEQUENCE, 'LID 0Dh: a reset releases it', spec)


def recorded(t, tgt):
    spec = 'Base 5.1.12.1.14.1'
    with tgt.host() as host:
        admin = host.admin
        found = events_of(read_events(admin))
        t.eq([kind for kind, _, _ in found], [1, 4], 'events: start, then SMART; newest first',
             spec)
        t.eq((len(found[0][2]), found[1][2].rstrip(b' ')),
             (512, bytes(admin.identify(1).data)[64:72].rstrip(b' ')),
             'events: the page of SMART, the firmware revision', spec)
        admin.set_feature(14, data=struct.pack('<Q', 1 << 40))
        admin.set_feature(0x1f, data=b'label'.ljust(256, b'\0'), nsid=1)
        admin.set_feature(0x84, 1, nsid=1)
        found = events_of(read_events(admin))
        t.eq([kind for kind, _, _ in found], [0x0b, 0x0b, 3, 1, 4],
             'events: two saved features and a timestamp', spec)
        t.eq(found[0][2][:12], struct.pack('<III', 6, 0x84, 1), 'events: Set Features 84h', spec)
        t.eq(found[1][2][:8] + found[1][2][28:33], struct.pack('<II', 6 | 256 << 16, 0x1f)
             + b'label', 'events: Set Features 1Fh with its data', spec)
        t.eq((found[2][1], len(found[2][2])), (host.cntlid, 16),
             'events: the controller whose time was set', spec)
        admin.set_feature(0x84, 0, nsid=1)
        for nsid, value in ((1, 1), (ALL, 0)):
            t.status(admin.set_feature(0x83, value, nsid=nsid), n.OK, 'persistence is set',
                     'Base 5.1.25.1.29')
            found = events_of(read_events(admin))
            t.eq((found[0][0], found[0][2][:12]), (0x0b, struct.pack('<III', 6, 0x83, value)),
                 'events: Set Features 83h', spec)
        managed(t, admin)


def managed(t, admin):
    spec = 'Base 5.1.12.1.14.1'
    data = struct.pack('<QQ', 2048, 2048).ljust(30, b'\0') + b'\1'
    create = admin.do(0x0d, data=data.ljust(4096, b'\0'), way='r2t')
    t.status(create, n.OK, 'a namespace is made', 'Base 5.1.20')
    t.status(admin.do(0x80, 1, cdw10=0 | 1 << 9), n.OK, 'namespace 1 is formatted', 'Base 5.1.10')
    t.status(admin.do(0x0d, create.dw0, cdw10=1), n.OK, 'the new one is deleted', 'Base 5.1.20')
    found = events_of(read_events(admin))
    kinds = [kind for kind, _, _ in found]
    t.eq(kinds[:4], [6, 8, 7, 6], 'events: create, format start and end, delete; newest first',
         spec)
    size, = struct.unpack_from('<Q', found[3][2], 8)
    t.eq((u32(found[3][2], 0), size, found[3][2][34], u32(found[3][2], 44)),
         (0, 2048, 1, create.dw0), 'events: Change Namespace: create, size, NMIC, NSID', spec)
    t.eq((u32(found[2][2], 0), u32(found[2][2], 8)), (1, 1 << 9),
         'events: Format NVM Start: NSID and CDW10', spec)
    t.eq((u32(found[1][2], 0), found[1][2][5], u32(found[1][2], 8)), (1, 0, 0),
         'events: Format NVM Completion: NSID, success', spec)
    t.eq((u32(found[0][2], 0), u32(found[0][2], 44)), (1, create.dw0),
         'events: Change Namespace: delete', spec)


def kept(t, tgt):
    """Counters and events survive a restart and the removal of a namespace."""
    spec = 'Base 5.1.12.1.3'
    with tgt.host() as host:
        conn = host.queue()
        conn.put(1, 0, bytes(512 * 64))
        conn.read(1, 0, 64)
        before = bytes(host.admin.get_log(2, 512).data)
        tgt.reload(lambda config: config['subsystems'][0]['namespaces'].pop(1))
        after = bytes(host.admin.get_log(2, 512).data)
        t.eq(after[32:112], before[32:112], 'SMART: nothing is lost with a namespace', spec)
        events = events_of(read_events(host.admin))
    tgt.terminate()
    t.eq(tgt.wait_exit(), 0, 'an orderly end')
    tgt.start()
    with tgt.host() as host:
        page = bytes(host.admin.get_log(2, 512).data)
        t.eq(page[32:112], after[32:112], 'SMART: units, commands and busy time are kept', spec)
        t.eq(u128(page, 160), u128(after, 160), 'SMART: media errors are kept', spec)
        t.eq((u128(page, 112), u128(page, 144)), (2, 0), 'SMART: a second start, no unsafe end',
             spec)
        host.queue().read(1, 0, 1)
        again = bytes(host.admin.get_log(2, 512).data)
        t.eq(u128(again, 64) - u128(page, 64), 1, 'SMART: and go on', spec)
        found = events_of(read_events(host.admin))
        t.eq(found[3:], events, 'events: those of the first run are kept', 'Base 5.1.12.1.14')
        t.eq([kind for kind, _, _ in found[:3]], [1, 4, 1],
             'events: the health at its end, then the second start', 'Base 5.1.12.1.14')
        smart_at_end = found[2][2]
        t.eq(smart_at_end[32:112], after[32:112], 'events: that health is the last of the run',
             'Base 5.1.12.1.14')


def windows(t, host):
    spec = 'Base 5.1.12, LPO'
    for lid, size in ((0, 1024), (3, 512), (4, 4096), (5, 4096), (0x0c, 96), (0x12, 1024),
                      (0x13, 1024)):
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
        for part in (supported, busy, firmware, effects, ana, windows):
            with t.guard(part.__name__):
                part(t, host)
    for part in (errors, persistent_events, recorded, busy_by, kept):
        with t.guard(part.__name__):
            part(t, tgt)


def start():
    port = target.free_port()
    spaces = [
        target.namespace(1, 'mem:1M,block=512'),
        target.namespace(2, 'mem:8M,block=4096'),
        target.namespace(3, 'fault:fail:op=read@mem:1M,block=512'),
        target.namespace(4, 'fault:fail:op=write@mem:1M,block=512', ana_group=7),
    ]
    with tempfile.TemporaryDirectory(prefix='weft-pool-') as pool:
        config = target.config_of(port, namespaces=spaces, rights=target.ALL_RIGHTS,
                                  pool={'folder': pool, 'capacity': '16M'})
        config['ports'][0]['ana'] = [{'group': 7, 'state': 'non-optimized'}]
        target.run(Tap(), test, config=config, port=port)


start()
