#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
A hostile host with 16 queues that requests more buffers than exist and answers each R2T with 4 bytes now and then.
Other hosts, of its subsystem, of another subsystem, and new ones, go on: each has its share of the buffers. The
target gives up a host that sends 4 bytes at a time: it measures progress as a rate. One reactor, so that all hosts
share one pool. docs/adr/0032.
"""

import os
import tempfile

import nvmetcp as n
import target
from tap import Tap

SPEC = 'ADR 0032'
NQN_A, NQN_B = 'nqn.2026-11.io.weft:a', 'nqn.2026-11.io.weft:b'
HOSTILE, QUIET, NEW = ('nqn.2014-08.org.example:' + name for name in ('hostile', 'quiet', 'new'))
QUEUES, DEPTH = 16, 600
BUFFERS = 6144 + 384 + 24  # of a reactor
PATIENT_MS, DATA_MS = 3600000, 3000
BLOCK = 4096
WAIT_S = 90.0
FOLDER = tempfile.mkdtemp(prefix='weft-wire-neighbour-')


class Hostile:
    def __init__(self, tgt):
        self.host = tgt.host(NQN_A, hostnqn=HOSTILE, hostid=b'h' * 16)
        self.conns = [self.host.queue(1 + i, sqsize=1023) for i in range(QUEUES)]
        self.asked = []  # (connection, command), in the order of their R2Ts

    def flood(self):
        for conn in self.conns:
            wires = []
            for i in range(DEPTH):
                cmd = conn.rw(n.WRITE, 1, i, 1, BLOCK, bytes(BLOCK), way='r2t', is_auto=False,
                              send=False)
                wires.append(cmd.wire)
            conn.send(b''.join(wires))

    def take(self):
        """Receives all that has arrived."""
        for conn in self.conns:
            while conn.buf or conn.is_readable(0):
                cmd = conn.pump()
                if cmd.r2ts and not cmd.is_done:
                    self.asked.append((conn, cmd))
        return len(self.asked)

    def drip(self, at):
        """Sends four bytes for each R2T. False when a connection has ended."""
        for conn in self.conns:
            data = b''.join(conn.h2cdata(cmd.cid, cmd.r2ts[0].ttag, at, bytes(4), last=False)
                            for other, cmd in self.asked if other is conn)
            try:
                conn.send(data)
                while conn.buf or conn.is_readable(0):
                    conn.pump()
            except (n.Closed, OSError):
                return False
        return True

    def close(self):
        self.host.close()


def works(t, conn, name, lba):
    """Reads and writes that need buffers of every size."""
    data = n.pattern(BLOCK, lba)
    t.status(conn.put(1, lba, data, BLOCK), n.OK, name + ': a write in its capsule', SPEC)
    t.eq(bytes(conn.read(1, lba, 1, BLOCK).data), data, name + ': a read', SPEC)
    data = n.pattern(64 * BLOCK, lba)
    t.status(conn.put(1, lba, data, BLOCK, way='r2t'), n.OK, name + ': a write by R2T', SPEC)
    t.eq(bytes(conn.read(1, lba, 64, BLOCK).data), data, name + ': a long read', SPEC)
    cmds = [conn.rw(n.READ, 1, lba + i % 64, 1, BLOCK) for i in range(100)]
    t.ok(all(conn.wait(cmd).status == n.OK for cmd in cmds), name + ': 100 reads at once', SPEC)


def test(t, tgt):
    hosts = [tgt.host(NQN_A, hostnqn=QUIET, hostid=b'q' * 16),
             tgt.host(NQN_B, hostnqn=QUIET, hostid=b'q' * 16)]
    quiet, other = (host.queue(1) for host in hosts)
    hostile = Hostile(tgt)
    hostile.flood()
    # It gets all buffers except those reserved for others.
    t.ok(target.poll(lambda: hostile.take() > BUFFERS // 2, WAIT_S), 'it has most buffers', SPEC)
    while hostile.conns[-1].is_readable(0.2):
        hostile.take()
    t.ok(hostile.take() < BUFFERS < QUEUES * DEPTH, 'but not all that it asked for', SPEC,
         why=len(hostile.asked))
    with t.guard('works'):
        works(t, quiet, 'another host of its subsystem', 1024)
        works(t, other, 'a host of another subsystem', 1024)
        hosts.append(tgt.host(NQN_A, hostnqn=NEW, hostid=b'n' * 16))
        works(t, hosts[-1].queue(1), 'a new host', 1200)
    held = len(hostile.asked)
    t.ok(all(not conn.is_readable(0) for conn in hostile.conns), 'while it holds them', SPEC)
    tgt.reload(lambda config: config['limits'].update(data_timeout_ms=DATA_MS))
    at = [0]

    def drip():
        at[0] += 4
        return not hostile.drip(at[0] - 4)
    t.ok(target.poll(drip, WAIT_S, 1.0), 'four bytes a second are no progress: it is closed', SPEC)
    t.ok(tgt.wait_log('requested data did not arrive in time'), 'and logged', SPEC, why=held)
    works(t, quiet, 'afterwards', 1024)
    for host in hosts + [hostile]:
        host.close()


def namespaces(name):
    return [target.namespace(1, 'file:%s,size=64M,block=4096' % os.path.join(FOLDER, name))]


try:
    target.run(Tap(), test, reactors=1, limits={'data_timeout_ms': PATIENT_MS}, subsystems=[
        {'nqn': NQN_A, 'serial': 'A', 'allow_any_host': True, 'namespaces': namespaces('a')},
        {'nqn': NQN_B, 'serial': 'B', 'allow_any_host': True, 'namespaces': namespaces('b')}])
finally:
    for name in os.listdir(FOLDER):
        os.unlink(os.path.join(FOLDER, name))
    os.rmdir(FOLDER)
