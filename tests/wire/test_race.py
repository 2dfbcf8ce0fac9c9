#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Concurrent events: hosts that leave during Connect, data and slow commands, I/O queues that join while their
controller ends, Aborts that meet completions, and configurations that change under load. With two reactors each of
these crosses between them. Guarantees: no command is answered twice or with another's answer, and the target goes
on. NVMe Base 2.1, sections 3.3.2.2 (queues), 3.7 (resets), 5.1.1 (Abort).
"""

import struct

import nvmetcp as n
import target
from tap import Tap

SLOW = 2


def works(t, tgt, name):
    with tgt.host() as host:
        conn = host.queue()
        data = n.pattern(4096, 5)
        t.eq((conn.put(1, 0, data).status, bytes(conn.read(1, 0, 8).data)), (n.OK, data),
             'the target goes on after: ' + name)


def leave_in_connect(t, tgt):
    """Closes before the answer to an admin Connect, which passes through the registry's reactor."""
    for i in range(120):
        conn = tgt.conn()
        cmd = conn.submit_fabrics(n.CONNECT, n.connect_body(kato_ms=1000 * (i % 2)),
                                  n.connect_data(target.NQN), send=False)
        conn.send(n.icreq() + cmd.wire)
        if i % 3 == 0:
            conn.recv_pdu()
        conn.close()
    works(t, tgt, 'hosts that left during Connect')


def io_connect(conn, host, qid=1):
    return conn.submit_fabrics(n.CONNECT, n.connect_body(qid, 31, cattr=4),
                               n.connect_data(target.NQN, cntlid=host.cntlid))


def leave_in_io_connect(t, tgt):
    for i in range(40):
        host = tgt.host()
        conns = [tgt.conn() for _ in range(3)]
        for qid, conn in enumerate(conns, 1):
            conn.ic()
            io_connect(conn, host, qid)
        for conn in (conns if i % 2 else [host.admin] + conns):
            conn.close()
        host.close()
    works(t, tgt, 'hosts that left during I/O Connect')


def same_qid(t, tgt):
    """Several connections request the same queue ID: exactly one gets the queue."""
    counts = []
    with tgt.host() as host:
        for qid in range(1, 31):
            conns = [tgt.conn() for _ in range(4)]
            for conn in conns:
                conn.ic()
            cmds = [io_connect(conn, host, qid) for conn in conns]
            for conn, cmd in zip(conns, cmds):
                conn.wait(cmd)
            counts.append(sum(cmd.status == n.OK for cmd in cmds))
            for conn in conns:
                conn.close()
    t.eq(counts, [1] * 30, 'of four Connects with one QID exactly one succeeds', 'Base 3.3.2.2')


def reset_while_joining(t, tgt):
    """CC.EN is set to 0 while I/O queues connect: each is refused, or is connected and closed."""
    odd = []
    with tgt.host() as host:
        for _ in range(30):
            conns = [tgt.conn() for _ in range(3)]
            for conn in conns:
                conn.ic()
            cmds = [io_connect(conn, host, qid) for qid, conn in enumerate(conns, 1)]
            host.admin.set_property(n.CC, 0)
            for conn, cmd in zip(conns, cmds):
                try:
                    conn.wait(cmd)
                    if cmd.status == n.OK and not conn.wait_closed():
                        odd.append('a queue that outlives its reset')
                    elif cmd.status not in (n.OK, n.CMD_SEQUENCE, n.CONNECT_INVALID):
                        odd.append(cmd.status)
                except n.Closed:
                    pass
                conn.close()
            if host.admin.csts_until(0, 1) & 1:
                odd.append('CSTS.RDY stays 1')
            if not host.admin.enable() & 1:
                odd.append('CSTS.RDY stays 0')
    t.eq(odd, [], 'reset while I/O queues connect', 'Base 3.7.2')


def reset_with_commands(t, tgt):
    """A reset amid slow commands and owed data: the queues end, no command is answered twice."""
    with tgt.host() as host:
        for _ in range(3):
            conn = host.queue(1)
            for i in range(10):
                conn.rw(n.READ, SLOW, i, 1, 512)
            owed = conn.rw(n.WRITE, 1, 0, 8, 512, bytes(4096), way='r2t', is_auto=False)
            conn.wait_r2t(owed)
            host.admin.set_property(n.CC, 0)
            t.ok(conn.wait_closed(), 'reset amid slow commands: the queue ends', 'Base 3.7.2')
            conn.close()
            t.eq(host.admin.csts_until(0, 1) & 1, 0, 'and the reset completes', 'Base 3.7.2')
            host.admin.enable()


def aborts(t, tgt):
    """Aborts of commands that are about to end: each gets one correct answer."""
    lies = []
    with tgt.host() as host:
        conn = host.queue(1)
        for i in range(60):
            cmds = [conn.rw(n.READ, 3, j, 1, 512) for j in range(3)]
            asked = [host.admin.submit(n.ABORT, cdw10=1 | cmd.cid << 16) for cmd in cmds]
            for cmd, ask in zip(cmds, asked):
                conn.wait(cmd)
                host.admin.wait(ask)
                if ask.status != n.OK:
                    lies.append(ask.status)
                elif (cmd.status == n.ABORT_REQUESTED) != (ask.dw0 & 1 == 0):
                    lies.append((cmd.status, ask.dw0))
    t.eq(lies, [], 'Aborts that meet completions tell the truth', 'Base 5.1.1')


def leave_in_data(t, tgt):
    for size in (0, 1, 23, 24, 100, 600, 3000):
        host = tgt.host()
        conn = host.queue()
        cmd = conn.rw(n.WRITE, 1, 0, 8, 512, bytes(4096), way='r2t', is_auto=False)
        r2t = conn.wait_r2t(cmd)
        conn.send(conn.h2cdata(cmd.cid, r2t.ttag, 0, bytes(4096))[:size])
        host.close()
    for size in (1, 71, 72, 73, 600, 4000):
        host = tgt.host()
        conn = host.queue()
        cmd = conn.rw(n.WRITE, 1, 0, 8, 512, bytes(4096), way='capsule', send=False)
        conn.send(cmd.wire[:size])
        host.close()
    host = tgt.host()
    conn = host.queue()
    for i in range(30):
        conn.rw(n.READ, 1, 0, 1024, 512)
    conn.pump()
    host.close()
    works(t, tgt, 'hosts that left in the middle of data')


def reload_under_load(t, tgt):
    """
    Namespaces are added and removed while slow commands run on them: commands end on the namespace they began on.
    """
    with tgt.host() as host:
        conn = host.queue(1)
        host.admin.submit(n.AER)
        bad = []
        for i in range(6):
            spec = 'fault:delay:op=read:ms=150@mem:1M,block=512'
            tgt.reload(lambda config: config['subsystems'][0]['namespaces'].append(
                target.namespace(9, spec)))
            target.know(host, conn, 9)
            cmds = [conn.rw(n.READ, 9, j, 1, 512) for j in range(5)]
            conn.do(n.FLUSH, 1)
            tgt.reload(lambda config: config['subsystems'][0]['namespaces'].pop())
            late = conn.read(9, 0, 1)
            if late.status != n.INACTIVE_NS:
                bad.append(('late', late.status))
            for cmd in cmds:
                conn.wait(cmd)
                if cmd.status != n.OK:
                    bad.append(cmd.status)
        t.eq(bad, [], 'commands outlive the namespace that they run on', 'Base 3.2.1')


def ports_under_load(t, tgt):
    """Removing a port closes its connections only."""
    port = target.free_port('127.0.0.2')
    tgt.reload(lambda config: config['ports'].append(
        {'id': 2, 'address': '127.0.0.2', 'service': str(port)}))
    gone = n.Host(('127.0.0.2', port), target.NQN)
    conn = gone.queue()
    slow = [conn.rw(n.READ, SLOW, i, 1, 512) for i in range(4)]
    conn.do(n.FLUSH, 1)
    with tgt.host() as stays:
        tgt.reload(lambda config: config['ports'].pop())
        for cmd in slow:
            conn.wait(cmd)
        t.eq({cmd.status for cmd in slow}, {n.OK}, 'the port is removed: its commands are answered')
        t.ok(conn.wait_closed() and gone.admin.wait_closed(), 'and its connections end')
        t.status(stays.admin.do(n.KEEP_ALIVE), n.OK, 'those of other ports stay')
    gone.close()
    try:
        n.Conn(('127.0.0.2', port)).close()
        is_gone = False
    except ConnectionError:
        is_gone = True
    t.ok(is_gone, 'and nobody listens there')


def host_forbidden(t, tgt):
    with tgt.host() as host:
        conn = host.queue()
        tgt.reload(lambda config: config['subsystems'][0].update(
            allow_any_host=False, hosts=['nqn.2026-11.io.weft:friend']))
        t.ok(conn.wait_closed() and host.admin.wait_closed(),
             'a host that is no longer allowed is disconnected', 'Base 6.3')
        with tgt.conn() as again:
            again.ic()
            t.status(again.connect(target.NQN), n.CONNECT_HOST, 'and cannot come back', 'Base 6.3')
    tgt.reload(lambda config: config['subsystems'][0].update(allow_any_host=True, hosts=[]))
    works(t, tgt, 'a host that was not allowed for a while')


def busy_queue(conn, nsid):
    """Commands that wait for buffers, blocks and data of the host."""
    owed = [conn.rw(n.WRITE, nsid, 64 * i, 64, 512, bytes(32768), way='r2t', is_auto=False)
            for i in range(3)]
    r2ts = [conn.wait_r2t(cmd) for cmd in owed]
    reads = [conn.rw(n.READ, nsid, 0, 1024, 512) for _ in range(60)]
    writes = [conn.rw(n.WRITE, nsid, 7, 1, 512, bytes([i]) * 512) for i in range(20)]
    return list(zip(owed, r2ts)), reads + writes


def removed_while_waiting(t, tgt):
    """Removals under such a queue: each command is answered, or its connection ends."""
    second = 'nqn.2026-11.io.weft:second'
    port = target.free_port('127.0.0.3')
    slow = target.namespace(9, 'fault:delay:ms=30@mem:8M,block=512')

    def spaces(config):
        return config['subsystems'][0]['namespaces']

    def set_up(config):
        spaces(config).append(dict(slow))
        config['subsystems'].append({'nqn': second, 'serial': 'S2', 'namespaces': [dict(slow)]})
        config['ports'].append({'id': 3, 'address': '127.0.0.3', 'service': str(port)})

    rows = [
        ('a namespace', target.NQN, None, lambda config: spaces(config).pop()),
        ('the sight of it', target.NQN, None,
         lambda config: spaces(config)[-1].update(hidden_from=[n.HOST_NQN])),
        ('its subsystem', second, None, lambda config: config['subsystems'].pop()),
        ('its port', target.NQN, ('127.0.0.3', port), lambda config: config['ports'].pop()),
        ('the right to connect', second, None, lambda config: config['subsystems'][-1].update(
            allow_any_host=False, hosts=['nqn.2026-11.io.weft:friend'])),
    ]
    for name, nqn, address, change in rows:
        before = tgt.config
        tgt.reload(set_up)
        with n.Host(address or tgt.address, nqn) as host:
            conn = host.queue()
            owed, others = busy_queue(conn, 9)
            tgt.reload(change)
            answered, is_closed = 0, False
            try:
                for cmd, r2t in owed:
                    conn.answer_r2t(cmd, r2t)
                for cmd in [cmd for cmd, _ in owed] + others:
                    conn.wait(cmd)
                    answered += 1
            except (n.Closed, OSError):
                is_closed = True
            stays = nqn == target.NQN and address is None
            t.ok(answered == len(owed) + len(others) if stays else is_closed or answered,
                 'with commands that wait, goes %s: %s' % (
                     name, 'every command is answered' if stays else 'the connection ends'),
                 'Base 3.2.1', '%d answered' % answered)
            if stays:
                t.status(conn.read(9, 0, 1), n.INACTIVE_NS, 'and the next is refused', 'Base 3.2.1')
            else:
                t.ok(conn.wait_closed() and host.admin.wait_closed(), 'and all of it ends')
        tgt.config = before
        tgt.reload()
        works(t, tgt, 'commands that waited while %s went' % name)


def refused_in_a_row(t, tgt):
    """Many Connects in one send, only the last one valid."""
    with tgt.conn() as conn:
        conn.ic()
        cmds = [conn.submit_fabrics(n.CONNECT, n.connect_body(),
                                    n.connect_data('nqn.2026-11.io.weft:no%d' % i), send=False)
                for i in range(20)]
        cmds.append(conn.submit_fabrics(n.CONNECT, n.connect_body(), n.connect_data(target.NQN),
                                        send=False))
        cmds.append(conn.submit_fabrics(n.PROPERTY_GET, struct.pack('<B3xI', 0, n.VS), send=False))
        conn.send(b''.join(cmd.wire for cmd in cmds))
        for cmd in cmds:
            conn.wait(cmd)
        t.eq([cmd.status for cmd in cmds], [n.CONNECT_INVALID] * 20 + [n.OK] * 2,
             '20 wrong Connects and a right one in one write', 'Base 6.3')


def test(t, tgt):
    for part in (leave_in_connect, leave_in_io_connect, same_qid, reset_while_joining,
                 reset_with_commands, aborts, leave_in_data, reload_under_load, ports_under_load,
                 host_forbidden, removed_while_waiting, refused_in_a_row):
        with t.guard(part.__name__):
            part(t, tgt)


SPACES = [
    target.namespace(1, 'mem:4M,block=512'),
    target.namespace(SLOW, 'fault:delay:op=read:ms=200@mem:1M,block=512'),
    target.namespace(3, 'fault:delay:op=read:ms=1@mem:1M,block=512'),
]

target.run(Tap(), test, namespaces=SPACES)
