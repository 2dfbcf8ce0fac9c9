# SPDX-License-Identifier: Apache-2.0
"""
Stops one thread of a child process and lets it go on again (ptrace): a thread that stands still
while the rest of its process runs, which no signal can do.
"""

import ctypes
import os

PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
WALL = 0x40000000  # waits for threads too
MAIN = ''

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long


def ptrace(request, tid):
    if libc.ptrace(request, tid, None, None) < 0:
        raise OSError(ctypes.get_errno(), 'ptrace(%#x, %d)' % (request, tid))


class Stopped:
    """These threads of `process` stand still inside of the block; MAIN is the main thread, whatever its name."""

    def __init__(self, process, *names):
        self.tids = []
        tasks = '/proc/%d/task' % process.pid
        for task in sorted(os.listdir(tasks), key=int):
            with open('%s/%s/comm' % (tasks, task)) as file:
                name = file.read().strip()
            if name in names or MAIN in names and int(task) == process.pid:
                self.tids.append(int(task))
        if len(self.tids) != len(names):
            raise RuntimeError('not one thread each of the names %r' % (names,))

    def __enter__(self):
        for tid in self.tids:
            ptrace(PTRACE_SEIZE, tid)
            ptrace(PTRACE_INTERRUPT, tid)
            os.waitpid(tid, WALL)
        return self

    def __exit__(self, *args):
        for tid in self.tids:
            try:
                ptrace(PTRACE_DETACH, tid)
            except OSError:
                self.reap(tid)

    @staticmethod
    def reap(tid):
        """A traced thread that was killed stays a zombie, and its process with it, until its tracer has heard."""
        try:
            os.waitpid(tid, WALL)
        except ChildProcessError:
            pass


def why_not():
    """None when threads can be stopped here, or the reason."""
    child = os.fork()
    if child == 0:
        os.execvp('sleep', ['sleep', '60'])
    try:
        ptrace(PTRACE_SEIZE, child)
        return None
    except OSError as error:
        return 'threads cannot be traced here: %s' % error
    finally:
        os.kill(child, 9)
        os.waitpid(child, WALL)
