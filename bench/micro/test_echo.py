#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
The raw ceiling must transfer the bytes that it reports: data is checked in both directions, a client detects wrong
answers and data, a server survives invalid requests, and wrong usage gives an error.
"""

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "wire"))
from tap import Tap  # noqa: E402

ECHO = os.environ["ECHO"]
MAGIC = 0x6f686365
SHORT = ["--time", "40ms", "--warmup", "5ms"]
RATE = 5000
KEYS = ["iops", "mib_per_s", "latency_us", "cpu_us_per_io"]
LATENCY_KEYS = ["min", "mean", "p50", "p99", "p99_9", "max"]


class Server:
    def __init__(self, *options):
        self.process = subprocess.Popen([ECHO, "server", "--listen", "127.0.0.1:0"] + list(options),
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        word, port = self.process.stdout.readline().split()
        assert word == b"listening"
        self.port = int(port)

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        out, err = self.process.communicate(timeout=20)
        return self.process.returncode, err.decode()


def client(port, *options):
    """Exit status, JSON output (or None), error output."""
    p = subprocess.run([ECHO, "client", "--connect", "127.0.0.1:%d" % port] + list(options),
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    return p.returncode, json.loads(p.stdout) if p.stdout else None, p.stderr.decode()


def client_until_done(port, *options):
    """A busy machine may give no answer in a short time: repeats with longer times. The time is the last argument."""
    for run_ms in (40, 400, 4000, 20000):
        status, result, error = client(port, "--time", "%dms" % run_ms, "--warmup", "5ms", *options)
        if status != 0 or not result or result["iops"] > 0:
            break
    return status, result, error, run_ms / 1000


DATA_ROWS = [
    ("4k random writes are read back", ["--rw", "randwrite", "--bs", "4k", "--depth", "8", "--connections", "3"]),
    ("128k writes, which skip a copy, are read back", ["--rw", "write", "--bs", "128k", "--depth", "4"]),
    ("4k random reads are as written", ["--rw", "randread", "--bs", "4k", "--depth", "32"]),
    ("blocks of 24 bytes are read back", ["--rw", "randwrite", "--bs", "24", "--depth", "512", "--size", "48k"]),
    ("1M reads, four receives and more, are as written", ["--rw", "read", "--bs", "1M", "--depth", "2"]),
    ("a sleeping client reads the same", ["--rw", "randread", "--depth", "4", "--sleep"]),
    ("a paced one too", ["--rw", "randread", "--depth", "64", "--rate", str(RATE)]),
    ("and one that is paced and sleeps", ["--rw", "randwrite", "--depth", "64", "--rate", str(RATE), "--sleep"]),
]


def test_data(tap, name, rows, *server_options):
    server = Server("--memory", "1M", *server_options)
    for row, options in rows:
        with tap.guard(row):
            start = time.monotonic()
            status, result, error, run_s = client_until_done(server.port, "--size", "1M", "--verify", *options)
            tap.ok(status == 0 and result and result["iops"] > 0, "%s: %s" % (name, row), why=error)
            if "--rate" in options and result:
                # Requests that were late at the end of the warm-up are added: the rate holds from the start.
                most = RATE * (time.monotonic() - start) + 64
                tap.ok(result["iops"] * run_s <= most, "%s: %s: no more than asked for" % (name, row), why=result)
    tap.eq(list(result), KEYS, "%s: the keys of the result" % name)
    tap.eq(list(result["latency_us"]), LATENCY_KEYS, "%s: the keys of the latency" % name)
    tap.eq(server.end(), (0, ""), "%s: SIGTERM ends the server in silence" % name)


def test_wrong_requests(tap):
    rows = [
        ("not the magic number", struct.pack("<IIIIQ48x", 1, 1, 0, 4096, 0)),
        ("neither read nor write", struct.pack("<IIIIQ48x", MAGIC, 3, 0, 4096, 0)),
        ("no length", struct.pack("<IIIIQ48x", MAGIC, 1, 0, 0, 0)),
        ("behind the end", struct.pack("<IIIIQ48x", MAGIC, 1, 0, 4096, 1 << 20)),
        ("an offset that wraps", struct.pack("<IIIIQ48x", MAGIC, 2, 0, 4096, (1 << 64) - 1)),
    ]
    server = Server("--memory", "1M")
    for row, request in rows:
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as s:
            s.sendall(request)
            tap.eq(s.recv(64), b"", "a request with %s ends its connection" % row)
    status, _, error = client(server.port, "--size", "2M", "--rw", "read", "--bs", "1M", *SHORT)
    tap.ok(status == 1 and "--memory" in error, "a region larger than the memory is told", why=error)
    status, _, error = client(server.port, "--size", "1M", *SHORT)
    tap.ok(status == 0, "the server still serves", why=error)
    status, errors = server.end()
    tap.eq((status, errors.count("request is wrong")), (0, len(rows) + 1), "each was complained about")


def answer_wrongly(listener, change):
    """Answers every request with `change` applied to the right answer, until the end."""
    conn, _ = listener.accept()
    with conn:
        while True:
            request = conn.recv(72, socket.MSG_WAITALL)
            if len(request) < 72:
                return
            magic, op, tag, length, offset = struct.unpack("<IIIIQ", request[:24])
            words = range(offset, offset + length, 8)
            data = struct.pack("<%dQ" % len(words), *words)
            try:
                conn.sendall(change(struct.pack("<IIIIQ", magic, op, tag, length, offset), data))
            except OSError:
                return


def test_wrong_answers(tap):
    rows = [
        ("right ones", lambda h, d: h + d, 0, ""),
        ("another tag", lambda h, d: h[:8] + b"\x07" + h[9:] + d, 1, "does not fit"),
        ("another offset", lambda h, d: h[:16] + b"\x08" + h[17:] + d, 1, "does not fit"),
        ("another length", lambda h, d: h[:12] + struct.pack("<I", 512) + h[16:] + d, 1, "does not fit"),
        ("one wrong byte of data", lambda h, d: h + d[:-1] + b"\x55", 1, "verify"),
        ("an early end", lambda h, d: b"", 1, "closed the connection"),
    ]
    for row, change, want, text in rows:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            ends = row == "an early end"
            thread = threading.Thread(target=(lambda l, c: l.accept()[0].close()) if ends else answer_wrongly,
                                      args=(listener, change))
            thread.start()
            status, _, error = client(listener.getsockname()[1], "--size", "4k", "--verify", *SHORT)
            thread.join()
            tap.ok(status == want and text in error, "answers: " + row, why="status %d, %s" % (status, error))


def test_usage(tap):
    rows = [
        ([], "server"),
        (["server", "--memory", "5"], "--memory"),
        (["server", "--listen", "nowhere"], "--listen"),
        (["server", "more"], "more"),
        (["client"], "--connect"),
        (["client", "--connect", "127.0.0.1:1", "--rw", "randrw"], "--rw"),
        (["client", "--connect", "127.0.0.1:1", "--bs", "12"], "--bs"),
        (["client", "--connect", "127.0.0.1:1", "--depth", "0"], "--depth"),
        (["client", "--connect", "127.0.0.1:1", "--depth", "5000"], "--depth"),
        (["client", "--connect", "127.0.0.1:1", "--bs", "4k", "--size", "2k"], "--size"),
        (["client", "--connect", "127.0.0.1:1", "--speed", "9"], "option"),
    ]
    for argv, word in rows:
        p = subprocess.run([ECHO] + argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=20)
        tap.ok(p.returncode == 2 and word in p.stderr.decode(), "wrong usage: echo " + " ".join(argv),
               why="status %d, %s" % (p.returncode, p.stderr.decode()))
    for side in ("server", "client"):
        p = subprocess.run([ECHO, side, "--help"], stdout=subprocess.PIPE, timeout=20)
        tap.ok(p.returncode == 0 and b"--sleep" in p.stdout, "echo %s --help" % side)


def main():
    tap = Tap()
    with tap.guard("spinning"):
        # Two spinning programs are slow on a busy machine: test only the rows that differ.
        test_data(tap, "spinning", DATA_ROWS[:3])
    with tap.guard("sleeping"):
        test_data(tap, "sleeping", DATA_ROWS, "--sleep")
    with tap.guard("wrong requests"):
        test_wrong_requests(tap)
    with tap.guard("wrong answers"):
        test_wrong_answers(tap)
    with tap.guard("usage"):
        test_usage(tap)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
