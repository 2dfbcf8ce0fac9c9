# SPDX-License-Identifier: Apache-2.0
"""Verdicts, numbers, tables, and the file."""

import json
import os
import tempfile

from world import Tap, report, result, row, stats

tap = Tap()

half = stats.spread([1.4, 1.5, 1.6])
tap.eq(report.check('a', half, '>=', 1.5)['verdict'], 'pass', 'the median at its limit holds')
tap.eq(report.check('a', half, '>=', 1.51)['verdict'], 'MISS', 'below it is a miss, whatever the best run did')
tap.eq(report.check('a', half, '<=', 1.5)['verdict'], 'pass', 'at most, at the limit')
tap.eq(report.check('a', half, '<', 1.5)['verdict'], 'MISS', 'less than, at the limit')
tap.eq(report.check('a', half)['verdict'], 'reported', 'without a limit the verdict is reported')
tap.eq(report.check('a', None, '>=', 1)['verdict'], 'not measured', 'no runs: not measured, and not passed')
told = report.check('a', half, '>=', 1, reason='no SPDK_DIR')
tap.eq((told['verdict'], told['reason']), ('not measured', 'no SPDK_DIR'), 'a reason outweighs a value')
tap.ok('NOISY' in report.verdict_text(report.check('a', half, '>=', 1, is_noisy=True)), 'noisy runs are said')

for value, text in ((None, '-'), (1234567, '1.23M'), (812345, '812k'), (84000, '84.0k'), (9999, '9999'),
                    (11.94, '11.9'), (0.4321, '0.43'), (0, '0.00')):
    tap.eq(report.number(value), text, 'number %r' % value)

checks = [report.check('against SPDK', stats.spread([1.2]), '>=', 1.5, key='spdk'),
          report.check('against the ceiling', stats.spread([0.8]), '>=', 0.75, key='ceiling'),
          report.check('same client', stats.spread([1.1]), key='same')]
one = row('r1', {'weft': [100e3, 120e3], 'spdk': [90e3], 'echo': [150e3]}, checks)
two = row('r2', {'weft': [1.0]}, [report.check('x', None, '>=', 1, reason='no fio')])
whole = result([one, two])

lines = '\n'.join(report.row_lines(one))
tap.ok('110k [100k..120k] IOPS' in lines, 'a row shows median and range', why=lines)
tap.ok('ceiling' in lines and 'SPDK' in lines, 'and names the contenders', why=lines)
summary = report.summary_lines(whole)
tap.eq(summary[-1], '1 reached, 1 missed, 1 not measured', 'the summary counts what is judged')
tap.eq(len(summary), 1 + 3 + 1, 'one line for each judged check')
tap.eq(report.summary_lines(result([])), [], 'no rows, no table')

text = report.markdown(whole)
table = [l for l in text.splitlines() if l.startswith('| work r1 | IOPS')]
tap.eq(table, ['| work r1 | IOPS | 110k | 90.0k | 150k | 1.20 [1.20..1.20] (>= 1.5) MISS | '
               '0.80 [0.80..0.80] (>= 0.75) pass |'], 'the row of the markdown table')
tap.ok('not measured (no fio)' in text, 'and what was not measured, with the reason')
widths = {l.count('|') for l in text.splitlines() if l.startswith('| work')}
tap.eq(sorted(widths), [6, 8], 'the lines of a table have as many cells as its head')

curve = report.row_result('c', 'curve', {}, [], series={'weft': [
    {'offered': 1000, 'iops': stats.spread([1000]).as_dict(), 'target_cpu_percent': stats.spread([3]).as_dict()}]})
text = report.markdown(result([curve]))
tap.ok('| 1000 | 1000 [1000..1000] | 3.00 [3.00..3.00] |' in text, 'a curve becomes a table', why=text)

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, 'new', 'result.json')
    report.save(path, whole)
    tap.eq(report.load(path), json.loads(json.dumps(whole)), 'saved and loaded')
    tap.eq(os.listdir(os.path.dirname(path)), ['result.json'], 'nothing else is left there')
    former = json.loads(json.dumps(whole).replace('"reported"', '"told"'))
    tap.ok(former != whole, 'a file of an earlier version has another word')
    report.save(path, former)
    tap.eq(report.markdown(report.load(path)), report.markdown(whole), 'and has the same tables')
    other = os.path.join(folder, 'other.json')
    with open(other, 'w') as f:
        f.write('[1]')
    try:
        report.load(other)
        tap.ok(False, 'another file is refused')
    except ValueError as e:
        tap.ok('other.json' in str(e), 'another file is refused by name', why=e)

tap.done()
