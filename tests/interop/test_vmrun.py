#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
tools/vmrun without a guest: which guest clocks it rejects, and when it boots again. Also the kernel log lines that
fail a row.
"""

import contextlib
import importlib.machinery
import importlib.util
import io
import os
import subprocess
import sys
import types

from tap import Tap

ROOT = sys.argv[1]


def load(name):
    loader = importlib.machinery.SourceFileLoader(name, os.path.join(ROOT, 'tools', name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


def clocks(t, vmrun):
    for uptime, elapsed, is_good in ((5, 6, True), (12, 30, True), (40, 300, True), (6, 5.5, True), (9.9, 4, False),
                                     (3600, 20, False), (2, 200, False)):
        fault = vmrun.clock_fault(uptime, elapsed)
        t.eq(fault == '', is_good, 'a guest that counts %s s when %s s passed' % (uptime, elapsed))


class Boots:
    """Replaces the guest: one end after another."""

    def __init__(self, vmrun, ends):
        self.ends, self.booted = list(ends), 0
        vmrun.Guest = lambda *_: self

    def run(self, deadline):
        self.booted += 1
        end = self.ends.pop(0)
        if isinstance(end, Exception):
            raise end
        return end

    def close(self):
        pass


def boots(t, vmrun):
    args = types.SimpleNamespace(timeout=10, stdin=False)
    panic, died = vmrun.NotBooted('Kernel panic'), vmrun.Failure('gone in the middle of the command')
    for name, ends, status, count in (
            ('the first boot is good', [3], 3, 1),
            ('a panic before the command: another boot', [panic, 0], 0, 2),
            ('a command that fails is not repeated', [1, 0], 1, 1),
            ('a guest that dies under its command is not booted again', [died, 0], None, 1),
            ('three boots and no more', [panic, panic, panic, 0], None, 3)):
        guests = Boots(vmrun, ends)
        got = None
        with contextlib.redirect_stderr(io.StringIO()):
            try:
                got = vmrun.boot_and_run(args, None, None)
            except vmrun.Failure:
                pass
        t.eq((got, guests.booted), (status, count), name)


def judged(line):
    """Runs dmesg_judge of guest.sh on a kernel log of this one line."""
    script = '''
        . "$1/tests/interop/lib.sh" >/dev/null 2>&1
        here=$(mktemp -d); trap 'rm -rf "$here"' EXIT
        dmesg() { printf '%s\\n' "$LINE"; }
        eval "$(sed -n '/^dmesg_judge() {/,/^}/p' "$1/tests/interop/guest.sh")"
        dmesg_judge row ""'''
    done = subprocess.run(['bash', '-c', script, '-', ROOT], capture_output=True, text=True, timeout=60,
                          env=dict(os.environ, LINE=line))
    return done.stdout.strip() != ''


def lines(t):
    for line, is_bad in (('[ 9.1] nvme nvme0: long keepalive RTT (6012 ms), timeout 15 s', False),
                         ('[ 9.1] nvme nvme0: long keepalive RTT (6012 ms)', False),
                         ('[ 9.1] nvme nvme0: I/O tag 3 (0003) QID 1 timeout', True),
                         ('[ 9.1] nvme nvme0: failed nvme_keep_alive_end_io error=10', True),
                         ('[ 9.1] nvme nvme0: creating 2 I/O queues.', False),
                         ('[ 9.1] WARNING: CPU: 0 PID: 1 at drivers/nvme', True)):
        t.eq(judged(line), is_bad, 'the kernel says "%s"' % line)


TAP = Tap()
VMRUN = load('vmrun')
clocks(TAP, VMRUN)
boots(TAP, VMRUN)
lines(TAP)
sys.exit(TAP.done())
