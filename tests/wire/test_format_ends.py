#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
A Format that erases ends when the operator removes, protects or hides its namespace, or takes the right of its
host: what was not erased by then stays, and the change is answered when the piece in flight has ended. Other
changes do not end the Format. docs/adr/0028, docs/adr/0034.
"""

import os
import tempfile
import threading
import time

import nvmetcp as n
import restapi
import target
from tap import Tap

SPEC = 'ADR 0034'
FORMAT, FLUSH, INTERRUPTED = 0x80, 0x00, (0, 0x21)
ERASE, ALL = 1 << 9, 0xffffffff
DATA, SLOW, OTHER = 1, 2, 3
PIECE, PIECES, BLOCK = 16 << 20, 4, 512
MINE = b'\xaa' * BLOCK
HANGS_MS, STUCK_MS, FOREIGN_MS, SLOW_MS, TOGETHER_MS = 600000, 1500, 6000, 200, 4000
OTHER_HOST = 'nqn.2014-08.org.example:other'
PATIENCE_S, BARRIER_END_S = 60, 9
RIGHTS = {'any': ['format']}
SUBSYSTEM = '/v1/subsystems/%s' % target.NQN
NAMESPACES = SUBSYSTEM + '/namespaces'
NS = '%s/%d' % (NAMESPACES, SLOW)
FOLDER = tempfile.mkdtemp(prefix='weft-wire-format-')
IMAGE = os.path.join(FOLDER, 'slow.img')
CHANGES = {
    'removed': ('DELETE', NS, None),
    'protected': ('PATCH', NS, {'write_protect': 'permanent'}),
    'read only': ('PATCH', NS, {'read_only': True}),
    'hidden': ('PATCH', NS, {'hosts': []}),
    'revoked': ('PATCH', SUBSYSTEM, {'rights': {'any': []}}),
}


def api(tgt):
    return restapi.Client(os.path.join(tgt.folder, 'state', 'weft.sock'))


def ask(tgt, method, path, body):
    """Sends a request and does not wait for the answer."""
    conn = restapi.Connection(os.path.join(tgt.folder, 'state', 'weft.sock'))
    conn.send(restapi.request(method, path, body))
    tgt.wait_taken(conn)
    return conn


def intact():
    """For each piece, whether its first block has what was written."""
    with open(IMAGE, 'rb') as file:
        return [os.pread(file.fileno(), BLOCK, i * PIECE) == MINE for i in range(PIECES)]


def begin(t, tgt, host, fault, nsid=SLOW):
    """Makes the namespace, fills it, and returns a Format that has erased one piece."""
    media = '%s@file:%s,size=%d,block=%d' % (fault, IMAGE, PIECES * PIECE, BLOCK)
    t.eq(api(tgt).post(NAMESPACES, {'nsid': SLOW, 'media': media}).status, 201, 'a medium that erases slowly')
    conn = host.queues[1]
    for i in range(PIECES):
        t.status(conn.put(SLOW, i * PIECE // BLOCK, MINE, BLOCK), n.OK, 'a block of piece %d' % i)
    t.status(conn.do(FLUSH, SLOW), n.OK, 'is stable')
    cmd = host.admin.submit(FORMAT, nsid, cdw10=ERASE)
    host.admin.identify(1)
    t.ok(target.poll(lambda: not intact()[0]), 'a Format has erased the first piece')
    return cmd


def end(tgt):
    api(tgt).patch(SUBSYSTEM, {'rights': RIGHTS})
    api(tgt).patch(NS, {'write_protect': 'none'})
    api(tgt).delete(NS)
    os.unlink(IMAGE)


def ends(t, tgt, what, nsid, fault, left):
    """`left`: which pieces are intact when the change is answered, and ever after."""
    method, path, body = CHANGES[what]
    with tgt.host() as host:
        host.queue()
        cmd = begin(t, tgt, host, fault, nsid)
        try:
            since = time.monotonic()
            t.eq(api(tgt).call(method, path, body).status, 200, '%s while a Format erases' % what)
            passed = time.monotonic() - since
            t.ok(passed < BARRIER_END_S, what + ': the change waits for the piece alone', SPEC, why='%.1f s' % passed)
            t.eq(intact(), left, what + ': the piece in flight has ended with the answer', SPEC)
            status = host.admin.wait(cmd, PATIENCE_S).status
            t.eq(status, INTERRUPTED, what + ': the Format ends', SPEC)
            t.eq(intact(), left, what + ': nothing more was erased', SPEC)
            t.status(host.queues[1].put(DATA, 0, MINE, BLOCK), n.OK, 'other namespaces are open', SPEC)
        finally:
            end(tgt)


def others(t, tgt):
    """Changes that forbid nothing."""
    with tgt.host() as host:
        host.queue()
        cmd = begin(t, tgt, host, 'fault:delay:op=zero:ms=%d' % SLOW_MS)
        try:
            t.eq(api(tgt).post(NAMESPACES, {'nsid': OTHER, 'media': 'mem:1M'}).status, 201, 'a namespace is added')
            t.eq(api(tgt).patch('%s/%d' % (NAMESPACES, OTHER), {'hosts': []}).status, 200, 'and hidden')
            t.eq(api(tgt).delete('%s/%d' % (NAMESPACES, OTHER)).status, 200, 'and removed')
            t.status(host.admin.wait(cmd, PATIENCE_S), n.OK, 'the Format of another one goes on', SPEC)
            t.eq(intact(), [False] * PIECES, 'and erases all', SPEC)
        finally:
            end(tgt)


def together(t, tgt):
    """
    The host of a Format has left, and the piece in flight hangs. Changes that are answered when it ends, and another
    Format among them, end together.
    """
    t.eq(api(tgt).post(NAMESPACES, {'nsid': OTHER, 'media': 'mem:1M,block=4096'}).status, 201, 'a namespace is added')
    with tgt.host() as host:
        host.queue()
        begin(t, tgt, host, 'fault:stuck:op=zero:after=1:ms=%d' % TOGETHER_MS)
    try:
        with tgt.host() as host:
            conn = host.queue()
            t.status(conn.put(OTHER, 0, MINE * 8, 8 * BLOCK), n.OK, 'with a block')
            cmd = host.admin.submit(FORMAT, OTHER, cdw10=ERASE)
            t.ok(target.poll(lambda: bytes(conn.read(OTHER, 0, 1, BLOCK).data) == bytes(BLOCK)),
                 'a Format beside one that hangs is in force')
            changes = [ask(tgt, 'PATCH', '%s/%d' % (NAMESPACES, DATA), {'label': 'l%d' % i}) for i in range(3)]
            t.status(host.admin.wait(cmd, PATIENCE_S), n.OK, 'and succeeds', SPEC)
            t.eq([change.receive().status for change in changes], [200] * 3, 'and changes behind it', SPEC)
            for change in changes:
                change.close()
        t.ok(tgt.is_running(), 'the target goes on')
    finally:
        if tgt.is_running():
            api(tgt).delete('%s/%d' % (NAMESPACES, OTHER))
            end(tgt)


def foreign(t, tgt):
    """A Format whose host has left hangs in its medium: only a change that forbids the Format waits for it."""
    with tgt.host() as host:
        host.queue()
        begin(t, tgt, host, 'fault:stuck:op=zero:after=1:ms=%d' % FOREIGN_MS)
    t.ok(target.poll(lambda: not api(tgt).get('/v1/connections').json['connections']), 'the host of a Format leaves')
    calls = []
    try:
        for what, call in (('another namespace', ('PATCH', '%s/%d' % (NAMESPACES, DATA), {'label': 'foreign'})),
                           ('the same one', ('PATCH', NS, {'label': 'foreign'})),
                           ('rights of others', ('PATCH', SUBSYSTEM, {'rights': dict(RIGHTS, **{OTHER_HOST: ['label']})}))):
            t.eq(api(tgt).call(*call).status, 200, 'a change of ' + what)
            t.eq(intact()[1], True, 'does not wait for the Format', SPEC)
        with tgt.host() as host:
            t.status(host.admin.wait(host.admin.submit(FORMAT, DATA, cdw10=ERASE), PATIENCE_S), n.OK, 'a second Format')
            t.eq(intact()[1], True, 'does not wait for the first', SPEC)
        for what in ('revoked', 'protected', 'removed'):
            call = threading.Thread(target=lambda how=what: api(tgt).call(*CHANGES[how]))
            call.start()
            applied = dict(revoked=lambda: not api(tgt).get(SUBSYSTEM).json['rights'].get('any'),
                           protected=lambda: api(tgt).get(NS).json['write_protect'] == 'permanent',
                           removed=lambda: api(tgt).get(NS).status == 404)
            t.ok(target.poll(applied[what], BARRIER_END_S), what + ': in force')
            t.eq((call.is_alive(), intact()[1]), (True, True), 'each change that forbids the Format waits', SPEC)
            calls.append(call)
        for call in calls:
            call.join()
        t.eq(intact(), [False, False, True, True], 'until the piece in flight has ended, and no more', SPEC)
        t.ok('no longer allows' not in tgt.log(), 'no change is reported as late')
    finally:
        end(tgt)


def left_at_once(t, tgt):
    """The answer to a removal waits for the piece in flight. What the removal does to files and records does not."""
    with tgt.host() as host:
        host.queue()
        cmd = begin(t, tgt, host, 'fault:stuck:op=zero:after=1:ms=%d' % STUCK_MS)
        uuid = api(tgt).get(NS).json['uuid']
        os.unlink(IMAGE)
        answers = []
        call = threading.Thread(target=lambda: answers.append(api(tgt).delete(NS + '?delete_data=true')))
        call.start()
        t.ok(target.poll(lambda: api(tgt).get(NS).status == 404, BARRIER_END_S), 'a removal that gives up the data')
        removed = [one['uuid'] for one in api(tgt).get('/v1/removed').json['removed']]
        t.ok(not answers and uuid not in removed, 'has forgotten the namespace before its answer, and before the next '
             'change', SPEC, why=(answers, removed))
        call.join()
        t.eq((answers[0].status, answers[0].json['data']), (200, 'deleted'), 'the answer')
        t.eq(host.admin.wait(cmd, PATIENCE_S).status, INTERRUPTED, 'the Format ends', SPEC)


def test(t, tgt):
    hangs, stuck = ('fault:%s:op=zero:after=1:ms=%d' % rule for rule in (('delay', HANGS_MS), ('stuck', STUCK_MS)))
    for what in CHANGES:
        with t.guard(what):
            ends(t, tgt, what, SLOW, hangs, [False, True, True, True])
            ends(t, tgt, what, SLOW, stuck, [False, False, True, True])
    with t.guard('all'):
        ends(t, tgt, 'hidden', ALL, hangs, [False, True, True, True])
    for part in (others, together, foreign, left_at_once):
        with t.guard(part.__name__):
            part(t, tgt)


try:
    target.run(Tap(), test, rights=RIGHTS, namespaces=[target.namespace(DATA, 'mem:1M,block=512')])
finally:
    for name in os.listdir(FOLDER):
        os.unlink(os.path.join(FOLDER, name))
    os.rmdir(FOLDER)
