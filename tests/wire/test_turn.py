#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
One host sends hundreds of long Write Zeroes to memory at once, in less than 64 KiB of capsules. Meanwhile the commands
of another host are answered between pieces of that work: reads, keep alives and its own Write Zeroes.
One reactor, so that all hosts share its turns. docs/adr/0041.

A command is judged by the time that the reactor's thread ran on a CPU while the command was on its way, not by the
clock: the load of the machine does not count. Without the budget that is the time of the whole flood.
"""

import nvmetcp as n
import target
from tap import Tap

SPEC = 'ADR 0041'
NQN_A, NQN_B = 'nqn.2026-11.io.weft:a', 'nqn.2026-11.io.weft:b'
BLOCK = 4096
EACH_BLOCKS = 255        # just below the length from which memory is released instead
FLOOD = 600
MEMORY_BLOCKS = 256 << 8  # 256 MiB, fresh at first
KATO_MS = 5000
PART = 4                  # a command may take this part of the flood
TICK_MS = 10              # the kernel accounts run time by ticks


def reactor_ms(tgt):
    return sum(run_ns for comm, _, _, _, run_ns, _ in tgt.threads().values() if comm == 'weft-r0') / 1e6


def flood(conn):
    """Sends all at once."""
    cmds = [conn.rw(n.WRITE_ZEROES, 1, i * EACH_BLOCKS % (MEMORY_BLOCKS - EACH_BLOCKS), EACH_BLOCKS, BLOCK, send=False)
            for i in range(FLOOD)]
    conn.send(b''.join(cmd.wire for cmd in cmds))
    return cmds


def test(t, tgt):
    hostile = tgt.host(NQN_A, hostnqn='nqn.2014-08.org.example:hostile')
    other = tgt.host(NQN_B, hostnqn='nqn.2014-08.org.example:other', kato_ms=KATO_MS)
    conn = other.queue(1)
    data = n.pattern(BLOCK, 1)
    t.status(conn.put(1, 0, data, BLOCK), n.OK, 'a write before the flood', SPEC)
    work = {
        'read': lambda: conn.read(1, 0, 1, BLOCK),
        'keep alive': lambda: other.admin.do(n.KEEP_ALIVE),
        'Write Zeroes': lambda: conn.wait(conn.rw(n.WRITE_ZEROES, 1, 8, 1, BLOCK)),
        'long Write Zeroes': lambda: conn.wait(conn.rw(n.WRITE_ZEROES, 1, 16, 100, BLOCK)),
    }
    queue = hostile.queue(1, sqsize=1023)
    began_ms = reactor_ms(tgt)
    cmds = flood(queue)
    worst = {name: 0.0 for name in work}
    wrong, rounds = [], 0
    while not all(cmd.is_done for cmd in cmds):
        for name, do in work.items():
            before_ms = reactor_ms(tgt)
            status = do().status
            worst[name] = max(worst[name], reactor_ms(tgt) - before_ms)
            if status != n.OK:
                wrong.append((name, status))
        rounds += 1
        while not all(cmd.is_done for cmd in cmds) and (queue.buf or queue.is_readable(0)):
            queue.pump()
    total_ms = reactor_ms(tgt) - began_ms
    print('# %d rounds in %.0f ms of the reactor; longest: %s' % (
        rounds, total_ms, ', '.join('%s %.1f ms' % item for item in worst.items())), flush=True)
    t.eq([cmd.status for cmd in cmds if cmd.status != n.OK], [], 'every command of the flood succeeds', SPEC)
    t.eq(wrong, [], 'and every command of the other host', SPEC)
    t.ok(rounds > 1, 'the other host works during the flood', SPEC, why=rounds)
    for name, ms in worst.items():
        t.ok(ms <= total_ms / PART + TICK_MS, 'a %s does not wait for the flood' % name, SPEC,
             why='%.1f ms of %.1f ms' % (ms, total_ms))
    t.eq(bytes(conn.read(1, 0, 1, BLOCK).data), data, 'the data of the other host is intact', SPEC)
    # A connection that ends while its commands wait.
    flood(queue)
    hostile.close()
    t.status(conn.read(1, 0, 1, BLOCK), n.OK, 'a read when the flood has left', SPEC)
    again = tgt.host(NQN_A, hostnqn='nqn.2014-08.org.example:hostile')
    t.status(again.queue(1).read(1, 0, 1, BLOCK), n.OK, 'the hostile host may come back', SPEC)
    again.close()
    other.close()


target.run(Tap(), test, reactors=1, subsystems=[
    {'nqn': NQN_A, 'serial': 'A', 'allow_any_host': True, 'namespaces': [target.namespace(1, 'mem:256M,block=4096')]},
    {'nqn': NQN_B, 'serial': 'B', 'allow_any_host': True, 'namespaces': [target.namespace(1, 'mem:64M,block=4096')]}])
