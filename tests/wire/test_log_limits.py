#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
A host that connects again and again does not flood the log: lines about one address are limited, suppressed lines
are counted, and lines about other hosts are not suppressed.
"""

import nvmetcp as n
import target
from tap import Tap

PEER_LINES = 20   # in 10 s: base/log.h
VISITS = 150
HUNG_S = 60.0
ABOUT = (' connected to ', ' gone: ', 'keep alive expired')


def visit(tgt, address='127.0.0.1', hostnqn=n.HOST_NQN, **kwargs):
    with tgt.host(hostnqn=hostnqn, source=(address, 0), **kwargs):
        pass


def lines_about(tgt):
    return [line for line in tgt.log().splitlines() if any(text in line for text in ABOUT)]


def comes_and_goes(t, tgt):
    """One address connects under many host NQNs."""
    for i in range(VISITS):
        visit(tgt, hostnqn='nqn.2026-11.io.weft:visitor-%d' % i)
    other = 'nqn.2026-11.io.weft:innocent'
    visit(tgt, '127.0.0.2', other)
    t.ok(tgt.wait_log('host %s connected to' % other), 'a line about another host is there')
    t.ok(tgt.wait_log('host %s gone: ' % other), 'and that it is gone')
    return len([line for line in lines_about(tgt) if 'visitor-' in line])


def held_back(t, tgt):
    def again():
        visit(tgt)
        return 'lines about the peer of the next one were held back)' in tgt.log()
    t.ok(target.poll(again, HUNG_S, 0.2), 'what was held back is counted with the next line')


def expires(t, tgt):
    """Hosts of one address lose their keep alive one after another: those lines are limited too."""
    start = len([line for line in lines_about(tgt) if 'keep alive expired' in line])
    hosts = [tgt.host(source=('127.0.0.3', 0), kato_ms=100) for _ in range(60)]
    t.ok(all(host.admin.wait_closed(HUNG_S) for host in hosts), '60 hosts end by keep alive')
    for host in hosts:
        host.close()
    count = len([line for line in lines_about(tgt) if 'keep alive expired' in line]) - start
    t.ok(count <= 3 * PEER_LINES, 'keep alive expired: at most what a host may say', why=count)


def refused(t, tgt):
    """Repeated commands without a right, and a wrong CC."""
    with tgt.host(source=('127.0.0.4', 0)) as host:
        for _ in range(VISITS):
            host.admin.do(0x80, nsid=1)
        count = tgt.log().count('has no right to')
        t.ok(0 < count <= 3 * PEER_LINES, 'refused for want of a right: limited', why=count)


def test(t, tgt):
    with t.guard('comes and goes'):
        count = comes_and_goes(t, tgt)
        # A busy machine may take more than one window.
        t.ok(count < VISITS, 'a host that comes and goes %d times leaves fewer lines than visits'
             % VISITS, why=count)
        t.ok(count > 0, 'but some')
    for part in (held_back, expires, refused):
        with t.guard(part.__name__):
            part(t, tgt)


target.run(Tap(), test, args=('--discovery', 'none', '--log-level', 'info'))
