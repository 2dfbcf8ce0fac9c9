#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Members of a cluster with different files, sizes or block sizes under one UUID: the member that came later is
refused before a host can use the namespace there, the other member keeps serving, and both agree again once the
files are the same. docs/adr/0035-members-compare-files.md.
"""

import os
import shutil
import signal
import subprocess

import nvmetcp as n
import target
from peerlink import FAILED, SUCCESS, Instance, World, can_loop, host_of, loop_make, reset
from tap import Tap

BLOCK = 4096
INACCESSIBLE = n.ANA_INACCESSIBLE
OLD, NEW = b'\x11' * BLOCK, b'\x22' * BLOCK
NS = '/v1/subsystems/%s/namespaces/1' % target.NQN


def problems(world, name):
    answer = world.api(name).get('/v1/health')
    return answer.status, ' '.join(p['text'] for p in answer.json['problems'])


def read(world, name, lba=0, block=BLOCK):
    with host_of(world[name]) as host:
        cmd = host.queue().read(1, lba, 1, block=block)
        return cmd.status, bytes(cmd.data or b'')


def write(world, name, lba, data):
    with host_of(world[name]) as host:
        conn = host.queue()
        return conn.wait(conn.rw(n.WRITE, 1, lba, 1, BLOCK, data)).status


def is_served(world, name, block=BLOCK):
    return read(world, name, block=block)[0] == n.OK


def hide(world, name, twin):
    """In its own mount namespace, the member sees another file or device under the same path."""
    member = world[name]
    command = member.command
    member.command = lambda: ['unshare', '-m', 'sh', '-c', 'mount --bind "$0" "$1" && shift && exec "$@"',
                              twin, world.disk] + command()
    return command


def refused(t, world, what):
    status, text = problems(world, 'b')
    t.ok(status == 503 and 'member b and member a have different files' in text and 'recheck' in text,
         what + ': health of the newcomer is red, names both and the remedy', why=(status, text))
    t.eq(read(world, 'b')[0], INACCESSIBLE, what + ': nothing is read through it', 'Base 8.1.1')
    t.eq(write(world, 'b', 1, NEW), INACCESSIBLE, what + ': nothing is written through it', 'Base 8.1.1')
    status, text = problems(world, 'a')
    t.ok(status == 200 and 'member a and member b have different files' in text,
         what + ': the other one is well, and says what it has seen', why=(status, text))
    t.eq(read(world, 'a'), (n.OK, OLD), what + ': it serves on')


def perf(t, world):
    paths = []
    for name in ('a', 'b'):
        paths += ['--path', '127.0.0.1:%d' % world[name].port]
    run = subprocess.run([target.weft_path(), 'perf'] + paths +
                         ['--nqn', target.NQN, '--rw', 'randrw', '--verify', '--time', '1s', '--size', '1M',
                          '--policy', 'round-robin', '--depth', '16', '--quiet'],
                         capture_output=True, text=True, timeout=120)
    t.ok(run.returncode == 0, 'a host over both paths reads what it wrote', why=run.stdout + run.stderr)


def newcomer(t, world, twin):
    world['a'].start()
    t.eq(write(world, 'a', 0, OLD), n.OK, 'the first member serves')
    command = hide(world, 'b', twin)
    world['b'].start()
    refused(t, world, 'another file in a mount namespace')
    perf(t, world)
    with host_of(world['a']) as one:
        two = host_of(world['b'])
        who = Instance(two)
        world['b'].process.send_signal(signal.SIGKILL)
        world['b'].process.wait()
        t.eq(reset(one, who), FAILED, 'free locks on another file do not prove that its process is dead')
        two.close()
    world['b'].command = command
    world['b'].start()
    t.ok(target.poll(lambda: is_served(world, 'b')), 'a restart with the right file is served')
    t.eq(read(world, 'b'), read(world, 'a'), 'with the data of all')
    t.eq([problems(world, name)[0] for name in ('a', 'b')], [200, 200], 'and both are well')
    with host_of(world['a']) as one, host_of(world['b']) as two:
        t.eq(reset(one, Instance(two)), SUCCESS, 'and reset each other')


def device(t):
    why = can_loop()
    if why:
        t.skip('block devices', why)
        return
    world = World(start=False, is_device=True)
    image = os.path.join(world.folder, 'twin.img')
    twin = loop_make(image)
    try:
        newcomer(t, world, twin)
    finally:
        world.finish(t)
        subprocess.run(['losetup', '-d', twin], check=True, timeout=20)


def mounted(t):
    if subprocess.run(['unshare', '-m', 'true'], capture_output=True).returncode != 0:
        t.skip('a mount namespace', 'not allowed here')
        return
    world = World(start=False)
    twin = os.path.join(world.folder, 'twin.img')
    with open(twin, 'wb') as file:
        file.truncate(8 << 20)
    try:
        newcomer(t, world, twin)
    finally:
        world.finish(t)


def own_path(world, name, path):
    """This member uses another path for its file."""
    ns = world[name].config['subsystems'][0]['namespaces'][0]
    ns['media'] = ns['media'].replace(world.disk, path)
    world[name].write_config()


def in_place(t):
    """recheck finds a corrected file; a refused file stays refused while the other member is away."""
    world = World(start=False)
    path = os.path.join(world.folder, 'b', 'disk.img')
    own_path(world, 'b', path)
    try:
        world['a'].start()
        write(world, 'a', 0, OLD)
        shutil.copy(world.disk, path)
        world['b'].start()
        refused(t, world, 'a copy')
        answer = world.api('b').patch(NS, {'recheck': True})
        t.ok(answer.status in (200, 202), 'a recheck of it is taken', why=answer.json)
        refused(t, world, 'the same copy again')
        world['a'].process.send_signal(signal.SIGKILL)
        world['a'].process.wait()
        t.ok(world.wait_up('a', 'b', up=False) and world['b'].wait_log('peer a has disconnected'),
             'the one that served is killed')
        t.eq(read(world, 'b')[0], INACCESSIBLE, 'the copy is not served in its place: its data are old')
        world['a'].start()
        t.ok(world.wait_up('a', 'b') and world.wait_up('b', 'a'), 'it is back')
        t.eq(read(world, 'b')[0], INACCESSIBLE, 'the copy is still not served')
        refused(t, world, 'the copy of before')
        os.link(world.disk, path + '.right')
        os.rename(path + '.right', path)
        answer = world.api('b').patch(NS, {'recheck': True})
        t.ok(answer.status == 200, 'the right file is in place: recheck', why=answer.json)
        t.ok(target.poll(lambda: is_served(world, 'b')), 'it is served')
        t.eq(read(world, 'b'), (n.OK, OLD), 'with the data of all')
        t.ok(target.poll(lambda: [problems(world, name)[0] for name in ('a', 'b')] == [200, 200]),
             'and both are well', why=[problems(world, name) for name in ('a', 'b')])
    finally:
        world.finish(t)


def chosen(t):
    """The operator may choose the copy while the other member is away; the other member is then refused."""
    world = World(start=False)
    path = os.path.join(world.folder, 'b', 'disk.img')
    own_path(world, 'b', path)
    try:
        world['a'].start()
        write(world, 'a', 0, OLD)
        shutil.copy(world.disk, path)
        world['b'].start()
        t.eq(read(world, 'b')[0], INACCESSIBLE, 'a copy is refused')
        world['a'].process.send_signal(signal.SIGKILL)
        world['a'].process.wait()
        t.ok(world.wait_up('a', 'b', up=False) and world['b'].wait_log('peer a has disconnected'),
             'the one that served is killed')
        t.eq(world.api('b').patch(NS, {'recheck': True}).status, 200, 'the operator decides for the copy')
        t.ok(target.poll(lambda: is_served(world, 'b')), 'it is served')
        world['a'].start()
        t.eq((read(world, 'a')[0], problems(world, 'a')[0]), (INACCESSIBLE, 503), 'the other one comes back, and is refused')
        t.ok(is_served(world, 'b'), 'the copy is served on')
        os.link(path, world.disk + '.right')
        os.rename(world.disk + '.right', world.disk)
        t.eq(world.api('a').patch(NS, {'recheck': True}).status, 200, 'both have the copy now')
        t.ok(target.poll(lambda: is_served(world, 'a')), 'both serve it')
    finally:
        world.finish(t)


def copy_refused(t, world, name='b', of='a'):
    """The member has its own copy from before the last write, and is refused."""
    path = os.path.join(world.folder, name, 'disk.img')
    own_path(world, name, path)
    world[of].start()
    write(world, of, 0, OLD)
    shutil.copy(world.disk, path)
    world[name].start()
    t.eq(read(world, name)[0], INACCESSIBLE, 'a copy is refused')
    t.eq(write(world, of, 0, NEW), n.OK, 'hosts write on through the other member')
    return path


def ended(world, name, number):
    world[name].process.send_signal(number)
    world[name].process.wait()


def stays(t, world, what):
    """The copy is still refused; the right file is served."""
    t.ok(world.wait_up('a', 'b') and world.wait_up('b', 'a'), what + ': both are linked')
    t.ok(target.poll(lambda: is_served(world, 'a')), what + ': the right file is served', why=problems(world, 'a'))
    t.eq(read(world, 'a'), (n.OK, NEW), what + ': with what was written last')
    t.eq((read(world, 'b')[0], problems(world, 'b')[0]), (INACCESSIBLE, 503), what + ': the copy is refused still')


def orderly(t):
    """A refused member stays refused when the namespace ends elsewhere in order, is removed, or is lost."""
    world = World(start=False)
    try:
        copy_refused(t, world)
        ended(world, 'a', signal.SIGTERM)
        t.ok(world.wait_up('a', 'b', up=False) and world['b'].wait_log('peer a has disconnected'),
             'the one that serves ends in order')
        t.eq((read(world, 'b')[0], problems(world, 'b')[0]), (INACCESSIBLE, 503),
             'the copy is not served in its place', 'Base 8.1.1')
        world['a'].start()
        stays(t, world, 'a restart of it')
        gone = world.api('a').delete(NS)
        t.ok(gone.status in (200, 204), 'its namespace is removed', why=gone.json)
        t.ok(target.poll(lambda: 'member' not in problems(world, 'a')[1]), 'it has none')
        t.eq((read(world, 'b')[0], problems(world, 'b')[0]), (INACCESSIBLE, 503),
             'a list without the namespace releases nothing')
        back = world.api('a').post('/v1/history/1/rollback', None)
        t.ok(back.status == 200, 'and put back', why=back.json)
        stays(t, world, 'removed and put back')
        ended(world, 'a', signal.SIGKILL)
        os.rename(world.disk, world.disk + '.away')
        world['a'].start()
        t.ok(world.wait_up('a', 'b') and world.wait_up('b', 'a'), 'it starts without its file')
        t.eq((read(world, 'b')[0], problems(world, 'b')[0]), (INACCESSIBLE, 503), 'a lost file there releases nothing')
        os.rename(world.disk + '.away', world.disk)
        t.eq(world.api('a').patch(NS, {'recheck': True}).status, 200, 'the file is back')
        stays(t, world, 'the file back')
    finally:
        world.finish(t)


def remembered(t):
    """A refusal outlives the process, until the operator decides or the same file is found."""
    world = World(start=False)
    try:
        path = copy_refused(t, world)
        for name in ('a', 'b'):
            ended(world, name, signal.SIGKILL)
        world['b'].start()
        status, text = problems(world, 'b')
        t.ok(status == 503 and 'member b and member a have different files' in text,
             'after a power cut of all the member with the copy starts alone, and says why it waits', why=(status, text))
        t.eq(read(world, 'b')[0], INACCESSIBLE, 'the copy is not served', 'Base 8.1.1')
        world['a'].start()
        stays(t, world, 'the other one started')
        for name in ('a', 'b'):
            ended(world, name, signal.SIGTERM)
        world['b'].start()
        t.eq(read(world, 'b')[0], INACCESSIBLE, 'and so it is after an orderly end of all')
        t.eq(world.api('b').patch(NS, {'recheck': True}).status, 200, 'the operator decides for the copy')
        t.ok(target.poll(lambda: is_served(world, 'b')), 'it is served')
        ended(world, 'b', signal.SIGKILL)
        world['b'].start()
        t.ok(target.poll(lambda: is_served(world, 'b')), 'and after a restart too')
        world['a'].start()
        t.eq((read(world, 'a')[0], problems(world, 'a')[0]), (INACCESSIBLE, 503), 'the other one is refused now')
        os.link(path, world.disk + '.right')
        os.rename(world.disk + '.right', world.disk)
        ended(world, 'a', signal.SIGKILL)
        world['a'].start()
        t.ok(target.poll(lambda: is_served(world, 'a')), 'with the same file it is served after a restart')
        ended(world, 'a', signal.SIGKILL)
        ended(world, 'b', signal.SIGKILL)
        world['a'].start()
        t.ok(target.poll(lambda: is_served(world, 'a')), 'and nothing of the refusal is left')
    finally:
        world.finish(t)


def copied_anew(t):
    """
    The refused file is replaced by a new copy (rsync, a restore): another file, not proven to be the right one.
    """
    world = World(start=False)
    try:
        path = copy_refused(t, world)
        for name in ('a', 'b'):
            ended(world, name, signal.SIGKILL)
        for what in ('copied anew', 'and once more'):
            shutil.copy(path, path + '.new')
            os.rename(path + '.new', path)
            world['b'].start()
            status, text = problems(world, 'b')
            t.ok(status == 503 and 'was refused' in text and 'member a' in text and 'recheck' in text,
                 what + ': the member with the copy starts alone, and says why it waits', why=(status, text))
            t.eq(read(world, 'b')[0], INACCESSIBLE, what + ': it is not served', 'Base 8.1.1')
            ended(world, 'b', signal.SIGKILL)
        world['b'].start()
        world['a'].start()
        stays(t, world, 'copied anew, the other one started')
        for name in ('a', 'b'):
            ended(world, name, signal.SIGTERM)
        os.unlink(path)
        os.link(world.disk, path)
        world['b'].start()
        t.eq(read(world, 'b')[0], INACCESSIBLE, 'the right file waits for the other member, too: nobody can tell')
        world['a'].start()
        for name in ('a', 'b'):
            t.ok(target.poll(lambda: is_served(world, name)), 'with the right file %s serves' % name,
                 why=problems(world, name))
        for name in ('a', 'b'):
            ended(world, name, signal.SIGKILL)
        world['b'].start()
        t.ok(target.poll(lambda: is_served(world, 'b')), 'and nothing of the refusal is left', why=problems(world, 'b'))
    finally:
        world.finish(t)


def put_right(t):
    """A member that never served the namespace claims no file when the namespace is removed there."""
    world = World(start=False)
    try:
        path = copy_refused(t, world)
        t.ok(world.api('b').delete(NS).status in (200, 204), 'the namespace is removed where it is refused')
        os.unlink(path)
        os.link(world.disk, path)
        back = world.api('b').post('/v1/history/1/rollback', None)
        t.ok(back.status == 200, 'it comes back with the right file, whatever it had', why=back.json)
        t.ok(target.poll(lambda: is_served(world, 'b')), 'and is served', why=problems(world, 'b'))
        t.eq(read(world, 'b'), (n.OK, NEW), 'with the data of all')
    finally:
        world.finish(t)


def replaced(t):
    """A refused file is not recorded as the file served last."""
    world = World(start=False)
    try:
        world['a'].start()
        world['b'].start()
        t.ok(target.poll(lambda: is_served(world, 'b')), 'both serve')
        ended(world, 'b', signal.SIGKILL)
        os.rename(world.disk, world.disk + '.right')
        shutil.copy(world.disk + '.right', world.disk)
        for what in ('a start', 'the next start'):
            world['b'].start()
            t.ok('served last' in problems(world, 'b')[1],
                 what + ' with another file: health says that it is not the one that was served last',
                 why=problems(world, 'b'))
            t.eq(read(world, 'b')[0], INACCESSIBLE, what + ': it is refused')
            ended(world, 'b', signal.SIGKILL)
        os.rename(world.disk + '.right', world.disk)
        world['b'].start()
        t.ok(target.poll(lambda: is_served(world, 'b')), 'the right file is served')
        t.ok(target.poll(lambda: problems(world, 'b') == (200, '')), 'without a word', why=problems(world, 'b'))
    finally:
        world.finish(t)


def one_way(t, blind, what):
    """`blind` has a wrong address of the other member, so there is a link in one direction only."""
    world = World(start=False)
    world[blind].config['cluster']['peers'][0]['address'] = 'unix:' + os.path.join(world.folder, 'nowhere.sock')
    world[blind].write_config()
    other = 'b' if blind == 'a' else 'a'
    try:
        path = os.path.join(world.folder, 'b', 'disk.img')
        own_path(world, 'b', path)
        world['a'].start()
        write(world, 'a', 0, OLD)
        shutil.copy(world.disk, path)
        world['b'].start()
        t.ok(world.wait_up(blind, other), what + ': a link in one direction')
        t.ok(not world.peer(other, blind)['up'], what + ': and none in the other')
        # A newcomer that was not compared within 10 s, on a busy machine, serves until it is.
        t.ok(target.poll(lambda: problems(world, 'b')[0] == 503), what + ': the newcomer gives way')
        refused(t, world, what)
        os.link(world.disk, path + '.right')
        os.rename(path + '.right', path)
        t.eq(world.api('b').patch(NS, {'recheck': True}).status, 200, what + ': the right file: recheck')
        t.ok(target.poll(lambda: is_served(world, 'b')), what + ': it is served')
        t.ok(target.poll(lambda: [problems(world, name)[0] for name in ('a', 'b')] == [200, 200]),
             what + ': both are well', why=[problems(world, name) for name in ('a', 'b')])
    finally:
        world.finish(t)


def directions(t):
    one_way(t, 'a', 'the newcomer is not reached')
    one_way(t, 'b', 'the newcomer reaches nobody')


def formats(t):
    world = World(start=False)
    ns = world['b'].config['subsystems'][0]['namespaces'][0]
    ns['media'] = ns['media'].replace('block=4096', 'block=512')
    world['b'].write_config()
    try:
        world['a'].start()
        world['b'].start()
        status, text = problems(world, 'b')
        t.ok(status == 503 and 'in blocks of 512' in text and 'in blocks of 4096' in text and 'member a' in text,
             'another block size: health of the newcomer is red', why=(status, text))
        t.eq(read(world, 'b', block=512)[0], INACCESSIBLE, 'it serves nothing', 'Base 8.1.1')
        t.ok(is_served(world, 'a'), 'the other one does')
        world['b'].process.send_signal(signal.SIGTERM)
        world['b'].process.wait()
        ns['media'] = ns['media'].replace('block=512', 'block=4096')
        world['b'].write_config()
        world['b'].start('--reset')
        t.ok(target.poll(lambda: is_served(world, 'b')), 'with the same block size both serve')
        t.eq(world.api('b').patch(NS, {'size': '16M'}).status, 200, 'one is resized')
        t.eq(read(world, 'b')[0], INACCESSIBLE, 'it is inaccessible from then on: no host sees two sizes')
        t.ok('16777216 bytes' in problems(world, 'b')[1], 'and says why', why=problems(world, 'b'))
        t.ok(world['b'].wait_log('member b has 16777216 bytes in blocks of 4096 under this UUID, '
                                 'member a has 8388608 in'), 'and so does the log')
        t.ok(is_served(world, 'a'), 'the other one serves on')
        t.eq(world.api('a').patch(NS, {'size': '16M'}).status, 200, 'the other one is resized')
        t.ok(is_served(world, 'a'), 'and serves on')
        t.ok(target.poll(lambda: is_served(world, 'b')), 'then both serve again')
        t.eq([problems(world, name)[0] for name in ('a', 'b')], [200, 200], 'and both are well')
        t.eq(world.api('b').patch(NS, {'size': '32M'}).status, 200, 'one is resized again')
        world['a'].process.send_signal(signal.SIGKILL)
        world['a'].process.wait()
        t.ok(target.poll(lambda: is_served(world, 'b')), 'it serves when the other one is dead')
    finally:
        world.finish(t)


def test(t):
    for part in (mounted, device, in_place, chosen, orderly, remembered, copied_anew, put_right, replaced, directions, formats):
        with t.guard(part.__name__):
            part(t)


def start():
    t = Tap()
    test(t)
    return t.done()


target.weft_path()
raise SystemExit(start())
