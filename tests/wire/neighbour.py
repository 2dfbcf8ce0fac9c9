#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
A hostile host, as a process beside innocent ones. Prints "ready" once all its attacks run. Goes on until its
standard input ends or the given seconds have passed, then prints what it did as JSON.
tests/wire/test_innocent.py and the chaos (tests/chaos) judge how the other hosts fare.

    neighbour.py WORD ADDRESS PORT NQN SECONDS [SOURCE ADDRESS]

    flood     connections that send nothing, controllers that connect and leave, commands as fast as answered
    drip      ICReqs and the data of writes, a few bytes at a time
    hoard     controllers, queues, event requests, and the buffers of writes whose data is never sent
    lie       wrong sizes, tags, offsets, digests, states and names, one per connection
    escape    names with escape sequences and line breaks, which operators see
"""

import collections
import json
import os
import random
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import nvmetcp as n  # noqa: E402

PATIENCE_S = 2.0
IN_PLACE_S = 120.0
SILENT_MAX, DRIPPING, CTRLS_MAX, QUEUES, DEPTH = 300, 24, 200, 16, 64
BLOCK = 4096
LARGE = 64 << 10
NS_BYTES = QUEUES * DEPTH * LARGE  # namespace 1, used by this host alone
ESCAPES = ('\x1b]0;owned\x07', '\x1b[2J\x1b[H', '\r\nroot logged in', '\x9b31m', '\x00\x1b[5m', '%n%s%d', '\u202egnp')
ERRORS = (OSError, n.Closed, n.Late, n.Violation, struct.error)


class Neighbour:
    def __init__(self, address, port, nqn, seconds, source):
        self.address, self.nqn = (address, port), nqn
        self.source = (source, 0) if source else None
        self.seconds, self.end = seconds, time.monotonic() + IN_PLACE_S
        self.did = collections.Counter()
        self.parts, self.in_place = 1, set()
        self.lock = threading.Lock()
        self.hostnqn = 'nqn.2026-11.io.weft:neighbour'

    def is_in_place(self, part):
        """Reports that this attack has begun. The last attack to report starts the time."""
        with self.lock:
            is_last = part not in self.in_place and len(self.in_place) == self.parts - 1
            self.in_place.add(part)
            if is_last and self.end != 0.0:
                self.end = time.monotonic() + self.seconds
                print('ready', flush=True)

    def stop_at_end_of_input(self):
        sys.stdin.read()
        self.end = 0.0

    def lasts(self):
        return time.monotonic() < self.end

    def wait(self, seconds):
        time.sleep(max(0.0, min(seconds, self.end - time.monotonic())))  # the length of the fault

    def conn(self):
        return n.Conn(self.address, self.source, timeout=PATIENCE_S)

    def host(self, **kwargs):
        kwargs.setdefault('hostnqn', self.hostnqn)
        return n.Host(self.address, self.nqn, source=self.source, **kwargs)

    def again(self, what):
        """Repeats `what` until the time is over, whatever the target does about it."""
        while self.lasts():
            try:
                what()
            except ERRORS as error:
                self.did['refused: %s' % type(error).__name__] += 1
                self.wait(0.02)

    def together(self, *whats):
        self.parts = len(whats)
        threads = [threading.Thread(target=self.again, args=(what,)) for what in whats]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    # ---- flood

    def silent_connections(self):
        conns = []
        try:
            while self.lasts() and len(conns) < SILENT_MAX:
                conns.append(self.conn())
                self.did['connections'] += 1
            self.is_in_place('connections')
            self.wait(0.1)
        finally:
            for conn in conns:
                conn.close()

    def come_and_go(self):
        self.host().close()
        self.did['controllers'] += 1
        self.is_in_place('controllers')

    def commands(self):
        with self.host() as host:
            queue = host.queue(sqsize=DEPTH)
            queue.timeout = PATIENCE_S
            while self.lasts():
                while len(queue.inflight) < DEPTH - 1:
                    queue.rw(n.READ, 1, 0, LARGE // BLOCK, BLOCK)
                # Before any answer: another hoarder with the same NQN may leave this host without buffers.
                self.is_in_place('commands')
                queue.pump()
                self.did['commands'] += 1

    def flood(self):
        self.together(self.silent_connections, self.come_and_go, self.commands)

    # ---- drip

    def drip_icreq(self):
        raw = n.icreq()
        conns = [self.conn() for _ in range(DRIPPING)]
        try:
            for at in range(len(raw)):
                for conn in conns:
                    conn.send(raw[at:at + 1])
                    self.did['bytes of an ICReq'] += 1
                self.is_in_place('ICReq')
                self.wait(0.5)
                if not self.lasts():
                    return
        finally:
            for conn in conns:
                conn.close()

    def slow_writes(self, length, bytes_each):
        """Writes that get `bytes_each` bytes of data every half second; 0: none ever."""
        with self.host(maxr2t=DEPTH) as host:
            writes = []
            for qid in range(1, QUEUES + 1):
                queue = host.queue(qid, sqsize=DEPTH)
                for _ in range(DEPTH - 1):
                    # Each write has its own blocks: a write to the same blocks would wait for the first one.
                    cmd = queue.rw(n.WRITE, 1, len(writes) * (length // BLOCK), length // BLOCK, BLOCK, bytes(length), way='r2t',
                                   is_auto=False)
                    writes.append([queue, cmd, 0])
                    self.did['writes without data'] += 1
            while self.lasts():
                for write in writes:
                    self.drop(write, bytes_each)
                self.is_in_place('writes of %d' % length)
                self.wait(0.5)

    def drop(self, write, bytes_each):
        queue, cmd, at = write
        while queue.buf or queue.is_readable(0):
            queue.pump(PATIENCE_S)
        if bytes_each and cmd.r2ts and not cmd.is_done and at + bytes_each < cmd.r2ts[0].length:
            queue.send(queue.h2cdata(cmd.cid, cmd.r2ts[0].ttag, cmd.r2ts[0].offset + at, bytes(bytes_each), False))
            write[2] += bytes_each
            self.did['drops of data'] += 1

    def drip(self):
        self.together(self.drip_icreq, lambda: self.slow_writes(BLOCK, 4), lambda: self.slow_writes(LARGE, 4))

    # ---- hoard

    def many_controllers(self):
        hosts = []
        try:
            while self.lasts() and len(hosts) < CTRLS_MAX:
                try:
                    hosts.append(self.host())
                    self.did['controllers held'] += 1
                    hosts[-1].admin.submit(n.AER)
                except ERRORS:
                    break
            self.is_in_place('controllers')
            while self.lasts():
                self.wait(0.1)
        finally:
            for host in hosts:
                host.close()

    def deaf(self):
        """Requests more data than a socket holds, and receives nothing."""
        with self.host() as host:
            queue = host.queue(sqsize=DEPTH)
            for _ in range(DEPTH - 1):
                queue.rw(n.READ, 1, 0, LARGE // BLOCK, BLOCK)
                self.did['answers not read'] += 1
            self.is_in_place('deaf')
            while self.lasts():
                self.wait(0.1)

    def hoard(self):
        self.together(self.many_controllers, self.deaf, lambda: self.slow_writes(LARGE, 0),
                      lambda: self.slow_writes(BLOCK, 0))

    # ---- lie

    def lie_once(self, rng):
        with self.conn() as conn:
            kind = rng.randrange(9)
            self.did['lie %d' % kind] += 1
            self.is_in_place('lie')
            if kind == 0:
                conn.send(rng.randbytes(rng.randrange(1, 600)))
            elif kind == 1:
                conn.send(n.icreq(pfv=rng.randrange(1 << 16), hpda=rng.randrange(256), plen=rng.randrange(1 << 32)))
            else:
                conn.ic(hdgst=rng.random() < 0.5, ddgst=rng.random() < 0.5)
                self.lie_connected(conn, rng, kind)
            conn.wait_closed(0.05)

    def lie_connected(self, conn, rng, kind):
        if kind == 2:
            conn.send(conn.capsule(rng.randbytes(64), rng.randbytes(rng.randrange(64)), spoil_hdgst=True))
            return
        if kind == 3:
            name = rng.choice((b'x' * 256, b'\0' * 256, b'nqn.' + b'\xff' * 252, rng.randbytes(256)))
            conn.fabrics(n.CONNECT, n.connect_body(rng.choice((0, 1, 65535)), rng.randrange(1 << 16)),
                         rng.randbytes(16) + struct.pack('<H', rng.randrange(1 << 16)) + bytes(238) + name + name + bytes(256))
            return
        status = conn.connect(self.nqn, hostnqn=self.hostnqn).status
        if status != n.OK:
            return
        conn.enable()
        entry = bytearray(n.sqe(rng.choice((n.IDENTIFY, n.GET_LOG, n.SET_FEATURES)), rng.randrange(1 << 16)))
        if kind == 4:
            struct.pack_into('<QI', entry, 24, rng.getrandbits(64), rng.getrandbits(32))
            conn.send(conn.capsule(bytes(entry)) * 40)  # the same CID forty times
        elif kind == 5:
            conn.send(conn.h2cdata(rng.randrange(1 << 16), rng.randrange(1 << 16), rng.getrandbits(32), bytes(64)))
        elif kind == 6:
            raw = bytearray(conn.capsule(bytes(entry)))
            struct.pack_into('<BI', raw, 3, rng.randrange(256), rng.getrandbits(32))
            conn.send(raw)
        elif kind == 7:
            cmd = conn.submit(n.SET_FEATURES, data=bytes(4096), cdw10=0x81, way='r2t', is_auto=False)
            r2t = conn.wait_r2t(cmd, PATIENCE_S)
            conn.send(conn.h2cdata(cmd.cid, r2t.ttag, r2t.offset + 4 * rng.randrange(-64, 64) & 0xffffffff, bytes(4096),
                                   length=rng.getrandbits(16)))
        else:
            conn.send(conn.capsule(bytes(entry), bytes(64), spoil_ddgst=True))

    def lie(self):
        rng = random.Random(1)
        self.again(lambda: self.lie_once(rng))

    # ---- escape

    def escape_once(self):
        self.is_in_place('escape')
        for text in ESCAPES:
            name = 'nqn.2026-11.io.weft:' + text
            try:
                with self.host(hostnqn=name) as host:
                    host.admin.set_feature(0x1f, data=text.encode()[:256].ljust(256, b'\0'), nsid=1)
                    self.did['names with escapes'] += 1
            except ERRORS:
                self.did['names refused'] += 1
            try:
                with self.conn() as conn:
                    conn.ic()
                    conn.connect(name, hostnqn=self.hostnqn)
                    self.did['subsystems with escapes'] += 1
            except ERRORS:
                self.did['subsystems refused'] += 1

    def escape(self):
        self.again(self.escape_once)


WORDS = ('flood', 'drip', 'hoard', 'lie', 'escape')


def main():
    word, address, port, nqn, seconds = sys.argv[1:6]
    # The test measures the target, not how the kernel shares the CPU.
    os.nice(19)
    neighbour = Neighbour(address, int(port), nqn, float(seconds), sys.argv[6] if len(sys.argv) > 6 else None)
    threading.Thread(target=neighbour.stop_at_end_of_input, daemon=True).start()
    getattr(neighbour, word)()
    print(json.dumps(neighbour.did))


if __name__ == '__main__':
    main()
