# SPDX-License-Identifier: Apache-2.0
"""
Connected idle queues: the plain-Python host of tests/wire, without keep alive, so that the CPU time used is only the
target's own.
"""

import os
import sys
import time

from . import process
from .process import BenchError


def nvmetcp(root):
    path = os.path.join(root, "tests", "wire")
    if path not in sys.path:
        sys.path.insert(0, path)
    import nvmetcp as module
    return module


def idle(bench, target, queues=100, time_s=5.0):
    """CPU time of the target with this many idle queues."""
    wire = nvmetcp(bench.root)
    try:
        host = wire.Host(("127.0.0.1", target.port), target.nqn)
    except (OSError, wire.Violation, wire.Closed, wire.Late) as e:
        raise BenchError("cannot connect to %s: %s" % (target.name, e))
    held = []
    try:
        host.admin.set_feature(7, (queues - 1) << 16 | (queues - 1))
        for qid in range(1, queues + 1):
            held.append(host.queue(qid, sqsize=31))
        time.sleep(0.5)     # let the work of connecting end
        first = process.sample({"target": target.pid}, bench.cpu_pair)
        time.sleep(time_s)  # the interval of the measurement
        last = process.sample({"target": target.pid}, bench.cpu_pair)
    except (OSError, wire.Violation, wire.Closed, wire.Late) as e:
        raise BenchError("%s: queue %d of %d: %s" % (target.name, len(held) + 1, queues, e))
    finally:
        for queue in held:
            queue.close()
        host.close()
    run = process.ClientRun(0, "", "", first, last)
    return {"iops": 0.0, "target_cpu_percent": run.cpu_percent("target"), "queues": queues,
            "window_s": round(run.window_s, 3), "noise": dict(run.noise(), run_delay_percent=0.0),
            "target_rss_kib": process.rss_kib(target.pid)}
