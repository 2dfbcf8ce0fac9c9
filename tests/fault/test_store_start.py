# SPDX-License-Identifier: Apache-2.0
"""
What `weft serve` starts with: the saved state if the source (file or flags) is the one of that state, or none is
given. Another source is refused with the difference, merged into the saved state (--merge), or replaces it
(--reset), which keeps a copy. A reload counts as a source. Write protection until the power cycle ends with the
process. The self-check leaves nothing behind. A thousand subsystems with ten thousand namespaces start from the
store alone.
"""

import contextlib
import json
import os
import shutil
import signal
import sqlite3
import sys
import time

import store_world
from store_world import World, poll, quoted, wire_target

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'wire'))
from tap import Tap  # noqa: E402

# The goal is 2 s, which bench/footprint measures; here other tests and sanitizers may run too.
START_LIMIT_S = 30.0
SPEC = 'weft-serve(1), the saved state'
ADDED = store_world.NQN % 'added'


def nqns(world):
    return [subsystem['nqn'] for subsystem in world.document()['subsystems']]


def begin(t, world, args, what):
    world.args = args
    return t.ok(world.start(shim=False), what + ': it starts', why=world.log())


def refused(t, world, args, texts, what):
    """The start is refused with these texts, and the saved state is unchanged."""
    database = os.path.join(world.state, 'weft.db')
    world.args = args
    before = history(database)
    t.ok(not world.start(shim=False) and all(text in world.log() for text in texts),
         what + ': refused', SPEC, why=world.log())
    t.eq(world.wait_exit(), 1, what + ': status 1')
    t.eq(history(database), before, what + ': nothing has changed')


def history(database):
    with contextlib.closing(sqlite3.connect(database)) as store:
        return (store.execute('SELECT generation FROM history ORDER BY generation').fetchall(),
                store.execute('SELECT * FROM object ORDER BY kind, key').fetchall())


def copies(world):
    return sorted(name for name in os.listdir(world.state) if '.reset-' in name)


def sources(t):
    world = World()
    listen = ['--listen', '127.0.0.1:%d' % world.port]
    try:
        first = listen + ['--ns', 'mem:1M']
        begin(t, world, first, 'flags')
        world.change('POST', '/v1/subsystems', {'nqn': ADDED})
        both = nqns(world)
        t.eq(len(both), 2, 'a subsystem is added')
        t.eq(world.stop(), 0, 'the end')
        begin(t, world, first, 'the same flags')
        t.eq(nqns(world), both, 'the same flags: the saved state')
        t.ok(world.says('saved state'), 'and the log says so', why=world.log())
        world.stop()
        begin(t, world, [], 'no source')
        t.eq(nqns(world), both, 'no source: the saved state')
        world.stop()
        other = first + ['--ns', 'mem:2M']
        refused(t, world, other, ['the command line differs from the saved state (generation 2)',
                                  '- subsystem ' + ADDED, '/2: mem:2M', '--merge',
                                  '--reset'], 'other flags')
        begin(t, world, other + ['--reset'], '--reset')
        t.eq(nqns(world), [store_world.DEFAULT_NQN], '--reset: the flags count')
        t.eq(copies(world), ['weft.db.reset-2'], '--reset keeps a copy of the saved state', SPEC)
        t.ok(world.says('weft.db.reset-2', '- subsystem ' + ADDED),
             'and says where, and what is gone', why=world.log())
        t.eq([entry['origin'] for entry in world.call('GET', '/v1/history')[1]['history']],
             ['start --reset', 'rest', 'start'], 'it is a generation like others')
        world.change('POST', '/v1/history/2/rollback')
        t.eq(nqns(world), both, 'and can be rolled back', SPEC)
        world.stop()
        begin(t, world, other, 'the flags of --reset again')
        t.eq(nqns(world), both, 'without --reset: the saved state, with the rollback')
        world.stop()
        shutil.copy(os.path.join(world.state, 'weft.db.reset-2'),
                    os.path.join(world.state, 'weft.db'))
        begin(t, world, first, 'the copy, moved back')
        t.eq(nqns(world), both, 'is the state again', SPEC)
        world.stop()
    finally:
        world.remove()


def equal_sources(t):
    """A different text with the same meaning is the same source."""
    world = World()
    listen = ['--listen', '127.0.0.1:%d' % world.port]
    path = os.path.join(world.folder, 'config.json')
    try:
        begin(t, world, listen + ['--ns', 'mem:1M'], 'flags')
        document = world.document()
        world.stop()
        with open(path, 'w') as file:
            json.dump(document, file)
        begin(t, world, ['-c', path], 'a file that says the same')
        t.eq((world.document(), len(world.call('GET', '/v1/history')[1]['history'])),
             (document, 1), 'the same state, and no generation for it')
        world.stop()
        begin(t, world, ['-c', path, '--reset'], '--reset with nothing to lose')
        t.eq(copies(world), [], 'no copy is made')
        world.change('POST', '/v1/subsystems', {'nqn': ADDED})
        world.stop()
        begin(t, world, ['-c', path], 'it is the source from then on')
        t.eq(len(nqns(world)), 2, 'with the change made since')
        world.stop()
        for count in range(10):
            world.args = listen + ['--ns', 'mem:%dM' % (count + 1), '--reset']
            world.start(shim=False)
            world.stop()
        t.eq(len(copies(world)), 8, 'eight copies are kept', SPEC)
        t.ok('weft.db.reset-2' not in copies(world), 'the newest')
    finally:
        world.remove()


def merged(t, world, args, what):
    begin(t, world, args + ['--merge'], what)
    document = world.document()
    t.eq(world.stop(), 0, what + ': the end')
    begin(t, world, args, what + ', again without --merge')
    t.eq(world.document(), document, what + ': the same flags, the saved state')
    t.eq(world.stop(), 0, what + ': the second end')
    return document


def merges(t):
    world = World()
    listen = ['--listen', '127.0.0.1:%d' % world.port]
    image = os.path.join(world.folder, 'a.img')
    disk = 'file:%s,size=1M' % image
    default = '/v1/subsystems/%s' % quoted(store_world.DEFAULT_NQN)
    try:
        begin(t, world, listen + ['--ns', disk], 'flags')
        world.change('POST', '/v1/subsystems', {'nqn': ADDED})
        world.change('PATCH', default + '/namespaces/1', {'size': '4M', 'label': 'mine'})
        world.change('PATCH', default, {'model': 'kept'})
        before = world.document()
        world.stop()
        host = 'nqn.2014-08.org.example:host'
        second = wire_target.free_port()
        after = merged(t, world, listen + ['--listen', '127.0.0.1:%d' % second, '--ns', 'null:1M',
                                           '--ns', disk, '--allow-host', host], '--merge')
        subsystem, was = after['subsystems'][1], before['subsystems'][1]
        t.eq(after['subsystems'][0], before['subsystems'][0], 'what is not mentioned stays', SPEC)
        t.eq((subsystem['model'], subsystem['serial']), ('kept', was['serial']),
             'and so does what weft ctl changed')
        t.eq(subsystem['namespaces'][0], was['namespaces'][0],
             'a namespace is known by its file, and does not shrink', SPEC)
        t.eq([(ns['nsid'], ns['media']) for ns in subsystem['namespaces'][1:]], [(2, 'null:1M')],
             'another one gets a free number', SPEC)
        t.eq((subsystem['allow_any_host'], subsystem['hosts']), (False, [host]),
             'a list of hosts restricts', SPEC)
        t.eq([(p['id'], p['service']) for p in after['ports']],
             [(1, str(world.port)), (2, str(second))], 'a port is known by its address', SPEC)
        after = merged(t, world, ['--allow-host', host + '2'], '--merge of one flag')
        t.eq((after['subsystems'][1]['hosts'], len(after['subsystems'][1]['namespaces'])),
             ([host, host + '2'], 2), 'lists of hosts are united, and nothing is removed', SPEC)
        after = merged(t, world, ['--allow-host', host, '--allow-host', host + '3'], '--merge of a host that is there')
        t.eq(after['subsystems'][1]['hosts'], [host, host + '2', host + '3'], 'which is not added again', SPEC)
        path = os.path.join(world.folder, 'config.json')

        def put(**more):
            with open(path, 'w') as file:
                json.dump(dict({'version': 1}, **more), file)

        put(limits={'controllers': 77}, subsystems=[{'nqn': store_world.DEFAULT_NQN, 'namespaces': [
            {'nsid': 1, 'media': 'file:%s,size=8M' % image, 'ana_group': 3}]}],
            ports=[{'id': 2, 'service': str(second), 'ana': [{'group': 3, 'state': 'inaccessible'}]}])
        after = merged(t, world, ['-c', path], '--merge of a file')
        ns = after['subsystems'][1]['namespaces'][0]
        t.eq((ns['media'], ns['ana_group'], ns['uuid'], os.path.getsize(image)),
             ('file:%s,size=8M' % image, 3, was['namespaces'][0]['uuid'], 8 << 20),
             'a larger size is taken, the identity stays', SPEC)
        t.eq((after['limits']['controllers'], [e for e in after['ports'][1]['ana'] if e['group'] == 3]),
             (77, [{'group': 3, 'state': 'inaccessible'}]), 'numbers and states are set')
        put(subsystems=[{'nqn': store_world.DEFAULT_NQN, 'namespaces': [
            {'nsid': 1, 'media': 'mem:1M'}]}])
        refused(t, world, ['-c', path, '--merge'], ['another NSID', '--reset'],
                '--merge of another medium')
        for args, text in ((['--ns', 'mem:1M', '--merge', '--reset'], 'use one'),
                           (['--merge'], 'needs something')):
            world.args = args
            t.ok(not world.start(shim=False) and text in world.log() and world.wait_exit() == 2,
                 ' '.join(args) + ': wrong usage', why=world.log())
    finally:
        world.remove()


def files(t):
    world = World()
    path = os.path.join(world.folder, 'config.json')
    document = {'version': 1, 'subsystems': [{'nqn': store_world.NQN % 'file'}],
                'ports': [{'id': 1, 'address': '127.0.0.1', 'service': str(world.port)}]}

    def put(**layout):
        with open(path, 'w') as file:
            json.dump(document, file, **layout)

    try:
        put()
        begin(t, world, ['-c', path], 'a file')
        world.change('POST', '/v1/subsystems', {'nqn': ADDED})
        both = nqns(world)
        world.stop()
        put(indent=4, sort_keys=True)
        begin(t, world, ['-c', path], 'the same file, laid out anew')
        t.eq(nqns(world), both, 'the same file: the kept state')
        world.process.send_signal(signal.SIGHUP)
        t.ok(poll(lambda: 'has not changed' in world.log()), 'SIGHUP with the same file: told',
             why=world.log())
        t.eq(nqns(world), both, 'and what was changed since stays', SPEC)
        world.stop()
        document['subsystems'].append({'nqn': store_world.NQN % 'second'})
        put()
        refused(t, world, ['-c', path], [path + ' differs', '+ subsystem', '- subsystem ' + ADDED],
                'a file that has changed')
        document['subsystems'].pop()
        put()
        begin(t, world, ['-c', path], 'the file as it was')
        document['subsystems'].append({'nqn': store_world.NQN % 'second'})
        put()
        world.process.send_signal(signal.SIGHUP)
        poll(lambda: 'is in force' in world.log())
        t.ok('has not changed' not in world.log(), 'SIGHUP with another file')
        wanted = [store_world.NQN % 'file', store_world.NQN % 'second']
        t.eq(nqns(world), wanted, 'SIGHUP: the file replaces the state')
        world.change('POST', '/v1/subsystems', {'nqn': ADDED})
        world.stop()
        begin(t, world, ['-c', path], 'the reloaded file')
        t.eq(sorted(nqns(world)), sorted(wanted + [ADDED]), 'it is the source from then on')
        # A file with a mistake changes nothing, neither at a reload nor at a start.
        document['subsytems'] = []
        put()
        world.process.send_signal(signal.SIGHUP)
        poll(lambda: 'was not applied' in world.log())
        t.eq(len(nqns(world)), 3, 'SIGHUP with a mistake: the state stays')
        t.ok('%s: subsytems' % path in world.log(), 'and the log has the mistake', why=world.log())
        world.stop()
        t.ok(not world.start(shim=False) and 'subsytems' in world.log(),
             'a start with a mistake is refused', why=world.log())
    finally:
        world.remove()


def nothing_named(t):
    world = World()
    try:
        # Without a source only the kept state keeps the target off the default port.
        begin(t, world, ['--listen', '127.0.0.1:%d' % world.port], 'the default')
        namespaces = world.document()['subsystems'][0]['namespaces']
        t.ok('default.img' in namespaces[0]['media'], 'one namespace in the state folder',
             why=str(namespaces))
        t.eq(world.stop(), 0, 'the end')
        begin(t, world, [], 'no source')
        t.eq(world.document()['ports'][0]['service'], str(world.port), 'it was kept')
        world.stop()
    finally:
        world.remove()


def relative_paths(t):
    world = World()
    here = os.getcwd()
    elsewhere = os.path.join(world.folder, 'elsewhere')
    os.mkdir(elsewhere)
    try:
        os.chdir(world.folder)
        begin(t, world, world.args[:2] + ['--ns', 'file:a.img,size=1M'], 'a relative path')
        world.stop()
        os.chdir(elsewhere)
        t.ok(not world.start(shim=False) and world.folder in world.log() and
             '--reset' in world.log(), 'from another folder: refused', why=world.log())
        t.eq(os.listdir(elsewhere), [], 'and no file is made there')
        os.chdir(world.folder)
        begin(t, world, [], 'from its own folder')
        world.stop()
    finally:
        os.chdir(here)
        world.remove()


def power_cycle(t):
    world = World()
    namespace = '/v1/subsystems/%s/namespaces/1' % quoted(store_world.DEFAULT_NQN)
    try:
        world.start(shim=False)
        for wanted in ('until-power-cycle', 'protected'):
            world.change('PATCH', namespace, {'write_protect': wanted})
            world.kill()
            world.start(shim=False)
            got = world.document()['subsystems'][0]['namespaces'][0]['write_protect']
            t.eq(got, 'none' if wanted == 'until-power-cycle' else wanted,
                 'write protection "%s" after a restart' % wanted)
        t.eq(world.stop(), 0, 'the end')
    finally:
        world.remove()


def self_check(t):
    world = World()
    try:
        world.args.append('--self-check')
        if t.ok(world.start(shim=False), 'the self-check passes', why=world.log()):
            t.ok('verified' in world.out(), 'and says so', why=world.out())
            t.eq(nqns(world), [store_world.DEFAULT_NQN], 'it is in no document')
            t.eq(world.stop(), 0, 'the end')
            store = sqlite3.connect(os.path.join(world.state, 'weft.db'))
            rows = store.execute("SELECT count(*) FROM object WHERE key LIKE '%self-check%'"
                                 " UNION ALL SELECT count(*) FROM kept WHERE key LIKE"
                                 " '%self-check%'").fetchall()
            store.close()
            t.eq(rows, [(0,), (0,)], 'nor anywhere in the store')
    finally:
        world.remove()


def many(t):
    world = World()
    path = os.path.join(world.folder, 'config.json')
    with open(path, 'w') as file:
        json.dump({'version': 1,
                   'ports': [{'id': 1, 'address': '127.0.0.1', 'service': str(world.port)}],
                   'subsystems': [
                       {'nqn': store_world.NQN % ('%04d' % i), 'allow_any_host': True,
                        'namespaces': [{'nsid': n + 1, 'media': 'mem:1M'} for n in range(10)]}
                       for i in range(1000)]}, file)
    try:
        begin(t, world, ['-c', path], '10,000 namespaces')
        world.stop()
        os.unlink(path)
        began = time.monotonic()
        begin(t, world, [], '10,000 namespaces from the store')
        took = time.monotonic() - began
        print('# from the store in %.2f s' % took)
        t.ok(took < START_LIMIT_S, 'in time', why='%.2f s' % took)
        t.eq(sum(len(subsystem['namespaces']) for subsystem in world.document()['subsystems']),
             10000, 'all are there')
        t.eq(world.stop(), 0, 'the end')
        t.eq(world.alarms(), [], 'no failed check')
    finally:
        world.remove()


def main():
    t = Tap()
    for test in (sources, equal_sources, merges, files, nothing_named, relative_paths, power_cycle, self_check, many):
        with t.guard(test.__name__):
            test(t)
    sys.exit(t.done())


if __name__ == '__main__':
    main()
