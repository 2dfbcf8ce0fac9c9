# SPDX-License-Identifier: Apache-2.0
"""Processes are counted, parked, reported when they fail, and gone at the end."""

import os
import signal
import subprocess
import sys
import tempfile
import time

from world import ROOT, Tap

from lib import machine, process

tap = Tap()
CPU = sorted(os.sched_getaffinity(0))[0]


def state_of(pid):
    return machine.read('/proc/%d/stat' % pid).rsplit(')', 1)[-1].split()[:1]


def wait(what, timeout_s=10.0):
    deadline = time.monotonic() + timeout_s
    while not what() and time.monotonic() < deadline:
        time.sleep(0.005)  # poll with a deadline
    return bool(what())


with tempfile.TemporaryDirectory() as folder:
    log = os.path.join(folder, 'log')
    one = process.Process('sleeper', ['sh', '-c', 'echo up; exec sleep 60'], CPU, log)
    one.wait_for_text('up')
    tap.eq(os.sched_getaffinity(one.pid), {CPU}, 'a process runs on the CPU it was given')
    tap.ok(wait(lambda: one.cpu_ns() > 0) and one.rss_kib() > 0, 'its CPU time and memory are known')
    one.park()
    tap.ok(wait(lambda: state_of(one.pid) == ['T']), 'parked: it is stopped')
    one.unpark()
    tap.ok(wait(lambda: state_of(one.pid) != ['T']), 'and goes on')
    one.park()
    tap.eq(one.stop(), -signal.SIGTERM, 'a parked one can be stopped')
    two = process.Process('stubborn', ['sh', '-c', 'trap "" TERM; echo up; while :; do sleep 0.05; done'], CPU, log)
    two.wait_for_text('up')
    tap.eq(two.stop(0.2), -signal.SIGKILL, 'one that does not go is killed')
    three = process.Process('failing', ['sh', '-c', 'echo no such thing; exit 3'], CPU, log)
    try:
        three.wait_for_text('never')
        tap.ok(False, 'one that ends is an error')
    except process.BenchError as e:
        tap.ok('status 3' in str(e) and 'no such thing' in str(e), 'one that ends is an error with what it said', why=e)
    three.stop()
    for _ in range(2):
        process.Process('many', ['sleep', '60'], CPU, log)
    pids = [p.pid for p in process.ALIVE]
    process.stop_all()
    tap.ok(not process.ALIVE and not any(os.path.exists('/proc/%d' % p) for p in pids), 'stop_all leaves nobody')

try:
    process.Process('none', ['/nonexistent/program'], CPU, os.devnull)
    tap.ok(False, 'a program that is not there is an error')
except process.BenchError as e:
    tap.ok('/nonexistent/program' in str(e), 'a program that is not there is named', why=e)

BUSY = ['sh', '-c', 'echo begin; i=0; while [ $i -lt 40 ]; do sleep 0.01; i=$((i+1)); done; echo end; exit 4']
run = process.run_client(BUSY, CPU, {'us': os.getpid()}, 0.0, 0.3)
tap.eq((run.status, run.out.split()), (4, ['begin', 'end']), 'a client runs to its end')
tap.ok(run.window_s > 0.2 and run.cpu_percent('us') is not None, 'the window lies inside its time', why=run.window_s)
tap.eq(sorted(run.noise()), ['late_ms', 'run_delay_percent', 'steal_percent'], 'its noise is known')
run = process.run_client(BUSY, CPU, None, 0.0, 0.2, launch_text='begin', probes={'p': lambda: 7})
tap.eq(run.probe('p'), (7, 7), 'a client that says when it begins is read through a terminal, and probes are taken')
tap.ok('end' in run.out, 'and its output is whole')
run = process.run_client(['true'], CPU, None, 0.0, 0.2)
tap.eq((run.status, run.cpu_percent('client'), run.window_s), (0, None, 0.0), 'one that ends at once has no window')
try:
    process.run_client(['sleep', '60'], CPU, None, 0.0, 0.1, timeout_s=0.3)
    tap.ok(False, 'a client that hangs is an error')
except process.BenchError as e:
    tap.ok('sleep' in str(e), 'a client that hangs is killed and named', why=e)

before, after = {1: (100, 10), 2: (50, 0)}, {1: (150, 30), 3: (5, 1)}
tap.eq((process.grown(before, after, 0), process.grown(before, after, 1)), (55, 21), 'threads come and go')

PROGRAM = os.path.join(ROOT, 'bench', 'run')


def program(*args):
    return subprocess.run([sys.executable, PROGRAM] + list(args), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False, env=dict(os.environ, SPDK_DIR=''))


done = program('--list')
tap.ok(done.returncode == 0 and 'randread-128' in done.stdout, 'bench/run --list names the rows', why=done.stdout)
done = program('--rows', 'nonsense')
tap.ok(done.returncode == 2 and 'randread-128' in done.stdout, 'a row that is not there: those that are', why=done.stdout)
done = program('--weft', '/nonexistent/weft')
tap.ok(done.returncode == 1 and 'make all' in done.stdout, 'no program: how to make it', why=done.stdout)
done = program('--time', 'soon')
tap.ok(done.returncode == 2 and 'soon' in done.stdout, 'a time that is none is refused', why=done.stdout)

tap.done()
