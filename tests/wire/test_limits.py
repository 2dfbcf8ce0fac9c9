#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Limits against hosts that are silent, incomplete, or too many: deadlines for ICReq, Connect and data after an R2T;
connections in total and per host; controllers. The target's own guarantees (docs, limits), not the
specification's, except where a row names a section.
"""

import time

import nvmetcp as n
import target
from tap import Tap

# Long enough for this program to be in time on a busy machine where it means to be.
IC_MS, CONNECT_MS, DATA_MS = 1500, 2000, 1500
HUNG_S = 30.0  # for hangs only; slowness is no failure
IDLE_MS = 1500
SPARE_PER_HOST = 4
BUSY = (1, 0x81)


def deadline_rows(tgt):
    """name, connection, earliest and latest end in seconds, text that the log must contain"""
    silent = tgt.conn()
    half_ic = tgt.conn()
    half_ic.send(n.icreq()[:100])
    no_connect = tgt.conn()
    no_connect.ic()
    half_connect = tgt.conn()
    half_connect.ic()
    cmd = half_connect.submit_fabrics(n.CONNECT, n.connect_body(), n.connect_data(target.NQN),
                                      send=False)
    half_connect.send(cmd.wire[:500])
    refused = tgt.conn()
    refused.ic()
    refused.connect('nqn.2026-11.io.weft:nobody')
    host = tgt.host()
    owing = host.queue(1)
    owed = owing.rw(n.WRITE, 1, 0, 8, 512, bytes(4096), way='r2t', is_auto=False)
    owing.wait_r2t(owed)
    part = host.queue(2)
    owed = part.rw(n.WRITE, 1, 0, 8, 512, bytes(4096), way='r2t', is_auto=False)
    r2t = part.wait_r2t(owed)
    part.send(part.h2cdata(owed.cid, r2t.ttag, 0, bytes(2048), False))
    return host, [
        ('no ICReq', silent, IC_MS, None),
        ('half an ICReq', half_ic, IC_MS, None),
        ('no Connect', no_connect, CONNECT_MS, 'no Connect command in time'),
        ('half a Connect', half_connect, CONNECT_MS, 'no Connect command in time'),
        ('a Connect that was refused, then nothing', refused, CONNECT_MS,
         'no Connect command in time'),
        ('data owed, none sent', owing, DATA_MS, 'requested data did not arrive in time'),
        ('data owed, half sent', part, DATA_MS, 'requested data did not arrive in time'),
    ]


def deadlines(t, tgt):
    start = time.monotonic()
    host, rows = deadline_rows(tgt)
    ends = {}
    while len(ends) < len(rows) and time.monotonic() - start < HUNG_S:
        for name, conn, _, _ in rows:
            if name not in ends and conn.wait_closed(0.01):
                ends[name] = time.monotonic() - start
    for name, conn, least_ms, text in rows:
        t.ok(name in ends, name + ': cut off')
        at = ends.get(name, 0)
        t.ok(at >= least_ms / 1000, name + ': not before the deadline', why=at)
        if text:
            t.ok(tgt.wait_log(text), name + ': a log line says so')
        conn.close()
    t.status(host.admin.do(n.KEEP_ALIVE), n.OK, 'the admin queue of a host that owes data stands')
    t.status(host.queue(3).read(1, 0, 1), n.OK, 'and its other queues may work')
    host.close()


def passed_over(t, tgt):
    """Missing data ends the connection although other commands arrive."""
    start = time.monotonic()
    with tgt.host() as host:
        conn = host.queue(1, sqsize=3)
        owed = conn.rw(n.WRITE, 1, 0, 8, 512, bytes(4096), way='r2t', is_auto=False)
        conn.wait_r2t(owed)
        is_cut = False
        while not is_cut and time.monotonic() - start < HUNG_S:
            try:
                conn.put(2, 0, bytes(131072))
            except (n.Closed, ConnectionError):
                is_cut = True
        t.ok(is_cut, 'a host that passes over what it was asked for is cut off')
        t.ok(time.monotonic() - start >= DATA_MS / 1000, 'not before the deadline')


def is_refused(tgt, ic=False, **kwargs):
    """Whether the target resets the connection after accepting it: it cannot refuse earlier."""
    try:
        with tgt.conn(**kwargs) as conn:
            if ic:
                conn.ic()
                return False
            return conn.wait_closed(2 * IC_MS / 1000)
    except (n.Closed, ConnectionError):
        return True


def spare_connections(t, tgt, address, what):
    """Above a limit discovery works, I/O controllers are refused."""
    conns = [tgt.conn(source=(address, 0)) for _ in range(2)]
    for conn in conns:
        conn.ic()
    t.status(conns[0].connect(target.NQN), BUSY, what + ' gets no controller for I/O',
             'Base 6.3, Connect Controller Busy')
    t.status(conns[1].connect(n.DISCOVERY_NQN), n.OK, what + ' may be for discovery')
    conns[1].enable()
    t.status(conns[1].get_log(0x70, 1024), n.OK, what + ' reads the discovery log')
    return conns


def shares(t):
    """One host, by address or by name, cannot take the controllers of others."""
    tgt = target.Target(limits={'controllers': 8, 'controllers_per_host': 3})
    hosts = []

    def connect(address, hostnqn):
        conn = tgt.conn(source=(address, 0))
        conn.ic()
        hosts.append(conn)
        return conn.connect(target.NQN, hostnqn=hostnqn).status

    def name(i):
        return 'nqn.2026-11.io.weft:host-%d' % i

    try:
        with t.guard('shares'):
            t.eq([connect('127.0.0.1', name(i)) for i in range(4)], [n.OK] * 3 + [BUSY],
                 'an address gets its share, whatever names it claims')
            t.ok(tgt.wait_log('gets no controller: limits.controllers_per_host'),
                 'with a log line that names the limit')
            t.eq([connect('127.0.0.%d' % (10 + i), name(9)) for i in range(4)], [n.OK] * 3 + [BUSY],
                 'a name gets its share, from whatever addresses it comes')
            t.eq(connect('127.0.0.30', name(30)), n.OK, 'another host gets in')
            hosts.pop(0).close()
            t.ok(target.poll(lambda: connect('127.0.0.1', name(1)) == n.OK, HUNG_S),
                 'a controller that ended gives its share back')
            discovery = tgt.conn(source=('127.0.0.1', 0))
            hosts.append(discovery)
            discovery.ic()
            t.status(discovery.connect(n.DISCOVERY_NQN), n.OK,
                     'a host without controllers left still discovers')
    finally:
        for conn in hosts:
            conn.close()
        tgt.finish(t)


def idle(t):
    """A controller without keep alive and commands ends; others stay."""
    tgt = target.Target(limits={'idle_timeout_ms': 0})
    try:
        with t.guard('idle'):
            names = ('idle', 'waits for events', 'sends commands', 'has keep alive', 'discovers')
            hosts = {name: tgt.host(subnqn=n.DISCOVERY_NQN if name == 'discovers' else target.NQN,
                                    kato_ms=120000 if name == 'has keep alive' else 0)
                     for name in names}
            hosts['waits for events'].admin.submit(0x0c)
            io = hosts['idle'].queue(1)

            def set_limit(config):
                config['limits']['idle_timeout_ms'] = IDLE_MS
            start = time.monotonic()
            tgt.reload(set_limit)
            ended = {}
            while len(ended) < 3 and time.monotonic() - start < 60:
                hosts['sends commands'].admin.do(n.KEEP_ALIVE)
                for name in ('idle', 'waits for events', 'discovers'):
                    if name not in ended and hosts[name].admin.wait_closed(0.01):
                        ended[name] = time.monotonic() - start
            for name in ('idle', 'waits for events', 'discovers'):
                t.ok(name in ended, 'KATO 0, ' + name + ': ends after limits.idle_timeout_ms')
                t.ok(ended.get(name, 0) >= IDLE_MS / 1000 * 0.9, 'KATO 0, ' + name + ': not before')
            t.ok(io.wait_closed(), 'its I/O queues end too')
            t.ok(tgt.wait_log('no Keep Alive and no other command for limits.idle_timeout_ms'),
                 'with a log line that names the limit')
            t.status(hosts['sends commands'].admin.do(n.KEEP_ALIVE), n.OK,
                     'KATO 0, sends commands: stays')
            t.status(hosts['has keep alive'].admin.do(n.KEEP_ALIVE), n.OK, 'KATO 120 s: stays')
            for host in hosts.values():
                host.close()
    finally:
        tgt.finish(t)


def counts(t):
    tgt = target.Target(limits={'connections': 8, 'connections_per_host': 6, 'controllers': 3})
    try:
        with t.guard('counts'):
            conns = [tgt.conn() for _ in range(6)]
            for conn in conns:
                conn.ic()
            spares = spare_connections(t, tgt, '127.0.0.1', 'the 7th connection of one host')
            t.ok(tgt.wait_log('limits.connections_per_host'),
                 'with a log line that names the limit')
            for _ in range(SPARE_PER_HOST - len(spares)):
                spares.append(tgt.conn())
                spares[-1].ic()
            t.ok(is_refused(tgt), 'what is left for discovery ends: the 11th is refused')
            for conn in spares:
                conn.close()
            # The target has seen the close when it accepts again.
            t.ok(target.poll(lambda: not is_refused(tgt, ic=True), HUNG_S), 'and closing gives it back')
            others = [tgt.conn(source=('127.0.0.2', 0)) for _ in range(2)]
            for conn in others:
                conn.ic()
            t.ok(all(conn.is_silent() for conn in conns), 'another host may still come')
            spares = spare_connections(t, tgt, '127.0.0.3', 'the 9th connection in total')
            t.ok(tgt.wait_log('(limits.connections)'), 'with a log line that names the limit')
            for conn in spares + [conns.pop()]:
                conn.close()

            def again():
                conn = tgt.conn()
                conn.ic()
                conns.insert(0, conn)
                return conn.connect(target.NQN).status == n.OK or conns.pop(0).close()
            t.ok(target.poll(again, HUNG_S), 'room that is given back can be used')
            statuses = [conn.connect(target.NQN).status for conn in conns[1:4]]
            t.eq(statuses, [n.OK] * 2 + [BUSY], 'the 4th controller: Controller Busy',
                 'Base 6.3, Connect Controller Busy')
            t.ok(tgt.wait_log('gets no controller: limits.controllers'),
                 'with a log line that names the limit')
            t.status(conns[4].connect(n.DISCOVERY_NQN), n.OK, 'discovery has an account of its own')
            for conn in conns + others:
                conn.close()
    finally:
        tgt.finish(t)


def deaf(t, tgt):
    """A host that requests far more data than it receives must not hold the buffers of others."""
    start = time.monotonic()
    with tgt.host() as host:
        conn = host.queue(1)
        for _ in range(120):
            conn.rw(n.READ, 2, 0, 512, 512, is_auto=False)
        t.ok(target.poll(lambda: 'the peer does not read' in tgt.log(), HUNG_S),
             'a host that does not read is cut off, and the log says so')
        t.ok(time.monotonic() - start >= DATA_MS / 1000, 'not before the deadline')
        t.status(host.queue(2).read(2, 0, 1), n.OK, 'its other queues work on')


def churn(t, tgt):
    """Opening and closing connections leaves no resources behind."""
    for i in range(100):
        conn = tgt.conn()
        if i % 4 == 1:
            conn.send(n.icreq()[:i])
        elif i % 4 == 2:
            conn.ic()
        elif i % 4 == 3:
            conn.ic()
            conn.connect(target.NQN)
        conn.close()
    with tgt.host() as host:
        t.status(host.queue().read(1, 0, 1), n.OK, 'after 100 connections that broke off')


def test(t, tgt):
    with t.guard('deadlines'):
        deadlines(t, tgt)
    with t.guard('passed over'):
        passed_over(t, tgt)
    with t.guard('deaf'):
        deaf(t, tgt)
    with t.guard('churn'):
        churn(t, tgt)
    for part in (counts, shares, idle):
        part(t)


target.run(Tap(), test, namespaces=[target.namespace(1, 'mem:4M,block=512'),
                                    target.namespace(2, 'null:64M,block=512')],
           limits={'ic_timeout_ms': IC_MS, 'connect_timeout_ms': CONNECT_MS,
                   'data_timeout_ms': DATA_MS})
