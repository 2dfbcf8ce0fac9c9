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


def selection(t, host):
    spec = 'Base 5.1.11, SEL'
    want = {6: 0, 7: 4, 11: 4, 15: 4, 0x16: 4, 0x81: 0}
    for fid, capability in want.items():
        cmd = host.admin.get_feature(fid, 3)
        t.eq((cmd.status, cmd.dw0), (n.OK, capability),
             'FID %02Xh: supported capabilities' % fid, spec)
        t.status(host.admin.get_feature(fid, 4), n.INVALID_FIELD, 'FID %02Xh: SEL 4' % fid, spec)
    t.eq(host.admin.get_feature(7, 2).dw0, 0x00030003, 'saved values are the defaults', spec)


def refused(t, host):
    unknown = [0x00, 0x01, 0x02, 0x05, 0x0a, 0x0c, 0x0e, 0x10, 0x80, 0x82, 0x83, 0x84, 0xff]
    for fid in unknown:
        t.status(host.admin.get_feature(fid), n.INVALID_FIELD, 'Get FID %02Xh' % fid,
                 'Base 5.1.11', 1)
        t.status(host.admin.set_feature(fid), n.INVALID_FIELD, 'Set FID %02Xh' % fid,
                 'Base 5.1.25', 1)
    t.status(host.admin.set_feature(15, 1000, save=1), n.NOT_SAVEABLE, 'SV 1',
             'Base 5.1.25, SV')
    t.status(host.admin.set_feature(15, 1000, nsid=1), n.NOT_NS_SPECIFIC, 'NSID 1',
             'Base 5.1.25')
    t.eq(struct.pack('<I', host.admin.get_feature(15).dw0), bytes(4), 'refused Sets change nothing',
         'Base 5.1.25')


def test(t, tgt):
    with tgt.host() as host:
        for part in (volatile_cache, async_event, host_behavior, host_id, selection, refused):
            with t.guard(part.__name__):
                part(t, host)
    for part in (queue_count, keep_alive):
        with t.guard(part.__name__):
            part(t, tgt)


target.run(Tap(), test, limits={'io_queues': 4, 'kato_max_ms': 600000})
