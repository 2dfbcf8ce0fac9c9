#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
The byte stream has no boundaries: every PDU cut at every byte, written byte by byte, and several PDUs joined in
one write get the same answers as whole PDUs. NVMe/TCP 1.1, section 3.2.

Between the two parts of a cut PDU the test waits until the target's socket is empty (its receive queue, read from
the kernel), so that the target has seen the first part alone.
"""

import socket
import struct

import nvmetcp as n
import target
from tap import Tap

SPEC = 'TCP 3.2'
BLOCK = 512


def rx_queue_asked(conn, netlink):
    """The receive queue of the target's socket, by sock_diag(7)."""
    host = bytes([127, 0, 0, 1]) + bytes(12)
    ends = struct.pack('>HH', conn.address[1], conn.sock.getsockname()[1])
    body = struct.pack('<BBxxI', socket.AF_INET, socket.IPPROTO_TCP, 0xffffffff) + ends + host + \
        host + struct.pack('<III', 0, 0xffffffff, 0xffffffff)
    netlink.send(struct.pack('<IHHII', 16 + len(body), 20, 1, 1, 0) + body)
    answer = netlink.recv(4096)
    kind = struct.unpack_from('<H', answer, 4)[0]
    return struct.unpack_from('<I', answer, 72)[0] if kind == 20 else None


def rx_queue_listed(conn):
    """The same from /proc/net/tcp, which is slower."""
    mine = '%08X:%04X' % (struct.unpack('<I', bytes([127, 0, 0, 1]))[0],
                          conn.sock.getsockname()[1])
    with open('/proc/net/tcp') as file:
        for line in file:
            fields = line.split()
            if fields[2] == mine:
                return int(fields[4].split(':')[1], 16)
    return None


def open_netlink():
    try:
        netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4)
        netlink.connect((0, 0))
        return netlink
    except OSError:
        return None


NETLINK = open_netlink()


def rx_queue(conn):
    """Bytes that the target has not read yet; None when unknown."""
    left = rx_queue_asked(conn, NETLINK) if NETLINK else None
    return rx_queue_listed(conn) if left is None else left


def cut(conn, data, at):
    conn.sock.sendall(data[:at])
    target.poll(lambda: rx_queue(conn) == 0, step=0)
    conn.sock.sendall(data[at:])


def essence(cmd):
    return (cmd.status, cmd.dnr, cmd.dw0, cmd.dw1, bytes(cmd.data))


def cut_everywhere(t, name, count, once):
    """Runs `once(at)` for every boundary; one row for all of them."""
    want = once(0)
    bad = [at for at in range(1, count) if once(at) != want]
    t.eq(bad, [], '%s cut at each of %d bytes' % (name, count), SPEC)


def ic_cuts(t, tgt):
    def once(at):
        with tgt.conn() as conn:
            cut(conn, n.icreq(hpda=1, dgst=3), at)
            return conn.recv_pdu().raw
    cut_everywhere(t, 'ICReq', 128, once)


def connect_cuts(t, tgt):
    def once(at):
        with tgt.conn() as conn:
            conn.ic()
            cmd = conn.submit_fabrics(n.CONNECT, n.connect_body(kato_ms=30000),
                                      n.connect_data(target.NQN), send=False)
            cut(conn, cmd.wire, at)
            conn.wait(cmd)
            return cmd.status
    size = 72 + 1024
    want = once(0)
    # Inside the data only every 16th byte: there one copy loop runs.
    places = list(range(1, 80)) + list(range(80, size - 16, 16)) + list(range(size - 16, size))
    t.eq([at for at in places if once(at) != want], [], 'Connect cut at %d places' % len(places),
         SPEC)


def command_cuts(t, host, conn, name):
    head = 72 + (4 if conn.hdgst else 0)
    tail = 4 if conn.ddgst else 0

    def read(at):
        cmd = conn.rw(n.READ, 1, 3, 1, BLOCK, send=False)
        cut(conn, cmd.wire, at)
        return essence(conn.wait(cmd))

    def write_in_capsule(at):
        data = n.pattern(BLOCK, at)
        cmd = conn.rw(n.WRITE, 1, 4, 1, BLOCK, data, way='capsule', send=False)
        cut(conn, cmd.wire, at)
        return essence(conn.wait(cmd)), bytes(conn.read(1, 4, 1).data) == data

    def write_by_r2t(at):
        data = n.pattern(BLOCK, at + 1)
        cmd = conn.rw(n.WRITE, 1, 5, 1, BLOCK, data, way='r2t', is_auto=False)
        r2t = conn.wait_r2t(cmd)
        cut(conn, conn.h2cdata(cmd.cid, r2t.ttag, 0, data), at)
        return essence(conn.wait(cmd)), bytes(conn.read(1, 5, 1).data) == data

    cut_everywhere(t, name + ': Read', head, read)
    cut_everywhere(t, name + ': Write with data in the capsule', head + BLOCK + tail,
                   write_in_capsule)
    cut_everywhere(t, name + ': H2CData', 24 + head - 72 + BLOCK + tail, write_by_r2t)


def conversation(tgt, writer):
    """From ICReq to a verified write; returns what was received, except the controller ID."""
    seen = []
    admin = tgt.conn()
    admin.write = writer(admin)
    seen.append(admin.ic(hdgst=True, ddgst=True).raw)
    cmd = admin.connect(target.NQN)
    cntlid = cmd.dw0
    seen.append(cmd.status)
    for step in (lambda: admin.get_property(n.CAP), lambda: admin.set_property(n.CC, n.CC_ENABLE),
                 lambda: admin.get_property(n.CSTS), lambda: admin.identify(0, 1),
                 lambda: admin.do(n.SET_FEATURES, cdw10=7, cdw11=0x30003),
                 lambda: admin.do(0x77)):
        seen.append(essence(step()))
    io = tgt.conn()
    io.write = writer(io)
    io.ic(hdgst=True, ddgst=True)
    seen.append(io.connect(target.NQN, 1, 31, cntlid=cntlid).status)
    data = n.pattern(4096, 9)
    for step in (lambda: io.put(1, 16, data, way='capsule'),
                 lambda: io.put(1, 24, data, way='r2t'),
                 lambda: io.read(1, 16, 16), lambda: io.read(1, 1 << 40, 1),
                 lambda: io.do(n.FLUSH, 1)):
        seen.append(essence(step()))
    admin.close()
    io.close()
    return seen


def whole(conn):
    return conn.sock.sendall


def one_byte(conn):
    def write(data):
        for at in range(len(data)):
            conn.sock.send(data[at:at + 1])
    return write


def pieces(size):
    def make(conn):
        def write(data):
            for at in range(0, len(data), size):
                cut(conn, data[at:at + size], 0)
                target.poll(lambda: rx_queue(conn) == 0, step=0)
        return write
    return make


def conversations(t, tgt):
    want = conversation(tgt, whole)
    for name, writer in (('byte by byte', one_byte), ('in pieces of 7 bytes', pieces(7)),
                         ('in pieces of 61 bytes', pieces(61))):
        with t.guard(name):
            t.eq(conversation(tgt, writer), want, 'a whole conversation written ' + name, SPEC)


def joined(t, host, conn, name):
    """Many commands in one write get the same answers as single commands."""
    data = [n.pattern(BLOCK, 100 + i) for i in range(20)]
    cmds = [conn.rw(n.WRITE, 1, 64 + i, 1, BLOCK, data[i], way='capsule', send=False)
            for i in range(20)]
    conn.send(b''.join(cmd.wire for cmd in cmds))
    for cmd in cmds:
        conn.wait(cmd)
    t.eq([cmd.status for cmd in cmds], [n.OK] * 20, name + ': 20 writes in one send', SPEC)
    cmds = [conn.rw(n.READ, 1, 64 + i, 1, BLOCK, send=False) for i in range(20)]
    cmds.insert(7, conn.submit(0x7e, 1, send=False))
    conn.send(b''.join(cmd.wire for cmd in cmds))
    for cmd in cmds:
        conn.wait(cmd)
    bad = cmds.pop(7)
    t.status(bad, n.INVALID_OPCODE, name + ': a bad command among them', SPEC)
    t.eq([bytes(cmd.data) for cmd in cmds], data, name + ': 20 reads in one send', SPEC)

    # All the H2CData PDUs of several writes, mixed, in one send.
    big = [n.pattern(16384, 200 + i) for i in range(3)]
    cmds = [conn.rw(n.WRITE, 1, 128 + 32 * i, 32, BLOCK, big[i], way='r2t', is_auto=False)
            for i in range(3)]
    for cmd in cmds:
        conn.wait_r2t(cmd)
    out = b''
    for at in range(0, 16384, 4096):
        for i, cmd in enumerate(cmds):
            out += conn.h2cdata(cmd.cid, cmd.r2ts[0].ttag, at, big[i][at:at + 4096],
                                at + 4096 == 16384)
    conn.send(out)
    for cmd in cmds:
        conn.wait(cmd)
    t.eq([cmd.status for cmd in cmds], [n.OK] * 3, name + ': mixed H2CData in one send', SPEC)
    t.eq([bytes(conn.read(1, 128 + 32 * i, 32).data) for i in range(3)], big,
         name + ': and each went to its own write', SPEC)


def joined_setup(t, tgt):
    """ICReq, Connect, enable and Identify in one write, before any answer is read."""
    with tgt.conn() as conn:
        cmds = [conn.submit_fabrics(n.CONNECT, n.connect_body(), n.connect_data(target.NQN),
                                    send=False),
                conn.submit_fabrics(n.PROPERTY_SET, struct.pack('<B3xIQ', 0, n.CC, n.CC_ENABLE),
                                    send=False),
                conn.submit_fabrics(n.PROPERTY_GET, struct.pack('<B3xI', 0, n.CSTS), send=False),
                conn.submit(n.IDENTIFY, read_bytes=4096, cdw10=1, send=False)]
        conn.send(n.icreq() + b''.join(cmd.wire for cmd in cmds))
        t.eq(conn.recv_pdu().type, n.ICRESP, 'all of the set-up in one write: ICResp', SPEC)
        for cmd in cmds:
            conn.wait(cmd)
        t.eq([cmd.status for cmd in cmds], [n.OK] * 4, 'all of the set-up in one write', SPEC)
        t.eq(cmds[2].dw0 & 1, 1, 'all of the set-up in one write: ready', SPEC)


def test(t, tgt):
    with t.guard('ICReq'):
        ic_cuts(t, tgt)
    with t.guard('Connect'):
        connect_cuts(t, tgt)
    with t.guard('set-up joined'):
        joined_setup(t, tgt)
    with t.guard('conversations'):
        conversations(t, tgt)
    for name, ic in (('plain', {}), ('with digests', dict(hdgst=True, ddgst=True))):
        with t.guard(name), tgt.host(**ic) as host:
            conn = host.queue()
            command_cuts(t, host, conn, name)
            joined(t, host, conn, name)


target.run(Tap(), test)
