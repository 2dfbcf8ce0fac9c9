#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
A store passes from one namespace to another in one change while the medium still has a command of the former one.
Commands of both namespaces of a file exclude each other by block, and a Format in progress keeps the file. Data that a
host still owes to memory do not arrive in the next namespace. Namespaces with other stores never exclude each other.
"""

import os
import struct
import tempfile
import uuid

import nvmetcp as n
import restapi
import target
from tap import Tap

KEEPER, FORMER, NEXT, MEM = 1, 2, 3, 4
FORMAT, FORMAT_IN_PROGRESS = 0x80, (0, 0x84)
BLOCK = 512
HELD_MS = 3000  # a write that the medium cannot give back
ERASE_MS = 4000
HOURS_MS = 3600000  # a delay that ends with its connection
ZEROES = (4 << 20) // BLOCK  # the largest Write Zeroes
SPEC, SPEC_MEM = 'ADR 0018', 'ADR 0028'


def api_of(tgt):
    return restapi.Client(os.path.join(tgt.folder, 'state', 'weft.sock'))


def hand_over(tgt, media):
    """One change: FORMER leaves, and NEXT gets its file."""
    api = api_of(tgt)
    document = api.get('/v1/config').json
    spaces = document['subsystems'][0]['namespaces']
    document['subsystems'][0]['namespaces'] = [ns for ns in spaces if ns['nsid'] == KEEPER] + [target.namespace(NEXT, media)]
    return api.put('/v1/config', document)


def set_former(t, tgt, media):
    """NEXT leaves, and FORMER gets the file."""
    api = api_of(tgt)
    document = api.get('/v1/config').json
    spaces = document['subsystems'][0]['namespaces']
    document['subsystems'][0]['namespaces'] = [ns for ns in spaces if ns['nsid'] == KEEPER] + [target.namespace(FORMER, media)]
    t.eq(api.put('/v1/config', document).status, 200, 'a namespace')


def write_held(t, tgt, plain):
    """The former namespace's write is with the medium when the file changes hands."""
    set_former(t, tgt, 'fault:stuck:op=write:count=1:ms=%d@%s' % (HELD_MS, plain))
    with tgt.host() as host:
        conn, other = host.queue(), host.queue(2)
        target.know(host, conn, FORMER)
        held = conn.rw(n.WRITE, FORMER, 8, 1, BLOCK, b'\x11' * BLOCK)
        conn.do(n.FLUSH, KEEPER)  # answered: the medium has the write
        answer = hand_over(tgt, plain)
        t.ok(answer.status == 200, 'the file passes to another namespace', SPEC, answer.json)
        t.ok(not held.is_done and not conn.is_readable(0), 'while the medium has a write of the former one', SPEC)
        target.know(host, other, NEXT)
        t.status(other.put(NEXT, 8, b'\x22' * BLOCK), n.OK, 'a write of the next one to the same block', SPEC)
        conn.wait(held, HELD_MS / 1000 + n.TIMEOUT_S)
        t.eq(bytes(other.read(NEXT, 8, 1).data), b'\x22' * BLOCK, 'is not overwritten by the late one', SPEC)


def erase_held(t, tgt, plain):
    """The former namespace's Format erases the medium when the file is to change hands."""
    set_former(t, tgt, 'fault:delay:op=zero:count=1:ms=%d@%s' % (ERASE_MS, plain))
    with tgt.host() as host:
        conn, other = host.queue(), host.queue(2)
        target.know(host, conn, FORMER)
        erase = host.admin.submit(FORMAT, nsid=FORMER, cdw10=1 << 9)
        t.ok(target.poll(lambda: conn.read(FORMER, 0, 1).status == FORMAT_IN_PROGRESS), 'a Format is in progress', SPEC)
        answer = hand_over(tgt, plain)
        t.ok(answer.status >= 400 and 'a Format of namespace' in str(answer.json) and 'try again' in str(answer.json),
             'the file cannot pass to another namespace', SPEC, answer.json)
        t.status(host.admin.wait(erase, ERASE_MS / 1000 + n.TIMEOUT_S), n.OK, 'the Format ends', SPEC)
        answer = hand_over(tgt, plain)
        t.ok(answer.status == 200, 'then the file passes', SPEC, answer.json)
        target.know(host, other, NEXT)
        t.status(other.put(NEXT, 8, b'\x33' * BLOCK), n.OK, 'a write of the next namespace', SPEC)
        t.eq(bytes(other.read(NEXT, 8, 1).data), b'\x33' * BLOCK, 'stays', SPEC)


def deallocation_held(t, tgt, plain):
    """A large deallocation of the former namespace, which does not exclude writes, is with the medium, or behind one."""
    set_former(t, tgt, 'fault:stuck:op=discard:count=1:ms=%d@%s' % (HELD_MS, plain.replace('size=8M', 'size=64M')))
    plain = plain.replace('size=8M', 'size=64M')
    ranges = struct.pack('<IIQ', 0, (64 << 20) // BLOCK, 0)
    with tgt.host() as host:
        conn, other = host.queue(), host.queue(2)
        target.know(host, conn, FORMER)
        held = [conn.submit(n.DSM, nsid=FORMER, cdw10=0, cdw11=4, data=ranges) for _ in range(2)]
        conn.do(n.FLUSH, KEEPER)
        answer = hand_over(tgt, plain)
        t.ok(answer.status >= 400 and 'a deallocation by a host of namespace' in str(answer.json) and
             'try again' in str(answer.json), 'the file cannot pass to another namespace', SPEC, answer.json)
        t.ok(not any(cmd.is_done for cmd in held) and not conn.is_readable(0), 'while the medium has a large deallocation', SPEC)
        t.status(conn.put(FORMER, 8, b'\x11' * BLOCK), n.OK, 'the former one has its medium', SPEC)
        for cmd in held:
            t.status(conn.wait(cmd, HELD_MS / 1000 + n.TIMEOUT_S), n.OK, 'a deallocation ends', SPEC)
        answer = hand_over(tgt, plain)
        t.ok(answer.status == 200, 'then the file passes', SPEC, answer.json)
        target.know(host, other, NEXT)
        t.status(other.put(NEXT, 8, b'\x33' * BLOCK), n.OK, 'a write of the next namespace', SPEC)
        t.eq(bytes(other.read(NEXT, 8, 1).data), b'\x33' * BLOCK, 'stays', SPEC)
        t.status(other.do(n.DSM, NEXT, data=ranges, cdw11=4), n.OK, 'the next namespace can deallocate', SPEC)
        t.eq(bytes(other.read(NEXT, 8, 1).data), bytes(BLOCK), 'its blocks', SPEC)


def memory_owed(t, tgt, plain):
    """The namespace and its memory get another UUID while a host owes the data of a write."""
    api = api_of(tgt)
    document = api.get('/v1/config').json
    document['subsystems'][0]['namespaces'].append(target.namespace(MEM, 'mem:1M,block=%d' % BLOCK))
    t.eq(api.put('/v1/config', document).status, 200, 'a memory namespace')
    with tgt.host() as host:
        conn, other = host.queue(), host.queue(2)
        target.know(host, conn, MEM)
        owed = conn.rw(n.WRITE, MEM, 8, 64, BLOCK, b'\x44' * 64 * BLOCK, way='r2t', is_auto=False)
        r2t = conn.wait_r2t(owed)
        document = api.get('/v1/config').json
        ns = next(ns for ns in document['subsystems'][0]['namespaces'] if ns['nsid'] == MEM)
        ns['uuid'] = str(uuid.uuid4())
        ns.pop('nguid', None)
        t.eq(api.put('/v1/config', document).status, 200, 'the memory passes to another namespace', SPEC_MEM)
        target.know(host, other, MEM)
        t.status(other.put(MEM, 8, b'\x55' * 64 * BLOCK, way='r2t'), n.OK, 'a write of the next one', SPEC_MEM)
        conn.answer_r2t(owed, r2t)
        t.status(conn.wait(owed), n.INVALID_NS, 'a write of the former one', SPEC_MEM, dnr=1)
        t.eq(bytes(other.read(MEM, 8, 64).data), b'\x55' * 64 * BLOCK, 'writes nothing', SPEC_MEM)


def rechecked(t, tgt, plain):
    """Two namespaces were lost at the start and are back. A write held by the medium of one stops no read of the other."""
    store = plain.split(':', 1)[1].split(',')[0]
    other_store = store + '-other'
    api = api_of(tgt)
    document = api.get('/v1/config').json
    document['subsystems'][0]['namespaces'] = [ns for ns in document['subsystems'][0]['namespaces'] if ns['nsid'] == KEEPER] + [
        target.namespace(FORMER, 'fault:stuck:op=write:count=1:ms=%d@%s' % (HELD_MS, plain)),
        target.namespace(NEXT, plain.replace(store, other_store))]
    t.eq(api.put('/v1/config', document).status, 200, 'two files')
    tgt.terminate()
    tgt.wait_exit()
    for path in (store, other_store):
        os.rename(path, path + '.away')
    tgt.start()
    for path in (store, other_store):
        os.rename(path + '.away', path)
    for nsid in (FORMER, NEXT):
        answer = api.patch('/v1/subsystems/%s/namespaces/%d' % (target.NQN, nsid), {'recheck': True})
        t.ok(answer.status == 200, 'a file is back', SPEC, answer.json)
    with tgt.host() as host:
        conn, other = host.queue(), host.queue(2)
        target.know(host, other, NEXT)
        held = conn.rw(n.WRITE, FORMER, 8, 1, BLOCK, b'\x11' * BLOCK)
        conn.do(n.FLUSH, KEEPER)
        t.status(other.read(NEXT, 8, 1), n.OK, 'a read of one file', SPEC)
        t.ok(not held.is_done and not conn.is_readable(0), 'does not wait for the medium of another', SPEC)
        conn.wait(held, HELD_MS / 1000 + n.TIMEOUT_S)


def other_store(t, tgt, plain):
    """64 Write Zeroes that their medium holds, with 65536 granules. Commands of other hosts on another file go on."""
    own = plain.replace('other_store', 'own')
    api = api_of(tgt)
    document = api.get('/v1/config').json
    document['subsystems'][0]['namespaces'] = [ns for ns in document['subsystems'][0]['namespaces'] if ns['nsid'] == KEEPER] + [
        target.namespace(FORMER, 'fault:delay:op=zero:ms=%d@%s' % (HOURS_MS, plain.replace('size=8M', 'size=256M'))),
        target.namespace(NEXT, own)]
    t.eq(api.put('/v1/config', document).status, 200, 'two files')
    with tgt.host() as slow, tgt.host(hostnqn='nqn.2014-08.org.example:quiet', hostid=b'q' * 16) as quiet:
        conn, other = slow.queue(), quiet.queue()
        target.know(slow, conn, FORMER)
        target.know(quiet, other, NEXT)
        held = [conn.rw(n.WRITE_ZEROES, FORMER, i * ZEROES, ZEROES, BLOCK) for i in range(64)]
        conn.do(n.FLUSH, KEEPER)  # answered: the guard or the medium has all of them
        for lba in range(0, 16384, 1024):
            t.status(other.read(NEXT, lba, 8), n.OK, 'a read of another file', SPEC)
            t.status(other.put(NEXT, lba, b'\x66' * BLOCK), n.OK, 'a write to it', SPEC)
        t.ok(not any(cmd.is_done for cmd in held) and not conn.is_readable(0), 'do not wait for this medium', SPEC)


def main():
    with tempfile.TemporaryDirectory(prefix='weft-handed-over-') as folder:
        def run(t, tgt):
            for part in (write_held, erase_held, deallocation_held, memory_owed, rechecked, other_store):
                with t.guard(part.__name__):
                    part(t, tgt, 'file:%s,size=8M,block=%d' % (os.path.join(folder, part.__name__), BLOCK))
        target.run(Tap(), run, namespaces=[target.namespace(KEEPER, 'mem:1M,block=512')], rights=target.ALL_RIGHTS)


main()
