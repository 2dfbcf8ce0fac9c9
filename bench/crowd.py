# SPDX-License-Identifier: Apache-2.0
"""
For scenarios with many connections or several clients at once: a client whose measured time begins when the target
has all its connections, not when the client is started; and helpers that turn points into rows.
"""

import json
import os
import sys
import time

from lib import process, stats, weft
from lib.process import BenchError

# The maximum of weft.json(5), so that limits are not measured.
LIMITS = {"connections": 65536, "connections_per_host": 65536, "controllers": 65519, "controllers_per_host": 65519}
CONNECT_TIMEOUT_S = 60.0
MARGIN_S = 0.1
LEAST_S = 1.0       # of a point: connecting thousands takes longer than a quick one


def open_files(pid):
    try:
        return len(os.listdir("/proc/%d/fd" % pid))
    except OSError:
        return 0


class Client:
    """A `weft perf` in the background. connections: all that it opens, admin queues included."""

    count = 0

    def __init__(self, bench, target, arguments, connections, cpu=None):
        Client.count += 1
        self.bench, self.target = bench, target
        self.argv = weft.base_argv(bench, target) + [str(a) for a in arguments]
        wanted = open_files(target.pid) + connections
        self.process = process.Process("weft-perf", self.argv, bench.cpus.load if cpu is None else cpu,
                                       os.path.join(bench.work_folder, "client-%d.log" % Client.count))
        # result() reports the error of a client that has already ended.
        self.process_wait(lambda: open_files(target.pid) >= wanted)

    def process_wait(self, is_ready):
        deadline = time.monotonic() + CONNECT_TIMEOUT_S
        while not is_ready() and self.process.is_running():
            if time.monotonic() > deadline:
                self.stop()
                raise BenchError("weft perf did not connect within %d s" % CONNECT_TIMEOUT_S)
            time.sleep(0.01)

    def result(self, timeout_s=60.0):
        """Waits for the client; returns its JSON."""
        try:
            status = self.process.popen.wait(timeout_s)
        except Exception:
            self.stop()
            raise BenchError("weft perf did not end within %d s" % timeout_s)
        self.stop()
        text = self.process.log()
        try:
            found = json.loads(text[text.index("{"):])
        except ValueError:
            raise BenchError("weft perf: status %d: %s" % (status, text.strip()[-500:]))
        if status != 0:
            raise BenchError("weft perf: status %d: %s" % (status, found.get("error") or found.get("errors")))
        return found

    def stop(self):
        self.process.stop()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.stop()


def busy_share(run, target):
    """The share of busy time in the CPU time used; 1 when unknown."""
    burnt = run.cpu_percent("target")
    return target.busy_percent(run) / burnt if burnt else 1.0


def perf(bench, target, arguments, connections, settle_s=0.3, time_s=None, cpu=None):
    """One load over many connections; figures like lib.weft.perf, with raw and connections."""
    time_s, warmup_s = max(LEAST_S, settle_s + 0.5, time_s or bench.time_s), bench.warmup_s
    arguments = list(arguments) + ["--watch-pid", target.pid, "--warmup", "%dms" % round(warmup_s * 1000), "--time",
                                   "%dms" % round(time_s * 1000)]
    with Client(bench, target, arguments, connections, cpu) as client:
        watch = {"target": target.pid, "client": client.process.pid}
        time.sleep(warmup_s + settle_s)     # the load now runs; the window is inside of it
        first = process.sample(watch, bench.cpu_pair, target.probes())
        time.sleep(time_s - settle_s - MARGIN_S)  # the interval of the measurement
        last = process.sample(watch, bench.cpu_pair, target.probes())
        result = client.result()
    run = process.ClientRun(0, "", "", first, last)
    figures = weft.figures_of(result)
    weft.add_cpu(figures, run, target)
    figures.update(argv=client.argv, raw=result, connections=connections)
    # CPU time of the measured time is exact; the share of it that was work comes from the samples above.
    ios, burnt_s = result["read"]["ios"] + result["write"]["ios"], result["watched_cpu_s"]
    busy_s = burnt_s * busy_share(run, target)
    figures["target_cpu_percent"] = 100.0 * burnt_s / result["elapsed_s"]
    if "target_busy_percent" in figures:
        figures["target_busy_percent"] = 100.0 * busy_s / result["elapsed_s"]
    figures["target_cpu_us_per_io"] = 1e6 * busy_s / ios
    if busy_s > 0:
        figures["iops_per_target_core"] = ios / busy_s
    figures["client_cpu_us_per_io"] = result["cpu_us_per_io"]
    return figures


def points(bench, row, works, rounds):
    """Alternates over works: {name: function}; an error is reported and leaves a gap."""
    for round_ in range(rounds):
        for name, measure in works.items():
            bench.point(row, name, round_, measure)


def spread(bench, row, name, path):
    return stats.spread(bench.values(row, name, path).values())


def ratio(bench, row, above, below, path):
    return stats.ratio(bench.values(row, above, path), bench.values(row, below, path))


def figures(bench, row, names, paths):
    """For report.row_result: the known figures of each name."""
    found = {}
    for name in names:
        spreads = {p: spread(bench, row, name, p) for p in paths}
        found[name] = {p: s for p, s in spreads.items() if s}
    return {n: f for n, f in found.items() if f}


def rounds_of(bench, most):
    return max(1, min(most, bench.options.rounds))


def standalone(module):
    """Runs a scenario alone: bench/run with only that row, and bench/run's options."""
    name = os.path.basename(module["__file__"])[len("scenario_"):-len(".py")]
    run = os.path.join(os.path.dirname(os.path.abspath(__file__)), "run")
    os.execv(sys.executable, [sys.executable, run, "--rows", name, "--no-extras"] + sys.argv[1:])
