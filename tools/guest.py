# SPDX-License-Identifier: Apache-2.0
"""Shared by interop, interop-inside and blktests: a folder for a run, the guest that runs a script of tests/interop
in that folder, and the totals of the script's TAP output.
"""

import os
import re
import shutil
import subprocess

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
KERNELS = ("6.1", "6.12", "sid")
PROGRAM = os.path.join(ROOT, "build/src/cli/weft")


def add_arguments(parser, timeout_s, program=PROGRAM):
    parser.add_argument("--kernel", choices=KERNELS, default="6.12")
    parser.add_argument("--timeout", type=int, default=timeout_s)
    parser.add_argument("--weft", default=program)


def work_folder(name, files):
    """Makes an empty build/NAME and copies these files of tests/interop to it."""
    work = os.path.join(ROOT, "build", name)
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    for file in files:
        shutil.copy(os.path.join(ROOT, "tests/interop", file), work)
    return work


def stage_program(program, work, more=None):
    """
    Copies the program to work/weft/weft with its libraries and loader, independent of the guest's; `more` programs
    beside it, by name.
    """
    originals = []
    os.makedirs(os.path.join(work, "program"))
    for name, path in dict(more or {}, weft=program).items():
        originals.append(os.path.join(work, "program", name))    # whatever its original name
        shutil.copy(path, originals[-1])
    subprocess.run([os.path.join(ROOT, "tools/bundle"), os.path.join(work, "weft")] + originals, check=True)


def run(args, work, script, env, more=()):
    """Boots the guest, copies its TAP to standard output; returns (status, lines)."""
    argv = [os.path.join(ROOT, "tools/vmrun"), "--kernel", args.kernel, "--cpus", "4", "--share", work,
            "--timeout", str(args.timeout), "--console", os.path.join(work, "console.log")] + list(more)
    for name, value in env.items():
        argv += ["--env", "%s=%s" % (name, value)]
    p = subprocess.Popen(argv + ["--", "bash", "/mnt/host/" + script], stdout=subprocess.PIPE)
    lines = []
    try:
        for raw in p.stdout:
            lines.append(raw.decode(errors="replace").rstrip("\n"))
            print(lines[-1], flush=True)
        return p.wait(), lines
    finally:
        if p.poll() is None:
            p.terminate()


def count(status, lines):
    """(passed, failed, skipped); a guest that did not finish counts as one more failure."""
    skipped = sum(1 for line in lines if re.match(r"ok \d+ .*# SKIP", line))
    passed = sum(1 for line in lines if re.match(r"ok \d+\b", line)) - skipped
    failed = sum(1 for line in lines if re.match(r"not ok \d+\b", line))
    rows = passed + failed + skipped
    if not rows or "1..%d" % rows not in lines or (status and not failed):
        print("not ok: the guest ended early (status %d)" % status)
        failed += 1
    return passed, failed, skipped


def finish(result):
    """Prints the last line; returns the exit status."""
    print("%d passed, %d failed, %d skipped" % result)
    return 1 if result[1] else 0


def no_program(name, program):
    print("%s: no program at %s; run make first" % (name, program))
    return finish((0, 1, 0))
