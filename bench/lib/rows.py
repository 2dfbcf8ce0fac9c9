# SPDX-License-Identifier: Apache-2.0
"""
What is measured and the limits, as data. A contender is CLIENT>TARGET, or one word when both are of one project:

  weft         weft perf on weft serve             spdk         spdk_nvme_perf on nvmf_tgt
  spdk>weft    spdk_nvme_perf on weft serve        weft>spdk    weft perf on nvmf_tgt
  echo         the ceiling                         echo-sleep   the same, both ends sleeping
  weft-r2t     weft, no data in capsules           weft-file    weft on a file with O_DIRECT
  X>weft-hot   a client on a namespace of 1 MiB, which is in the cache: the client is the slower side
  fio          io_uring directly on that file

A check divides a figure of one contender by that of another, round by round; the median is judged. Limits are the
project's and are not lowered here when they are missed.
"""

import dataclasses

from .workload import Workload

ALL = ("echo", "weft", "spdk", "spdk>weft", "weft>spdk")
NO_ECHO = ("weft", "spdk", "spdk>weft", "weft>spdk")


@dataclasses.dataclass(frozen=True)
class Check:
    key: str                 # groups checks into columns: spdk, ceiling, other, same
    title: str
    above: tuple             # (contender, figure)
    below: tuple = None      # None: the figure itself is judged
    relation: str = ">="     # >=, <= or <
    limit: float = None      # None: shown, not judged
    minus: tuple = None      # subtracted from above first, in the same round
    when: str = ""           # a condition that bench.py knows


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    title: str
    load: Workload
    contenders: tuple
    checks: tuple
    figure: str = "iops"     # what the tables show
    kind: str = "load"       # load, idle or curve
    time_s: float = 0.0      # its own time; 0: that of the run
    rounds: int = 0          # its own rounds; 0: those of the run
    source: str = ""         # uses the points of that row, runs nothing
    rates: tuple = ()        # curve: offered loads, 0 for as fast as it goes


def over_spdk(limit, figure="iops"):
    return Check("spdk", "against SPDK, pair against pair", ("weft", figure), ("spdk", figure), ">=", limit)


def over_ceiling(limit, figure="iops"):
    return Check("ceiling", "against the ceiling", ("weft", figure), ("echo", figure), ">=", limit)


def same_client(figure="iops"):
    return (Check("same", "targets under weft perf", ("weft", figure), ("weft>spdk", figure)),
            Check("same", "targets under spdk_nvme_perf", ("spdk>weft", figure), ("spdk", figure)))


def lower(what, title):
    return Check("other", title, ("weft", what), ("spdk", what), "<", 1.0)


CPU = "target_cpu_us_per_io"
RANDREAD_128 = Workload("randread", depth=128)
BIG_READ, BIG_WRITE = (Workload(rw, bs="128k", depth=32) for rw in ("read", "write"))
FIRST_RATE = 50

ROWS = (
    Row("randread-1", "4 KiB random read, depth 1", Workload("randread", depth=1, wants_latency=True), ALL,
        (over_spdk(1.3), lower("latency_us.p50", "p50 against SPDK"), lower("latency_us.p99", "p99 against SPDK"),
         over_ceiling(0.85)) + same_client()),
    Row("randread-32", "4 KiB random read, depth 32", Workload("randread", depth=32), ALL,
        (over_spdk(1.5), over_ceiling(0.75)) + same_client()),
    Row("randread-128", "4 KiB random read, depth 128", RANDREAD_128, ALL,
        (over_spdk(1.5), over_ceiling(0.75)) + same_client()),
    Row("randread-4x32", "4 KiB random read, 4 queues, 128 in all", Workload("randread", depth=32, queues=4), ALL,
        (over_spdk(1.4), over_ceiling(0.8)) + same_client()),
    Row("randwrite-128", "4 KiB random write, depth 128, in-capsule", Workload("randwrite", depth=128), ALL,
        (over_spdk(1.3), over_ceiling(0.75)) + same_client()),
    Row("randwrite-r2t", "4 KiB random write, depth 128, by R2T", Workload("randwrite", depth=128),
        ("weft", "weft-r2t"),
        (Check("other", "of the in-capsule rate", ("weft-r2t", "iops"), ("weft", "iops"), ">=", 0.6),)),
    Row("mix-128", "4 KiB random, 70 % reads, depth 128", Workload("randrw", depth=128), NO_ECHO,
        (over_spdk(1.4),) + same_client()),
    Row("read-128k", "128 KiB read, depth 32", BIG_READ, ALL,
        (over_spdk(1.8, "mib_per_s"), over_ceiling(0.8, "mib_per_s")) + same_client("mib_per_s"), "mib_per_s"),
    Row("write-128k", "128 KiB write, depth 32", BIG_WRITE, ALL,
        (over_spdk(1.5, "mib_per_s"), over_ceiling(0.75, "mib_per_s")) + same_client("mib_per_s"), "mib_per_s"),
    Row("randread-128-digest", "4 KiB random read, depth 128, header and data digests",
        Workload("randread", depth=128, digests=True), NO_ECHO, (over_spdk(1.4),) + same_client()),
    Row("read-128k-digest", "128 KiB read, depth 32, header and data digests",
        Workload("read", bs="128k", depth=32, digests=True), NO_ECHO,
        (over_spdk(1.4, "mib_per_s"),) + same_client("mib_per_s"), "mib_per_s"),
    Row("write-128k-digest", "128 KiB write, depth 32, header and data digests",
        Workload("write", bs="128k", depth=32, digests=True), NO_ECHO,
        (over_spdk(1.4, "mib_per_s"),) + same_client("mib_per_s"), "mib_per_s"),
    Row("cpu-128", "target CPU per 4 KiB read, depth 128", RANDREAD_128, ALL,
        (Check("spdk", "pair against pair", ("weft", CPU), ("spdk", CPU), "<=", 0.65),
         Check("same", "both targets under weft perf", ("weft", CPU), ("weft>spdk", CPU)),
         Check("same", "both targets under spdk_nvme_perf", ("spdk>weft", CPU), ("spdk", CPU))),
        CPU, source="randread-128"),
    Row("host-128", "IOPS per client core, 4 KiB read, depth 128, target from its cache", RANDREAD_128,
        ("weft>weft-hot", "spdk>weft-hot"),
        (Check("spdk", "weft perf against spdk_nvme_perf, same target", ("weft>weft-hot", "iops_per_client_core"),
               ("spdk>weft-hot", "iops_per_client_core"), ">=", 1.3),), "iops_per_client_core"),
    Row("host-32", "IOPS per client core, 4 KiB read, depth 32, target from its cache", Workload("randread", depth=32),
        ("weft>weft-hot", "spdk>weft-hot"),     # shown, not judged: the target is weft perf's limit at this depth
        (Check("same", "weft perf against spdk_nvme_perf, same target", ("weft>weft-hot", "iops_per_client_core"),
               ("spdk>weft-hot", "iops_per_client_core")),), "iops_per_client_core"),
    Row("file-1", "file (O_DIRECT), 4 KiB read, depth 1", Workload("randread", depth=1, wants_latency=True),
        ("echo", "weft-file", "fio"),
        (Check("other", "added latency (p50 less fio's) in echo round trips", ("weft-file", "latency_us.p50"),
               ("echo", "latency_us.p50"), "<=", 1.3, minus=("fio", "latency_us.p50")),), "latency_us.p50"),
    Row("file-32", "file (O_DIRECT), 4 KiB read, depth 32", Workload("randread", depth=32), ("weft-file", "fio"),
        (Check("other", "of local fio's rate", ("weft-file", "iops"), ("fio", "iops"), ">=", 0.9,
               when="disk is the limit"),)),
    Row("idle-100", "idle, 100 connected queues", Workload("randread", depth=1, queues=100), ("weft", "spdk"),
        (Check("other", "% of a core", ("weft", "target_cpu_percent"), None, "<", 0.5),
         Check("same", "SPDK, % of a core", ("spdk", "target_cpu_percent"))),
        "target_cpu_percent", kind="idle", time_s=5.0, rounds=1),
    Row("first-io", "first I/O after idle (%d a second)" % FIRST_RATE,
        Workload("randread", depth=1, rate=FIRST_RATE, sleeps=True), ("echo-sleep", "weft"),
        (Check("ceiling", "p50 against a blocking echo", ("weft", "latency_us.p50"),
               ("echo-sleep", "latency_us.p50"), "<=", 1.2),), "latency_us.p50", time_s=3.0),
    Row("spin", "target CPU against load, 4 KiB random read", RANDREAD_128, ("weft", "weft>spdk"), (),
        "target_cpu_percent", kind="curve", rounds=2,
        rates=(1000, 5000, 10000, 20000, 50000, 100000, 200000, 400000, 0)),
)


def quick(row):
    """The same row, shortened to check that everything works."""
    few = tuple(r for r in row.rates if r in (1000, 50000, 0))
    return dataclasses.replace(row, time_s=min(row.time_s, 1.0), rates=few)


def by_name(name):
    return next((r for r in ROWS if r.name == name), None)
