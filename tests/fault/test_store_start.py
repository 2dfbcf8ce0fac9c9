# SPDX-License-Identifier: Apache-2.0
"""
What `weft serve` starts with: the kept state when the source (file or flags) is the one it began
with, or none is named; another source replaces it; --reset forgets it; a reload counts as a source.
Write protection until the power cycle ends with the process. The self-check leaves nothing behind.
A thousand subsystems with ten thousand namespaces start from the store alone.
"""

import json
import os
import signal
import sqlite3
import sys
import time

import store_world
from store_world import World, poll, quoted

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'wire'))
from tap import Tap  # noqa: E402

# 2 s are wanted and bench/footprint measures them; here other tests and sanitizers may run beside.
START_LIMIT_S = 30.0
ADDED = store_world.NQN % 'added'


def nqns(world):
    return [subsystem['nqn'] for subsystem in world.document()['subsystems']]


def begin(t, world, args, what):
    world.args = args
    return t.ok(world.start(shim=False), what + ': it starts', why=world.log())


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
        t.eq(nqns(world), both, 'the same flags: the kept state')
        t.ok('kept state' in world.log(), 'and the log says so', why=world.log())
        world.stop()
        begin(t, world, [], 'no source')
        t.eq(nqns(world), both, 'no source: the kept state')
        world.stop()
        begin(t, world, listen + ['--ns', 'mem:2M'], 'other flags')
        t.eq(nqns(world), [store_world.DEFAULT_NQN], 'other flags: they replace it')
        t.ok('replaces the kept state' in world.log() and 'difference' in world.log(),
             'and the log says what differs', why=world.log())
        world.change('POST', '/v1/subsystems', {'nqn': ADDED})
        world.stop()
        begin(t, world, listen + ['--ns', 'mem:2M', '--reset'], '--reset')
        t.eq(nqns(world), [store_world.DEFAULT_NQN], '--reset: the flags count')
        world.stop()
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
        document['subsystems'].append({'nqn': store_world.NQN % 'second'})
        put()
        world.process.send_signal(signal.SIGHUP)
        poll(lambda: 'is in force' in world.log())
        wanted = [store_world.NQN % 'file', store_world.NQN % 'second']
        t.eq(nqns(world), wanted, 'SIGHUP: the file replaces the state')
        world.change('POST', '/v1/subsystems', {'nqn': ADDED})
        world.stop()
        begin(t, world, ['-c', path], 'the reloaded file')
        t.eq(sorted(nqns(world)), sorted(wanted + [ADDED]), 'it is the source from then on')
        # A file with a mistake changes nothing, at a reload and at a start.
        document['subsytems'] = []
        put()
        world.process.send_signal(signal.SIGHUP)
        poll(lambda: 'was not applied' in world.log())
        t.eq(len(nqns(world)), 3, 'SIGHUP with a mistake: the state stays')
        world.stop()
        t.ok(not world.start(shim=False) and 'subsytems' in world.log(),
             'a start with a mistake is refused', why=world.log())
    finally:
        world.remove()


def nothing_named(t):
    world = World()
    try:
        # Without a source there is no other way to keep it off the usual port than the kept state.
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
    for test in (sources, files, nothing_named, relative_paths, power_cycle, self_check, many):
        with t.guard(test.__name__):
            test(t)
    sys.exit(t.done())


if __name__ == '__main__':
    main()
