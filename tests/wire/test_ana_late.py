#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
ANA `change` ends within ANATT, also while another change waits for a medium that opens late: the second step of a
transition, and the end of a `change` that a document has set. The waiting change is carried out afterwards, unless the
target stops. A refused change does not keep `change` from ending. NVMe Base 2.1, section 8.1.1.8; docs/adr/0028.
"""

import copy
import os
import select
import socket
import time

import nvmetcp as n
import restapi
import target
import threadstop
from tap import Tap

SPEC = 'Base 8.1.1.8'
OPTIMIZED, INACCESSIBLE, CHANGE = 1, 3, 15
FIRST, SLOW, ADDED = 1, 2, 9
ANATT_S, WRITE_MS, LATE_MS = 10, 2000, 8000
NAMESPACES = '/v1/subsystems/%s/namespaces' % target.NQN
ANA = '/v1/ports/1/ana/1'


class Asked:
    """A REST request that is on its way."""

    def __init__(self, tgt, method, path, body):
        self.conn = restapi.Connection(os.path.join(tgt.folder, 'state', 'weft.sock'))
        self.conn.send(restapi.request(method, path, body))
        tgt.wait_taken(self.conn)

    def is_answered(self):
        return bool(select.select([self.conn.sock], [], [], 0)[0])

    def answer(self):
        with self.conn:
            return self.conn.receive()


def api(tgt):
    return restapi.Client(os.path.join(tgt.folder, 'state', 'weft.sock'))


def state(host):
    return bytes(host.admin.get_log(0x0c, 4096).data)[32] & 15


def add_late(tgt, ms=LATE_MS):
    return Asked(tgt, 'POST', NAMESPACES, {'nsid': ADDED, 'media': 'fault:late:op=open:ms=%d@mem:1M' % ms})


def added(t, tgt, asked, host, what):
    t.eq(asked.answer().status, 201, what + ': the change that waited is carried out')
    t.eq(state(host), INACCESSIBLE, what + ': the state stays')
    t.eq(api(tgt).delete('%s/%d' % (NAMESPACES, ADDED)).status, 200, what + ': removed again')
    t.eq(api(tgt).put(ANA, {'state': 'optimized'}).status, 200, what + ': optimized again')


def second_step(t, tgt, host):
    conn = host.queue(1)
    write = conn.rw(n.WRITE, SLOW, 0, 1, 512, bytes(512))
    conn.do(n.FLUSH, FIRST)  # answered: the medium has the write
    move = Asked(tgt, 'PUT', ANA, {'state': 'inaccessible'})
    t.ok(target.poll(lambda: state(host) == CHANGE), 'a transition waits for a write', SPEC)
    late = add_late(tgt)
    t.status(conn.wait(write), n.OK, 'the write ends')
    t.eq(move.answer().status, 200, 'the transition is answered')
    t.ok(not late.is_answered(), 'while another change waits for its medium', SPEC)
    t.eq(state(host), INACCESSIBLE, 'and is in force', SPEC)
    t.status(conn.put(FIRST, 0, bytes(512), 512), n.ANA_INACCESSIBLE, 'for I/O too', SPEC)
    added(t, tgt, late, host, 'second step')


def refused_end(t, tgt, document):
    """A change that would end the hold, and is refused when it is applied: another program has the address of its port."""
    other = copy.deepcopy(document)
    other['ports'][0]['ana'] = []
    with socket.socket() as busy:
        busy.bind(('127.0.0.1', 0))
        busy.listen(1)
        other['ports'].append({'id': 77, 'transport': 'tcp', 'address': '127.0.0.1', 'service': str(busy.getsockname()[1])})
        t.eq(api(tgt).put('/v1/config', other).status, 409, 'a change that would end it is refused')


def hold(t, tgt, host):
    document = api(tgt).get('/v1/config').json
    document['ports'][0]['ana'] = [{'group': 1, 'state': 'change'}]
    since = time.monotonic()
    t.eq(api(tgt).put('/v1/config', document).status, 200, 'a document sets "change"')
    t.eq(state(host), CHANGE, 'it is in force', SPEC)
    refused_end(t, tgt, document)
    target.poll(lambda: time.monotonic() > since + ANATT_S - 4, ANATT_S)
    late = add_late(tgt)
    t.ok(target.poll(lambda: state(host) == INACCESSIBLE, 3 * ANATT_S), 'it ends', SPEC)
    passed = time.monotonic() - since
    t.ok(not late.is_answered(), 'while another change waits for its medium', SPEC, why='%.1f s' % passed)
    t.ok(ANATT_S - 2 < passed < ANATT_S + 1, 'within ANATT', SPEC, why='%.1f s' % passed)
    added(t, tgt, late, host, 'hold')


def stopped(t, tgt):
    """A change waits for the end of a hold, which a reactor delays, when the target is stopped."""
    why = threadstop.why_not()
    if why:
        t.skip('a change that waits for a hold when the target stops', why)
        return
    document = api(tgt).get('/v1/config').json
    document['ports'][0]['ana'] = [{'group': 1, 'state': 'change'}]
    since = time.monotonic()
    t.eq(api(tgt).put('/v1/config', document).status, 200, 'a document sets "change"')
    target.poll(lambda: time.monotonic() > since + ANATT_S - 1.7, ANATT_S)
    reactor = next(comm for comm, *_ in tgt.threads().values() if comm.startswith('weft-r'))
    with threadstop.Stopped(tgt.process, reactor):
        target.poll(lambda: time.monotonic() > since + ANATT_S + 1, ANATT_S)
        late = add_late(tgt)
        tgt.terminate()
    since = time.monotonic()
    t.eq(late.answer().status, 503, 'a change that waits for a hold is refused by a stop')
    t.eq(tgt.wait_exit(), 0, 'and the target ends')
    passed = time.monotonic() - since
    t.ok(passed < LATE_MS / 2000, 'without waiting for the medium of the change', why='%.1f s' % passed)


def test(t, tgt):
    with tgt.host() as host:
        with t.guard('second step'):
            second_step(t, tgt, host)
        with t.guard('hold'):
            hold(t, tgt, host)
    with t.guard('stopped'):
        stopped(t, tgt)


target.run(Tap(), test, namespaces=[
    target.namespace(FIRST, 'mem:1M,block=512'),
    target.namespace(SLOW, 'fault:delay:op=write:ms=%d@mem:1M,block=512' % WRITE_MS)])
