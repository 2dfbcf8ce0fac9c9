#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Innocent hosts beside a hostile one (neighbour.py) that floods, drips, hoards, lies and escapes, each alone and all
at once. For the innocent hosts every command succeeds, every block reads back as written, and no host starves.
Meanwhile discovery answers, `weft ctl` works, and no name that the hostile host sends reaches a terminal
unescaped.

A host starves when its p99 exceeds ten times the p99 without the hostile host (measured before and after), plus
two seconds, plus the time for which the threads that serve the innocent hosts were ready to run without a CPU.
That time (schedstat) is measured over the same seconds and is caused by the machine's load. A host without buffers
waits as long as the hostile host holds them, at least 30 s (data_timeout_ms).

The media are files in memory. On a disk, the kernel completes direct writes in a worker (iomap_dio_complete_work)
that is bound to a CPU. While the hostile host and a reactor woke each other on that CPU, the worker was seen to
wait 9 s for it.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import threading

import neighbour
import target
from tap import Tap

QUIET_NQN, COMMON_NQN = 'nqn.2026-11.io.weft:innocent', 'nqn.2026-11.io.weft:common'
LOAD_S, MISCHIEF_S = 3, 60
P99_FACTOR, STARVED_MS = 10, 2000
SAMPLE_S = 0.02
MEDIA_BYTES = 16 << 20
HERE = os.path.dirname(os.path.abspath(__file__))
CONTROL = re.compile('[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]')


class CpuWait(threading.Thread):
    """
    Total time for which the threads of some processes were ready to run without a CPU, except log writers, which
    serve no command.
    """

    def __init__(self, pids):
        super().__init__(daemon=True)
        self.pids = pids
        self.before, self.now = self.read(), {}
        self.is_over = threading.Event()
        self.start()

    def read(self):
        return {task: wait_ns for pid in self.pids
                for task, (comm, *_, wait_ns) in target.threads_of(pid).items() if comm != 'weft-log'}

    def run(self):
        while not self.is_over.wait(SAMPLE_S):  # the times of a thread that ends are lost
            self.now.update(self.read())

    def stop_ms(self):
        self.is_over.set()
        self.join()
        self.now.update(self.read())
        return sum(wait_ns - self.before.get(task, 0) for task, wait_ns in self.now.items()) / 1e6


class Innocents:
    """Hosts with their own address: small and large blocks, in the neighbour's subsystem and in another one."""

    LOADS = ((QUIET_NQN, 1, '4k'), (COMMON_NQN, 2, '64k'))

    def __init__(self, server):
        self.runs = [subprocess.Popen(
            [target.weft_path(), 'perf', '-a', '127.0.0.1', '-s', str(server.port), '-n', nqn, '--nsid', str(nsid), '--hostnqn',
             'nqn.2026-11.io.weft:host-%d' % i, '--bs', size, '--rw', 'randrw', '--rwmixread', '50', '--depth', '16', '--rate',
             '200', '--time', '%ds' % LOAD_S, '--verify', '--json', '--quiet', '--no-spin'],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for i, (nqn, nsid, size) in enumerate(self.LOADS)]
        self.cpu_wait = CpuWait([server.process.pid] + [run.pid for run in self.runs])

    def wait(self):
        """(the worst p99 in ms, the time without a CPU in ms, what went wrong)."""
        worst, wrong = 0.0, []
        for run in self.runs:
            out, err = run.communicate(timeout=90)
            if run.returncode != 0:
                wrong.append('status %d: %s' % (run.returncode, (err + out)[-800:]))
                continue
            result = json.loads(out)
            for kind in ('read', 'write'):
                worst = max(worst, result[kind]['latency_us']['p99'] / 1000)
                if result[kind]['ios'] == 0:
                    wrong.append('not one %s' % kind)
            if result['io_errors'] or result['verify']['errors']:
                wrong.append('%d failed, %s' % (result['io_errors'], result['verify']))
        return worst, self.cpu_wait.stop_ms(), wrong


def p99_quiet(t, server, what):
    p99_ms, _, wrong = Innocents(server).wait()
    t.eq(wrong, [], what + ': all is well without a neighbour')
    return p99_ms


def people(t, server, word):
    """Runs the operator's commands meanwhile."""
    state = os.path.join(server.folder, 'state')
    for words in (('status',), ('connections',), ('audit',)):
        run = subprocess.run([target.weft_path(), 'ctl', '--state', state, *words], capture_output=True, text=True,
                             errors='replace', timeout=30)
        t.ok(run.returncode == 0 and not CONTROL.search(run.stdout), '%s: weft ctl %s' % (word, words[0]),
             why=repr(run.stdout[-500:] + run.stderr))
    run = subprocess.run([target.weft_path(), 'discover', '-a', '127.0.0.1', '-s', str(server.port)], capture_output=True,
                         text=True, timeout=30)
    t.ok(run.returncode == 0 and COMMON_NQN in run.stdout, word + ': discovery answers', why=run.stdout + run.stderr)


def meet(t, server, words, quiet_ms):
    """
    Returns the p99 beside the hostile host and the time without a CPU; judged once the later quiet p99 is known.
    """
    name = ' and '.join(words) if len(words) < 3 else 'all at once'
    mischief = [subprocess.Popen(
        [sys.executable, os.path.join(HERE, 'neighbour.py'), word, '127.0.0.1', str(server.port), COMMON_NQN, str(MISCHIEF_S),
         '127.0.0.9'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for word in words]
    t.eq([process.stdout.readline() for process in mischief], ['ready\n'] * len(words), name + ': the neighbour is at it')
    p99_ms, no_cpu_ms, wrong = Innocents(server).wait()
    t.eq(wrong, [], name + ': nothing of the innocent hosts fails')
    people(t, server, name)
    for process in mischief:
        process.stdin.close()
    for word, process in zip(words, mischief):
        out = process.stdout.read()
        process.wait(60)
        did = json.loads(out) if out else {}
        t.ok(process.returncode == 0 and any(not key.startswith('refused') for key in did), '%s: and did it' % word, why=out)
        print('# %s: p99 %.1f ms (%.1f quiet), %.0f ms without a CPU; %s' % (name, p99_ms, quiet_ms, no_cpu_ms, did), flush=True)
    return name, p99_ms, no_cpu_ms


def rows(t, server):
    quiet_ms = p99_quiet(t, server, 'before')
    met = []
    for words in [(word,) for word in neighbour.WORDS] + [neighbour.WORDS]:
        met.append(meet(t, server, words, quiet_ms))
        t.ok(server.is_running(), met[-1][0] + ': the target lives', why=server.log()[-2000:])
    quiet_ms = max(quiet_ms, p99_quiet(t, server, 'after'))
    for name, p99_ms, no_cpu_ms in met:
        t.ok(p99_ms <= P99_FACTOR * quiet_ms + STARVED_MS + no_cpu_ms, '%s: the others do not starve' % name,
             why='p99 %.1f ms, %.1f ms without the neighbour, %.0f ms without a CPU' % (p99_ms, quiet_ms, no_cpu_ms))
    with open(server.log_path, errors='surrogateescape') as file:
        strange = [line for line in file if CONTROL.search(line.rstrip('\n'))]
    t.eq(strange[:3], [], 'no line of the log has a control character')


def run_all(t):
    with tempfile.TemporaryDirectory(prefix='weft-neighbour-', dir=target.memory_folder(2 * MEDIA_BYTES)) as folder:
        def media(name, size_bytes=MEDIA_BYTES):
            return 'file:%s,size=%d,block=%d' % (os.path.join(folder, name), size_bytes, neighbour.BLOCK)
        port = target.free_port()
        config = target.config_of(port, subsystems=[
            {'nqn': QUIET_NQN, 'allow_any_host': True, 'namespaces': [target.namespace(1, media('own'))]},
            {'nqn': COMMON_NQN, 'allow_any_host': True,
             'namespaces': [target.namespace(1, media('his', neighbour.NS_BYTES)), target.namespace(2, media('ours'))]}])
        server = target.Target(config, port=port)
        with t.guard('neighbour'):
            rows(t, server)
        server.finish(t)
    return t.done()


if __name__ == '__main__':
    raise SystemExit(run_all(Tap()))
