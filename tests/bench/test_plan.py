# SPDX-License-Identifier: Apache-2.0
"""Rounds within the time, repeats of noisy points, ratios of the kept values, missing peers."""

import time

from world import Tap, fake_bench, figures, report

from lib import plan, rows
from lib.process import BenchError

tap = Tap()


def scripted(*answers):
    """A measurement that returns these answers in order."""
    left = list(answers)

    def measure():
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer
    return measure


bench = fake_bench()
tap.eq(bench.point('r', 'weft', 0, scripted(figures(100)))['iops'], 100.0, 'a quiet point is taken once')
tap.eq(len(bench.points), 1, 'and recorded once')
kept = bench.point('r', 'weft', 1, scripted(figures(50, 40.0), figures(101)))
tap.eq(kept['iops'], 101.0, 'a noisy point is repeated')
thrown = bench.points[1]
tap.ok(not thrown['is_kept'] and thrown['figures']['iops'] == 50.0 and '40.0 %' in thrown['noisy'],
       'what was thrown away is recorded, and why', why=thrown)
kept = bench.point('r', 'weft', 2, scripted(figures(1, 50.0), figures(2, 10.0), figures(3, 30.0), figures(4)))
tap.eq(kept['iops'], 2.0, 'after two repeats the quietest of them stays')
tap.eq(bench.noisy_count('r'), (1, 3), 'kept although noisy, and thrown away')
tap.eq(bench.values('r', 'weft', 'iops'), {0: 100.0, 1: 101.0, 2: 2.0}, 'one value for each round')
tap.ok(not bench.is_noisy('r', ['weft']), 'one noisy point of three does not spoil a row')
tap.eq(bench.point('e', 'weft', 0, scripted(BenchError('broken'), figures(7)))['iops'], 7.0, 'an error is tried again')
tap.eq(bench.point('e', 'weft', 1, scripted(*[BenchError('broken')] * 3)), None, 'three errors give nothing')
tap.ok('broken' in bench.messages[-1], 'and are told')
slow = figures(9)
slow['noise']['speed'] = 0.5
tap.ok('0.50 of its best' in bench.noise_of(slow), 'a slow CPU is noise')
short = dict(figures(9), measured_s=0.1, asked_s=1.0)
tap.ok('measured 0.100' in bench.noise_of(short), 'a run that was cut short is noisy')

bench = fake_bench(missing=('spdk', 'fio', 'rate'))
for contender, load, why in (('spdk', None, 'no SPDK_DIR'), ('spdk>weft', None, 'no SPDK_DIR'), ('fio', None, 'no fio'),
                             ('weft>spdk', None, 'no SPDK_DIR'), ('weft', None, ''), ('echo', None, ''),
                             ('weft', rows.by_name('first-io').load, 'weft perf has no --rate')):
    tap.eq(bench.missing(contender, load), why, '%s without SPDK, fio and pacing' % contender)
row = rows.by_name('randread-128')
for round_ in range(3):
    for contender, iops in (('weft', 80 + round_), ('echo', 100 + round_)):
        bench.point(row.name, contender, round_, scripted(figures(iops, target_cpu_us_per_io=1.0)))
made = plan.row_result(bench, row)
by_key = {c['key']: c for c in made['checks']}
tap.eq(by_key['spdk']['verdict'], 'not measured', 'without SPDK its column is not measured')
tap.eq(by_key['ceiling']['verdict'], 'pass', 'and the ceiling is')
tap.eq(round(by_key['ceiling']['value']['median'], 3), round(81 / 101, 3), 'the median of the paired ratios')

bench = fake_bench()
row = rows.by_name('file-1')
for contender, p50 in (('echo', 10.0), ('weft-file', 62.0), ('fio', 50.0)):
    bench.point(row.name, contender, 0, scripted(figures(1, latency_us={'p50': p50})))
check = plan.row_result(bench, row)['checks'][0]
tap.eq((check['value']['median'], check['verdict']), (1.2, 'pass'), 'added latency is counted in echo round trips')
row = rows.by_name('cpu-128')
for contender, cpu in (('weft', 0.6), ('spdk', 1.0), ('weft>spdk', 0.75), ('spdk>weft', 0.6)):
    bench.point('randread-128', contender, 0, scripted(figures(1, target_cpu_us_per_io=cpu)))
checks = plan.row_result(bench, row)['checks']
tap.eq([(round(c['value']['median'], 2), c['verdict']) for c in checks], [(0.6, 'pass'), (0.8, 'reported'), (0.6, 'reported')],
       'CPU per I/O uses the points of its source; with the same client it is reported')

row = rows.by_name('host-128')
for contender, iops, used in (('weft>weft-hot', 900, 90.0), ('spdk>weft-hot', 700, 100.0)):
    bench.point(row.name, contender, 1, scripted(figures(iops, client_cpu_percent=used)))
check = plan.row_result(bench, row)['checks'][0]
tap.eq((round(check['value']['median'], 2), check['verdict']), (1.43, 'pass'), 'clients are compared by IOPS per core used')

noisy = fake_bench(retries=0)
for round_ in range(3):
    noisy.point('n', 'weft', round_, scripted(figures(1)))
    noisy.point('n', 'spdk', round_, scripted(figures(1, 9.0 if round_ else 0.0)))
tap.ok(noisy.is_noisy('n', ['weft', 'spdk']) and not noisy.is_noisy('n', ['weft']), 'one noisy side spoils a ratio')

bench = fake_bench(budget_s=1e6)
bench.began = time.monotonic()
names = [r.name for r in rows.ROWS]
tap.eq(plan.Plan(bench, names, []).rounds_for(0), 5, 'much time: all rounds')
bench.options.budget_s = 1.0
tap.eq(plan.Plan(bench, names, []).rounds_for(0), plan.LEAST_ROUNDS, 'no time: the fewest')
whole = plan.Plan(fake_bench(budget_s=600.0), names, [])
whole.deadline = time.monotonic() + 600
tap.ok(whole.later_cost(0, whole.wanted_rounds) < 15 * 60, 'all rows and rounds are planned below 15 minutes',
       why=whole.later_cost(0, whole.wanted_rounds))
tap.eq([r.name for r in plan.Plan(bench, ['cpu-128'], []).rows], ['randread-128', 'cpu-128'],
       'a row that uses the points of another brings it')
tap.eq(len(names), len(set(names)), 'no two rows share a name')
judged = sum(1 for r in rows.ROWS for c in r.checks if c.limit is not None)
tap.ok(judged >= 25, 'every promise is judged', why=judged)
tap.eq([f for r in rows.ROWS for c in r.checks for side in (c.above, c.below, c.minus) if side
        for f in [side[1]] if f not in report.FIGURES], [], 'every figure that is judged is known to the report')

tap.done()
