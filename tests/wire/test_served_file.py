#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
A UUID has the file that was served last under it, whichever way a new document comes: the REST API, SIGHUP, a
rollback, or a start. Another file is refused, and none is created; the file itself under another name is accepted.
docs/adr/0029.
"""

import copy
import os
import signal
import subprocess
import tempfile

import nvmetcp as n
import restapi
import target
from tap import Tap

SPEC = 'ADR 0029'
SUB = '/v1/subsystems/' + target.NQN
A, B, C = ('%s-0001-4000-8000-000000000001' % (8 * letter) for letter in 'abc')
DATA, OTHER = b'A' * 512, b'B' * 512
FOLDER = tempfile.mkdtemp(prefix='weft-wire-served-')


def path(name):
    return os.path.join(FOLDER, name)


def media(name):
    return 'file:%s,size=1M,block=512' % path(name)


def space(nsid, name, uuid):
    ns = target.namespace(nsid, name if name.startswith('mem') else media(name))
    return dict(ns, uuid=uuid) if uuid else ns


def names():
    return sorted(os.listdir(FOLDER))


def read(tgt, nsid):
    with tgt.host() as host:
        cmd = host.queue().read(nsid, 0, 1)
        return cmd.status, bytes(cmd.data)


def generation(api):
    return api.get('/v1/state').json['generation']


def put(api, *spaces, query=''):
    config = api.get('/v1/config').json
    config['subsystems'][0]['namespaces'] = list(spaces)
    return api.put('/v1/config' + query, config)


def refused(t, tgt, api, answer, wanted, name):
    """`answer()` is refused with all the texts, and nothing has changed."""
    def present():
        return generation(api), api.get('/v1/config').json, names(), read(tgt, 1)
    before = present()
    got = answer()
    text = ' '.join(got.json.get('errors') or [got.json.get('error', '')])
    t.ok(got.status == 409 and all(part in text for part in wanted), name, SPEC, why='%d %s' % (got.status, got.json))
    t.eq(present(), before, name + ': nothing has changed', SPEC)


def taken(t, answer, name):
    t.ok(answer.status in (200, 201), name, SPEC, why='%d %s' % (answer.status, answer.json))


def changes(t, tgt, api):
    drop = 'weft ctl removed drop ' + A
    for query in ('?dry_run=true', ''):
        refused(t, tgt, api, lambda q=query: put(api, space(1, 'y', A), query=q), (path('x'), path('y'), drop),
                'a new file under a UUID in force' + query)
    with open(path('copy'), 'wb') as file, open(path('x'), 'rb') as of:
        file.write(of.read())
    refused(t, tgt, api, lambda: put(api, space(1, 'copy', A)), (path('x'), path('copy')), 'a copy of its file')
    refused(t, tgt, api, lambda: put(api, space(5, 'y', A)), (path('x'), path('y')), 'under another NSID')
    refused(t, tgt, api, lambda: put(api, space(1, 'mem:1M,block=512', A)), (path('x'),), 'memory')
    taken(t, put(api, space(1, 'x', A), space(2, 'z', B)), 'another namespace has another file')
    refused(t, tgt, api, lambda: put(api, space(1, 'z', A), space(2, 'x', B)), (path('x'), path('z')), 'exchanged files')
    refused(t, tgt, api, lambda: put(api, space(1, 'z', A)), (path('x'), path('z')), 'the file that the other one leaves')
    taken(t, put(api, space(1, 'x', A), space(2, 'mem:1M,block=512', None)), 'without a UUID: a new one')
    taken(t, put(api, space(1, 'x', A), space(2, 'z2', None)), 'memory that becomes a file')
    uuid = api.get(SUB + '/namespaces/2').json['uuid']
    taken(t, put(api, space(1, 'x', A), space(2, 'z3', None)), 'another file without a UUID')
    t.ok(api.get(SUB + '/namespaces/2').json['uuid'] != uuid, 'has a new one', SPEC)
    taken(t, put(api, space(1, 'x', A)), 'one namespace again')


def hangup(t, tgt):
    before = copy.deepcopy(tgt.config)
    tgt.config['subsystems'][0]['namespaces'] = [space(1, 'y', A)]
    tgt.write_config()
    tgt.process.send_signal(signal.SIGHUP)
    t.ok(tgt.wait_log('missing, and not the file of this UUID'), 'SIGHUP with another file is refused', SPEC)
    t.ok('y' not in names(), 'and none is made', SPEC)
    tgt.config = before
    tgt.write_config()


def same_file(t, tgt, api):
    """The file under another name, for a namespace that was removed or is lost."""
    os.link(path('x'), path('link'))
    taken(t, put(api), 'the namespace is removed')
    taken(t, put(api, space(1, 'link', A)), 'a hard link of its file')
    t.eq(read(tgt, 1), (n.OK, DATA), 'has its data', SPEC)
    tgt.terminate()
    tgt.wait_exit()
    os.rename(path('x'), path('moved'))
    os.unlink(path('link'))
    tgt.start()
    t.ok('namespace 1: ' in tgt.log() and 'the namespace is inaccessible' in tgt.log(), 'its file has no name: it is lost')
    t.eq(put(api, space(1, 'y', A)).status, 409, 'another file under the UUID of a lost namespace', SPEC)
    taken(t, put(api, space(1, 'moved', A)), 'its file, renamed')
    t.eq(read(tgt, 1), (n.OK, DATA), 'has its data', SPEC)


def rollbacks(t, tgt, api):
    """The operator lets another file have the UUID; a rollback does not undo that by itself."""
    former = generation(api)
    taken(t, put(api), 'the namespace is removed')
    t.eq(put(api, space(1, 'y', A)).status, 409, 'another file is refused', SPEC)
    taken(t, api.delete('/v1/removed/' + A), 'the operator drops the entry')
    taken(t, put(api, space(1, 'y', A)), 'then it is taken')

    def back(query=''):
        return api.call('POST', '/v1/history/%d/rollback%s' % (former, query))
    for query in ('?dry_run=true', ''):
        refused(t, tgt, api, lambda q=query: back(q), (path('moved'), path('y')), 'a rollback to the former file' + query)
    os.rename(path('moved'), path('away'))
    refused(t, tgt, api, back, ('cannot come back', path('moved'), 'No such file'), 'a rollback to a missing file')
    os.rename(path('away'), path('moved'))
    taken(t, put(api, space(1, 'y', A), space(2, 'moved', C)), 'another namespace has the file')
    refused(t, tgt, api, back, ('cannot come back', C), 'a rollback to the file of another namespace')
    taken(t, put(api, space(1, 'y', A)), 'and had the file')
    refused(t, tgt, api, back, ('cannot come back', 'has since been used'), 'a rollback to that file')


def starts(t, tgt):
    """A start with another document. The refused one changes nothing but the copy that --reset makes."""
    for flag, ns in (('--reset', space(1, 'new', A)), ('--merge', space(7, 'new', A)), ('--reset', space(1, 'moved', A))):
        tgt.terminate()
        tgt.wait_exit()
        before, config = names(), copy.deepcopy(tgt.config)
        tgt.config['subsystems'][0]['namespaces'] = [ns]
        tgt.write_config()
        at = len(tgt.log())
        with open(tgt.log_path, 'ab') as log:
            code = subprocess.run(tgt.command() + [flag], stdout=log, stderr=log, timeout=n.TIMEOUT_S).returncode
        log = tgt.log()[at:]
        t.ok(code != 0 and (flag == '--merge' or 'not the file of this UUID' in log), flag + ' with another file: not started', SPEC, why=log)
        t.eq(names(), before, 'and no file is made', SPEC)
        tgt.config = config
        tgt.write_config()
        tgt.start()
        t.eq(read(tgt, 1), (n.OK, OTHER), 'the saved state serves as before', SPEC)
    tgt.terminate()
    tgt.wait_exit()
    os.rename(path('y'), path('y2'))
    tgt.config['subsystems'][0]['namespaces'] = [space(1, 'y2', A)]
    tgt.write_config()
    tgt.start('--reset')
    t.eq(read(tgt, 1), (n.OK, OTHER), '--reset with the file itself, renamed', SPEC)


def test(t, tgt):
    api = restapi.Client(os.path.join(tgt.folder, 'state', 'weft.sock'))
    with tgt.host() as host:
        t.status(host.queue().put(1, 0, DATA), n.OK, 'a block is written')
    for part in (lambda: changes(t, tgt, api), lambda: hangup(t, tgt), lambda: same_file(t, tgt, api),
                 lambda: rollbacks(t, tgt, api)):
        with t.guard('served file'):
            part()
    with tgt.host() as host:
        t.status(host.queue().put(1, 0, OTHER), n.OK, 'the other file has other data')
    with t.guard('starts'):
        starts(t, tgt)
    t.eq(api.violations, [], 'every answer is as docs/openapi.json describes it')


if __name__ == '__main__':
    target.run(Tap(), test, namespaces=[space(1, 'x', A)])
