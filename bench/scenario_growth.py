#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Growth: IOPS of a target core when there is more of everything but work. 4 KiB random reads from memory. The judged
figure is IOPS per second of target CPU at work ("per core": without spinning that found nothing), so that the client,
which carries all connections on one core, does not limit the figure.

  connections  1, 10, 100, 1,000 controllers of one I/O queue, with the same depth on each. Judged:
               1,000 against 1; shown: 1,000 against the best of fewer.
  total        the same with the same total depth: a thousand connections share the depth of one, batches get
               shorter, and each command has its own system calls. Shown, beside the loss of the bare echo server.
  reactors     2 against 2,000 connections over two reactors, judged as above
  namespaces   1 against 10,000 that hold the same memory
  idle         32 commands in flight beside 0 and 10,000 idle connections of another process
  memory       resident memory of a controller and of an I/O queue

    bench/scenario_growth.py [options of bench/run]
"""

import time

import crowd
from lib import echo, process, report, stats, weft
from lib.process import BenchError
from lib.workload import Workload

TITLE = "growth: connections, namespaces, idle connections, memory"
SECONDS = 110               # 42 points of 2.2 s on average, the memory of 4 targets, starting and filling 5 others
IN_DEFAULT = True

COUNTS = (1, 10, 100, 1000)
DEPTHS = (1, 32)
TOTAL_DEPTH = 1000
CORE = "iops_per_target_core"
IDLE_CTRLS = 5000           # each an admin and an I/O queue
NAMESPACES = 10000
NS_BYTES = 64 << 10
PATHS = ("iops", CORE, "target_cpu_us_per_io", "client_cpu_us_per_io", "target_cpu_percent",
         "target_busy_percent", "latency_us.p50", "latency_us.p99", "target_rss_kib")


def load(ctrls, depth):
    return ["--controllers", ctrls, "--depth", depth, "--queue-size", depth + 1 if depth > 31 else 32]


def fairness(bench, row, names):
    """Slowest over fastest controller; means little with few I/Os each."""
    return stats.spread([p["figures"]["raw"]["controller_iops"]["min"] / p["figures"]["raw"]["controller_iops"]["max"]
                         for p in bench.points if p["row"] == row and p["contender"] in names and p["is_kept"]
                         and p["figures"]["raw"]["controller_iops"]["max"] > 0])


def series(bench, row, counts):
    """A curve over the number of connections. counts: {name of a point: connections}."""
    found = []
    for name, count in counts.items():
        spreads = {p: crowd.spread(bench, row, name, p) for p in PATHS}
        if spreads["iops"]:
            found.append(dict({p: s.as_dict() for p, s in spreads.items() if s}, x=count))
    return found


def best_of(bench, row, names):
    """The name with the most IOPS per core; None when unknown."""
    medians = {n: crowd.spread(bench, row, n, CORE) for n in names}
    known = [n for n in medians if medians[n]]
    return max(known, key=lambda n: medians[n].median) if known else None


def connections_row(bench, target, name, title, shapes, limit):
    """shapes: [(controllers, depth), ...], from the least to the most; without a limit the row is only shown."""
    counts = {"%d x %d" % s: s[0] for s in shapes}
    crowd.points(bench, name, {"%d x %d" % s: (lambda s=s: crowd.perf(bench, target, load(*s), 2 * s[0]))
                               for s in shapes}, crowd.rounds_of(bench, 2))
    names = list(counts)
    best = best_of(bench, name, names[:-1])
    checks = [report.check("1,000 connections against 1, per core",
                           crowd.ratio(bench, name, names[-1], names[0], CORE), ">=", limit,
                           is_noisy=bench.is_noisy(name, (names[0], names[-1]))),
              report.check("1,000 connections against the best of fewer (%s), per core" % best,
                           crowd.ratio(bench, name, names[-1], best, CORE) if best else None),
              report.check("slowest of 1,000 controllers against the fastest", fairness(bench, name, names[-1:]))]
    noisy, thrown = bench.noisy_count(name)
    row = report.row_result(name, title, {}, checks, CORE, "4 KiB randread, controllers x depth: " + ", ".join(names),
                            {"weft": series(bench, name, counts)}, noisy, thrown)
    row["x_title"] = "connections"
    return row


def ceiling_add(bench, row):
    """Adds the loss of the bare server, with the same bytes and no NVMe: the cost of sharing."""
    name, works = "growth-total-ceiling", {"one": (1, TOTAL_DEPTH), "many": (COUNTS[-1], TOTAL_DEPTH // COUNTS[-1])}
    title = "the ceiling's own fall, 1,000 connections against 1, per core"
    if bench.missing("echo"):
        row["checks"].append(report.check(title, None, reason=bench.missing("echo")))
        return

    def measure(queues, depth):
        figures = echo.client(bench, server, Workload(queues=queues, depth=depth))
        if figures.get("target_cpu_us_per_io"):
            figures[CORE] = 1e6 / figures["target_cpu_us_per_io"]
        return figures

    server = echo.Server(bench)
    try:
        server.prefill()
        crowd.points(bench, name, {n: (lambda w=w: measure(*w)) for n, w in works.items()}, crowd.rounds_of(bench, 2))
    finally:
        server.stop()
    row["checks"].append(report.check(title, crowd.ratio(bench, name, "many", "one", CORE)))
    curve = series(bench, name, {n: w[0] for n, w in works.items()})
    if curve:
        row["series"]["echo"] = curve


def connections_rows(bench):
    rows = []
    with weft.Target(bench, limits=crowd.LIMITS, name="weft-growth") as target:
        target.prefill()
        for depth in DEPTHS:
            rows.append(connections_row(bench, target, "growth-depth-%d" % depth,
                                        "1 to 1,000 connections, depth %d on each" % depth,
                                        [(count, depth) for count in COUNTS], 0.75))
        rows.append(connections_row(bench, target, "growth-total", "1 to 1,000 connections, depth %d in all" %
                                    TOTAL_DEPTH, [(count, TOTAL_DEPTH // count) for count in COUNTS], None))
    ceiling_add(bench, rows[-1])
    return rows


def reactors_row(bench):
    row, few, many = "growth-reactors", "2 x 32", "2000 x 32"
    spare = len(bench.cpus.allowed) > 2
    cpu = set(bench.cpus.allowed) - {bench.cpus.load} if spare else set(bench.cpus.allowed)
    with weft.Target(bench, limits=crowd.LIMITS, reactors=2, cpu=cpu, name="weft-growth-2") as target:
        target.prefill()
        crowd.points(bench, row, {few: lambda: crowd.perf(bench, target, load(2, 32), 4),
                                  many: lambda: crowd.perf(bench, target, load(2000, 32), 4000)},
                     crowd.rounds_of(bench, 2))
    checks = [report.check("2,000 connections against 2, per core", crowd.ratio(bench, row, many, few, CORE), ">=", 0.75,
                           is_noisy=bench.is_noisy(row, (few, many)))]
    shared = "" if spare else " (two CPUs: the load shares one with a reactor)"
    note = "" if spare else ("Two reactors and the load have two CPUs here: one reactor waits for the load and the load "
                             "for it. CPU time per I/O is judged, which waiting is not in; IOPS say little.")
    noisy, thrown = bench.noisy_count(row)
    return report.row_result(row, "2 and 2,000 connections over 2 reactors" + shared,
                             crowd.figures(bench, row, (few, many), PATHS), checks, CORE,
                             "4 KiB randread, controllers x depth" + shared, noisy=noisy, thrown=thrown, note=note)


def namespaces_target(bench, count):
    """The largest number up to count that the target takes, with the reason when it is less."""
    reason = ""
    while True:
        try:
            return weft.Target(bench, ns=["mem:%d" % NS_BYTES] * count, limits=crowd.LIMITS,
                               name="weft-growth-ns"), count, reason
        except BenchError as e:
            if count <= 1024:
                raise
            lines = [l for l in str(e).splitlines() if "namespaces" in l] or [str(e)[-200:]]
            reason = "a target with %d namespaces does not start: %s" % (count, lines[0].strip()[:160])
            count = 1024


def namespaces_row(bench):
    row, one, many = "growth-namespaces", "1 namespace", "many namespaces"
    target, count, reason = namespaces_target(bench, NAMESPACES)
    with target, weft.Target(bench, ns="mem:%d" % (count * NS_BYTES), limits=crowd.LIMITS,
                             name="weft-growth-ns1") as single:
        single.prefill("%d" % (count * NS_BYTES))
        # At random, four times the size: about one page in fifty stays unwritten.
        crowd.Client(bench, target, ["--namespaces", count, "--rw", "randwrite", "--bs", "64k", "--bytes",
                                     4 * count * NS_BYTES], 2).result()
        crowd.points(bench, row, {
            one: lambda: crowd.perf(bench, single, ["--depth", 32], 2),
            many: lambda: crowd.perf(bench, target, ["--depth", 32, "--namespaces", count], 2, settle_s=1.0)},
            crowd.rounds_of(bench, 3))
    value = crowd.ratio(bench, row, many, one, CORE)
    title = "%d namespaces against 1 of the same memory, per core" % count
    checks = [report.check(title, value, ">=", 0.95) if count == NAMESPACES else report.check(title, value)]
    if count != NAMESPACES:
        checks.append(report.check("10,000 namespaces against 1", None, ">=", 0.95, reason=reason))
    return report.row_result(row, "1 and %d namespaces of 64 KiB" % count, crowd.figures(bench, row, (one, many), PATHS),
                             checks, CORE, "4 KiB randread, depth 32")


def spare_cpu(bench):
    free = sorted(set(bench.cpus.allowed) - {bench.cpus.target, bench.cpus.load})
    return free[0] if free else bench.cpus.load


def idle_row(bench):
    row, alone, crowded = "growth-idle", "alone", "beside 10,000 idle connections"

    def measure():
        return crowd.perf(bench, target, ["--depth", 32], 2)

    def measure_crowded():
        with crowd.Client(bench, target, ["--controllers", 1, "--idle-controllers", IDLE_CTRLS - 1, "--rate", 1,
                                          "--no-spin", "--queue-size", 32, "--time", "10m"], 2 * IDLE_CTRLS,
                          cpu=spare_cpu(bench)) as idle:
            if not idle.process.is_running():
                idle.result()
            return measure()

    with weft.Target(bench, limits=crowd.LIMITS, name="weft-growth-idle") as target:
        target.prefill()
        crowd.points(bench, row, {alone: measure, crowded: measure_crowded}, crowd.rounds_of(bench, 2))
    checks = [report.check("IOPS per core beside 10,000 idle connections",
                           crowd.ratio(bench, row, crowded, alone, CORE), ">=", 0.9),
              report.check("IOPS beside 10,000 idle connections",
                           crowd.ratio(bench, row, crowded, alone, "iops"), ">=", 0.9)]
    note = "The idle connections belong to another process, on CPU %d%s, which keeps them alive." % (
        spare_cpu(bench), "" if spare_cpu(bench) != bench.cpus.load else " as the load")
    return report.row_result(row, "32 in flight, beside 0 and 10,000 idle connections",
                             crowd.figures(bench, row, (alone, crowded), PATHS), checks, CORE,
                             "4 KiB randread, depth 32", note=note)


def settled_rss_kib(pid, still_s=1.0, most_s=10.0):
    """Resident memory when it has stopped growing: every queue has been used by then."""
    deadline, since, last = time.monotonic() + most_s, time.monotonic(), process.rss_kib(pid)
    while time.monotonic() < min(deadline, since + still_s):
        time.sleep(0.1)
        now = process.rss_kib(pid)
        if now > last:
            since, last = time.monotonic(), now
    return last


def resident(bench, ctrls, queues, size):
    """KiB that a fresh target gains by these controllers, each queue used a little."""
    with weft.Target(bench, limits=crowd.LIMITS, name="weft-growth-mem") as target:
        target.prefill()
        # One controller connects and leaves first: its permanent allocations are not counted.
        crowd.Client(bench, target, ["--bytes", "4M"], 2).result()
        before = process.rss_kib(target.pid)
        with crowd.Client(bench, target, ["--controllers", ctrls, "--queues", queues, "--queue-size", size, "--depth",
                                          min(size - 1, 32), "--time", "60s", "--rate", 20000],
                          ctrls * (1 + queues)) as client:
            after = settled_rss_kib(target.pid)
            if not client.process.is_running():
                client.result()
            return after - before


def memory_row(bench):
    row, ctrls, made, checks = "growth-memory", 300, {}, []
    for size in (32, 128):
        try:
            one, three = resident(bench, ctrls, 1, size), resident(bench, ctrls, 3, size)
        except BenchError as e:
            checks.append(report.check("memory with queues of %d entries" % size, None, reason=str(e)[:200]))
            continue
        queue = (three - one) / (2.0 * ctrls)
        made["I/O queue of %d entries" % size] = {"target_rss_kib": stats.spread([queue])}
        if size == 32:
            made["controller with its admin queue"] = {"target_rss_kib": stats.spread([one / ctrls - queue])}
    return report.row_result(row, "resident memory of the target, each", made, checks, "target_rss_kib",
                             "%d controllers, 20k reads a second over all" % ctrls,
                             note="Socket buffers of the kernel are not in it; bench/churn says whether it stays flat.")


def run(bench):
    rows = []
    for part in (connections_rows, reactors_row, namespaces_row, idle_row, memory_row):
        try:
            found = part(bench)
        except BenchError as e:
            bench.say("  %s: %s" % (part.__name__, e))
            continue
        rows += found if isinstance(found, list) else [found]
    return rows


if __name__ == "__main__":
    crowd.standalone(globals())
