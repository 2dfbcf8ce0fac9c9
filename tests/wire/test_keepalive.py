#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Keep alive: a silent host loses its controller, a host that sends anything keeps it. NVMe Base 2.1, section 3.9.
All hosts run at the same time, so the test takes as long as the longest.

A busy machine may stop this program for longer than a short KATO. Hosts that are to be lost therefore set their
KATO (feature 0Fh) when the measurement begins. A host that is to stay is judged only as far as this program did
send in time. tests/sim/test_deadlines.c tests the same to the millisecond.
"""

import select
import time

import nvmetcp as n
import target
from tap import Tap

KATO_MS = 600
TALK_KATO_MS = 3000
TALK_S = 0.1
HUNG_S = 30.0  # for hangs only; slowness is no failure
FEATURE = 0x0f


class Watched:
    """A host, and when each of its connections ended, in seconds after its last command was sent."""

    def __init__(self, name, host, conns, action=None, kato_ms=KATO_MS):
        self.name, self.host, self.conns, self.action = name, host, conns, action
        self.kato_s = kato_ms / 1000
        self.ended = {}
        self.longest_gap = 0.0
        self.sent = time.monotonic()

    def begin(self):
        """From now on the host is silent, or sends only its action."""
        self.sent = time.monotonic()
        self.host.admin.set_feature(FEATURE, int(self.kato_s * 1000))

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
                    self.ended[conn] = time.monotonic() - self.sent

    def act(self):
        if not self.action or self.ended:
            return
        before = time.monotonic()
        try:
            self.action()
        except n.Closed:
            self.ended[self.conns[0]] = time.monotonic() - self.sent
        # The command was sent between the two times.
        self.longest_gap = max(self.longest_gap, time.monotonic() - self.sent)
        self.sent = before


def make(tgt):
    """Sets up the hosts. Only the host with a KATO in its Connect has a keep alive timer yet."""
    def watched(name, action=None, queues=1, kato_ms=KATO_MS, **kwargs):
        host = tgt.host(kato_ms=0, **kwargs)
        ios = [host.queue(qid) for qid in range(1, queues + 1)]
        return Watched(name, host, [host.admin] + ios, action and (lambda: action(host, ios)), kato_ms)

    at_connect = tgt.host(kato_ms=TALK_KATO_MS)
    lost = [
        watched('silent', queues=3),
        watched('discovery, silent', queues=0, subnqn=n.DISCOVERY_NQN),
        watched('a slow command in flight'),
    ]
    stay = [
        watched('KATO 0', kato_ms=0),
        watched('Keep Alive command', lambda host, ios: host.admin.do(n.KEEP_ALIVE), kato_ms=TALK_KATO_MS),
        watched('admin traffic', lambda host, ios: host.admin.identify(1), kato_ms=TALK_KATO_MS),
        watched('I/O traffic', lambda host, ios: ios[0].read(1, 0, 1), kato_ms=TALK_KATO_MS),
    ]
    for host in lost + stay:
        host.begin()
    lost[2].conns[1].rw(n.WRITE, 2, 0, 1, 512, n.pattern(512))
    lost.append(Watched('given in the Connect', at_connect, [at_connect.admin], kato_ms=TALK_KATO_MS))
    lost[-1].sent = time.monotonic()
    at_connect.admin.do(n.KEEP_ALIVE)
    return lost, stay


def play(lost, stay):
    """Runs until the silent hosts are lost and the others have sent for longer than their KATO."""
    begin = time.monotonic()
    next_act = 0.0
    while time.monotonic() - begin < HUNG_S:
        if time.monotonic() >= next_act:
            for watched in stay:
                watched.act()
            next_act = time.monotonic() + TALK_S
        for watched in lost + stay:
            watched.look()
        is_over = all(len(w.ended) == len(w.conns) for w in lost)
        if is_over and time.monotonic() - begin > 1.2 * TALK_KATO_MS / 1000:
            return
        select.select([conn.sock for w in lost + stay for conn in w.conns if conn not in w.ended], [], [], 0.02)


def test(t, tgt):
    lost, stay = make(tgt)
    play(lost, stay)
    for watched in lost:
        t.eq(len(watched.ended), len(watched.conns), watched.name + ': every connection is closed', 'Base 3.9.3')
        times = list(watched.ended.values()) or [0]
        t.ok(watched.kato_s <= min(times), watched.name + ': not before KATO', 'Base 3.9', times)
    for watched in stay:
        name = watched.name
        if watched.kato_s and watched.longest_gap >= watched.kato_s:
            t.skip(name, 'this machine let %.1f s pass between two commands' % watched.longest_gap)
            continue
        t.eq(len(watched.ended), 0, name + ': every connection stands', 'Base 3.9.4')
        with t.guard(name):
            t.status(watched.host.admin.do(n.KEEP_ALIVE), n.OK, name + ': and works', 'Base 3.9.4')
    expired = len(lost) + sum(len(watched.ended) > 0 for watched in stay)
    t.ok(target.poll(lambda: tgt.log().count('keep alive expired after') == expired), 'a log line for each that expired',
         why=tgt.log().count('keep alive expired after'))
    with tgt.host() as host:
        t.status(host.queue().read(1, 0, 1), n.OK, 'new hosts are welcome', 'Base 3.9')
        host.admin.set_feature(FEATURE, 0xffffffff)
        t.eq(host.admin.get_feature(FEATURE).dw0, 0xffffffff // 100 * 100,
             'the longest KATO: the largest multiple of KAS', 'Base 5.1.25.1.12')
    for watched in lost + stay:
        watched.host.close()


SPACES = [target.namespace(1, 'mem:1M,block=512'),
          target.namespace(2, 'fault:delay:op=write:ms=1500@mem:1M,block=512')]

target.run(Tap(), test, namespaces=SPACES)
