# SPDX-License-Identifier: Apache-2.0
"""
Stops one thread of a child process and continues it later (ptrace), while the rest of the process runs. No signal
can do that.

The thread is stopped where it waits: a reactor in io_uring_enter(), the HTTP thread in epoll_wait(). Stopped
elsewhere, it may hold a lock, for example of the allocator, and block the rest of the process.
"""

import contextlib
import ctypes
import os

import procfs
import target

PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
WALL = 0x40000000  # waits for threads too
MAIN = ''
HTTP = 'MHD-single'
# The system calls in which the threads wait: io_uring_enter() on every architecture, epoll_wait() on x86-64 and
# epoll_pwait() elsewhere.
WAITS = ('426', '232' if os.uname().machine == 'x86_64' else '22')

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long


def ptrace(request, tid):
    if libc.ptrace(request, tid, None, None) < 0:
        raise OSError(ctypes.get_errno(), 'ptrace(%#x, %d)' % (request, tid))


class Stopped:
    """These threads of `process` are stopped inside `with`; MAIN is the main thread, whatever its name."""

    def __init__(self, process, *names):
        self.pid = process.pid
        self.tids = [tid for tid, (name,) in procfs.threads(self.pid, 'comm').items()
                     if name.strip() in names or MAIN in names and tid == self.pid]
        if len(self.tids) != len(names):
            raise RuntimeError('not one thread each of the names %r' % (names,))
        self.stopped = contextlib.ExitStack()

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            for tid in self.tids:
                if not target.poll(lambda: self.stop(tid)):
                    raise RuntimeError('thread %d is never found waiting' % tid)
                stack.callback(self.release, tid)
            self.stopped = stack.pop_all()
        return self

    def __exit__(self, *args):
        self.stopped.close()

    def stop(self, tid):
        """True when the thread is stopped in io_uring_enter(); elsewhere it continues."""
        ptrace(PTRACE_SEIZE, tid)
        ptrace(PTRACE_INTERRUPT, tid)
        os.waitpid(tid, WALL)
        if procfs.read('/proc/%d/task/%d/syscall' % (self.pid, tid)).split()[0] in WAITS:
            return True
        self.release(tid)
        return False

    def release(self, tid):
        try:
            ptrace(PTRACE_DETACH, tid)
        except OSError:
            self.reap(tid)

    @staticmethod
    def reap(tid):
        """A killed traced thread, and its process with it, stays a zombie until the tracer waits for it."""
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
        procfs.read('/proc/%d/syscall' % child)
        return None
    except OSError as error:
        return 'threads cannot be traced here: %s' % error
    finally:
        os.kill(child, 9)
        os.waitpid(child, WALL)
