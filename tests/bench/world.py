# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of the bench: the library's path, and a bench that never runs a program."""

import os
import sys
import types

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, 'bench'), os.path.join(ROOT, 'tests', 'wire')]

from lib import bench as bench_lib, machine, report, stats  # noqa: E402
from tap import Tap  # noqa: E402,F401


def options(**more):
    given = {'rounds': 5, 'retries': 2, 'run_delay_limit': 4.0, 'steal_limit': 2.0, 'speed_limit': 0.85, 'without': [], 'budget_s': 600.0,
             'file_folder': None, 'quick': False}
    return types.SimpleNamespace(**dict(given, **more))


def fake_bench(missing=(), **more):
    """A Bench that finds all programs except those in missing: spdk, echo, fio, rate."""
    bench = bench_lib.Bench.__new__(bench_lib.Bench)
    bench.options = options(**more)
    bench.cpus = machine.Cpus({0, 1})
    bench.points, bench.messages, bench.targets = [], [], {}
    bench.began = 0.0
    bench.time_s, bench.warmup_s = 1.0, 0.3
    bench.is_budget_spent = lambda: False
    bench.spdk = None if 'spdk' in missing else {'nvmf_tgt': '/t', 'spdk_nvme_perf': '/p', 'has_hugepages': False}
    bench.echo = None if 'echo' in missing else '/echo'
    bench.fio = None if 'fio' in missing else '/fio'
    bench.has_rate = 'rate' not in missing
    bench.weft = '/weft'
    bench.machine_speed = lambda: 1.0
    bench.say = bench.messages.append
    return bench


def figures(iops, delay=0.0, **more):
    return dict({'iops': float(iops), 'noise': {'run_delay_percent': delay, 'steal_percent': 0.0}}, **more)


def row(name, values, checks, shown='iops'):
    """values: {contender: [iops, ...]}."""
    return report.row_result(name, 'work ' + name, {c: {shown: stats.spread(v)} for c, v in values.items()}, checks,
                             shown)


def result(rows, **machine_facts):
    return {'rows': rows, 'machine': dict({'commit': 'abc', 'cpu': 'one'}, **machine_facts), 'started': 'then',
            'options': {'rounds': 3, 'time_s': 1.0}, 'peers': {}, 'counts': {}}
