#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Keep alive: a silent host loses its controller, a host that sends anything keeps it. NVMe Base 2.1,
section 3.9. All hosts run at the same time, so that the test takes as long as the longest.
"""

import select
import time

import nvmetcp as n
import target
from tap import Tap

KATO_MS = 600
SLACK_S = 4.0


class Watched:
    def __init__(self, name, host, conns, action=None):
        self.name, self.host, self.conns, self.action = name, host, conns, action
        self.start = time.monotonic()
        self.ended = {}

    def look(self):
        for conn in self.conns:
            if conn in self.ended:
                continue
            if select.select([conn.sock], [], [], 0)[0]:
                try:
                    part = conn.sock.recv(1 << 16)
                except ConnectionResetError:
                    part = b''
                if part:
                    conn.buf += part
                else:
                    self.ended[conn] = time.monotonic() - self.start

    def act(self):
        if self.action and not self.ended:
            try:
                self.action()
            except n.Closed:
                self.ended[self.conns[0]] = time.monotonic() - self.start


def make(tgt):
    """name, and a host with its queues and what it does all the time"""
    def watched(name, kato_ms, action=None, queues=1, **kwargs):
        host = tgt.host(kato_ms=kato_ms, **kwargs)
        ios = [host.queue(qid) for qid in range(1, queues + 1)]
        return Watched(name, host, [host.admin] + ios, action and (lambda: action(host, ios)))

    return [
        watched('silent', KATO_MS, queues=3),
        watched('KATO 0', 0),
        watched('Keep Alive command', KATO_MS, lambda host, ios: host.admin.do(n.KEEP_ALIVE)),
        watched('admin traffic', KATO_MS, lambda host, ios: host.admin.identify(1)),
        watched('I/O traffic', KATO_MS, lambda host, ios: ios[0].read(1, 0, 1)),
        watched('discovery, silent', KATO_MS, queues=0, subnqn=n.DISCOVERY_NQN),
    ]


def feature(t, tgt):
    """Set Features starts the timer of a host that connected without one."""
    host = tgt.host(kato_ms=0)
    host.admin.set_feature(15, KATO_MS)
    return Watched('set by feature 0Fh', host, [host.admin])


def pending(t, tgt):
    """A command that runs when the time is over does not outlive its controller."""
    host = tgt.host(kato_ms=KATO_MS)
    conn = host.queue()
    watched = Watched('a slow command in flight', host, [host.admin, conn])
    conn.rw(n.WRITE, 2, 0, 1, 512, n.pattern(512))
    return watched


def test(t, tgt):
    everyone = make(tgt) + [feature(t, tgt), pending(t, tgt)]
    for watched in everyone:
        watched.start = time.monotonic()
    end = time.monotonic() + 3.2 * KATO_MS / 1000
    next_act = 0.0
    while time.monotonic() < end:
        if time.monotonic() >= next_act:
            for watched in everyone:
                watched.act()
            next_act = time.monotonic() + KATO_MS / 4000
        for watched in everyone:
            watched.look()
        select.select([conn.sock for w in everyone for conn in w.conns if conn not in w.ended],
                      [], [], 0.02)
    by_name = {watched.name: watched for watched in everyone}
    for name in ('silent', 'discovery, silent', 'set by feature 0Fh', 'a slow command in flight'):
        watched = by_name[name]
        for conn in watched.conns:
            if conn not in watched.ended and conn.wait_closed(SLACK_S):
                watched.ended[conn] = time.monotonic() - watched.start
        t.eq(len(watched.ended), len(watched.conns), name + ': every connection is closed',
             'Base 3.9.3')
        times = list(watched.ended.values()) or [0]
        t.ok(KATO_MS / 1000 * 0.9 <= min(times), name + ': not before KATO', 'Base 3.9', times)
        t.ok(max(times) <= 2 * KATO_MS / 1000 + SLACK_S, name + ': within twice KATO and slack',
             'Base 3.9.3', times)
    for name in ('KATO 0', 'Keep Alive command', 'admin traffic', 'I/O traffic'):
        watched = by_name[name]
        t.eq(len(watched.ended), 0, name + ': every connection stands', 'Base 3.9.4')
        with t.guard(name):
            t.status(watched.host.admin.do(n.KEEP_ALIVE), n.OK, name + ': and works', 'Base 3.9.4')
    t.eq(tgt.log().count('keep alive expired after'), 4, 'a log line for each that expired')
    with tgt.host() as host:
        t.status(host.queue().read(1, 0, 1), n.OK, 'new hosts are welcome', 'Base 3.9')
    for watched in everyone:
        watched.host.close()


SPACES = [target.namespace(1, 'mem:1M,block=512'),
          target.namespace(2, 'fault:delay:op=write:ms=1500@mem:1M,block=512')]

target.run(Tap(), test, namespaces=SPACES)
