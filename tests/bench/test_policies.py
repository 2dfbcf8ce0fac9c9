# SPDX-License-Identifier: Apache-2.0
"""The shortest run of bench/policies: links delay and stall as configured, the report has the measured values.
No figure is judged: the machine may be busy.

    test_policies.py WEFT PROGRAMS
"""

import json
import os
import subprocess
import sys
import tempfile

from world import Tap

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, 'tests', 'torture'))

import stage  # noqa: E402

ARGS = ['--rounds', '1', '--time', '300ms', '--hedge-time', '1s', '--rate', '500', '--stall-every-us', '200000',
        '--stall-us', '20000']


def main():
    lacking = stage.why_not()
    if lacking:
        print('1..0 # SKIP ' + lacking)
        return 0
    tap = Tap()
    with tempfile.TemporaryDirectory(prefix='weft-policies-test-') as folder:
        path = os.path.join(folder, 'result.json')
        process = subprocess.Popen([sys.executable, os.path.join(ROOT, 'bench', 'policies'), '--weft', sys.argv[1],
                                    '--programs', sys.argv[2], '--output', path, *ARGS], stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True)
        out, _ = process.communicate(timeout=100)
        tap.ok(process.returncode in (0, 1) and os.path.exists(path), 'it runs, and the exit status is that of the aims',
               why=out)
        with open(path) as file:
            policy, hedge = json.load(file)['parts']
    missed = any(not verdict['is_met'] for part in (policy, hedge) for verdict in part['verdicts'])
    tap.eq(process.returncode, 1 if missed else 0, 'and says whether one is missed')
    turns = policy['results']['round-robin'][0]['paths']
    tap.ok(turns[1]['latency_us'] > 4400, 'the slow link is slow both ways', why=turns)
    tap.ok(turns[0]['latency_us'] > 400, 'and the other has its delay', why=turns)
    tap.eq(sorted(policy['results']), ['latency', 'queue-depth', 'round-robin'], 'every policy had its turn')
    without, with_hedge = (hedge['results'][name][0] for name in ('without', 'with'))
    # 500 reads a second, every second one on that link: some are sent in the first 5 ms of a stall.
    tap.ok(without['read']['latency_us']['max'] > 15000, 'the link that stalls stalls', why=without['read'])
    tap.ok('hedge' in with_hedge and 'hedge' not in without, 'reads are hedged in one of two')
    leftover = subprocess.run(['ip', 'netns', 'list'], capture_output=True, text=True).stdout
    tap.ok('weft-policies-%d-' % process.pid not in leftover, 'no namespace is left', why=leftover)
    return tap.done()


sys.exit(main())
