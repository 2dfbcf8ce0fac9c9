#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Placement of connections on reactors. A host opens an admin queue and then its I/O queues. Only I/O queues make
load, so they must be spread, also when every host has only one. The test measures the run time of each reactor's
thread while one queue is loaded.
"""

import target
from tap import Tap

REACTORS = 2
HOSTS = 4


def one_queue_each(t, tgt):
    hosts, conns = [], []
    for _ in range(HOSTS):
        hosts.append(tgt.host())
        conns.append(hosts[-1].queue())
    serves = [tgt.reactor_of(conn) for conn in conns]
    for host in hosts:
        host.close()
    counts = sorted(serves.count(name) for name in tgt.reactor_run_ns())
    t.eq(counts, [HOSTS // REACTORS] * REACTORS, 'hosts with one queue each are spread')


def many_queues(t, tgt):
    with tgt.host() as host:
        serves = [tgt.reactor_of(host.queue(qid)) for qid in range(1, 1 + HOSTS)]
    counts = sorted(serves.count(name) for name in tgt.reactor_run_ns())
    t.eq(counts, [HOSTS // REACTORS] * REACTORS, 'the queues of one host are spread')


def test(t, tgt):
    one_queue_each(t, tgt)
    many_queues(t, tgt)


target.run(Tap(), test, reactors=REACTORS)
