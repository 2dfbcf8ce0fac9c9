#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Former generations: which are kept, their documents, and the rollback to one. A rollback is a change: it has a dry
run, an audit entry and its own generation, and is applied as a whole or not at all. Namespaces come back with
their identities and data; a rollback that cannot restore a namespace's data is refused.
"""

import os
import struct
import subprocess

import nvmetcp as n
import restapi
import target
from tap import Tap

SPEC = 'weft-ctl(1), history'
SUB = '/v1/subsystems/' + target.NQN
MIB = 1 << 20


def namespaces(api):
    return {ns['nsid']: ns for ns in api.get('/v1/config').json['subsystems'][0]['namespaces']}


def uuids_of(api):
    return {ns['nsid']: ns['uuid'] for ns in api.get(SUB + '/namespaces').json['namespaces']}


def generation(api):
    return api.get('/v1/state').json['generation']


def config(api):
    return api.get('/v1/config').json


def rollback(api, number, query='', **headers):
    return api.call('POST', '/v1/history/%d/rollback%s' % (number, query), **headers)


def refused(t, api, number, text, name):
    before = (generation(api), config(api), len(api.get('/v1/history').json['history']))
    answer = rollback(api, number)
    t.ok(answer.status == 409 and text in ' '.join(answer.json['errors']), name, SPEC,
         why='%d %s' % (answer.status, answer.json))
    t.eq((generation(api), config(api), len(api.get('/v1/history').json['history'])), before,
         name + ': nothing has changed')


def kept(t, api):
    """Every listed generation can be read as it was."""
    seen = {generation(api): config(api)}
    for i in range(40):
        t_answer = api.patch(SUB, {'model': 'model %d' % i})
        seen[t_answer.json['generation']] = config(api)
    history = api.get('/v1/history').json['history']
    newest = generation(api)
    t.eq([entry['generation'] for entry in history], list(range(newest, newest - 33, -1)),
         'the one in force and 32 former ones are kept', SPEC)
    t.eq([entry['current'] for entry in history], [True] + [False] * 32, 'the first is in force')
    t.eq(history[0]['diff'], ['~ subsystem %s: model model 38 -> model 39' % target.NQN],
         'with what the change did')
    wrong = [entry['generation'] for entry in history
             if api.get('/v1/history/%d' % entry['generation']).json['config'] !=
             seen[entry['generation']]]
    t.eq(wrong, [], 'each is as it was')
    for number in (newest - 33, newest + 1, 2 ** 62):
        t.eq(api.get('/v1/history/%d' % number).status, 404, 'one that is not kept: %d' % number)
        t.eq(rollback(api, number).status, 404, 'and no way back to it')
    for text in ('0', '-1', 'x', '99999999999999999999'):
        t.eq(api.get('/v1/history/' + text).status, 404, 'no generation: ' + text)


def back(t, api):
    """A rollback is a change."""
    first, was = generation(api), config(api)
    api.patch(SUB, {'model': 'other'})
    api.post(SUB + '/namespaces', {'nsid': 50, 'media': 'null:1M'})
    now, audits = generation(api), len(api.get('/v1/audit').json['audit'])
    tried = rollback(api, first, '?dry_run=true').json
    t.eq((tried['applied'], len(tried['diff']), generation(api), config(api) == was),
         (False, 2, now, False), 'a dry run tells and changes nothing', SPEC)
    t.eq(rollback(api, first, If_Match='"%d"' % (now - 1)).status, 412, 'a stale generation')
    answer = rollback(api, first, If_Match='"%d"' % now)
    t.eq((answer.status, answer.json['applied'], answer.json['generation'], answer.json['diff']),
         (200, True, now + 1, tried['diff']), 'it is done as it was foreseen', SPEC)
    t.eq(config(api), was, 'the document is the former one')
    entry = api.get('/v1/audit').json['audit']
    t.eq((len(entry), entry[0]['origin'], entry[0]['diff']),
         (min(audits + 1, 100), 'rest, rollback to generation %d' % first, tried['diff']),
         'the audit says who and what')
    t.eq((rollback(api, first).json['diff'], generation(api)), ([], now + 1),
         'once more: nothing differs, and no generation is made')
    t.eq(rollback(api, now).json['generation'], now + 2, 'a rollback can be taken back')
    t.eq(namespaces(api)[50]['media'], 'null:1M', 'with what it had removed')
    api.delete(SUB + '/namespaces/50')


def data(t, api, tgt):
    """A removed namespace comes back with its identity and data."""
    path = os.path.join(tgt.folder, 'back.img')
    api.post(SUB + '/namespaces', {'nsid': 60, 'media': 'file:%s,size=1M,block=512' % path})
    ns, first = namespaces(api)[60], generation(api)
    with tgt.host() as host:
        t.status(host.queue().do(1, nsid=60, data=b'kept' * 128), n.OK, 'a block is written')
    api.delete(SUB + '/namespaces/60')
    t.ok(60 not in namespaces(api), 'the namespace is removed')
    t.eq(rollback(api, first).status, 200, 'and comes back', SPEC)
    t.eq(namespaces(api)[60], ns, 'with its identities')
    with tgt.host() as host:
        cmd = host.queue().do(2, nsid=60, read_bytes=512)
        t.eq((cmd.status, bytes(cmd.data)), (n.OK, b'kept' * 128), 'and its data')
    api.delete(SUB + '/namespaces/60')
    os.truncate(path, MIB // 2)
    refused(t, api, first, 'had 1048576', 'an image that was cut')
    os.truncate(path, 2 * MIB)
    refused(t, api, first, 'shrink', 'an image that has grown')
    os.truncate(path, MIB)
    os.rename(path, path + '.away')
    refused(t, api, first, 'No such file', 'an image that is gone')
    t.ok(not os.path.exists(path), 'and none is made in its place')
    # Another namespace has a file of the same name, which does not hold the former one's data.
    api.post(SUB + '/namespaces', {'nsid': 61, 'media': 'file:%s,size=1M,block=512' % path})
    refused(t, api, first, 'has since been used by ' + namespaces(api)[61]['uuid'],
            'an image that another namespace has')
    api.delete(SUB + '/namespaces/61')
    refused(t, api, first, 'has since been used by a namespace that has been removed', 'or had in between')
    os.unlink(path)
    os.unlink(path + '.away')


REGISTER, ACQUIRE, UNCORRECTABLE = 0x0d, 0x11, 0x04
CONFLICT, UNRECOVERED = (0, 0x83), (2, 0x81)


class Fenced:
    """A namespace with a persistent reservation, a host excluded by the reservation, and a block marked bad."""

    HOLDER, OTHER = 'nqn.2026-11.io.weft:holder', 'nqn.2026-11.io.weft:other'

    def __init__(self, t, tgt, nsid):
        self.t, self.tgt, self.nsid = t, tgt, nsid
        self.connect()
        target.know(self.holder, self.conns[0], nsid)
        do = self.conns[0].do
        t.status(do(REGISTER, nsid, data=bytes(8) + b'\x02' * 8, cdw10=3 << 30), n.OK, 'register with PTPL')
        t.status(do(ACQUIRE, nsid, data=b'\x02' * 8 + bytes(8), cdw10=1 << 8), n.OK, 'acquire')
        t.status(do(UNCORRECTABLE, nsid, cdw10=8), n.OK, 'mark a block bad')
        self.is_so(True, 'at first')

    def connect(self):
        self.holder = self.tgt.host(hostnqn=self.HOLDER, hostid=b'\x02' * 16)
        self.other = self.tgt.host(hostnqn=self.OTHER, hostid=b'\x01' * 16)
        self.conns = [self.holder.queue(1), self.other.queue(1)]

    def is_so(self, is_kept, when):
        write = self.conns[1].put(self.nsid, 0, bytes(512))
        self.t.status(write, CONFLICT if is_kept else n.OK, '%s: the fenced host' % when, SPEC)
        self.t.status(self.conns[0].read(self.nsid, 8, 1), UNRECOVERED if is_kept else n.OK, '%s: the bad block' % when, SPEC)

    def close(self):
        self.holder.close()
        self.other.close()


def kept_of(api):
    return [(e['uuid'], e['path'], e['kept']) for e in api.get('/v1/removed').json['removed'] if e['kept']]


def fences(t, api, tgt):
    """Reservation and marks of a removed namespace stay until its data is given up."""
    path = os.path.join(tgt.folder, 'fenced.img')
    api.post(SUB + '/namespaces', {'nsid': 70, 'media': 'file:%s,size=1M,block=512' % path})
    ns, first, whole = namespaces(api)[70], generation(api), config(api)
    fenced = Fenced(t, tgt, 70)

    def again(media):
        answer = api.post(SUB + '/namespaces', {'nsid': 70, 'media': media, 'uuid': ns['uuid']})
        t.ok(answer.status in (200, 201), 'added', why='%d %s' % (answer.status, answer.json))

    def remove():
        t.eq(api.delete(SUB + '/namespaces/70').status, 200, 'removed')
    remove()
    t.eq(rollback(api, first).status, 200, 'rolled back')
    fenced.is_so(True, 'a rollback')
    remove()
    again(ns['media'])
    fenced.is_so(True, 'added with the same UUID and file')
    remove()
    t.eq(api.put('/v1/config', whole).status, 200, 'applied')
    fenced.is_so(True, 'a document')
    remove()
    fenced.close()
    tgt.kill()
    tgt.start()
    t.eq(rollback(api, first).status, 200, 'rolled back')
    fenced.connect()
    fenced.is_so(True, 'a kill of the target while it was away')
    # Other data.
    remove()
    t.eq(kept_of(api), [(ns['uuid'], path, ['reservation', 'bad-blocks'])], 'it is listed', SPEC)
    other = {'nsid': 70, 'media': 'file:%s,size=1M,block=512' % (path + '.other'), 'uuid': ns['uuid']}
    answer = api.post(SUB + '/namespaces', other)
    t.ok(answer.status == 409 and 'weft ctl removed drop ' + ns['uuid'] in answer.json['error'],
         'the same UUID on another file', SPEC, why=str(answer.json))
    os.rename(path, path + '.moved')
    again(ns['media'].replace(path, path + '.moved'))
    fenced.is_so(True, 'the same file under another name')
    remove()
    os.rename(path + '.moved', path)
    t.eq(api.delete('/v1/removed/' + target.NQN).status, 404, 'no such one', SPEC)
    t.eq(api.delete('/v1/removed/' + ns['uuid']).status, 200, 'dropped by the operator', SPEC)
    again(ns['media'])
    fenced.is_so(False, 'and back')
    fenced.close()
    fenced = Fenced(t, tgt, 70)
    remove()
    answer = api.post(SUB + '/namespaces', {'nsid': 71, 'media': ns['media']})
    t.ok(answer.status in (200, 201) and any(ns['uuid'] in line and 'dropped' in line for line in answer.json['diff']),
         'its file under a new UUID: what is dropped is said', SPEC, why=str(answer.json))
    t.eq(kept_of(api), [], 'is the data of another namespace', SPEC)
    api.delete(SUB + '/namespaces/71')
    fenced.close()
    os.unlink(path)


def deleted(t, api, tgt):
    """Deleting the data deletes what was kept of it: a new file under the same UUID has no reservation or mark."""
    folder = os.path.join(tgt.folder, 'pool')
    t.eq(api.patch(SUB, {'pool': {'folder': folder, 'capacity': '16M'}}).status, 200, 'a pool')
    t.eq(api.patch(SUB, {'rights': {'any': ['label', 'namespaces']}}).status, 200, 'and who may use it')

    def make():
        known = set(namespaces(api))
        with tgt.host() as host:
            t.status(host.admin.do(0x0d, data=struct.pack('<QQ', 2048, 2048).ljust(4096, b'\0'), cdw10=0), n.OK, 'a host makes one')
        return namespaces(api)[(set(namespaces(api)) - known).pop()]

    def by_operator(nsid, holder):
        answer = api.delete(SUB + '/namespaces/%d?delete_data=true' % nsid)
        t.eq((answer.status, answer.json['data']), (200, 'deleted'), 'the operator deletes it', SPEC)

    def by_host(nsid, holder):
        t.status(holder.admin.do(0x0d, nsid, cdw10=1), n.OK, 'its holder deletes it')
    for delete in (by_operator, by_host):
        ns = make()
        t.eq(api.patch(SUB + '/namespaces/%d' % ns['nsid'],
                       {'private': False, 'hosts': [n.HOST_NQN, Fenced.HOLDER, Fenced.OTHER]}).status, 200, 'for all hosts')
        fenced = Fenced(t, tgt, ns['nsid'])
        delete(ns['nsid'], fenced.holder)
        t.ok(not os.path.exists(ns['media'][5:].split(',')[0]), 'its file is gone')
        t.ok(ns['uuid'] not in [e['uuid'] for e in api.get('/v1/removed').json['removed']], 'and nothing is kept', SPEC)
        answer = api.post(SUB + '/namespaces', {'nsid': ns['nsid'], 'media': ns['media'], 'uuid': ns['uuid']})
        t.eq(answer.status, 201, 'the same UUID with a new file')
        t.eq([line for line in answer.json['diff'] if 'its reservation' in line or 'its bad blocks' in line], [],
             'nothing comes back')
        fenced.close()
        fenced.connect()
        fenced.is_so(False, 'the new file')
        t.eq(api.get('/v1/reservations').json['reservations'], [], 'no host is registered', SPEC)
        fenced.close()
        api.delete(SUB + '/namespaces/%d' % ns['nsid'])
        api.delete('/v1/removed/' + ns['uuid'])
        os.unlink(ns['media'][5:].split(',')[0])


def late(t, api, tgt):
    """
    A write that heals a bad block ends after its namespace was removed: it must not change what is kept under the
    UUID by then.
    """
    path = os.path.join(tgt.folder, 'late.img')
    plain = 'file:%s,size=1M,block=512' % path
    slow = 'fault:stuck:op=write:count=1:ms=3000@' + plain
    api.post(SUB + '/namespaces', {'nsid': 95, 'media': plain})
    uuid = namespaces(api)[95]['uuid']
    api.delete(SUB + '/namespaces/95')

    def begin():
        """Marks blocks 8 and 16; the medium holds a write to block 8 for 3 s."""
        answer = api.post(SUB + '/namespaces', {'nsid': 95, 'media': slow, 'uuid': uuid})
        t.eq(answer.status, 201, 'added', SPEC)
        host = tgt.host()
        conn = host.queue()
        target.know(host, conn, 95)
        for lba in (8, 16):
            t.status(conn.do(UNCORRECTABLE, 95, cdw10=lba), n.OK, 'a mark')
        cmd = conn.rw(n.WRITE, 95, 8, 1, 512, bytes(512))
        conn.do(n.FLUSH, 1)
        t.eq(api.delete(SUB + '/namespaces/95').status, 200, 'removed')
        cmd.was_late = not cmd.is_done and not conn.is_readable(0)
        return host, conn, cmd

    def bad(*lbas):
        with tgt.host() as host:
            conn = host.queue()
            target.know(host, conn, 95)
            return [lba for lba in lbas if conn.read(95, lba, 1).status == UNRECOVERED]

    def again(media=plain):
        return target.poll(lambda: api.post(SUB + '/namespaces', {'nsid': 95, 'media': media, 'uuid': uuid}).status == 201, 30)
    host, conn, cmd = begin()
    t.eq(api.delete('/v1/removed/' + uuid).status, 200, 'the operator drops the marks', SPEC)
    t.ok(conn.wait(cmd, 30).status != n.OK or not cmd.was_late, 'a write to a namespace that was removed is not answered as done', SPEC)
    host.close()
    t.ok(again(), 'added')
    t.eq(bad(8, 16), [], 'the late end of the write brings no mark back', SPEC)
    api.delete(SUB + '/namespaces/95')
    host, conn, cmd = begin()
    t.ok(again(), 'added while the write is with the former medium')
    with tgt.host() as other:
        queue = other.queue()
        target.know(other, queue, 95)
        t.status(queue.do(UNCORRECTABLE, 95, cdw10=24), n.OK, 'a mark of the namespace that came back')
    conn.wait(cmd, 30)
    host.close()
    marks = bad(8, 16, 24)
    t.eq(marks[-2:], [16, 24], 'it has its marks', SPEC)
    tgt.kill()
    tgt.start()
    t.eq(bad(8, 16, 24), marks, 'and after a kill', SPEC)
    api.delete(SUB + '/namespaces/95')
    api.delete('/v1/removed/' + uuid)
    os.unlink(path)


def told(t, api, tgt):
    """A dry run, a change, the history and the audit report what happens to reservations and marks."""
    path = os.path.join(tgt.folder, 'told.img')
    name = 'namespace %s/90' % target.NQN

    def lines(answer, text):
        found = [line for line in answer.json['diff'] if line.startswith('~ ' + name) and text in line]
        t.eq((answer.status, len(found)), (200, 1), text, SPEC)
    api.post(SUB + '/namespaces', {'nsid': 90, 'media': 'file:%s,size=1M,block=512' % path})
    api.post(SUB + '/namespaces', {'nsid': 91, 'media': 'mem:1M,block=512'})
    first = generation(api)
    fenced, memory_fenced = Fenced(t, tgt, 90), Fenced(t, tgt, 91)
    stays, back = 'its reservation and its bad blocks are kept as long as its file', 'its reservation and its bad blocks come back'
    lines(api.delete(SUB + '/namespaces/90?dry_run=true'), stays)
    answer = api.delete(SUB + '/namespaces/90')
    lines(answer, stays)
    t.ok(any(stays in line for line in api.get('/v1/audit').json['audit'][0]['diff']), 'the audit has it', SPEC)
    lines(rollback(api, first, '?dry_run=true'), back)
    run = subprocess.run([target.weft_path(), 'ctl', '--state', os.path.join(tgt.folder, 'state'), 'rollback', str(first), '--dry-run'],
                         capture_output=True, text=True, timeout=60)
    t.ok(back in run.stdout, 'and so does the command line', SPEC, why=run.stdout + run.stderr)
    lines(rollback(api, first), back)
    answer = api.delete(SUB + '/namespaces/91')
    t.ok(any('/91: its reservation and its bad blocks are dropped' in line for line in answer.json['diff']), 'memory', SPEC,
         why=str(answer.json))
    t.status(fenced.conns[0].do(REGISTER, 90, data=bytes(8) + b'\x02' * 8, cdw10=2 << 30 | 2 | 1 << 3), n.OK, 'no PTPL any more')
    lines(api.delete(SUB + '/namespaces/90?dry_run=true'), 'its reservation is dropped (made without PTPL)')
    lines(api.delete(SUB + '/namespaces/90?dry_run=true'), 'its bad blocks are kept as long as its file')
    api.delete(SUB + '/namespaces/90')
    for each in (fenced, memory_fenced):
        each.close()
    api.delete('/v1/removed/' + api.get('/v1/removed').json['removed'][0]['uuid'])
    os.unlink(path)


def swapped(t, api, tgt):
    """A UUID comes back only with its former file, whatever the file's name is now."""
    a, b = (os.path.join(tgt.folder, name) for name in ('a.img', 'b.img'))
    for nsid, path in ((80, a), (81, b)):
        api.post(SUB + '/namespaces', {'nsid': nsid, 'media': 'file:%s,size=1M,block=512' % path})
    first, was = generation(api), namespaces(api)
    with tgt.host() as host:
        for nsid in (80, 81):
            t.status(host.queue(nsid - 79).put(nsid, 0, bytes([nsid]) * 512), n.OK, 'data of %d' % nsid)

    def remove(*nsids):
        for nsid in nsids:
            t.eq(api.delete(SUB + '/namespaces/%d' % nsid).status, 200, 'removed')

    def exchange():
        os.rename(a, a + '.t')
        os.rename(b, a)
        os.rename(a + '.t', b)

    def has(nsid, value, name):
        with tgt.host() as host:
            cmd = host.queue().read(nsid, 0, 1)
            t.eq((cmd.status, bytes(cmd.data[:1])), (n.OK, bytes([value])), name, SPEC)

    def add(nsid, media, uuid, query=''):
        return api.post(SUB + '/namespaces' + query, {'nsid': nsid, 'media': media, 'uuid': uuid})

    def add_refused(media, name):
        for query in ('?dry_run=true', ''):
            answer = add(80, media, was[80]['uuid'], query)
            t.ok(answer.status == 409 and 'removed drop ' + was[80]['uuid'] in ' '.join(answer.json['errors']),
                 '%s %s' % (name, query), SPEC, why='%d %s' % (answer.status, answer.json))
        t.ok(80 not in namespaces(api), name + ': it is not there')
    remove(80, 81)
    exchange()
    t.eq(rollback(api, first, '?dry_run=true').status, 409, 'files that were exchanged: a dry run says so')
    refused(t, api, first, 'not the file', 'files that were exchanged')
    t.eq(api.put('/v1/config', dict(config(api), subsystems=[dict(config(api)['subsystems'][0], namespaces=[
        namespaces(api)[1], was[80]])])).status, 409, 'by a document')
    add_refused(was[80]['media'], 'an add')
    add_refused('mem:1M', 'memory')
    tgt.kill()
    tgt.start()
    refused(t, api, first, 'not the file', 'and after a kill')
    t.ok(add(80, 'file:%s,size=1M,block=512' % b, was[80]['uuid']).status in (200, 201), 'the file under its new name', SPEC)
    has(80, 80, 'has its data')
    remove(80)
    exchange()
    for nsid in (80, 81):
        t.ok(add(nsid, was[nsid]['media'], was[nsid]['uuid']).status in (200, 201), 'the names are as they were: %d comes back' % nsid, SPEC)
    has(80, 80, 'with the data of 80')
    has(81, 81, 'with the data of 81')
    # The file is missing; in its place is a new file, a copy, or the file of another namespace.
    remove(80)
    os.rename(a, a + '.t')
    add_refused(was[80]['media'], 'a file that is missing')
    t.ok(not os.path.exists(a), 'and none is made in its place')
    with open(a, 'wb') as copy:
        copy.write(open(a + '.t', 'rb').read())
    add_refused(was[80]['media'], 'a copy')
    add_refused(was[81]['media'].replace('b.img', 'a.img.none'), 'another name')
    remove(81)
    add_refused(was[81]['media'], 'the file of another namespace')
    t.eq(api.delete('/v1/removed/' + was[80]['uuid']).status, 200, 'the operator wants the copy', SPEC)
    t.ok(add(80, was[80]['media'], was[80]['uuid']).status in (200, 201), 'and gets it', SPEC)
    has(80, 80, 'with its data')
    remove(80)
    for path in (a, a + '.t', b):
        os.unlink(path)
    for entry in api.get('/v1/removed').json['removed']:
        t.eq(api.delete('/v1/removed/' + entry['uuid']).status, 200, 'dropped')


def sizes(t, api, tgt):
    path = os.path.join(tgt.folder, 'grown.img')
    api.post(SUB + '/namespaces', {'nsid': 62, 'media': 'file:%s,size=1M' % path})
    first = generation(api)
    t.eq(api.patch(SUB + '/namespaces/62', {'size': '2M'}).status, 200, 'a namespace grows')
    answer = rollback(api, first)
    t.ok(answer.status == 400 and 'cannot shrink' in answer.json['errors'][0],
         'no rollback makes it shrink', SPEC, why=str(answer.json))
    t.eq(os.path.getsize(path), 2 * MIB, 'its file is as large as it was')
    api.delete(SUB + '/namespaces/62')


def memory(t, api):
    """Removed memory comes back empty, and therefore as another namespace."""
    api.post(SUB + '/namespaces', {'nsid': 63, 'media': 'mem:1M', 'uuid':
                                   '6f1c7b9a-52e0-4d0b-9a39-1f0f5c1d2e3f'})
    api.post(SUB + '/namespaces', {'nsid': 64, 'media': 'mem:1M'})
    first, uuids = generation(api), uuids_of(api)
    api.patch(SUB, {'model': 'between'})
    rollback(api, first)
    t.eq(uuids_of(api), uuids,
         'memory that stayed keeps its identity', SPEC)
    api.delete(SUB + '/namespaces/63')
    api.delete(SUB + '/namespaces/64')
    t.eq(rollback(api, first).status, 200, 'memory that was given up comes back')
    t.eq([k for k, uuid in uuids_of(api).items() if uuid != uuids[k]], [63, 64],
         'with other UUIDs, also where the document gave one', SPEC)
    api.delete(SUB + '/namespaces/63')
    api.delete(SUB + '/namespaces/64')


def restarts(t, api, tgt):
    api.patch(SUB, {'model': 'before the restart'})
    first, was = generation(api), config(api)
    api.patch(SUB, {'model': 'after'})
    listed = api.get('/v1/history').json['history']
    tgt.process.kill()
    tgt.process.wait()
    tgt.start()
    now = api.get('/v1/history').json['history']
    t.eq([e['generation'] for e in now if e in listed], [e['generation'] for e in listed
                                                         if e in now], 'kept in order')
    t.ok(first in [e['generation'] for e in now], 'the history survives a kill', SPEC)
    former = api.get('/v1/history/%d' % first).json['config']
    t.eq(former['subsystems'][0]['model'], 'before the restart', 'and so do its documents')
    t.eq(rollback(api, first).status, 200, 'and the way back')
    t.eq(config(api)['subsystems'][0]['model'], was['subsystems'][0]['model'], 'is taken')


def ctl(t, api, tgt):
    def run(*words):
        return subprocess.run([target.weft_path(), 'ctl', '--state',
                               os.path.join(tgt.folder, 'state')] + list(words),
                              capture_output=True, text=True, timeout=60)

    api.patch(SUB, {'model': 'ctl 1'})
    first = generation(api)
    api.patch(SUB, {'model': 'ctl 2', 'serial': 'CTL2'})
    out = run('history')
    lines = out.stdout.splitlines()
    t.ok(out.returncode == 0 and lines[0].split() == ['GENERATION', 'WHEN', 'WHO', 'WHAT'],
         'history: a table', SPEC, why=out.stdout + out.stderr)
    t.ok(lines[1].split()[0] == str(first + 1) and 'rest' in lines[1] and
         '(and 1 more)' in lines[1], 'newest first, with who and what', why=out.stdout)
    out = run('history', str(first)).stdout
    t.ok('generation %d, 20' % first in out and 'would change' in out and
         'ctl 2 -> ctl 1' in out, 'history N: what it was, and what a rollback would change', SPEC,
         why=out)
    out = run('history', str(first + 1)).stdout
    t.ok('(in force)' in out and 'would' not in out, 'history of the one in force', why=out)
    out = run('rollback', str(first), '--dry-run').stdout
    t.ok('nothing was changed' in out and generation(api) == first + 1, 'rollback --dry-run',
         why=out)
    out = run('rollback', str(first))
    t.ok(out.returncode == 0 and 'generation %d' % (first + 2) in out.stdout, 'rollback', SPEC,
         why=out.stdout + out.stderr)
    for words, status, text in ((('history', 'x'), 2, 'weft ctl history'),
                                (('rollback',), 2, 'GENERATION'),
                                (('rollback', '0'), 2, 'weft ctl history'),
                                (('history', '999999'), 1, 'is not saved'),
                                (('rollback', '999999'), 1, 'is not saved')):
        out = run(*words)
        t.ok(out.returncode == status and text in out.stderr, 'ctl ' + ' '.join(words),
             why='%d %s%s' % (out.returncode, out.stdout, out.stderr))


def hosts(t, api, tgt):
    """A host with the right to set labels sets many: the operator's generations and audit entries stay."""
    operators = [e['generation'] for e in api.get('/v1/history').json['history']]
    api.patch(SUB, {'model': 'before the labels'})
    first, was = generation(api), config(api)
    with tgt.host() as host:
        wrong = [cmd.status for cmd in (host.admin.set_feature(0x1f, data=(b'label %d' % i).ljust(256, b'\0'), nsid=1)
                                        for i in range(60)) if cmd.status != n.OK]
    t.eq(wrong, [], 'a host sets 60 labels')
    t.eq(generation(api), first + 60, 'each is a generation')
    listed = [e['generation'] for e in api.get('/v1/history').json['history']]
    t.eq([g for g in operators if g not in listed], operators[31:], "the operator's 32 former generations stay", SPEC)
    t.eq([g for g in listed if g > first], list(range(first + 60, first + 27, -1)), 'and the last 32 of the host', SPEC)
    t.eq(api.get('/v1/history/%d' % first).json['config'], was, 'the generation before them is as it was')
    t.eq(rollback(api, first).status, 200, 'and the way back to it is open', SPEC)
    t.eq(config(api), was, 'all labels are gone')


def run_all(t, tgt):
    api = restapi.Client(os.path.join(tgt.folder, 'state', 'weft.sock'))
    for test in (lambda: kept(t, api), lambda: back(t, api), lambda: data(t, api, tgt), lambda: fences(t, api, tgt), lambda: swapped(t, api, tgt),
                 lambda: told(t, api, tgt), lambda: late(t, api, tgt),
                 lambda: sizes(t, api, tgt), lambda: memory(t, api), lambda: ctl(t, api, tgt),
                 lambda: restarts(t, api, tgt), lambda: hosts(t, api, tgt), lambda: deleted(t, api, tgt)):
        with t.guard('history'):
            test()
    t.eq(api.violations, [], 'every answer is as docs/openapi.json describes it')


if __name__ == '__main__':
    target.run(Tap(), run_all, rights={'any': ['label']})
