#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Tail and fairness: the effect of one host's load on another host.

  tail      4 KiB random reads at half of the maximum IOPS at the same depth, by a timetable (weft perf --rate, so
            that waiting counts); p99.9 alone, then while another host streams 128 KiB writes; at most 3 times as
            long. p50 and p99 are shown.
  fairness  two hosts of the same load at once; the faster has at most 1.1 times the slower's IOPS

The target, the reader and the writer need a CPU each. With two CPUs both hosts share the second, and the figures
depend on how the kernel shares it: they are then shown and not judged.

    bench/scenario_tail.py [options of bench/run]
"""

import time

import crowd
from lib import process, report, stats, weft
from lib.process import BenchError

TITLE = "tail and fairness between hosts"
SECONDS = 40                # three rounds of 4 points, and the maximum before: 13 of 2.5 s, and the target
IN_DEFAULT = True

DEPTH = 128
WRITER_HOST = "nqn.2026-11.io.weft:bench-writer"
PATHS = ("iops", "latency_us.p50", "latency_us.p99", "latency_us.p99_9", "target_cpu_percent", "late_p99_9_us",
         "reader_wait_percent", "writer_mib_per_s")


def writer_cpu(bench):
    free = sorted(set(bench.cpus.allowed) - {bench.cpus.target, bench.cpus.load})
    return free[0] if free else bench.cpus.load


def read(bench, target, rate):
    found = crowd.perf(bench, target, ["--depth", DEPTH, "--queue-size", DEPTH + 1, "--rate", rate], 2)
    raw = found["raw"]
    found["late_p99_9_us"] = raw["late_us"]["p99_9"]
    found["rate_kept"] = raw["rate_kept"]
    found["reader_wait_percent"] = found["noise"].get("run_delay_percent")
    return found


def read_disturbed(bench, target, rate):
    """The same while another host streams; its bandwidth is of its whole run."""
    with crowd.Client(bench, target, ["-q", WRITER_HOST, "--rw", "write", "--bs", "128k", "--depth", 32, "--time", "%dms" %
                                      round((bench.warmup_s + bench.time_s + 1.5) * 1000)], 2,
                      cpu=writer_cpu(bench)) as writer:
        found = read(bench, target, rate)
        found["writer_mib_per_s"] = writer.result()["write"]["mib_per_s"]
    # This point measures the reader's waiting: waiting does not discard it.
    found["noise"] = {"steal_percent": found["noise"].get("steal_percent", 0)}
    return found


def tail_row(bench, target):
    row, quiet, disturbed = "tail", "alone", "beside 128 KiB writes"
    most = bench.point("tail-max", "weft", 0, lambda: crowd.perf(bench, target, [
        "--depth", DEPTH, "--queue-size", DEPTH + 1], 2))
    if not most:
        raise BenchError("what the pair reaches is not known")
    rate = max(1000, int(most["iops"] / 2 / 1000) * 1000)
    is_shared = writer_cpu(bench) == bench.cpus.load
    crowd.points(bench, row, {quiet: lambda: read(bench, target, rate),
                              disturbed: lambda: read_disturbed(bench, target, rate)},
                 crowd.rounds_of(bench, 3))
    kept = [p["figures"]["rate_kept"] for p in bench.points if p["row"] == row and p["is_kept"]]
    checks = [report.check("p99.9 beside 128 KiB writes against alone",
                           crowd.ratio(bench, row, disturbed, quiet, "latency_us.p99_9"), "<=", 3.0,
                           reason="two hosts on one CPU: needs three CPUs" if is_shared else "", is_noisy=bench.is_noisy(row, (quiet, disturbed))),
              report.check("p99, the same", crowd.ratio(bench, row, disturbed, quiet, "latency_us.p99")),
              report.check("p50, the same", crowd.ratio(bench, row, disturbed, quiet, "latency_us.p50"))]
    checks += [report.check("%s %s, us" % (word, name), crowd.spread(bench, row, name, path), is_ratio=False)
               for name in (quiet, disturbed) for word, path in (("p50", "latency_us.p50"), ("p99", "latency_us.p99"))]
    note = "%d reads/s, half of %d; target on CPU %d, reader on CPU %d, writer on CPU %d%s%s" % (
        rate, most["iops"], bench.cpus.target, bench.cpus.load, writer_cpu(bench),
        " (shared: the kernel's time slices are in the ratio)" if is_shared else "",
        "" if all(kept) else "; NOT ALL RATES WERE KEPT: %d of %d" % (sum(kept), len(kept)))
    return report.row_result(row, "p99.9 of 4 KiB reads at half load", crowd.figures(bench, row, (quiet, disturbed), PATHS),
                             checks, "latency_us.p99_9", "4 KiB randread, %d/s" % rate, note=note)


def two_hosts(bench, target):
    """Two processes at once; IOPS of both over the same time, from their own counts."""
    arguments = ["--depth", 32, "--warmup", "%dms" % round(bench.warmup_s * 1000 + 300), "--time", "%dms" %
                 round(bench.time_s * 1000)]
    with crowd.Client(bench, target, arguments + ["-q", WRITER_HOST + "-1"], 2) as one, \
            crowd.Client(bench, target, arguments + ["-q", WRITER_HOST + "-2"], 2, cpu=writer_cpu(bench)) as two:
        first = process.sample({"target": target.pid}, bench.cpu_pair, {})
        time.sleep(bench.time_s)    # the interval of the measurement
        last = process.sample({"target": target.pid}, bench.cpu_pair, {})
        iops = sorted(c.result()["read"]["iops"] for c in (one, two))
    run = process.ClientRun(0, "", "", first, last)
    return {"iops": sum(iops), "slower": iops[0], "faster": iops[1], "unfairness": iops[1] / iops[0],
            "target_cpu_percent": run.cpu_percent("target"),
            "noise": {"steal_percent": run.noise().get("steal_percent", 0)}}


def two_ctrls(bench, target):
    """Two controllers of one process, which excludes the kernel's scheduler."""
    found = crowd.perf(bench, target, ["--controllers", 2, "--depth", 32], 4)
    ctrls = found["raw"]["controller_iops"]
    found["unfairness"] = ctrls["max"] / ctrls["min"] if ctrls["min"] else float("inf")
    return found


def fairness_row(bench, target):
    row, hosts, ctrls = "fairness", "two hosts", "two controllers of one host"
    crowd.points(bench, row, {hosts: lambda: two_hosts(bench, target), ctrls: lambda: two_ctrls(bench, target)},
                 crowd.rounds_of(bench, 3))
    checks = [report.check("faster against slower of %s" % name, stats.spread(bench.values(row, name, "unfairness").values()),
                           "<=", 1.1) for name in (hosts, ctrls)]
    return report.row_result(row, "two equal loads at once", crowd.figures(bench, row, (hosts, ctrls), (
        "iops", "target_cpu_percent", "unfairness")), checks, "iops", "4 KiB randread, depth 32 each")


def run(bench):
    rows = []
    with weft.Target(bench, name="weft-tail") as target:
        target.prefill()
        for part in (tail_row, fairness_row):
            try:
                rows.append(part(bench, target))
            except BenchError as e:
                bench.say("  %s: %s" % (part.__name__, e))
    return rows


if __name__ == "__main__":
    crowd.standalone(globals())
