#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Atomic writes between queues on different reactors: a read during a write returns old or new data, never a
mix. Memory guarantees this for a block, all other media for a whole command (NAWUN). One process writes
stamps to a range as fast as it can while another reads the range. NVM Command Set 1.1, section 2.1.4;
Identify Namespace, NAWUN.

Without the target's guards the rows on memory, and on media that split each command, do tear. Rows on plain
files tear only where the kernel allows it: with O_DIRECT on ext4 they never did. They are here for other file
systems.
"""

import multiprocessing
import os
import tempfile
import time

import nvmetcp as n
import target
from tap import Tap

SPEC = 'NVM 2.1.4'
MEM512, MEM4096, DIRECT, BUFFERED, OVER_FAULT = 1, 2, 3, 4, 5
HALVES_MEM, HALVES_FILE, HALVES_READ = 6, 7, 8
DEPTH = 4
FIRST = 64  # LBA


def write_stamps(conn, nsid, block, size, stop, kinds):
    """Child: writes one stamp after another, a few commands in flight."""
    stamp = 0
    while not stop.is_set():
        cmds = []
        for kind in kinds * DEPTH:
            stamp = stamp % 250 + 1
            if kind == 'zeroes':
                cmds.append(conn.rw(n.WRITE_ZEROES, nsid, FIRST, size // block, block))
            else:
                cmds.append(conn.rw(n.WRITE, nsid, FIRST, size // block, block,
                                    bytes([stamp]) * size))
        for cmd in cmds:
            conn.wait(cmd)
            if cmd.status != n.OK:
                os._exit(3)
    os._exit(0)


def torn_reads(conn, nsid, block, size, whole, reads):
    """
    Returns how many pieces of `whole` bytes had more than one stamp, and how many stamps were seen. Continues
    while the writer has hardly run: reads of unchanged data prove nothing.
    """
    torn, stamps, left = 0, set(), reads
    deadline = time.monotonic() + n.TIMEOUT_S
    while left > 0 or (len(stamps) <= 2 and time.monotonic() < deadline):
        cmds = [conn.rw(n.READ, nsid, FIRST, size // block, block) for _ in range(DEPTH)]
        left -= DEPTH
        for cmd in cmds:
            conn.wait(cmd)
            for at in range(0, size, whole):
                piece = cmd.data[at:at + whole]
                torn += piece.count(piece[0]) != whole
            stamps.add(cmd.data[0])
    return torn, len(stamps)


def hammer(t, writer, reader, name, nsid, block, size, whole, reads=1200, kinds=('write',)):
    with t.guard(name, SPEC):
        # The previous pair may have left several stamps.
        reader.put(nsid, FIRST, bytes(size), block)
        stop = multiprocessing.Event()
        child = multiprocessing.Process(target=write_stamps,
                                        args=(writer, nsid, block, size, stop, list(kinds)))
        child.start()
        try:
            torn, stamps = torn_reads(reader, nsid, block, size, whole, reads)
        finally:
            stop.set()
            child.join(n.TIMEOUT_S)
        t.eq((torn, child.exitcode), (0, 0), '%s: nothing torn' % name, SPEC)
        t.ok(stamps > 2, '%s: it did change meanwhile' % name, SPEC, stamps)


def pairs(t, tgt):
    with tgt.host() as host:
        a, b = host.queue(1), host.queue(2)
        t.ok(tgt.reactor_of(a) != tgt.reactor_of(b), 'the two queues are on different reactors')
        hammer(t, a, b, 'memory, 4 KiB in the capsule', MEM4096, 4096, 4096, 4096, 4000)
        hammer(t, a, b, 'memory, blocks of 512', MEM512, 512, 8192, 512, 3000)
        hammer(t, a, b, 'memory, 128 KiB in place both ways', MEM4096, 4096, 131072, 4096)
        hammer(t, a, b, 'memory, 256 KiB in blocks of 512', MEM512, 512, 262144, 512, 400)
        hammer(t, a, b, 'memory, Write Zeroes beside writes', MEM4096, 4096, 65536, 4096, 800,
               ('write', 'zeroes'))
        hammer(t, a, b, 'O_DIRECT file, whole commands', DIRECT, 4096, 131072, 131072)
        hammer(t, a, b, 'O_DIRECT file, one block', DIRECT, 4096, 4096, 4096, 2000)
        hammer(t, a, b, 'file, Write Zeroes beside writes', DIRECT, 4096, 65536, 65536, 600,
               ('write', 'zeroes'))
        hammer(t, a, b, 'buffered file, whole commands', BUFFERED, 512, 131072, 131072)
        hammer(t, a, b, 'memory behind a fault medium, whole commands', OVER_FAULT, 4096, 131072,
               131072, 800)
        hammer(t, a, b, 'memory, written in halves', HALVES_MEM, 4096, 131072, 131072, 200)
        hammer(t, a, b, 'O_DIRECT file, written in halves', HALVES_FILE, 4096, 131072, 131072, 200)
        hammer(t, a, b, 'file in halves, Write Zeroes beside writes', HALVES_FILE, 4096, 65536, 65536,
               200, ('write', 'zeroes'))
        hammer(t, a, b, 'memory, read in halves', HALVES_READ, 4096, 131072, 131072, 200)
    with tgt.host() as plain, tgt.host(hdgst=True, ddgst=True) as digests:
        a, b = plain.queue(1), digests.queue(1)
        t.ok(tgt.reactor_of(a) != tgt.reactor_of(b), 'a queue with digests, on another reactor')
        hammer(t, a, b, 'memory, read with data digests', MEM4096, 4096, 4096, 4096, 400)
        hammer(t, b, a, 'memory, written with data digests', MEM4096, 4096, 4096, 4096, 2000)
        hammer(t, a, b, 'file, read with data digests', DIRECT, 4096, 8192, 8192, 200)


def start():
    shm = '/dev/shm' if os.access('/dev/shm', os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix='weft-wire-') as folder, \
            tempfile.TemporaryDirectory(prefix='weft-wire-', dir=shm) as memory_folder:
        spaces = [
            target.namespace(MEM512, 'mem:8M,block=512'),
            target.namespace(MEM4096, 'mem:16M,block=4096'),
            target.namespace(DIRECT, 'file:%s/direct,size=8M,block=4096' % folder),
            target.namespace(BUFFERED, 'file:%s/buffered,size=8M,block=512' % memory_folder),
            target.namespace(OVER_FAULT, 'fault:fail:op=flush@mem:8M,block=4096'),
            target.namespace(HALVES_MEM, 'fault:split:op=write:ms=2@mem:8M,block=4096'),
            target.namespace(HALVES_FILE, 'fault:split:op=write:ms=2@file:%s/halves,size=8M,'
                             'block=4096' % folder),
            target.namespace(HALVES_READ, 'fault:split:op=read:ms=2@mem:8M,block=4096'),
        ]
        target.run(Tap(), pairs, reactors=2, namespaces=spaces)


start()
