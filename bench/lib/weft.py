# SPDX-License-Identifier: Apache-2.0
"""weft's target and load generator."""

import json
import os
import re
import signal
import time

from . import machine, process
from .process import BenchError

NQN = "nqn.2026-11.io.weft:default"
SIZE = "256M"
HOT_SIZE = "1M"     # fits the cache: the client is then the slower side
# What `weft serve` answers to SIGUSR1; the target's line is the last one.
REACTOR = re.compile(r"control: reactor \d+: run ([\d.]+) s, busy ([\d.]+) s, spun ([\d.]+) s,")
REPORTED = re.compile(r"control: target: connections .*\n")
ANSWER_S = 0.05


class Target:
    """
    `weft serve` on the target's CPU. limits: keys of "limits" in weft.json(5); with in_capsule=0 every write waits
    for an R2T.
    """

    name = "weft"
    nqn = NQN

    def __init__(self, bench, ns="mem:" + SIZE, reactors=1, in_capsule=None, spin_us=None, limits=None,
                 cpu=None, name="weft", extra=()):
        self.bench, self.name, self.ns = bench, name, ns
        self.port = process.free_port()
        folder = os.path.join(bench.work_folder, name.replace(">", "-"))
        os.makedirs(folder, exist_ok=True)
        limits = dict(limits or {})
        if in_capsule is not None:
            limits["in_capsule_bytes"] = in_capsule
        argv = [bench.weft, "serve", "--reactors", str(reactors), "--discovery", "none", "--log-level", "info",
                "--state", os.path.join(folder, "state"), "--reset"]
        if limits:
            config = os.path.join(folder, "weft.json")
            with open(config, "w") as f:
                json.dump(config_of(self.port, ns, limits), f, indent=1)
            argv += ["-c", config]
        else:
            argv += ["--ns", ns, "--listen", "127.0.0.1:%d" % self.port]
        if spin_us is not None:
            argv += ["--spin-us", str(spin_us)]
        self.process = process.Process(name, argv + list(extra), bench.cpus.target if cpu is None else cpu,
                                       os.path.join(folder, "log"))
        try:
            self.process.wait_for_port(self.port)
        except BenchError:
            self.process.stop()
            raise

    @property
    def pid(self):
        return self.process.pid

    def prefill(self, size=SIZE):
        """Unwritten memory is one shared page for reads and a page fault for writes."""
        prefill(self.bench, self, size)

    def park(self):
        """An idle weft sleeps: nothing to do."""

    def unpark(self):
        pass

    def times(self):
        """(reactors, run, busy, spun), seconds summed over the reactors; None when unknown."""
        if not takes_signal(self.pid, signal.SIGUSR1):
            return None
        with open(self.process.log_path, "rb") as log:
            log.seek(0, os.SEEK_END)
            os.kill(self.pid, signal.SIGUSR1)
            text, deadline = "", time.monotonic() + ANSWER_S
            while not REPORTED.search(text):
                if time.monotonic() > deadline:
                    return None
                time.sleep(0.001)   # poll
                text += log.read().decode(errors="replace")
        found = REACTOR.findall(text)
        return (len(found),) + tuple(sum(float(f[i]) for f in found) for i in range(3))

    def probes(self):
        return {"times": self.times}

    def busy_percent(self, run):
        """
        Busy time in per cent of one core: CPU time without spinning that found no work. Sleeping, waking and the
        other threads count. Where other processes took the CPU during spinning, the difference is too small: then the
        CPU time is split in the reactors' ratio of busy to spun.
        """
        burnt, times = run.cpu_percent("target"), run.probe("times")
        if burnt is None or not times:
            return burnt
        reactors = times[1][0]
        ran, busy, spun = (times[1][i] - times[0][i] for i in (1, 2, 3))
        if ran <= 0 or spun <= 0 or reactors != times[0][0]:
            return burnt
        return max(burnt - 100.0 * reactors * spun / ran, burnt * max(0.0, busy) / (max(0.0, busy) + spun))

    def stop(self):
        return self.process.stop()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.stop()


def takes_signal(pid, signo):
    """Whether the process handles the signal; an older weft would be killed by it."""
    found = re.search(r"^SigBlk:\s*([0-9a-f]+)", machine.read("/proc/%d/status" % pid), re.M)
    return bool(found) and bool(int(found.group(1), 16) >> (signo - 1) & 1)


def config_of(port, ns, limits):
    spaces = [ns] if isinstance(ns, str) else ns
    return {"version": 1,
            "subsystems": [{"nqn": NQN, "namespaces": [{"nsid": i + 1, "media": m} for i, m in enumerate(spaces)]}],
            "ports": [{"id": 1, "address": "127.0.0.1", "service": str(port)}],
            "limits": limits}


def prefill(bench, target, size=SIZE):
    argv = base_argv(bench, target) + ["--rw", "write", "--bs", "128k", "--depth", "8", "--bytes", size]
    run = process.run_client(argv, bench.cpus.load, time_s=30, timeout_s=120)
    if run.status != 0:
        raise BenchError("weft perf cannot fill %s: %s" % (target.name, (run.err or run.out).strip()[-500:]))


def base_argv(bench, target):
    return [bench.weft, "perf", "-a", "127.0.0.1", "-s", str(target.port), "-n", target.nqn, "--json", "--quiet"]


def perf_argv(bench, target, load, warmup_s, time_s):
    argv = base_argv(bench, target) + [
        "--rw", load.rw, "--bs", load.bs, "--depth", str(load.depth), "--queues", str(load.queues),
        "--queue-size", str(load.queue_size), "--time", "%dms" % round(time_s * 1000),
        "--warmup", "%dms" % round(warmup_s * 1000)]
    argv += ["--rwmixread", str(load.mix_read)] if load.rw in ("rw", "randrw") else []
    argv += ["-g", "-G"] if load.digests else []
    argv += ["--rate", str(load.rate)] if load.rate else []
    argv += ["--no-spin"] if load.sleeps else []
    argv += ["--size", load.size] if load.size else []
    return argv + list(load.extra)


def perf(bench, target, load, time_s=None, cpu=None):
    """One run of `weft perf` on the load's CPU against any target; returns figures."""
    time_s, warmup_s = time_s or bench.time_s, bench.warmup_s
    if load.rate and not bench.has_rate:
        raise BenchError("weft perf has no --rate in this build")
    argv = perf_argv(bench, target, load, warmup_s, time_s)
    run = process.run_client(argv, bench.cpus.load if cpu is None else cpu, {"target": target.pid}, warmup_s, time_s,
                             probes=target.probes(), cpus=bench.cpu_pair)
    try:
        result = json.loads(run.out)
    except ValueError:
        raise BenchError("weft perf on %s: %s" % (target.name, (run.err or run.out).strip()[-500:] or "no output"))
    if run.status != 0:
        raise BenchError("weft perf on %s: status %d, %s" % (
            target.name, run.status, result.get("error") or "I/O errors: %s" % result.get("errors")))
    figures = figures_of(result)
    figures["asked_s"], figures["measured_s"] = time_s, result.get("elapsed_s", time_s)
    add_cpu(figures, run, target)
    figures["argv"] = argv
    figures["raw"] = result
    return figures


def figures_of(result):
    ways = [result[w] for w in ("read", "write") if result[w]["ios"] > 0]
    if not ways:
        raise BenchError("weft perf finished no I/O")
    main = max(ways, key=lambda w: w["ios"])
    latency = {("mean" if k == "avg" else k): v for k, v in main["latency_us"].items()}
    return {"iops": sum(w["iops"] for w in ways), "mib_per_s": sum(w["mib_per_s"] for w in ways),
            "latency_us": latency, "errors": result.get("io_errors", 0)}


def add_cpu(figures, run, target=None):
    """CPU figures from the window, the same way for every client and target."""
    iops = figures["iops"]
    figures["window_s"] = round(run.window_s, 3)
    figures["noise"] = run.noise()
    client = run.cpu_percent("client")
    if client is not None:
        figures["client_cpu_percent"] = client
        figures["client_cpu_us_per_io"] = client * 1e4 / iops if iops else None
    burnt = run.cpu_percent("target")
    if burnt is None or target is None:
        return
    busy = target.busy_percent(run)
    figures["target_cpu_percent"] = burnt
    if any(run.probe(name) for name in target.probes()):    # else idle polls cannot be told from work
        figures["target_busy_percent"] = busy
    figures["target_cpu_us_per_io"] = busy * 1e4 / iops if iops else None
    figures["target_rss_kib"] = process.rss_kib(target.pid)
