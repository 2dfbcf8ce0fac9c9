#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Changes beside slow hosts: Format, ANA transition, a namespace removed, hidden or protected, Preempt and
Abort. No change waits for a host that owes data, of its own or another subsystem. Data that arrives later is
judged by the configuration then in force. A hung medium fails the change, and the namespace stays as it was.
docs/adr/0028. The data time-out is an hour here: no command ends because of it.
"""

import os
import struct
import tempfile

import nvmetcp as n
import procfs
import restapi
import target
from tap import Tap

SPEC = 'ADR 0028'
NQN_A, NQN_B = 'nqn.2026-11.io.weft:a', 'nqn.2026-11.io.weft:b'
HOST_B = 'nqn.2014-08.org.example:slow'
MEM, FILE, HUNG, POOR, LONG, HALVES = 1, 2, 3, 4, 5, 6
FORMAT, FORMAT_IN_PROGRESS = 0x80, (0, 0x84)
INTERRUPTED, CONFLICT, ABORT_PREEMPT = (0, 0x21), (0, 0x83), (0, 0x1b)
REGISTER, ACQUIRE, RELEASE = 0x0d, 0x11, 0x15
HANG_MS = 30000
ERASE_MS = 7000  # longer than 5 s, after which waiting commands are displaced
BYTES = 16384
BARRIER_S = 45.0  # the barrier's 9 s, and room for a busy machine
FOLDER = tempfile.mkdtemp(prefix='weft-wire-barrier-')


def api(tgt):
    return restapi.Client(os.path.join(tgt.folder, 'state', 'weft.sock'))


def path(name):
    return os.path.join(FOLDER, name)


def owing(conn, nsid, lba, begun=0):
    """A write that has its R2T and of which `begun` bytes of data have been sent."""
    cmd = conn.rw(n.WRITE, nsid, lba, BYTES // 512, 512, b'\x55' * BYTES, way='r2t', is_auto=False)
    conn.wait_r2t(cmd)
    if begun:
        wire = conn.h2cdata(cmd.cid, cmd.r2ts[0].ttag, 0, cmd.write_data)
        conn.send(wire[:24 + begun])
        cmd.rest = wire[24 + begun:]
    return cmd


def pay(conn, cmd):
    conn.answer_r2t(cmd, cmd.r2ts[0])
    return conn.wait(cmd)


def is_open(conn, cmd):
    """Neither an answer nor the end of the connection has arrived."""
    return not cmd.is_done and not conn.is_readable(0)


def formats(t, tgt, host, conn, slow, debt):
    """Format while a host of another subsystem and the same host owe data."""
    own = owing(conn, FILE, 0)
    cmd = host.admin.do(FORMAT, nsid=FILE, cdw10=1 << 9)
    t.status(cmd, n.OK, 'Format beside a host of another subsystem that owes data', SPEC)
    t.ok(is_open(slow, debt), 'which owes it still', SPEC)
    # The write was judged again before or after the end of the Format.
    status = pay(conn, own).status
    t.ok(status in (n.OK, FORMAT_IN_PROGRESS), 'a write that began before is judged again', SPEC)
    t.eq(bytes(conn.read(FILE, 0, 1).data), b'\x55' * 512 if status == n.OK else bytes(512),
         'and wrote what it was answered', SPEC)
    own = owing(conn, FILE, 0)
    t.status(host.admin.do(FORMAT, nsid=FILE, cdw10=1 | 1 << 9), n.OK, 'Format to 4096 bytes', SPEC)
    cmd = pay(conn, own)
    t.status(cmd, n.INVALID_NS, 'a write by the former block size is refused', SPEC)
    t.eq(bytes(conn.read(FILE, 0, 1, 4096).data), bytes(4096), 'and wrote nothing', SPEC)
    t.status(host.admin.do(FORMAT, nsid=FILE, cdw10=1 << 9), n.OK, 'Format back', SPEC)


def format_mapped(t, tgt, host):
    """Data is received directly into memory media: Format closes the connection that holds the granule."""
    conn = host.queue(2)
    owing(conn, MEM, 0, begun=1000)
    cmd = host.admin.submit(FORMAT, nsid=MEM, cdw10=1 << 9)
    t.status(host.admin.wait(cmd, BARRIER_S), n.OK, 'Format of memory that a host is writing', SPEC)
    t.ok(conn.wait_closed(), 'the connection that did not go on is closed', SPEC)
    t.eq(bytes(host.queue(3).read(MEM, 0, 1).data), bytes(512), 'and its data is erased', SPEC)


def format_hung(t, tgt, host):
    """The medium does not complete a command: the Format fails, the namespace stays."""
    conn = host.queue(4)
    hung = conn.rw(n.WRITE, HUNG, 8, 1, 512, b'\x66' * 512)
    conn.do(n.FLUSH, FILE)  # answered: the medium has the write before it
    cmd = host.admin.submit(FORMAT, nsid=HUNG, cdw10=1 << 9)
    other = host.queue(5)
    refused = target.poll(lambda: other.read(HUNG, 0, 1).status == FORMAT_IN_PROGRESS)
    t.ok(refused, 'Format of a medium that hangs: in progress at first', SPEC)
    t.status(host.admin.wait(cmd, BARRIER_S), INTERRUPTED, 'it fails', SPEC)
    t.ok(not hung.is_done and not conn.is_readable(0), 'while the medium still hangs', SPEC)
    t.status(other.read(HUNG, 0, 1), n.OK, 'the namespace is there again', SPEC)
    t.status(conn.wait(hung, HANG_MS / 1000 + BARRIER_S), n.OK, 'the write ends in its time', SPEC)


def half_copied(t, tgt, conn):
    """
    The barrier cancels a Copy after half of its only piece is written. The ranges overlap: a host that concluded from
    an ANA status that nothing was done would send the Copy again, and copy what the first run has written.
    """
    data = b''.join(bytes([65 + i]) * 512 for i in range(16))
    conn.put(HALVES, 0, data)
    cmd = conn.submit(n.COPY, HALVES, data=struct.pack('<8xQHHIQ', 0, 15, 0, 0, 0), cdw10=4, cdw12=0)

    def block_of_file(number):
        with open(path('halves'), 'rb') as file:
            return file.read((number + 1) * 512)[number * 512:]
    # A read would wait for the Copy's blocks.
    t.ok(target.poll(lambda: block_of_file(4) == data[:512]), 'half of a Copy is written', SPEC)
    answer = api(tgt).put('/v1/ports/1/ana/3', {'state': 'inaccessible'})
    t.eq(answer.status, 200, 'an ANA transition', SPEC)
    t.status(conn.wait(cmd, BARRIER_S), INTERRUPTED, 'the Copy ends with a status that promises nothing', SPEC)
    api(tgt).put('/v1/ports/1/ana/3', {'state': 'optimized'})


def ana(t, tgt, conn, slow, debt):
    own = owing(conn, FILE, 64)
    answer = api(tgt).put('/v1/ports/1/ana/2', {'state': 'inaccessible'})
    t.eq(answer.status, 200, 'an ANA transition beside both', SPEC)
    t.ok(is_open(slow, debt) and is_open(conn, own), 'which owe their data still', SPEC)
    t.status(pay(conn, own), n.ANA_INACCESSIBLE, 'a write that comes after it is refused', SPEC)
    api(tgt).put('/v1/ports/1/ana/2', {'state': 'optimized'})
    t.eq(bytes(conn.read(FILE, 64, 1).data), bytes(512), 'and wrote nothing', SPEC)


def refused_meanwhile(t, tgt, host, conn):
    """
    Writes are refused for a while, while their data is awaited: the state when the data arrives decides.
    """
    moved, shut = owing(conn, FILE, 192), owing(conn, POOR, 192)
    own = owing(conn, LONG, 0)
    change_ns(tgt, POOR, read_only=True)
    t.eq(api(tgt).put('/v1/ports/1/ana/2', {'state': 'inaccessible'}).status, 200, 'an ANA state', SPEC)
    cmd = host.admin.submit(FORMAT, nsid=LONG, cdw10=1 | 1 << 9)
    t.status(host.admin.wait(cmd, BARRIER_S), n.OK, 'Format to 4096 bytes of a medium that erases slowly', SPEC)
    t.status(pay(conn, own), n.INVALID_NS, 'a write by the former block size is refused as such, not as in progress', SPEC)
    api(tgt).put('/v1/ports/1/ana/2', {'state': 'optimized'})
    change_ns(tgt, POOR, read_only=False)
    t.status(pay(conn, moved), n.OK, 'a write that an ANA state would have refused is written after it', SPEC)
    t.status(pay(conn, shut), n.OK, 'and one that a protection would have', SPEC)


def change_ns(tgt, nsid, **fields):
    def edit(config):
        for ns in config['subsystems'][0]['namespaces']:
            if ns['nsid'] == nsid:
                ns.update(fields)
    tgt.reload(edit)


def rights(t, tgt, conn):
    """A host loses a right while it owes data."""
    own = owing(conn, FILE, 128)
    change_ns(tgt, FILE, read_only=True)
    t.status(pay(conn, own), n.WRITE_PROTECTED, 'protected while its data was on the way', SPEC)
    change_ns(tgt, FILE, read_only=False)
    own = owing(conn, FILE, 128)
    change_ns(tgt, FILE, hidden_from=[n.HOST_NQN])
    t.status(pay(conn, own), n.INVALID_FIELD, 'hidden while its data was on the way', SPEC)
    change_ns(tgt, FILE, hidden_from=[])
    t.eq(bytes(conn.read(FILE, 128, 1).data), bytes(512), 'neither wrote anything', SPEC)


def label_owing(host, nsid, text):
    """Set Features of a namespace's label whose R2T has arrived and whose data has not been sent."""
    cmd = host.admin.submit(n.SET_FEATURES, nsid, data=text.ljust(256, b'\0'), way='r2t', is_auto=False, cdw10=0x1f)
    host.admin.wait_r2t(cmd)
    return cmd


def label_of(host, nsid):
    return bytes(host.admin.get_feature(0x1f, read_bytes=256, nsid=nsid).data).rstrip(b'\0')


def labels(t, tgt, host):
    """The data of a feature of a namespace comes after changes: the namespace in force then gets the label, or none."""
    cmd = label_owing(host, FILE, b'late')
    for is_read_only in (True, False):
        change_ns(tgt, FILE, read_only=is_read_only)
    t.status(pay(host.admin, cmd), n.OK, 'a label whose data comes two changes later', SPEC)
    t.eq(label_of(host, FILE), b'late', 'is set', SPEC)
    cmd = label_owing(host, FILE, b'never')
    change_ns(tgt, FILE, hidden_from=[n.HOST_NQN])
    t.status(pay(host.admin, cmd), n.INVALID_FIELD, 'a label for a namespace that is hidden meanwhile', SPEC)
    change_ns(tgt, FILE, hidden_from=[])
    t.ok(label_of(host, FILE) != b'never', 'is not set', SPEC)


def has_open(tgt, name):
    return os.path.realpath(path(name)) in procfs.open_files(tgt.process.pid)


def removal(t, tgt, host, conn, slow, debt):
    """A removed namespace's file is closed although a host of the former configuration owes data."""
    own = owing(conn, POOR, 0)
    label = label_owing(host, POOR, b'gone')
    t.ok(has_open(tgt, 'poor'), 'the file of a namespace is open', SPEC)

    def edit(config):
        spaces = config['subsystems'][0]['namespaces']
        spaces[:] = [ns for ns in spaces if ns['nsid'] != POOR]
    tgt.reload(edit)
    t.ok(target.poll(lambda: not has_open(tgt, 'poor'), BARRIER_S), 'removed: it is closed', SPEC)
    t.ok(is_open(slow, debt), 'while the neighbour still owes its data', SPEC)
    t.status(pay(conn, own), n.INVALID_FIELD, 'a write to it that comes later is refused', SPEC)
    t.status(pay(host.admin, label), n.INVALID_FIELD, 'and so is a label', SPEC)
    t.status(pay(slow, debt), n.OK, "the neighbour's own comes late and is written", SPEC)


def pay_rest(conn, cmd):
    """
    Sends the rest of a partly sent PDU, or the second half of a transfer whose first half was a whole PDU.
    """
    if hasattr(cmd, 'rest'):
        conn.send(cmd.rest)
    else:
        half = BYTES // 2
        conn.send(conn.h2cdata(cmd.cid, cmd.r2ts[0].ttag, half, cmd.write_data[half:]))
    return conn.wait(cmd)


def half_paid(conn, nsid, lba):
    """Yields writes whose first half has been sent: inside a PDU, and as a whole PDU."""
    inside, between = owing(conn, nsid, lba, begun=BYTES // 2), None
    yield 'inside a PDU', inside
    between = owing(conn, nsid, lba)
    conn.send(conn.h2cdata(between.cid, between.r2ts[0].ttag, 0, between.write_data[:BYTES // 2], False))
    conn.do(n.FLUSH, nsid)
    yield 'between two PDUs', between


def keys(own, other):
    return own.to_bytes(8, 'little') + other.to_bytes(8, 'little')


def fenced(t, tgt, conn, nsid, what, action, want):
    """
    A host that has sent half of its data is preempted: none of the rest is written after that is answered.
    """
    victim = tgt.host(NQN_A, hostnqn=HOST_B, hostid=bytes(range(16)))
    theirs = victim.queue(1)
    for where, cmd in half_paid(theirs, nsid, 0):
        with t.guard('%s %s %s' % (what, nsid, where)):
            t.status(conn.do(REGISTER, nsid, data=keys(0, 1)), n.OK, 'register', SPEC)
            other = victim.queue(2)
            t.status(other.do(REGISTER, nsid, data=keys(0, 2)), n.OK, 'register', SPEC)
            t.status(other.do(ACQUIRE, nsid, data=keys(2, 0), cdw10=3 << 8), n.OK, 'acquire', SPEC)
            took = conn.submit(ACQUIRE, nsid, data=keys(1, 2), cdw10=action | 3 << 8)
            t.status(conn.wait(took, BARRIER_S), n.OK, '%s: %s' % (what, where), SPEC)
            conn.put(nsid, 0, b'\x77' * BYTES)
            t.status(pay_rest(theirs, cmd), want, 'the rest of the data is refused', SPEC)
            t.eq(bytes(conn.read(nsid, 0, BYTES // 512).data), b'\x77' * BYTES, 'and lands nowhere', SPEC)
            t.status(theirs.read(nsid, 0, 1), n.OK, 'the connection goes on', SPEC)
            t.status(conn.do(RELEASE, nsid, data=keys(1, 0)[:8], cdw10=1), n.OK, 'clear', SPEC)
            other.close()
    victim.close()


def preemption(t, tgt, host, conn):
    """
    Preempt and Abort where no reservation refuses the victim's commands: they must end. A command that has begun
    to receive into memory media ends with its connection.
    """
    victim = tgt.host(NQN_A, hostnqn=HOST_B, hostid=bytes(range(16)))
    theirs = victim.queue(1)
    t.status(conn.do(REGISTER, MEM, data=keys(0, 1)), n.OK, 'register', SPEC)
    t.status(theirs.do(REGISTER, MEM, data=keys(0, 2)), n.OK, 'register', SPEC)
    owing(theirs, MEM, 0, begun=1000)
    cmd = conn.submit(ACQUIRE, MEM, data=keys(1, 2), cdw10=2 | 1 << 8)
    t.status(conn.wait(cmd, BARRIER_S), n.OK, 'Preempt and Abort of a host that stands still', SPEC)
    t.ok(theirs.wait_closed(), 'whose connection is closed', SPEC)
    victim.close()


def acquired(t, tgt, conn, nsid):
    """Another host acquires Exclusive Access while a write and a Compare wait for data: both are refused."""
    victim = tgt.host(NQN_A, hostnqn=HOST_B, hostid=bytes(range(16)))
    theirs = victim.queue(1)
    conn.put(nsid, 0, b'\x77' * BYTES)
    write = owing(theirs, nsid, 0)
    compare = theirs.rw(n.COMPARE, nsid, 0, BYTES // 512, 512, b'\x77' * BYTES, way='r2t', is_auto=False)
    theirs.wait_r2t(compare)
    t.status(conn.do(REGISTER, nsid, data=keys(0, 1)), n.OK, 'register', SPEC)
    t.status(conn.do(ACQUIRE, nsid, data=keys(1, 0), cdw10=2 << 8), n.OK, 'Exclusive Access', SPEC)
    t.status(pay(theirs, write), CONFLICT, 'a write that waited for its data', SPEC)
    t.status(pay(theirs, compare), CONFLICT, 'and a Compare', SPEC)
    write = owing(conn, nsid, 64)
    t.status(conn.do(RELEASE, nsid, data=keys(1, 0)[:8], cdw10=1), n.OK, 'clear', SPEC)
    t.status(pay(conn, write), n.OK, 'one of the former holder is carried out', SPEC)
    victim.close()


def mapped_rights(t, tgt, host, conn):
    """A host loses a right while its data is received directly into memory media."""
    theirs = host.queue(6)
    for what, taken, given, want in (('protected', {'read_only': True}, {'read_only': False}, n.WRITE_PROTECTED),
                                     ('hidden', {'hidden_from': [n.HOST_NQN]}, {'hidden_from': []}, n.INVALID_FIELD)):
        for where, cmd in half_paid(theirs, MEM, 0):
            change_ns(tgt, MEM, **taken)
            t.status(pay_rest(theirs, cmd), want, '%s, %s: the rest is refused' % (what, where), SPEC)
            change_ns(tgt, MEM, **given)
            t.eq(bytes(conn.read(MEM, BYTES // 1024, BYTES // 1024).data), bytes(BYTES // 2),
                 'and lands nowhere', SPEC)
            cmd = owing(theirs, MEM, 0)
            change_ns(tgt, MEM, **taken)
            change_ns(tgt, MEM, **given)
            t.status(pay(theirs, cmd), INTERRUPTED, '%s and given back: data is lost, to be sent again' % what, SPEC)
    theirs.close()


def grown(t, tgt, host, conn):
    """Growing a memory namespace does not stop a write."""
    theirs = host.queue(7)
    cmd = owing(theirs, MEM, 0, begun=1000)
    change_ns(tgt, MEM, media='mem:16M,block=512')
    t.status(pay_rest(theirs, cmd), n.OK, 'a write while its namespace grows', SPEC)
    t.eq(bytes(conn.read(MEM, 0, BYTES // 512).data), b'\x55' * BYTES, 'is whole', SPEC)
    theirs.close()


def test(t, tgt):
    host = tgt.host(NQN_A)
    conn = host.queue(1)
    neighbour = tgt.host(NQN_B, hostnqn=HOST_B)
    slow = neighbour.queue(1)
    debt = owing(slow, 1, 0)
    for name, part in (('formats', lambda: formats(t, tgt, host, conn, slow, debt)),
                       ('format_mapped', lambda: format_mapped(t, tgt, host)),
                       ('ana', lambda: ana(t, tgt, conn, slow, debt)),
                       ('refused_meanwhile', lambda: refused_meanwhile(t, tgt, host, conn)),
                       ('half_copied', lambda: half_copied(t, tgt, conn)),
                       ('rights', lambda: rights(t, tgt, conn)),
                       ('mapped_rights', lambda: mapped_rights(t, tgt, host, conn)),
                       ('labels', lambda: labels(t, tgt, host)),
                       ('grown', lambda: grown(t, tgt, host, conn)),
                       ('preempt file', lambda: fenced(t, tgt, conn, FILE, 'Preempt', 1, CONFLICT)),
                       ('preempt memory', lambda: fenced(t, tgt, conn, MEM, 'Preempt', 1, CONFLICT)),
                       ('abort file', lambda: fenced(t, tgt, conn, FILE, 'Preempt and Abort', 2, ABORT_PREEMPT)),
                       ('abort memory', lambda: fenced(t, tgt, conn, MEM, 'Preempt and Abort', 2, ABORT_PREEMPT)),
                       ('preemption', lambda: preemption(t, tgt, host, conn)),
                       ('acquired', lambda: acquired(t, tgt, conn, FILE)),
                       ('removal', lambda: removal(t, tgt, host, conn, slow, debt)),
                       ('format_hung', lambda: format_hung(t, tgt, host))):
        with t.guard(name):
            part()
    host.close()
    neighbour.close()


def file_ns(nsid, name, **more):
    return target.namespace(nsid, 'file:%s,size=8M,block=512' % path(name), **more)


try:
    target.run(Tap(), test, limits={'data_timeout_ms': 3600000}, subsystems=[
        {'nqn': NQN_A, 'serial': 'A', 'allow_any_host': True, 'rights': target.ALL_RIGHTS, 'namespaces': [
            target.namespace(MEM, 'mem:8M,block=512'), file_ns(FILE, 'file', ana_group=2),
            target.namespace(HUNG, 'fault:stuck:op=write:ms=%d@mem:8M,block=512' % HANG_MS),
            file_ns(POOR, 'poor'),
            target.namespace(LONG, 'fault:delay:op=zero:count=1:ms=%d@mem:8M,block=512' % ERASE_MS),
            target.namespace(HALVES, 'fault:split:op=write:after=1:ms=60000@file:%s,size=8M,block=512' % path('halves'), ana_group=3)]},
        {'nqn': NQN_B, 'serial': 'B', 'allow_any_host': True, 'rights': target.ALL_RIGHTS, 'namespaces': [file_ns(1, 'b')]}])
finally:
    for name in os.listdir(FOLDER):
        os.unlink(path(name))
    os.rmdir(FOLDER)
