# SPDX-License-Identifier: Apache-2.0
"""
The library under bench/run: start a target, load it, measure its cost and the noise of the machine
meanwhile. Python 3.11, standard library only. A scenario of its own is a file
bench/scenario_NAME.py; bench/run finds it, lists it beside the rows of the table and calls it:

    TITLE = "growth: 1 to 1,000 connections"    # one line
    SECONDS = 60                                # how long it takes, for the ETA
    IN_DEFAULT = False                          # True: a plain bench/run runs it too

    def run(bench):                             # bench: lib.bench.Bench
        ...
        return [row, ...]                       # lib.report.row_result(...), in result.json

In short:

    from lib import weft
    from lib.workload import Workload

    with weft.Target(bench, ns="mem:256M") as target:       # pinned on bench.cpus.target
        target.prefill()
        for round_ in range(bench.options.rounds):
            figures = bench.point("growth-100", "weft", round_,
                lambda: weft.perf(bench, target, Workload("randread", depth=1, queues=100)))

Modules
  machine   Cpus (target, load, own), facts(), Noise: calibrated loop, steal, run-queue delay
  process   free_port(); Process: start pinned, cpu_ns(), run_delay_ns(), rss_kib(), park(), unpark(),
            stop(); run_client(): a client to its end with CPU and noise of everybody watched in the
            measured window; stop_all(): nothing is left behind
  workload  Workload(rw, bs, depth, queues, digests, mix_read, rate, sleeps, wants_latency)
  weft      Target(bench, ns=..., in_capsule=..., spin_us=..., reactors=1, limits={...}), perf()
  spdk      Target(bench), perf(), find(): only with SPDK_DIR
  echo      Server(bench, sleeps=False), client(): the ceiling
  fio       run(): io_uring straight on a file
  hold      connect N queues that say nothing (idle cost)
  rows      the table of what is to be reached, as data
  stats     median, Spread, ratio of paired rounds
  bench     Bench: options, CPUs, tools, targets that are up, point() with retries, the recorder
  report    row_result(), text and markdown tables, result.json
  plot      SVG bars and curves
  compare   what changed between two results beyond their noise

Figures are plain dictionaries, the same keys from every client, absent where not known:
  iops, mib_per_s, latency_us {min mean p50 p90 p99 p99_9 max}, errors,
  target_cpu_percent (of one core, burnt), target_busy_percent (of it: not polls that found no work),
  target_cpu_us_per_io (of the busy time), client_cpu_percent, client_cpu_us_per_io, window_s,
  noise {run_delay_percent, steal_percent}, argv.

A curve is the series of a row, {name: [point, ...]}; a point holds figures as Spread.as_dict() and
either "offered" (I/Os a second, or "max") or "x" (any number): then row["shown"] is drawn over it.

A target that polls for ever (SPDK) is parked with SIGSTOP while another one is measured.
"""
