#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
The image of a clustered namespace is deleted, or another file is renamed over it, while members serve it. Members
that have the image open keep serving it: its data exists nowhere else. A member that starts then finds another
file, or none, and serves nothing, even when it reaches no other member. docs/adr/0029-known-files.md,
docs/adr/0035-members-compare-files.md.
"""

import fcntl
import os
import shutil
import signal
import struct
import subprocess
import threading

import nvmetcp as n
import target
from peerlink import FAILED, SUCCESS, UUID, Instance, World, host_of, reset, reset_state, reset_submit
from tap import Tap

BLOCK = 4096
INACCESSIBLE = n.ANA_INACCESSIBLE
OLD, NEW, LAST = b'\x11' * BLOCK, b'\x22' * BLOCK, b'\x33' * BLOCK
NS = '/v1/subsystems/%s/namespaces/1' % target.NQN
DELETED = 'was deleted, or replaced by another'
UNASKED = 'cannot be asked'
F_OFD_SETLK = 37


def problems(world, name):
    answer = world.api(name).get('/v1/health')
    return answer.status, ' '.join(p['text'] for p in answer.json['problems'])


def read(world, name, lba=0):
    with host_of(world[name]) as host:
        cmd = host.queue().read(1, lba, 1, block=BLOCK)
        return cmd.status, bytes(cmd.data or b'')


def write(world, name, lba, data):
    with host_of(world[name]) as host:
        conn = host.queue()
        return conn.wait(conn.rw(n.WRITE, 1, lba, 1, BLOCK, data)).status


def is_served(world, name):
    return read(world, name)[0] == n.OK


def ended(world, name, number):
    world[name].process.send_signal(number)
    world[name].process.wait()


def replace(path):
    """Renames a copy of the same size over the file, as a restored backup does."""
    shutil.copyfile(path, path + '.new')
    os.rename(path + '.new', path)


def copied(world):
    """The data that `weft copy` reads through both members."""
    to = os.path.join(world.folder, 'copy')
    where = 'nvme://%s/%s/1' % (','.join('127.0.0.1:%d' % world[name].port for name in ('a', 'b')), target.NQN)
    run = subprocess.run([target.weft_path(), 'copy', '--quiet', where, to], capture_output=True, text=True, timeout=120)
    if run.returncode != 0:
        return to, run.stdout + run.stderr
    with open(to, 'rb') as file:
        return to, file.read(2 * BLOCK)


def goes_on(t, world, what):
    """Both members still have the unnamed file open and serve it."""
    for name in ('a', 'b'):
        with host_of(world[name]):
            t.ok(world[name].wait_log(DELETED), what + ': the log of %s says so, unasked' % name)
    t.eq(write(world, 'a', 1, NEW), n.OK, what + ': written through one member')
    t.eq([read(world, 'b', lba) for lba in (0, 1)], [(n.OK, OLD), (n.OK, NEW)], what + ': read through the other')
    for name in ('a', 'b'):
        status, text = problems(world, name)
        t.ok(status == 503 and DELETED in text and 0 < text.find('weft copy') < text.find('stop'),
             what + ': health of %s says to copy first, and only then to stop' % name, why=(status, text))
        for action in ('recheck', 'recreate'):
            answer = world.api(name).patch(NS, {action: True})
            t.ok(answer.status == 409 and 'weft copy' in str(answer.json),
                 what + ': %s on %s is refused, with the remedy' % (action, name), why=(answer.status, answer.json))
    with host_of(world['a']) as one, host_of(world['b']) as two:
        t.eq(reset(one, Instance(two)), SUCCESS, what + ': members reset each other')


def is_out(t, world, what):
    """b serves nothing, a serves on."""
    t.ok(world.wait_up('a', 'b') and world.wait_up('b', 'a'), what + ': both are linked')
    t.eq((read(world, 'b')[0], write(world, 'b', 0, LAST)), (INACCESSIBLE, INACCESSIBLE),
         what + ': nothing is read or written through it', 'Base 8.1.1')
    t.eq(problems(world, 'b')[0], 503, what + ': its health is red')
    t.eq([read(world, 'a', lba) for lba in (0, 1)], [(n.OK, OLD), (n.OK, NEW)], what + ': the other member serves on')


def fenced(t, world, what, former):
    """b cannot confirm resets of its predecessor's controllers, which had the former file; of its own it can."""
    with host_of(world['a']) as one:
        t.eq(reset(one, former), FAILED, what + ': it cannot tell whether its predecessor still writes to the file')
        with host_of(world['b']) as two:
            who = Instance(two)
            t.eq(reset(one, who), SUCCESS, what + ': it ends its own controllers')
        t.eq(reset(one, who), SUCCESS, what + ': and knows them when they are gone')


def instance(world, name):
    with host_of(world[name]) as host:
        return Instance(host)


def back(t, world, what, copy):
    """A copy takes the place of the file: no member serves both."""
    shutil.copyfile(copy, world.disk + '.copy')
    os.rename(world.disk + '.copy', world.disk)
    answer = world.api('b').patch(NS, {'recheck': True})
    t.ok(answer.status == 200, what + ': a copy is in its place: recheck', why=answer.json)
    is_out(t, world, what + ', a copy in its place')
    t.eq(write(world, 'a', 0, LAST), n.OK, what + ': hosts write on through the member that has the file')
    ended(world, 'a', signal.SIGTERM)
    t.ok('its data are lost' in world['a'].log(), what + ': its end says what is lost', why=world['a'].log())
    t.eq(read(world, 'b')[0], INACCESSIBLE, what + ': the copy is not served because the other member ended')
    world['a'].start()
    for name in ('a', 'b'):
        t.ok(target.poll(lambda: is_served(world, name)), what + ': %s serves the copy' % name, why=problems(world, name))
        t.eq(read(world, name, 1), (n.OK, NEW), what + ': with what was copied')
    t.ok(target.poll(lambda: 503 not in [problems(world, name)[0] for name in ('a', 'b')]), what + ': both are well')


def deleted(t):
    world = World()
    try:
        t.ok(world.wait_up('a', 'b') and world.wait_up('b', 'a'), 'both are linked')
        t.eq(write(world, 'a', 0, OLD), n.OK, 'both serve')
        os.unlink(world.disk)
        goes_on(t, world, 'deleted')
        copy, data = copied(world)
        t.eq(data, OLD + NEW, 'deleted: weft copy saves the data')
        for number in (signal.SIGTERM, signal.SIGKILL):
            former = instance(world, 'b')
            ended(world, 'b', number)
            world['b'].start()
            is_out(t, world, 'deleted, a member started again after signal %d' % number)
            fenced(t, world, 'deleted', former)
            t.eq(world.api('b').patch(NS, {'recreate': True}).status, 409, 'deleted: no member makes it anew')
            t.ok(not os.path.exists(world.disk), 'deleted: no empty file takes its name')
        back(t, world, 'deleted', copy)
    finally:
        world.finish(t)


def replaced(t):
    world = World()
    try:
        t.ok(world.wait_up('a', 'b') and world.wait_up('b', 'a'), 'both are linked')
        t.eq(write(world, 'a', 0, OLD), n.OK, 'both serve')
        replace(world.disk)
        goes_on(t, world, 'replaced')
        copy, data = copied(world)
        t.eq(data, OLD + NEW, 'replaced: weft copy saves the data')
        for number in (signal.SIGTERM, signal.SIGKILL):
            former = instance(world, 'b')
            ended(world, 'b', number)
            world['b'].start()
            is_out(t, world, 'replaced, a member started again after signal %d' % number)
            fenced(t, world, 'replaced', former)
            text = problems(world, 'b')[1]
            t.ok('member b and member a have different files' in text and 0 < text.find('weft copy') < text.find('recheck'),
                 'replaced: health of the newcomer names both and says to copy first', why=text)
            t.eq(world.api('b').patch(NS, {'recreate': True}).status, 409, 'replaced: it is not made anew')
        back(t, world, 'replaced', copy)
    finally:
        world.finish(t)


def parted(t):
    """No link is up: the newcomer does not know whether the other member has the former file."""
    world = World(start=False)
    for name in ('a', 'b'):
        world[name].config['cluster']['peers'][0]['address'] = 'unix:' + os.path.join(world.folder, 'nowhere.sock')
        world[name].write_config()
    try:
        for name in ('a', 'b'):
            world[name].start()
        t.eq(write(world, 'a', 0, OLD), n.OK, 'parted: both serve')
        t.eq(read(world, 'b'), (n.OK, OLD), 'parted: the same file')
        replace(world.disk)
        t.eq(write(world, 'a', 1, NEW), n.OK, 'parted: written to the file without a name')
        t.eq(read(world, 'b', 1), (n.OK, NEW), 'parted: which the other member has too')
        for number in (signal.SIGKILL, signal.SIGTERM):
            ended(world, 'b', number)
            world['b'].start()
            status, text = problems(world, 'b')
            t.ok(status == 503 and UNASKED in text and 'member a' in text and 'recheck' in text,
                 'parted: a newcomer that finds another file and reaches no member says why it waits', why=(status, text))
            t.eq((read(world, 'b')[0], write(world, 'b', 0, LAST)), (INACCESSIBLE, INACCESSIBLE),
                 'parted: and serves nothing', 'Base 8.1.1')
            t.eq(read(world, 'a', 1), (n.OK, NEW), 'parted: the other member serves on')
        ended(world, 'a', signal.SIGTERM)
        t.eq(read(world, 'b')[0], INACCESSIBLE, 'parted: the end of the other member, unseen, changes nothing')
        world['a'].start()
        for name in ('a', 'b'):
            t.ok(target.poll(lambda: is_served(world, name)),
                 'parted: each serves once it sees the lock of the other on the same file', why=problems(world, name))
    finally:
        world.finish(t)


def alone():
    """Two members without a link."""
    world = World(start=False)
    for name in ('a', 'b'):
        world[name].config['cluster']['peers'][0]['address'] = 'unix:' + os.path.join(world.folder, 'nowhere.sock')
        world[name].write_config()
    return world


def waits(t, world, what):
    """Member b has another file than it served last, and cannot ask member a."""
    status, text = problems(world, 'b')
    t.ok(status == 503 and UNASKED in text and 'member a' in text and 'recheck' in text, what + ': it says why it waits',
         why=(status, text))
    t.eq((read(world, 'b')[0], write(world, 'b', 0, LAST)), (INACCESSIBLE, INACCESSIBLE), what + ': and serves nothing',
         'Base 8.1.1')
    t.eq(read(world, 'a', 1), (n.OK, NEW), what + ': the other member serves on')


def removed(t):
    """Removing and adding the namespace does not end the wait."""
    world = alone()
    try:
        for name in ('a', 'b'):
            world[name].start()
        t.eq(write(world, 'a', 0, OLD), n.OK, 'removed: both serve')
        t.eq(read(world, 'b'), (n.OK, OLD), 'removed: the same file')
        ended(world, 'b', signal.SIGTERM)
        os.rename(world.disk, world.disk + '.right')
        shutil.copyfile(world.disk + '.right', world.disk)
        t.eq(write(world, 'a', 1, NEW), n.OK, 'removed: written to the former file')
        world['b'].start()
        waits(t, world, 'replaced')
        t.ok(world.api('b').delete(NS).status in (200, 204), 'removed: on the member that waits')
        back = world.api('b').post('/v1/history/1/rollback', None)
        t.ok(back.status // 100 == 4 and 'removed drop' in str(back.json),
             'removed: it comes back with the file that it had, and no other one', why=back.json)
        gone = world.api('b').delete('/v1/removed/' + UUID)
        t.ok(gone.status in (200, 204), 'removed: the operator drops the claim to that file', why=gone.json)
        back = world.api('b').post('/v1/history/1/rollback', None)
        t.ok(back.status == 200, 'removed: then it comes back', why=back.json)
        waits(t, world, 'removed and put back')
        ended(world, 'b', signal.SIGKILL)
        world['b'].start()
        waits(t, world, 'removed, put back and started again')
        t.ok(world.api('b').delete(NS).status in (200, 204), 'removed: once more')
        os.rename(world.disk + '.right', world.disk)
        back = world.api('b').post('/v1/history/1/rollback', None)
        t.ok(back.status == 200, 'removed: with the right file it comes back', why=back.json)
        t.ok(target.poll(lambda: is_served(world, 'b')), 'removed: and is served', why=problems(world, 'b'))
        t.eq(read(world, 'b', 1), (n.OK, NEW), 'removed: with the data of all')
    finally:
        world.finish(t)


def moved(t):
    """Changing the path in the document does not make another file the one served last."""
    world = alone()
    copy = world.disk + '.backup'
    try:
        for name in ('a', 'b'):
            world[name].start()
        t.eq(write(world, 'a', 0, OLD), n.OK, 'moved: both serve')
        t.eq(read(world, 'b'), (n.OK, OLD), 'moved: the same file')
        ended(world, 'b', signal.SIGTERM)
        shutil.copyfile(world.disk, copy)
        t.eq(write(world, 'a', 1, NEW), n.OK, 'moved: written to the former file')
        ns = world['b'].config['subsystems'][0]['namespaces'][0]
        ns['media'] = ns['media'].replace(world.disk, copy)
        world['b'].write_config()
        world['b'].start('--reset')
        waits(t, world, 'moved')
        ended(world, 'b', signal.SIGKILL)
        world['b'].start()
        waits(t, world, 'moved and started again')
        ended(world, 'b', signal.SIGTERM)
        os.unlink(copy)
        os.link(world.disk, copy)
        world['b'].start()
        t.ok(target.poll(lambda: is_served(world, 'b')), 'moved: the file itself has another name: it is served',
             why=problems(world, 'b'))
        t.eq((read(world, 'b', 1), problems(world, 'b')), ((n.OK, NEW), (200, '')), 'moved: with the data of all, without a word')
    finally:
        world.finish(t)


def lock_number(name):
    """member_lock_number: CRC-32C of the name."""
    crc = 0xffffffff
    for byte in name.encode():
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return (crc ^ 0xffffffff) % (1 << 30)


def left_behind(t):
    """
    A killed process has a write in flight to a file whose namespace was removed: its successor waits for the
    write, and confirms resets of the killed process only then.
    """
    world = World()
    try:
        t.ok(world.wait_up('a', 'b') and world.wait_up('b', 'a'), 'both are linked')
        former = instance(world, 'b')
        t.ok(world.api('b').delete(NS).status in (200, 204), 'left behind: the namespace is removed')
        ended(world, 'b', signal.SIGKILL)
        with open(world.disk, 'rb') as file:
            # The lock that the kernel holds for submitted I/O of a killed process.
            fcntl.fcntl(file, F_OFD_SETLK, struct.pack('hhqqixxxx', fcntl.F_RDLCK, os.SEEK_SET,
                                                       (1 << 62) + (1 << 32) + lock_number('b'), 1, 0))
            waiting = threading.Thread(target=world['b'].start)
            waiting.start()
            t.ok(world['b'].wait_log('waiting for the last operations'), 'left behind: the next process waits for it')
            t.ok('Connect with' not in world['b'].out(), 'left behind: and serves nothing before')
            host = host_of(world['a'])
            t.eq(host.admin.wait(reset_submit(host, former)).status, n.OK, 'left behind: a host asks for a reset of its controller')
            t.eq(reset_state(host, former), None, 'left behind: nobody says that it is gone')
        waiting.join()
        t.ok(world['b'].is_running(), 'left behind: then it starts')
        t.eq(target.poll(lambda: reset_state(host, former)), SUCCESS, 'left behind: and answers for its former process')
        host.close()
    finally:
        world.finish(t)


def restored(t):
    """All members were stopped and a backup was restored."""
    world = World()
    try:
        t.ok(world.wait_up('a', 'b') and world.wait_up('b', 'a'), 'both are linked')
        t.eq(write(world, 'a', 0, OLD), n.OK, 'restored: both serve')
        for name in ('a', 'b'):
            ended(world, name, signal.SIGTERM)
        replace(world.disk)
        world['a'].start()
        status, text = problems(world, 'a')
        t.ok(status == 503 and UNASKED in text and 'member b' in text and read(world, 'a')[0] == INACCESSIBLE,
             'restored: the first member waits for the other', why=(status, text))
        t.ok(world['a'].wait_log(UNASKED), 'restored: the log says so')
        world['b'].start()
        for name in ('a', 'b'):
            t.ok(target.poll(lambda: is_served(world, name)), 'restored: both have the same file, and serve it',
                 why=problems(world, name))
        for name in ('a', 'b'):
            ended(world, name, signal.SIGTERM)
        world['a'].start()
        t.ok(is_served(world, 'a'), 'restored: it is the known one from then on')
        ended(world, 'a', signal.SIGKILL)
        replace(world.disk)
        world['a'].start()
        t.eq(read(world, 'a')[0], INACCESSIBLE, 'restored once more, and the other member stays away')
        answer = world.api('a').patch(NS, {'recheck': True})
        t.ok(answer.status == 200, 'restored: the operator says that it is the right one', why=answer.json)
        t.ok(target.poll(lambda: is_served(world, 'a')), 'restored: it is served', why=problems(world, 'a'))
        ended(world, 'a', signal.SIGKILL)
        world['a'].start()
        t.ok(is_served(world, 'a'), 'restored: and after a restart too', why=problems(world, 'a'))
    finally:
        world.finish(t)


def test(t):
    for part in (deleted, replaced, parted, removed, moved, left_behind, restored):
        with t.guard(part.__name__):
            part(t)


def start():
    t = Tap()
    test(t)
    return t.done()


target.weft_path()
raise SystemExit(start())
