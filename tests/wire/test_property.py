#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Controller properties and what they control: enable, reset, shutdown. NVMe Base 2.1, sections 3.1.4 (properties),
3.5 to 3.7, 6.5 and 6.6 (Property Get and Set).
"""

import os
import struct

import nvmetcp as n
import target
from tap import Tap

RDY, CFS, SHST, SHST_COMPLETE = 1, 2, 12, 8
MANY, FAILING = 150, (1, 64, 65, 140, 150)


def values(t, tgt):
    with t.guard('values'), tgt.host(enable=False) as host:
        admin = host.admin
        cmd = admin.get_property(n.CAP)
        cap = cmd.result64
        t.status(cmd, n.OK, 'Property Get CAP, 8 bytes', 'Base 6.5')
        t.eq(cap & 0xffff, 127, 'CAP.MQES is the limit, zero-based', 'Base 3.1.4.1, MQES')
        t.eq(cap >> 16 & 1, 1, 'CAP.CQR', 'Base 3.1.4.1, CQR')
        t.ok(cap >> 24 & 0xff, 'CAP.TO is not 0', 'Base 3.1.4.1, TO')
        t.eq(cap >> 32 & 0xf, 0, 'CAP.DSTRD is 0 over fabrics', 'Base 3.1.4.1, DSTRD')
        t.eq(cap >> 37 & 1, 1, 'CAP.CSS: the NVM command set', 'Base 3.1.4.1, CSS')
        t.eq(cap >> 48 & 0xf, 0, 'CAP.MPSMIN is 4 KiB', 'Base 3.1.4.1, MPSMIN')
        t.eq(cap >> 59 & 3, 1, 'CAP.CRMS: ready with media, mandatory since 2.0', 'Base 3.1.4.1, CRMS')
        crto = admin.get_property(0x68)
        t.eq((crto.status, crto.dw0 >> 16), (n.OK, 0), 'CRTO.CRIMT is 0', 'Base 3.1.4.26')
        t.ok(crto.dw0 & 0xffff >= cap >> 24 & 0xff, 'CRTO.CRWMT is not below CAP.TO', 'Base 3.1.4.26')
        cmd = admin.get_property(n.VS)
        t.eq((cmd.status, cmd.dw0, cmd.dw1), (n.OK, 0x00020300, 0), 'VS is 2.3, which has the Cross-Controller Reset that is offered', 'Base 3.1.4.2')
        t.eq(admin.get_property(n.CC).dw0, 0, 'CC is 0 after Connect', 'Base 3.1.4.5')
        t.eq(admin.get_property(n.CSTS).dw0, 0, 'CSTS is 0 after Connect', 'Base 3.1.4.6')
        admin.enable()
        t.eq(admin.get_property(n.CC).dw0, n.CC_ENABLE, 'CC reads back as written',
             'Base 3.1.4.5')


# name, Get arguments, section: all Invalid Field
BAD_GETS = [
    ('CAP with 4 bytes', (n.CAP, 0), 'Base 6.5, ATTRIB'),
    ('VS with 8 bytes', (n.VS, 1), 'Base 6.5, ATTRIB'),
    ('CC with 8 bytes', (n.CC, 1), 'Base 6.5, ATTRIB'),
    ('CSTS with 8 bytes', (n.CSTS, 1), 'Base 6.5, ATTRIB'),
    ('ATTRIB 2', (n.VS, 2), 'Base 6.5, ATTRIB'),
    ('ATTRIB 7', (n.CAP, 7), 'Base 6.5, ATTRIB'),
    ('INTMS (0Ch), reserved over fabrics', (0x0c, 0), 'Base 3.1.4'),
    ('AQA (24h), reserved over fabrics', (0x24, 0), 'Base 3.1.4'),
    ('ASQ (28h), reserved over fabrics', (0x28, 1), 'Base 3.1.4'),
    ('offset 2, inside CAP', (0x02, 0), 'Base 6.5, OFST'),
    ('offset 4, the upper half of CAP', (0x04, 0), 'Base 6.5, OFST'),
    ('offset 1300h', (0x1300, 0), 'Base 6.5, OFST'),
    ('offset FFFFFFFCh', (0xfffffffc, 0), 'Base 6.5, OFST'),
]

BAD_SETS = [
    ('CAP', (n.CAP, 1, 1), 'Base 3.1.4.1, read only'),
    ('VS', (n.VS, 1), 'Base 3.1.4.2, read only'),
    ('CSTS with 8 bytes', (n.CSTS, 1, 1), 'Base 6.6, ATTRIB'),
    ('CC with 8 bytes', (n.CC, n.CC_ENABLE, 1), 'Base 6.6, ATTRIB'),
    ('CC with ATTRIB 3', (n.CC, n.CC_ENABLE, 3), 'Base 6.6, ATTRIB'),
    ('NSSR, not offered', (n.NSSR, 0x4e564d65), 'Base 3.1.4.7, CAP.NSSRS'),
    ('offset 18h, reserved', (0x18, 1), 'Base 6.6, OFST'),
    ('offset FFFFFFFCh', (0xfffffffc, 1), 'Base 6.6, OFST'),
]


def bad_properties(t, tgt):
    with tgt.host(enable=False) as host:
        for name, args, spec in BAD_GETS:
            with t.guard(name, spec):
                t.status(host.admin.get_property(*args), n.INVALID_FIELD, 'Get ' + name, spec)
        for name, args, spec in BAD_SETS:
            with t.guard(name, spec):
                t.status(host.admin.set_property(*args), n.INVALID_FIELD, 'Set ' + name, spec)
        t.eq((host.admin.get_property(n.CC).dw0, host.admin.get_property(n.CSTS).dw0), (0, 0),
             'refused Sets change nothing', 'Base 6.6')


def before_ready(t, tgt):
    rows = [
        ('Identify', lambda c: c.identify(1)),
        ('Get Log Page', lambda c: c.get_log(2, 512)),
        ('Set Features', lambda c: c.set_feature(7, 0x30003)),
        ('Get Features', lambda c: c.get_feature(7)),
    ]
    with t.guard('before ready'), tgt.host(enable=False) as host:
        for name, do in rows:
            t.status(do(host.admin), n.CMD_SEQUENCE, name + ' before CSTS.RDY', 'Base 3.5.1')


# name, CC, section: each is a configuration that the controller does not support
BAD_CC = [
    ('IOSQES 7', 1 | 7 << 16 | 4 << 20, 'Base 3.1.4.5, IOSQES'),
    ('IOCQES 5', 1 | 6 << 16 | 5 << 20, 'Base 3.1.4.5, IOCQES'),
    ('IOSQES and IOCQES 0', 1, 'Base 3.1.4.5, IOSQES'),
    ('MPS 8 KiB', n.CC_ENABLE | 1 << 7, 'Base 3.1.4.5, MPS'),
    ('CSS 1', n.CC_ENABLE | 1 << 4, 'Base 3.1.4.5, CSS'),
    ('AMS 1', n.CC_ENABLE | 1 << 11, 'Base 3.1.4.5, AMS'),
]


def bad_cc(t, tgt):
    for name, cc, spec in BAD_CC:
        with t.guard(name, spec), tgt.host(enable=False) as host:
            t.status(host.admin.set_property(n.CC, cc), n.OK, 'CC with %s is taken' % name, spec)
            csts = host.admin.csts_until(CFS, CFS)
            t.eq(csts & (RDY | CFS), CFS, 'CC with %s: CSTS.CFS and not ready' % name, spec)
            t.status(host.admin.identify(1), n.CMD_SEQUENCE,
                     'CC with %s: commands are refused' % name, 'Base 3.5.1')
            host.admin.set_property(n.CC, 0)
            t.eq(host.admin.csts_until(0, RDY | CFS), 0, 'CC with %s: a reset clears it' % name,
                 'Base 3.7.2')
            t.eq(host.admin.enable() & (RDY | CFS), RDY, 'and a right CC makes it ready',
                 'Base 3.5.1')


def all_command_sets(t, tgt):
    with t.guard('CSS 6'), tgt.host(enable=False) as host:
        if not host.admin.get_property(n.CAP).result64 >> 43 & 1:
            t.skip('CC.CSS 6', 'CAP.CSS bit 6 is clear')
            return
        t.eq(host.admin.enable(n.CC_ENABLE | 6 << 4) & 3, RDY, 'CC.CSS 6 as CAP.CSS offers',
             'Base 3.1.4.5, CSS')


def reset(t, tgt):
    with t.guard('reset'), tgt.host() as host:
        queues = [host.queue(qid) for qid in (1, 2)]
        aer = host.admin.submit(n.AER)
        host.admin.set_feature(7, 0x30003)
        t.status(host.admin.set_property(n.CC, n.CC_ENABLE & ~1), n.OK, 'CC.EN 1 to 0',
                 'Base 3.7.2')
        # Also while the host leaves its side of the I/O queues open.
        t.eq(host.admin.csts_until(0, RDY) & RDY, 0, 'reset: CSTS.RDY goes to 0', 'Base 3.7.2')
        t.ok(all(conn.wait_closed() for conn in queues), 'reset: I/O queues are closed',
             'Base 3.7.2')
        t.status(host.admin.wait(aer), n.ABORT_SQ_DELETED,
                 'reset: a held event request does not succeed', 'Base 3.7.2')
        t.eq(host.admin.enable() & RDY, RDY, 'the admin queue lives on: enable again',
             'Base 3.7.2')
        t.status(host.queue(1).read(1, 0, 1), n.OK, 'and I/O queues connect again', 'Base 3.7.2')


def hasty_enable(t, tgt):
    """CC.EN is set to 1 before CSTS.RDY fell: a violation of the specification, but nothing may hang."""
    with t.guard('hasty enable'), tgt.host() as host:
        queues = [host.queue(qid) for qid in (1, 2)]
        for cc in (n.CC_ENABLE & ~1, n.CC_ENABLE):
            t.status(host.admin.set_property(n.CC, cc), n.OK, 'CC.EN %d in haste' % (cc & 1),
                     'Base 3.7.2')
        t.ok(all(conn.wait_closed() for conn in queues), 'in haste: I/O queues are closed',
             'Base 3.7.2')
        t.eq(host.admin.csts_until(RDY, RDY) & RDY, RDY, 'in haste: CSTS.RDY comes all the same',
             'Base 3.7.2')


def shutdown(t, tgt):
    for name, shn in (('normal', 1), ('abrupt', 2)):
        with t.guard(name), tgt.host() as host:
            conn = host.queue()
            conn.put(1, 0, n.pattern(512))
            cmd = host.admin.set_property(n.CC, n.CC_ENABLE | shn << 14)
            t.status(cmd, n.OK, name + ' shutdown', 'Base 3.6.2')
            t.ok(conn.wait_closed(), name + ' shutdown: I/O queues are closed', 'Base 3.6.2')
            conn.close()
            t.eq(host.admin.csts_until(SHST_COMPLETE, SHST) & SHST, SHST_COMPLETE,
                 name + ' shutdown: CSTS.SHST becomes 10b', 'Base 3.6.2')
            host.admin.set_property(n.CC, 0)
            t.eq(host.admin.csts_until(0, SHST | RDY), 0,
                 name + ' shutdown: a reset clears CSTS.SHST', 'Base 3.6.2')
            t.eq(host.admin.enable() & (RDY | SHST), RDY, 'and the controller can be enabled again',
                 'Base 3.6.2')
            t.status(host.queue(1).read(1, 0, 1), n.OK, 'and used', 'Base 3.6.2')


def shutdown_of_many(t, tgt):
    """More media than are flushed at once: each is flushed once, failures are reported."""
    spaces = []
    for nsid in range(1, MANY + 1):
        media = 'file:%s,size=64K,block=512' % os.path.join(tgt.folder, 'many-%d' % nsid)
        spaces.append(target.namespace(nsid, 'fault:fail:op=flush@' + media if nsid in FAILING else media))
    tgt.config['subsystems'][0]['namespaces'] = spaces
    tgt.terminate()
    tgt.wait_exit()
    tgt.write_config()
    tgt.start('--reset')
    with t.guard('shutdown of many'), tgt.host() as host:
        host.admin.set_property(n.CC, n.CC_ENABLE | 1 << 14)
        t.eq(host.admin.csts_until(SHST_COMPLETE, SHST) & SHST, SHST_COMPLETE,
             'shutdown with %d files: CSTS.SHST becomes 10b' % MANY, 'Base 3.6.2')
    t.eq(tgt.log().count('flush at shutdown failed: error'), len(FAILING),
         'and every one was flushed before', 'Base 3.6.2')


def on_io_queue(t, tgt):
    with t.guard('properties on an I/O queue'), tgt.host() as host:
        conn = host.queue()
        cmd = conn.get_property(n.CSTS)
        t.status(cmd, n.INVALID_FIELD, 'Property Get on an I/O queue', 'Base 6.5')
        cmd = conn.set_property(n.CC, 0)
        t.status(cmd, n.INVALID_FIELD, 'Property Set on an I/O queue', 'Base 6.6')
        t.eq(host.admin.get_property(n.CSTS).dw0 & RDY, RDY, 'and nothing happened', 'Base 6.6')
        cmd = host.admin.fabrics(0x33, b'')
        t.status(cmd, n.INVALID_OPCODE, 'unknown FCTYPE', 'Base 6', 1)
        cmd = host.admin.fabrics(n.PROPERTY_GET, struct.pack('<B3xI', 0, n.VS), flags=0)
        t.status(cmd, n.INVALID_FIELD, 'Property Get with PSDT 00b', 'Base 4.1.1, PSDT')


def test(t, tgt):
    values(t, tgt)
    with t.guard('bad properties'):
        bad_properties(t, tgt)
    before_ready(t, tgt)
    bad_cc(t, tgt)
    all_command_sets(t, tgt)
    reset(t, tgt)
    hasty_enable(t, tgt)
    shutdown(t, tgt)
    on_io_queue(t, tgt)
    shutdown_of_many(t, tgt)


target.run(Tap(), test, limits={'io_queues': 4, 'queue_size': 128})
