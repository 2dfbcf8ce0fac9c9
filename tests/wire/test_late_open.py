#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Media that open late, with the rule `late` of fault media. A change waits for its media while other requests and
hosts' I/O go on, media of one change open at the same time, and no answer within 10 s refuses the change. At a start
the namespace is lost then and the others are served. A stop does not wait.
"""

import os
import subprocess
import tempfile
import time

import nvmetcp as n
import restapi
import target
from tap import Tap

FIRST, ADDED, OTHER = 1, 2, 3
BLOCK = 4096
LIMIT_S = 10.0
NAMESPACES = '/v1/subsystems/' + target.NQN + '/namespaces'
SPEC = 'ADR 0040'
STARTING = 'starting with the saved state'


def late(ms, inner='mem:1M'):
    return 'fault:late:op=open:ms=%d@%s' % (ms, inner)


def api_of(tgt):
    return restapi.Client(os.path.join(tgt.folder, 'state', 'weft.sock'))


def begin(tgt, method, path, body):
    """Sends a request and does not wait for the answer."""
    conn = restapi.Connection(os.path.join(tgt.folder, 'state', 'weft.sock'))
    conn.send(restapi.request(method, path, body))
    tgt.wait_taken(conn)
    return conn


def end(conn):
    answer = conn.receive()
    conn.close()
    return answer


def texts(answer):
    return str(answer.json)


def while_it_opens(t, tgt):
    api = api_of(tgt)
    with tgt.host() as host:
        conn = host.queue()
        begun = time.monotonic()
        change = begin(tgt, 'POST', NAMESPACES, target.namespace(ADDED, late(2000)))
        reads = gets = 0
        while time.monotonic() < begun + 1.0:
            reads += conn.read(FIRST, 0, 1, BLOCK).status == n.OK
            gets += api.get('/v1/config').status == 200
        t.ok(reads > 10 and gets == reads, 'reads of hosts and requests are answered meanwhile', SPEC, (reads, gets))
        t.eq(len(api.get('/v1/config').json['subsystems'][0]['namespaces']), 1, 'by the configuration in force')
        answer = end(change)
        t.ok(answer.status == 201 and time.monotonic() >= begun + 2.0, 'then the namespace is added', SPEC,
             (answer.status, texts(answer)))
        target.know(host, conn, ADDED, BLOCK)
        t.status(conn.put(ADDED, 1, n.pattern(BLOCK, 4), BLOCK), n.OK, 'and can be written', SPEC)
    t.eq(api.delete(NAMESPACES + '/%d' % ADDED).status, 200, 'it is removed again')


def together(t, tgt):
    api = api_of(tgt)
    document = api.get('/v1/config').json
    document['subsystems'][0]['namespaces'] += [target.namespace(nsid, late(700)) for nsid in range(10, 16)]
    begun = time.monotonic()
    answer = api.put('/v1/config', document)
    took = time.monotonic() - begun
    t.eq(answer.status, 200, 'a document with six media that open late')
    t.ok(0.7 <= took < 6 * 0.7, 'they open at the same time', SPEC, took)
    for nsid in range(10, 16):
        api.delete(NAMESPACES + '/%d' % nsid)


def refused(t, tgt):
    api = api_of(tgt)
    path = os.path.join(tgt.media, 'refused')
    before = api.get('/v1/config').generation
    answer = api.post(NAMESPACES, target.namespace(
        ADDED, 'fault:late:ms=50:errno=ENOTCONN@file:%s,size=1M' % path))
    t.ok(answer.status >= 400 and 'late: Transport endpoint is not connected' in texts(answer),
         'a medium that fails late refuses the change', SPEC, texts(answer))
    begun = time.monotonic()
    answer = api.post(NAMESPACES, target.namespace(ADDED, late(60000, 'file:%s,size=1M' % path)))
    took = time.monotonic() - begun
    t.ok(answer.status >= 400 and 'namespace %d (%s' % (ADDED, late(60000)[:20]) in texts(answer) and
         'has not opened within 10 s: check that its file or device can be reached, then try again' in texts(answer),
         'no answer has a deadline', SPEC, texts(answer))
    t.ok(LIMIT_S <= took < LIMIT_S + n.TIMEOUT_S, 'of 10 s', SPEC, took)
    # A cancelled opening ends in the turn after the answer.
    t.ok(target.poll(lambda: not os.path.exists(path)), 'no file is left')
    t.eq(api.get('/v1/config').generation, before, 'and nothing has changed')
    t.eq(api.post(NAMESPACES, target.namespace(ADDED, 'file:%s,size=1M' % path)).status, 201,
         'the same name can be used at once')
    t.eq(api.delete(NAMESPACES + '/%d' % ADDED).status, 200, 'and is removed')


def stopped(t, tgt):
    change = begin(tgt, 'POST', NAMESPACES, target.namespace(ADDED, late(60000)))
    begun = time.monotonic()
    tgt.terminate()
    answer = end(change)
    t.ok(answer.status == 503 and 'stopping' in texts(answer), 'a stop refuses the change that waits', SPEC,
         texts(answer))
    t.eq(tgt.wait_exit(), 0, 'and the target leaves')
    t.ok(time.monotonic() - begun < LIMIT_S, 'without waiting for the medium', SPEC)


def stopped_in_start(t, tgt):
    before = tgt.log().count(STARTING)
    begun = time.monotonic()
    with open(tgt.log_path, 'ab') as log:
        tgt.process = subprocess.Popen(tgt.command(), stdout=log, stderr=log)
    t.ok(target.poll(lambda: tgt.log().count(STARTING) > before), 'a start that waits for a medium')
    tgt.terminate()
    t.eq(tgt.wait_exit(), 0, 'can be stopped')
    t.ok(time.monotonic() - begun < LIMIT_S, 'without waiting for the medium', SPEC)


def starts(t, tgt):
    """The spec is given to a served namespace, whose file is open already, so that only the next start waits."""
    tgt.start()
    api = api_of(tgt)
    path = os.path.join(tgt.media, 'start')
    spec = 'file:%s,size=1M' % path
    data = n.pattern(BLOCK, 7)
    t.eq(api.post(NAMESPACES, target.namespace(OTHER, spec)).status, 201, 'a file')
    with tgt.host() as host:
        t.status(host.queue().put(OTHER, 1, data, BLOCK), n.OK, 'with data', SPEC)
    t.eq(api.patch(NAMESPACES + '/%d' % OTHER, {'media': late(60000, spec)}).status, 200, 'gets a late spec while open')
    tgt.terminate()
    t.eq(tgt.wait_exit(), 0, 'a stop')
    stopped_in_start(t, tgt)
    tgt.start()
    log = tgt.log()
    t.ok('namespace %d: %s has not opened within 10 s' % (OTHER, late(60000, spec)) in log and
         'weft ctl namespace recheck %s %d' % (target.NQN, OTHER) in log, 'the start says what it waited for', SPEC,
         log[-1500:])
    api = api_of(tgt)
    with tgt.host() as host:
        conn = host.queue()
        t.status(conn.read(FIRST, 0, 1, BLOCK), n.OK, 'the other namespace is served', SPEC)
        t.status(conn.read(OTHER, 1, 1, BLOCK), n.ANA_INACCESSIBLE, 'this one is inaccessible', SPEC)
        health = api.get('/v1/health')
        t.ok(health.status == 503 and 'has not opened within 10 s' in texts(health), 'health says so', SPEC,
             texts(health))
        t.eq(api.patch(NAMESPACES + '/%d' % OTHER, {'media': late(100, spec)}).status, 200, 'a spec that opens')
        t.ok(target.poll(lambda: bytes(conn.read(OTHER, 1, 1, BLOCK).data or b'') == data), 'brings the data back', SPEC)
    t.eq(api.violations, [], 'every answer is as docs/openapi.json describes it')


def test(t, tgt):
    while_it_opens(t, tgt)
    together(t, tgt)
    refused(t, tgt)
    stopped(t, tgt)
    starts(t, tgt)


def main():
    with tempfile.TemporaryDirectory(prefix='weft-late-') as folder:
        def run(t, tgt):
            tgt.media = folder
            test(t, tgt)
        target.run(Tap(), run, namespaces=[target.namespace(FIRST, 'mem:1M')])


main()
