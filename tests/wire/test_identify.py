#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Identify: every CNS that the target offers with its fields at their offsets, and the refusals.
NVMe Base 2.1, section 5.1.13; NVM Command Set 1.1, section 4.1.5.
"""

import struct
import uuid

import nvmetcp as n
import target
from tap import Tap

UUID = '6f1c7b9a-52e0-4d0b-9a39-1f0f5c1d2e3f'
NGUID = 'eui-like'.encode().hex() + '0123456789abcdef'


def u16(page, at):
    return struct.unpack_from('<H', page, at)[0]


def u32(page, at):
    return struct.unpack_from('<I', page, at)[0]


def u64(page, at):
    return struct.unpack_from('<Q', page, at)[0]


def controller(t, host):
    cmd = host.admin.identify(1)
    page = bytes(cmd.data)
    spec = 'Base 5.1.13.2.1'
    t.status(cmd, n.OK, 'CNS 01h', spec)
    t.eq(page[4:24], b'WIRETEST'.ljust(20), 'SN, padded with spaces', spec)
    t.eq(page[24:64].rstrip(b' '), b'a model', 'MN', spec)
    t.ok(page[64:72].strip(b' '), 'FR is not empty', spec)
    t.ok(all(32 <= c < 127 for c in page[4:72]), 'SN, MN and FR are printable ASCII', spec)
    t.ok(page[76] & 2, 'CMIC: several controllers', spec)
    t.eq(page[77], 7, 'MDTS: 2^7 pages are 512 KiB', spec)
    t.eq(u16(page, 78), host.cntlid, 'CNTLID is that of Connect', spec)
    t.eq(u32(page, 80), 0x00020100, 'VER is that of VS', spec)
    t.ok(u32(page, 92) & 1 << 8, 'OAES: Namespace Attribute Notices', spec)
    t.ok(u32(page, 92) & 1 << 11, 'OAES: Asymmetric Namespace Access Change', spec)
    t.ok(u32(page, 96) & 1, 'CTRATT: 128-bit host identifier', spec)
    t.ok(u32(page, 96) & 1 << 6, 'CTRATT: Traffic Based Keep Alive', spec)
    t.eq(page[111], 1, 'CNTRLTYPE: I/O controller', spec)
    t.eq(page[259], 3, 'AERL, zero-based', spec)
    t.ok(page[261] & 4, 'LPA: extended data (offsets, NUMDU)', spec)
    t.ok(page[261] & 2, 'LPA: Commands Supported and Effects', spec)
    t.eq(page[260] & 1, 1, 'FRMW: slot 1 is read only', spec)
    t.eq(u16(page, 320), 1, 'KAS: 100 ms', spec)
    t.eq((page[512], page[513]), (0x66, 0x44), 'SQES and CQES', spec)
    t.eq(u16(page, 514), 128, 'MAXCMD, required over fabrics', spec)
    t.ok(u32(page, 516) >= 9, 'NN reaches the largest NSID', spec)
    t.eq(u16(page, 520) & 0x0d, 0x0d, 'ONCS: Compare, Dataset Management, Write Zeroes', spec)
    t.eq(u16(page, 522), 0, 'FUSES: none', spec)
    t.eq(page[525] & 1, 1, 'VWC: present', spec)
    t.eq(u32(page, 536) & 3, 1, 'SGLS: supported, no alignment', spec)
    t.ok(u32(page, 536) & 1 << 20, 'SGLS: address as an offset, for in-capsule data', spec)
    t.ok(u32(page, 536) & 1 << 21, 'SGLS: Transport SGL Data Block', spec)
    t.ok(page[343] and u32(page, 344) >= 1 and u32(page, 348) >= 1,
         'ANACAP, ANAGRPMAX and NANAGRPID where CMIC says ANA', spec)
    t.eq(page[768:1024].rstrip(b'\0'), target.NQN.encode(), 'SUBNQN', spec)
    t.eq(u32(page, 1792) * 16, 64 + 8192, 'IOCCSZ: 64 + 8192 bytes', spec)
    t.eq(u32(page, 1796), 1, 'IORCSZ: 16 bytes', spec)
    t.eq(u16(page, 1800), 0, 'ICDOFF: 0 over TCP', 'TCP 3.4')
    t.eq(page[1802] & 1, 0, 'FCATT: dynamic controllers', spec)
    t.eq(page[1803], 1, 'MSDBD: one descriptor', spec)
    t.eq(u16(page, 1804) & 1, 1, 'OFCS: Disconnect', spec)
    t.eq(bytes(page[3072:]), bytes(1024), 'vendor specific bytes are zero', spec)


def namespaces(t, host):
    spec = 'NVM 4.1.5.1'
    for nsid, blocks, shift in ((1, 2048, 9), (2, 1024, 12)):
        name = 'CNS 00h of namespace %d: ' % nsid
        page = bytes(host.admin.identify(0, nsid).data)
        t.eq((u64(page, 0), u64(page, 8)), (blocks, blocks), name + 'NSZE and NCAP', spec)
        t.ok(u64(page, 16) <= blocks, name + 'NUSE at most NCAP', spec)
        t.eq((page[25], page[26] & 0x0f), (0, 0), name + 'NLBAF and FLBAS', spec)
        t.eq((u16(page, 128), page[130]), (0, shift), name + 'LBAF 0: no metadata, LBADS', spec)
        t.eq(page[30] & 1, 1, name + 'NMIC: may be shared', spec)
        t.eq(page[33] & 7, 1, name + 'DLFEAT: deallocated blocks read as zeroes', spec)
    page = bytes(host.admin.identify(0, 1).data)
    t.eq(page[104:120], bytes.fromhex(NGUID), 'NGUID as configured', spec)
    t.eq(u32(page, 92), 1, 'ANAGRPID 1 by default', spec)
    page = bytes(host.admin.identify(0, 9).data)
    t.eq(u32(page, 92), 3, 'ANAGRPID as configured', spec)
    t.eq(page[99] & 1, 1, 'NSATTR: a read-only namespace is write protected', spec)
    t.eq(bytes(host.admin.identify(0, 3).data), bytes(4096), 'inactive NSID: all zeroes', spec)


def lists(t, host):
    spec = 'Base 5.1.13.2.2'
    for after, want in ((0, (1, 2, 9)), (1, (2, 9)), (2, (9,)), (8, (9,)), (9, ()),
                        (0xfffffffd, ())):
        page = bytes(host.admin.identify(2, after).data)
        t.eq(page, struct.pack('<%dI' % len(want), *want).ljust(4096, b'\0'),
             'CNS 02h after NSID %d' % after, spec)
        page = bytes(host.admin.identify(7, after).data)
        t.eq(page, struct.pack('<%dI' % len(want), *want).ljust(4096, b'\0'),
             'CNS 07h after NSID %d' % after, 'Base 5.1.13.2.7')


def descriptors(t, host):
    spec = 'Base 5.1.13.2.3'
    page = bytes(host.admin.identify(3, 1).data)
    found, at = {}, 0
    while at + 4 <= len(page) and page[at + 1]:
        found[page[at]] = page[at + 4:at + 4 + page[at + 1]]
        at += 4 + page[at + 1]
    t.eq(page[at:], bytes(4096 - at), 'CNS 03h: zeroes behind the list', spec)
    t.eq(found.get(3), uuid.UUID(UUID).bytes, 'CNS 03h: UUID in network order', spec)
    t.eq(found.get(2), bytes.fromhex(NGUID), 'CNS 03h: NGUID', spec)
    t.eq(found.get(4), b'\0', 'CNS 03h: command set identifier NVM', spec)
    uuids = set()
    for nsid in (1, 2, 9):
        page = bytes(host.admin.identify(3, nsid).data)
        uuids.add(page[:40])
    t.eq(len(uuids), 3, 'CNS 03h: namespaces differ', spec)


def command_sets(t, host):
    page = bytes(host.admin.identify(5, 1).data)
    t.eq(u64(page, 0), 0, 'CNS 05h: LBSTM, no storage tags', 'NVM 4.1.5.3')
    page = bytes(host.admin.identify(6).data)
    t.ok(page[1], 'CNS 06h: WZSL limits Write Zeroes', 'NVM 4.1.5.4')
    t.eq((page[0], page[2]), (0, 0), 'CNS 06h: VSL and WUSL without their commands',
         'NVM 4.1.5.4')
    page = bytes(host.admin.identify(8, 9).data)
    t.eq((page[1] & 1, u32(page, 4), page[8] & 1, page[14] & 1), (1, 3, 1, 1),
         'CNS 08h: NMIC, ANAGRPID, NSATTR, NSTAT', 'Base 5.1.13.2.8')
    for cntid in (0xffff, host.cntlid):
        page = bytes(host.admin.identify(0x1c, cntid=cntid).data)
        t.eq((u64(page, 0), bytes(page[8:])), (1, bytes(4088)),
             'CNS 1Ch for controller %04Xh: NVM alone' % cntid, 'Base 5.1.13.2.19')


# name, Identify arguments, status, section
REFUSED = [
    ('CNS 00h of NSID 0', dict(cns=0, nsid=0), n.INVALID_NS, 'NVM 4.1.5.1'),
    ('CNS 00h of NSID FFFFFFFFh', dict(cns=0, nsid=0xffffffff), n.INVALID_NS,
     'Base 5.1.13.2, no Namespace Management'),
    ('CNS 00h of NSID FFFFFFFEh', dict(cns=0, nsid=0xfffffffe), n.INVALID_NS, 'Base 3.2.1.2'),
    ('CNS 00h beyond NN', dict(cns=0, nsid=100000), n.INVALID_NS, 'Base 3.2.1.2'),
    ('CNS 02h after FFFFFFFEh', dict(cns=2, nsid=0xfffffffe), n.INVALID_NS, 'Base 5.1.13.2.2'),
    ('CNS 02h after FFFFFFFFh', dict(cns=2, nsid=0xffffffff), n.INVALID_NS, 'Base 5.1.13.2.2'),
    ('CNS 03h of an inactive NSID', dict(cns=3, nsid=3), n.INVALID_NS, 'Base 5.1.13.2.3'),
    ('CNS 03h of NSID 0', dict(cns=3, nsid=0), n.INVALID_NS, 'Base 5.1.13.2.3'),
    ('CNS 05h of command set 2', dict(cns=5, nsid=1, csi=2), n.INVALID_FIELD, 'Base 5.1.13, CSI'),
    ('CNS 06h of command set 1', dict(cns=6, csi=1), n.INVALID_FIELD, 'Base 5.1.13, CSI'),
    ('CNS 07h of command set 2', dict(cns=7, csi=2), n.INVALID_FIELD, 'Base 5.1.13, CSI'),
    ('CNS 08h of NSID 0', dict(cns=8, nsid=0), n.INVALID_NS, 'Base 5.1.13.2.8'),
    ('CNS 04h (NVM sets), not offered', dict(cns=4), n.INVALID_FIELD, 'Base 5.1.13, CNS'),
    ('CNS 10h (allocated), not offered', dict(cns=0x10), n.INVALID_FIELD, 'Base 5.1.13, CNS'),
    ('CNS 1Ch of another controller', dict(cns=0x1c, cntid=0xfff0), n.INVALID_FIELD,
     'Base 5.1.13.2.19'),
    ('CNS FFh', dict(cns=0xff), n.INVALID_FIELD, 'Base 5.1.13, CNS'),
    ('SGL of 512 bytes', dict(cns=1, sgl=n.sgl_transport(512)), n.SGL_LENGTH, 'Base 4.2.3.1'),
    ('SGL of 8192 bytes', dict(cns=1, sgl=n.sgl_transport(8192)), n.SGL_LENGTH, 'Base 4.2.3.1'),
    ('no SGL', dict(cns=1, sgl=n.sgl_none()), n.SGL_LENGTH, 'Base 4.2.3.1'),
    ('in-capsule SGL for data to the host', dict(cns=1, sgl=n.sgl_capsule(4096), data=bytes(4096),
                                                 way='capsule'), n.SGL_TYPE, 'TCP 3.4'),
]


def refused(t, host):
    for name, args, status, spec in REFUSED:
        with t.guard(name, spec):
            cmd = host.admin.identify(**args)
            t.status(cmd, status, name, spec, 1)
            t.eq(bytes(cmd.data), b'', name + ': no data', spec)


def other_admin(t, host):
    for name, opcode in (('Delete I/O SQ', 0), ('Create I/O SQ', 1), ('Delete I/O CQ', 4),
                         ('Create I/O CQ', 5), ('Namespace Management', 0x0d),
                         ('Firmware Commit', 0x10), ('Format NVM', 0x80), ('opcode FFh', 0xff)):
        with t.guard(name):
            t.status(host.admin.do(opcode), n.INVALID_OPCODE, name + ' on the admin queue',
                     'Base 3.1.3.4', 1)
    t.status(host.admin.do(n.IDENTIFY, flags=0x41), n.INVALID_FIELD, 'FUSE 01b', 'Base 4.1.1')
    t.status(host.admin.do(n.IDENTIFY, flags=0x00), n.INVALID_FIELD, 'PSDT 00b', 'Base 4.1.1')
    t.status(host.admin.do(n.IDENTIFY, flags=0xc0), n.INVALID_FIELD, 'PSDT 11b', 'Base 4.1.1')


def test(t, tgt):
    with tgt.host() as host:
        for part in (controller, namespaces, lists, descriptors, command_sets, refused,
                     other_admin):
            with t.guard(part.__name__):
                part(t, host)


NAMESPACES = [
    target.namespace(1, 'mem:1M,block=512', uuid=UUID, nguid=NGUID),
    target.namespace(2, 'mem:4M,block=4096'),
    target.namespace(9, 'mem:1M,block=4096', read_only=True, ana_group=3),
]

target.run(Tap(), test, namespaces=NAMESPACES, model='a model',
           limits={'queue_size': 128})
