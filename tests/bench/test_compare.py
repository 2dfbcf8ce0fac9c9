# SPDX-License-Identifier: Apache-2.0
"""The output and the exit status of bench/compare."""

import os
import subprocess
import sys
import tempfile

from world import ROOT, Tap, report, result, row, stats

from lib import compare

tap = Tap()
PROGRAM = os.path.join(ROOT, 'bench', 'compare')


def run_of(weft, ratio, limit=1.0, relation='>='):
    checks = [report.check('against the ceiling', stats.spread(ratio), relation, limit, key='ceiling')]
    return result([row('r', {'weft': weft, 'echo': [100, 101, 102]}, checks)])


def verdicts(old, new, kind):
    return [c['verdict'] for c in compare.compare(old, new) if c['kind'] == kind]


base = run_of([99, 100, 101], [0.99, 1.0, 1.01])
slow = run_of([79, 80, 81], [0.79, 0.8, 0.81])
tap.eq(verdicts(base, base, 'ratio'), ['same'], 'a result against itself: the same')
tap.eq(compare.lines_of(base, base)[1], 0, 'and no regression')
tap.eq(verdicts(base, slow, 'ratio'), ['worse'], 'a ratio that fell beyond the noise is worse')
tap.eq(verdicts(slow, base, 'ratio'), ['better'], 'the other way round it is better')
tap.eq(compare.lines_of(base, slow)[1], 1, 'one regression: the ratio, not the plain figure beside it')

lower = [run_of([1, 1], r, 1.0, '<=') for r in ([0.99, 1.0, 1.01], [0.79, 0.8, 0.81])]
tap.eq(verdicts(*lower, 'ratio'), ['better'], 'where less is wanted, less is better')

day = run_of([79, 80, 81], [0.99, 1.0, 1.01])
tap.eq(verdicts(base, day, 'figure')[0], 'worse', 'a plain figure that fell is told')
tap.eq(compare.lines_of(base, day)[1], 0, 'but a slower day is no regression')
alone = [result([row('r', {'weft': v}, [])]) for v in ([99, 100, 101], [79, 80, 81])]
tap.eq(compare.lines_of(*alone)[1], 1, 'a row without a ratio is judged by its figure')

noisy = run_of([60, 80, 120], [0.6, 0.8, 1.2])
tap.eq(compare.lines_of(base, noisy)[1], 0, 'a fall inside the noise is none')
lines = '\n'.join(compare.lines_of(base, slow)[0])
tap.ok('was pass, is MISS' in lines, 'what crossed its limit is told', why=lines)
lines = '\n'.join(compare.lines_of(base, result([], cpu='two'))[0])
tap.ok('machine: cpu was one, is two' in lines, 'another machine is told', why=lines)
tap.ok('only in the old result: r' in lines, 'so is a row that is gone', why=lines)

counted = [dict(result([]), counts={'read': n, 'gone': 5}) for n in (1000, 1100)]
tap.eq(compare.lines_of(*counted)[1], 1, 'ten per cent more instructions are a regression')
counted[1]['counts']['read'] = 1010
tap.eq(compare.lines_of(*counted)[1], 0, 'one per cent is not')

with tempfile.TemporaryDirectory() as folder:
    paths = [os.path.join(folder, n) for n in ('old.json', 'new.json')]
    for path, data in zip(paths, (base, slow)):
        report.save(path, data)

    def program(*args):
        return subprocess.run([sys.executable, PROGRAM] + list(args), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False)

    done = program(*paths)
    tap.eq(done.returncode, 0, 'compare only tells')
    tap.ok('1 regressions' in done.stdout, 'and says the number', why=done.stdout)
    tap.eq(program(*paths, '--fail-on-regression').returncode, 1, 'unless asked to fail')
    tap.eq(program(paths[1], paths[0], '--fail-on-regression').returncode, 0, 'an improvement does not fail')
    done = program(paths[0], os.path.join(folder, 'none.json'))
    tap.ok(done.returncode == 2 and 'none.json' in done.stdout, 'a file that is not there is named', why=done.stdout)

tap.done()
