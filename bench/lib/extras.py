# SPDX-License-Identifier: Apache-2.0
"""
Figures of the result beside the rows, where their programs exist: ns per operation (build/bench/micro/micro) and
instruction counts (bench/instructions). Both print JSON with --json.
"""

import json
import os

from . import process
from .process import BenchError


def counts_of(document):
    """{"4k read, depth 1, target": instructions} from the output of bench/instructions."""
    return {"%s, %s" % (row["name"], side): row[side] for row in document.get("rows", [])
            for side in ("target", "host") if isinstance(row.get(side), (int, float))}


def run_json(bench, argv, timeout_s):
    """The JSON output of a program; None, with a message, on failure."""
    if not os.access(argv[0], os.X_OK):
        return None
    try:
        run = process.run_client(argv, set(bench.cpus.allowed), None, 0, timeout_s, timeout_s=timeout_s)
        if run.status != 0:
            raise BenchError("status %d: %s" % (run.status, (run.err or run.out).strip()[-300:]))
        return json.loads(run.out)
    except (BenchError, ValueError) as e:
        bench.say("NO %s: %s" % (os.path.basename(argv[0]).upper(), e))
        return None


def collect(bench, root):
    """(counts that bench/compare judges, everything else by name)."""
    print("instruction counts and micro figures, about a minute", flush=True)
    micro_folder = os.path.join(bench.build_folder, "bench", "micro")
    others = {
        "instructions": run_json(bench, [os.path.join(root, "bench", "instructions"), "--json", "--program",
                                          os.path.join(micro_folder, "one_io")], 120),
        "micro": run_json(bench, [os.path.join(micro_folder, "micro"), "--json"], 60)}
    return counts_of(others["instructions"] or {}), {k: v for k, v in others.items() if v is not None}
