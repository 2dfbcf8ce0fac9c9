#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Former generations: which are kept, what each was, and the return to one. A rollback is a change:
it can be tried, has an audit row, a generation of its own and is whole or not at all; namespaces
come back with their identities and their data, and what could not have its data is refused.
"""

import os
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
    """Every generation that is listed can be read as it was."""
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
    """Removed, and back with identity and data."""
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
    # Another namespace on a file of the same name: its data is not the former one's.
    api.post(SUB + '/namespaces', {'nsid': 61, 'media': 'file:%s,size=1M,block=512' % path})
    refused(t, api, first, 'has been used by ' + namespaces(api)[61]['uuid'],
            'an image that another namespace has')
    api.delete(SUB + '/namespaces/61')
    refused(t, api, first, 'has been used by another', 'or had in between')
    os.unlink(path)
    os.unlink(path + '.away')


REGISTER, ACQUIRE, UNCORRECTABLE = 0x0d, 0x11, 0x04
CONFLICT, UNRECOVERED = (0, 0x83), (2, 0x81)


class Fenced:
    """A namespace with a reservation that persists, a host that it keeps away, and a block that is marked bad."""

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
        self.holder = self.tgt.host(hostnqn='nqn.2026-11.io.weft:holder', hostid=b'\x02' * 16)
        self.other = self.tgt.host(hostnqn='nqn.2026-11.io.weft:other', hostid=b'\x01' * 16)
        self.conns = [self.holder.queue(1), self.other.queue(1)]

    def is_so(self, is_kept, when):
        write = self.conns[1].put(self.nsid, 0, bytes(512))
        self.t.status(write, CONFLICT if is_kept else n.OK, '%s: the fenced host' % when, SPEC)
        self.t.status(self.conns[0].read(self.nsid, 8, 1), UNRECOVERED if is_kept else n.OK, '%s: the bad block' % when, SPEC)

    def close(self):
        self.holder.close()
        self.other.close()


def fences(t, api, tgt):
    """What was fenced stays fenced while its namespace is away, until its data are given up."""
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
    listed = api.get('/v1/removed').json['removed']
    t.eq([(e['uuid'], e['path']) for e in listed], [(ns['uuid'], path)], 'it is listed', SPEC)
    again('file:%s,size=1M,block=512' % (path + '.other'))
    fenced.is_so(False, 'the same UUID on another file')
    remove()
    again(ns['media'])
    fenced.is_so(False, 'and back: they were given up')
    t.eq(api.get('/v1/removed').json['removed'], [], 'nothing is kept any more', SPEC)
    fenced.close()
    fenced = Fenced(t, tgt, 70)
    remove()
    t.eq(api.delete('/v1/removed/' + target.NQN).status, 404, 'no such one', SPEC)
    t.eq(api.delete('/v1/removed/' + ns['uuid']).status, 200, 'dropped by the operator', SPEC)
    again(ns['media'])
    fenced.is_so(False, 'and back')
    fenced.close()
    fenced = Fenced(t, tgt, 70)
    remove()
    t.eq(api.post(SUB + '/namespaces', {'nsid': 71, 'media': ns['media']}).status in (200, 201), True, 'its file under a new UUID')
    t.eq(api.get('/v1/removed').json['removed'], [], 'is the data of another namespace', SPEC)
    api.delete(SUB + '/namespaces/71')
    fenced.close()
    os.unlink(path)
    os.unlink(path + '.other')


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
    """Memory that was given up comes back empty, and so as another namespace."""
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
                                (('history', '999999'), 1, 'not kept'),
                                (('rollback', '999999'), 1, 'not kept')):
        out = run(*words)
        t.ok(out.returncode == status and text in out.stderr, 'ctl ' + ' '.join(words),
             why='%d %s%s' % (out.returncode, out.stdout, out.stderr))


def hosts(t, api, tgt):
    """A host with the right to set labels does so often: the operator's generations and audit stay."""
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
    for test in (lambda: kept(t, api), lambda: back(t, api), lambda: data(t, api, tgt), lambda: fences(t, api, tgt),
                 lambda: sizes(t, api, tgt), lambda: memory(t, api), lambda: ctl(t, api, tgt),
                 lambda: restarts(t, api, tgt), lambda: hosts(t, api, tgt)):
        with t.guard('history'):
            test()
    t.eq(api.violations, [], 'every answer is as docs/openapi.json describes it')


if __name__ == '__main__':
    target.run(Tap(), run_all, rights={'any': ['label']})
