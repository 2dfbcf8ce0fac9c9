# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of `weft copy`: a folder, the namespaces of a live target, and copies between them."""

import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'wire'))
import target  # noqa: E402

MIB = 1 << 20
TIMEOUT_S = 120


class World:
    def __init__(self, tgt, folder):
        self.tgt = tgt
        self.folder = folder
        self.count = 0

    def path(self, name=None):
        self.count += 1
        return os.path.join(self.folder, name or 'file-%d' % self.count)

    def url(self, nsid, *ports):
        where = ','.join('127.0.0.1:%d' % port for port in ports or (self.tgt.port,))
        return 'nvme://%s/%s/%d' % (where, target.NQN, nsid)

    def start(self, *args, **kwargs):
        limit = ['timeout', '--foreground', str(TIMEOUT_S)]
        return subprocess.Popen([*limit, target.weft_path(), 'copy', *args], text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kwargs)

    def copy(self, *args):
        process = self.start(*args)
        out, err = process.communicate()
        return process.returncode, out, err

    def run_bytes(self, *args, **kwargs):
        return subprocess.run([target.weft_path(), 'copy', *args], capture_output=True, timeout=TIMEOUT_S, **kwargs)

    def good(self, t, name, *args):
        code, out, err = self.copy(*args)
        t.ok(code == 0, name, why='status %d\n%s%s' % (code, out, err))
        return out

    def bad(self, t, name, words, *args, code=1):
        got, out, err = self.copy(*args)
        t.ok(got == code and words in err, name, why='status %d\n%s%s' % (got, out, err))

    def put(self, data, name=None):
        path = self.path(name)
        with open(path, 'wb') as file:
            file.write(data)
        return path


def digest(path):
    with open(path, 'rb') as file:
        return hashlib.sha256(file.read()).hexdigest()


def journal_bytes(path):
    try:
        with open(path) as file:
            return int(re.search(r'^done (\d+)$', file.read(), re.M).group(1))
    except FileNotFoundError:
        return 0


def interrupted(world, number, *args, journal):
    """Starts a slow copy and ends it by this signal when the journal shows progress."""
    process = world.start(*args, '--resume', journal, '--rate', '2M', '--size', '128k')
    target.poll(lambda: journal_bytes(journal) > 0 or process.poll() is not None, 60)
    # The process is a child of timeout, which forwards signals that it can catch, once (--foreground: not to its
    # group).
    if number == signal.SIGKILL:
        with open('/proc/%d/task/%d/children' % (process.pid, process.pid)) as file:
            os.kill(int(file.read().split()[0]), number)
    else:
        process.send_signal(number)
    out, err = process.communicate()
    return process.returncode, out, err


def loop_device(path, device=None):
    """Makes a loop device over the file; returns its name, None when impossible. `device` requests that one."""
    if os.geteuid() != 0 or not shutil.which('losetup'):
        return None
    made = subprocess.run(['losetup', *((device, path) if device else ('--find', '--show', path))], capture_output=True, text=True)
    return (device or made.stdout.strip()) if made.returncode == 0 else None
