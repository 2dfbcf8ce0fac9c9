#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Ten thousand namespaces in a subsystem: lists continue where the last page ended, the ANA log is larger than a
page, commands reach the right namespace, and a new configuration that adds or removes thousands is reported to
hosts and in force. NVMe Base 2.1, sections 5.1.13.2.2, 5.1.12.1.5, 5.1.12.1.13.
"""

import struct

import nvmetcp as n
import target
from tap import Tap

COUNT = 10000
LARGEST = 16384             # NN and MNAN
BLOCK = 4096
OTHER_GROUP = 5             # of every seventh namespace
LIST = 'Base 5.1.13.2.2'
CHANGED = 'Base 5.1.12.1.5'
ANA = 'Base 5.1.12.1.13'
NS_NOTICE, NS_BIT = 2 | 0x04 << 16, 1 << 8
EDGES = (1, 2, 1023, 1024, 1025, 2048, 2049, 9999, COUNT)


def space(nsid):
    more = {'ana_group': OTHER_GROUP} if nsid % 7 == 0 else {}
    return target.namespace(nsid, 'mem:64K,block=%d' % BLOCK, **more)


def set_spaces(nsids):
    def change(config):
        config['subsystems'][0]['namespaces'] = [space(nsid) for nsid in nsids]
    return change


def list_page(host, after, cns=2):
    return [nsid for nsid in struct.unpack('<1024I', bytes(host.admin.identify(cns, after).data)) if nsid]


def active(host, cns=2):
    """All active NSIDs, read as a host does: each page starts after the last NSID of the page before."""
    found, page = [], list_page(host, 0, cns)
    while page:
        found += page
        page = list_page(host, page[-1], cns)
    return found


def lists(t, host):
    want = list(range(1, COUNT + 1))
    t.eq(active(host), want, 'CNS 02h: all of them, page by page', LIST)
    t.eq(active(host, 7), want, 'CNS 07h: all of them, page by page', 'Base 5.1.13.2.7')
    for after in (0, 1, 1023, 1024, 8976, 8977, 9999, COUNT, LARGEST):
        t.eq(list_page(host, after), want[after:after + 1024], 'CNS 02h after NSID %d' % after, LIST)
    page = bytes(host.admin.identify(1).data)
    t.eq((struct.unpack_from('<I', page, 516)[0], struct.unpack_from('<I', page, 540)[0]),
         (LARGEST, LARGEST), 'NN and MNAN', 'Base 5.1.13.2.1')
    for nsid in (COUNT + 1, LARGEST):
        t.eq(bytes(host.admin.identify(0, nsid).data), bytes(4096),
             'CNS 00h of NSID %d, inactive' % nsid, 'NVM 4.1.5.1')
    t.status(host.admin.identify(0, LARGEST + 1), n.INVALID_NS, 'CNS 00h beyond NN', 'Base 3.2.1.2', 1)


def ana_groups(page):
    """[(group, [nsid, ...]), ...] and the remaining bytes."""
    at, groups = 16, []
    for _ in range(struct.unpack_from('<QH', page)[1]):
        group, count = struct.unpack_from('<II', page, at)
        groups.append((group, list(struct.unpack_from('<%dI' % count, page, at + 32))))
        at += 32 + 4 * count
    return groups, page[at:]


def ana(t, host):
    size = 16 + 2 * 32 + 4 * COUNT
    want = [(1, [nsid for nsid in range(1, COUNT + 1) if nsid % 7]),
            (OTHER_GROUP, list(range(7, COUNT + 1, 7)))]
    whole = bytes(host.admin.get_log(0x0c, size).data)
    t.eq(ana_groups(whole), (want, b''), 'LID 0Ch: every namespace in its group', ANA)
    # As Linux reads the log: with room for the maximum of groups and namespaces.
    page = bytes(host.admin.get_log(0x0c, 16 + 128 * 32 + 4 * LARGEST).data)
    groups, rest = ana_groups(page)
    t.eq((groups, rest), (want, bytes(len(rest))), 'LID 0Ch: zeroes behind the end', ANA)
    parts = b''.join(bytes(host.admin.get_log(0x0c, min(4096, size - at), at).data)
                     for at in range(0, size, 4096))
    t.eq(parts, whole, 'LID 0Ch in pages of 4096 bytes', 'Base 5.1.12, LPO')
    t.eq(bytes(host.admin.get_log(0x0c, 8, size - 8).data), whole[-8:], 'LID 0Ch: its end',
         'Base 5.1.12, LPO')
    page = bytes(host.admin.get_log(0x0c, 16 + 2 * 32, lsp=1).data)
    t.eq(ana_groups(page), ([(1, []), (OTHER_GROUP, [])], b''), 'LID 0Ch with RGO', ANA)


def mark(nsid):
    return n.pattern(BLOCK, nsid)


def reads_back(conn, nsids):
    return [nsid for nsid in nsids if bytes(conn.read(nsid, 15, 1, BLOCK).data) != mark(nsid)]


def io(t, conn):
    for nsid in EDGES:
        t.status(conn.put(nsid, 15, mark(nsid), BLOCK), n.OK, 'Write to namespace %d' % nsid,
                 'NVM 3.2.6')
    t.eq(reads_back(conn, EDGES), [], 'every namespace has its own blocks', 'NVM 3.2.4')
    t.status(conn.read(COUNT, 16, 1, BLOCK), n.LBA_RANGE, 'the last namespace has its own end', 'NVM 3.1.2')
    for nsid in (COUNT + 1, LARGEST, LARGEST + 1):
        want = n.INACTIVE_NS if nsid <= LARGEST else n.INVALID_NS
        t.status(conn.read(nsid, 0, 1, BLOCK), want, 'Read with NSID %d' % nsid, 'Base 3.2.1.5', 1)


def changed(host):
    page = struct.unpack('<1024I', bytes(host.admin.get_log(4, 4096).data))
    return [nsid for nsid in page if nsid]


def reload_to(t, tgt, host, nsids, want_changed, name):
    aer = host.admin.submit(n.AER)
    tgt.reload(set_spaces(nsids))
    host.admin.wait(aer)
    t.eq((aer.status, aer.dw0), (n.OK, NS_NOTICE), name + ': notice', 'Base 5.1.2.1')
    t.eq(changed(host), want_changed, name + ': changed namespace list', CHANGED)
    t.eq(active(host), nsids, name + ': the list of active ones', LIST)


def reloads(t, tgt, host, conn):
    host.admin.set_feature(11, NS_BIT)
    overflow = [0xffffffff]
    every = list(range(1, COUNT + 1))
    holes = [nsid for nsid in every if nsid in EDGES or nsid % 2]
    reload_to(t, tgt, host, holes, overflow, 'thousands removed')
    t.eq(reads_back(conn, EDGES), [], 'thousands removed: the others keep their blocks', 'NVM 3.2.4')
    t.status(conn.read(1000, 0, 1, BLOCK), n.INACTIVE_NS, 'thousands removed: one of them', 'Base 3.2.1')
    reload_to(t, tgt, host, every, overflow, 'thousands added')
    t.eq(reads_back(conn, EDGES), [], 'thousands added: the others keep their blocks', 'NVM 3.2.4')
    t.status(conn.read(1000, 15, 1, BLOCK), n.INVALID_NS, 'thousands added: one of them is another one', 'ADR 0033')
    target.know(host, conn, 1000, BLOCK)
    t.eq(bytes(conn.read(1000, 15, 1, BLOCK).data), bytes(BLOCK), 'thousands added: one of them', 'Base 3.2.1')
    changed(host)
    reload_to(t, tgt, host, every[:-1024], every[-1024:], '1024 removed, as many as the list holds')
    reload_to(t, tgt, host, every[:-1023], [COUNT - 1023], 'one added')
    reload_to(t, tgt, host, every + [LARGEST], every[-1023:] + [LARGEST], '1024 added')
    t.status(conn.put(LARGEST, 15, mark(LARGEST), BLOCK), n.OK, 'the largest NSID is written', 'NVM 3.2.6')
    t.eq(reads_back(conn, EDGES[:-2] + (LARGEST,)), [], 'and read', 'NVM 3.2.4')


def test(t, tgt):
    with tgt.host() as host:
        conn = host.queue()
        with t.guard('lists'):
            lists(t, host)
        with t.guard('ANA'):
            ana(t, host)
        with t.guard('I/O'):
            io(t, conn)
        with t.guard('reloads'):
            reloads(t, tgt, host, conn)


target.run(Tap(), test, namespaces=[space(nsid) for nsid in range(1, COUNT + 1)])
