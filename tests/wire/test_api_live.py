#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
What changes through the REST API do to connected hosts: namespaces are added, resized and removed with the
notices of NVMe Base 2.1, section 5.1.2.1, also under load; hosts, subsystems and ports are removed; ANA
groups change; reservations are shown and cleared.
"""

import os
import struct
import time

import nvmetcp as n
import restapi
import target
from tap import Tap

SUB = '/v1/subsystems/' + target.NQN
NS_NOTICE = 2 | 0x00 << 8 | 0x04 << 16
ANA_NOTICE = 2 | 0x03 << 8 | 0x0c << 16
NS_BIT, ANA_BIT = 1 << 8, 1 << 11
REGISTER, ACQUIRE = 0x0d, 0x11
NS_WRITE_PROTECTED = (0, 0x20)


def api_of(tgt, judge):
    return restapi.Client(os.path.join(tgt.folder, 'state', 'weft.sock'), judge)


def active(host):
    page = bytes(host.admin.identify(2).data)
    return [nsid for nsid in struct.unpack('<1024I', page) if nsid]


def blocks(host, nsid):
    return struct.unpack_from('<Q', bytes(host.admin.identify(0, nsid).data))[0]


def notice(host):
    """An event request that waits until a namespace changes."""
    host.admin.get_log(4, 4096)
    return host.admin.submit(n.AER)


def namespaces(t, tgt, api):
    with tgt.host() as host:
        conn = host.queue()
        host.admin.set_feature(11, NS_BIT | ANA_BIT)
        aer = notice(host)
        t.eq(api.post(SUB + '/namespaces', {'nsid': 5, 'media': 'mem:1M,block=4096'}).status, 201,
             'add a namespace')
        host.admin.wait(aer)
        t.eq((aer.status, aer.dw0), (n.OK, NS_NOTICE), 'a connected host is told', 'Base 5.1.2.1')
        t.eq((active(host), blocks(host, 5)), ([1, 2, 5], 256), 'and sees it in Identify',
             'Base 5.1.13.2.2')
        t.status(conn.put(5, 255, bytes(4096), 4096), n.OK, 'its last block can be written')
        t.status(conn.read(5, 256, 1, 4096), n.LBA_RANGE, 'and no block behind it')
        aer = notice(host)
        t.eq(api.patch(SUB + '/namespaces/5', {'size': '2M'}).status, 200, 'it grows')
        host.admin.wait(aer)
        t.eq((aer.dw0, blocks(host, 5)), (NS_NOTICE, 512), 'the host is told its new size',
             'Base 5.1.2.1')
        t.status(conn.read(5, 256, 1, 4096), n.OK, 'the block behind can be read')
        counters = api.get(SUB + '/namespaces/5').json['live']['counters']
        t.eq((counters['write_commands'], counters['bytes_written']), (1, 4096), 'counters')
        t.eq(api.patch(SUB + '/namespaces/5', {'write_protect': 'protected'}).status, 200,
             'write protection on')
        t.status(conn.put(5, 0, bytes(4096), 4096), NS_WRITE_PROTECTED, 'a write is refused',
                 'Base 8.1.16')
        api.patch(SUB + '/namespaces/5', {'write_protect': 'none'})
        t.status(conn.put(5, 0, bytes(4096), 4096), n.OK, 'and off')
        api.patch(SUB + '/namespaces/5', {'hidden_from': [n.HOST_NQN]})
        t.eq(active(host), [1, 2], 'hidden from the host')
        t.status(conn.read(5, 0, 1, 4096), n.INACTIVE_NS, 'it is not there', 'Base 3.2.1')
        api.patch(SUB + '/namespaces/5', {'hidden_from': None})
        aer = notice(host)
        t.eq(api.delete(SUB + '/namespaces/5').status, 200, 'remove it')
        host.admin.wait(aer)
        t.eq((aer.dw0, active(host)), (NS_NOTICE, [1, 2]), 'the host is told', 'Base 5.1.2.1')
        t.status(conn.read(5, 0, 1, 4096), n.INACTIVE_NS, 'and its commands end so')


def removal_under_load(t, tgt, api):
    """Commands on a removed namespace end with a status; commands on others are not delayed."""
    with tgt.host() as host:
        conn = host.queue()
        other = host.queue(2)
        media = 'fault:delay:ms=5000@mem:1M,block=4096'
        api.post(SUB + '/namespaces', {'nsid': 6, 'media': media})
        reads = [conn.rw(n.READ, 6, i, 1, 4096) for i in range(8)]
        target.poll(lambda: api.get('/v1/state').json['target']['buffers_in_use'] >= 8)
        t.eq(api.delete(SUB + '/namespaces/6').status, 200, 'removed with commands in flight')
        t.status(other.read(1, 0, 1), n.OK, 'another namespace answers meanwhile')
        while not conn.is_silent():
            conn.pump()
        t.ok(not all(cmd.is_done for cmd in reads), 'without waiting for them')
        for cmd in reads:
            conn.wait(cmd)
        t.eq([cmd.status for cmd in reads], [n.OK] * 8, 'what ran ends with its own status')
        t.status(conn.read(6, 0, 1, 4096), n.INACTIVE_NS, 'what comes later does not begin',
                 'Base 3.2.1')


def connections(t, tgt, api):
    t.ok(target.poll(lambda: api.get('/v1/connections').json['connections'] == []),
         'no host is connected')
    with tgt.host(kato_ms=30000) as host:
        host.queue()
        host.queue(2)
        ctrls = api.get('/v1/connections').json['connections']
        t.eq(len(ctrls), 1, 'a host is connected')
        ctrl = ctrls[0]
        want = (host.cntlid, 1, False, target.NQN, n.HOST_NQN, 30000, 2,
                '10111213-1415-1617-1819-1a1b1c1d1e1f', '127.0.0.1')
        got = (ctrl['cntlid'], ctrl['port'], ctrl['discovery'], ctrl['subsystem'], ctrl['host'],
               ctrl['kato_ms'], ctrl['io_queues'], ctrl['host_id'], ctrl['peer'].split(':')[0])
        t.eq(got, want, 'who, where, how')
        t.ok(0 <= ctrl['connected_s'] < 60, 'and since when', why=ctrl)
        with tgt.host(n.DISCOVERY_NQN, enable=False):
            kinds = [c['discovery'] for c in api.get('/v1/connections').json['connections']]
            t.eq(kinds, [False, True], 'a discovery controller beside it')
    many = [tgt.host() for _ in range(20)]
    ids = [c['cntlid'] for c in api.get('/v1/connections').json['connections']]
    t.ok(ids == sorted(ids) and {h.cntlid for h in many} <= set(ids), 'twenty, in order', why=ids)
    for host in many:
        host.close()


def leaving(t, tgt, api):
    """Hosts are disconnected when they lose their access, their subsystem or their port."""
    before = api.get('/v1/config').json
    with tgt.host() as host:
        t.eq(api.patch(SUB, {'allow_any_host': False}).status, 200, 'no host is allowed')
        t.ok(host.admin.wait_closed(), 'the host is disconnected')
    t.eq(api.post(SUB + '/hosts', {'nqn': n.HOST_NQN}).status, 201, 'the host is allowed')
    with tgt.host() as host:
        t.eq(api.delete(SUB + '/hosts/' + n.HOST_NQN).status, 200, 'no longer')
        t.ok(host.admin.wait_closed(), 'the host is disconnected')
    api.put('/v1/config', before)
    port = target.free_port()
    number = api.post('/v1/ports', {'service': str(port)}).json['id']
    with n.Host(('127.0.0.1', port), target.NQN) as host, tgt.host() as stays:
        t.eq(api.delete('/v1/ports/%d' % number).status, 200, 'a port goes')
        t.ok(host.admin.wait_closed(), 'its host is disconnected')
        t.status(stays.admin.identify(1), n.OK, 'another port is not disturbed')
        t.eq(api.delete(SUB).status, 200, 'the subsystem goes')
        t.ok(stays.admin.wait_closed(), 'its host is disconnected')
    t.eq(api.put('/v1/config', before).status, 200, 'back again')


def ana(t, tgt, api):
    with tgt.host() as host:
        conn = host.queue()
        host.admin.set_feature(11, ANA_BIT)
        for state, status in (('inaccessible', n.ANA_INACCESSIBLE), ('persistent-loss', n.ANA_LOSS),
                              ('change', n.ANA_TRANSITION), ('non-optimized', n.OK),
                              ('optimized', n.OK)):
            aer = host.admin.submit(n.AER)
            t.eq(api.put('/v1/ports/1/ana/1', {'state': state}).status, 200, 'ANA ' + state)
            host.admin.wait(aer)
            t.eq(aer.dw0, ANA_NOTICE, state + ': the host is told', 'Base 5.1.2.1')
            t.status(conn.read(1, 0, 1), status, state + ': a read', 'Base 8.1.1')
            host.admin.get_log(0x0c, 4096)


def reservations(t, tgt, api):
    path = SUB + '/namespaces/1/reservation'
    with tgt.host() as host:
        conn = host.queue()
        cmd = conn.do(REGISTER, 1, data=struct.pack('<QQ', 0, 0x1234), cdw10=0)
        t.status(cmd, n.OK, 'register', 'Base 7.3')
        cmd = conn.do(ACQUIRE, 1, data=struct.pack('<QQ', 0x1234, 0), cdw10=1 << 8)
        t.status(cmd, n.OK, 'acquire, write exclusive', 'Base 7.2')
        found = api.get('/v1/reservations').json['reservations']
        t.eq(len(found), 1, 'one namespace has registered hosts')
        host_id = '10111213-1415-1617-1819-1a1b1c1d1e1f'
        t.eq((found[0]['nsid'], found[0]['type'], found[0].get('holder'), found[0]['registrants']),
             (1, 'write-exclusive', host_id, [{'host_id': host_id, 'key': '0x0000000000001234'}]),
             'who holds it, and how')
        answer = api.delete(path)
        t.eq((answer.status, answer.json), (200, {'cleared': True}), 'clear it')
        t.eq(api.get('/v1/reservations').json['reservations'], [], 'nobody is registered')
        cmd = conn.do(ACQUIRE, 1, data=struct.pack('<QQ', 0x1234, 0), cdw10=1 << 8)
        t.eq(cmd.status, (0, 0x83), 'its key is gone: Reservation Conflict', 'Base 8.1.22')
    t.eq(api.delete(path).status, 200, 'clear it when there is none')
    t.eq(api.delete(SUB + '/namespaces/77/reservation').status, 404, 'of no namespace')


def health(t, tgt, api):
    t.eq(api.get('/v1/health').json, {'ok': True, 'problems': []}, 'healthy')
    api.post(SUB + '/namespaces', {'nsid': 8, 'media': 'fault:fail:op=read@mem:1M'})
    with tgt.host() as host:
        t.status(host.queue().read(8, 0, 1, 4096), n.UNRECOVERED_READ, 'a medium fails')
        answer = api.get('/v1/health')
        t.eq((answer.status, answer.json['ok'], len(answer.json['problems'])), (503, False, 1),
             'health says so')
        t.ok('namespace 8' in answer.json['problems'][0]['text'], 'and names it', why=answer.json)
        t.eq(api.post('/v1/health/acknowledge', None).json, {'acknowledged': 1}, 'acknowledge it')
        t.eq(api.get('/v1/health').json, {'ok': True, 'problems': []}, 'that ends it')
        t.eq(api.get(SUB + '/namespaces/8').json['live']['counters']['media_errors'], 1,
             'it stays counted')
        host.queue(2).read(8, 0, 1, 4096)
        answer = api.get('/v1/health')
        t.ok(answer.status == 503 and ' 1 commands failed' in answer.json['problems'][0]['text'],
             'until there is a new one', why=answer.json)
    api.delete(SUB + '/namespaces/8')
    t.eq(api.get('/v1/health').status, 200, 'without it: healthy again')


def run_all(t, tgt):
    judge = restapi.Judge()
    api = api_of(tgt, judge)
    for rows in (namespaces, removal_under_load, connections, leaving, ana, reservations, health):
        with t.guard(rows.__name__):
            rows(t, tgt, api)
    t.eq(api.violations, [], 'every answer is as docs/openapi.json describes it')
    seen = {(method, path) for method, path, status in judge.seen if status == 200}
    missing = [op for op in judge.operations() if 'reservation' in op[1] and op not in seen]
    t.eq(missing, [], 'operations on reservations were called with success')


if __name__ == '__main__':
    target.run(Tap(), run_all)
