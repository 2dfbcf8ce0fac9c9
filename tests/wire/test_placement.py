#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Which reactor a connection lands on. A host opens an admin queue and then its I/O queues; only the
latter make work, so it is they that must be spread, also when every host has just one of them.
What is looked at is the time that each reactor's thread has run while one queue was loaded.
"""

import os

import target
from tap import Tap

REACTORS = 2
HOSTS = 4
READS = 400


def reactor_run_ns(tgt):
    """Run time of each reactor's thread so far, by the thread's name."""
    times = {}
    tasks = '/proc/%d/task' % tgt.process.pid
    for task in os.listdir(tasks):
        with open('%s/%s/comm' % (tasks, task)) as file:
            name = file.read().strip()
        with open('%s/%s/schedstat' % (tasks, task)) as file:
            run_ns = int(file.read().split()[0])
        if name.startswith('weft-r'):
            times[name] = run_ns
    return times


def busiest(tgt, conn):
    """The reactor that serves this queue: the one that runs when it is loaded."""
    before = reactor_run_ns(tgt)
    for i in range(READS):
        conn.read(1, i % 64, 8)
    after = reactor_run_ns(tgt)
    spent = {name: after[name] - before[name] for name in after}
    return max(spent, key=spent.get)


def one_queue_each(t, tgt):
    hosts, conns = [], []
    for _ in range(HOSTS):
        hosts.append(tgt.host())
        conns.append(hosts[-1].queue())
    serves = [busiest(tgt, conn) for conn in conns]
    for host in hosts:
        host.close()
    counts = sorted(serves.count(name) for name in reactor_run_ns(tgt))
    t.eq(counts, [HOSTS // REACTORS] * REACTORS, 'hosts with one queue each are spread')


def many_queues(t, tgt):
    with tgt.host() as host:
        serves = [busiest(tgt, host.queue(qid)) for qid in range(1, 1 + HOSTS)]
    counts = sorted(serves.count(name) for name in reactor_run_ns(tgt))
    t.eq(counts, [HOSTS // REACTORS] * REACTORS, 'the queues of one host are spread')


def test(t, tgt):
    one_queue_each(t, tgt)
    many_queues(t, tgt)


target.run(Tap(), test, reactors=REACTORS)
