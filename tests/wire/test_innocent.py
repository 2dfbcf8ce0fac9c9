#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Innocent hosts beside a hostile one (neighbour.py), which floods, drips, hoards, lies and escapes, each alone and all of
it at once. The innocent ones judge: every command succeeds, every block reads back as written, and their p99 stays within
a factor of what it is without the neighbour, measured right before and after. Meanwhile discovery answers, the operator
gets in, and nothing that the neighbour calls itself reaches a terminal.
"""

import json
import os
import re
import subprocess
import sys
import tempfile

import neighbour
import target
from tap import Tap

QUIET_NQN, COMMON_NQN = 'nqn.2026-11.io.weft:innocent', 'nqn.2026-11.io.weft:common'
LOAD_S, MISCHIEF_S = 3, 60
# The neighbour takes its share of the machine: CPU, memory bandwidth, the disk. It must not take the others'. A queue that
# starves waits until the mischief ends. A reactor that has more to do waits longer for a CPU, the more others want one.
P99_FACTOR, P99_MORE_MS, P99_PER_LOAD_MS = 10, 300, 200
HERE = os.path.dirname(os.path.abspath(__file__))
CONTROL = re.compile('[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]')


class Innocents:
    """Hosts with an address of their own: small and large blocks, in the neighbour's subsystem and in their own."""

    LOADS = ((QUIET_NQN, 1, '4k'), (COMMON_NQN, 2, '64k'))

    def __init__(self, server):
        self.runs = [subprocess.Popen(
            [target.weft_path(), 'perf', '-a', '127.0.0.1', '-s', str(server.port), '-n', nqn, '--nsid', str(nsid), '--hostnqn',
             'nqn.2026-11.io.weft:host-%d' % i, '--bs', size, '--rw', 'randrw', '--rwmixread', '50', '--depth', '16', '--rate',
             '200', '--time', '%ds' % LOAD_S, '--verify', '--json', '--quiet', '--no-spin'],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for i, (nqn, nsid, size) in enumerate(self.LOADS)]

    def wait(self):
        """(the worst p99 in ms, what went wrong)."""
        worst, wrong = 0.0, []
        for run in self.runs:
            out, err = run.communicate(timeout=90)
            if run.returncode != 0:
                wrong.append('status %d: %s' % (run.returncode, (err + out)[-800:]))
                continue
            result = json.loads(out)
            worst = max([worst] + [result[kind]['latency_us']['p99'] / 1000 for kind in ('read', 'write')])
            if result['io_errors'] or result['verify']['errors']:
                wrong.append('%d failed, %s' % (result['io_errors'], result['verify']))
        return worst, wrong


def p99_quiet(t, server, what):
    p99_ms, wrong = Innocents(server).wait()
    t.eq(wrong, [], what + ': all is well without a neighbour')
    return p99_ms


def people(t, server, word):
    """What people ask meanwhile."""
    state = os.path.join(server.folder, 'state')
    for words in (('status',), ('connections',), ('audit',)):
        run = subprocess.run([target.weft_path(), 'ctl', '--state', state, *words], capture_output=True, text=True,
                             errors='replace', timeout=30)
        t.ok(run.returncode == 0 and not CONTROL.search(run.stdout), '%s: weft ctl %s' % (word, words[0]),
             why=repr(run.stdout[-500:] + run.stderr))
    run = subprocess.run([target.weft_path(), 'discover', '-a', '127.0.0.1', '-s', str(server.port)], capture_output=True,
                         text=True, timeout=30)
    t.ok(run.returncode == 0 and COMMON_NQN in run.stdout, word + ': discovery answers', why=run.stdout + run.stderr)


def bound_more_ms():
    return P99_MORE_MS + P99_PER_LOAD_MS * os.getloadavg()[0] / len(os.sched_getaffinity(0))


def meet(t, server, words, quiet_ms):
    """The p99 beside the neighbour and what the machine adds; judged once the quiet after is known, too."""
    name = ' and '.join(words) if len(words) < 3 else 'all at once'
    mischief = [subprocess.Popen(
        [sys.executable, os.path.join(HERE, 'neighbour.py'), word, '127.0.0.1', str(server.port), COMMON_NQN, str(MISCHIEF_S),
         '127.0.0.9'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for word in words]
    t.eq([process.stdout.readline() for process in mischief], ['ready\n'] * len(words), name + ': the neighbour is at it')
    p99_ms, wrong = Innocents(server).wait()
    t.eq(wrong, [], name + ': nothing of the innocent hosts fails')
    people(t, server, name)
    more_ms = bound_more_ms()
    for process in mischief:
        process.stdin.close()
    for word, process in zip(words, mischief):
        out = process.stdout.read()
        process.wait(60)
        did = json.loads(out) if out else {}
        t.ok(process.returncode == 0 and any(not key.startswith('refused') for key in did), '%s: and did it' % word, why=out)
        print('# %s: p99 %.1f ms (%.1f quiet); %s' % (name, p99_ms, quiet_ms, did), flush=True)
    return name, p99_ms, more_ms


def rows(t, server):
    quiet_ms = p99_quiet(t, server, 'before')
    met = []
    for words in [(word,) for word in neighbour.WORDS] + [neighbour.WORDS]:
        met.append(meet(t, server, words, quiet_ms))
        t.ok(server.is_running(), met[-1][0] + ': the target lives', why=server.log()[-2000:])
    quiet_ms = max(quiet_ms, p99_quiet(t, server, 'after'))
    for name, p99_ms, more_ms in met:
        t.ok(p99_ms <= P99_FACTOR * quiet_ms + more_ms, '%s: the p99 of the others stays' % name,
             why='%.1f ms, %.1f ms without, %.0f ms more for the load' % (p99_ms, quiet_ms, more_ms))
    with open(server.log_path, errors='surrogateescape') as file:
        strange = [line for line in file if CONTROL.search(line.rstrip('\n'))]
    t.eq(strange[:3], [], 'no line of the log has a control character')


def run_all(t):
    with tempfile.TemporaryDirectory(prefix='weft-neighbour-') as folder:
        def media(name, size='32M'):
            return 'file:%s,size=%s,block=%d' % (os.path.join(folder, name), size, neighbour.BLOCK)
        port = target.free_port()
        config = target.config_of(port, subsystems=[
            {'nqn': QUIET_NQN, 'allow_any_host': True, 'namespaces': [target.namespace(1, media('own'))]},
            {'nqn': COMMON_NQN, 'allow_any_host': True,
             'namespaces': [target.namespace(1, media('his', '%d' % neighbour.NS_BYTES)), target.namespace(2, media('ours'))]}])
        server = target.Target(config, port=port)
        with t.guard('neighbour'):
            rows(t, server)
        server.finish(t)
    return t.done()


if __name__ == '__main__':
    raise SystemExit(run_all(Tap()))
