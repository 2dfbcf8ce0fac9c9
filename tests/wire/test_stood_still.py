#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
A target stood still (SIGSTOP, a moved machine) for longer than KATO. Its hosts have given up the target and may
have sent their writes elsewhere. Commands in its sockets or inside the target must not reach the medium when it
continues. NVMe Base 2.1, section 3.9 (keep alive); TP4129.
"""

import os
import signal
import tempfile
import time

import nvmetcp as n
import procfs
import target
from tap import Tap

SPEC = 'TP4129'
MEM, FILE, DELAY = 1, 2, 3
KATO_MS = 500
DELAY_MS = 3000  # the second write must not begin before the target is stopped, however busy the machine is
LARGE = 256 * 1024
OLD = b'\x11'
NEW = b'\x22'


class Scene:
    """A host with I/O queues on several reactors, and the data it leaves in the target's sockets."""

    def __init__(self, tgt, kato_ms):
        self.tgt = tgt
        self.host = tgt.host(kato_ms=kato_ms)
        self.conns = [self.host.queue(qid) for qid in (1, 2, 3, 4)]
        self.fetching = []

    def lba(self, i):
        return 1024 * i

    def before(self):
        """Sends writes up to their R2Ts; half of the data of the large ones."""
        for i, conn in enumerate(self.conns):
            for nsid in (MEM, FILE):
                cmd = conn.rw(n.WRITE, nsid, self.lba(i) + 512, LARGE // 512, 512, NEW * LARGE,
                              way='r2t', is_auto=False)
                conn.wait_r2t(cmd)
                self.send_data(conn, cmd, 0, LARGE // 2)
                self.fetching.append((conn, cmd))
            # The second write to the same blocks waits for the first.
            conn.rw(n.WRITE, DELAY, self.lba(i), 8, 512, OLD * 4096)
            conn.rw(n.WRITE, DELAY, self.lba(i), 8, 512, NEW * 4096)
            conn.do(n.FLUSH, MEM)

    def send_data(self, conn, cmd, start, end):
        step = min(conn.maxh2cdata, 65536)
        for at in range(start, end, step):
            conn.send(conn.h2cdata(cmd.cid, cmd.r2ts[0].ttag, at, NEW * step,
                                   last=at + step == LARGE))

    def during(self):
        """Sends data and commands while the target stands still."""
        for conn, cmd in self.fetching:
            self.send_data(conn, cmd, LARGE // 2, LARGE)
        for i, conn in enumerate(self.conns):
            for nsid in (MEM, FILE):
                conn.rw(n.WRITE, nsid, self.lba(i), 8, 512, NEW * 4096)
        self.host.admin.submit(n.KEEP_ALIVE)

    def close(self):
        self.host.close()


def fill(tgt):
    with tgt.host() as host:
        conn = host.queue()
        for nsid in (MEM, FILE):
            for lba in range(0, 8192, 1024):
                conn.put(nsid, lba, OLD * (512 * 1024))
        # The first of the two writes may complete after the stop or be cancelled; the second must do neither.
        for cmd in [conn.rw(n.WRITE, DELAY, 1024 * i, 8, 512, OLD * 4096) for i in range(4)]:
            conn.wait(cmd)


def stand_still(tgt, scene, ms):
    scene.before()
    os.kill(tgt.process.pid, signal.SIGSTOP)
    target.poll(lambda: procfs.is_stopped(tgt.process.pid))
    begin = time.monotonic()
    scene.during()
    target.poll(lambda: time.monotonic() > begin + ms / 1000)  # the length of the fault
    os.kill(tgt.process.pid, signal.SIGCONT)


def landed(tgt):
    """Per place, the bytes that a new host reads."""
    found = {}
    with tgt.host() as host:
        conn = host.queue()
        for nsid, name in ((MEM, 'memory'), (FILE, 'file')):
            found['capsule, ' + name] = {
                bytes(conn.read(nsid, 1024 * i, 8).data) for i in range(4)}
            for half, text in ((0, 'first'), (1, 'second')):
                lba = 512 + half * (LARGE // 1024)
                found['%s half, %s' % (text, name)] = {
                    bytes(conn.read(nsid, 1024 * i + lba, LARGE // 1024).data) for i in range(4)}
        found['in line'] = {bytes(conn.read(DELAY, 1024 * i, 8).data) for i in range(4)}
    return {name: {data[:1] for data in datas if data == data[:1] * len(data)} |
            {b'mixed' for data in datas if data != data[:1] * len(data)}
            for name, datas in found.items()}


def gone(tgt):
    return target.poll(lambda: tgt.log().count(' gone: ') == tgt.log().count(' connected to '))


def too_long(t, tgt):
    fill(tgt)
    gone(tgt)
    scene = Scene(tgt, KATO_MS)
    stand_still(tgt, scene, 2.2 * KATO_MS)
    t.ok(gone(tgt), 'the controller of the silent host goes', 'Base 3.9.3')
    found = landed(tgt)
    for name in ('capsule, memory', 'capsule, file', 'second half, memory', 'second half, file',
                 'first half, file', 'in line'):
        t.eq(found[name], {OLD}, 'nothing lands that came, or begins, too late: ' + name, SPEC)
    t.eq(found['first half, memory'], {NEW}, 'what had landed before has landed', SPEC)
    t.eq(tgt.log().count('keep alive expired after'), 1, 'by keep alive, once', 'Base 3.9.3')
    scene.close()


def short(t, tgt):
    """The same within KATO: all writes are done, so the rows above prove something."""
    fill(tgt)
    scene = Scene(tgt, 20 * KATO_MS)
    stand_still(tgt, scene, KATO_MS)
    for conn in scene.conns:
        while conn.inflight:
            conn.pump()
    found = landed(tgt)
    t.eq(set.union(*found.values()), {NEW}, 'a shorter stop: every write is done', SPEC)
    scene.close()


def test(t, tgt):
    for part in (too_long, short):
        with t.guard(part.__name__):
            part(t, tgt)


def start():
    with tempfile.TemporaryDirectory(prefix='weft-wire-') as folder:
        path = os.path.join(folder, 'a')
        spaces = [
            target.namespace(MEM, 'mem:8M,block=512'),
            target.namespace(FILE, 'file:%s,size=8M,block=512' % path),
            target.namespace(DELAY, 'fault:delay:op=write:ms=%d@mem:8M,block=512' % DELAY_MS),
        ]
        target.run(Tap(), test, namespaces=spaces)


start()
