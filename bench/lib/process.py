# SPDX-License-Identifier: Apache-2.0
"""
Processes that the bench starts: pinned, measured, parked, and always stopped. CPU time and run-queue delay come from
/proc/PID/task/*/schedstat, in nanoseconds, over all threads.

A process is killed when the bench dies, even by SIGKILL (PR_SET_PDEATHSIG). Each has its own session, so that Ctrl-C
reaches the bench alone, which then stops them by pid.
"""

import ctypes
import os
import pty
import select
import signal
import socket
import subprocess
import time

from . import machine

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None, use_errno=True)
ALIVE = []          # every Process started and not stopped


class BenchError(Exception):
    """An error for the user; the message says what to do."""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def child_setup(cpu):
    """Setup of the child before exec: die with the bench, run on its CPU."""
    cpus = {cpu} if isinstance(cpu, int) else cpu

    def setup():
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if cpus:
            os.sched_setaffinity(0, cpus)
    return setup


def schedstat(pid):
    """{tid: (ns on a CPU, ns of waiting for one)} of all living threads, also of a zombie process."""
    threads = {}
    try:
        for tid in os.listdir("/proc/%d/task" % pid):
            try:
                with open("/proc/%d/task/%s/schedstat" % (pid, tid)) as f:
                    fields = f.read().split()
                threads[int(tid)] = (int(fields[0]), int(fields[1]))
            except (OSError, IndexError, ValueError):
                continue
    except OSError:
        pass
    return threads


def grown(before, after, which):
    """Sum over threads of the growth in between. A new thread counts from 0, an ended one is left out."""
    return sum(max(0, now[which] - before.get(tid, (0, 0))[which]) for tid, now in after.items())


def rss_kib(pid):
    for line in machine.read("/proc/%d/status" % pid).splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


class Process:
    """A server: runs until stop(). Its output goes to a log file, shown when it fails."""

    def __init__(self, name, argv, cpu, log_path, env=None):
        self.name, self.argv, self.log_path = name, argv, log_path
        self.is_parked = False
        os.makedirs(os.path.dirname(os.path.abspath(log_path)), exist_ok=True)
        with open(log_path, "wb") as log:
            try:
                self.popen = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env,
                                              preexec_fn=child_setup(cpu), start_new_session=True)
            except OSError as e:
                raise BenchError("%s: cannot start %s: %s" % (name, argv[0], e.strerror))
        self.pid = self.popen.pid
        ALIVE.append(self)

    def log(self):
        return machine.read(self.log_path)

    def is_running(self):
        return self.popen.poll() is None

    def wait_until(self, is_ready, timeout_s=15.0):
        """Polls is_ready() until it is true; a process that ends or a time-out is an error."""
        deadline = time.monotonic() + timeout_s
        while not is_ready():
            if not self.is_running():
                raise BenchError("%s ended with status %s:\n%s" % (
                    self.name, self.popen.returncode, self.log()[-2000:]))
            if time.monotonic() > deadline:
                raise BenchError("%s is not ready after %.0f s:\n%s" % (self.name, timeout_s, self.log()[-2000:]))
            time.sleep(0.01)

    def wait_for_text(self, text, timeout_s=15.0):
        self.wait_until(lambda: text in self.log(), timeout_s)

    def wait_for_port(self, port, timeout_s=15.0):
        def is_open():
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return True
            except OSError:
                return False
        self.wait_until(is_open, timeout_s)

    def cpu_ns(self):
        return grown({}, schedstat(self.pid), 0)

    def run_delay_ns(self):
        return grown({}, schedstat(self.pid), 1)

    def rss_kib(self):
        return rss_kib(self.pid)

    def park(self):
        """Stops a process that polls even without load."""
        if not self.is_parked and self.is_running():
            os.kill(self.pid, signal.SIGSTOP)
            self.is_parked = True

    def unpark(self):
        if self.is_parked and self.is_running():
            os.kill(self.pid, signal.SIGCONT)
        self.is_parked = False

    def stop(self, timeout_s=10.0):
        """Returns the exit status; -9 means that it had to be killed."""
        if self in ALIVE:
            ALIVE.remove(self)
        if self.is_running():
            self.unpark()
            self.popen.terminate()
            try:
                self.popen.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self.popen.kill()
        return self.popen.wait()


def stop_all():
    for process in list(reversed(ALIVE)):
        try:
            process.stop(3.0)
        except OSError:
            pass


class ClientRun:
    """
    A client's output, and the CPU times of all watched processes: before and end enclose its whole life, for the
    noise; first and last are inside its measured time, for CPU per I/O.
    """

    def __init__(self, status, out, err, first, last, before=None, end=None):
        self.status, self.out, self.err = status, out, err
        self.first, self.last = first, last
        self.before, self.end = before or first, end or last

    @property
    def window_s(self):
        return self.last["at"] - self.first["at"] if self.last else 0.0

    def cpu_percent(self, name):
        """CPU of one watched process (or 'client'), in per cent of one core."""
        if not self.last or name not in self.first["cpu"] or name not in self.last["cpu"]:
            return None
        return 100.0 * grown(self.first["cpu"][name], self.last["cpu"][name], 0) / (self.window_s * 1e9)

    def probe(self, name):
        """(first, last) of a probe, or None."""
        if not self.last or self.first["probes"].get(name) is None or self.last["probes"].get(name) is None:
            return None
        return self.first["probes"][name], self.last["probes"][name]

    def noise(self):
        """Run-queue delay over the whole life, because the kernel counts a wait only when it ends."""
        if not self.before or not self.end:
            return {}
        life_ns = max(1.0, (self.end["at"] - self.before["at"]) * 1e9)
        delays = [grown(self.before["cpu"].get(n, {}), self.end["cpu"][n], 1) for n in self.end["cpu"]]
        late = max([0.0] + [s["late_s"] for s in (self.first, self.last) if s])
        return {"run_delay_percent": round(100.0 * max(delays + [0]) / life_ns, 2),
                "steal_percent": round(machine.steal_percent(self.before["steal"], self.end["steal"]), 2),
                "late_ms": round(1000.0 * late, 1)}


def sample(watch, cpus=(), probes=None, due=None):
    """due: when the sample should have been taken, to detect lateness of the bench."""
    now = time.monotonic()
    return {"at": now, "late_s": now - due if due else 0.0, "cpu": {n: schedstat(p) for n, p in watch.items()},
            "steal": machine.steal_ticks(cpus), "probes": {n: f() for n, f in (probes or {}).items()}}


class Reader:
    """Reads a client's output as it comes, through pipes or a terminal."""

    def __init__(self, has_terminal):
        self.master = self.slave = None
        if has_terminal:    # a C program writes lines at once only to a terminal
            self.master, self.slave = pty.openpty()
        self.out, self.err, self.fds = bytearray(), bytearray(), {}

    def stdout(self):
        return self.slave if self.slave is not None else subprocess.PIPE

    def attach(self, popen):
        if self.slave is not None:
            os.close(self.slave)
        self.fds = {self.master if self.master is not None else popen.stdout.fileno(): self.out,
                    popen.stderr.fileno(): self.err}

    def read(self, timeout_s):
        """False at the end of the output."""
        if not self.fds:
            return False
        for fd in select.select(list(self.fds), [], [], max(0.0, timeout_s))[0]:
            try:
                data = os.read(fd, 1 << 16)
            except OSError:     # a terminal whose peer is closed
                data = b""
            if data:
                self.fds[fd] += data
            else:
                del self.fds[fd]
        return bool(self.fds)

    def close(self, popen):
        if self.master is not None:
            os.close(self.master)
        for f in (popen.stdout, popen.stderr):
            if f:
                f.close()


def run_client(argv, cpu, watch=None, warmup_s=0.0, time_s=1.0, launch_text=None, probes=None, cpus=(),
               timeout_s=None):
    """Runs a client to its end. watch: {name: pid}; probes: {name: function}, read with the samples.
    launch_text: what the client prints when its load begins (else it begins when it is started)."""
    watch, probes = dict(watch or {}), dict(probes or {})
    timeout_s = timeout_s or warmup_s + time_s + 30
    reader = Reader(launch_text is not None)
    try:
        popen = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=reader.stdout(), stderr=subprocess.PIPE,
                                 preexec_fn=child_setup(cpu), start_new_session=True)
    except OSError as e:
        raise BenchError("cannot start %s: %s" % (argv[0], e.strerror))
    try:
        reader.attach(popen)
        before = sample(watch, cpus)
        watch["client"] = popen.pid
        first, last = follow(reader, popen, (watch, cpus, probes), (warmup_s, time_s, launch_text, timeout_s))
        wait_zombie(popen, 10.0)
        end = sample(watch, cpus)
        status = popen.wait(10)
    finally:
        if popen.poll() is None:
            popen.kill()
            popen.wait()
        reader.close(popen)
    out, err = (bytes(b).decode(errors="replace") for b in (reader.out, reader.err))
    return ClientRun(status, out, err, first, last, before, end)


def wait_zombie(popen, timeout_s):
    """Waits until it has ended, without reaping it: its counters can still be read."""
    deadline = time.monotonic() + timeout_s
    while not os.waitid(os.P_PID, popen.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG):
        if time.monotonic() > deadline:
            raise BenchError("%s closed its output and does not end" % os.path.basename(popen.args[0]))
        time.sleep(0.005)


def follow(reader, popen, what, times):
    """Reads until the client ends; samples after the warm-up and before the end, a tenth inside."""
    warmup_s, time_s, launch_text, timeout_s = times
    deadline = time.monotonic() + timeout_s
    margin = min(0.1, time_s / 10)
    began = None if launch_text else time.monotonic()
    first = last = None
    while True:
        now = time.monotonic()
        if began is None and launch_text.encode() in reader.out:
            began = now
        due = deadline
        if began is not None and not last:
            due = began + warmup_s + (margin if not first else time_s - margin)
            if now >= due:
                taken = sample(*what, due)
                first, last = (first, taken) if first else (taken, None)
                continue
        if now > deadline:
            raise BenchError("%s did not end within %.0f s" % (os.path.basename(popen.args[0]), timeout_s))
        if not reader.read(min(due, deadline) - now):
            return first, last
