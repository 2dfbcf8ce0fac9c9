#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Namespaces hidden from some hosts: Identify, lists, the ANA and changed namespace logs, events and I/O show a host
only the namespaces that it may use. A hidden namespace looks like a missing one everywhere. NVMe Base 2.1,
sections 3.2.1, 5.1.2, 5.1.13, 8.1.15.
"""

import struct

import nvmetcp as n
import target
from tap import Tap

HOST_A = 'nqn.2014-08.org.nvmexpress:uuid:aaaaaaaa-0000-4000-8000-000000000001'
HOST_B = 'nqn.2014-08.org.nvmexpress:uuid:bbbbbbbb-0000-4000-8000-000000000002'
HOST_C = 'nqn.2014-08.org.nvmexpress:uuid:cccccccc-0000-4000-8000-000000000003'
NS_NOTICE = 2 | 0x00 << 8 | 0x04 << 16
ANA_NOTICE = 2 | 0x03 << 8 | 0x0c << 16
NS_BIT, ANA_BIT = 1 << 8, 1 << 11

# NSID: who sees it. Group 3 holds namespaces of A alone.
SEEN = {
    HOST_A: [1, 2, 4, 6],
    HOST_B: [1, 3, 6],
    HOST_C: [1, 3, 4, 6],
}
NAMESPACES = [
    target.namespace(1, 'mem:1M,block=512'),
    target.namespace(2, 'mem:1M,block=512', hosts=[HOST_A], ana_group=3),
    target.namespace(3, 'mem:1M,block=512', hidden_from=[HOST_A], ana_group=2),
    target.namespace(4, 'mem:1M,block=512', hosts=[HOST_A, HOST_C]),
    target.namespace(5, 'mem:1M,block=512', hosts=[]),
    target.namespace(6, 'mem:1M,block=512', ana_group=2),
]


def spaces(config):
    return config['subsystems'][0]['namespaces']


def set_mask(nsid, **mask):
    def change(config):
        ns = next(ns for ns in spaces(config) if ns['nsid'] == nsid)
        ns.pop('hosts', None)
        ns.pop('hidden_from', None)
        ns.update(mask)
    return change


def numbers(page):
    return [nsid for nsid in struct.unpack('<1024I', bytes(page)) if nsid]


def ana_groups(page):
    page = bytes(page)
    groups, at = {}, 16
    for _ in range(struct.unpack_from('<H', page, 8)[0]):
        group, count = struct.unpack_from('<II', page, at)
        groups[group] = list(struct.unpack_from('<%dI' % count, page, at + 32))
        at += 32 + 4 * count
    return groups


def changed(host):
    return numbers(host.admin.get_log(4, 4096).data)


def one_host(t, tgt, name, hostnqn):
    seen = SEEN[hostnqn]
    groups = {}
    for nsid in seen:
        group = next(ns for ns in NAMESPACES if ns['nsid'] == nsid).get('ana_group', 1)
        groups.setdefault(group, []).append(nsid)
    with tgt.host(hostnqn=hostnqn) as host:
        admin, conn = host.admin, host.queue()
        t.eq(numbers(admin.identify(2, 0).data), seen, name + ': the list of namespaces',
             'Base 5.1.13.2.3')
        t.eq(numbers(admin.identify(7, 0).data), seen, name + ': the list by command set',
             'Base 5.1.13.2.8')
        t.eq(numbers(admin.identify(2, 2).data), [nsid for nsid in seen if nsid > 2],
             name + ': the list behind an NSID', 'Base 5.1.13.2.3')
        got = [nsid for nsid in range(1, 7) if any(bytes(admin.identify(0, nsid).data))]
        t.eq(got, seen, name + ': Identify Namespace is empty for the others', 'Base 5.1.13.2.1')
        got = [nsid for nsid in range(1, 7) if any(bytes(admin.identify(8, nsid).data))]
        t.eq(got, seen, name + ': and the page independent of the command set', 'Base 5.1.13.2.9')
        got = [nsid for nsid in range(1, 7) if admin.identify(3, nsid).status == n.OK]
        t.eq(got, seen, name + ': descriptors of those alone', 'Base 5.1.13.2.4')
        got = [nsid for nsid in range(1, 7) if conn.read(nsid, 0, 1).status == n.OK]
        t.eq(got, seen, name + ': Read', 'Base 3.2.1')
        got = [nsid for nsid in range(1, 7)
               if conn.put(nsid, 0, bytes(512)).status == n.INACTIVE_NS]
        t.eq(got, [nsid for nsid in range(1, 7) if nsid not in seen],
             name + ': Write to the others is refused', 'Base 3.2.1')
        t.eq(ana_groups(admin.get_log(0x0c, 4096).data), groups, name + ': the ANA log',
             'Base 5.1.12.1.13')
        rgo = {group: [] for group in groups}
        t.eq(ana_groups(admin.get_log(0x0c, 4096, lsp=1).data), rgo,
             name + ': the ANA log, groups only', 'Base 5.1.12.1.13')


def views(t, tgt):
    one_host(t, tgt, 'a host that is named', HOST_A)
    one_host(t, tgt, 'one that is not', HOST_B)
    one_host(t, tgt, 'one that shares', HOST_C)


def quiet(host, cmd):
    host.admin.do(n.KEEP_ALIVE)
    return not cmd.is_done


def events(t, tgt):
    with tgt.host(hostnqn=HOST_A) as a, tgt.host(hostnqn=HOST_B) as b:
        for host in (a, b):
            host.admin.set_feature(11, NS_BIT | ANA_BIT)
        queue_a, queue_b = a.queue(), b.queue()
        aer_a, aer_b = a.admin.submit(n.AER), b.admin.submit(n.AER)

        tgt.reload(set_mask(2, hosts=[HOST_A, HOST_B]))
        b.admin.wait(aer_b)
        t.eq((aer_b.dw0, changed(b)), (NS_NOTICE, [2]), 'one that becomes visible is reported',
             'Base 5.1.2.1')
        t.ok(quiet(a, aer_a), 'and nothing to the host that saw it all along', 'Base 5.1.2.1')
        t.eq(changed(a), [], 'whose list stays empty', 'Base 5.1.12.1.5')
        t.status(queue_b.read(2, 0, 1), n.OK, 'it can be read', 'Base 3.2.1')

        aer_b = b.admin.submit(n.AER)
        tgt.reload(set_mask(2, hosts=[HOST_B]))
        a.admin.wait(aer_a)
        t.eq((aer_a.dw0, changed(a)), (NS_NOTICE, [2]), 'one that is hidden is reported',
             'Base 5.1.2.1')
        t.ok(quiet(b, aer_b), 'and nothing to the other host', 'Base 5.1.2.1')
        t.status(queue_a.read(2, 0, 1), n.INACTIVE_NS, 'it is gone for I/O', 'Base 3.2.1')
        t.eq(any(bytes(a.admin.identify(0, 2).data)), False, 'and for Identify',
             'Base 5.1.13.2.1')

        aer_a = a.admin.submit(n.AER)
        tgt.reload(lambda config: spaces(config).append(
            target.namespace(9, 'mem:1M,block=512', hosts=[HOST_B])))
        b.admin.wait(aer_b)
        t.eq((aer_b.dw0, changed(b)), (NS_NOTICE, [9]), 'a new one: told to whom it is for',
             'Base 5.1.2.1')
        t.ok(quiet(a, aer_a), 'and to nobody else', 'Base 5.1.2.1')
        aer_b = b.admin.submit(n.AER)

        tgt.reload(lambda config: config['ports'][0].update(
            ana=[{'group': 3, 'state': 'non-optimized'}]))
        b.admin.wait(aer_b)
        t.eq(aer_b.dw0, ANA_NOTICE, 'the state of a group in which it sees something',
             'Base 5.1.2.1')
        t.ok(quiet(a, aer_a), 'nothing of a group in which it sees nothing', 'Base 5.1.2.1')

        # The mask names other hosts: the index of every host changes, its visible namespaces do not.
        tgt.reload(set_mask(5, hosts=['nqn.2014-08.io.weft:first']))
        t.ok(quiet(a, aer_a), 'a mask that does not concern it is no event', 'Base 5.1.2.1')
        t.status(queue_a.read(4, 0, 1), n.OK, 'what it sees stays', 'Base 3.2.1')
        t.status(queue_a.read(9, 0, 1), n.INACTIVE_NS, 'and what it does not', 'Base 3.2.1')
        t.status(queue_b.read(9, 0, 1), n.OK, 'of either host', 'Base 3.2.1')

        # The same NSID with another identity, in one change.
        def other(config):
            config['subsystems'][0]['namespaces'] = [
                ns for ns in spaces(config) if ns['nsid'] != 4] + [
                target.namespace(4, 'mem:1M,block=512', hosts=[HOST_A],
                                 uuid='0b5d8a3e-4f1c-4a6e-9d7b-1c2d3e4f5a6b')]
        tgt.reload(other)
        a.admin.wait(aer_a)
        t.eq((aer_a.dw0, changed(a)), (NS_NOTICE, [4]), 'an NSID that becomes another namespace',
             'Base 5.1.2.1')
        t.eq(changed(b), [], 'is nothing to a host that saw neither', 'Base 5.1.12.1.5')


def test(t, tgt):
    for part in (views, events):
        with t.guard(part.__name__):
            part(t, tgt)


target.run(Tap(), test, namespaces=NAMESPACES)
