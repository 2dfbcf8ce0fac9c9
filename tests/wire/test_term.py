#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Protocol violations: every Fatal Error Status, with the wrong field and the offending header; then the connection
ends. NVMe/TCP 1.1, sections 3.5 and 3.6.2.3 to 3.6.2.9.
"""

import struct

import nvmetcp as n
import target
from tap import Tap

IDENTIFY_SQE = n.sqe(n.IDENTIFY, 1, sgl=n.sgl_transport(4096), cdw10=1)
FIELD, SEQUENCE, RANGE, LIMIT = n.FES_FIELD, n.FES_SEQUENCE, n.FES_RANGE, n.FES_LIMIT


def cmd(flags=0, hlen=72, pdo=0, plen=72, kind=n.CAPCMD, data=b''):
    return n.common(kind, flags, hlen, pdo, plen) + IDENTIFY_SQE + data


def data_pdu(kind, flags=n.LAST, hlen=24, pdo=24, plen=24 + 512, ttag=0, length=512):
    return n.common(kind, flags, hlen, pdo, plen) + struct.pack('<HHII4x', 1, ttag, 0, length) + \
        bytes(512)


# Before initialization: name, bytes, FES, FEI (None: reserved, must be 0), section
BEFORE = [
    ('CapsuleCmd before ICReq', cmd(), SEQUENCE, None, 'TCP 3.5, sequence'),
    ('H2CData before ICReq', data_pdu(n.H2CDATA), SEQUENCE, None, 'TCP 3.5, sequence'),
    ('unknown type FFh before ICReq', cmd(kind=0xff), FIELD, 0, 'TCP 3.6.1, PDU-Type'),
]

# After initialization without digests.
AFTER = [
    ('second ICReq', n.icreq(), SEQUENCE, None, 'TCP 3.6.2.1'),
    ('PDU type 08h', cmd(kind=0x08), FIELD, 0, 'TCP 3.6.1, PDU-Type'),
    ('PDU type 0Ch', cmd(kind=0x0c), FIELD, 0, 'TCP 3.6.1, PDU-Type'),
    ('PDU type FFh', cmd(kind=0xff), FIELD, 0, 'TCP 3.6.1, PDU-Type'),
    # Types that only controllers send: the PDU-Type is not a legal value in this direction.
    ('ICResp from a host', n.icreq(kind=n.ICRESP, maxr2t=4096), FIELD, 0, 'TCP 3.6.1, PDU-Type'),
    ('C2HTermReq from a host', n.common(n.C2HTERM, 0, 24, 0, 24) + bytes(16), FIELD, 0,
     'TCP 3.6.1, PDU-Type'),
    ('CapsuleResp from a host', n.common(n.CAPRESP, 0, 24, 0, 24) + bytes(16), FIELD, 0,
     'TCP 3.6.1, PDU-Type'),
    ('C2HData from a host', data_pdu(n.C2HDATA), FIELD, 0, 'TCP 3.6.1, PDU-Type'),
    ('R2T from a host', data_pdu(n.R2T, 0, pdo=0, plen=24)[:24], FIELD, 0, 'TCP 3.6.1, PDU-Type'),
    ('CapsuleCmd with HLEN 71', cmd(hlen=71), FIELD, 2, 'TCP 3.6.2.5, HLEN 72'),
    ('CapsuleCmd with HLEN 0', cmd(hlen=0), FIELD, 2, 'TCP 3.6.2.5, HLEN 72'),
    ('CapsuleCmd with HLEN 255', cmd(hlen=255), FIELD, 2, 'TCP 3.6.2.5, HLEN 72'),
    ('H2CData with HLEN 72', data_pdu(n.H2CDATA, hlen=72), FIELD, 2, 'TCP 3.6.2.7, HLEN 24'),
    ('CapsuleCmd with PLEN 71', cmd(plen=71), FIELD, 4, 'TCP 3.6.2.5, PLEN'),
    ('CapsuleCmd with PLEN 0', cmd(plen=0), FIELD, 4, 'TCP 3.6.2.5, PLEN'),
    ('CapsuleCmd with PLEN FFFFFFFFh', cmd(pdo=72, plen=0xffffffff), FIELD, 4,
     'TCP 3.6.2.5, PLEN'),
    ('in-capsule data beyond 8192 bytes', cmd(pdo=72, plen=72 + 8196), FIELD, 4,
     'TCP 3.6.2.5, PLEN'),
    ('H2CData shorter than its header', data_pdu(n.H2CDATA, plen=23), FIELD, 4,
     'TCP 3.6.2.7, PLEN'),
    ('H2CData without data', data_pdu(n.H2CDATA, plen=24, length=0)[:24], FIELD, 4,
     'TCP 3.6.2.7, PLEN'),
    ('CapsuleCmd with PDO inside the header', cmd(pdo=68, plen=584, data=bytes(512)), FIELD, 3,
     'TCP 3.6.2.5, PDO'),
    ('CapsuleCmd with PDO 0 and data', cmd(pdo=0, plen=584, data=bytes(512)), FIELD, 3,
     'TCP 3.6.2.5, PDO'),
    ('CapsuleCmd with PDO 73', cmd(pdo=73, plen=585, data=bytes(513)), FIELD, 3,
     'TCP 3.6.2.5, PDO against CPDA'),
    ('CapsuleCmd with PDO beyond PLEN', cmd(pdo=96, plen=80, data=bytes(8)), FIELD, 3,
     'TCP 3.6.2.5, PDO'),
    ('H2CData with PDO 20', data_pdu(n.H2CDATA, pdo=20), FIELD, 3, 'TCP 3.6.2.7, PDO'),
    ('CapsuleCmd with HDGSTF not agreed', cmd(flags=n.HDGSTF, plen=76, data=bytes(4)), FIELD, 1,
     'TCP 3.6.1, FLAGS'),
    ('CapsuleCmd with DDGSTF not agreed', cmd(n.DDGSTF, 72, 72, 588, data=bytes(516)), FIELD, 1,
     'TCP 3.6.1, FLAGS'),
    ('H2CData with DDGSTF not agreed', data_pdu(n.H2CDATA, n.LAST | n.DDGSTF), FIELD, 1,
     'TCP 3.6.1, FLAGS'),
    ('H2CData with a TTAG never given', data_pdu(n.H2CDATA, ttag=0), FIELD, 10,
     'TCP 3.6.2.7, TTAG'),
    ('H2CData with TTAG FFFFh', data_pdu(n.H2CDATA, ttag=0xffff), FIELD, 10, 'TCP 3.6.2.7, TTAG'),
    ('H2CData with DATAL unlike PLEN', data_pdu(n.H2CDATA, length=508), FIELD, 16,
     'TCP 3.6.2.7, DATAL'),
]

# With both digests agreed.
DIGEST = [
    ('CapsuleCmd without HDGSTF', cmd(), FIELD, 1, 'TCP 3.6.1, FLAGS'),
    ('CapsuleCmd with data but without DDGSTF', cmd(n.HDGSTF, pdo=76, plen=592, data=bytes(520)),
     FIELD, 1, 'TCP 3.6.1, FLAGS'),
    ('CapsuleCmd with DDGSTF but without data', cmd(n.HDGSTF | n.DDGSTF, plen=76, data=bytes(4)),
     FIELD, 1, 'TCP 3.6.1, FLAGS'),
    ('CapsuleCmd with PDO on its digest', cmd(3, pdo=72, plen=592, data=bytes(520)), FIELD, 3,
     'TCP 3.6.2.5, PDO'),
    ('header digest wrong', cmd(n.HDGSTF, plen=76, data=struct.pack('<I', 0x12345678)),
     n.FES_HDGST, 0x12345678, 'TCP 3.5, header digest'),
]


def h2c(conn, cid, r2t, offset=0, length=4096, last=True, **fields):
    return conn.h2cdata(fields.get('cccid', cid), fields.get('ttag', r2t.ttag), offset,
                        bytes(length), last)


# After the R2T of a write of 4096 bytes: name, PDUs, FES, FEI, section. The last PDU offends.
R2T_ROWS = [
    ('H2CData of another command', lambda c, i, r: [h2c(c, i, r, cccid=i + 1)], FIELD, 8,
     'TCP 3.6.2.7, CCCID'),
    ('H2CData with another TTAG', lambda c, i, r: [h2c(c, i, r, ttag=r.ttag + 1)], FIELD, 10,
     'TCP 3.6.2.7, TTAG'),
    ('H2CData that skips the beginning', lambda c, i, r: [h2c(c, i, r, 512, 3584)], RANGE, None,
     'TCP 3.6.2.7, DATAO'),
    ('H2CData at an offset behind the end', lambda c, i, r: [h2c(c, i, r, 8192)], RANGE, None,
     'TCP 3.6.2.7, DATAO'),
    ('H2CData that repeats itself',
     lambda c, i, r: [h2c(c, i, r, 0, 512, False), h2c(c, i, r, 0, 512, False)], RANGE, None,
     'TCP 3.6.2.7, DATAO'),
    ('H2CData longer than the R2T', lambda c, i, r: [h2c(c, i, r, 0, 4100)], RANGE, None,
     'TCP 3.6.2.7, DATAL'),
    ('H2CData that goes on behind the end of the R2T',
     lambda c, i, r: [h2c(c, i, r, 0, 2048, False), h2c(c, i, r, 2048, 4096)], RANGE, None,
     'TCP 3.6.2.7, DATAL'),
    ('H2CData that ends the R2T without LAST_PDU',
     lambda c, i, r: [h2c(c, i, r, last=False)], FIELD, 1, 'TCP 3.6.2.7, LAST_PDU'),
    ('H2CData with LAST_PDU before the end', lambda c, i, r: [h2c(c, i, r, 0, 512)], FIELD, 1,
     'TCP 3.6.2.7, LAST_PDU'),
    ('H2CData not in dwords', lambda c, i, r: [h2c(c, i, r, 0, 510, False)], FIELD, 16,
     'TCP 3.6.2.7, DATAL'),
]


class Row:
    """A connection that waits for its end. The ends of all rows are awaited together."""

    def __init__(self, t, name, spec, conn):
        self.t, self.name, self.spec, self.conn = t, name, spec, conn

    def check(self, sent, fes, fei):
        term = self.conn.recv_pdu()
        while term.type in (n.CAPRESP, n.R2T):  # answers that were on the way
            term = self.conn.recv_pdu()
        self.t.eq((term.type, term.fes, term.fei), (n.C2HTERM, fes, fei or 0),
                  self.name + ': C2HTermReq with FES and FEI', self.spec)
        hlen = n.HLEN.get(sent[0])
        is_whole = hlen != sent[2] or len(term.data) == hlen
        self.t.ok(sent.startswith(term.data) and 8 <= len(term.data) <= 128 and is_whole,
                  self.name + ': TermReq carries the offending header', 'TCP 3.6.2.4, DATA',
                  term.data.hex())

    def end(self):
        self.t.ok(self.conn.wait_closed(), self.name + ': the connection ends', 'TCP 3.5')
        self.conn.close()


def static_rows(t, tgt, rows, is_initialized, **ic):
    out = []
    for name, sent, fes, fei, spec in rows:
        with t.guard(name, spec):
            conn = tgt.conn()
            if is_initialized:
                conn.ic(**ic)
            row = Row(t, name, spec, conn)
            conn.send(sent)
            row.check(sent, fes, fei)
            out.append(row)
    return out


def r2t_rows(t, tgt):
    out = []
    for name, make, fes, fei, spec in R2T_ROWS:
        with t.guard(name, spec):
            host = tgt.host()
            conn = host.queue()
            cmd_ = conn.rw(n.WRITE, 1, 0, 8, 512, bytes(4096), way='r2t', is_auto=False)
            pdus = make(conn, cmd_.cid, conn.wait_r2t(cmd_))
            row = Row(t, name, spec, conn)
            conn.send(b''.join(pdus))
            row.check(pdus[-1], fes, fei)
            host.admin.close()
            out.append(row)
    return out


def limit_row(t, tgt):
    name, spec = 'H2CData beyond MAXH2CDATA', 'TCP 3.6.2.2, MAXH2CDATA'
    with t.guard(name, spec):
        host = tgt.host()
        conn = host.queue()
        size = conn.maxh2cdata * 2
        if size > 512 << 10:
            t.skip(name, 'MAXH2CDATA is as large as a transfer may be')
            return []
        cmd_ = conn.rw(n.WRITE, 1, 0, size // 512, 512, bytes(size), way='r2t', is_auto=False)
        r2t = conn.wait_r2t(cmd_)
        if r2t.length <= conn.maxh2cdata:
            t.skip(name, 'an R2T does not ask for more')
            return []
        sent = conn.h2cdata(cmd_.cid, r2t.ttag, 0, bytes(conn.maxh2cdata + 4), False)
        row = Row(t, name, spec, conn)
        conn.send(sent[:24])
        row.check(sent, LIMIT, None)
        host.admin.close()
        return [row]
    return []


def late_data_row(t, tgt):
    name, spec = 'H2CData after the R2T is satisfied', 'TCP 3.6.2.7, TTAG'
    with t.guard(name, spec):
        host = tgt.host()
        conn = host.queue()
        cmd_ = conn.rw(n.WRITE, 1, 0, 8, 512, bytes(4096), way='r2t')
        conn.wait(cmd_)
        t.status(cmd_, n.OK, name + ': the write itself', 'NVM 3.3.6')
        row = Row(t, name, spec, conn)
        sent = conn.h2cdata(cmd_.cid, cmd_.r2ts[0].ttag, 0, bytes(4096))
        conn.send(sent)
        row.check(sent, FIELD, 10)
        host.admin.close()
        return [row]
    return []


def h2c_term(t, tgt):
    """A host's TermReq is not answered; the connection ends. TCP 3.6.2.3."""
    for name, data in [('H2CTermReq', IDENTIFY_SQE), ('H2CTermReq without data', b'')]:
        with t.guard(name), tgt.conn() as conn:
            conn.ic()
            conn.send(n.common(n.H2CTERM, 0, 24, 0, 24 + len(data)) +
                      struct.pack('<HI10x', n.FES_FIELD, 4) + data)
            try:
                got = conn.recv_pdu().type
            except n.Closed:
                got = 'closed'
            t.eq(got, 'closed', name + ': the connection ends without an answer', 'TCP 3.6.2.3')


def others_are_untouched(t, tgt, host, conn):
    with t.guard('another host'):
        t.status(conn.read(1, 0, 8), n.OK, 'a connection beside all this still works', 'TCP 3.5')
        t.status(host.admin.do(n.KEEP_ALIVE), n.OK, 'and so does its admin queue', 'TCP 3.5')


def test(t, tgt):
    with tgt.host() as host:
        conn = host.queue()
        rows = static_rows(t, tgt, BEFORE, False)
        rows += static_rows(t, tgt, AFTER, True)
        rows += static_rows(t, tgt, DIGEST, True, hdgst=True, ddgst=True)
        rows += r2t_rows(t, tgt)
        rows += limit_row(t, tgt)
        rows += late_data_row(t, tgt)
        for row in rows:
            row.end()
        h2c_term(t, tgt)
        others_are_untouched(t, tgt, host, conn)


target.run(Tap(), test)
