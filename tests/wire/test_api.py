#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
The REST API of a live target, by raw HTTP: every route with good and bad requests, generations, dry runs, two
concurrent writers, hostile and slow clients, and the token over TCP. Every answer is checked against
docs/openapi.json. test_api_live.py tests what changes do to hosts.
"""

import copy
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

import restapi
import target
from tap import Tap

SUB = '/v1/subsystems/' + target.NQN
ENDING_S = 8  # less than the time that a connection has for its request
HOST = 'nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000001'
OTHER = 'nqn.2026-11.io.weft:other'


def socket_of(tgt):
    return os.path.join(tgt.folder, 'state', 'weft.sock')


def generation(api):
    return api.get('/v1/state').json['generation']


def nsids(api, sub=SUB):
    return [ns['nsid'] for ns in api.get(sub + '/namespaces').json['namespaces']]


# ---- good -----------------------------------------------------------------------------------


def reads(t, api):
    for path in ('/v1/state', '/v1/health', '/v1/config', '/v1/subsystems', SUB, SUB + '/namespaces',
                 SUB + '/namespaces/1', SUB + '/hosts', '/v1/ports', '/v1/ports/1',
                 '/v1/ports/1/ana', '/v1/connections', '/v1/peers', '/v1/reservations', '/v1/removed',
                 '/v1/openapi.json', '/v1/audit', '/v1/audit?limit=1'):
        answer = api.get(path)
        t.eq((answer.status, answer.generation), (200, generation(api)), 'GET ' + path)
    t.eq(api.get('/v1/openapi.json').json, restapi.load_document(),
         'the document that is served is the one of the sources')
    t.eq(api.get(SUB + '/namespaces/1').json['live']['size_bytes'], 8 << 20, 'live: the size')
    answer = api.call('HEAD', '/v1/state')
    t.eq((answer.status, answer.body), (200, b''), 'HEAD has no body')
    state = api.get('/v1/state').json
    t.eq((state['counts'], len(state['reactors'])),
         ({'subsystems': 1, 'namespaces': 2, 'ports': 1}, 2), 'state: counts and reactors')


def subsystems(t, api):
    before = generation(api)
    body = {'nqn': OTHER, 'serial': 'S1', 'namespaces': [{'nsid': 3, 'media': 'mem:1M'}]}
    answer = api.post('/v1/subsystems?dry_run=true', body)
    t.eq((answer.status, answer.json['applied'], len(answer.json['diff']) > 0),
         (200, False, True), 'dry run of an addition: the diff')
    t.eq((generation(api), api.get('/v1/subsystems/' + OTHER).status), (before, 404),
         'and nothing has changed')
    answer = api.post('/v1/subsystems', body)
    t.eq((answer.status, answer.header('location'), answer.json['generation']),
         (201, '/v1/subsystems/' + OTHER, before + 1), 'add a subsystem')
    t.eq(api.get(answer.header('location')).json['serial'], 'S1', 'its location leads to it')
    t.eq(api.post('/v1/subsystems', body).status, 409, 'a duplicate NQN is refused')
    answer = api.patch('/v1/subsystems/' + OTHER, {'model': 'm2'})
    t.eq((answer.status, api.get('/v1/subsystems/' + OTHER).json['model']), (200, 'm2'),
         'change a field')
    api.patch('/v1/subsystems/' + OTHER, {'model': None})
    t.eq(api.get('/v1/subsystems/' + OTHER).json['model'], 'weft', 'null: the default again')
    same = api.patch('/v1/subsystems/' + OTHER, {'model': 'weft'})
    t.eq((same.status, same.json['diff'], same.generation), (200, [], generation(api)),
         'a change that changes nothing')
    encoded = '/v1/subsystems/' + OTHER.replace(':', '%3A')
    t.eq(api.get(encoded).status, 200, 'a name that is percent-encoded')
    t.eq(api.delete('/v1/subsystems/' + OTHER).status, 200, 'remove it')
    t.eq(api.delete('/v1/subsystems/' + OTHER).status, 404, 'remove it again')
    slashed = 'nqn.2026-11.io.weft:a/b c'
    answer = api.post('/v1/subsystems', {'nqn': slashed})
    t.eq((answer.status, answer.header('location')),
         (201, '/v1/subsystems/nqn.2026-11.io.weft:a%2Fb%20c'), 'a name with a slash')
    t.eq(api.delete(answer.header('location')).status, 200, 'and removed by its location')


def names(t, api):
    head = 'nqn.2026-11.io.weft:'
    longest = head + 'x' * (223 - len(head))
    answer = api.post('/v1/subsystems', {'nqn': longest})
    t.eq(answer.status, 201, 'an NQN of 223 bytes')
    t.eq(api.delete('/v1/subsystems/' + longest).status, 200, 'removed')
    before = generation(api)
    answer = api.post('/v1/subsystems', {'nqn': longest + 'x'})
    t.eq((answer.status, '224' in answer.json['error'], generation(api)), (400, True, before),
         'an NQN of 224 bytes')
    t.eq(api.get('/v1/subsystems/' + longest + 'x').status, 404, 'in a path')
    t.eq(api.get('/v1/subsystems/' + 'x' * 5000).status, 404, 'an NQN of 5000 bytes in a path')
    t.eq(api.post('/v1/subsystems', {'nqn': 'disk'}).status, 400, 'a name that is no NQN')


def namespaces(t, api):
    answer = api.post(SUB + '/namespaces', {'media': 'mem:1M'})
    t.eq((answer.status, answer.json['nsid'], answer.header('location')),
         (201, 3, SUB + '/namespaces/3'), 'the lowest free NSID')
    t.eq(api.post(SUB + '/namespaces', {'nsid': 3, 'media': 'mem:1M'}).status, 409,
         'a duplicate NSID')
    answer = api.post(SUB + '/namespaces', {'nsid': 9, 'media': 'mem:1M', 'size': '2M'})
    t.eq((answer.status, api.get(SUB + '/namespaces/9').json['media']), (201, 'mem:2M'),
         'size is folded into the medium')
    api.patch(SUB + '/namespaces/9', {'size': 4 << 20})
    ns = api.get(SUB + '/namespaces/9').json
    t.eq((ns['media'], ns['live']['size_bytes']), ('mem:4194304', 4 << 20), 'resize')
    t.eq(api.patch(SUB + '/namespaces/9', {'size': '1M'}).status, 400, 'it does not shrink')
    answer = api.patch(SUB + '/namespaces/9?dry_run=1', {'size': '8M'})
    t.eq((answer.status, answer.json['applied'], ns['uuid']),
         (200, False, api.get(SUB + '/namespaces/9').json['uuid']), 'dry run of a resize')
    fields = {'ana_group': 7, 'label': 'a label', 'hosts': [HOST], 'hidden_from': [OTHER],
              'read_only': True, 'private': True, 'write_protect': 'protected'}
    t.eq(api.patch(SUB + '/namespaces/9', fields).status, 200, 'every field')
    ns = api.get(SUB + '/namespaces/9').json
    t.eq({key: ns[key] for key in fields}, fields, 'every field is told')
    t.ok(ns['live']['read_only'], 'and it is read only')
    clear = {'label': None, 'hosts': None, 'hidden_from': None, 'private': None,
             'write_protect': 'none', 'read_only': False}
    t.eq(api.patch(SUB + '/namespaces/9', clear).status, 200, 'fields taken back')
    ns = api.get(SUB + '/namespaces/9').json
    t.ok(not set(ns) & {'label', 'hosts', 'hidden_from'}, 'they are gone', why=ns)
    t.eq(api.patch(SUB + '/namespaces/9', {'nsid': 10}).status, 400, 'an NSID cannot change')
    for nsid in (3, 9):
        t.eq(api.delete(SUB + '/namespaces/%d' % nsid).status, 200, 'remove %d' % nsid)
    t.eq(nsids(api), [1, 2], 'what was there is there')


def files(t, api, folder):
    path = os.path.join(folder, 'disk.img')
    answer = api.post(SUB + '/namespaces', {'media': 'file:%s,block=512' % path, 'size': '1M'})
    t.eq((answer.status, os.path.getsize(path)), (201, 1 << 20), 'a namespace in a new file')
    nsid = answer.json['nsid']
    api.patch('%s/namespaces/%d' % (SUB, nsid), {'size': '3M'})
    ns = api.get('%s/namespaces/%d' % (SUB, nsid)).json
    t.eq((os.path.getsize(path), ns['media']),
         (3 << 20, 'file:%s,block=512,size=3M' % path), 'the file grows')
    before = generation(api)
    missing = api.post(SUB + '/namespaces', {'media': 'file:%s/none/x' % folder})
    t.eq((missing.status, 'none/x' in missing.json['error'], generation(api)),
         (409, True, before), 'a file that is not there: nothing has changed')
    answer = api.post(SUB + '/namespaces', {'media': 'file:%s/huge' % folder, 'size': '4000000T'})
    if answer.status == 201:
        t.skip('a file larger than the file system holds', 'this one holds it')
        api.delete(answer.header('location'))
        before += 2
    else:
        t.eq((answer.status, os.path.exists(folder + '/huge')), (507, False),
             'a file larger than the file system holds: 507, and nothing is left')
    t.eq(api.post(SUB + '/namespaces', {'media': 'file:%s' % path}).status, 400,
         'a file that is used already')
    t.eq(api.delete('%s/namespaces/%d' % (SUB, nsid)).status, 200, 'removed')
    t.ok(os.path.exists(path), 'its file stays')


def hosts(t, api):
    answer = api.post(SUB + '/hosts', {'nqn': HOST})
    t.ok(answer.status == 409 and 'weft ctl subsystem set %s --host %s' % (target.NQN, HOST)
         in answer.json['error'], 'a subsystem that allows any host: adding one is refused',
         why=answer.json)
    t.eq(api.patch(SUB, {'hosts': [HOST], 'allow_any_host': True}).status, 400, 'any, and a list')
    answer = api.patch(SUB, {'hosts': [OTHER]})
    t.eq((answer.json['diff'], api.get(SUB).json['allow_any_host']),
         (['~ subsystem %s: hosts any -> %s' % (target.NQN, OTHER)], False), 'a list restricts')
    t.eq(api.patch(SUB, {'hosts': []}).json['diff'],
         ['~ subsystem %s: hosts %s -> none' % (target.NQN, OTHER)], 'an empty list: none')
    t.eq(api.post(SUB + '/hosts', {'nqn': HOST}).status, 201, 'allow a host')
    t.eq(api.post(SUB + '/hosts', {'nqn': HOST}).status, 409, 'twice')
    t.eq(api.get(SUB + '/hosts').json,
         {'allow_any_host': False, 'hosts': [HOST], 'rights': {}}, 'it is listed')
    t.eq(api.patch(SUB, {'allow_any_host': True}).json['diff'],
         ['~ subsystem %s: hosts %s -> any (1 listed)' % (target.NQN, HOST)], 'any host again')
    t.eq(api.delete(SUB + '/hosts/' + HOST).status, 409, 'removing one would not keep it out')
    t.eq(api.patch(SUB, {'allow_any_host': False}).status, 200, 'closed again')
    t.eq(api.post(SUB + '/hosts', {'nqn': 'me'}).status, 400, 'a host that is no NQN')
    t.eq(api.post(SUB + '/hosts', {'nqn': HOST, 'key': 1}).status, 400, 'an unknown key')
    t.eq(api.delete(SUB + '/hosts/' + HOST).status, 200, 'remove it')
    t.eq(api.delete(SUB + '/hosts/' + HOST).status, 404, 'remove it again')
    t.eq(api.patch(SUB, {'hosts': None, 'allow_any_host': None}).json['diff'],
         ['~ subsystem %s: hosts none -> any' % target.NQN], 'the default again: any host')


def ports(t, api):
    number = target.free_port()
    answer = api.post('/v1/ports', {'address': '127.0.0.1', 'service': str(number)})
    t.eq((answer.status, answer.json['id']), (201, 2), 'add a port: the lowest free id')
    t.eq(api.get('/v1/ports/2').json['listening'], '127.0.0.1:%d' % number, 'it listens')
    socket.create_connection(('127.0.0.1', number), 5).close()
    t.eq(api.post('/v1/ports', {'id': 2}).status, 409, 'a duplicate id')
    with socket.socket() as taken:
        taken.bind(('127.0.0.1', 0))
        taken.listen()
        before = generation(api)
        answer = api.post('/v1/ports', {'service': str(taken.getsockname()[1])})
        t.eq((answer.status, generation(api)), (409, before), 'an address that is taken')
    t.eq(api.patch('/v1/ports/2', {'subsystems': []}).status, 200, 'offer nothing there')
    t.eq(api.get('/v1/ports/2').json['subsystems'], [], 'told')
    t.eq(api.patch('/v1/ports/2', {'id': 3}).status, 400, 'an id cannot change')
    t.eq(api.delete('/v1/ports/2').status, 200, 'remove it')
    t.eq(api.delete('/v1/ports/2').status, 404, 'remove it again')
    t.eq(api.delete('/v1/ports/1').status, 409, 'the last one stays')


def ana(t, api):
    for state in ('non-optimized', 'inaccessible', 'persistent-loss', 'change', 'optimized'):
        answer = api.put('/v1/ports/1/ana/1', {'state': state})
        groups = api.get('/v1/ports/1/ana').json['groups']
        t.eq((answer.status, groups), (200, [{'group': 1, 'state': state}]), 'ANA ' + state)
    before = generation(api)
    answer = api.put('/v1/ports/1/ana/1?dry_run=true', {'state': 'inaccessible'})
    t.eq((answer.status, len(answer.json['diff']), generation(api)), (200, 1, before),
         'dry run of a transition')
    for path, body, status in (('1/ana/1', {'state': 'best'}, 400), ('1/ana/0', {'state': 'change'}, 404),
                               ('1/ana/1025', {'state': 'inaccessible'}, 404),
                               ('7/ana/1', {'state': 'inaccessible'}, 404),
                               ('1/ana/x', {'state': 'inaccessible'}, 404),
                               ('1/ana/1', {}, 400), ('1/ana/1', {'state': 1}, 400)):
        t.eq(api.put('/v1/ports/' + path, body).status, status, 'bad: %s %s' % (path, body))
    t.eq(generation(api), before, 'nothing has changed')


def documents(t, api):
    answer = api.get('/v1/config')
    document = answer.json
    t.eq(api.put('/v1/config', document).json['diff'], [], 'what was exported can be applied')
    changed = copy.deepcopy(document)
    changed['subsystems'].append({'nqn': OTHER})
    dry = api.put('/v1/config?dry_run=true', changed)
    t.eq((dry.status, dry.json['applied'], dry.json['generation']),
         (200, False, answer.generation), 'dry run of a document')
    t.eq(api.put('/v1/config', changed, If_Match='"%d"' % answer.generation).status, 200,
         'If-Match with the generation that was read')
    stale = api.put('/v1/config', document, If_Match='"%d"' % answer.generation)
    t.eq((stale.status, api.get('/v1/subsystems/' + OTHER).status), (412, 200),
         'a stale generation: nothing is lost')
    t.eq(api.put('/v1/config', document, If_Match='*').status, 200, 'If-Match: *')
    for bad in ('x', '"0"', '0', '"1', '99999999999999999999999'):
        t.eq(api.put('/v1/config', document, If_Match=bad).status, 400, 'If-Match: ' + bad)
    before = generation(api)
    half = copy.deepcopy(document)
    half['subsystems'][0]['model'] = 'other'
    half['subsystems'].append({'nqn': OTHER, 'namespaces': [{'media': 'file:/nowhere/x'}]})
    t.eq((api.put('/v1/config', half).status, generation(api), api.get('/v1/config').json),
         (409, before, document), 'all or nothing')
    for name, body, text in (
            ('an unknown key', dict(document, colour=1), 'colour'),
            ('a wrong type', dict(document, subsystems={}), 'subsystems'),
            ('no version', {}, 'version'),
            ('a duplicate NQN', dict(document, subsystems=document['subsystems'] * 2), 'nqn')):
        answer = api.put('/v1/config', body)
        t.eq((answer.status, any(text in line for line in answer.json['errors'])), (400, True),
             'a document with ' + name)
    t.eq(generation(api), before, 'nothing has changed')


NVMETCLI = {
    'hosts': [{'nqn': HOST}],
    'ports': [{'addr': {'adrfam': 'ipv4', 'traddr': '127.0.0.1', 'treq': 'not specified',
                        'trsvcid': '0', 'trtype': 'tcp'},
               'portid': 1, 'referrals': [], 'subsystems': [OTHER]}],
    'subsystems': [{'allowed_hosts': [HOST],
                    'attr': {'allow_any_host': '0', 'serial': 'abc'},
                    'namespaces': [{'device': {'path': None, 'uuid': None}, 'enable': 1, 'nsid': 5}],
                    'nqn': OTHER}],
}


def imports(t, api, folder):
    before = api.get('/v1/config')
    path = os.path.join(folder, 'kernel.img')
    with open(path, 'wb') as file:
        file.truncate(1 << 20)
    saved = copy.deepcopy(NVMETCLI)
    saved['subsystems'][0]['namespaces'][0]['device']['path'] = path
    answer = api.post('/v1/config/import', saved)
    t.eq((answer.status, answer.json['applied'], generation(api)),
         (200, False, before.generation), 'import shows the document, and changes nothing')
    sub = answer.json['config']['subsystems'][0]
    t.eq((sub['nqn'], sub['namespaces'][0]['nsid']), (OTHER, 5), 'what was saved is in it')
    answer = api.post('/v1/config/import?apply=true', saved)
    t.eq((answer.status, answer.json['applied'],
          [s['nqn'] for s in api.get('/v1/subsystems').json['subsystems']]),
         (200, True, [OTHER]), 'import with apply')
    t.eq(api.post('/v1/config/import', {'subsystems': 1}).status, 400, 'not a document of nvmetcli save')
    t.eq(api.put('/v1/config', before.json).status, 200, 'back again')


# ---- bad ------------------------------------------------------------------------------------


def bad_requests(t, api):
    before = generation(api)
    post = '/v1/subsystems'
    rows = [
        ('malformed JSON', post, b'{"nqn": ', {}, 400),
        ('a key twice', post, b'{"nqn": "a", "nqn": "b"}', {}, 400),
        ('not an object', post, b'[]', {}, 400),
        ('JSON of a thousand brackets', post, b'[' * 100000, {}, 400),
        ('not UTF-8', post, b'{"nqn": "\xff"}', {}, 400),
        ('no body', post, None, {}, 400),
        ('an unknown key', post, {'nqn': OTHER, 'colour': 1}, {}, 400),
        ('a wrong type', post, {'nqn': 1}, {}, 400),
        ('another media type', post, b'nqn=x', {'Content_Type': 'text/plain'}, 415),
        ('curl -d', post, b'{}', {'Content_Type': 'application/x-www-form-urlencoded'}, 415),
        ('an unknown query', post + '?now=true', {'nqn': OTHER}, {}, 400),
        ('a query without a value', post + '?dry_run', {'nqn': OTHER}, {}, 400),
        ('a query that is neither', post + '?dry_run=maybe', {'nqn': OTHER}, {}, 400),
        ('an unknown NQN', post + '/nqn.2026-11.x:y/namespaces', {'media': 'mem:1M'}, {}, 404),
        ('a bad escape', post + '/%zz/namespaces', {'media': 'mem:1M'}, {}, 404),
        ('half an escape', post + '/x%2', {'media': 'mem:1M'}, {}, 404),
        ('a 0 byte', post + '/a%00b/namespaces', {'media': 'mem:1M'}, {}, 404),
        ('no medium', SUB + '/namespaces', {'nsid': 4}, {}, 400),
        ('an unknown medium', SUB + '/namespaces', {'media': 'tape:1'}, {}, 400),
        ('a size that is none', SUB + '/namespaces', {'media': 'mem:1M', 'size': 'big'}, {}, 400),
        ('a size below 0', SUB + '/namespaces', {'media': 'mem:1M', 'size': -1}, {}, 400),
        ('a size without medium', SUB + '/namespaces', {'size': '1M'}, {}, 400),
        ('NSID 0', SUB + '/namespaces', {'nsid': 0, 'media': 'mem:1M'}, {}, 400),
        ('NSID 16385', SUB + '/namespaces', {'nsid': 16385, 'media': 'mem:1M'}, {}, 400),
        ('NSID 2^32 + 1', SUB + '/namespaces', {'nsid': 2 ** 32 + 1, 'media': 'mem:1M'}, {}, 400),
        ('NSID as text', SUB + '/namespaces', {'nsid': '4', 'media': 'mem:1M'}, {}, 400),
        ('a port number too large', '/v1/ports', {'service': '65536'}, {}, 400),
        ('port id 70000', '/v1/ports', {'id': 70000}, {}, 400),
    ]
    for name, path, body, headers, status in rows:
        answer = api.post(path, body, **headers)
        t.eq((answer.status, answer.header('content-type')), (status, 'application/problem+json'),
             name)
    for path in ('/', '/v1', '/v1/', '/v2/state', '/v1/states', '/v1/state/', '/v1//state',
                 SUB + '/namespaces/7', SUB + '/namespaces/x', SUB + '/namespaces/-1',
                 SUB + '/namespaces/4294967297', '/v1/ports/9', '/v1/ports/65537'):
        t.eq(api.get(path).status, 404, 'GET ' + path)
    for method, path, allow in (('DELETE', '/v1/state', 'GET'), ('POST', SUB, 'GET, PATCH, DELETE'),
                                ('PUT', '/v1/subsystems', 'GET, POST'),
                                ('FLY', '/v1/config', 'GET, PUT')):
        answer = api.call(method, path)
        t.eq((answer.status, answer.header('allow')), (405, allow), '%s %s' % (method, path))
    t.eq(generation(api), before, 'nothing of this has changed anything')


def bad_bodies(t, tgt, api):
    place = socket_of(tgt)
    with restapi.Connection(place) as conn:
        conn.send(restapi.request('PUT', '/v1/config', b'{', Content_Length=(16 << 20) + 1))
        t.eq(conn.receive().status, 413, 'a body of 16 MiB and a byte, by its length')
    with restapi.Connection(place) as conn:
        conn.send(restapi.request('PUT', '/v1/config', None, Transfer_Encoding='chunked'))
        chunk = b'%x\r\n' % (1 << 20) + b' ' * (1 << 20) + b'\r\n'
        for _ in range(17):
            conn.send(chunk)
        conn.send(b'0\r\n\r\n')
        t.eq(conn.receive().status, 413, 'a body of 17 MiB in chunks')
    with restapi.Connection(place) as conn:
        body = json.dumps({'nqn': OTHER}).encode()
        conn.send(restapi.request('POST', '/v1/subsystems?dry_run=true', None,
                                  Transfer_Encoding='chunked'))
        for i in range(len(body)):
            conn.send(b'1\r\n' + body[i:i + 1] + b'\r\n')
        conn.send(b'0\r\n\r\n')
        t.eq(conn.receive().status, 200, 'a body in chunks of a byte')
    with restapi.Connection(place) as conn:
        body = b' ' * ((16 << 20) - 2) + b'{}'
        conn.send(restapi.request('PUT', '/v1/config', body))
        t.eq(conn.receive().status, 400, 'a body of 16 MiB is read')


def odd_clients(t, tgt, api):
    place = socket_of(tgt)
    with restapi.Connection(place) as conn:
        conn.send(restapi.request('GET', '/v1/health') + restapi.request('GET', '/v1/nothing') +
                  restapi.request('GET', '/v1/state'))
        t.eq([conn.receive().status for _ in range(3)], [200, 404, 200],
             'three requests at once: three answers in order')
    with restapi.Connection(place) as conn:
        for byte in restapi.request('GET', '/v1/health'):
            conn.send(bytes([byte]))
        t.eq(conn.receive().status, 200, 'a request byte by byte')
        conn.send(restapi.request('GET', '/v1/health'))
        t.eq(conn.receive().status, 200, 'and another on the same connection')
    for half in (b'', b'GET /v1/st', b'GET /v1/state HTTP/1.1\r\nHost: x',
                 restapi.request('PUT', '/v1/config', b'{', Content_Length=1000)):
        restapi.Connection(place).close()
        with restapi.Connection(place) as conn:
            conn.send(half)
    t.eq(api.get('/v1/health').status, 200, 'clients that leave in the midst of it')
    with restapi.Connection(place) as conn:
        conn.send(b'\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03' * 20 + b'\r\n\r\n')
        conn.sock.shutdown(socket.SHUT_WR)
        t.ok(conn.is_ended(), 'bytes that are not HTTP: the connection ends')
    with restapi.Connection(place) as conn:
        conn.send(b'GET /v1/' + b'x' * 200000 + b' HTTP/1.1\r\n\r\n')
        t.ok(conn.is_ended(), 'a request line without end: the connection ends')
    conns = []
    for _ in range(80):
        conns.append(restapi.Connection(place))
    for conn in conns:
        conn.close()
    answer = target.poll(lambda: api.get('/v1/health').status == 200)
    t.ok(answer, 'more connections than are served at once')


def slow_clients(t, tgt):
    """The target closes connections that do not finish a request."""
    conns = [restapi.Connection(socket_of(tgt), 60) for _ in range(2)]
    started = time.monotonic()
    conns[1].send(b'GET /v1/state HTTP/1.1\r\nHost')
    ended = [conn.is_ended() for conn in conns]
    took = time.monotonic() - started
    t.eq(ended, [True, True], 'a client that says nothing, and one that stops in its header')
    t.ok(took > 5, 'after the time for a header', why='%.1f s' % took)
    for conn in conns:
        conn.close()


def writers(t, tgt, judge):
    """Two concurrent writers: by single fields, and by whole documents with If-Match."""
    failures = []

    def fields(first):
        api = restapi.Client(socket_of(tgt), judge)
        for nsid in range(first, first + 15):
            answer = api.post(SUB + '/namespaces', {'nsid': nsid, 'media': 'mem:1M'})
            if answer.status != 201:
                failures.append(answer.json)

    def whole(name):
        api = restapi.Client(socket_of(tgt), judge)
        for i in range(6):
            while True:
                read = api.get('/v1/config')
                read.json['subsystems'].append({'nqn': 'nqn.2026-11.io.weft:%s%d' % (name, i)})
                answer = api.put('/v1/config', read.json, If_Match=read.header('etag'))
                if answer.status != 412:
                    break
            if answer.status != 200:
                failures.append(answer.json)

    def race(function, args):
        threads = [threading.Thread(target=function, args=(arg,)) for arg in args]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    api = restapi.Client(socket_of(tgt), judge)
    before = api.get('/v1/config')
    race(fields, (100, 200))
    t.eq((failures, nsids(api)), ([], [1, 2] + list(range(100, 115)) + list(range(200, 215))),
         'two writers of fields: nothing is lost')
    race(whole, ('a', 'b'))
    found = [s['nqn'][-2:] for s in api.get('/v1/subsystems').json['subsystems']]
    t.eq((failures, sorted(found)[:12]),
         ([], ['a%d' % i for i in range(6)] + ['b%d' % i for i in range(6)]),
         'two writers of documents, with If-Match: nothing is lost')
    t.ok(generation(api) >= before.generation + 42, 'a generation for every change')
    t.eq(api.put('/v1/config', before.json).status, 200, 'back again')


def restart(t, tgt, api):
    api.post(SUB + '/namespaces', {'nsid': 77, 'media': 'mem:1M', 'label': 'kept'})
    before = generation(api)
    tgt.kill()
    tgt.start()
    t.eq((api.get(SUB + '/namespaces/77').json['label'], generation(api)), ('kept', before),
         'after SIGKILL what was answered is there; the stale socket is replaced')
    api.delete(SUB + '/namespaces/77')
    mode = os.stat(socket_of(tgt)).st_mode & 0o777
    t.eq(mode, 0o600, 'the socket is for its owner alone')


def ending(t, tgt):
    """Open connections do not delay the stop."""
    def once():
        conns = [restapi.Connection(socket_of(tgt)) for _ in range(3)]
        conns[1].send(b'GET /v1/sta')
        conns[2].send(restapi.request('PUT', '/v1/config', b'{', Content_Length=100))
        started = time.monotonic()
        tgt.terminate()
        code = tgt.wait_exit()
        took_s = time.monotonic() - started
        t.eq(code, 0, 'SIGTERM with open connections: status 0')
        t.ok(not os.path.exists(socket_of(tgt)), 'the socket is gone')
        for conn in conns:
            conn.close()
        tgt.start()
        return took_s
    times = target.least(once, ENDING_S, 3)
    t.ok(min(times) <= ENDING_S, 'and before they would time out', why=times)


def ending_under_load(t, tgt, judge):
    """Every request sent before the stop is answered or its connection ends; none hangs."""
    odd = []

    def hammer(number):
        api = restapi.Client(socket_of(tgt), judge)
        for i in range(100000):
            try:
                answer = api.get('/v1/connections') if number % 2 else \
                    api.patch(SUB, {'model': 'm%d-%d' % (number, i)})
            except (OSError, EOFError):
                return
            if answer.status not in (200, 503):
                odd.append(answer.json)

    before = generation(restapi.Client(socket_of(tgt), judge))
    threads = [threading.Thread(target=hammer, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    target.poll(lambda: generation(restapi.Client(socket_of(tgt), judge)) > before + 20)
    tgt.terminate()
    t.eq(tgt.wait_exit(), 0, 'SIGTERM while six clients ask and change: status 0')
    for thread in threads:
        thread.join(30)
    t.eq((odd, [thread.is_alive() for thread in threads]), ([], [False] * 6),
         'each was answered or sent away')
    tgt.start()


# ---- TCP and tokens -------------------------------------------------------------------------


def write_token(folder, text, mode=0o600):
    path = os.path.join(folder, 'token')
    with open(path, 'w') as file:
        file.write(text)
    os.chmod(path, mode)
    return path


def over_tcp(t, folder, judge):
    token = 'correct-horse-battery'
    path = write_token(folder, token + '\n')
    port = target.free_port()
    tgt = target.Target(args=['--discovery', 'none', '--api-listen', '127.0.0.1:%d' % port,
                              '--api-token-file', path])
    try:
        place = ('127.0.0.1', port)
        api = restapi.Client(place, judge, token)
        t.eq(api.get('/v1/state').status, 200, 'the right token')
        t.eq(api.patch(SUB, {'hosts': [HOST]}).status, 200, 'a change over TCP')
        for name, header in (('none', None), ('a wrong one', 'Bearer wrong-horse-battery'),
                             ('its beginning', 'Bearer ' + token[:-1]),
                             ('more than it', 'Bearer ' + token + 'x'), ('an empty one', 'Bearer '),
                             ('another scheme', 'Basic ' + token), ('no scheme', token)):
            answer = restapi.Client(place, judge).get('/v1/state', Authorization=header)
            t.eq((answer.status, answer.header('www-authenticate')),
                 (401, 'Bearer realm="weft"'), 'token: ' + name)
        answer = restapi.Client(place, judge).put('/v1/config', b'x' * 100000)
        t.eq(answer.status, 401, 'a change without a token')
        unix = restapi.Client(socket_of(tgt), judge)
        t.eq(unix.get('/v1/state').status, 200, 'the Unix socket needs none')
        t.eq(api.violations + unix.violations, [], 'as described')
    finally:
        tgt.finish(t)


def refused(name, tap, args, text, status=1, folder=None):
    """Starts a target, which must refuse its options."""
    own = folder or tempfile.mkdtemp(prefix='weft-wire-')
    run = subprocess.run([target.weft_path(), 'serve', '--ns', 'mem:1M', '--listen', '127.0.0.1:0',
                          '--discovery', 'none', '--state', os.path.join(own, 'state'),
                          '--run-for', '20s'] + args, capture_output=True, text=True, timeout=60)
    tap.ok(run.returncode == status and text in run.stderr, name,
           why='status %d\n%s' % (run.returncode, run.stderr))
    if not folder:
        shutil.rmtree(own, ignore_errors=True)


def starts(t, folder):
    listen = ['--api-listen', '127.0.0.1:0', '--api-token-file']
    for name, text, mode, why in (('empty', '', 0o600, '16'), ('too short', 'x' * 15, 0o600, '16'),
                                  ('a space in it', 'x' * 20 + ' y', 0o600, 'printable'),
                                  ('too long', 'x' * 5000, 0o600, 'more than'),
                                  ('for everybody', 'x' * 20, 0o604, 'chmod 600')):
        refused('a token file: ' + name, t, listen + [write_token(folder, text, mode)], why)
    refused('a token file that is not there', t, listen + [folder + '/none'], 'No such file')
    refused('a token file that is a folder', t, listen + [folder], 'not a regular file')
    refused('--api-listen without a token', t, listen[:2], '--api-token-file', 2)
    refused('a token without --api-listen', t, listen[2:] + ['x'], '--api-listen', 2)
    refused('--api-listen without a port', t, ['--api-listen', '127.0.0.1', '--api-token-file', 'x'],
            'ADDRESS:PORT', 2)
    plain = os.path.join(folder, 'plain')
    with open(plain, 'w') as file:
        file.write('mine')
    refused('--api-socket where a file is', t, ['--api-socket', plain], 'not a socket')
    t.eq(open(plain).read(), 'mine', 'which is left alone')
    with socket.socket(socket.AF_UNIX) as busy:
        busy.bind(os.path.join(folder, 'busy'))
        busy.listen()
        refused('--api-socket where another answers', t,
                ['--api-socket', os.path.join(folder, 'busy')], 'another process listens')
    refused('--api-socket in no folder', t, ['--api-socket', folder + '/none/sock'],
            'cannot listen')


def places(t, judge):
    deep = tempfile.mkdtemp(prefix='weft-wire-')
    folder = os.path.join(deep, 'x' * 120)
    os.mkdir(folder)
    tgt = target.Target(folder=folder)
    run = subprocess.run([target.weft_path(), 'ctl', '--state', os.path.join(folder, 'state'),
                          'status'], capture_output=True, text=True, timeout=60)
    t.eq(run.returncode, 0, 'a state folder deeper than a socket address is long')
    tgt.finish(t)
    shutil.rmtree(deep, ignore_errors=True)
    tgt = target.Target(args=['--discovery', 'none', '--api-socket', 'none'])
    t.ok(not os.path.exists(socket_of(tgt)), '--api-socket none')
    tgt.finish(t)
    deep = tempfile.mkdtemp(prefix='weft-wire-')
    place = os.path.join(deep, 'elsewhere.sock')
    tgt = target.Target(args=['--discovery', 'none', '--api-socket', place])
    t.eq(restapi.Client(place, judge).get('/v1/health').status, 200, '--api-socket PATH')
    tgt.finish(t)
    t.ok(not os.path.exists(place), 'is removed at the end')
    shutil.rmtree(deep, ignore_errors=True)


def audits(t, api):
    """Every change has an audit entry: origin, time, generation, differences."""
    before = api.get('/v1/audit').json['audit']
    now = time.time()
    api.post(SUB + '/namespaces', {'nsid': 77, 'media': 'mem:1M'})
    api.delete(SUB + '/namespaces/77')
    api.post(SUB + '/namespaces?dry_run=true', {'nsid': 77, 'media': 'mem:1M'})
    api.post(SUB + '/namespaces', {'nsid': 77, 'media': 'tape:1'})
    after = api.get('/v1/audit').json['audit']
    t.eq(len(after), min(100, len(before) + 2), 'two more: what was refused or tried is not one')
    t.eq(([entry['generation'] for entry in after[:2]], [entry['origin'] for entry in after[:2]]),
         ([generation(api), generation(api) - 1], ['rest', 'rest']), 'newest first')
    t.ok(abs(after[0]['time_s'] - now) < 60, 'with the time', why=after[0])
    t.eq([entry['diff'] for entry in after[:2]],
         [['%s namespace %s/77: mem:1M' % (sign, target.NQN)] for sign in '-+'],
         'with what differed')
    t.eq(len(api.get('/v1/audit?limit=1').json['audit']), 1, 'limit=1')
    t.eq(api.get('/v1/audit?limit=10000').status, 200, 'limit=10000')
    for limit in ('0', '10001', '-1', 'x', ''):
        t.eq(api.get('/v1/audit?limit=' + limit).status, 400, 'limit=' + limit)
    # test_history.py tests the history in detail.
    t.eq(api.get('/v1/history').json['history'][0]['diff'], after[0]['diff'], 'the same as history')
    t.eq(api.get('/v1/history/%d' % generation(api)).json['config'], api.get('/v1/config').json,
         'the generation in force is the document')
    t.eq(api.post('/v1/history/%d/rollback' % generation(api), None).json['diff'], [],
         'a rollback to it changes nothing')
    t.eq(api.get('/v1/audit?dry_run=true').status, 400, 'a key of other routes')
    t.eq(api.get('/v1/state?limit=1').status, 400, 'a route without a limit')
    t.eq(api.post('/v1/health/acknowledge', None).json, {'acknowledged': 0}, 'nothing to know of')
    t.eq(api.get('/v1/health/acknowledge').status, 405, 'GET of it')


def schema_keys(t, judge):
    """The API has the same fields as config-schema.json."""
    with open(os.path.join(restapi.DOCS, 'config-schema.json')) as file:
        defs = json.load(file)['$defs']
    schemas = judge.document['components']['schemas']
    for name, api_name in (('namespace', 'Namespace'), ('subsystem', 'Subsystem'), ('port', 'Port'),
                           ('limits', 'Limits')):
        t.eq(sorted(schemas[api_name]['properties']), sorted(defs[name]['properties']),
             'docs/openapi.json and docs/config-schema.json: the same fields of a ' + name)


def run_all(t, tgt):
    judge = restapi.Judge()
    api = restapi.Client(socket_of(tgt), judge)
    for name, rows in (('reads', lambda: reads(t, api)), ('subsystems', lambda: subsystems(t, api)),
                       ('names', lambda: names(t, api)),
                       ('namespaces', lambda: namespaces(t, api)),
                       ('files', lambda: files(t, api, tgt.folder)),
                       ('hosts', lambda: hosts(t, api)), ('ports', lambda: ports(t, api)),
                       ('ana', lambda: ana(t, api)), ('documents', lambda: documents(t, api)),
                       ('imports', lambda: imports(t, api, tgt.folder)),
                       ('bad requests', lambda: bad_requests(t, api)),
                       ('audits', lambda: audits(t, api)),
                       ('bad bodies', lambda: bad_bodies(t, tgt, api)),
                       ('odd clients', lambda: odd_clients(t, tgt, api)),
                       ('slow clients', lambda: slow_clients(t, tgt)),
                       ('writers', lambda: writers(t, tgt, judge)),
                       ('restart', lambda: restart(t, tgt, api)),
                       ('ending', lambda: ending(t, tgt)),
                       ('ending under load', lambda: ending_under_load(t, tgt, judge)),
                       ('over TCP', lambda: over_tcp(t, tgt.folder, judge)),
                       ('starts', lambda: starts(t, tgt.folder)),
                       ('places', lambda: places(t, judge)),
                       ('schema', lambda: schema_keys(t, judge))):
        with t.guard(name):
            rows()
    t.eq(api.violations, [], 'every answer is as docs/openapi.json describes it')
    called = {(method, path) for method, path, status in judge.seen if status < 300}
    # test_api_live.py and test_history.py call the operations on reservations.
    missing = [op for op in judge.operations() if op not in called and 'reservation' not in op[1] and 'removed/' not in op[1]]
    t.eq(missing, [], 'every operation of docs/openapi.json was called with success')


if __name__ == '__main__':
    target.run(Tap(), run_all)
