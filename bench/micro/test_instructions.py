#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
The limits of instruction counts must fail when exceeded: parsing of profiles and limits, and the comparison, on
made-up figures. Needs no valgrind.
"""

import contextlib
import importlib.machinery
import importlib.util
import io
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tests", "wire"))
from tap import Tap  # noqa: E402

PROFILE = """# callgrind format
version: 1
positions: line
events: Ir
summary: 1000

ob=/somewhere/one_io
fl=/somewhere/side_scope.c
fn=target_in_ready
10 5
cfi=/somewhere/tcp.c
cfn=conn_ready
calls=2 198
10 700
fi=/somewhere/inlined.h
12 20

fn=target_out_recv.part.0
30 4
cfn=reactor_sock_recv
calls=1 5
30 300

fn=host_in_deferred
40 50

fn=host_out_send
50 8
totals: 1000
"""


def load():
    loader = importlib.machinery.SourceFileLoader("instructions", os.path.join(HERE, "..", "instructions"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("instructions", loader))
    loader.exec_module(module)
    return module


def judged(guard, path, rows):
    """Whether the rows pass, and the messages."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        good = guard.check(path, rows)
    return good, said.getvalue()


def main():
    sys.dont_write_bytecode = True
    tap, guard = Tap(), load()
    with tempfile.TemporaryDirectory() as folder:
        profile, limits = os.path.join(folder, "profile"), os.path.join(folder, "limits")
        with open(profile, "w") as f:
            f.write(PROFILE)
        costs = guard.inclusive_costs(profile)
        tap.eq(guard.side_cost(costs, "target"), 725 - 304, "a side's cost: what came in less what went out")
        tap.eq(guard.side_cost(costs, "host"), 42, "the other side's")

        guard.write_limits(limits, [{"name": "a, b", "target": 1000.0, "host": 500.0}], "GCC: (test) 12")
        tap.eq(guard.read_limits(limits), {("a, b", "target"): (1000.0, 1150.0), ("a, b", "host"): (500.0, 575.0)},
               "limits are read as they were recorded")
        rows = [
            ("the same", 1000, 500, True, ""),
            ("a little more", 1149, 574, True, ""),
            ("too much on one side", 1151, 500, False, "a, b, target: 1151 counted, 1000 recorded"),
            ("too much on the other", 1000, 600, False, "a, b, host: 600 counted, 500 recorded"),
            ("far under", 700, 500, True, "lower the limit"),
        ]
        for name, target, host, want, text in rows:
            good, said = judged(guard, limits, [{"name": "a, b", "target": target, "host": host}])
            tap.ok(good == want and (text in said if text else said == ""), "limits: " + name, why=said)
        good, said = judged(guard, limits, [])
        tap.ok(not good and "not counted" in said, "limits: a row that is gone", why=said)
        good, said = judged(guard, limits, [{"name": r, "target": 1000, "host": 500} for r in ("a, b", "new")])
        tap.ok(not good and "no limit" in said, "limits: a row without one", why=said)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
