#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Identify: every supported CNS with its fields at their offsets, and the refusals. NVMe Base 2.1, section 5.1.13;
NVM Command Set 1.1, section 4.1.5.
"""

import struct
import uuid

import nvmetcp as n
import target
from tap import Tap

UUID = '6f1c7b9a-52e0-4d0b-9a39-1f0f5c1d2e3f'
OTHER_NQN = 'nqn.2026-11.io.weft:other'
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
    t.eq(u32(page, 80), 0x00020300, 'VER is that of VS', spec)
    t.ok(u32(page, 92) & 1 << 8, 'OAES: Namespace Attribute Notices', spec)
    t.ok(u32(page, 92) & 1 << 11, 'OAES: Asymmetric Namespace Access Change', spec)
    t.ok(u32(page, 96) & 1, 'CTRATT: 128-bit host identifier', spec)
    t.ok(u32(page, 96) & 1 << 6, 'CTRATT: Traffic Based Keep Alive', spec)
    t.ok(u32(page, 96) & 1 << 7, 'CTRATT: namespace granularity, CNS 16h', spec)
    t.ok(u32(page, 96) & 1 << 9, 'CTRATT: UUID list, CNS 17h', spec)
    t.eq(u16(page, 256), 0x0a, 'OACS: Format NVM and Namespace Management, nothing else', spec)
    t.eq(page[111], 1, 'CNTRLTYPE: I/O controller', spec)
    t.eq(page[259], 3, 'AERL, zero-based', spec)
    t.ok(page[261] & 4, 'LPA: extended data (offsets, NUMDU)', spec)
    t.eq(page[261], 0x36, 'LPA: effects, offsets, persistent events, supported pages', spec)
    t.eq(page[263], 0, 'NPSS: one power state', spec)
    t.ok(page[266:268] < page[268:270], 'WCTEMP below CCTEMP', spec)
    t.eq((u64(page, 280), u64(page, 296)), (8 << 20, 0), 'TNVMCAP: all namespaces; UNVMCAP: no pool', spec)
    t.eq(u32(page, 352), 1, 'PELS: 64 KiB', spec)
    t.eq(page[260] & 1, 1, 'FRMW: slot 1 is read only', spec)
    t.eq(u16(page, 320), 1, 'KAS: 100 ms', spec)
    t.eq((page[512], page[513]), (0x66, 0x44), 'SQES and CQES', spec)
    t.eq(u16(page, 514), 128, 'MAXCMD, required over fabrics', spec)
    t.ok(u32(page, 516) >= 9, 'NN reaches the largest NSID', spec)
    t.eq(u16(page, 520), 0x1ff, 'ONCS: Compare, Write Uncorrectable, Dataset Management, Write '
         'Zeroes, Save and Select, Reservations, Timestamp, Verify, Copy', spec)
    t.eq(u16(page, 522), 1, 'FUSES: Compare and Write', spec)
    t.eq(page[524], 0, 'FNA: Format and erase are of one namespace; FFFFFFFFh is allowed', spec)
    t.eq(page[525], 7, 'VWC: present, Flush of all namespaces', spec)
    t.eq((u16(page, 526), u16(page, 528), u16(page, 532)), (0, 0, 0),
         'AWUN, AWUPF, ACWU: one block of any namespace', spec)
    t.eq(page[531], 7, 'NWPC: all kinds of write protection', spec)
    t.eq(u16(page, 534), 5, 'OCFS: copy descriptor formats 0h and 2h', spec)
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
    t.eq(bytes(page[3072:3080]), b'weft-vs1', 'vendor specific: the magic', 'docs/spec-coverage.md')
    t.ok(any(page[3080:3096]), 'vendor specific: the instance', 'docs/spec-coverage.md')
    t.eq(bytes(page[3096:3104]), bytes(8), 'vendor specific: not clustered', 'docs/spec-coverage.md')
    t.ok(any(page[3104:3120]), 'vendor specific: the boot', 'docs/spec-coverage.md')
    t.eq(bytes(page[3120:]), bytes(976), 'vendor specific: the rest is zero', 'docs/spec-coverage.md')


def namespaces(t, host):
    spec = 'NVM 4.1.5.1'
    for nsid, blocks, shift in ((1, 2048, 9), (2, 1024, 12)):
        name = 'CNS 00h of namespace %d: ' % nsid
        page = bytes(host.admin.identify(0, nsid).data)
        t.eq((u64(page, 0), u64(page, 8)), (blocks, blocks), name + 'NSZE and NCAP', spec)
        t.ok(u64(page, 16) <= blocks, name + 'NUSE at most NCAP', spec)
        t.eq((page[25], page[26]), (1, 0 if shift == 9 else 1), name + 'NLBAF and FLBAS', spec)
        t.eq((u32(page, 128), u32(page, 132), u32(page, 136)), (9 << 16, 12 << 16, 0),
             name + 'LBAF 0 and 1: 512 and 4096 bytes, no metadata', spec)
        t.eq((page[27], page[28], page[29]), (0, 0, 0), name + 'MC, DPC, DPS: no protection', spec)
        t.eq(page[31], 0xff, name + 'RESCAP: every type, persistence, IEKEY', spec)
        t.eq(page[24] & 2, 2, name + 'NSFEAT: atomic units of its own', spec)
        t.eq((u16(page, 34), u16(page, 36), u16(page, 38)), (0, 0, 0),
             name + 'NAWUN, NAWUPF, NACWU: memory is atomic by block', spec)
        t.eq(u64(page, 48), blocks << shift, name + 'NVMCAP in bytes', spec)
        t.eq((u16(page, 74), u32(page, 76), page[80]), (8192, 65536, 127),
             name + 'MSSRL, MCL, MSRC', spec)
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


def common(t, host):
    spec = 'NVM 4.1.5.1, NSID FFFFFFFFh'
    page = bytes(host.admin.identify(0, 0xffffffff).data)
    t.eq(bytes(page[:24]), bytes(24), 'CNS 00h of all: no sizes', spec)
    t.eq((page[25], u32(page, 128), u32(page, 132)), (1, 9 << 16, 12 << 16),
         'CNS 00h of all: the formats of namespaces to be made', spec)
    t.eq((page[31], u16(page, 74)), (0xff, 8192), 'CNS 00h of all: RESCAP and MSSRL', spec)
    t.eq(page[104:128], bytes(24), 'CNS 00h of all: no identifiers', spec)
    page = bytes(host.admin.identify(5, 0xffffffff).data)
    t.eq(page, bytes(4096), 'CNS 05h of all', spec)


def allocated(t, tgt):
    """Namespace 12 is attached to one other host only, 13 to no host."""
    spec = 'Base 5.1.13.2.9, 5.1.13.2.10'
    with tgt.host() as mine, tgt.host(hostnqn=OTHER_NQN, hostid=bytes(range(16))) as other:
        for host, name, active, known in ((mine, 'a host', (1, 2, 9), (1, 2, 9, 13)),
                                          (other, 'the other', (1, 2, 9, 12), (1, 2, 9, 12, 13))):
            for cns, want in ((2, active), (0x10, known)):
                page = bytes(host.admin.identify(cns).data)
                t.eq(page, struct.pack('<%dI' % len(want), *want).ljust(4096, b'\0'),
                     'CNS %02Xh of %s' % (cns, name), spec)
        page = bytes(mine.admin.identify(0x10, 9).data)
        t.eq(u32(page, 0), 13, 'CNS 10h after NSID 9', spec)
        page = bytes(mine.admin.identify(0x11, 13).data)
        t.eq(u64(page, 0), 256, 'CNS 11h of what is attached to nobody', spec)
        t.eq(bytes(mine.admin.identify(0, 13).data), bytes(4096), 'CNS 00h of it: inactive', spec)
        t.eq(bytes(mine.admin.identify(0x11, 12).data), bytes(4096),
             'CNS 11h of what only another host may see: zeroes', spec)
        t.eq(bytes(mine.admin.identify(0x11, 1).data), bytes(mine.admin.identify(0, 1).data),
             'CNS 11h of an active namespace is its CNS 00h', spec)
        controllers(t, mine, other)


def controllers(t, mine, other):
    spec = 'Base 5.1.13.2.11, 5.1.13.2.12'

    def listed(host, cns, nsid=0, cntid=0):
        page = bytes(host.admin.identify(cns, nsid, cntid).data)
        count = u16(page, 0)
        t.eq(page[2 + 2 * count:], bytes(4094 - 2 * count), 'zeroes behind %d controllers' % count,
             spec)
        return list(struct.unpack_from('<%dH' % count, page, 2))

    both = sorted((mine.cntlid, other.cntlid))
    for host in (mine, other):
        t.eq(listed(host, 0x13), both, 'CNS 13h: controllers of the subsystem', spec)
    t.eq(listed(mine, 0x13, cntid=both[0] + 1), both[1:], 'CNS 13h from the second on', spec)
    t.eq(listed(mine, 0x13, cntid=0xffff), [], 'CNS 13h from FFFFh on', spec)
    t.eq(listed(mine, 0x12, 1), both, 'CNS 12h: attached to both', spec)
    t.eq(listed(other, 0x12, 12), [other.cntlid], 'CNS 12h: attached to one', spec)
    t.eq(listed(mine, 0x12, 12), [], 'CNS 12h: hidden from who asks', spec)
    t.eq(listed(mine, 0x12, 13), [], 'CNS 12h: attached to nobody', spec)
    t.eq(listed(mine, 0x12, 5), [], 'CNS 12h: not allocated', spec)


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
    t.eq((page[0], page[1], page[2]), (12, 10, 0), 'CNS 06h: VSL 16 MiB, WZSL 4 MiB, no WUSL',
         'NVM 4.1.5.4')
    t.eq((page[3], u32(page, 4), u64(page, 8)), (0, 0, 0),
         'CNS 06h: DMRL, DMRSL and DMSL: no limits', 'NVM 4.1.5.4')
    t.eq(u32(page, 20), 0x00010200, 'CNS 06h: VER is 1.2, which goes with Base 2.3', 'NVM 4.1.5.4')
    page = bytes(host.admin.identify(8, 9).data)
    t.eq((page[1] & 1, u32(page, 4), page[8] & 1, page[14] & 1), (1, 3, 1, 1),
         'CNS 08h: NMIC, ANAGRPID, NSATTR, NSTAT', 'Base 5.1.13.2.8')
    t.eq(page[2], 0xff, 'CNS 08h: RESCAP', 'Base 5.1.13.2.8')
    page = bytes(host.admin.identify(0x16).data)
    t.eq((u64(page, 0), u64(page, 32), u64(page, 40), page[48:]), (0, 4096, 4096, bytes(4048)),
         'CNS 16h: one granularity', 'Base 5.1.13.2.15')
    page = bytes(host.admin.identify(0x17).data)
    t.eq(page, bytes(4096), 'CNS 17h: no UUIDs, for nothing is vendor specific',
         'Base 5.1.13.2.16')
    for cntid in (0xffff, host.cntlid):
        page = bytes(host.admin.identify(0x1c, cntid=cntid).data)
        t.eq((u64(page, 0), bytes(page[8:])), (1, bytes(4088)),
             'CNS 1Ch for controller %04Xh: NVM alone' % cntid, 'Base 5.1.13.2.19')


# name, Identify arguments, status, section
REFUSED = [
    ('CNS 00h of NSID 0', dict(cns=0, nsid=0), n.INVALID_NS, 'NVM 4.1.5.1'),
    ('CNS 00h of NSID FFFFFFFEh', dict(cns=0, nsid=0xfffffffe), n.INVALID_NS, 'Base 3.2.1.2'),
    ('CNS 00h beyond NN', dict(cns=0, nsid=100000), n.INVALID_NS, 'Base 3.2.1.2'),
    ('CNS 02h after FFFFFFFEh', dict(cns=2, nsid=0xfffffffe), n.INVALID_NS, 'Base 5.1.13.2.2'),
    ('CNS 02h after FFFFFFFFh', dict(cns=2, nsid=0xffffffff), n.INVALID_NS, 'Base 5.1.13.2.2'),
    ('CNS 03h of an inactive NSID', dict(cns=3, nsid=3), n.INACTIVE_NS, 'Base 5.1.13.2.3'),
    ('CNS 03h of NSID 0', dict(cns=3, nsid=0), n.INVALID_NS, 'Base 5.1.13.2.3'),
    ('CNS 05h of command set 2', dict(cns=5, nsid=1, csi=2), n.INVALID_FIELD, 'Base 5.1.13, CSI'),
    ('CNS 06h of command set 1', dict(cns=6, csi=1), n.INVALID_FIELD, 'Base 5.1.13, CSI'),
    ('CNS 07h of command set 2', dict(cns=7, csi=2), n.INVALID_FIELD, 'Base 5.1.13, CSI'),
    ('CNS 08h of NSID 0', dict(cns=8, nsid=0), n.INVALID_NS, 'Base 5.1.13.2.8'),
    ('CNS 04h (NVM sets), not offered', dict(cns=4), n.INVALID_FIELD, 'Base 5.1.13, CNS'),
    ('CNS 03h of all', dict(cns=3, nsid=0xffffffff), n.INVALID_NS, 'Base 5.1.13.2.3'),
    ('CNS 05h of NSID 0', dict(cns=5, nsid=0), n.INVALID_NS, 'Base 5.1.13.2.5'),
    ('CNS 08h of all', dict(cns=8, nsid=0xffffffff), n.INVALID_NS, 'Base 5.1.13.2.8'),
    ('CNS 10h after FFFFFFFEh', dict(cns=0x10, nsid=0xfffffffe), n.INVALID_NS,
     'Base 5.1.13.2.9'),
    ('CNS 10h after FFFFFFFFh', dict(cns=0x10, nsid=0xffffffff), n.INVALID_NS,
     'Base 5.1.13.2.9'),
    ('CNS 11h of NSID 0', dict(cns=0x11, nsid=0), n.INVALID_NS, 'Base 5.1.13.2.10'),
    ('CNS 11h of all', dict(cns=0x11, nsid=0xffffffff), n.INVALID_NS, 'Base 5.1.13.2.10'),
    ('CNS 11h beyond NN', dict(cns=0x11, nsid=16385), n.INVALID_NS, 'Base 5.1.13.2.10'),
    ('CNS 12h of NSID 0', dict(cns=0x12, nsid=0), n.INVALID_NS, 'Base 5.1.13.2.11'),
    ('CNS 12h of all', dict(cns=0x12, nsid=0xffffffff), n.INVALID_NS, 'Base 5.1.13.2.11'),
    ('CNS 14h (virtualization), not offered', dict(cns=0x14), n.INVALID_FIELD,
     'Base 5.1.13, CNS'),
    ('CNS 18h (domains), not offered', dict(cns=0x18), n.INVALID_FIELD, 'Base 5.1.13, CNS'),
    ('CNS 19h (endurance groups), not offered', dict(cns=0x19), n.INVALID_FIELD,
     'Base 5.1.13, CNS'),
    ('CNS 1Bh (allocated, by command set), not offered', dict(cns=0x1b), n.INVALID_FIELD,
     'Base 5.1.13, CNS'),
    ('CNS 09h', dict(cns=9), n.INVALID_FIELD, 'Base 5.1.13, CNS'),
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
                         ('Create I/O CQ', 5), ('opcode 03h', 3), ('opcode FFh', 0xff)):
        with t.guard(name):
            t.status(host.admin.do(opcode), n.INVALID_OPCODE, name + ' on the admin queue',
                     'Base 3.1.3.4', 1)
    t.status(host.admin.do(n.IDENTIFY, flags=0x41), n.INVALID_FIELD, 'FUSE 01b', 'Base 4.1.1')
    t.status(host.admin.do(n.IDENTIFY, flags=0x00), n.INVALID_FIELD, 'PSDT 00b', 'Base 4.1.1')
    t.status(host.admin.do(n.IDENTIFY, flags=0xc0), n.INVALID_FIELD, 'PSDT 11b', 'Base 4.1.1')


def test(t, tgt):
    with tgt.host() as host:
        for part in (controller, namespaces, lists, common, descriptors, command_sets, refused,
                     other_admin):
            with t.guard(part.__name__):
                part(t, host)
    with t.guard('allocated'):
        allocated(t, tgt)


NAMESPACES = [
    target.namespace(1, 'mem:1M,block=512', uuid=UUID, nguid=NGUID),
    target.namespace(2, 'mem:4M,block=4096'),
    target.namespace(9, 'mem:1M,block=4096', read_only=True, ana_group=3),
    target.namespace(12, 'mem:1M,block=4096', hosts=[OTHER_NQN]),
    target.namespace(13, 'mem:1M,block=4096', hosts=[]),
]

target.run(Tap(), test, namespaces=NAMESPACES, model='a model', rights=target.ALL_RIGHTS,
           limits={'queue_size': 128})
