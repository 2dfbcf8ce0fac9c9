# SPDX-License-Identifier: Apache-2.0
"""
The machine and its noise: facts for the result file, the choice of CPUs, and three signs of noise: a fixed loop that
should always take the same time; steal time, taken by other guests; run-queue delay, taken by other processes
(lib.process counts it per point).
"""

import os
import platform
import re
import subprocess
import time

LOOP_TURNS = 100_000


class Cpus:
    """The first allowed CPU is the target's, the second the load's, a third, if any, the bench's."""

    def __init__(self, allowed=None):
        self.allowed = sorted(allowed if allowed is not None else os.sched_getaffinity(0))
        self.target = self.allowed[0]
        self.load = self.allowed[1 if len(self.allowed) > 1 else 0]
        self.own = set(self.allowed[2:]) or set(self.allowed)
        self.is_shared = self.target == self.load

    def describe(self):
        text = "target on CPU %d, load on CPU %d" % (self.target, self.load)
        return text + (" (ONE CPU FOR BOTH: figures mean little)" if self.is_shared else "")


def read(path, default=""):
    try:
        with open(path) as f:
            return f.read().strip()
    except OSError:
        return default


def output(argv, cwd=None):
    try:
        return subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=cwd, check=True,
                              timeout=10).stdout.decode(errors="replace").strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def cpu_model():
    text = read("/proc/cpuinfo")
    found = re.search(r"^model name\s*:\s*(.*)$", text, re.M) or re.search(r"^Model\s*:\s*(.*)$", text, re.M)
    return found.group(1) if found else platform.processor() or "unknown"


def meminfo_kib(key):
    found = re.search(r"^%s:\s+(\d+)" % key, read("/proc/meminfo"), re.M)
    return int(found.group(1)) if found else 0


def is_virtual():
    return bool(re.search(r"^flags\s*:.*\bhypervisor\b", read("/proc/cpuinfo"), re.M))


def build_facts(folder):
    """Build options of the weft under test, from meson."""
    import json
    text = output(["meson", "introspect", "--buildoptions", folder])
    try:
        options = {o["name"]: o["value"] for o in json.loads(text)}
    except ValueError:
        return {}
    keys = ("buildtype", "optimization", "debug", "b_sanitize", "b_lto", "b_ndebug", "c_args")
    return {k: options[k] for k in keys if k in options}


def facts(cpus, root, build_folder):
    governor = read("/sys/devices/system/cpu/cpu%d/cpufreq/scaling_governor" % cpus.target, "unknown")
    return {
        "cpu": cpu_model(),
        "cpus_allowed": len(cpus.allowed),
        "cpus_online": os.cpu_count(),
        "target_cpu": cpus.target,
        "load_cpu": cpus.load,
        "is_virtual": is_virtual(),
        "kernel": platform.release(),
        "governor": governor,
        "memory_mib": meminfo_kib("MemTotal") // 1024,
        "hugepages_free": meminfo_kib("HugePages_Free"),
        "transparent_hugepages": read("/sys/kernel/mm/transparent_hugepage/enabled", "unknown"),
        "mitigations": mitigations(),
        "compiler": output(["cc", "--version"]).split("\n")[0],
        "commit": output(["git", "rev-parse", "--short=12", "HEAD"], root) or "unknown",
        "is_tree_changed": bool(output(["git", "status", "--porcelain", "--untracked-files=no"], root)),
        "build": build_facts(build_folder),
    }


def mitigations():
    folder = "/sys/devices/system/cpu/vulnerabilities"
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    return ["%s: %s" % (n, read(os.path.join(folder, n))) for n in names
            if "Mitigation" in read(os.path.join(folder, n))]


def steal_ticks(cpus):
    """{cpu: (stolen, all)} in clock ticks since the machine started."""
    ticks = {}
    for line in read("/proc/stat").splitlines():
        fields = line.split()
        if fields and re.fullmatch(r"cpu\d+", fields[0]) and int(fields[0][3:]) in cpus:
            values = [int(v) for v in fields[1:9]]
            ticks[int(fields[0][3:])] = (values[7] if len(values) > 7 else 0, sum(values))
    return ticks


def steal_percent(before, after):
    """Steal of the worst CPU."""
    worst = 0.0
    for cpu, (stolen, total) in after.items():
        if cpu in before and total > before[cpu][1]:
            worst = max(worst, 100.0 * (stolen - before[cpu][0]) / (total - before[cpu][1]))
    return worst


def load_average():
    return float(read("/proc/loadavg", "0").split()[0])


def fixed_loop():
    """The same work every time; returns (wall seconds, CPU seconds)."""
    wall, cpu = time.perf_counter(), time.thread_time()
    total = 0
    for i in range(LOOP_TURNS):
        total += i & 7
    return time.perf_counter() - wall, time.thread_time() - cpu


class Noise:
    """The fixed loop on each of the two CPUs, against the best time ever seen in this run."""

    def __init__(self, cpus):
        self.cpus = cpus
        self.best_ms = None
        self.history = []

    def speed(self):
        """
        Speed of the slower CPU now, 1 being the best seen. A neighbour on the same core or a lower clock slows
        everything and shows neither as steal nor as waiting. Takes 30 ms.
        """
        mine = os.sched_getaffinity(0)
        loops = []
        for cpu in (self.cpus.target, self.cpus.load):
            os.sched_setaffinity(0, {cpu})
            loops.append(1000 * min(fixed_loop()[0] for _ in range(5)))
        os.sched_setaffinity(0, mine)
        self.best_ms = min(loops + ([self.best_ms] if self.best_ms else []))
        return round(self.best_ms / max(loops), 3)

    def check(self, label):
        """
        One reading: the speed of the loop on each CPU (1 is the best seen), and the share of time in which the loop
        did not run.
        """
        reading = {"when": label, "load_average": load_average()}
        mine = os.sched_getaffinity(0)
        for name, cpu in (("target", self.cpus.target), ("load", self.cpus.load)):
            os.sched_setaffinity(0, {cpu})
            fixed_loop()
            runs = [fixed_loop() for _ in range(5)]
            reading[name + "_loop_ms"] = round(1000 * min(w for w, _ in runs), 3)
            wall, used = sum(w for w, _ in runs), sum(c for _, c in runs)
            reading[name + "_taken_percent"] = round(max(0.0, 100.0 * (wall - used) / wall), 2)
        os.sched_setaffinity(0, mine)
        loops = [reading["target_loop_ms"], reading["load_loop_ms"]]
        self.best_ms = min(loops + ([self.best_ms] if self.best_ms else []))
        reading["speed"] = round(self.best_ms / max(loops), 3)
        self.history.append(reading)
        return reading


def noise_text(reading):
    return ("fixed loop %.2f/%.2f ms (%.2f of the best), taken by others %.1f/%.1f %%, load average %.2f" % (
        reading["target_loop_ms"], reading["load_loop_ms"], reading["speed"],
        reading["target_taken_percent"], reading["load_taken_percent"], reading["load_average"]))
