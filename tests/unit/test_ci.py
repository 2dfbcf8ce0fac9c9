#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
.ci/steps with the test's own steps: the end of the log has every failed case of every step, however much the
steps print, and the totals are right. And what tools/run-tests keeps of a failed case.
"""

import importlib.machinery
import importlib.util
import os
import subprocess
import sys

from tap import Tap

sys.dont_write_bytecode = True  # of tools/run-tests, which has no place for it
ROOT = sys.argv[1]
TAIL = 40  # lines visible in a cut log


def run(script, **env):
    text = 'set -euo pipefail\n. "%s/.ci/steps"\n%s\nsteps_end\n' % (ROOT, script)
    env = {**{k: v for k, v in os.environ.items() if k != 'CI'}, **env}
    done = subprocess.run(['bash', '-c', text], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)
    return done.returncode, done.stdout.splitlines()


def passes(t):
    code, lines = run('a() { echo "ok 1 - x"; echo "3 passed, 0 failed, 1 skipped"; }\nstep one a\nstep two true')
    t.eq((code, lines[-1]), (0, '4 passed, 0 failed, 1 skipped'), 'nothing failed: the totals, status 0')
    t.ok(not any('What failed' in line for line in lines), 'nothing failed: no list', why='\n'.join(lines))


def fails(t):
    code, lines = run('''
many() { seq 20000; echo "not ok: wire-io: a read"; seq 20000; echo "not ok 7 - a write"; seq 20000
	echo "8 passed, 2 failed, 0 skipped"; return 1; }
sim() { echo "# target seed 12: a block is lost"; echo "# replay: make sim SEED=12"; echo "not ok 1 - 600 seeds from 1"
	seq 20000; echo "0 passed, 1 failed, 0 skipped"; return 1; }
compiler() { seq 100; echo "x.c:1: error: no such thing"; return 2; }
step test many
step sim sim
step gcc compiler
step tidy true
''')
    end = lines[-TAIL:]
    t.eq((code, lines[-1]), (1, '9 passed, 4 failed, 0 skipped'), 'the totals, status 1')
    for want in ('test: not ok: wire-io: a read', 'test: not ok 7 - a write', 'sim: # target seed 12: a block is lost',
                 'sim: not ok 1 - 600 seeds from 1', 'gcc: status 2, its last lines:', 'x.c:1: error: no such thing'):
        t.ok(any(want in line for line in end), 'at the end: ' + want, why='\n'.join(end))
    t.ok(any(line.startswith('tidy ') and ' ok' in line for line in end), 'a step after a failed one runs')


def killed(t):
    """A step that exits with an error and counts no failure is one failure."""
    code, lines = run('a() { echo "5 passed, 0 failed, 0 skipped"; return 137; }\nstep asan a')
    t.eq((code, lines[-1]), (1, '5 passed, 1 failed, 0 skipped'), 'a bad end is a failure')
    t.ok(any('asan: status 137' in line for line in lines[-TAIL:]), 'and named', why='\n'.join(lines))


def diagnostics(t):
    """tools/run-tests keeps what a program prints about a failed case, before it (C) or after it (Python)."""
    loader = importlib.machinery.SourceFileLoader('run_tests', os.path.join(ROOT, 'tools', 'run-tests'))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader('run_tests', loader))
    loader.exec_module(module)
    tap = module.Tap('ok 1 - good\n# a.c:7: expected x\nnot ok 2 - in C\nok 3 - good\nnot ok 4 - in Python\n'
                     '#   expected 1\n#   got      2\nok 5 - good\n1..5\n')
    t.eq(tap.failures, [('in C', ['# a.c:7: expected x']), ('in Python', ['#   expected 1', '#   got      2'])],
         'the diagnostics of failed cases')
    t.eq((tap.passed, tap.cases), (3, 5), 'and all cases are counted')


def skips(t):
    t.eq(run('skip interop "no guest"')[1][-1], '0 passed, 0 failed, 1 skipped', 'a skipped step')
    code, lines = run('skip interop "no guest"', CI='true')
    t.eq((code, lines[-1]), (1, '0 passed, 1 failed, 0 skipped'), 'with CI=true it is a failure')
    t.ok(any('interop: skipped: no guest' in line for line in lines), 'and named', why='\n'.join(lines))


tap = Tap()
for part in (passes, fails, killed, diagnostics, skips):
    with tap.guard(part.__name__):
        part(tap)
sys.exit(tap.done())
