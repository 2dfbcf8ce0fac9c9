#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Hosts that hurry, stall or leave: data before its R2T, commands before Connect in one send, an Abort whose victim
loses its connection, a reset during a shutdown, a host that does not receive while the target stops. The target
answers or closes the connection, and goes on. NVMe/TCP Transport 1.1, sections 3.3 and 3.5; NVMe Base 2.1,
sections 3.5, 3.6, 5.1.1 and 6.3.
"""

import struct

import nvmetcp
from nvmetcp import ABORT, CC, CC_ENABLE, COMPARE, CONNECT, OK, PROPERTY_GET, READ, WRITE
import tap
import target

BLOCK = 4096
SHN_NORMAL = 1 << 14
SHST_COMPLETE = 2 << 2
CONNECT_BUSY = (1, 0x81)
SLOW_READ = 'fault:delay:op=read:ms=700@mem:16M,block=4096'


def early_data(t, tgt):
    with tgt.conn() as conn:
        conn.ic()
        # Refused at once: the response would overtake the R2T.
        data = nvmetcp.connect_data(target.NQN + '-unknown')
        cmd = conn.submit_fabrics(CONNECT, nvmetcp.connect_body(), data, way='r2t', send=False)
        conn.send(cmd.wire + conn.h2cdata(cmd.cid, 0, 0, data))
        t.ok(conn.wait_closed(), 'data before its R2T ends the connection', 'TCP 3.5')
    t.ok(tgt.is_running(), 'and the target lives')


def before_connect(t, tgt):
    with tgt.conn() as conn:
        conn.ic()
        early = [conn.submit_fabrics(PROPERTY_GET, struct.pack('<B3xI', 0, nvmetcp.CSTS), send=False)
                 for _ in range(3)]
        connect = conn.submit_fabrics(CONNECT, nvmetcp.connect_body(),
                                      nvmetcp.connect_data(target.NQN), send=False)
        conn.send(b''.join(cmd.wire for cmd in early) + connect.wire)
        for cmd in early:
            t.status(conn.wait(cmd, 5), nvmetcp.CMD_SEQUENCE, 'a command before Connect', 'Base 6.3')
        t.status(conn.wait(connect, 5), OK, 'the Connect behind them', 'Base 6.3')


def abort_of_lost(t, tgt):
    with tgt.host() as host:
        queue = host.queue(1)
        write = queue.rw(WRITE, 1, 0, 16, BLOCK, bytes(16 * BLOCK), way='r2t', is_auto=False)
        queue.wait_r2t(write)
        abort = host.admin.submit(ABORT, cdw10=1 | write.cid << 16)
        t.status(host.admin.identify(1), OK, 'a command behind an Abort that waits')
        queue.close()
        host.admin.wait(abort, 5)
        t.status(abort, OK, 'an Abort whose victim lost its connection', 'Base 5.1.1')
        t.eq(abort.dw0 & 1, 1, 'says that nothing was aborted', 'Base 5.1.1')


def reset_in_shutdown(t, tgt):
    with tgt.host() as host:
        queue = host.queue(1)
        queue.rw(READ, 2, 0, 1, BLOCK)
        host.admin.set_property(CC, CC_ENABLE | SHN_NORMAL)
        host.admin.set_property(CC, CC_ENABLE & ~1)
        t.eq(host.admin.csts_until(0, 1) & 1, 0, 'a reset in the middle of a shutdown', 'Base 3.6')
        t.eq(host.admin.enable() & 0xf, 1, 'ready again, no shutdown to be seen', 'Base 3.6')
        t.status(host.queue(2).read(1, 0, 1, BLOCK), OK, 'I/O after it')
        host.admin.set_property(CC, CC_ENABLE | SHN_NORMAL)
        t.eq(host.admin.csts_until(SHST_COMPLETE, 0xc) & 0xc, SHST_COMPLETE, 'and a shutdown')


def large_compare(t, tgt):
    with tgt.host() as host:
        queue = host.queue(1)
        blocks = (1 << 20) // BLOCK
        cmd = queue.wait(queue.rw(COMPARE, 2, 0, blocks, BLOCK, bytes(blocks * BLOCK)))
        t.status(cmd, nvmetcp.INVALID_FIELD, 'a Compare of more than a buffer holds', dnr=1)


def too_many(t, tgt):
    hosts = [tgt.host() for _ in range(3)]
    with tgt.conn() as conn:
        conn.ic()
        t.status(conn.connect(target.NQN), CONNECT_BUSY, 'no controller left', 'Base 6.3', dnr=0)
    for host in hosts:
        host.close()


def end_with_deaf_host(t, tgt):
    host = tgt.host()
    queue = host.queue(1)
    for _ in range(100):
        queue.rw(READ, 1, 0, 128, BLOCK)
    # After the first data the rest is on the way; the host receives no more.
    queue.fill(BLOCK, queue.timeout + nvmetcp.time.monotonic())
    tgt.terminate()
    t.eq(tgt.wait_exit(), 0, 'SIGTERM with a host that does not read: leaves with status 0')
    host.close()


def test(t, tgt):
    for part in (early_data, before_connect, abort_of_lost, reset_in_shutdown, large_compare,
                 too_many, end_with_deaf_host):
        with t.guard(part.__name__):
            part(t, tgt)


target.run(tap.Tap(), test,
           namespaces=[target.namespace(1, 'mem:16M,block=4096'), target.namespace(2, SLOW_READ)],
           limits={'transfer_bytes': 1 << 20, 'controllers': 3})
