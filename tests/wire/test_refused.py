#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Unsupported functions: each is refused with the status of the specification and not reported as supported:
firmware, self-test, directives, virtualization, security, sanitize, telemetry, endurance groups, NVM sets,
protection information. NVMe Base 2.1; NVM Command Set 1.1.
"""

import struct

import nvmetcp as n
import target
from tap import Tap

# name, opcode, section; Identify and the effects log do not report them either
ADMIN = [
    ('Firmware Commit', 0x10, 'Base 5.1.8'),
    ('Firmware Image Download', 0x11, 'Base 5.1.9'),
    ('Device Self-test', 0x14, 'Base 5.1.5'),
    ('Directive Send', 0x19, 'Base 5.1.7'),
    ('Directive Receive', 0x1a, 'Base 5.1.6'),
    ('Virtualization Management', 0x1c, 'Base 5.2.6'),
    ('NVMe-MI Send', 0x1d, 'Base 5.1.19'),
    ('NVMe-MI Receive', 0x1e, 'Base 5.1.18'),
    ('Capacity Management', 0x20, 'Base 5.1.3'),
    ('Lockdown', 0x24, 'Base 5.1.15'),
    ('Doorbell Buffer Config', 0x7c, 'Base 5.2.5'),
    ('Security Send', 0x81, 'Base 5.1.24'),
    ('Security Receive', 0x82, 'Base 5.1.23'),
    ('Sanitize', 0x84, 'Base 5.1.22'),
    ('a vendor\'s', 0xc0, 'Base 3.1.3.4'),
]

IO = [
    ('I/O Management Receive', 0x12, 'Base 7.3'),
    ('I/O Management Send', 0x1d, 'Base 7.4'),
    ('Zone Management Send', 0x79, 'NVM 3.3'),
    ('a vendor\'s', 0x80, 'NVM 3.3'),
]

LOGS = [
    ('Device Self-test', 0x06, 'Base 5.1.12.1.7'),
    ('Telemetry Host-Initiated', 0x07, 'Base 5.1.12.1.8'),
    ('Telemetry Controller-Initiated', 0x08, 'Base 5.1.12.1.9'),
    ('Endurance Group Information', 0x09, 'Base 5.1.12.1.10'),
    ('Predictable Latency Per NVM Set', 0x0a, 'Base 5.1.12.1.11'),
    ('LBA Status Information', 0x0e, 'NVM 4.1.4.5'),
    ('Endurance Group Event Aggregate', 0x0f, 'Base 5.1.12.1.15'),
    ('Supported Capacity Configuration', 0x11, 'Base 5.1.12.1.17'),
    ('Sanitize Status', 0x81, 'Base 5.1.12.1.33'),
]

FEATURES = [
    ('LBA Range Type', 0x03, 'NVM 4.1.3.2'),
    ('Autonomous Power State Transition', 0x0c, 'Base 5.1.25.1.6'),
    ('Host Memory Buffer', 0x0d, 'Base 5.1.25.2.4'),
    ('Non-Operational Power State', 0x11, 'Base 5.1.25.1.10'),
    ('LBA Status Information Attributes', 0x15, 'NVM 4.1.3.6'),
    ('Sanitize Config', 0x17, 'Base 5.1.25.1.15'),
    ('Endurance Group Event', 0x18, 'Base 5.1.25.1.16'),
    ('I/O Command Set Profile', 0x19, 'Base 5.1.25.1.17'),
    ('Flexible Data Placement', 0x1d, 'Base 5.1.25.1.20'),
]


def test(t, tgt):
    with tgt.host() as host:
        admin, conn = host.admin, host.queue()
        effects = bytes(admin.get_log(5, 4096).data)
        pages = bytes(admin.get_log(0, 1024).data)
        features = bytes(admin.get_log(0x12, 1024).data)

        def denied(page, at):
            return struct.unpack_from('<I', page, at)[0] == 0

        for name, opcode, spec in ADMIN:
            t.status(admin.do(opcode, 1), n.INVALID_OPCODE, name, spec, 1)
            t.ok(denied(effects, opcode * 4), name + ': not in the effects log', spec)
        for name, opcode, spec in IO:
            t.status(conn.do(opcode, 1), n.INVALID_OPCODE, name, spec, 1)
            t.ok(denied(effects, 1024 + opcode * 4), name + ': not in the effects log', spec)
        for name, lid, spec in LOGS:
            t.status(admin.get_log(lid, 512), n.INVALID_LOG_PAGE, name + ' log', spec, 1)
            t.ok(denied(pages, lid * 4), name + ': not among the supported pages', spec)
        for name, fid, spec in FEATURES:
            t.status(admin.get_feature(fid), n.INVALID_FIELD, 'Get Features ' + name, spec, 1)
            t.status(admin.set_feature(fid), n.INVALID_FIELD, 'Set Features ' + name, spec, 1)
            t.ok(denied(features, fid * 4), name + ': not among the supported features', spec)
        absent(t, admin)


def absent(t, admin):
    page = bytes(admin.identify(1).data)
    spec = 'Base 5.1.13.2.1'
    t.eq(struct.unpack_from('<H', page, 256)[0] & ~0x0a, 0,
         'OACS: no security, firmware, self-test, directives, MI, virtualization, Get LBA Status of lost blocks', spec)
    t.eq(struct.unpack_from('<I', page, 328)[0], 0, 'SANICAP: no sanitize', spec)
    t.eq(page[261] & 9, 0, 'LPA: no SMART per namespace, no telemetry', spec)
    t.eq(struct.unpack_from('<HH', page, 338), (0, 0), 'NSETIDMAX, ENDGIDMAX: none', spec)
    t.eq(struct.unpack_from('<I', page, 96)[0] & (1 << 2 | 1 << 4 | 1 << 19), 0,
         'CTRATT: no NVM sets, endurance groups, data placement', spec)
    page = bytes(admin.identify(0, 1).data)
    t.eq((page[27], page[28], page[29]), (0, 0, 0), 'MC, DPC, DPS: no metadata, no protection',
         'NVM 4.1.5.1')
    t.eq((struct.unpack_from('<HH', page, 100)), (0, 0), 'NVMSETID, ENDGID: none', 'NVM 4.1.5.1')
    page = bytes(admin.identify(5, 1).data)
    t.eq(page, bytes(4096), 'CNS 05h: no storage tags, no extended formats', 'NVM 4.1.5.3')


target.run(Tap(), test)
