# SPDX-License-Identifier: Apache-2.0
"""
The identities of a target and its namespaces. Serial numbers and UUIDs are random, made once and kept in the
state folder: two targets with the same flags differ, a restart changes nothing, an export carries them to another
target. Memory gets a new UUID at every start. A namespace that is removed and added again, or has other data
under the same number, is another namespace.
"""

import os
import shutil
import subprocess
import sys

import store_world
from store_world import World, quoted

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'wire'))
import nvmetcp  # noqa: E402
import target as wire_target  # noqa: E402
from tap import Tap  # noqa: E402

NQN = store_world.DEFAULT_NQN
SUB = '/v1/subsystems/' + quoted(NQN)
GIVEN = '6f1c7b9a-52e0-4d0b-9a39-1f0f5c1d2e3f'


def start(t, world, what):
    return t.ok(world.start(shim=False), what + ': it starts', why=world.log())


def served(world, nsid=1):
    """Returns what a host reads: the serial number and the namespace's identification descriptors."""
    with nvmetcp.Host(('127.0.0.1', world.port), NQN) as host:
        ctrl = bytes(host.admin.identify(1).data)
        return ctrl[4:24].decode().strip(), bytes(host.admin.identify(3, nsid).data[:64])


def uuid_of(world, nsid=1):
    return world.call('GET', '%s/namespaces/%d' % (SUB, nsid))[1]['uuid']


def pair(*args):
    """Two worlds with the same flags except their port, as on two machines."""
    worlds = [World(), World()]
    for world in worlds:
        world.args = ['--listen', '127.0.0.1:%d' % world.port, *args]
    return worlds


def differ(t, what, worlds):
    """Two targets without configured identities differ; each keeps its own over a restart."""
    try:
        before = []
        for world in worlds:
            start(t, world, what)
            before.append(served(world))
        t.ok(before[0][0] != before[1][0], what + ': serial numbers of two targets differ', why=before)
        t.ok(before[0][1] != before[1][1], what + ': so do UUIDs and NGUIDs', why=before)
        for world, was in zip(worlds, before):
            t.eq(world.stop(), 0, what + ': the end')
            start(t, world, what + ', again')
            t.eq(served(world), was, what + ': a restart keeps all of it')
            world.process.kill()
            world.process.wait()
            start(t, world, what + ', after a kill')
            t.eq(served(world), was, what + ': so does a kill')
    finally:
        for world in worlds:
            world.remove()


def memory(t):
    worlds = pair('--ns', 'mem:1M')
    world = worlds[0]
    try:
        start(t, world, 'memory')
        serial, identity = served(world)
        uuid = uuid_of(world)
        t.ok(world.says('new UUID for this run'), 'the log tells of it', why=world.log())
        t.ok('uuid' not in world.document()['subsystems'][0]['namespaces'][0],
             'the document does not have it')
        world.change('PATCH', SUB + '/namespaces/1', {'size': '2M'})
        t.eq(uuid_of(world), uuid, 'memory that grows is the same')
        world.stop()
        start(t, world, 'memory, again')
        now = served(world)
        t.eq(now[0], serial, 'a restart keeps the serial number')
        t.ok(now[1] != identity, 'memory has another UUID and NGUID after a restart')
        world.change('PATCH', SUB + '/namespaces/1', {'uuid': GIVEN})
        world.stop()
        start(t, world, 'memory with a UUID that was given')
        t.eq(uuid_of(world), GIVEN, 'a UUID that was given stays')
    finally:
        for each in worlds:
            each.remove()


def namespaces(t, folder):
    world = pair('--ns', 'file:%s/a,size=1M' % folder)[0]
    try:
        start(t, world, 'a file')
        first = uuid_of(world)
        export = world.document()
        t.eq(export['subsystems'][0]['namespaces'][0]['uuid'], first, 'the export has the UUID')
        silent = world.document()
        for subsystem in silent['subsystems']:
            del subsystem['serial']
            for ns in subsystem['namespaces']:
                del ns['uuid'], ns['nguid']
        world.change('PUT', '/v1/config', silent)
        t.eq(world.document(), export, 'a document without identities changes none')
        world.change('PATCH', SUB + '/namespaces/1', {'media': 'file:%s/b,size=1M' % folder})
        other = uuid_of(world)
        t.ok(other != first, 'another file under the same number is another namespace')
        world.change('PUT', '/v1/config', export)
        t.eq(uuid_of(world), first, 'the export brings the first one back')
        world.change('DELETE', SUB + '/namespaces/1')
        world.change('POST', SUB + '/namespaces', {'nsid': 1, 'media': 'file:%s/a' % folder})
        again = uuid_of(world)
        t.ok(again not in (first, other), 'removed and added again: another UUID')
        status, answer = world.call('POST', SUB + '/namespaces',
                                    {'nsid': 2, 'media': 'mem:1M', 'uuid': again})
        t.ok(status == 400 and 'uuid' in str(answer).lower(), 'a UUID of another namespace is refused',
             why='%s %s' % (status, answer))
        status, answer = world.call('POST', SUB + '/namespaces',
                                    {'nsid': 2, 'media': 'mem:1M', 'nguid': again.replace('-', '')})
        t.ok(status == 400 and 'NGUID' in str(answer), 'an NGUID of another namespace is refused',
             why='%s %s' % (status, answer))
        moved = dict(world.document(), ports=[
            {'address': '127.0.0.1', 'service': str(world.port)}])
        world.stop()
        fresh = World(port=world.port)
        fresh.args = ['--listen', '127.0.0.1:%d' % world.port, '--ns', 'mem:1M']
        start(t, fresh, 'another target')
        fresh.change('PUT', '/v1/config', moved)
        t.eq((uuid_of(fresh), fresh.document()['subsystems'][0]['serial']),
             (again, export['subsystems'][0]['serial']), 'an export carries them to another target')
        fresh.remove()
    finally:
        world.remove()


def no_store(t, folder):
    """Without a writable state folder the start fails, because nothing could be kept."""
    path = os.path.join(folder, 'occupied')
    with open(path, 'w') as file:
        file.write('no folder')
    done = subprocess.run([wire_target.weft_path(), 'serve', '--ns', 'mem:1M', '--listen',
                           '127.0.0.1:0', '--discovery', 'none', '--state', path],
                          capture_output=True, text=True, timeout=store_world.START_TIMEOUT_S)
    t.ok(done.returncode == 1 and '--state' in done.stderr and path in done.stderr,
         'a state folder that cannot be used: no start, and the remedy', why=done.stderr)


def main():
    t = Tap()
    folder = wire_target.tempfile.mkdtemp(prefix='weft-identity-')
    for name, part in (('default', lambda: differ(t, 'the default', pair())),
                       ('memory', lambda: memory(t)),
                       ('namespaces', lambda: namespaces(t, folder)),
                       ('no store', lambda: no_store(t, folder))):
        with t.guard(name):
            part()
    shutil.rmtree(folder, ignore_errors=True)
    sys.exit(t.done())


main()
