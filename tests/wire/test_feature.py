#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Get Features and Set Features, one block per feature. NVMe Base 2.1, sections 5.1.11 and 5.1.25.
"""

import struct

import nvmetcp as n
import target
from tap import Tap


def volatile_cache(t, host):
    spec = 'Base 5.1.25.1.4'
    cmd = host.admin.get_feature(6)
    t.eq((cmd.status, cmd.dw0), (n.OK, 1), 'FID 06h: the write cache is on', spec)
    t.status(host.admin.set_feature(6, 1), n.OK, 'FID 06h: set to on', spec)
    t.status(host.admin.set_feature(6, 0), n.NOT_CHANGEABLE, 'FID 06h: cannot be set to off', spec)
    t.eq(host.admin.get_feature(6).dw0, 1, 'FID 06h: and stays on', spec)


def queue_count(t, tgt):
    spec = 'Base 5.1.25.2.1'
    with tgt.host() as host:
        admin = host.admin
        t.eq(admin.set_feature(7, 0x00010001).dw0, 0x00010001, 'FID 07h: two are granted', spec)
        t.eq(admin.get_feature(7).dw0, 0x00010001, 'FID 07h: and read back', spec)
        t.eq(admin.set_feature(7, 0x00640064).dw0, 0x00030003,
             'FID 07h: more than there are grants four', spec)
        cmd = admin.set_feature(7, 0x0000ffff)
        t.status(cmd, n.INVALID_FIELD, 'FID 07h: NSQR FFFFh', spec)
        cmd = admin.set_feature(7, 0xffff0000)
        t.status(cmd, n.INVALID_FIELD, 'FID 07h: NCQR FFFFh', spec)
        t.eq(admin.get_feature(7, 1).dw0, 0x00030003, 'FID 07h: default', 'Base 5.1.11, SEL')
        host.queue(1)
        t.status(admin.set_feature(7, 0x00010001), n.CMD_SEQUENCE,
                 'FID 07h: not after an I/O queue was created', spec)


def async_event(t, host):
    spec = 'Base 5.1.25.1.5'
    t.eq(host.admin.get_feature(11).dw0, 0, 'FID 0Bh: nothing is enabled at first', spec)
    t.status(host.admin.set_feature(11, 1 << 8 | 1 << 11), n.OK, 'FID 0Bh: set', spec)
    t.eq(host.admin.get_feature(11).dw0, 1 << 8 | 1 << 11, 'FID 0Bh: reads back', spec)
    t.eq(host.admin.get_feature(11, 1).dw0, 0, 'FID 0Bh: default', 'Base 5.1.11, SEL')
    host.admin.set_feature(11, 0)


def keep_alive(t, tgt):
    spec = 'Base 5.1.25.1.12'
    with tgt.host(kato_ms=20000) as host:
        admin = host.admin
        t.eq(admin.get_feature(15).dw0, 20000, 'FID 0Fh: KATO of Connect', spec)
        t.status(admin.set_feature(15, 30000), n.OK, 'FID 0Fh: set', spec)
        t.eq(admin.get_feature(15).dw0, 30000, 'FID 0Fh: reads back', spec)
        admin.set_feature(15, 30001)
        t.eq(admin.get_feature(15).dw0, 30100, 'FID 0Fh: rounded up to the granularity of KAS',
             spec)
        cmd = admin.set_feature(15, 600100)
        t.status(cmd, (0, 0x1a), 'FID 0Fh: Keep Alive Timeout Invalid beyond the limit', spec)
        admin.set_feature(15, 0)
        t.eq(admin.get_feature(15).dw0, 0, 'FID 0Fh: 0 turns it off', spec)


def host_behavior(t, host):
    spec = 'Base 5.1.25.1.14'
    cmd = host.admin.get_feature(0x16, read_bytes=512)
    t.eq((cmd.status, bytes(cmd.data)), (n.OK, bytes(512)), 'FID 16h: zeroes at first', spec)
    data = bytes([1]) + bytes(511)
    t.status(host.admin.set_feature(0x16, data=data), n.OK, 'FID 16h: ACRE is set', spec)
    t.eq(bytes(host.admin.get_feature(0x16, read_bytes=512).data), data, 'FID 16h: reads back',
         spec)
    cmd = host.admin.set_feature(0x16, data=bytes([2]) + bytes(511))
    t.status(cmd, n.INVALID_FIELD, 'FID 16h: a reserved value of ACRE', spec)
    cmd = host.admin.set_feature(0x16, data=data[:256])
    t.status(cmd, n.SGL_LENGTH, 'FID 16h: 256 bytes', 'Base 4.2.3.1')


def host_id(t, host):
    spec = 'Base 5.1.25.1.27'
    cmd = host.admin.get_feature(0x81, read_bytes=16, cdw11=1)
    t.eq((cmd.status, bytes(cmd.data)), (n.OK, n.HOST_ID), 'FID 81h: HOSTID of Connect', spec)
    cmd = host.admin.get_feature(0x81, read_bytes=8)
    t.status(cmd, n.INVALID_FIELD, 'FID 81h: 64 bits do not exist over fabrics', spec)
    cmd = host.admin.set_feature(0x81, 1, data=bytes(16))
    t.status(cmd, n.CMD_SEQUENCE, 'FID 81h: cannot be set after Connect', spec)
    cmd = host.admin.set_feature(0x81, 1)
    t.status(cmd, n.CMD_SEQUENCE, 'FID 81h: Command Sequence Error', spec)


def arbitration(t, host):
    spec = 'Base 5.1.25.1.1'
    t.eq(host.admin.get_feature(1).dw0, 7, 'FID 01h: no limit to a burst by default', spec)
    t.status(host.admin.set_feature(1, 0x04030202), n.OK, 'FID 01h: set', spec)
    t.eq(host.admin.get_feature(1).dw0, 0x04030202, 'FID 01h: reads back', spec)
    t.eq(host.admin.get_feature(1, 1).dw0, 7, 'FID 01h: default', spec)


def power(t, host):
    spec = 'Base 5.1.25.1.2'
    t.eq(host.admin.get_feature(2).dw0, 0, 'FID 02h: power state 0', spec)
    t.status(host.admin.set_feature(2, 1 << 5), n.OK, 'FID 02h: power state 0, workload 1', spec)
    t.eq(host.admin.get_feature(2).dw0, 1 << 5, 'FID 02h: reads back', spec)
    t.status(host.admin.set_feature(2, 1), n.INVALID_FIELD, 'FID 02h: state 1, which NPSS denies',
             spec)
    t.eq(host.admin.get_feature(2).dw0, 1 << 5, 'FID 02h: and stays', spec)


def temperature(t, tgt):
    spec = 'Base 5.1.25.1.3'
    with tgt.host() as host:
        admin = host.admin
        kelvin = struct.unpack_from('<H', bytes(admin.get_log(2, 512).data), 1)[0]
        wctemp = struct.unpack_from('<H', bytes(admin.identify(1).data), 266)[0]
        t.eq(admin.get_feature(4).dw0, wctemp, 'FID 04h: over temperature is WCTEMP', spec)
        t.eq(admin.get_feature(4, cdw11=1 << 20).dw0, 0, 'FID 04h: under temperature is 0', spec)
        for name, cdw11 in (('sensor 1', 1 << 16), ('THSEL 2', 2 << 20), ('THSEL 3', 3 << 20)):
            t.status(admin.set_feature(4, cdw11 | 300), n.INVALID_FIELD, 'FID 04h: ' + name, spec)
            t.status(admin.get_feature(4, cdw11=cdw11), n.INVALID_FIELD, 'Get FID 04h: ' + name,
                     spec)
        t.status(admin.get_feature(4, cdw11=0xf << 16), n.INVALID_FIELD,
                 'Get FID 04h of all sensors', spec)
        admin.set_feature(11, 2)
        aer = admin.submit(n.AER)
        t.status(admin.set_feature(4, 0xf << 16 | kelvin), n.OK, 'FID 04h of all sensors', spec)
        admin.wait(aer)
        t.eq((aer.status, aer.dw0), (n.OK, 1 | 1 << 8 | 2 << 16),
             'a threshold at the temperature is an event', 'Base 5.1.2.1, SMART')
        t.eq(admin.get_log(2, 512).data[0], 2, 'and a critical warning', 'Base 5.1.12.1.3')
        admin.set_feature(4, kelvin + 1)
        t.eq(admin.get_log(2, 512).data[0], 0, 'one above it is none', 'Base 5.1.12.1.3')
        admin.set_feature(4, 1 << 20 | kelvin)
        t.eq(admin.get_log(2, 512).data[0], 2, 'a lower threshold counts too', 'Base 5.1.12.1.3')


def error_recovery(t, host):
    spec = 'NVM 4.1.3.3'
    t.eq(host.admin.get_feature(5, nsid=1).dw0, 0, 'FID 05h: no limit, no DULBE', spec)
    t.status(host.admin.set_feature(5, 0, nsid=1), n.OK, 'FID 05h: the same', spec)
    t.status(host.admin.set_feature(5, 0, nsid=0xffffffff), n.OK, 'FID 05h: of all', spec)
    t.status(host.admin.set_feature(5, 10, nsid=1), n.NOT_CHANGEABLE, 'FID 05h: TLER', spec)
    t.status(host.admin.set_feature(5, 1 << 16, nsid=1), n.INVALID_FIELD,
             'FID 05h: DULBE, which NSFEAT denies', spec)


def interrupts(t, host):
    spec = 'Base 5.1.25.2.2, 5.1.25.2.3'
    t.eq(host.admin.get_feature(8).dw0, 0, 'FID 08h', spec)
    t.status(host.admin.set_feature(8, 0x0a05), n.OK, 'FID 08h: set', spec)
    t.eq(host.admin.get_feature(8).dw0, 0x0a05, 'FID 08h: reads back', spec)
    t.eq(host.admin.get_feature(9, cdw11=2).dw0, 2 | 1 << 16, 'FID 09h: vector 2, not coalesced',
         spec)
    t.status(host.admin.set_feature(9, 2 | 1 << 16), n.OK, 'FID 09h: the same', spec)
    t.status(host.admin.set_feature(9, 2), n.NOT_CHANGEABLE, 'FID 09h: CD 0', spec)
    t.status(host.admin.get_feature(9, cdw11=5), n.INVALID_FIELD, 'FID 09h: no such vector', spec)
    t.status(host.admin.set_feature(9, 5 | 1 << 16), n.INVALID_FIELD, 'Set FID 09h: the same',
             spec)


def atomicity(t, host):
    spec = 'NVM 4.1.3.4'
    t.eq(host.admin.get_feature(10).dw0, 0, 'FID 0Ah: atomic writes are kept', spec)
    t.status(host.admin.set_feature(10, 1), n.OK, 'FID 0Ah: not needed', spec)
    t.eq(host.admin.get_feature(10).dw0, 1, 'FID 0Ah: reads back', spec)


def timestamp(t, host):
    spec = 'Base 5.1.25.1.7'
    before = bytes(host.admin.get_feature(14, read_bytes=8).data)
    t.eq(before[6:], bytes(2), 'FID 0Eh: counts from the reset at first', spec)
    t.ok(int.from_bytes(before[:6], 'little') < 600000, 'FID 0Eh: and has just begun', spec)
    now = 0x123456789abc
    t.status(host.admin.set_feature(14, data=struct.pack('<Q', now)), n.OK, 'FID 0Eh: set', spec)
    after = bytes(host.admin.get_feature(14, read_bytes=8).data)
    t.ok(0 <= int.from_bytes(after[:6], 'little') - now < 600000, 'FID 0Eh: goes on from there',
         spec)
    t.eq(after[6:], bytes([2, 0]), 'FID 0Eh: origin is Set Features, no pause', spec)
    t.eq(bytes(host.admin.get_feature(14, 1, read_bytes=8).data), bytes(8), 'FID 0Eh: default',
         spec)
    t.status(host.admin.get_feature(14, read_bytes=16), n.SGL_LENGTH, 'FID 0Eh: 16 bytes', spec)
    t.status(host.admin.set_feature(14, data=bytes(4)), n.SGL_LENGTH, 'Set FID 0Eh: 4 bytes', spec)
    t.status(host.admin.set_feature(14), n.SGL_LENGTH, 'Set FID 0Eh: no data', spec)


def copy_formats(t, host):
    spec = 'Base 5.1.25.1.14, CDFE'
    data = bytes(4) + struct.pack('<H', 1 << 2) + bytes(506)
    t.status(host.admin.set_feature(0x16, data=data), n.OK, 'FID 16h: format 2h is enabled', spec)
    data = bytes(4) + struct.pack('<H', 1 << 3) + bytes(506)
    t.status(host.admin.set_feature(0x16, data=data), n.INVALID_FIELD,
             'FID 16h: format 3h, which OCFS denies', spec)
    t.eq(host.admin.get_feature(0x16, read_bytes=512).data[4], 1 << 2, 'FID 16h: and stays', spec)


def label(t, host):
    spec = 'Base 5.1.25.1.23'
    text = 'Größe'.encode().ljust(256, b'\0')
    t.eq(bytes(host.admin.get_feature(0x1f, read_bytes=256, nsid=1).data), bytes(256),
         'FID 1Fh: no label', spec)
    t.status(host.admin.set_feature(0x1f, data=text, nsid=1, save=1), n.OK, 'FID 1Fh: set', spec)
    for select, want in ((0, text), (1, bytes(256)), (2, text)):
        cmd = host.admin.get_feature(0x1f, select, read_bytes=256, nsid=1)
        t.eq(bytes(cmd.data), want, 'FID 1Fh: SEL %d' % select, spec)
    t.eq(bytes(host.admin.get_feature(0x1f, read_bytes=256, nsid=2).data), bytes(256),
         'FID 1Fh: of the other namespace', spec)
    long = b'x' * 256
    t.status(host.admin.set_feature(0x1f, data=long, nsid=2), n.OK, 'FID 1Fh: 256 bytes', spec)
    t.eq(bytes(host.admin.get_feature(0x1f, read_bytes=256, nsid=2).data), long,
         'FID 1Fh: reads back', spec)
    for name, data in (('not UTF-8', b'\xff'.ljust(256, b'\0')),
                       ('a sequence that breaks off', b'\xc3'.rjust(256, b'x')),
                       ('text behind its end', b'a\0b'.ljust(256, b'\0'))):
        t.status(host.admin.set_feature(0x1f, data=data, nsid=1), n.INVALID_FIELD,
                 'FID 1Fh: ' + name, spec)
    t.status(host.admin.set_feature(0x1f, data=bytes(255), nsid=1), n.SGL_LENGTH,
             'FID 1Fh: 255 bytes', spec)
    t.eq(bytes(host.admin.get_feature(0x1f, read_bytes=256, nsid=1).data), text,
         'FID 1Fh: refusals change nothing', spec)
    t.status(host.admin.set_feature(0x1f, data=bytes(256), nsid=1), n.OK, 'FID 1Fh: none', spec)
    t.eq(bytes(host.admin.get_feature(0x1f, read_bytes=256, nsid=1).data), bytes(256),
         'FID 1Fh: it is gone', spec)


def write_protect(t, tgt):
    spec = 'Base 5.1.25.1.30'
    with tgt.host() as host:
        admin, conn = host.admin, host.queue()

        def protect(nsid, state):
            return admin.set_feature(0x84, state, nsid=nsid)

        t.eq(admin.get_feature(0x84, nsid=1).dw0, 0, 'FID 84h: not protected', spec)
        t.status(protect(1, 1), n.OK, 'FID 84h: protected', spec)
        t.eq(admin.get_feature(0x84, nsid=1).dw0, 1, 'FID 84h: reads back', spec)
        t.eq(admin.identify(0, 1).data[99] & 1, 1, 'FID 84h: NSATTR says so', spec)
        t.status(conn.put(1, 0, bytes(512)), n.WRITE_PROTECTED, 'FID 84h: a write is refused', spec)
        t.status(conn.read(1, 0, 1), n.OK, 'FID 84h: a read is not', spec)
        t.status(conn.put(2, 0, bytes(4096), 4096), n.OK, 'FID 84h: the other one is writable',
                 spec)
        t.status(protect(1, 0), n.OK, 'FID 84h: and not any more', spec)
        t.status(conn.put(1, 0, bytes(512)), n.OK, 'FID 84h: a write succeeds', spec)
        t.status(protect(1, 2), n.OK, 'FID 84h: until power cycle', spec)
        t.eq(admin.get_feature(0x84, nsid=1).dw0, 2, 'FID 84h: reads back', spec)
        t.status(conn.put(1, 0, bytes(512)), n.WRITE_PROTECTED, 'FID 84h: a write is refused', spec)
        for state in (0, 1, 3):
            t.status(protect(1, state), n.NOT_CHANGEABLE, 'FID 84h: from 2 to %d' % state, spec)
        t.status(protect(2, 3), n.OK, 'FID 84h: for good', spec)
        for state in (0, 1, 2):
            t.status(protect(2, state), n.NOT_CHANGEABLE, 'FID 84h: from 3 to %d' % state, spec)
        t.status(protect(2, 4), n.INVALID_FIELD, 'FID 84h: a reserved state', spec)
        t.eq(admin.get_feature(0x84, 1, nsid=2).dw0, 0, 'FID 84h: default', spec)


def restarted(t, tgt):
    """Features of a namespace survive a restart; features valid until a power cycle do not."""
    spec = 'Base 5.1.25.1.30'
    with tgt.host() as host:
        text = b'kept'.ljust(256, b'\0')
        t.status(host.admin.set_feature(0x1f, data=text, nsid=2), n.OK, 'a label before the end')
    tgt.terminate()
    tgt.wait_exit()
    tgt.start()
    with tgt.host() as host:
        t.eq(host.admin.get_feature(0x84, nsid=1).dw0, 0, 'FID 84h: over with the power', spec)
        t.eq(host.admin.get_feature(0x84, nsid=2).dw0, 3, 'FID 84h: for good', spec)
        t.eq(bytes(host.admin.get_feature(0x1f, read_bytes=256, nsid=2).data), text,
             'FID 1Fh: kept', 'Base 5.1.25.1.23')


def reset(t, tgt):
    spec = 'Base 3.6, 5.1.25'
    with tgt.host() as host:
        admin = host.admin
        for fid, value in ((1, 2), (2, 1 << 5), (4, 400), (8, 0x0101), (10, 1), (11, 1 << 8)):
            admin.set_feature(fid, value)
        admin.set_feature(14, data=struct.pack('<Q', 1 << 40))
        admin.set_property(n.CC, n.CC_ENABLE & ~1)
        admin.csts_until(0, 1)
        admin.enable()
        got = [admin.get_feature(fid).dw0 for fid in (1, 2, 4, 8, 10, 11)]
        want = [admin.get_feature(fid, 1).dw0 for fid in (1, 2, 4, 8, 10, 11)]
        t.eq(got, want, 'a reset brings the defaults back', spec)
        t.ok(int.from_bytes(bytes(admin.get_feature(14, read_bytes=8).data)[:6], 'little') < 600000,
             'and the timestamp begins anew', spec)


# Select 3: bit 0 saveable, bit 1 namespace specific, bit 2 changeable.
CAPABILITIES = {1: 4, 2: 4, 4: 4, 5: 2, 6: 0, 7: 4, 8: 4, 9: 0, 10: 4, 11: 4, 14: 4, 15: 4, 0x16: 4,
                0x1f: 7, 0x81: 0, 0x82: 6, 0x83: 7, 0x84: 7}


def selection(t, host):
    spec = 'Base 5.1.11, SEL'
    for fid, capability in CAPABILITIES.items():
        cmd = host.admin.get_feature(fid, 3)
        t.eq((cmd.status, cmd.dw0), (n.OK, capability),
             'FID %02Xh: supported capabilities' % fid, spec)
        t.status(host.admin.get_feature(fid, 4), n.INVALID_FIELD, 'FID %02Xh: SEL 4' % fid, spec)
        if not capability & 1:
            t.status(host.admin.set_feature(fid, save=1, nsid=1 if capability & 2 else 0),
                     n.NOT_SAVEABLE, 'FID %02Xh: SV' % fid, 'Base 5.1.25, SV')
    t.eq(host.admin.get_feature(7, 2).dw0, 0x00030003, 'saved values are the defaults', spec)


def effects(t, host):
    spec = 'Base 5.1.12.1.19'
    page = bytes(host.admin.get_log(0x12, 1024).data)
    for fid in range(256):
        entry = struct.unpack_from('<I', page, fid * 4)[0]
        want = 0
        if fid in CAPABILITIES:
            want = 1 | (1 << 20 if CAPABILITIES[fid] & 2 else 1 << 21) | (4 if fid == 0x84 else 0)
        if entry != want:
            t.eq(entry, want, 'LID 12h: FID %02Xh' % fid, spec)
            return
    t.ok(True, 'LID 12h: an entry with its scope for every feature, and for no other', spec)


def refused(t, host):
    unknown = [fid for fid in range(256) if fid not in CAPABILITIES]
    for fid in unknown:
        status = {host.admin.get_feature(fid).status, host.admin.set_feature(fid).status}
        if status != {n.INVALID_FIELD}:
            t.eq(status, {n.INVALID_FIELD}, 'Get and Set FID %02Xh' % fid, 'Base 5.1.25')
            return
    t.ok(True, 'Get and Set of %d unknown features' % len(unknown), 'Base 5.1.25')
    for fid, capability in CAPABILITIES.items():
        if not capability & 2:
            t.status(host.admin.set_feature(fid, nsid=1), n.NOT_NS_SPECIFIC,
                     'FID %02Xh of NSID 1' % fid, 'Base 5.1.25')
            t.status(host.admin.set_feature(fid, nsid=16385), n.INVALID_NS,
                     'FID %02Xh of an invalid NSID' % fid, 'Base 3.2.1.2')
            continue
        for name, nsid, want in (('0', 0, n.INVALID_NS), ('16385', 16385, n.INVALID_NS),
                                 ('7, inactive', 7, n.INVALID_FIELD)):
            data = bytes(256) if fid == 0x1f else b''
            t.status(host.admin.set_feature(fid, nsid=nsid, data=data), want,
                     'Set FID %02Xh of NSID %s' % (fid, name), 'Base 3.2.1.5')
            t.status(host.admin.get_feature(fid, nsid=nsid, read_bytes=len(data)), want,
                     'Get FID %02Xh of NSID %s' % (fid, name), 'Base 3.2.1.5')
    for fid in (0x1f, 0x84):
        data = bytes(256) if fid == 0x1f else b''
        t.status(host.admin.set_feature(fid, nsid=0xffffffff, data=data), n.INVALID_NS,
                 'Set FID %02Xh of all namespaces' % fid, 'Base 5.1.25')
    t.eq(host.admin.get_feature(15).dw0, 0, 'refused Sets change nothing', 'Base 5.1.25')
    host.admin.set_feature(15, 1000, save=1)
    entry = bytes(host.admin.get_log(1, 64).data)
    t.eq(struct.unpack_from('<H', entry, 14)[0], 43 | 7 << 8, 'the error log names the bit of SV',
         'Base 5.1.12.1.2')
    t.eq((entry[30], entry[31], entry[63]), (0, n.SET_FEATURES, 1),
         'and command set, opcode and version', 'Base 5.1.12.1.2')


def test(t, tgt):
    with tgt.host() as host:
        for part in (volatile_cache, async_event, host_behavior, host_id, arbitration, power,
                     error_recovery, interrupts, atomicity, timestamp, copy_formats, label,
                     selection, effects, refused):
            with t.guard(part.__name__):
                part(t, host)
    for part in (queue_count, keep_alive, temperature, reset, write_protect, restarted):
        with t.guard(part.__name__):
            part(t, tgt)


target.run(Tap(), test, rights=target.ALL_RIGHTS, limits={'io_queues': 4, 'kato_max_ms': 600000})
