#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
procfs.py, which other tests use: listing a process that opens and closes files and starts and ends threads all the
time gives no error. No target.
"""

import subprocess
import sys
import time

import nvmetcp
import procfs
import target
from tap import Tap

LISTINGS_S = 2.0
CHURN = '''
import os, threading
while True:
    fds = [os.dup(0) for _ in range(64)]
    threads = [threading.Thread(target=os.getpid) for _ in range(8)]
    for thread in threads:
        thread.start()
    for fd in fds:
        os.close(fd)
    for thread in threads:
        thread.join()
'''


def listings(ask):
    """The set of the sizes of all answers."""
    counts, begin = set(), time.monotonic()
    while time.monotonic() < begin + (LISTINGS_S if len(counts) > 1 else nvmetcp.TIMEOUT_S):
        counts.add(len(ask()))
    return counts


def churning(t):
    with subprocess.Popen([sys.executable, '-c', CHURN], stdin=subprocess.DEVNULL) as process:
        try:
            t.ok(target.poll(lambda: len(procfs.threads(process.pid, 'comm')) > 1), 'a process that starts threads')
            with t.guard('files'):
                t.ok(min(listings(lambda: procfs.open_files(process.pid))) >= 3, 'files that are closed meanwhile are left out')
            with t.guard('threads'):
                t.ok(min(listings(lambda: procfs.threads(process.pid, 'stat', 'status'))) >= 1, 'so are threads that end')
            t.ok(not procfs.is_stopped(process.pid), 'not all threads of it are stopped')
        finally:
            process.kill()
    t.eq((procfs.open_files(process.pid), procfs.threads(process.pid, 'comm')), ([], {}), 'a process that is gone has neither')
    t.ok(not procfs.is_stopped(process.pid), 'and is not taken for a stopped one')


tap = Tap()
churning(tap)
sys.exit(tap.done())
