# SPDX-License-Identifier: Apache-2.0
"""
One run of the bench: options, CPUs and programs; running targets; points with their retries; and the recorder, which
keeps every figure, also of discarded tries, with the reason.
"""

import os
import shutil
import subprocess
import time

from . import echo, fio, hold, machine, process, spdk, weft
from .process import BenchError

RUN_DELAY_LIMIT = 4.0   # per cent of the window that a thread waited for its CPU
STEAL_LIMIT = 2.0       # per cent of the window that another guest had
SPEED_LIMIT = 0.85      # of the best speed of the fixed loop
LATE_LIMIT_MS = 50.0    # how late a sample may be
RETRIES = 2


def figure(figures, path):
    """'latency_us.p50' in a dictionary of figures; None when it is not there."""
    if path == "iops_per_client_core":
        used = figures.get("client_cpu_percent")
        return figures["iops"] * 100.0 / used if used else None
    value = figures
    for key in path.split("."):
        if not isinstance(value, dict) or value.get(key) is None:
            return None
        value = value[key]
    return value


def disturbance(record):
    """Sort key of tries: quiet ones first, then by the CPU time lost and a slow CPU."""
    noise = record["figures"].get("noise") or {}
    return (bool(record["noisy"]), noise.get("run_delay_percent", 0.0) + noise.get("steal_percent", 0.0) +
            100.0 * (1.0 - noise.get("speed", 1.0)))


class Bench:
    def __init__(self, options, root):
        self.options, self.root = options, root
        self.cpus = machine.Cpus()
        self.cpu_pair = (self.cpus.target, self.cpus.load)
        os.sched_setaffinity(0, self.cpus.own)
        self.time_s, self.warmup_s = options.time_s, options.warmup_s
        self.build_folder = os.path.abspath(options.build)
        self.out_folder = options.folder
        self.work_folder = os.path.join(self.out_folder, "work")
        self.noise = machine.Noise(self.cpus)
        self.points, self.messages, self.targets = [], [], {}
        self.began = time.monotonic()
        self.is_budget_spent = lambda: False    # set by the runner: then no more retries
        self.find_programs()

    def find_programs(self):
        self.weft = self.options.weft or os.path.join(self.build_folder, "src", "cli", "weft")
        if not os.access(self.weft, os.X_OK):
            raise BenchError("there is no %s: run `make all` first, or name it with --weft" % self.weft)
        self.echo = self.options.echo or os.path.join(self.build_folder, "bench", "micro", "echo")
        if not os.access(self.echo, os.X_OK):
            self.say("NO CEILING: there is no %s; run `make all`. Its column is left out." % self.echo)
            self.echo = None
        self.spdk = None
        folder = self.options.spdk
        if folder:
            self.spdk = spdk.find(folder)
        else:
            self.say("NO SPDK: SPDK_DIR is not set, so its columns are left out and rows are judged against the "
                     "ceiling alone. SPDK_DIR=/path/to/a/built/spdk brings them.")
        self.fio = shutil.which("fio")
        if not self.fio:
            self.say("NO FIO: the rows of the file namespace are left out; install fio.")
        text = subprocess.run([self.weft, "perf", "--help"], stdout=subprocess.PIPE, check=False).stdout
        self.has_rate = b"--rate" in text
        if not self.has_rate:
            self.say("NO PACING: this weft perf has no --rate, so the paced rows are left out.")

    def say(self, text):
        """Prints a line, and keeps it for the result."""
        self.messages.append(text)
        print(text, flush=True)

    # ---- who can run

    def missing(self, contender, load=None):
        """Why a contender cannot run here; '' when it can."""
        if ("spdk" in contender) and not self.spdk:
            return "no SPDK_DIR"
        if contender.startswith("echo") and not self.echo:
            return "no build/bench/micro/echo"
        if contender == "fio" and not self.fio:
            return "no fio"
        if load and load.rate and contender.startswith("weft") and not self.has_rate:
            return "weft perf has no --rate"
        if contender in self.options.without:
            return "left out by --without"
        return ""

    def file_path(self):
        folder = self.options.file_folder or self.work_folder
        return os.path.join(os.path.abspath(folder), "namespace.img")

    def make_target(self, name):
        if name == "echo":
            return echo.Server(self)
        if name == "echo-sleep":
            return echo.Server(self, sleeps=True)
        if name == "spdk":
            return spdk.Target(self)
        if name == "weft-r2t":
            return weft.Target(self, in_capsule=0, name=name)
        if name == "weft-hot":
            return weft.Target(self, ns="mem:" + weft.HOT_SIZE, name=name)
        if name == "weft-file":
            os.makedirs(os.path.dirname(self.file_path()), exist_ok=True)
            return weft.Target(self, ns="file:%s,size=%s,block=4096" % (self.file_path(), weft.SIZE), name=name)
        return weft.Target(self, ns="mem:" + weft.SIZE, name=name)

    def target(self, name):
        """The named target: running, filled, and alone on its CPU."""
        if name not in self.targets:
            for other in self.targets.values():
                other.park()
            self.targets[name] = self.make_target(name)
            self.targets[name].prefill()
        for other, target in self.targets.items():
            (target.unpark if other == name else target.park)()
        return self.targets[name]

    def drop_target(self, name):
        """After an error: stops the target, so that the next use starts a fresh one."""
        target = self.targets.pop(name, None)
        if target:
            target.stop()

    def stop_targets(self):
        for name in list(self.targets):
            self.drop_target(name)

    def measure(self, contender, load, time_s=None, kind="load"):
        """One run of one contender; figures."""
        if contender == "fio":
            self.target("weft-file")    # the target has made and filled the file
            return fio.run(self, self.file_path(), load, time_s)
        time_s = time_s or None
        client, _, target_name = contender.rpartition(">")
        target = self.target(target_name)
        try:
            if kind == "idle":
                return hold.idle(self, target, load.queues, time_s)
            if target_name.startswith("echo"):
                return echo.client(self, target, load, time_s)
            run = spdk.perf if (client or target_name) == "spdk" else weft.perf
            return run(self, target, load, time_s)
        except BenchError:
            self.drop_target(target_name)
            raise

    # ---- points

    def park_all(self):
        """A polling target would count as noise."""
        for target in self.targets.values():
            target.park()

    def machine_speed(self):
        """The speed of the fixed loop before a point; waits up to a second for a slow moment to pass."""
        self.park_all()
        deadline = time.monotonic() + (1.0 if self.options.retries and not self.is_budget_spent() else 0.0)
        speed = self.noise.speed()
        while speed < self.options.speed_limit and time.monotonic() < deadline:
            time.sleep(0.05)
            speed = max(speed, self.noise.speed())
        return speed

    def noise_of(self, figures):
        """Why a point is noisy; '' when it is not."""
        noise = figures.get("noise") or {}
        why = []
        if noise.get("run_delay_percent", 0) > self.options.run_delay_limit:
            why.append("waited for a CPU %.1f %% of the time" % noise["run_delay_percent"])
        if noise.get("steal_percent", 0) > self.options.steal_limit:
            why.append("%.1f %% stolen" % noise["steal_percent"])
        if noise.get("speed", 1.0) < self.options.speed_limit:
            why.append("the CPU ran at %.2f of its best" % noise["speed"])
        if figures.get("measured_s", 0) < 0.8 * figures.get("asked_s", 0):
            why.append("measured %.3f of %.1f s" % (figures["measured_s"], figures["asked_s"]))
        if noise.get("late_ms", 0) > LATE_LIMIT_MS:
            why.append("the bench itself came %.0f ms late" % noise["late_ms"])
        return ", ".join(why)

    def point(self, row, contender, round_, measure):
        """
        Calls measure() until a try is quiet, at most RETRIES times more; records every try. Returns the kept figures,
        None after an error.
        """
        tries = []
        for attempt in range(1 + self.options.retries):
            record = {"row": row, "contender": contender, "round": round_, "attempt": attempt, "is_kept": False,
                      "at_s": round(time.monotonic() - self.began, 2)}
            self.points.append(record)
            speed = self.machine_speed()
            try:
                figures = measure()
            except BenchError as e:
                record["error"] = str(e)
                self.say("  %s, %s: %s" % (row, contender, e))
                continue
            figures.setdefault("noise", {})["speed"] = speed
            record["figures"], record["noisy"] = figures, self.noise_of(figures)
            tries.append(record)
            if not record["noisy"] or self.is_budget_spent():
                break
        if not tries:
            return None
        best = min(tries, key=disturbance)
        best["is_kept"] = True
        return best["figures"]

    def values(self, row, contender, path):
        """{round: value} of the points that were kept."""
        found = {}
        for p in self.points:
            if p["row"] == row and p["contender"] == contender and p["is_kept"]:
                value = figure(p["figures"], path)
                if value is not None:
                    found[p["round"]] = value
        return found

    def is_noisy(self, row, contenders):
        """Whether most kept points of one of these contenders are noisy."""
        for contender in contenders:
            kept = [bool(p["noisy"]) for p in self.points if p["row"] == row and p["is_kept"] and
                    p["contender"] == contender]
            if sum(kept) * 2 > len(kept):
                return True
        return False

    def noisy_count(self, row):
        """(noisy points kept, points discarded) of a row."""
        mine = [p for p in self.points if p["row"] == row and "figures" in p]
        return (sum(1 for p in mine if p["is_kept"] and p["noisy"]), sum(1 for p in mine if not p["is_kept"]))
