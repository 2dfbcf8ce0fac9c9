#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
A command is judged by the reservation in force when it begins, whatever it waited for: a buffer, blocks held
by another command, the other half of a fused pair, or its data across a Format or an ANA transition. Another
command keeps the commands waiting, on a medium that takes an hour. The test aborts that command after it
changed the reservation. docs/adr/0019, docs/adr/0028.
"""

import os
import struct
import tempfile
import threading

import nvmetcp as n
import restapi
import target
from tap import Tap

SPEC = 'ADR 0019'
FILE, HELD, FULL, SOURCE, MEM = 1, 2, 3, 4, 5
HOLDER, VICTIM = 'nqn.2026-11.io.weft:holder', 'nqn.2026-11.io.weft:victim'
REGISTER, ACQUIRE, RELEASE, VERIFY, COPY, FORMAT = 0x0d, 0x11, 0x15, 0x0c, 0x19, 0x80
CONFLICT, FUSED_FAIL, ABORTED = (0, 0x83), (0, 0x09), (0, 0x07)
FIRST, SECOND = 0x41, 0x42
WRITE_EXCLUSIVE, EXCLUSIVE_ACCESS = 1, 2
KEY = (7).to_bytes(8, 'little')
HOUR_MS = 3600000
OLD, NEW = b'\x11' * 4096, b'\x22' * 4096
FOLDER = tempfile.mkdtemp(prefix='weft-wire-fence-waits-')


def path(name):
    return os.path.join(FOLDER, name)


def acquire(t, conn, nsid, kind):
    t.status(conn.do(REGISTER, nsid, data=bytes(8) + KEY), n.OK, 'register', SPEC)
    t.status(conn.do(ACQUIRE, nsid, data=KEY + bytes(8), cdw10=kind << 8), n.OK, 'acquire', SPEC)


def clear(t, conn, nsid):
    t.status(conn.do(RELEASE, nsid, data=KEY, cdw10=1), n.OK, 'clear', SPEC)


def arrived(conn):
    """
    Waits for a later command on the same queue: the commands before it, with data in the capsule, now wait in
    the target.
    """
    conn.do(n.FLUSH, MEM)


def abort(host, qid, cmd):
    host.admin.wait(host.admin.submit(n.ABORT, cdw10=qid | cmd.cid << 16))


def copy(conn, nsid, dest, source_nsid, source, blocks=8):
    """Copy in format 0h within a namespace, 2h between two."""
    form = 0 if nsid == source_nsid else 2
    entry = struct.pack('<I4xQH4xH8x', 0 if form == 0 else source_nsid, source, blocks - 1, 0)
    return conn.submit(COPY, nsid, data=entry, cdw10=dest, cdw12=form << 8)


def pair(conn, nsid, lba, old, new, owes=''):
    """A fused pair. `owes`: the half that waits for data that the test sends itself."""
    def half(name):
        return {'way': 'r2t' if owes == name else 'capsule', 'is_auto': False, 'send': False}
    return (conn.rw(n.COMPARE, nsid, lba, 1, 512, old, flags=FIRST, **half('first')),
            conn.rw(n.WRITE, nsid, lba, 1, 512, new, flags=SECOND, **half('second')))


def ranges(t, holder, victim):
    """A write that takes an hour holds the blocks."""
    mine, theirs = holder.queue(1), victim.queue(1)
    mine.put(SOURCE, 0, OLD)
    slow = mine.rw(n.WRITE, HELD, 0, 16, 512, NEW * 2, way='capsule')
    arrived(mine)
    rows = [
        ('Read', theirs.rw(n.READ, HELD, 0, 8, 512)),
        ('Write', theirs.rw(n.WRITE, HELD, 0, 8, 512, NEW)),
        ('Write of a part of them', theirs.rw(n.WRITE, HELD, 12, 8, 512, NEW)),
        ('Compare', theirs.rw(n.COMPARE, HELD, 0, 8, 512, bytes(4096))),
        ('Write Zeroes', theirs.submit(n.WRITE_ZEROES, HELD, cdw10=8, cdw12=7)),
        ('Deallocate', theirs.submit(n.DSM, HELD, data=struct.pack('<IIQ', 0, 8, 8), cdw10=0, cdw11=4)),
        ('Verify', theirs.submit(VERIFY, HELD, cdw10=0, cdw12=7)),
        ('Copy to them', copy(theirs, HELD, 4, HELD, 128)),
        ('Copy from them', copy(theirs, HELD, 128, HELD, 4)),
    ]
    first, second = pair(theirs, HELD, 15, bytes(512), NEW[:512])
    theirs.send(first.wire + second.wire)
    arrived(theirs)
    t.eq([name for name, cmd in rows + [('fused', first), ('fused', second)] if cmd.is_done], [],
         'all wait for blocks that are held', SPEC)
    acquire(t, mine, HELD, EXCLUSIVE_ACCESS)
    abort(holder, 1, slow)
    t.status(mine.wait(slow), ABORTED, 'the write that held them ends', SPEC)
    for name, cmd in rows:
        t.status(theirs.wait(cmd), CONFLICT, 'a %s that waited for blocks' % name, SPEC)
    t.eq((theirs.wait(first).status, theirs.wait(second).status), (CONFLICT, FUSED_FAIL),
         'and a fused pair', SPEC)
    t.eq(bytes(mine.read(HELD, 0, 256).data), bytes(256 * 512), 'nothing was written', SPEC)
    clear(t, mine, HELD)


def copy_source(t, holder, victim):
    """A Copy from another namespace, whose reservation applies as for a Read."""
    mine, theirs = holder.queue(2), victim.queue(2)
    victim.admin.set_feature(0x16, data=bytes(4) + b'\x04'.ljust(508, b'\0'))
    slow = mine.rw(n.WRITE, SOURCE, 0, 8, 512, NEW, way='capsule')
    arrived(mine)
    cmd = copy(theirs, FILE, 256, SOURCE, 0)
    arrived(theirs)
    t.ok(not cmd.is_done, 'a Copy waits for its source', SPEC, why=str(cmd.status if cmd.is_done else ''))
    acquire(t, mine, SOURCE, EXCLUSIVE_ACCESS)
    abort(holder, 2, slow)
    t.status(mine.wait(slow), ABORTED, 'the write that held it ends', SPEC)
    t.status(theirs.wait(cmd), CONFLICT, 'a Copy that waited for its source', SPEC)
    t.eq(bytes(mine.read(FILE, 256, 8).data), bytes(4096), 'nothing was copied', SPEC)
    clear(t, mine, SOURCE)


def buffers(t, holder, victim):
    """More Reads than buffers, on a medium that takes an hour: the last ones wait for a buffer."""
    mine, theirs = holder.queue(3), victim.queue(3, sqsize=127)
    cmds = [theirs.rw(n.READ, FULL, 0, 1024, 512) for _ in range(100)]
    arrived(theirs)
    t.eq([cmd.is_done for cmd in cmds], [False] * 100, '100 large Reads wait', SPEC)
    acquire(t, mine, FULL, EXCLUSIVE_ACCESS)
    # The first Read that ends frees its buffer for the next, and so does every refused one.
    abort(victim, 3, cmds[0])
    t.status(theirs.wait(cmds[0]), ABORTED, 'one that had begun ends', SPEC)
    t.status(theirs.wait(cmds[-1]), CONFLICT, 'the last, which waited for a buffer', SPEC)
    begun = [cmd for cmd in cmds if not cmd.is_done]
    for cmd in begun:
        abort(victim, 3, cmd)
        theirs.wait(cmd)
    t.eq({cmd.status for cmd in begun}, {ABORTED}, 'others had begun, and go on', SPEC)
    rest = [cmd.status for cmd in cmds[1:] if cmd not in begun]
    t.eq(rest, [CONFLICT] * len(rest), 'all that waited are refused', SPEC)
    clear(t, mine, FULL)


def fused(t, holder, victim, nsid, qid):
    """A fused pair that waits for its second half, or for the data of one half."""
    mine, theirs = holder.queue(qid), victim.queue(qid)
    for what, owes, kind in [(what, owes, kind) for what, owes in (('its second half', ''), ('data of the first', 'first'),
                                                                  ('data of the second', 'second'))
                             for kind in (WRITE_EXCLUSIVE, EXCLUSIVE_ACCESS)]:
        first, second = pair(theirs, nsid, 512, bytes(512), NEW[:512], owes)
        late = {'first': first, 'second': second}.get(owes)
        theirs.send(first.wire + second.wire if late else first.wire)
        if late:
            theirs.wait_r2t(late)
        else:
            t.eq((theirs.is_readable(0), first.is_done), (False, False), 'the first half waits', SPEC)
        acquire(t, mine, nsid, kind)
        if late:
            theirs.answer_r2t(late, late.r2ts[0])
        else:
            theirs.send(second.wire)
        got = (theirs.wait(first).status, theirs.wait(second).status)
        # Either half may be refused first, but a Compare only with Exclusive Access.
        t.ok(got == (FUSED_FAIL, CONFLICT) or kind == EXCLUSIVE_ACCESS and got == (CONFLICT, FUSED_FAIL),
             'namespace %d, a pair that waited for %s, type %d' % (nsid, what, kind), SPEC, why=str(got))
        t.eq(bytes(mine.read(nsid, 512, 1).data), bytes(512), 'nothing was written', SPEC)
        clear(t, mine, nsid)


def owing(conn, nsid, lba):
    cmd = conn.rw(n.WRITE, nsid, lba, 8, 512, NEW, way='r2t', is_auto=False)
    conn.wait_r2t(cmd)
    return cmd


def formats(t, holder, victim):
    """A write waits for its data across a Format, with the reservation before or after the Format."""
    mine, theirs = holder.queue(5), victim.queue(5)
    for is_first in (True, False):
        cmd = owing(theirs, FILE, 1024)
        if is_first:
            acquire(t, mine, FILE, WRITE_EXCLUSIVE)
        t.status(holder.admin.do(FORMAT, FILE, cdw10=1 << 9), n.OK, 'Format', SPEC)
        if not is_first:
            acquire(t, mine, FILE, WRITE_EXCLUSIVE)
        theirs.answer_r2t(cmd, cmd.r2ts[0])
        t.status(theirs.wait(cmd), CONFLICT, 'a Write that waited across a Format %s the reservation' %
                 ('after' if is_first else 'before'), SPEC)
        t.eq(bytes(mine.read(FILE, 1024, 8).data), bytes(4096), 'nothing was written', SPEC)
        clear(t, mine, FILE)


def barrier(t, tgt, holder, victim):
    """An ANA transition waits for a command at the medium; a Write that began before waits for its data."""
    mine, theirs = holder.queue(6), victim.queue(6)
    api = restapi.Client(os.path.join(tgt.folder, 'state', 'weft.sock'))
    cmd = owing(theirs, FULL, 64)
    slow = theirs.rw(n.READ, FULL, 0, 8, 512)
    arrived(theirs)
    change = threading.Thread(target=lambda: api.put('/v1/ports/1/ana/2', {'state': 'inaccessible'}))
    change.start()
    acquire(t, mine, FULL, WRITE_EXCLUSIVE)  # through another port
    theirs.answer_r2t(cmd, cmd.r2ts[0])
    status = theirs.wait(cmd).status
    # Which status comes depends on when the transition displaces the Write.
    t.ok(status in (CONFLICT, n.ANA_INACCESSIBLE, n.ANA_TRANSITION), 'a Write beside an ANA transition', SPEC, why=str(status))
    abort(victim, 6, slow)
    theirs.wait(slow)
    change.join()
    restapi.Client(os.path.join(tgt.folder, 'state', 'weft.sock')).put('/v1/ports/1/ana/2', {'state': 'optimized'})
    clear(t, mine, FULL)
    t.eq(api.violations, [], 'every answer is as docs/openapi.json describes it')


def test(t, tgt):
    other = ('127.0.0.3', target.free_port('127.0.0.3'))
    tgt.reload(lambda config: config['ports'].append({'id': 2, 'address': other[0], 'service': str(other[1])}))
    holder = n.Host(other, target.NQN, hostnqn=HOLDER, hostid=b'\x01' * 16)
    victim = tgt.host(hostnqn=VICTIM, hostid=b'\x02' * 16)
    for name, part in (('ranges', lambda: ranges(t, holder, victim)),
                       ('copy', lambda: copy_source(t, holder, victim)),
                       ('buffers', lambda: buffers(t, holder, victim)),
                       ('fused', lambda: fused(t, holder, victim, FILE, 4)),
                       ('fused memory', lambda: fused(t, holder, victim, MEM, 7)),
                       ('formats', lambda: formats(t, holder, victim)),
                       ('barrier', lambda: barrier(t, tgt, holder, victim))):
        with t.guard(name):
            part()
    holder.close()
    victim.close()


def file_ns(nsid, name, fault='', **more):
    return target.namespace(nsid, '%sfile:%s,size=8M,block=512' % (fault, path(name)), **more)


try:
    target.run(Tap(), test, limits={'data_timeout_ms': HOUR_MS}, subsystems=[
        {'nqn': target.NQN, 'serial': 'WAITS', 'allow_any_host': True, 'rights': target.ALL_RIGHTS, 'namespaces': [
            file_ns(FILE, 'file'),
            file_ns(HELD, 'held', 'fault:delay:op=write:count=1:ms=%d@' % HOUR_MS),
            file_ns(FULL, 'full', 'fault:delay:op=read:ms=%d@' % HOUR_MS, ana_group=2),
            file_ns(SOURCE, 'source', 'fault:delay:op=write:after=1:count=1:ms=%d@' % HOUR_MS),
            target.namespace(MEM, 'mem:8M,block=512')]}])
finally:
    for name in os.listdir(FOLDER):
        os.unlink(path(name))
    os.rmdir(FOLDER)
