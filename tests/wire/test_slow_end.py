#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Ends amid commands that a medium holds for an hour. When a host is lost, in any way, its commands are cancelled and
none reaches the medium later. A stop of the target waits for its grace (10 s for commands, flushes get at least 2
s more), then cancels. NVMe Base 2.1, sections 3.3.2.3 (loss of a connection), 3.6 (shutdown), 3.7.2 (reset), 3.9
(keep alive).
"""

import os
import tempfile
import time

import nvmetcp as n
import target
import threadstop
from tap import Tap

FAST, SLOW, LATE, FLUSH = 1, 2, 3, 4
HOUR_MS = 3600000
LATE_MS = 400
AT_ONCE_S = 5.0      # half of the grace
SOON_S = n.TIMEOUT_S  # for what would otherwise take an hour
GRACE_S = 10.0
STOP_S = GRACE_S + 2.0 + SOON_S  # and room for a busy machine
OLD, NEW = b'\x11' * 4096, b'\x22' * 4096
KATO_MS = 500


def submit(conn):
    """Commands on the slow media: at the medium, and waiting behind others."""
    cmds = [conn.rw(n.READ, SLOW, i, 1, 512) for i in range(8)]
    cmds += [conn.rw(n.WRITE, SLOW, 64, 8, 512, NEW) for _ in range(3)]
    cmds += [conn.rw(n.WRITE, LATE, 0, 8, 512, NEW) for _ in range(3)]
    conn.do(n.FLUSH, FAST)  # answered: the target has the commands before it
    return cmds


def nothing_lands(t, tgt, name):
    """The read takes as long as the writes would have, and began after them."""
    with tgt.host() as host:
        data = bytes(host.queue().read(LATE, 0, 8).data)
    t.ok(data == OLD, 'nothing reaches the medium later: ' + name, 'Base 3.3.2.3', data[:16])


def closed_soon(t, tgt, conn, gone_before, start, name):
    is_gone = target.poll(lambda: tgt.log().count(' gone: ') > gone_before, SOON_S)
    t.ok(is_gone, 'slow commands end with their controller: ' + name, 'Base 3.3.2.3',
         '%.1f s' % (time.monotonic() - start))
    if conn:
        t.ok(conn.wait_closed(SOON_S), 'and its I/O queue is closed: ' + name)
        conn.close()


def admin_lost(host, conn):
    host.admin.close()
    return conn


def io_lost_last(host, conn):
    """The I/O connection ends when its queue is already closing."""
    host.admin.close()
    conn.close()


def io_lost_first(host, conn):
    conn.close()
    host.admin.close()


def reset(host, conn):
    host.admin.set_property(n.CC, 0)
    host.admin.csts_until(0, 1, SOON_S)
    host.admin.close()
    return conn


def silent(host, conn):
    return conn


def disconnected(host, conn):
    """The host disconnects the queue, which waits for its commands; then the host is gone."""
    conn.submit_fabrics(n.DISCONNECT, bytes(20))
    conn.close()
    host.admin.close()


def hosts_go(t, tgt):
    for way in (admin_lost, io_lost_last, io_lost_first, reset, silent, disconnected):
        with t.guard(way.__name__):
            with tgt.host() as host:
                host.queue().put(LATE, 0, OLD)
            target.poll(lambda: tgt.log().count(' gone: ') == tgt.log().count(' connected to '))
            before = tgt.log().count(' gone: ')
            host = tgt.host(kato_ms=KATO_MS if way is silent else 0)
            conn = host.queue()
            submit(conn)
            start = time.monotonic()
            closed_soon(t, tgt, way(host, conn), before, start, way.__name__)
            if way is not silent:  # its writes were done before the time-out
                nothing_lands(t, tgt, way.__name__)
            host.admin.close()


def late_ends_are_told(t):
    """A queue on a stopped reactor ends late: an error when CQT promised less, none without CQT."""
    if threadstop.why_not():
        t.skip('a controller that ends late', threadstop.why_not())
        return
    for limit_ms in (0, 10):
        tgt = target.Target(limits={'quiesce_ms': limit_ms})
        try:
            # Controllers on both reactors, each with queues on both.
            hosts = [tgt.host() for _ in range(2)]
            queues = [host.queue(qid) for host in hosts for qid in range(1, 5)]
            with threadstop.Stopped(tgt.process, 'weft-r1'):
                for host in hosts:
                    host.admin.close()
                target.poll(lambda: False, 0.1)  # how long the reactor stands still
            t.ok(all(queue.wait_closed(AT_ONCE_S) for queue in queues), 'CQT %d: all queues are closed' % limit_ms,
                 'Base 3.3.2.3')
            t.ok(target.poll(lambda: tgt.log().count(' gone: ') == 2), 'CQT %d: the controllers are gone' % limit_ms)
            t.ok(('CQT is' in tgt.log()) == (limit_ms > 0), 'CQT %d: a late end is told, or none' % limit_ms,
                 why=tgt.log())
            for queue in queues:
                queue.close()
        finally:
            tgt.finish(t)


def stop_after_loss(t, tgt):
    def once():
        if not tgt.is_running():
            tgt.start()
        host = tgt.host()
        conn = host.queue()
        submit(conn)
        host.admin.close()
        start = time.monotonic()
        tgt.terminate()
        t.eq(tgt.wait_exit(), 0, 'SIGTERM right after a host was lost: exit status 0')
        conn.close()
        return time.monotonic() - start
    times = target.least(once, AT_ONCE_S)
    t.ok(min(times) <= AT_ONCE_S, 'without the grace, which is for hosts', why=times)


def stop_with_hosts(t, tgt):
    """All slow operations in one stop."""
    file = 'file:%s,size=1M,block=512' % os.path.join(tgt.folder, 'flushed')
    tgt.config['subsystems'][0]['namespaces'].append(
        target.namespace(FLUSH, 'fault:delay:op=flush:ms=%d@%s' % (HOUR_MS, file)))
    tgt.write_config()
    tgt.start('--reset')
    host, other, owing = tgt.host(), tgt.host(), tgt.host()
    conn = host.queue()
    cmds = submit(conn)
    cmds.append(conn.submit(n.FLUSH, FLUSH))
    cmds.append(conn.submit(n.FLUSH, 0xffffffff))
    other.admin.set_property(n.CC, n.CC_ENABLE | 1 << 14)  # SHN: flushes, for an hour
    # On one queue: an Abort waits for a command that waits for its host.
    owed = owing.admin.submit(n.SET_FEATURES, cdw10=0x0e, data=bytes(8), way='r2t', is_auto=False)
    owing.admin.wait_r2t(owed)
    owing.admin.submit(n.ABORT, cdw10=owed.cid << 16)
    conn.do(n.FLUSH, FAST)
    start = time.monotonic()
    tgt.terminate()
    for cmd in cmds:
        conn.wait(cmd, STOP_S)
    late = [cmd for cmd in cmds if cmd.status not in (n.ABORT_SQ_DELETED, n.OK)]
    t.eq([cmd.status for cmd in late], [], 'SIGTERM: slow commands of a host that is there end with '
         'their queue, or with success', 'Base 3.6')
    t.ok(time.monotonic() - start > GRACE_S / 2, 'after they had their time')
    t.eq(tgt.wait_exit(), 0, 'exit status 0')
    t.ok(time.monotonic() - start < STOP_S, 'and the stop takes no longer than it may',
         why='%.1f s' % (time.monotonic() - start))
    t.ok('media were not flushed in time' in tgt.log(), 'a flush that does not end is reported')
    for peer in (host, other, owing):
        peer.close()


def test(t, tgt):
    hosts_go(t, tgt)
    with t.guard('late ends'):
        late_ends_are_told(t)
    for part in (stop_after_loss, stop_with_hosts):
        with t.guard(part.__name__):
            part(t, tgt)


def start():
    with tempfile.TemporaryDirectory(prefix='weft-wire-') as folder:
        late = 'file:%s,size=1M,block=512' % os.path.join(folder, 'late')
        spaces = [
            target.namespace(FAST, 'mem:1M,block=512'),
            target.namespace(SLOW, 'fault:delay:op=read:ms=%d+delay:op=write:ms=%d@mem:1M,'
                             'block=512' % (HOUR_MS, HOUR_MS)),
            target.namespace(LATE, 'fault:delay:ms=%d@%s' % (LATE_MS, late)),
        ]
        target.run(Tap(), test, namespaces=spaces)


start()
