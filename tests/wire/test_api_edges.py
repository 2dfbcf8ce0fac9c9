#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
The REST API at its edges: clients that hold all connections, sizes, the implied discovery port, long headers,
a damaged store, and errors as problem details (RFC 9457). Every answer is checked against docs/openapi.json.
"""

import os
import socket
import subprocess
import threading
import time

import restapi
import target
import threadstop
from tap import Tap
from test_api import SUB, generation, socket_of, write_token

STRANGER_S = 9
SILENT_S = 10  # HTTP_HEADER_TIMEOUT_MS in src/api/http.h


class Hoarder(threading.Thread):
    """Opens connections from one address, sends nothing, and replaces those that the target closes."""

    def __init__(self, place, source, count):
        super().__init__(daemon=True)
        self.place, self.source, self.count = place, source, count
        self.conns, self.opened = [], 0
        self.is_over = False
        self.start()

    def is_ended(self, conn):
        try:
            return conn.recv(1) == b''
        except BlockingIOError:
            return False
        except OSError:
            return True

    def run(self):
        while not self.is_over:
            self.conns = [conn for conn in self.conns if not self.is_ended(conn)]
            while len(self.conns) < self.count and not self.is_over:
                try:
                    conn = socket.create_connection(self.place, 5, (self.source, 0))
                except OSError:
                    break
                conn.setblocking(False)
                self.conns.append(conn)
                self.opened += 1
            time.sleep(0.01)  # poll for closed connections

    def end(self):
        self.is_over = True
        self.join()
        for conn in self.conns:
            conn.close()


def hoarders(t, folder, judge):
    """Connections without a token do not lock out clients with one, nor the Unix socket."""
    token = 'correct-horse-battery'
    port = target.free_port()
    tgt = target.Target(args=['--discovery', 'none', '--api-listen', '127.0.0.1:%d' % port,
                              '--api-token-file', write_token(folder, token)])
    place = ('127.0.0.1', port)
    hoard = [Hoarder(place, '127.0.0.%d' % (i + 2), 100) for i in range(2)]
    idle = []
    try:
        t.ok(target.poll(lambda: all(h.opened >= 200 for h in hoard)), 'two addresses hoard',
             why=[h.opened for h in hoard])
        api = restapi.Client(place, judge, token)
        failures = []
        for _ in range(30):
            try:
                status = api.get('/v1/state').status
            except (OSError, EOFError) as error:
                status = str(error)
            if status != 200:
                failures.append(status)
        t.eq(failures, [], 'somebody with the token gets in, 30 times')
        t.eq(restapi.Client(socket_of(tgt), judge).get('/v1/state').status, 200,
             'and so does the Unix socket')
        # The target keeps a connection that has shown the token or whose request runs.
        with restapi.Connection(place) as conn:
            for _ in range(3):
                conn.send(restapi.request('GET', '/v1/state', Authorization='Bearer ' + token))
                t.eq(conn.receive().status, 200, 'a connection with the token is kept')
                before = sum(h.opened for h in hoard)
                target.poll(lambda: sum(h.opened for h in hoard) > before + 100)
        def stranger_s():
            started = time.monotonic()
            with restapi.Connection(place) as stranger:
                t.ok(stranger.is_ended(), 'a connection that shows no token ends')
                return time.monotonic() - started
        times = target.least(stranger_s, STRANGER_S, 3)
        t.ok(min(times) <= STRANGER_S, 'and soon', why=times)
        idle = [restapi.Connection(socket_of(tgt)) for _ in range(100)]
        t.eq(restapi.Client(socket_of(tgt), judge).get('/v1/state').status, 200,
             'idle connections to the Unix socket keep nobody out')
    finally:
        for h in hoard:
            h.end()
        for conn in idle:
            conn.close()
        tgt.finish(t)


def sizes(t, api):
    """Sizes in decimal and binary units, and sizes that are not a multiple of the block size."""
    path = SUB + '/namespaces/90'
    answer = api.post(SUB + '/namespaces', {'nsid': 90, 'media': 'null:1M', 'size': '2GB'})
    t.eq((answer.status, answer.json.get('notes')),
         (201, ['the size was rounded up to whole blocks: 2000003072 bytes']), '2GB is 10^9 bytes')
    t.eq(api.get(path).json['media'], 'null:2000003072', 'it is in the document')
    for size in ('2000003072', 2000003072, '2000003072B', '2GB'):
        before = generation(api)
        answer = api.patch(path, {'size': size})
        t.eq((answer.status, answer.json['diff'], generation(api)), (200, [], before),
             'the size that it has: nothing differs, no generation: %s' % size)
        t.eq(answer.json.get('notes', []),
             ['the size was rounded up to whole blocks: 2000003072 bytes'] if size == '2GB' else [],
             'a note only where it was rounded: %s' % size)
    t.eq(api.patch(path, {'size': '3GiB'}).json['diff'],
         ['~ namespace %s/90: size 1.8 GiB -> 3 GiB' % target.NQN], 'GiB are powers of 1024')
    before = generation(api)
    t.eq((api.patch(path, {'size': '3072M'}).json['diff'], generation(api)), ([], before),
         'the same size in other words')
    for media in ('file:/nowhere,size=4000000512', 'null:4000000001'):
        answer = api.post(SUB + '/namespaces', {'nsid': 91, 'media': media})
        t.ok(answer.status == 400 and 'multiple of the block size 4096' in answer.json['detail'],
             'no whole number of blocks is refused: ' + media, why=answer.json)
    # The largest offset of a file is 2^63 - 1: these sizes, rounded up, reach or exceed it.
    for size in ('GB', 0, -4096, (1 << 63) - 1, (1 << 63) - 4096, '8388608T', '%d' % ((1 << 64) - 1)):
        answer = api.patch(path, {'size': size})
        t.ok(answer.status == 400 and answer.json['detail'].startswith('size: must be a number of bytes'),
             'no size: %s' % size, why='%d %r' % (answer.status, answer.json))
    api.delete(path)


def implied_port(t, judge):
    """The API shows the implied discovery port like any other port."""
    tgt = target.Target(args=['--discovery', '127.0.0.1:%d' % target.free_port()])
    api = restapi.Client(socket_of(tgt), judge)
    ports = api.get('/v1/ports').json['ports']
    t.eq([port['implied'] for port in ports], [False, True], 'two ports')
    for port in ports:
        t.eq(api.get('/v1/ports/%d' % port['id']).status, 200, 'port %d' % port['id'])
        t.eq(len(api.get('/v1/ports/%d/ana' % port['id']).json['groups']), 0 if port['implied']
             else 1, 'its ANA groups')
    run = subprocess.run([target.weft_path(), 'ctl', '--state', os.path.join(tgt.folder, 'state'),
                          'ana', 'list'], capture_output=True, text=True, timeout=60)
    t.eq((run.returncode, run.stderr, len(run.stdout.splitlines())), (0, '', 2), 'weft ctl ana list')
    t.eq(api.violations, [], 'as described')
    tgt.finish(t)


def problems(t, api):
    """Errors are problem details (RFC 9457). A 405 has Allow and no header of other answers."""
    answer = api.get('/v1/nowhere')
    t.eq((answer.json['type'], answer.json['title'], answer.json['status']),
         ('about:blank', 'Not Found', 404), 'type, title and status', 'RFC 9457, 3.1')
    t.ok(answer.json['detail'] == answer.json['error'] == answer.json['errors'][0], 'detail')
    answer = api.call('PUT', '/v1/state')
    t.eq((answer.status, answer.header('allow'), answer.header('location')), (405, 'GET', None),
         '405 names the methods in Allow', 'RFC 9110, 15.5.6')
    t.eq(answer.json['title'], 'Method Not Allowed', 'and is a problem, too')


def long_headers(t, tgt):
    """A connection has 64 KiB for the request line, the headers and their parsed form."""
    for size, status in ((1, 200), (40 << 10, 200), (48 << 10, 200), (64 << 10, 431)):
        with restapi.Connection(socket_of(tgt)) as conn:
            conn.send(restapi.request('GET', '/v1/health', X_Pad='x' * size))
            t.eq(conn.receive().status, status, 'a header of %d bytes' % size, 'RFC 6585, 5')


def late_thread(t, tgt):
    """A request that waits for the HTTP thread, longer than a client may be silent, is answered and not cut off."""
    why = threadstop.why_not()
    if why:
        t.skip('a request waits for the HTTP thread', why)
        return
    with restapi.Connection(socket_of(tgt)) as conn, restapi.Connection(socket_of(tgt)) as silent:
        for one in (conn, silent):
            one.send(restapi.request('GET', '/v1/health'))
            one.receive()
        with threadstop.Stopped(tgt.process, threadstop.HTTP):
            conn.send(restapi.request('GET', '/v1/health'))
            t.ok(silent.is_ended(), 'a silent connection is closed after %d s' % SILENT_S)
        t.eq(conn.receive().status, 200, 'the request that waited is answered')


def damaged_store(t):
    """An unreadable state store is reported as an error of the target."""
    tgt = target.Target()
    api = restapi.Client(socket_of(tgt))
    t.eq(api.get('/v1/history').status, 200, 'the history')
    state = os.path.join(tgt.folder, 'state')
    for name in os.listdir(state):
        if name.startswith('weft.db'):
            with open(os.path.join(state, name), 'r+b') as file:
                file.write(b'\xff' * os.path.getsize(file.name))
    for path in ('/v1/history', '/v1/history/1'):
        answer = api.get(path)
        t.ok(answer.status == 500 and 'cannot be read' in answer.json['error'],
             'GET %s of a damaged store: 500' % path, why='%d %r' % (answer.status, answer.json))
    t.eq(api.violations, [], 'as described')
    tgt.terminate()
    t.eq(tgt.wait_exit(), 1, 'SIGTERM: the status says that not all was kept')
    tgt.finish(t)


def run_all(t, tgt):
    judge = restapi.Judge()
    api = restapi.Client(socket_of(tgt), judge)
    for name, rows in (('sizes', lambda: sizes(t, api)), ('problems', lambda: problems(t, api)),
                       ('implied port', lambda: implied_port(t, judge)),
                       ('long headers', lambda: long_headers(t, tgt)), ('late thread', lambda: late_thread(t, tgt)),
                       ('damaged store', lambda: damaged_store(t)),
                       ('hoarders', lambda: hoarders(t, tgt.folder, judge))):
        with t.guard(name):
            rows()
    t.eq(api.violations, [], 'every answer is as docs/openapi.json describes it')


if __name__ == '__main__':
    target.run(Tap(), run_all)
