#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Asynchronous events: requests and their limit; changes of namespaces, ANA states and the discovery log by a
new configuration; what masks and unmasks a notice. NVMe Base 2.1, sections 5.1.2, 5.1.12 (RAE), 5.1.25.1.5;
ANA: section 8.1.1.
"""

import struct

import nvmetcp as n
import target
from tap import Tap

# DW0 of the completion: type 2 (notice), information in 15:8, log page in 23:16. Base 5.1.2.1
NS_NOTICE = 2 | 0x00 << 8 | 0x04 << 16
ANA_NOTICE = 2 | 0x03 << 8 | 0x0c << 16
DISCOVERY_NOTICE = 2 | 0xf0 << 8 | 0x70 << 16
NS_BIT, ANA_BIT, DISCOVERY_BIT = 1 << 8, 1 << 11, 1 << 31


def spaces(config):
    return config['subsystems'][0]['namespaces']


def add_ns(nsid, size='1M'):
    return lambda config: spaces(config).append(
        target.namespace(nsid, 'mem:%s,block=4096' % size))


def drop_ns(nsid):
    def change(config):
        config['subsystems'][0]['namespaces'] = [ns for ns in spaces(config)
                                                 if ns['nsid'] != nsid]
    return change


def set_ana(state):
    def change(config):
        config['ports'][0]['ana'] = [{'group': 1, 'state': state}] if state else []
    return change


def nothing_came(conn, cmd):
    """True when the event request is still held after a later command was answered."""
    conn.do(n.KEEP_ALIVE)
    return not cmd.is_done


def changed(host, **kwargs):
    page = bytes(host.admin.get_log(4, 4096, **kwargs).data)
    return [nsid for nsid in struct.unpack('<1024I', page) if nsid]


def limit(t, tgt):
    with tgt.host() as host:
        aerl = host.admin.identify(1).data[259] + 1
        held = [host.admin.submit(n.AER) for _ in range(aerl)]
        cmd = host.admin.do(n.AER)
        t.status(cmd, n.AER_LIMIT, 'one request more than AERL', 'Base 5.1.2')
        t.ok(not any(cmd.is_done for cmd in held), 'the others are held', 'Base 5.1.2')


def namespaces(t, tgt):
    with tgt.host() as host:
        admin = host.admin
        conn = host.queue()
        admin.set_feature(11, NS_BIT | ANA_BIT)
        aer = admin.submit(n.AER)
        tgt.reload(add_ns(5))
        admin.wait(aer)
        t.eq((aer.status, aer.dw0), (n.OK, NS_NOTICE), 'namespace added: notice', 'Base 5.1.2.1')
        t.status(conn.read(5, 0, 1, 4096), n.OK, 'namespace added: it can be read', 'Base 3.2.1')
        aer = admin.submit(n.AER)
        tgt.reload(drop_ns(5))
        t.ok(nothing_came(admin, aer), 'a second change is masked until the log is read',
             'Base 5.1.2')
        t.status(conn.read(5, 0, 1, 4096), n.INACTIVE_NS, 'namespace removed: it is gone',
                 'Base 3.2.1')
        t.eq(changed(host, rae=1), [5], 'changed namespace list, RAE 1', 'Base 5.1.12.1.5')
        t.ok(nothing_came(admin, aer), 'RAE 1 keeps the notice masked', 'Base 5.1.12, RAE')
        t.eq(changed(host), [5], 'changed namespace list, RAE 0', 'Base 5.1.12.1.5')
        t.eq(changed(host), [], 'reading it clears it', 'Base 5.1.12.1.5')
        t.ok(nothing_came(admin, aer), 'what was read is not reported again', 'Base 5.1.2')
        tgt.reload(lambda config: [add_ns(7)(config), add_ns(6)(config)])
        admin.wait(aer)
        t.eq(aer.dw0, NS_NOTICE, 'after RAE 0 the next change is reported', 'Base 5.1.2')
        t.eq(changed(host), [6, 7], 'two at once, in order', 'Base 5.1.12.1.5')
        aer = admin.submit(n.AER)
        tgt.reload(lambda config: [drop_ns(6)(config), add_ns(6, '2M')(config)])
        admin.wait(aer)
        t.eq((aer.dw0, changed(host)), (NS_NOTICE, [6]), 'a namespace that grows', 'Base 5.1.2.1')
        t.eq(struct.unpack_from('<Q', bytes(admin.identify(0, 6).data))[0], 512,
             'and Identify tells its new size', 'NVM 4.1.5.1')
        tgt.reload(lambda config: [drop_ns(6)(config), drop_ns(7)(config)])


def masked(t, tgt):
    with tgt.host() as host:
        admin = host.admin
        admin.set_feature(11, ANA_BIT)
        aer = admin.submit(n.AER)
        tgt.reload(add_ns(8))
        t.ok(nothing_came(admin, aer), 'not enabled in feature 0Bh: no notice',
             'Base 5.1.25.1.5')
        t.eq(changed(host), [8], 'but the list has it', 'Base 5.1.12.1.5')
        admin.set_feature(11, ANA_BIT | NS_BIT)
        t.ok(nothing_came(admin, aer), 'read before it was enabled: no notice', 'Base 5.1.2')
        tgt.reload(drop_ns(8))
        admin.wait(aer)
        t.eq(aer.dw0, NS_NOTICE, 'enabled: the next change is reported', 'Base 5.1.25.1.5')


def pending(t, tgt):
    with tgt.host() as host:
        admin = host.admin
        admin.set_feature(11, NS_BIT)
        tgt.reload(add_ns(9))
        aer = admin.do(n.AER)
        t.eq(aer.dw0, NS_NOTICE, 'an event waits for a request', 'Base 5.1.2')
        tgt.reload(drop_ns(9))


def ana(t, tgt):
    rows = [
        ('non-optimized', 2, n.OK),
        ('inaccessible', 3, n.ANA_INACCESSIBLE),
        ('persistent-loss', 4, n.ANA_LOSS),
        ('change', 15, n.ANA_TRANSITION),
        (None, 1, n.OK),
    ]
    with tgt.host() as host:
        admin = host.admin
        conn = host.queue()
        admin.set_feature(11, ANA_BIT)
        counts = []
        for state, number, status in rows:
            name = 'ANA state %s: ' % (state or 'optimized')
            aer = admin.submit(n.AER)
            tgt.reload(set_ana(state))
            admin.wait(aer)
            t.eq((aer.status, aer.dw0), (n.OK, ANA_NOTICE), name + 'notice', 'Base 5.1.2.1')
            page = bytes(admin.get_log(0x0c, 4096).data)
            counts.append(struct.unpack_from('<Q', page)[0])
            t.eq(page[32] & 15, number, name + 'log page', 'Base 5.1.12.1.13')
            cmd = conn.read(1, 0, 1)
            t.status(cmd, status, name + 'Read', 'Base 8.1.1.4')
            if status != n.OK:
                t.eq(cmd.dnr, 0, name + 'another path may succeed: DNR 0', 'Base 8.1.1.4')
                t.status(conn.put(1, 0, bytes(512)), status, name + 'Write', 'Base 8.1.1.4')
        t.ok(all(a < b for a, b in zip(counts, counts[1:])), 'the change count rises',
             'Base 5.1.12.1.13', counts)


def discovery(t, tgt):
    with tgt.host(n.DISCOVERY_NQN, kato_ms=60000) as host:
        admin = host.admin
        t.status(admin.set_feature(11, DISCOVERY_BIT), n.OK, 'discovery: notices are enabled',
                 'Base 5.1.25.1.5')
        t.eq(admin.get_feature(11).dw0, DISCOVERY_BIT, 'discovery: and read back',
             'Base 5.1.25.1.5')
        before = struct.unpack_from('<QQ', bytes(admin.get_log(0x70, 1024).data))
        aer = admin.submit(n.AER)
        tgt.reload(lambda config: config['subsystems'].append(
            {'nqn': 'nqn.2026-11.io.weft:second', 'serial': 'B', 'namespaces': []}))
        admin.wait(aer)
        t.eq((aer.status, aer.dw0), (n.OK, DISCOVERY_NOTICE), 'discovery log changed: notice',
             'Base 5.1.2.1')
        after = struct.unpack_from('<QQ', bytes(admin.get_log(0x70, 1024).data))
        t.ok(after[0] != before[0], 'discovery log changed: GENCTR', 'Base 5.1.12.3.1')
        t.eq(after[1], before[1] + 1, 'discovery log changed: one record more', 'Base 5.1.12.3.1')


def removal(t, tgt):
    """Removing a subsystem ends its controllers; the others stay."""
    with tgt.host('nqn.2026-11.io.weft:second') as gone, tgt.host() as stays:
        tgt.reload(lambda config: config['subsystems'].pop())
        t.ok(gone.admin.wait_closed(), 'the subsystem is removed: its connections end',
             'Base 3.1.2')
        t.status(stays.admin.do(n.KEEP_ALIVE), n.OK, 'those of others stay', 'Base 3.1.2')


def bad_reload(t, tgt):
    with tgt.host() as host:
        good = tgt.config
        tgt.config = {'version': 1, 'subsystems': 'none'}
        tgt.write_config()
        before = tgt.log().count('the old configuration stays')
        tgt.process.send_signal(1)
        t.ok(target.poll(lambda: tgt.log().count('the old configuration stays') > before),
             'a configuration that is wrong is refused with a log line')
        t.status(host.queue().read(1, 0, 1), n.OK, 'and the old one works on')
        tgt.config = good
        tgt.reload()


def test(t, tgt):
    for part in (limit, namespaces, masked, pending, ana, discovery, removal, bad_reload):
        with t.guard(part.__name__):
            part(t, tgt)


target.run(Tap(), test)
