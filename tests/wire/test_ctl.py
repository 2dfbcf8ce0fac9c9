#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
`weft ctl` against a live target: output of every command as text and as JSON, dry runs, the generation, error
messages, and exit statuses: 0 done, 1 failed, 2 wrong usage.
"""

import json
import os
import socket
import subprocess
import threading

import target
from tap import Tap

NQN = target.NQN
OTHER = 'nqn.2026-11.io.weft:other'
HOST = 'nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000001'
SAVED = {
    'hosts': [{'nqn': HOST}],
    'ports': [{'addr': {'adrfam': 'ipv4', 'traddr': '127.0.0.1', 'treq': 'not specified',
                        'trsvcid': '0', 'trtype': 'tcp'},
               'portid': 1, 'referrals': [], 'subsystems': [OTHER]}],
    'subsystems': [{'allowed_hosts': [HOST], 'attr': {'allow_any_host': '0', 'serial': 'abc'},
                    'namespaces': [], 'nqn': OTHER}],
}


class Ctl:
    def __init__(self, tap, tgt):
        self.tap = tap
        self.place = ['--state', os.path.join(tgt.folder, 'state')]

    def run(self, *words, place=None, stdin=None):
        place = self.place if place is None else place
        return subprocess.run([target.weft_path(), 'ctl'] + place + list(words),
                              capture_output=True, text=True, timeout=60, input=stdin)

    def good(self, name, *words, out=(), stdin=None):
        run = self.run(*words, stdin=stdin)
        self.tap.ok(run.returncode == 0 and not run.stderr and all(o in run.stdout for o in out),
                    name, why='status %d\n%s%s' % (run.returncode, run.stdout, run.stderr))
        return run.stdout

    def json(self, *words):
        run = self.run('--json', *words)
        self.tap.ok(run.returncode == 0, ' '.join(words) + ' --json', why=run.stderr)
        return json.loads(run.stdout)

    def bad(self, name, status, text, *words, place=None):
        run = self.run(*words, place=place)
        self.tap.ok(run.returncode == status and text in run.stderr and
                    run.stderr.startswith('weft ctl: '), name,
                    why='status %d\n%s%s' % (run.returncode, run.stdout, run.stderr))
        return run

    def generation(self):
        run = self.run('--json', 'status')
        return json.loads(run.stdout)['generation']


def shows(t, ctl, tgt):
    ctl.good('status', 'status', out=['generation', 'REACTOR', 'namespaces    2'])
    t.eq(ctl.json('status')['counts']['namespaces'], 2, 'status: what the API answers')
    t.eq(ctl.good('health', 'health'), 'ok\n', 'health: ok')
    t.eq(ctl.json('health'), {'ok': True, 'problems': []}, 'health as JSON')
    t.eq(ctl.good('health --acknowledge', 'health', '--acknowledge'), 'acknowledged: 0\nok\n',
         'health --acknowledge: ok')
    ctl.good('audit', 'audit', out=['generation 1  start'])
    t.eq(len(ctl.json('audit', '1')['audit']), 1, 'audit of the last one')
    ctl.good('subsystem list', 'subsystem', 'list', out=['NQN', NQN, 'any'])
    t.eq(ctl.json('subsystem', 'list')['subsystems'][0]['nqn'], NQN, 'the same')
    ctl.good('subsystem show', 'subsystem', 'show', NQN, out=['WIRETEST', 'mem:8M,block=512'])
    t.eq(ctl.json('subsystem', 'show', NQN)['serial'], 'WIRETEST', 'the same')
    out = ctl.good('namespace list of all', 'namespace', 'list', out=['SUBSYSTEM', '16 MiB'])
    t.eq(len(out.splitlines()), 3, 'a line each, under a title')
    ctl.good('ns list of one', 'ns', 'list', NQN, out=['8 MiB'])
    t.eq([ns['nsid'] for ns in ctl.json('ns', 'list')['namespaces']], [1, 2], 'the same')
    ctl.good('namespace show', 'namespace', 'show', NQN, '2', out=['mem:16M', 'bytes_read'])
    t.eq(ctl.json('ns', 'show', NQN, '2')['live']['block_bytes'], 4096, 'the same')
    ctl.good('port list', 'port', 'list', out=['LISTENING', '127.0.0.1:%d' % tgt.port])
    ctl.good('port show', 'port', 'show', '1', out=['zero_copy', '127.0.0.1'])
    t.eq(ctl.json('port', 'show', '1')['service'], str(tgt.port), 'the same')
    ctl.good('ana list', 'ana', 'list', out=['GROUP', 'optimized'])
    ctl.good('ana list of one', 'ana', 'list', '1', out=['optimized'])
    t.eq(ctl.json('ana', 'list')['groups'], [{'group': 1, 'state': 'optimized', 'port': 1}],
         'the same')
    t.eq(ctl.good('connections', 'connections'), 'no host is connected\n', 'none')
    t.eq(ctl.good('peers', 'peers'), 'no other member: the target is not in a cluster\n', 'none')
    t.eq(ctl.good('reservations', 'reservations'), 'no host is registered\n', 'none')
    t.eq(ctl.json('reservations'), {'reservations': []}, 'none, as JSON')
    with tgt.host() as host:
        ctl.good('connections with one', 'connections', out=[host.hostnqn, NQN, 'CNTLID'])
        t.eq(len(ctl.json('connections')['connections']), 1, 'the same')


def changes(t, ctl, tgt):
    before = ctl.generation()
    out = ctl.good('dry run', 'subsystem', 'add', OTHER, '--dry-run', out=['+ subsystem ' + OTHER])
    t.ok('nothing was changed' in out and ctl.generation() == before, 'it says so, and is so')
    ctl.good('subsystem add', 'subsystem', 'add', OTHER, '--serial', 'S2', '--host', HOST,
             '--host', 'nqn.2026-11.io.weft:h2', '--allow-any-host', 'no',
             out=['Done (generation %d).' % (before + 1)])
    made = ctl.json('subsystem', 'show', OTHER)
    t.eq((made['serial'], len(made['hosts']), made['allow_any_host']), ('S2', 2, False),
         'its fields')
    ctl.good('subsystem set', 'subsystem', 'set', OTHER, '--model', 'new model', '--host', 'none')
    made = ctl.json('subsystem', 'show', OTHER)
    t.eq((made['model'], made['hosts']), ('new model', []), 'its fields')
    ctl.good('subsystem set with a pool', 'subsystem', 'set', OTHER, '--pool-folder', '/srv/p', '--pool-capacity', '1G',
             '--host', HOST, '--host', 'nqn.2026-11.io.weft:h2')
    ctl.good('host rights', 'host', 'rights', OTHER, HOST, 'format,label')
    t.eq(ctl.run('subsystem', 'show', OTHER).stdout.splitlines(),
         ['%-15s %s' % line for line in (
             ('nqn', OTHER), ('serial', 'S2'), ('model', 'new model'), ('hosts', HOST), ('', 'nqn.2026-11.io.weft:h2'),
             ('rights', HOST + ': format,label'), ('pool', '/srv/p, capacity 1073741824'))],
         'subsystem show: a line for each field, in the order of the document')
    ctl.good('host rights none', 'host', 'rights', OTHER, HOST, 'none')
    ctl.good('subsystem set --unset pool', 'subsystem', 'set', OTHER, '--unset', 'pool-folder', '--host', 'none')
    ctl.good('subsystem set --unset', 'subsystem', 'set', OTHER, '--unset', 'model')
    t.eq(ctl.json('subsystem', 'show', OTHER)['model'], 'weft', 'the default again')
    ctl.good('host add', 'host', 'add', OTHER, HOST)
    ctl.good('host list', 'host', 'list', OTHER, out=[HOST])
    ctl.good('host remove', 'host', 'remove', OTHER, HOST, out=['Done'])
    t.eq(ctl.json('host', 'list', OTHER)['hosts'], [], 'gone')
    for words in ('none', 'any', HOST):
        ctl.good('subsystem set --host ' + words, 'subsystem', 'set', OTHER, '--host', words)
        for command in ('subsystem show', 'host list'):
            out = ctl.run(*command.split(), OTHER).stdout
            t.ok(words in [line.split()[-1] for line in out.splitlines()
                           if line.startswith('hosts ')], '%s: hosts %s' % (command, words), why=out)
        line, = [line for line in ctl.run('subsystem', 'list').stdout.splitlines() if OTHER in line]
        t.eq(line.split()[-1], words, 'subsystem list: ' + words)
    ctl.bad('host add where any is allowed', 1, 'subsystem set %s --host %s' % (NQN, HOST), 'host',
            'add', NQN, HOST)
    ctl.bad('any and a list', 2, 'cannot be combined', 'subsystem', 'set', OTHER, '--host', 'any', '--host',
            HOST)
    ctl.bad('the same the other way', 2, 'cannot be combined', 'subsystem', 'set', OTHER, '--host', HOST,
            '--host', 'any')
    ctl.good('namespace add', 'namespace', 'add', OTHER, '--media', 'mem:1M', '--label', 'x',
             '--ana-group', '4', '--read-only', 'yes', out=['Added namespace 1 (generation'])
    ctl.good('ns add with all fields', 'ns', 'add', OTHER, '--nsid', '7', '--media', 'mem:1M',
             '--size', '2M', '--uuid', '6f1c7b9a-52e0-4d0b-9a39-1f0f5c1d2e3f', '--nguid', 'ab' * 16,
             '--host', HOST, '--hidden-from', OTHER, '--private', 'yes', '--write-protect', 'none')
    ns = ctl.json('ns', 'show', OTHER, '7')
    t.eq((ns['media'], ns['hosts'], ns['private'], ns['nguid']),
         ('mem:2M', [HOST], True, 'ab' * 16), 'its fields')
    ctl.good('ns show: the list', 'ns', 'show', OTHER, '7', out=['hosts           ' + HOST,
                                                                 'hidden_from     ' + OTHER])
    ctl.good('ns set --host none', 'ns', 'set', OTHER, '7', '--host', 'none', '--private', 'no',
             out=['hosts %s -> none' % HOST])
    ctl.good('ns show: none', 'ns', 'show', OTHER, '7', out=['hosts           none'])
    ctl.good('ns set --host any', 'ns', 'set', OTHER, '7', '--host', 'any', out=['none -> any'])
    ctl.good('ns show: any', 'ns', 'show', OTHER, '7', out=['hosts           any'])
    ctl.good('ns set --host', 'ns', 'set', OTHER, '7', '--host', HOST, out=['any -> ' + HOST])
    ctl.good('ns set', 'ns', 'set', OTHER, '7', '--unset', 'host', '--private', 'no', '--label', 'y')
    t.eq(ctl.json('ns', 'show', OTHER, '7').get('hosts'), None, 'everybody sees it')
    ctl.good('ns resize', 'ns', 'resize', OTHER, '7', '4M', out=['2 MiB -> 4 MiB'])
    ctl.bad('ns remove --delete-data, no pool', 1, 'without --delete-data', 'ns', 'remove', OTHER, '7',
            '--delete-data')
    ctl.good('ns remove', 'ns', 'remove', OTHER, '7', out=['- namespace'])
    ctl.good('ns add of a file', 'ns', 'add', OTHER, '--nsid', '8', '--media',
             'file:%s/disk,size=1M' % tgt.folder)
    ctl.good('ns remove of a file', 'ns', 'remove', OTHER, '8', out=['kept: %s/disk' % tgt.folder])
    port = target.free_port()
    ctl.good('port add', 'port', 'add', '--address', '127.0.0.1', '--service', str(port),
             '--subsystem', OTHER, '--advertise', '192.0.2.1', '--zero-copy', 'auto',
             '--zero-copy-min-bytes', '8192', out=['Added port 2 (generation'])
    ctl.good('port set', 'port', 'set', '2', '--unset', 'subsystem', '--unset', 'advertise')
    made = ctl.json('port', 'show', '2')
    t.eq((made['zero_copy'], 'subsystems' in made, 'advertise' in made), ('auto', False, False),
         'its fields')
    ctl.good('ana set', 'ana', 'set', '2', '4', 'inaccessible')
    ctl.good('ana list has it', 'ana', 'list', '2', out=['inaccessible'])
    ctl.good('port remove', 'port', 'remove', '2')
    ctl.good('reservations clear', 'reservations', 'clear', OTHER, '1', out=['cleared'])
    answer = ctl.json('subsystem', 'remove', OTHER)
    t.eq((answer['applied'], len(answer['diff']) > 0), (True, True), 'a change as JSON')


def documents(t, ctl, tgt):
    path = os.path.join(tgt.folder, 'exported.json')
    text = ctl.good('export', 'export', out=[NQN])
    ctl.good('export FILE', 'export', path)
    with open(path) as file:
        t.eq(json.load(file), json.loads(text), 'the same document')
    ctl.good('apply what was exported', 'apply', path, out=['Nothing to change (generation'])
    document = json.loads(text)
    document['subsystems'][0]['model'] = 'applied'
    with open(path, 'w') as file:
        json.dump(document, file)
    before = ctl.generation()
    ctl.good('apply --dry-run', 'apply', path, '--dry-run', out=['model', 'applied', 'Dry run'])
    t.eq(ctl.generation(), before, 'nothing has changed')
    ctl.good('apply --generation', 'apply', path, '--generation', str(before), out=['Done'])
    ctl.bad('apply with a stale generation', 1, 'at generation %d, not' % (before + 1), 'apply', path, '--generation',
            str(before))
    ctl.good('apply -', 'apply', '-', out=['Done'], stdin=text)
    t.eq(ctl.json('subsystem', 'show', NQN)['model'], 'weft', 'as it was')
    with open(path, 'w') as file:
        file.write('{"version": 1,\n "subsystems": [}')
    ctl.bad('apply of malformed JSON', 1, 'line 2', 'apply', path)
    with open(path, 'w') as file:
        json.dump(dict(document, colour=1, ports='x'), file)
    run = ctl.bad('apply of two mistakes', 1, 'colour', 'apply', path)
    t.ok('ports' in run.stderr, 'each is named', why=run.stderr)
    ctl.bad('apply of no file', 1, 'No such file', 'apply', path + '.none')
    ctl.bad('export to no folder', 1, 'cannot write', 'export', path + '/x/y')
    with open(path, 'w') as file:
        json.dump(SAVED, file)
    ctl.good('import --dry-run', 'import', path, '--dry-run', out=['+ subsystem ' + OTHER])
    ctl.good('import', 'import', path, out=['- subsystem ' + NQN])
    t.eq([s['nqn'] for s in ctl.json('subsystem', 'list')['subsystems']], [OTHER], 'in force')
    ctl.good('back again', 'apply', '-', stdin=text)


def mistakes(t, ctl, tgt):
    ctl.bad('no command', 2, 'missing')
    ctl.bad('an unknown command', 2, '"fly"', 'fly')
    ctl.bad('a noun alone', 2, 'subsystem', 'subsystem')
    ctl.bad('an unknown verb', 2, '"subsystem fly" (list, show, add, set, remove)', 'subsystem', 'fly')
    ctl.bad('too few words', 2, 'NQN NSID', 'ns', 'show', NQN)
    ctl.bad('too many words', 2, 'usage', 'status', 'now')
    ctl.bad('a field of something else', 2, 'does not take', 'subsystem', 'add', OTHER, '--media', 'x')
    ctl.bad('a field of a command without', 2, 'does not take', 'ns', 'list', '--media', 'x')
    ctl.bad('a number that is none', 2, '--nsid', 'ns', 'add', NQN, '--nsid', 'one')
    ctl.bad('neither yes nor no', 2, 'yes or no', 'ns', 'add', NQN, '--private', 'maybe')
    ctl.bad('--unset of no field', 2, 'unknown field', 'ns', 'set', NQN, '1', '--unset', 'colour')
    ctl.bad('--acknowledge of something else', 2, 'health', 'status', '--acknowledge')
    ctl.bad('--delete-data of something else', 2, 'namespace remove', 'ns', 'list', '--delete-data')
    ctl.bad('audit of no number', 2, 'COUNT must be a number, not "many"', 'audit', 'many')
    ctl.bad('an NSID that is no number', 2, 'NSID must be a number, not "two"', 'ns', 'show', NQN, 'two')
    ctl.bad('a group that is no number', 2, 'GROUP must be a number', 'ana', 'set', '1', 'x', 'optimized')
    ctl.bad('no medium', 1, '--media is required', 'ns', 'add', NQN)
    ctl.bad('a serial number that is too long', 1, '--serial must have 1 to 20', 'subsystem', 'set', NQN, '--serial', 'x' * 21)
    ctl.bad('an ANA state that there is not', 1, 'STATE: "fine" must be', 'ana', 'set', '1', '1', 'fine')
    ctl.bad('an NQN that is none', 1, 'NQN: "x" does not begin', 'subsystem', 'add', 'x')
    ctl.bad('a host that is no NQN', 1, '--host: "x"', 'subsystem', 'set', NQN, '--host', 'x')
    ctl.bad('a pool without a size', 1, '--pool-capacity', 'subsystem', 'set', NQN, '--pool-folder', '/tmp/x')
    ctl.bad('--dry-run of no change', 2, '--dry-run', 'status', '--dry-run')
    ctl.bad('--generation 0', 2, '--generation', 'apply', 'x', '--generation', '0')
    ctl.bad('--url without a port', 2, '--url', 'status', place=['--url', 'http://127.0.0.1'])
    ctl.bad('two places', 2, 'one of', 'status', '--url', 'http://127.0.0.1:1')
    ctl.bad('an unknown NQN', 1, 'no subsystem', 'subsystem', 'show', 'nqn.2026-11.x:y')
    ctl.bad('an unknown NSID', 1, 'no namespace 9', 'ns', 'remove', NQN, '9')
    ctl.bad('a duplicate', 1, 'already', 'subsystem', 'add', NQN)
    ctl.bad('a name of 224 bytes', 1, '224', 'subsystem', 'add', 'nqn.2026-11.' + 'x' * 212)
    ctl.bad('a medium that cannot be', 1, 'tape', 'ns', 'add', NQN, '--media', 'tape:1')
    run = ctl.run('--json', 'subsystem', 'show', 'nqn.2026-11.x:y')
    t.eq((run.returncode, json.loads(run.stdout)['status']), (1, 404), 'an error as JSON')
    none = os.path.join(tgt.folder, 'nothing')
    ctl.bad('no target', 1, 'is `weft serve` running with --state %s?' % none, 'status',
            place=['--state', none])
    ctl.bad('no target at a socket', 1, 'no target answers', 'status', place=['--socket', none])
    url = 'http://127.0.0.1:%d' % target.free_port()
    ctl.bad('no target at an address', 1, 'no target answers at ' + url, 'status',
            place=['--url', url])


def odd_server(t, ctl, answer, name, text):
    """Runs weft ctl against a server that is not a target."""
    with socket.socket() as server:
        server.bind(('127.0.0.1', 0))
        server.listen()

        def serve():
            conn, _ = server.accept()
            conn.recv(65536)
            conn.sendall(answer)
            conn.close()

        thread = threading.Thread(target=serve)
        thread.start()
        ctl.bad(name, 1, text, 'status',
                place=['--url', 'http://127.0.0.1:%d' % server.getsockname()[1]])
        thread.join()


def odd_servers(t, ctl):
    odd_server(t, ctl, b'SSH-2.0-x\r\n', 'a server that is not HTTP', 'the answer is not HTTP')
    odd_server(t, ctl, b'', 'a server that says nothing', 'the answer is not HTTP')
    odd_server(t, ctl, b'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n<ht>', 'a web page',
               'is not JSON')


def over_tcp(t, tgt_folder):
    path = os.path.join(tgt_folder, 'token')
    with open(path, 'w') as file:
        file.write('0123456789abcdef')
    os.chmod(path, 0o600)
    port = target.free_port()
    tgt = target.Target(args=['--discovery', 'none', '--api-socket', 'none', '--api-listen',
                              '127.0.0.1:%d' % port, '--api-token-file', path])
    ctl = Ctl(t, tgt)
    url = 'http://127.0.0.1:%d' % port
    ctl.bad('without a token', 1, '--token-file', 'status', place=['--url', url])
    ctl.bad('a token file that is not there', 2, '--token-file', 'status',
            place=['--url', url, '--token-file', path + 'x'])
    ctl.place = ['--url', url, '--token-file', path]
    ctl.good('over TCP', 'status', out=['generation'])
    ctl.good('a change over TCP', 'subsystem', 'set', NQN, '--host', HOST, out=['any -> ' + HOST])
    tgt.finish(t)


def helps(t, ctl):
    for words in ([], ['status'], ['subsystem'], ['namespace', 'add'], ['ns'], ['port'], ['ana'],
                  ['host'], ['reservations'], ['apply'], ['export'], ['import'], ['connections'], ['peers'],
                  ['health'], ['audit'], ['history'], ['rollback']):
        run = ctl.run(*words, '--help')
        noun = {'ns': 'namespace'}.get(words[0], words[0]) if words else 'COMMAND'
        t.ok(run.returncode == 0 and noun in run.stdout and 'Usage: weft ctl' in run.stdout,
             ' '.join(words) + ' --help', why=run.stdout + run.stderr)


def run_all(t, tgt):
    ctl = Ctl(t, tgt)
    for name, rows in (('shows', lambda: shows(t, ctl, tgt)),
                       ('changes', lambda: changes(t, ctl, tgt)),
                       ('documents', lambda: documents(t, ctl, tgt)),
                       ('mistakes', lambda: mistakes(t, ctl, tgt)),
                       ('odd servers', lambda: odd_servers(t, ctl)),
                       ('TCP', lambda: over_tcp(t, tgt.folder)), ('help', lambda: helps(t, ctl))):
        with t.guard(name):
            rows()


if __name__ == '__main__':
    target.run(Tap(), run_all)
