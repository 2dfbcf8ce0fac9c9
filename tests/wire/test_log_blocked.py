#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
A log without a reader: standard error of the target is a full pipe of one page. New connections, commands and the
stop of the target do not wait for the pipe. When the pipe is read again, all lines come in order. No section of a
specification: a target has to answer.
"""

import fcntl
import os
import re
import threading

import nvmetcp as n
import target
from tap import Tap

PAGE = 4096
CONNECTS = 40  # three lines of over 100 bytes each
CONNECTED = re.compile(r'controller (\d+): host \S+ connected')


class Pipe:
    """A pipe of one page. This program has the read end; the write end is shared with the target."""

    def __init__(self):
        self.read_end, self.write_end = os.pipe()
        fcntl.fcntl(self.write_end, fcntl.F_SETPIPE_SZ, PAGE)
        self.text = b''
        self.reader = None

    def is_full(self):
        """True when the page has no room for another line: the pipe was not read at all."""
        os.set_blocking(self.read_end, False)  # this end only: the write end keeps blocking
        pending = bytearray(4)
        fcntl.ioctl(self.read_end, 0x541b, pending)  # FIONREAD
        os.set_blocking(self.read_end, True)
        return int.from_bytes(pending, 'little') > PAGE - 256  # no room for a line

    def read_on(self):
        def read():
            while part := os.read(self.read_end, PAGE):
                self.text += part

        os.close(self.write_end)  # then only the target has a write end
        self.reader = threading.Thread(target=read)
        self.reader.start()

    def lines(self):
        self.reader.join(n.TIMEOUT_S)
        return self.text.decode().splitlines()


def fill(t, tgt, pipe):
    for _ in range(CONNECTS):
        with tgt.host():
            pass
    t.ok(pipe.is_full(), 'the pipe is full')
    with tgt.host() as host:
        conn = host.queue()
        data = n.pattern(65536, 7)
        t.status(conn.put(1, 0, data), n.OK, 'a write is answered')
        t.ok(bytes(conn.read(1, 0, 128).data) == data, 'a read is answered')


def read_later(t):
    pipe = Pipe()
    tgt = target.Target(stderr=pipe.write_end)
    t.scene = tgt.scene
    with t.guard('a log that is read again'):
        fill(t, tgt, pipe)
    pipe.read_on()
    tgt.terminate()
    t.eq(tgt.wait_exit(), 0, 'it is read again, and SIGTERM ends the target')
    tgt.kill()
    lines = pipe.lines()
    found = [int(match[1]) for match in map(CONNECTED.search, lines) if match]
    t.eq(found, list(range(1, CONNECTS + 2)), 'a line for each controller, in their order')
    t.ok(any(' info control: stopping' in line for line in lines), 'and of the end, in full')
    t.ok(not any('lost here' in line for line in lines), 'none was lost')
    tgt.remove()


def read_never(t):
    pipe = Pipe()
    tgt = target.Target(stderr=pipe.write_end)
    t.scene = tgt.scene
    with t.guard('a log that is never read'):
        fill(t, tgt, pipe)
    tgt.terminate()
    t.eq(tgt.wait_exit(), 0, 'never read: SIGTERM ends the target all the same')
    tgt.kill()
    tgt.remove()


def to_a_file(t):
    tgt = target.Target()
    t.scene = tgt.scene
    with t.guard('a log in a file'):
        for _ in range(CONNECTS):
            with tgt.host():
                pass
    tgt.terminate()
    t.eq(tgt.wait_exit(), 0, 'a file: SIGTERM ends the target')
    tgt.kill()
    found = [int(number) for number in CONNECTED.findall(tgt.log())]
    t.eq(found, list(range(1, CONNECTS + 1)), 'all lines are in the file when it has ended')
    tgt.remove()


def main():
    tap = Tap()
    read_later(tap)
    read_never(tap)
    to_a_file(tap)
    raise SystemExit(tap.done())


main()
