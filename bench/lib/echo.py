# SPDX-License-Identifier: Apache-2.0
"""The ceiling: bench/micro/echo moves the same bytes with the same batching and no NVMe."""

import json
import os

from . import process
from .process import BenchError
from .weft import SIZE, add_cpu
from .workload import Workload

PREFILL = Workload("write", bs="128k", depth=8)


class Server:
    name = "echo"

    def __init__(self, bench, sleeps=False, memory=SIZE):
        self.bench = bench
        self.name = "echo-sleep" if sleeps else "echo"
        self.port = process.free_port()
        argv = [bench.echo, "server", "--listen", "127.0.0.1:%d" % self.port, "--memory", memory]
        argv += ["--sleep"] if sleeps else []
        self.process = process.Process(self.name, argv, bench.cpus.target,
                                       os.path.join(bench.work_folder, self.name + ".log"))
        try:
            # Its output may be buffered, so its port is polled as well.
            self.process.wait_for_port(self.port)
        except BenchError:
            self.process.stop()
            raise

    @property
    def pid(self):
        return self.process.pid

    def prefill(self):
        argv = client_argv(self.bench, self, PREFILL, 0, 0.5)
        run = process.run_client(argv, self.bench.cpus.load, time_s=0.5)
        if run.status != 0:
            raise BenchError("echo client cannot fill the server: %s" % (run.err or run.out).strip()[-500:])

    def park(self):
        self.process.park()

    def unpark(self):
        self.process.unpark()

    def probes(self):
        return {}

    def busy_percent(self, run):
        return run.cpu_percent("target")

    def stop(self):
        return self.process.stop()


def client_argv(bench, server, load, warmup_s, time_s):
    argv = [bench.echo, "client", "--connect", "127.0.0.1:%d" % server.port, "--rw", load.rw, "--bs", load.bs,
            "--depth", str(load.depth), "--connections", str(load.queues), "--size", load.size or SIZE,
            "--time", "%dms" % round(time_s * 1000), "--warmup", "%dms" % round(warmup_s * 1000)]
    argv += ["--sleep"] if load.sleeps else []
    argv += ["--rate", str(load.rate)] if load.rate else []
    return argv


def client(bench, server, load, time_s=None):
    time_s, warmup_s = time_s or bench.time_s, bench.warmup_s
    argv = client_argv(bench, server, load, warmup_s, time_s)
    run = process.run_client(argv, bench.cpus.load, {"target": server.pid}, warmup_s, time_s, cpus=bench.cpu_pair)
    try:
        result = json.loads(run.out)
    except ValueError:
        raise BenchError("echo client: %s" % ((run.err or run.out).strip()[-500:] or "no output"))
    if run.status != 0:
        raise BenchError("echo client: status %d: %s" % (run.status, run.err.strip()[-500:]))
    figures = {"iops": result["iops"], "mib_per_s": result["mib_per_s"], "latency_us": result["latency_us"]}
    add_cpu(figures, run, server)
    figures["argv"] = argv
    figures["raw"] = result
    return figures

