# SPDX-License-Identifier: Apache-2.0
"""
A start never creates or empties a file that the state store knows. If an image is missing, cut or replaced by
something else, its namespace is inaccessible, health is red, one line of the log has the file and the remedy, the
file is left as it is, and everything else is served. `recheck` serves it again when the data are back. Only
`recreate` empties it, under a new UUID.
"""

import json
import os
import shutil
import sqlite3
import sys

import store_world
from store_world import World, quoted

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'wire'))
import nvmetcp as n  # noqa: E402
from tap import Tap  # noqa: E402

NQN = store_world.DEFAULT_NQN
SUB = '/v1/subsystems/' + quoted(NQN)
BLOCK = 4096
MIB = 1 << 20
INACCESSIBLE = (3, 0x02)
ANA_LOG = 0x0c
UUIDS = {1: '6f1c7b9a-52e0-4d0b-9a39-1f0f5c1d2e31', 2: '6f1c7b9a-52e0-4d0b-9a39-1f0f5c1d2e32'}


def host_of(world):
    return n.Host(('127.0.0.1', world.port), NQN)


def fill(world, nsid, byte):
    with host_of(world) as host:
        host.queue().put(nsid, 0, bytes([byte]) * BLOCK, BLOCK)


def read(world, nsid):
    """Returns the status and the first byte of the first block."""
    with host_of(world) as host:
        cmd = host.queue().read(nsid, 0, 1, BLOCK)
        return cmd.status, bytes(cmd.data)[:1] if cmd.status == n.OK else None


def ana_state(world, nsid):
    """State of the namespace's group in the ANA log."""
    with host_of(world) as host:
        page = bytes(host.admin.get_log(ANA_LOG, 4096).data)
    at, groups = 16, int.from_bytes(page[8:10], 'little')
    for _ in range(groups):
        count = int.from_bytes(page[at + 4:at + 8], 'little')
        nsids = [int.from_bytes(page[at + 32 + 4 * i:at + 36 + 4 * i], 'little') for i in range(count)]
        if nsid in nsids:
            return page[at + 16] & 0xf
        at += 32 + 4 * count
    return None


def ns_of(world, nsid=1):
    return world.call('GET', '%s/namespaces/%d' % (SUB, nsid))[1]


def problems(world):
    status, answer = world.call('GET', '/v1/health')
    return status, [problem['text'] for problem in answer['problems'] if problem['severity'] == 'error']


def expect_lost(t, world, path, what, nsid=1):
    t.eq(read(world, nsid)[0], INACCESSIBLE, what + ': reads are inaccessible', 'Base 8.1.1.3')
    t.eq(ana_state(world, nsid), 3, what + ': the ANA log says so too', 'Base 8.1.1.3')
    t.ok(ns_of(world, nsid)['live']['lost'], what + ': the API says so')
    status, texts = problems(world)
    t.ok(status == 503 and any(path in text for text in texts), what + ': health is red',
         why='%s %s' % (status, texts))
    world.says('recreate')
    lines = [line for line in world.log().splitlines() if path in line and 'recreate' in line]
    t.ok(len(lines) == 1 and 'recheck' in lines[0], what + ': one line tells file and remedy',
         why=world.log())


def size_of(path):
    return os.path.getsize(path) if os.path.exists(path) else None


def start(t, world, what):
    return t.ok(world.start(shim=False), what + ': it starts', why=world.log())


def spoil(t, what, options, do):
    """Makes two images and calls do(path) for the first while the target is down."""
    world = World()
    image, other = (os.path.join(world.folder, name) for name in ('one', 'two'))
    with open(image, 'wb') as file:
        file.truncate(4 * MIB)
    world.args = ['--listen', '127.0.0.1:%d' % world.port, '--ns', 'file:%s%s' % (image, options),
                  '--ns', 'file:%s,size=1M' % other]
    try:
        start(t, world, what)
        fill(world, 1, 0x11)
        fill(world, 2, 0x22)
        uuid, size = ns_of(world)['uuid'], ns_of(world)['live']['size_bytes']
        world.stop()
        shutil.copyfile(image, image + '.saved')
        do(image)
        spoilt = size_of(image)
        for times in ('first', 'second'):
            start(t, world, what)
            expect_lost(t, world, image, '%s, %s start' % (what, times))
            t.eq(ns_of(world)['live']['size_bytes'], size, what + ': it has the size that hosts know')
            t.eq(read(world, 2), (n.OK, b'\x22'), what + ': the other namespace is served')
            t.eq(size_of(image), spoilt, what + ': the file is as it was')
            if times == 'first':
                world.stop()
        status, answer = world.call('PATCH', SUB + '/namespaces/1', {'recheck': True})
        t.ok(status >= 400 and image in str(answer), what + ': recheck finds it lost still',
             why='%s %s' % (status, answer))
        world.change('POST', SUB + '/namespaces', {'nsid': 3, 'media': 'mem:1M'})
        t.eq(read(world, 1)[0], INACCESSIBLE, what + ': other changes leave it lost')
        if os.path.isdir(image):
            os.rmdir(image)
        shutil.copyfile(image + '.saved', image)
        t.eq(read(world, 1)[0], INACCESSIBLE, what + ': nobody takes up a file that is perhaps half there')
        world.change('PATCH', SUB + '/namespaces/1', {'recheck': True})
        t.eq((read(world, 1), ns_of(world)['uuid']), ((n.OK, b'\x11'), uuid),
             what + ': recheck brings it back as it was')
        t.eq(problems(world), (200, []), what + ': health is green again')
        t.eq(world.stop(), 0, what + ': the end')
        start(t, world, what + ', restored')
        t.eq(read(world, 1), (n.OK, b'\x11'), what + ': so it is after a restart')
        world.stop()
        do(image)
        start(t, world, what + ', again')
        world.change('PATCH', SUB + '/namespaces/1', {'recreate': True}) if not os.path.isdir(image) else None
        if not os.path.isdir(image):
            t.eq(read(world, 1), (n.OK, b'\0'), what + ': recreated, it is empty')
            t.ok(ns_of(world)['uuid'] != uuid, what + ': and another namespace')
            t.eq(size_of(image), size, what + ': of the same size')
            t.eq(size_of(image + '.lost'), spoilt, what + ': what was left is beside it')
            status, _ = world.call('PATCH', SUB + '/namespaces/1', {'recreate': True})
            t.ok(status >= 400, what + ': one that is there is not recreated', why=status)
            t.eq(world.stop(), 0, what + ': the end')
            start(t, world, what + ', recreated')
            t.eq(read(world, 1)[0], n.OK, what + ': it is served after a restart')
        t.eq(world.alarms(), [], what + ': no alarm in the log')
    finally:
        world.remove()


def cut(path):
    os.truncate(path, MIB)


def replace(path):
    os.unlink(path)
    os.mkdir(path)


def default_image(t):
    world = World()
    world.args = ['--listen', '127.0.0.1:%d' % world.port]
    image = os.path.join(world.state, 'default.img')
    try:
        start(t, world, 'the default image')
        fill(world, 1, 0x33)
        world.stop()
        os.unlink(image)
        start(t, world, 'the default image, deleted')
        expect_lost(t, world, image, 'the default image')
        t.ok(not os.path.exists(image), 'the default image is not made again')
        world.change('PATCH', SUB + '/namespaces/1', {'recreate': True})
        t.eq(read(world, 1), (n.OK, b'\0'), 'recreate makes it again')
    finally:
        world.remove()


def other_source(t):
    """A new document that names a file which the target knows: no empty file is created."""
    world = World()
    image = os.path.join(world.folder, 'one')
    world.args = ['--listen', '127.0.0.1:%d' % world.port, '--ns', 'file:%s,size=1M' % image]
    try:
        start(t, world, 'flags')
        fill(world, 1, 0x44)
        world.stop()
        os.unlink(image)
        world.args = ['--listen', '127.0.0.1:%d' % world.port, '--ns', 'mem:1M', '--ns',
                      'file:%s,size=2M' % image, '--reset']
        if t.ok(world.start(shim=False), 'other flags: it starts', why=world.log()):
            t.eq((read(world, 1)[0], read(world, 2)[0]), (n.OK, INACCESSIBLE),
                 'a known file under another number is lost, not made')
            t.ok(not os.path.exists(image), 'and is not made')
    finally:
        world.remove()


def removed(t):
    """A start with a document that gives a removed namespace's UUID another file: there is no client to refuse."""
    world = World()
    image, other, path = (os.path.join(world.folder, name) for name in ('one', 'two', 'config.json'))
    world.args = ['--listen', '127.0.0.1:%d' % world.port, '--ns', 'file:%s,size=1M' % image, '--ns', 'mem:1M']
    try:
        start(t, world, 'removed')
        uuid = ns_of(world)['uuid']
        world.change('DELETE', SUB + '/namespaces/1')
        world.stop()
        with open(other, 'wb') as file:
            file.write(b'\x77' * MIB)
        with open(path, 'w') as file:
            json.dump({'version': 1, 'subsystems': [{'nqn': NQN, 'namespaces': [
                {'nsid': 1, 'media': 'file:%s,size=1M' % other, 'uuid': uuid}]}]}, file)
        world.args = ['-c', path, '--merge']
        start(t, world, 'the UUID of a removed namespace on another file')
        t.eq((read(world, 1)[0], read(world, 2)[0]), (INACCESSIBLE, n.OK), 'it is lost, the others are served')
        t.ok('removed drop ' + uuid in world.log(), 'the log says why, and what to do', why=world.log())
        status, answer = world.call('PATCH', SUB + '/namespaces/1', {'recheck': True})
        t.ok(status == 409 and 'removed drop' in str(answer), 'recheck says so too', why='%s %s' % (status, answer))
        world.change('DELETE', '/v1/removed/' + uuid)
        world.change('PATCH', SUB + '/namespaces/1', {'recheck': True})
        t.eq((read(world, 1), ns_of(world)['uuid']), ((n.OK, b'\x77'), uuid), 'dropped, and the file is taken')
        t.eq(problems(world), (200, []), 'health is green')
        t.eq(world.stop(), 0, 'the end')
        world.args = []
        start(t, world, 'once more')
        t.eq(read(world, 1), (n.OK, b'\x77'), 'so it is after a restart')
        world.stop()
    finally:
        world.remove()


def refused(t):
    """A recheck in a request that is refused for another field has no effect, then or with a later change."""
    world = World()
    image = os.path.join(world.folder, 'one')
    world.args = ['--listen', '127.0.0.1:%d' % world.port, '--ns', 'file:%s,size=1M' % image]
    try:
        start(t, world, 'refused')
        fill(world, 1, 0x55)
        world.stop()
        os.rename(image, image + '.saved')
        start(t, world, 'refused, without its file')
        uuid = ns_of(world)['uuid']
        for action in ('recheck', 'recreate'):
            status, answer = world.call('PATCH', SUB + '/namespaces/1', {action: True, 'ana_group': 0})
            t.eq(status, 400, 'a %s with a wrong field is refused: %s' % (action, answer['detail']))
        with open(image, 'wb') as file:
            file.truncate(MIB)  # a restore has begun
        world.change('POST', SUB + '/namespaces', {'nsid': 7, 'media': 'mem:1M'})
        t.eq((read(world, 1)[0], ns_of(world)['uuid']), (INACCESSIBLE, uuid),
             'another change does not open the half restored file')
        shutil.copyfile(image + '.saved', image)
        world.change('PATCH', SUB + '/namespaces/1', {'recheck': True})
        t.eq(read(world, 1), (n.OK, b'\x55'), 'a recheck that is not refused does')
        world.stop()
    finally:
        world.remove()


def document_of(world, path, images):
    """Writes a document with these images, by NSID and UUID, and a namespace in memory."""
    with open(path, 'w') as file:
        json.dump({'version': 1, 'subsystems': [{'nqn': NQN, 'serial': 'S1', 'allow_any_host': True, 'namespaces': [
            {'nsid': nsid, 'media': 'file:' + image, 'uuid': UUIDS[nsid]} for nsid, image in images.items()] + [
                {'nsid': 9, 'media': 'mem:1M'}]}],
                   'ports': [{'id': 1, 'address': '127.0.0.1', 'service': str(world.port)}]}, file)


def left_out(t, how):
    """Namespaces that a start with --reset leaves out return with the files that they had, and only with those."""
    world = World()
    images = {nsid: os.path.join(world.folder, 'image-%d' % nsid) for nsid in (1, 2)}
    full, less = (os.path.join(world.folder, name + '.json') for name in ('full', 'less'))
    document_of(world, full, images)
    document_of(world, less, {})
    try:
        for nsid, image in images.items():
            with open(image, 'wb') as file:
                file.write(bytes([nsid]) * MIB)
        world.args = ['-c', full]
        start(t, world, how + ': the whole document')
        world.reserve()
        t.eq(world.stop(), 0, 'the end')
        world.args = ['-c', less, '--reset']
        start(t, world, how + ': a shorter one')
        known = {entry['uuid']: entry for entry in world.call('GET', '/v1/removed')[1]['removed']}
        t.eq({uuid: entry['path'] for uuid, entry in known.items()}, {UUIDS[nsid]: images[nsid] for nsid in images},
             how + ': what left is known as removed')
        os.rename(images[1], images[1] + '.x')
        os.rename(images[2], images[1])
        os.rename(images[1] + '.x', images[2])
        if how == 'rollback':
            status, answer = world.call('POST', '/v1/history/1/rollback')
            t.ok(status // 100 == 4 and 'removed drop' in str(answer), how + ': files with exchanged names are refused',
                 why='%s %s' % (status, answer))
        else:
            t.eq(world.stop(), 0, 'the end')
            world.args = ['-c', full, '--' + how]
            start(t, world, how + ': the whole document with exchanged names')
            t.eq([read(world, nsid)[0] for nsid in (1, 2)], [INACCESSIBLE] * 2, how + ': none is served with the other\'s data')
            t.eq(problems(world)[0], 503, how + ': health says so')
        os.rename(images[1], images[1] + '.x')
        os.rename(images[2], images[1])
        os.rename(images[1] + '.x', images[2])
        if how == 'rollback':
            world.change('POST', '/v1/history/1/rollback')
        else:
            for nsid in (1, 2):
                world.change('PATCH', SUB + '/namespaces/%d' % nsid, {'recheck': True})
        t.ok(world.is_reserved(), how + ': the reservation is back with its file')
        t.eq(read(world, 2), (n.OK, b'\x02'), how + ': and so are the data')
        t.eq(world.call('GET', '/v1/removed')[1]['removed'], [], how + ': nothing is removed any more')
    finally:
        world.remove()


def aged(t):
    """A namespace that returns after a long time has its kept state, also after the next restart."""
    world = World()
    image, path = (os.path.join(world.folder, name) for name in ('image', 'config.json'))
    document_of(world, path, {1: image + ',size=1M'})
    world.args = ['-c', path]
    try:
        start(t, world, 'aged')
        world.reserve()
        world.change('DELETE', SUB + '/namespaces/1')
        t.eq(world.stop(), 0, 'the end')
        store = sqlite3.connect(os.path.join(world.state, 'weft.db'))
        where = "kind = 'removed' AND key = 'namespaces'"
        words = bytes(store.execute('SELECT value FROM kept WHERE ' + where).fetchone()[0]).decode().split(' ')
        t.eq(words[0], UUIDS[1], 'aged: it is known as removed')
        words[1] = str(int(words[1]) - 91 * 86400)
        store.execute('UPDATE kept SET value = ? WHERE ' + where, (' '.join(words).encode(),))
        store.commit()
        store.close()
        world.args = ['-c', path, '--merge']
        start(t, world, 'aged by 91 days, and put back')
        t.ok(world.is_reserved(), 'aged: it comes back with its reservation')
        t.eq(world.stop(), 0, 'the end')
        world.args = []
        start(t, world, 'aged, started again')
        t.ok(world.is_reserved(), 'aged: and has it after a restart')
    finally:
        world.remove()


def main():
    t = Tap()
    for name, part in (
            ('deleted', lambda: spoil(t, 'deleted', ',size=4M', os.unlink)),
            ('cut', lambda: spoil(t, 'cut', ',size=4M', cut)),
            ('cut without size=', lambda: spoil(t, 'cut without size=', '', cut)),
            ('replaced', lambda: spoil(t, 'replaced', ',size=4M', replace)),
            ('default image', lambda: default_image(t)),
            ('removed', lambda: removed(t)),
            ('refused', lambda: refused(t)),
            ('left out, rollback', lambda: left_out(t, 'rollback')),
            ('left out, reset', lambda: left_out(t, 'reset')),
            ('left out, merge', lambda: left_out(t, 'merge')),
            ('aged', lambda: aged(t)),
            ('other source', lambda: other_source(t))):
        with t.guard(name):
            part()
    sys.exit(t.done())


main()
