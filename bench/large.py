# SPDX-License-Identifier: Apache-2.0
"""A target with a large configuration, for bench/footprint and bench/live: namespaces of 64 KiB of untouched memory,
spread evenly over the subsystems.
"""

import json
import os
import time

import crowd
from lib import process
from lib.machine import Cpus
from lib.process import BenchError

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NQN = "nqn.2026-11.io.weft:footprint-%d"


class Setup:
    """The settings that lib.weft needs."""

    def __init__(self, args, folder):
        self.weft = args.weft or os.path.join(ROOT, "build", "src", "cli", "weft")
        if not os.access(self.weft, os.X_OK):
            raise BenchError("there is no %s: run `make all` first, or name it with --weft" % self.weft)
        self.cpus = Cpus()
        self.work_folder = folder


class Target:
    """`weft serve` on a document, or on its state folder."""

    name, nqn = "weft", NQN % 0

    def __init__(self, setup, state, port, document=None, reactors=1, cpu=None):
        argv = [setup.weft, "serve", "--reactors", str(reactors), "--discovery", "none", "--state", state,
                "--log-level", "warn"]
        if document:
            path = os.path.join(setup.work_folder, "document.json")
            with open(path, "w") as f:
                json.dump(document, f)
            argv += ["-c", path, "--reset"]
        self.port, self.state = port, state
        began = time.monotonic()
        self.process = process.Process("weft", argv, setup.cpus.target if cpu is None else cpu,
                                       os.path.join(setup.work_folder, "target.log"))
        try:
            self.process.wait_for_port(port)
            self.start_s = time.monotonic() - began
            # The banner is printed after start-up: its temporary memory has been freed.
            self.process.wait_for_text("Connect with")
        except BenchError:
            self.process.stop()
            raise

    @property
    def pid(self):
        return self.process.pid

    def rss_bytes(self):
        return process.rss_kib(self.pid) * 1024

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.process.stop()


def document_of(port, subsystems, namespaces):
    made = [{"nqn": NQN % i, "namespaces": []} for i in range(subsystems)]
    for i in range(namespaces):
        spaces = made[i % subsystems]["namespaces"]
        spaces.append({"nsid": len(spaces) + 1, "media": "mem:64K"})
    return {"version": 1, "subsystems": made, "ports": [{"id": 1, "address": "127.0.0.1", "service": str(port)}],
            "limits": crowd.LIMITS}
