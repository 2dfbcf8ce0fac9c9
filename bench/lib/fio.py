# SPDX-License-Identifier: Apache-2.0
"""The local reference: fio with io_uring and O_DIRECT directly on the file that weft exports."""

import json
import os
import re

from . import process
from .process import BenchError
from .weft import add_cpu


def argv_of(path, load, warmup_s, time_s):
    return ["fio", "--name=local", "--filename=" + path, "--ioengine=io_uring", "--direct=1", "--rw=" + load.rw,
            "--bs=" + load.bs, "--iodepth=%d" % load.depth, "--time_based", "--runtime=%d" % max(1, round(time_s)),
            "--ramp_time=%dms" % round(warmup_s * 1000), "--norandommap", "--randrepeat=0", "--thread",
            "--invalidate=0", "--lat_percentiles=1", "--clat_percentiles=0",
            "--percentile_list=50:90:99:99.9:99.99", "--output-format=json"]


def parse(text):
    # fio may print other lines before its JSON.
    found = re.search(r"^\{.*^\}", text, re.S | re.M)
    job = json.loads(found.group(0) if found else text)["jobs"][0]
    way = max((job["read"], job["write"]), key=lambda w: w["total_ios"])
    # Submission and completion together, like weft perf.
    percentiles = way["lat_ns"].get("percentile", {})
    keys = {"50.000000": "p50", "90.000000": "p90", "99.000000": "p99", "99.900000": "p99_9", "99.990000": "p99_99"}
    latency = {keys[k]: v / 1000.0 for k, v in percentiles.items() if k in keys}
    latency.update(min=way["lat_ns"]["min"] / 1000.0, mean=way["lat_ns"]["mean"] / 1000.0,
                   max=way["lat_ns"]["max"] / 1000.0)
    return {"iops": way["iops"], "mib_per_s": way["bw_bytes"] / 1048576.0, "latency_us": latency}


def run(bench, path, load, time_s=None):
    time_s, warmup_s = max(1.0, time_s or bench.time_s), bench.warmup_s
    argv = argv_of(os.path.abspath(path), load, warmup_s, time_s)
    done = process.run_client(argv, bench.cpus.load, None, warmup_s + 0.2, time_s - 0.2, cpus=bench.cpu_pair)
    try:
        figures = parse(done.out)
    except (ValueError, KeyError, IndexError):
        raise BenchError("fio: status %d: %s" % (done.status, (done.err + done.out).strip()[-500:]))
    if done.status != 0:
        raise BenchError("fio: status %d: %s" % (done.status, done.err.strip()[-500:]))
    add_cpu(figures, done)
    figures["argv"] = argv
    return figures
