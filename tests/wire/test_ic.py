#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Initialization of a connection: ICReq and ICResp. NVMe/TCP 1.1, sections 3.6.2.1 and 3.6.2.2.
"""

import nvmetcp as n
import target
from tap import Tap

# name, ICReq fields, expected (FES, FEI), section
REFUSED = [
    ('PFV 1', dict(pfv=1), (n.FES_PARAM, 8), 'TCP 3.6.2.1, PFV'),
    ('PFV FFFFh', dict(pfv=0xffff), (n.FES_PARAM, 8), 'TCP 3.6.2.1, PFV'),
    ('HPDA 32', dict(hpda=32), (n.FES_FIELD, 10), 'TCP 3.6.2.1, HPDA 0 to 31'),
    ('HPDA 255', dict(hpda=255), (n.FES_FIELD, 10), 'TCP 3.6.2.1, HPDA 0 to 31'),
    ('HLEN 127', dict(hlen=127), (n.FES_FIELD, 2), 'TCP 3.6.2.1, HLEN 128'),
    ('HLEN 8', dict(hlen=8), (n.FES_FIELD, 2), 'TCP 3.6.2.1, HLEN 128'),
    ('HLEN 0', dict(hlen=0), (n.FES_FIELD, 2), 'TCP 3.6.2.1, HLEN 128'),
    ('PLEN 127', dict(plen=127), (n.FES_FIELD, 4), 'TCP 3.6.2.1, PLEN 128'),
    ('PLEN 132', dict(plen=132), (n.FES_FIELD, 4), 'TCP 3.6.2.1, PLEN 128'),
    ('PLEN 0', dict(plen=0), (n.FES_FIELD, 4), 'TCP 3.6.2.1, PLEN 128'),
    ('PLEN FFFFFFFFh', dict(plen=0xffffffff), (n.FES_FIELD, 4), 'TCP 3.6.2.1, PLEN 128'),
]

ACCEPTED = [
    ('no digests', dict(), 0, 'TCP 3.6.2.2, DGST'),
    ('header digest', dict(hdgst=True), 1, 'TCP 3.6.2.2, DGST'),
    ('data digest', dict(ddgst=True), 2, 'TCP 3.6.2.2, DGST'),
    ('both digests', dict(hdgst=True, ddgst=True), 3, 'TCP 3.6.2.2, DGST'),
    ('HPDA 31', dict(hpda=31), 0, 'TCP 3.6.2.1, HPDA'),
    ('MAXR2T FFFFFFFFh', dict(maxr2t=0xffffffff), 0, 'TCP 3.6.2.1, MAXR2T'),
]


def accepted(t, tgt):
    for name, fields, dgst, spec in ACCEPTED:
        with t.guard(name, spec), tgt.conn() as conn:
            resp = conn.ic(**fields)
            t.eq((resp.type, resp.hlen, resp.plen, resp.u16(8)), (n.ICRESP, 128, 128, 0),
                 name + ': ICResp with PFV 0', 'TCP 3.6.2.2')
            t.eq(resp.raw[11], dgst, name + ': digests enabled are those asked for', spec)
            t.ok(resp.raw[10] <= 31, name + ': CPDA at most 31', 'TCP 3.6.2.2, CPDA')
            t.ok(resp.u32(12) >= 4096 and resp.u32(12) % 4 == 0,
                 name + ': MAXH2CDATA at least 4096, in dwords', 'TCP 3.6.2.2, MAXH2CDATA')
            t.eq(resp.raw[16:], bytes(112), name + ': reserved bytes are zero', 'TCP 3.6.2.2')
            # The connection uses the negotiated parameters: Conn verifies the digests.
            cmd = conn.connect(target.NQN)
            t.status(cmd, n.OK, name + ': Connect goes through', 'TCP 3.3')


def refused(t, tgt):
    ending = []
    for name, fields, want, spec in REFUSED:
        with t.guard(name, spec):
            conn = tgt.conn()
            sent = n.icreq(**fields)
            conn.send(sent)
            term = conn.recv_pdu()
            t.eq((term.type, term.fes, term.fei), (n.C2HTERM,) + want, name + ': C2HTermReq', spec)
            t.ok(sent.startswith(term.data) and 8 <= len(term.data) <= 128,
                 name + ': TermReq carries the header', 'TCP 3.6.2.4, DATA')
            ending.append((name, conn))
    for name, conn in ending:
        t.ok(conn.wait_closed(), name + ': the connection ends', 'TCP 3.5')
        conn.close()


def odd_but_legal(t, tgt):
    with t.guard('reserved bytes of ICReq'), tgt.conn() as conn:
        conn.send(n.icreq(reserved=b'\xa5' * 112))
        t.eq(conn.recv_pdu().type, n.ICRESP, 'reserved bytes of ICReq are not looked at',
             'Base 1.4.1')
    with t.guard('reserved digest bits'), tgt.conn() as conn:
        conn.send(n.icreq(dgst=0xfc))
        resp = conn.recv_pdu()
        t.eq((resp.type, resp.raw[11]), (n.ICRESP, 0), 'reserved digest bits are not looked at',
             'Base 1.4.1')
    with t.guard('silent close'):
        conn = tgt.conn()
        conn.close()
        conn = tgt.conn()
        conn.send(n.icreq()[:77])
        conn.close()
        with tgt.conn() as after:
            t.eq(after.ic().type, n.ICRESP, 'peers that leave before or inside ICReq do no harm',
                 'TCP 3.5')


def digests_not_offered(t):
    tgt = target.Target(limits={'header_digest': False, 'data_digest': False})
    try:
        with t.guard('digests not offered'), tgt.conn() as conn:
            resp = conn.ic(hdgst=True, ddgst=True)
            t.eq(resp.raw[11], 0, 'digests that are not allowed are not enabled',
                 'TCP 3.6.2.2, DGST')
            t.status(conn.connect(target.NQN), n.OK, 'and the connection goes on without them',
                     'TCP 3.3')
    finally:
        tgt.finish(t)


def test(t, tgt):
    accepted(t, tgt)
    refused(t, tgt)
    odd_but_legal(t, tgt)
    digests_not_offered(t)


target.run(Tap(), test)
