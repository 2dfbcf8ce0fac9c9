# SPDX-License-Identifier: Apache-2.0
"""The parsers of the clients' output, and the clients' command lines."""

import json
import os
import tempfile

from world import Tap, fake_bench

from lib import echo, extras, fio, machine, process, spdk, weft
from lib.workload import Workload, seconds, size_bytes

tap = Tap()

SPDK_TEXT = """Initialization complete. Launching workers.\r
[warmup]    650000 IOPS,  2539.06 MiB/s\r========================================================\r
                                                       Latency(us)\r
Device Information      :       IOPS      MiB/s    Average        min        max\r
TCP (x) from core  1:  650000.50     2539.06      190.00     21.67    9551.41\r
========================================================\r
Total                   :  650000.50     2539.06      190.00      21.67    9551.41\r
\r
Summary latency data for TCP (x) from core 1:\r
  1.00000% :   78.286us\r
 50.00000% :   180.500us\r
 99.00000% :   400.250us\r
 99.90000% :   700.125us\r
"""
found = spdk.parse(SPDK_TEXT)
tap.eq((found['iops'], found['mib_per_s']), (650000.5, 2539.06), "SPDK's totals")
tap.eq(found['latency_us'], {'min': 21.67, 'mean': 190.0, 'max': 9551.41, 'p50': 180.5, 'p99': 400.25,
                             'p99_9': 700.125}, "SPDK's latencies")
tap.eq(spdk.parse('ERROR: nothing'), None, 'no totals, no figures')

WEFT = {'read': {'ios': 70, 'iops': 700.0, 'mib_per_s': 2.7, 'latency_us': {'avg': 9.0, 'p50': 8.0}},
        'write': {'ios': 30, 'iops': 300.0, 'mib_per_s': 1.2, 'latency_us': {'avg': 7.0, 'p50': 6.0}}, 'io_errors': 0}
found = weft.figures_of(WEFT)
tap.eq((found['iops'], round(found['mib_per_s'], 3)), (1000.0, 3.9), 'reads and writes of a mix are added')
tap.eq(found['latency_us'], {'mean': 9.0, 'p50': 8.0}, 'latency is that of the greater part')

FIO = {'jobs': [{'read': {'total_ios': 5, 'iops': 9000.0, 'bw_bytes': 2 * 1048576, 'lat_ns': {
    'min': 1000, 'mean': 2000.0, 'max': 9000, 'percentile': {'50.000000': 1500, '99.900000': 8000}}},
    'write': {'total_ios': 0}}]}
found = fio.parse('fio: this is a note\n' + json.dumps(FIO, indent=1) + '\n')
tap.eq((found['iops'], found['mib_per_s']), (9000.0, 2.0), "fio's rates")
tap.eq((found['latency_us']['p50'], found['latency_us']['p99_9']), (1.5, 8.0), "fio's percentiles")

tap.eq([size_bytes(t) for t in ('4k', '256M', '512')], [4096, 256 << 20, 512], 'sizes')
tap.eq([seconds(t) for t in ('1s', '500ms', '2m', '3')], [1.0, 0.5, 120.0, 3.0], 'times')
for bad in ('x', '1x', ''):
    try:
        seconds(bad)
        tap.ok(False, 'the time %r is refused' % bad)
    except ValueError:
        tap.ok(True, 'the time %r is refused' % bad)
tap.eq([Workload(depth=d).queue_size for d in (1, 31, 32, 127, 128)], [32, 32, 64, 128, 256],
       'a queue holds one command less than its size')


class Target:
    port, nqn, name = 4420, 'nqn.x', 'x'


bench = fake_bench()
mix = Workload('randrw', depth=32, queues=4, digests=True, mix_read=70)
argv = weft.perf_argv(bench, Target, mix, 0.3, 1.0)
given = dict(zip(argv, argv[1:]))
tap.eq([given[k] for k in ('--rw', '--depth', '--queues', '--queue-size', '--time', '--warmup', '--rwmixread')],
       ['randrw', '32', '4', '64', '1000ms', '300ms', '70'], 'weft perf gets depth per queue')
tap.ok('-g' in argv and '-G' in argv and '--rate' not in argv, 'and digests, and no rate')
argv = spdk.perf_argv(bench, Target, mix, 1, 1)
given = dict(zip(argv, argv[1:]))
tap.eq([given[k] for k in ('-q', '-P', '-M', '-o', '-w', '--io-queue-size')], ['128', '4', '70', '4096', 'randrw', '64'],
       'spdk_nvme_perf gets the depth of all queues together')
tap.ok('-H' in argv and '-I' in argv and '--no-huge' in argv and '-L' not in argv, 'and digests, and no histogram that nobody asked for')
argv = echo.client_argv(bench, Target, Workload(rate=50, sleeps=True), 0.3, 3.0)
tap.ok('--sleep' in argv and argv[argv.index('--rate') + 1] == '50', 'echo is paced and sleeps')

config = weft.config_of(4420, 'mem:1M', {'in_capsule_bytes': 0})
tap.eq(config['limits'], {'in_capsule_bytes': 0}, 'R2T is forced by a limit of the configuration')
methods = [c['method'] for s in spdk.config_of(1, '256M', 8192, 256)['subsystems'] for c in s['config']]
tap.eq(methods[-1], 'nvmf_subsystem_add_listener', 'SPDK listens when everything else is there')
with tempfile.TemporaryDirectory() as folder:
    try:
        spdk.find(folder)
        tap.ok(False, 'a tree that is not built is refused')
    except process.BenchError as e:
        tap.ok(folder in str(e) and 'build' in str(e), 'a tree that is not built is refused, with the remedy', why=e)

tap.eq(extras.counts_of({'compiler': 'x', 'rows': [{'name': 'read', 'target': 500.5, 'host': 400.0}]}),
       {'read, target': 500.5, 'read, host': 400.0}, 'instruction counts by row and side')
tap.eq(machine.steal_percent({0: (10, 100), 1: (0, 100)}, {0: (20, 200), 1: (0, 200)}), 10.0, 'steal of the worst CPU')
cpus = machine.Cpus({3, 5, 7})
tap.eq((cpus.target, cpus.load, cpus.own), (3, 5, {7}), 'target, load and we have CPUs of our own where we can')
tap.ok(machine.Cpus({2}).is_shared, 'one CPU is shared, and known to be')
facts = machine.facts(machine.Cpus(), os.path.dirname(__file__), '/nonexistent')
tap.ok(facts['cpu'] and facts['kernel'] and facts['memory_mib'] > 0, 'facts about this machine', why=facts)

tap.done()
