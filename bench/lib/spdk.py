# SPDX-License-Identifier: Apache-2.0
"""
The peer: SPDK's nvmf_tgt and spdk_nvme_perf, where SPDK_DIR names a built tree. This repository contains nothing of
SPDK. Its target gets the same namespace, queue size and in-capsule size as weft, its own default (posix) sockets, and
hugepages where enough are free.

nvmf_tgt polls all the time, so it is parked while others are measured. Its reactor counts the ticks of polls that
found work. target_cpu_us_per_io counts only those ticks, in favour of SPDK.
"""

import json
import os
import re
import socket

from . import machine, process
from .process import BenchError
from .weft import NQN, add_cpu, prefill
from .workload import size_bytes

TARGET_MIB, CLIENT_MIB = 1024, 512
# weft refuses a host without an NQN, as the specification requires.
HOST_NQN = "nqn.2014-08.org.nvmexpress:uuid:6b2f5d0e-8c1b-4a5e-9d3f-7e1a2b3c4d5e"
LAUNCHED = "Launching workers"
ROW = re.compile(r"^Total\s*:\s*([\d.]+)\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)", re.M)
CUTOFF = re.compile(r"^\s*([\d.]+)% :\s+([\d.]+)us", re.M)
KEYS = {50.0: "p50", 90.0: "p90", 99.0: "p99", 99.9: "p99_9", 99.99: "p99_99"}


def find(folder):
    """The two programs of a built tree; BenchError with the remedy when they are missing."""
    paths = {n: os.path.join(folder, "build", "bin", n) for n in ("nvmf_tgt", "spdk_nvme_perf")}
    for name, path in paths.items():
        if not os.access(path, os.X_OK):
            raise BenchError("SPDK_DIR=%s has no build/bin/%s: build it there (./configure && make), or unset "
                             "SPDK_DIR" % (folder, name))
    paths["has_hugepages"] = has_hugepages()
    return paths


def has_hugepages():
    free_mib = machine.meminfo_kib("HugePages_Free") * machine.meminfo_kib("Hugepagesize") // 1024
    return free_mib >= TARGET_MIB + CLIENT_MIB


def memory_argv(bench, mib):
    """Decided once: when the client starts, the target already uses the free pages."""
    return ["-s", str(mib)] + ([] if bench.spdk["has_hugepages"] else ["--no-huge"])


def config_of(port, size, in_capsule, queue_size):
    block = 4096
    return {"subsystems": [
        {"subsystem": "sock", "config": [
            {"method": "sock_set_default_impl", "params": {"impl_name": "posix"}}]},
        {"subsystem": "bdev", "config": [
            {"method": "bdev_malloc_create", "params": {
                "name": "Malloc0", "num_blocks": size_bytes(size) // block, "block_size": block}}]},
        {"subsystem": "nvmf", "config": [
            {"method": "nvmf_create_transport", "params": {
                "trtype": "TCP", "in_capsule_data_size": in_capsule, "max_queue_depth": queue_size}},
            {"method": "nvmf_create_subsystem", "params": {
                "nqn": NQN, "allow_any_host": True, "serial_number": "BENCH"}},
            {"method": "nvmf_subsystem_add_ns", "params": {
                "nqn": NQN, "namespace": {"bdev_name": "Malloc0", "nsid": 1}}},
            {"method": "nvmf_subsystem_add_listener", "params": {"nqn": NQN, "listen_address": {
                "trtype": "TCP", "adrfam": "IPv4", "traddr": "127.0.0.1", "trsvcid": str(port)}}}]}]}


class Target:
    name = "spdk"
    nqn = NQN

    def __init__(self, bench, size="256M", in_capsule=8192, queue_size=256):
        self.bench = bench
        self.port = process.free_port()
        folder = os.path.join(bench.work_folder, "spdk")
        os.makedirs(folder, exist_ok=True)
        config = os.path.join(folder, "config.json")
        with open(config, "w") as f:
            json.dump(config_of(self.port, size, in_capsule, queue_size), f, indent=1)
        # The path of a socket must be short; that of the build folder may be long.
        self.rpc_path = "/tmp/weft-bench-%d.sock" % os.getpid()
        self.argv = [bench.spdk["nvmf_tgt"], "-m", "[%d]" % bench.cpus.target, "--disable-cpumask-locks", "--no-pci",
                     "-c", config, "-r", self.rpc_path] + memory_argv(bench, TARGET_MIB)
        self.process = process.Process("nvmf_tgt", self.argv, bench.cpus.target, os.path.join(folder, "log"))
        try:
            self.process.wait_for_text("Target Listening on", 30.0)
        except BenchError:
            self.stop()
            raise
        self.version = self.ask_version()

    @property
    def pid(self):
        return self.process.pid

    def prefill(self, size="256M"):
        prefill(self.bench, self, size)

    def rpc(self, method):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(2.0)
            s.connect(self.rpc_path)
            s.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method}).encode())
            text = b""
            while True:
                part = s.recv(1 << 16)
                text += part
                try:
                    return json.loads(text)["result"]
                except ValueError:
                    if not part:
                        raise OSError("nvmf_tgt closed its socket")

    def ticks(self):
        """(busy, idle) of the reactor, or None when unknown."""
        try:
            reactors = self.rpc("framework_get_reactors")["reactors"]
            return sum(r["busy"] for r in reactors), sum(r["idle"] for r in reactors)
        except (OSError, KeyError, ValueError):
            return None

    def probes(self):
        return {"ticks": self.ticks}

    def busy_percent(self, run):
        burnt, ticks = run.cpu_percent("target"), run.probe("ticks")
        if burnt is None or not ticks:
            return burnt
        busy, idle = (ticks[1][i] - ticks[0][i] for i in (0, 1))
        return burnt * busy / (busy + idle) if busy + idle > 0 else burnt

    def ask_version(self):
        try:
            return self.rpc("spdk_get_version")["version"]
        except (OSError, KeyError, ValueError):
            return "SPDK, version unknown"

    def park(self):
        self.process.park()

    def unpark(self):
        self.process.unpark()

    def stop(self):
        status = self.process.stop()
        try:
            os.unlink(self.rpc_path)
        except OSError:
            pass
        return status


def perf_argv(bench, target, load, warmup_s, time_s):
    argv = [bench.spdk["spdk_nvme_perf"], "-c", "[%d]" % bench.cpus.load, "-q", str(load.depth * load.queues),
            "-P", str(load.queues), "-o", str(load.bytes), "-w", load.rw, "--io-queue-size", str(load.queue_size),
            "-t", str(max(1, round(time_s))), "-a", str(max(1, round(warmup_s))),
            "-r", "trtype:TCP adrfam:IPv4 traddr:127.0.0.1 trsvcid:%d subnqn:%s hostnqn:%s" % (
                target.port, target.nqn, HOST_NQN)]
    argv += ["-M", str(load.mix_read)] if load.rw in ("rw", "randrw") else []
    argv += ["-H", "-I"] if load.digests else []
    argv += ["-L"] if load.wants_latency else []
    return argv + memory_argv(bench, CLIENT_MIB)


def parse(text):
    """Figures from what spdk_nvme_perf prints."""
    text = text.replace("\r", "\n")
    found = ROW.search(text)
    if not found:
        return None
    iops, mib, mean, low, high = (float(g) for g in found.groups())
    latency = {"min": low, "mean": mean, "max": high}
    for percent, us in CUTOFF.findall(text):
        key = KEYS.get(round(float(percent), 4))
        if key:
            latency[key] = float(us)
    return {"iops": iops, "mib_per_s": mib, "latency_us": latency}


def perf(bench, target, load, time_s=None):
    """spdk_nvme_perf counts in whole seconds, so its warm-up is one."""
    if load.rate:
        raise BenchError("spdk_nvme_perf cannot pace its load")
    time_s = max(1, round(time_s or bench.time_s))
    argv = perf_argv(bench, target, load, 1, time_s)
    run = process.run_client(argv, bench.cpus.load, {"target": target.pid}, 1.0, float(time_s), launch_text=LAUNCHED,
                             probes=target.probes(), cpus=bench.cpu_pair)
    figures = parse(run.out)
    if run.status != 0 or not figures:
        raise BenchError("spdk_nvme_perf on %s: status %d: %s" % (
            target.name, run.status, (run.out + run.err).strip()[-800:]))
    add_cpu(figures, run, target)
    figures["argv"] = argv
    return figures
