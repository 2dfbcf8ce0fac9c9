#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
An NSID gets another namespace while hosts use it: in one document, by removing and adding, by a rollback. Commands
sent for the former namespace, or before the host has read which namespace has the NSID now (Identify CNS 03h), are
refused and change nothing; later commands run. Each host is judged by what it has read itself. docs/adr/0033.
"""

import os
import struct
import tempfile
import uuid

import nvmetcp as n
import restapi
import target
from tap import Tap

SPEC = 'ADR 0033'
NOT_READY = (0, 0x82)
NS_NOTICE = 2 | 0x00 << 8 | 0x04 << 16
NSID, SOURCE, HUNG, MEM = 1, 2, 3, 4
FORMAT, WRITE_PROTECT, CDFE = 0x80, 0x84, 0x16
HOST_B = 'nqn.2014-08.org.example:other'
BYTES, STUCK_MS = 16384, 4000
FOLDER = tempfile.mkdtemp(prefix='weft-wire-replaced-')
OLD = b'\x55' * 512


def identity():
    return str(uuid.uuid4())


def file_ns(nsid, **more):
    name = identity()
    return target.namespace(nsid, 'file:%s,size=8M,block=512' % os.path.join(FOLDER, name), uuid=name, **more)


def spaces(config):
    return config['subsystems'][0]['namespaces']


def place(tgt, nsid, ns):
    """Gives the NSID to `ns`; None removes the namespace."""
    def edit(config):
        rest = [other for other in spaces(config) if other['nsid'] != nsid]
        spaces(config)[:] = sorted(rest + ([ns] if ns else []), key=lambda other: other['nsid'])
    tgt.reload(edit)


def present(tgt, nsid):
    return next(ns for ns in spaces(tgt.config) if ns['nsid'] == nsid)


def swap(tgt, nsid=NSID):
    ns = file_ns(nsid)
    place(tgt, nsid, ns)
    return ns


def look(host, nsid=NSID):
    """Reads the namespace as a host's scan does; returns its UUID."""
    told = host.admin.identify(3, nsid)
    host.admin.identify(0, nsid)
    return str(uuid.UUID(bytes=bytes(told.data[4:20])))


def until_taken(conn, nsid=NSID):
    """Reads until reads are accepted; returns the statuses seen."""
    seen = set()

    def is_over():
        cmd = conn.read(nsid, 0, 1)
        seen.add((cmd.status, cmd.dnr))
        return cmd.status != NOT_READY
    target.poll(is_over)
    return seen


def is_zero(tgt, nsid=NSID):
    with tgt.host(hostnqn='nqn.2014-08.org.example:judge') as host:
        conn = host.queue()
        return all(not any(conn.read(nsid, lba, BYTES // 512).data) for lba in range(0, 256, BYTES // 512))


def owing(conn, nsid, lba, begun=0):
    """A write that has its R2T; `begun` bytes of its data have been sent."""
    cmd = conn.rw(n.WRITE, nsid, lba, BYTES // 512, 512, OLD * (BYTES // 512), way='r2t', is_auto=False)
    conn.wait_r2t(cmd)
    if begun:
        wire = conn.h2cdata(cmd.cid, cmd.r2ts[0].ttag, 0, cmd.write_data)
        conn.send(wire[:24 + begun])
        cmd.rest = wire[24 + begun:]
    return cmd


def commands(conn, nsid=NSID):
    """One command of every kind that names a namespace."""
    dsm = struct.pack('<IIQ', 0, 1, 0)
    copy = struct.pack('<8xQH14x', 1, 0)
    return {
        'Read': lambda: conn.read(nsid, 0, 1),
        'Write': lambda: conn.put(nsid, 0, OLD),
        'Write by R2T': lambda: conn.put(nsid, 0, OLD, way='r2t'),
        'Compare': lambda: conn.wait(conn.rw(n.COMPARE, nsid, 0, 1, 512, OLD)),
        'Flush': lambda: conn.do(n.FLUSH, nsid),
        'Write Zeroes': lambda: conn.wait(conn.rw(n.WRITE_ZEROES, nsid, 0, 1, 512)),
        'Verify': lambda: conn.wait(conn.rw(n.VERIFY, nsid, 0, 1, 512)),
        'Write Uncorrectable': lambda: conn.wait(conn.rw(n.WRITE_UNCORRECTABLE, nsid, 0, 1, 512)),
        'Dataset Management': lambda: conn.do(n.DSM, nsid, data=dsm, cdw11=4),
        'Copy': lambda: conn.do(n.COPY, nsid, data=copy, cdw10=0),
        'Reservation Register': lambda: conn.do(0x0d, nsid, data=bytes(8) + b'\1' * 8),
    }


def one_document(t, tgt):
    with tgt.host() as a, tgt.host(hostnqn=HOST_B) as b:
        of_a, of_b = a.queue(), b.queue()
        for host in (a, b):
            look(host)
        parked = owing(of_a, NSID, 0)
        a.admin.set_feature(0x0b, 1 << 8)
        a.admin.get_log(4, 4096)
        aer = a.admin.submit(n.AER)
        ns = swap(tgt)
        a.admin.wait(aer)
        t.eq(aer.dw0, NS_NOTICE, 'a notice of the change', 'Base 5.1.2.1')
        of_a.answer_r2t(parked, parked.r2ts[0])
        t.status(of_a.wait(parked), n.INVALID_NS, 'a write whose data came after the change', SPEC, dnr=1)
        for name, ask in commands(of_a).items():
            t.status(ask(), n.INVALID_NS, 'sent after the change: ' + name, SPEC, dnr=1)
        t.status(a.admin.do(FORMAT, nsid=NSID, cdw10=1 << 9), n.INVALID_NS, 'Format NVM', SPEC, dnr=1)
        t.status(a.admin.set_feature(WRITE_PROTECT, 1, nsid=NSID), n.INVALID_NS, 'Set Features', SPEC, dnr=1)
        a.admin.identify(0, NSID)
        t.status(of_a.read(NSID, 0, 1), n.INVALID_NS, 'CNS 00h alone has no UUID', SPEC)
        b.admin.identify(8, NSID)
        t.status(of_b.read(NSID, 0, 1), n.INVALID_NS, 'nor has CNS 08h', SPEC)
        t.ok(is_zero(tgt), 'nothing of all that is in the new namespace', SPEC)
        a.admin.get_log(4, 4096)
        aer = a.admin.submit(n.AER)
        t.eq(look(a), ns['uuid'], 'Identify tells who has the NSID', 'Base 5.1.13.2.3')
        t.ok(until_taken(of_a) <= {(NOT_READY, 0), (n.OK, 0)}, 'then commands are put off, and taken', SPEC)
        a.admin.wait(aer)
        t.eq(aer.dw0, NS_NOTICE, 'with a second notice: the host may look again', SPEC)
        page = a.admin.get_log(4, 4096)
        t.eq(struct.unpack_from('<I', page.data)[0], NSID, 'which names the namespace', 'Base 5.1.12.1.5')
        for name, ask in commands(of_a).items():
            t.ok(ask().status not in (n.INVALID_NS, NOT_READY), 'after Identify: ' + name, SPEC)
        t.status(of_b.read(NSID, 0, 1), n.INVALID_NS, 'another host has not read it', SPEC)
        look(b)
        until_taken(of_b)
        t.status(of_b.read(NSID, 0, 1), n.OK, 'until it has', SPEC)
    with tgt.host() as late:
        t.status(late.queue().read(NSID, 0, 1), n.OK, 'a host that connects later never knew another', SPEC)


def two_steps(t, tgt):
    """The namespace is removed, then another is created."""
    with tgt.host() as host:
        conn = host.queue()
        look(host)
        until_taken(conn)
        former = present(tgt, NSID)
        parked = owing(conn, NSID, 0)
        place(tgt, NSID, None)
        t.status(conn.read(NSID, 0, 1), n.INACTIVE_NS, 'removed', 'Base 3.2.1.5')
        with tgt.host(hostnqn=HOST_B) as between:
            theirs = between.queue()
            swap(tgt)
            conn.answer_r2t(parked, parked.r2ts[0])
            t.ok(conn.wait(parked).status in (n.INVALID_NS, n.INACTIVE_NS), 'made again: a write of before', SPEC)
            t.status(conn.put(NSID, 0, OLD), n.INVALID_NS, 'and a new one', SPEC, dnr=1)
            t.ok(is_zero(tgt), 'neither is in the new namespace', SPEC)
            t.status(theirs.read(NSID, 0, 1), n.OK, 'a host that connected in between knew none', SPEC)
            place(tgt, NSID, former)
            t.status(conn.read(NSID, 0, 1), n.INVALID_NS, 'the first one again: it may mean either', SPEC)
            t.status(theirs.read(NSID, 0, 1), n.INVALID_NS, 'and so may the other host', SPEC)
            look(host)
            until_taken(conn)
        place(tgt, NSID, None)
        place(tgt, NSID, former)
        t.status(conn.read(NSID, 0, 1), n.OK, 'away and back is the same namespace', SPEC)


def rollback(t, tgt):
    api = restapi.Client(os.path.join(tgt.folder, 'state', 'weft.sock'))
    before = api.get('/v1/config').generation
    with tgt.host() as host:
        conn = host.queue()
        conn.put(NSID, 8, OLD)
        swap(tgt)
        look(host)
        until_taken(conn)
        parked = owing(conn, NSID, 0)
        t.eq(api.call('POST', '/v1/history/%d/rollback' % before).status, 200, 'rollback')
        conn.answer_r2t(parked, parked.r2ts[0])
        t.status(conn.wait(parked), n.INVALID_NS, 'rolled back: a write of before', SPEC)
        t.status(conn.put(NSID, 0, OLD), n.INVALID_NS, 'and a new one', SPEC)
        look(host)
        until_taken(conn)
        t.eq(bytes(conn.read(NSID, 8, 1).data), OLD, 'the first one is back, with its data', SPEC)
        t.eq(bytes(conn.read(NSID, 0, 1).data), bytes(512), 'and nothing else', SPEC)


def copy_source(t, tgt):
    with tgt.host() as host:
        conn = host.queue()
        behavior = bytearray(512)
        struct.pack_into('<H', behavior, 4, 1 << 2)
        host.admin.set_feature(CDFE, data=bytes(behavior))
        entry = struct.pack('<IIQH14x', SOURCE, 0, 0, 0)

        def copy():
            return conn.do(n.COPY, MEM, data=entry, cdw10=64, cdw12=2 << 8)
        conn.put(SOURCE, 0, OLD)
        t.status(copy(), n.OK, 'Copy from another namespace', 'NVM 3.3.2')
        swap(tgt, SOURCE)
        t.ok(copy().status in (n.INVALID_NS, NOT_READY), 'which was replaced', SPEC)
        look(host, SOURCE)
        until_taken(conn, SOURCE)
        t.status(copy(), n.OK, 'and whose identity was read', SPEC)


def at_the_medium(t, tgt):
    """A command that has begun ends in the namespace that it was sent for."""
    with tgt.host() as host:
        conn = host.queue()
        stuck = conn.rw(n.WRITE, HUNG, 0, 1, 512, OLD)
        t.status(conn.read(HUNG, 64, 1), n.OK, 'a write is with the medium', SPEC)
        mapped = owing(host.queue(2), MEM, 0, begun=1000)
        swap(tgt, HUNG)
        swap(tgt, MEM)
        t.ok(is_zero(tgt, HUNG) and is_zero(tgt, MEM), 'the namespaces that have the NSIDs now are empty', SPEC)
        conn.wait(stuck, STUCK_MS / 1000 + n.TIMEOUT_S)
        t.ok(is_zero(tgt, HUNG), 'and stay so when the write ends', SPEC)
        t.ok(not mapped.is_done, 'while memory of the former one is still owed to')


def test(t, tgt):
    for part in (one_document, two_steps, rollback, copy_source, at_the_medium):
        with t.guard(part.__name__):
            part(t, tgt)


try:
    target.run(Tap(), test, rights=target.ALL_RIGHTS, limits={'data_timeout_ms': 3600000}, namespaces=[
        file_ns(NSID), file_ns(SOURCE),
        target.namespace(HUNG, 'fault:stuck:op=write:ms=%d@mem:8M,block=512' % STUCK_MS, uuid=identity()),
        target.namespace(MEM, 'mem:8M,block=512', uuid=identity())])
finally:
    for name in os.listdir(FOLDER):
        os.unlink(os.path.join(FOLDER, name))
    os.rmdir(FOLDER)
