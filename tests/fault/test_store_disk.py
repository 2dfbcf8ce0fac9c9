# SPDX-License-Identifier: Apache-2.0
"""
A state folder that fails under a running or a starting `weft serve`: a full disk (by crash_shim.c, and a real
small one where mounting is allowed), a read-only folder, a database that another program has locked, that is
truncated, overwritten or of a newer version. A change is refused with a text that has file and remedy, the old
state stays in force, and everything works again afterwards. A start is refused with status 1 and leaves the files
as they are.
"""

import os
import shutil
import sqlite3
import struct
import subprocess
import sys
import tempfile
import threading
import uuid

import store_world
from store_world import World, poll

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'wire'))
import nvmetcp  # noqa: E402
from tap import Tap  # noqa: E402

ADD = ('POST', '/v1/subsystems', {'nqn': store_world.NQN % 'a', 'namespaces': [
    {'nsid': 1, 'media': 'mem:1M'}]})


def refused(t, world, words, what):
    before = world.document()
    status, answer = world.call(*ADD)
    text = str(answer)
    t.ok(status >= 400 and all(word in text for word in words),
         what + ': the change is refused with the reason', why='%s %s' % (status, text))
    t.eq(world.document(), before, what + ': the old state stays in force')


def works(t, world, what):
    status, answer = world.call(*ADD)
    t.ok(status // 100 == 2, what + ': afterwards it works', why='%s %s' % (status, answer))
    after = world.document()
    t.eq(world.stop(), 0, what + ': it ends with status 0')
    if t.ok(world.start(), what + ': it starts again', why=world.log()):
        t.eq(world.document(), after, what + ': with the change')
        t.eq(world.stop(), 0, what + ': it ends again')
    t.eq(world.alarms(), [], what + ': no failed check')


def health(world):
    status, answer = world.call('GET', '/v1/health')
    return status, ' '.join(problem['text'] for problem in answer['problems'])


def full_by_shim(t):
    world = World()
    try:
        world.start()
        t.eq(health(world), (200, ''), 'health is green')
        open(world.full_path, 'w').close()
        refused(t, world, ['weft.db', 'full'], 'a full disk')
        for name in ('a full disk', 'a full disk, once more'):
            status, text = health(world)
            t.ok(status == 503 and 'nothing can be saved' in text and 'free some space' in text, name + ': health says so',
                 why=text)
        os.unlink(world.full_path)
        t.eq(health(world), (200, ''), 'a full disk: health is green once there is room')
        works(t, world, 'a full disk')
    finally:
        world.remove()


def kept_counters_fail(t):
    """Hosts' commands write to the store too: a reservation that cannot be kept is refused."""
    world = World()
    try:
        world.start()
        open(world.full_path, 'w').close()
        try:
            world.reserve()
            t.ok(False, 'a full disk: a reservation that is to be kept is refused')
        except RuntimeError:
            t.ok(True, 'a full disk: a reservation that is to be kept is refused')
        t.eq(health(world)[0], 503, 'a full disk: health says so')
        os.unlink(world.full_path)
        world.reserve()
        t.eq(health(world), (200, ''), 'a reservation is kept: health is green')
        t.eq(world.stop(), 0, 'it ends with status 0')
    finally:
        world.remove()


def no_room_for_hosts(t):
    """Writes of hosts fail because their medium is full; health reports it until they succeed again."""
    world = World()
    world.args = ['--listen', '127.0.0.1:%d' % world.port, '--ns', 'fault:fail:op=write:errno=ENOSPC:count=3@mem:1M,block=4096']
    try:
        world.start(shim=False)
        with nvmetcp.Host(('127.0.0.1', world.port), store_world.DEFAULT_NQN) as host:
            queue = host.queue()
            failed = [queue.put(1, 0, bytes(4096), 4096).status != nvmetcp.OK for _ in range(3)]
            t.eq(failed, [True] * 3, 'three writes find no room')
            status, text = health(world)
            t.ok(status == 503 and '3 commands failed for lack of space' in text, 'health says so', why=text)
            t.eq(health(world)[0], 503, 'and says so again')

            def is_well():
                return queue.put(1, 0, bytes(4096), 4096).status == nvmetcp.OK and health(world) == (200, '')

            t.ok(poll(is_well, 60), 'health is green when writes succeed again', why=health(world))
        t.eq(world.stop(), 0, 'it ends with status 0')
    finally:
        world.remove()


def kept(world, kind):
    """Returns the keys of this kind in the database."""
    database = sqlite3.connect('file:%s?mode=ro' % os.path.join(world.state, 'weft.db'), uri=True)
    try:
        return [row[0] for row in database.execute('SELECT key FROM kept WHERE kind = ?', (kind,))]
    finally:
        database.close()


def fill_after(world, writes):
    """The disk is full after this number of further writes."""
    with open(world.full_path + '.new', 'w') as file:
        file.write('%d\n' % writes)
    os.rename(world.full_path + '.new', world.full_path)


def second_commit_fails(t):
    """
    A change is kept in one transaction; its consequences (permanent protection, the identity of a new image) are
    kept in a second one. The disk is full at the COMMIT of the second: none of it may count as kept, and the next
    change writes it.
    """
    world = World()
    protect = ('PATCH', '/v1/subsystems/%s/namespaces/1' % store_world.quoted(store_world.DEFAULT_NQN),
               {'write_protect': 'permanent'})
    words = 'cannot save permanent write protection'
    try:
        world.start()
        for writes in range(200):
            fill_after(world, writes)
            status, answer = world.call(*protect)
            os.unlink(world.full_path)
            if status // 100 == 2:
                break
            if kept(world, 'protection'):
                t.ok(False, 'a change that is refused protects nothing', why=str(answer))
        t.ok(status // 100 == 2 and world.says(words), 'the change is kept, what follows from it is not',
             why='%d writes: %s %s\n%s' % (writes, status, answer, world.log()))
        t.eq(kept(world, 'protection'), [], 'the protection is not in the store')
        world.change(*ADD)
        t.eq(len(kept(world, 'protection')), 1, 'the next change puts it there')
        world.kill()
        if t.ok(world.start(), 'it starts again', why=world.log()):
            ns = world.document()['subsystems'][-1]['namespaces'][0]
            t.eq(ns['write_protect'], 'permanent', 'and is protected after a kill')
            t.eq(world.stop(), 0, 'it ends with status 0')
        t.eq(world.alarms(), [], 'no failed check')
    finally:
        world.remove()


def full_for_real(t):
    folder = tempfile.mkdtemp(prefix='weft-store-')
    state = os.path.join(folder, 'state')
    os.mkdir(state)
    done = subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=1m', 'none', state],
                          capture_output=True)
    if done.returncode != 0:
        t.skip('a small file system that is full', 'mounting is not allowed')
        os.rmdir(state)
        os.rmdir(folder)
        return
    world = World(folder=folder)
    world.own_folder = True
    try:
        world.start(shim=False)
        with open(os.path.join(state, 'ballast'), 'wb', buffering=0) as file:
            try:
                while True:
                    file.write(b'x' * 4096)
            except OSError:
                pass
        # The free part of the log's last page may hold one change, but not twenty.
        for i in range(20):
            status, answer = world.call('POST', '/v1/subsystems',
                                        {'nqn': store_world.NQN % ('fill-%d' % i)})
            if status // 100 != 2:
                break
        refused(t, world, ['weft.db', 'full'], 'a small file system')
        os.unlink(os.path.join(state, 'ballast'))
        works(t, world, 'a small file system')
    finally:
        world.kill()
        subprocess.run(['umount', state], check=False)
        world.remove()


def undone_keeps_data(t):
    """
    A change is in force before it is saved, here for as long as the flush of a namespace that leaves. Hosts write and
    flush to what it has grown and made. The disk is full: the change is undone, and the data must not go with it.
    """
    world = World()
    path = {name: os.path.join(world.folder, name) for name in ('one', 'two', 'three')}
    spec = 'file:%s,size=%s,block=4096'
    world.args = ['--listen', '127.0.0.1:%d' % world.port, '--ns', spec % (path['one'], '8M'),
                  '--ns', 'fault:delay:op=flush:ms=4000@' + spec % (path['two'], '8M')]
    grown, new = b'G' * 4096, b'N' * 4096
    try:
        world.start()
        document = world.document()
        spaces = document['subsystems'][0]['namespaces']
        spaces[0]['media'] = spec % (path['one'], '16M')
        spaces[1] = {'nsid': 3, 'media': spec % (path['three'], '8M')}
        answers = []
        with nvmetcp.Host(('127.0.0.1', world.port), store_world.DEFAULT_NQN) as host:
            queue = host.queue()
            queue.put(2, 0, bytes(4096), 4096)
            open(world.full_path, 'w').close()
            change = threading.Thread(target=lambda: answers.append(world.call('PUT', '/v1/config', document)))
            change.start()
            in_force = poll(lambda: queue.read(1, 3000, 1, 4096).status == nvmetcp.OK and
                            queue.read(3, 7, 1, 4096).status == nvmetcp.OK, 60)
            t.ok(in_force and not answers, 'hosts use the change before it is saved', why=answers)
            done = [queue.put(1, 3000, grown, 4096).status, queue.do(nvmetcp.FLUSH, 1).status,
                    queue.put(3, 7, new, 4096).status, queue.do(nvmetcp.FLUSH, 3).status]
            t.eq(done, [nvmetcp.OK] * 4, 'writes and flushes beyond the former size and in the new namespace succeed')
            change.join()
            t.ok(answers[0][0] >= 400, 'the change is refused, because it cannot be saved', why=answers)
            t.ok(world.says('three keeps its size and data'), 'the log names the files that stay')
        os.unlink(world.full_path)
        status, answer = world.call('PUT', '/v1/config', document)
        t.ok(status // 100 == 2, 'the same change succeeds once there is room', why=str(answer))
        with nvmetcp.Host(('127.0.0.1', world.port), store_world.DEFAULT_NQN) as host:
            queue = host.queue()
            t.eq([bytes(queue.read(1, 3000, 1, 4096).data), bytes(queue.read(3, 7, 1, 4096).data)], [grown, new],
                 'with what was flushed')
        t.eq(world.stop(), 0, 'it ends with status 0')
    finally:
        world.remove()


def ns_path(nsid=None):
    path = '/v1/subsystems/%s/namespaces' % store_world.quoted(store_world.DEFAULT_NQN)
    return path if nsid is None else '%s/%d' % (path, nsid)


def hand_over(world):
    """
    Returns a document that gives the file of namespace 1 to another UUID. A namespace leaves with it, and its flush
    takes long: the change is in force for that time before it is saved.
    """
    document = world.document()
    spaces = document['subsystems'][0]['namespaces']
    spaces[0]['uuid'] = str(uuid.uuid4())
    spaces[0].pop('nguid')
    del spaces[1]
    return document


def undone_hand_over(t):
    """
    A file passes to a namespace with another UUID, and the change cannot be saved, or the target is killed before it
    is. Hosts of the next namespace must not have changed the data of the former one.
    """
    world = World()
    path = {name: os.path.join(world.folder, name) for name in ('one', 'two')}
    spec = 'file:%s,size=8M,block=4096'
    world.args = ['--listen', '127.0.0.1:%d' % world.port, '--ns', spec % path['one'],
                  '--ns', 'fault:delay:op=flush:ms=4000@' + spec % path['two']]
    former, late = b'A' * 4096, b'B' * 4096

    def next_uses(document):
        """Returns whether the next namespace is there, and the statuses of its write and flush."""
        wanted = uuid.UUID(document['subsystems'][0]['namespaces'][0]['uuid']).bytes
        with nvmetcp.Host(('127.0.0.1', world.port), store_world.DEFAULT_NQN) as host:
            queue = host.queue()
            is_there = poll(lambda: bytes(host.admin.identify(3, 1).data)[4:20] == wanted, 30)
            return is_there, [queue.put(1, 0, late, 4096).status, queue.do(nvmetcp.FLUSH, 1).status]

    def reads(want, what):
        with nvmetcp.Host(('127.0.0.1', world.port), store_world.DEFAULT_NQN) as host:
            t.eq(bytes(host.queue().read(1, 0, 1, 4096).data), want, what)

    def begin_change(document, answers):
        with nvmetcp.Host(('127.0.0.1', world.port), store_world.DEFAULT_NQN) as host:
            host.queue().put(2, 0, bytes(4096), 4096)

        def put():
            try:
                answers.append(world.call('PUT', '/v1/config', document))
            except store_world.Gone:
                answers.append((0, 'gone'))
        change = threading.Thread(target=put)
        change.start()
        return change

    try:
        world.start()
        with nvmetcp.Host(('127.0.0.1', world.port), store_world.DEFAULT_NQN) as host:
            queue = host.queue()
            done = [queue.put(1, 0, former, 4096).status, queue.do(nvmetcp.FLUSH, 1).status]
            t.eq(done, [nvmetcp.OK] * 2, 'a host writes to the former namespace')
        before = world.document()
        for what in ('a full disk', 'a kill', 'a removed namespace'):
            document, answers = hand_over(world), []
            if what == 'a removed namespace':
                world.change('DELETE', ns_path(1))
            if what != 'a kill':
                open(world.full_path, 'w').close()
            change = begin_change(document, answers)
            is_there, statuses = next_uses(document)
            t.ok(is_there and not answers, what + ': hosts see the next namespace before it is saved', why=answers)
            t.ok(statuses[0] != nvmetcp.OK, what + ': hosts cannot write to it yet', why=statuses)
            if what == 'a kill':
                world.kill()
            change.join()
            t.ok(answers[0][0] // 100 != 2, what + ': the change is not made', why=answers)
            if what == 'a kill':
                t.ok(world.start(), 'it starts again', why=world.log())
            else:
                os.unlink(world.full_path)
            if what == 'a removed namespace':
                world.change('POST', ns_path(), before['subsystems'][0]['namespaces'][0])
            t.eq(world.document()['subsystems'][0]['namespaces'][0]['uuid'],
                 before['subsystems'][0]['namespaces'][0]['uuid'], what + ': the former namespace is back')
            reads(former, what + ': with its data')
        document, answers = hand_over(world), []
        begin_change(document, answers).join()
        t.ok(answers[0][0] // 100 == 2, 'the same change succeeds once there is room', why=answers)
        reads(former, 'the next namespace has the file')
        t.eq(next_uses(document), (True, [nvmetcp.OK] * 2), 'and hosts write to it at once')
        t.eq(world.stop(), 0, 'it ends with status 0')
        t.ok(world.start(), 'it starts again', why=world.log())
        reads(late, 'with the data of the next namespace')
        t.eq(world.stop(), 0, 'it ends again')
        t.eq(world.alarms(), [], 'no failed check')
    finally:
        world.remove()


def undone_leaves_no_file(t):
    """A host may create namespaces in a pool. Those that cannot be saved must not fill the pool's disk with files."""
    world = World()
    pool = os.path.join(world.folder, 'pool')
    os.mkdir(pool)
    data = bytearray(4096)
    struct.pack_into('<QQ', data, 0, 2048, 2048)  # 1 MiB
    try:
        world.start()
        world.change('PATCH', '/v1/subsystems/' + store_world.quoted(store_world.DEFAULT_NQN),
                     {'pool': {'folder': pool, 'capacity': '16M'}, 'rights': {'any': ['namespaces']}})
        with nvmetcp.Host(('127.0.0.1', world.port), store_world.DEFAULT_NQN) as host:
            open(world.full_path, 'w').close()
            statuses = [host.admin.do(0x0d, data=bytes(data)).status for _ in range(5)]
            os.unlink(world.full_path)
            t.ok(nvmetcp.OK not in statuses, 'a full disk: hosts create no namespace', why=statuses)
            t.eq(os.listdir(pool), [], 'and no file stays in the pool')
            t.eq(host.admin.do(0x0d, data=bytes(data)).status, nvmetcp.OK, 'once there is room, a host creates one')
        t.eq(world.stop(), 0, 'it ends with status 0')
    finally:
        world.remove()


def undone_growth_is_corrected(t):
    """A growth to a mistyped size that could not be saved leaves the namespace as it was: it can grow and change."""
    world = World()
    path = os.path.join(world.folder, 'one')
    spec = 'file:%s,size=%%s' % path
    world.args = ['--listen', '127.0.0.1:%d' % world.port, '--ns', spec % '8M']
    try:
        world.start()
        open(world.full_path, 'w').close()
        t.ok(world.call('PATCH', ns_path(1), {'media': spec % '1T'})[0] >= 400, 'a full disk: a growth is refused')
        os.unlink(world.full_path)
        t.eq(os.path.getsize(path), 8 << 20, 'the file has its former size')
        for media in (spec % '16M', spec % '16M' + ',block=512'):
            status, answer = world.call('PATCH', ns_path(1), {'media': media})
            t.ok(status == 200, 'then the namespace takes %s' % media.split(',', 1)[1], why=str(answer))
        t.eq(world.stop(), 0, 'it ends with status 0')
    finally:
        world.remove()


def undone_growth_without_size(t):
    """As undone_growth_is_corrected, for a namespace that has the size of its file."""
    world = World()
    path = os.path.join(world.folder, 'one')
    with open(path, 'wb') as file:
        file.truncate(8 << 20)
    world.args = ['--listen', '127.0.0.1:%d' % world.port, '--ns', 'file:%s,block=4096' % path]

    def size():
        with nvmetcp.Host(('127.0.0.1', world.port), store_world.DEFAULT_NQN) as host:
            return struct.unpack_from('<Q', bytes(host.admin.identify(0, 1).data))[0] * 4096

    try:
        world.start()
        before = world.document()
        open(world.full_path, 'w').close()
        status, answer = world.call('PATCH', ns_path(1), {'size': '16M'})
        t.ok(status >= 400, 'a full disk: a growth of a namespace without size= is refused', why=str(answer))
        t.eq((os.path.getsize(path), size()), (8 << 20, 8 << 20), 'the file and the namespace have their former size')
        t.ok(not world.says('could be neither saved nor undone'), 'the growth is undone', why=world.log())
        os.truncate(path, 16 << 20)
        t.ok(world.call('PATCH', ns_path(1), {'label': 'a'})[0] >= 400, 'so is a change while the file has grown by itself')
        t.eq((world.document(), size()), (before, 8 << 20), 'it is undone too')
        os.unlink(world.full_path)
        status, answer = world.call('PATCH', ns_path(1), {'label': 'a'})
        t.ok(status == 200, 'once there is room, the same change succeeds', why=str(answer))
        t.eq(size(), 16 << 20, 'and serves the new size')
        t.eq(world.stop(), 0, 'it ends with status 0')
    finally:
        world.remove()


def undone_recreate(t):
    """A recreate that cannot be saved leaves no empty file that is served under the former UUID."""
    world = World()
    path = os.path.join(world.folder, 'disk')
    try:
        world.start()
        with nvmetcp.Host(('127.0.0.1', world.port), store_world.DEFAULT_NQN) as host:
            t.eq(host.queue().put(1, 0, b'A' * 4096, 4096).status, nvmetcp.OK, 'a host writes')
        former = world.document()['subsystems'][0]['namespaces'][0]['uuid']
        world.stop()
        os.rename(path, path + '.away')
        world.start()
        refusals = 0
        for writes in range(200):
            fill_after(world, writes)
            status, answer = world.call('PATCH', ns_path(1), {'recreate': True})
            os.unlink(world.full_path)
            if status // 100 == 2:
                break
            refusals += 1
            if os.path.exists(path) or world.call('PATCH', ns_path(1), {'recheck': True})[0] < 400:
                t.ok(False, 'a recreate that is refused leaves no file', why='%d writes: %s' % (writes, answer))
                break
            ns = world.call('GET', ns_path(1))[1]
            if ns['uuid'] != former or not ns['live'].get('lost'):
                t.ok(False, 'a recreate that is refused leaves the namespace lost', why=str(ns))
                break
        else:
            t.ok(False, 'the recreate succeeds at last', why=str(answer))
        t.ok(refusals > 1, 'the disk was full at several steps', why=refusals)
        # One more, refused at its last step; then a restart.
        world.stop()
        for name in (path, path + '.lost'):
            if os.path.exists(name):
                os.unlink(name)
        world.start()
        fill_after(world, refusals - 1)
        status, answer = world.call('PATCH', ns_path(1), {'recreate': True})
        os.unlink(world.full_path)
        t.ok(status >= 400, 'a recreate is refused at its last step', why=str(answer))
        world.stop()
        world.start()
        t.ok(world.call('GET', ns_path(1))[1]['live'].get('lost'), 'the namespace is lost after a restart')
        t.ok(not os.path.exists(path), 'and has no file')
        t.eq(world.stop(), 0, 'it ends with status 0')
    finally:
        world.remove()


def undone_removal_of_lost(t):
    """A lost namespace that could not be removed is not in the list of removed ones: a backup is accepted."""
    world = World()
    path = os.path.join(world.folder, 'disk')
    try:
        world.start()
        with nvmetcp.Host(('127.0.0.1', world.port), store_world.DEFAULT_NQN) as host:
            host.queue().put(1, 0, b'A' * 4096, 4096)
        world.stop()
        shutil.copyfile(path, path + '.backup')
        os.unlink(path)
        world.start()
        open(world.full_path, 'w').close()
        t.ok(world.call('DELETE', ns_path(1))[0] >= 400, 'a full disk: a lost namespace is not removed')
        os.unlink(world.full_path)
        t.eq(world.call('GET', '/v1/removed')[1]['removed'], [], 'and is not in the list of removed namespaces')
        shutil.copyfile(path + '.backup', path)
        status, answer = world.call('PATCH', ns_path(1), {'recheck': True})
        t.ok(status == 200, 'its restored file is accepted', why=str(answer))
        t.eq(world.stop(), 0, 'it ends with status 0')
    finally:
        world.remove()


def undone_discards_nothing(t):
    """
    As undone_hand_over, for a large deallocation: it is refused until the change is saved, and does not reach the former
    namespace's data.
    """
    world = World()
    path = {name: os.path.join(world.folder, name) for name in ('one', 'two')}
    world.args = ['--listen', '127.0.0.1:%d' % world.port, '--ns', 'file:%s,size=64M,block=4096' % path['one'],
                  '--ns', 'fault:delay:op=flush:ms=4000@file:%s,size=8M,block=4096' % path['two']]
    ranges = struct.pack('<IIQ', 0, (64 << 20) // 4096, 0)
    data = b'A' * 4096
    try:
        world.start()
        document = world.document()
        spaces = document['subsystems'][0]['namespaces']
        former, other = spaces[0]['uuid'], str(uuid.uuid4())
        spaces[:] = [{'nsid': 1, 'media': spaces[0]['media'], 'uuid': other}]
        answers = []
        with nvmetcp.Host(('127.0.0.1', world.port), store_world.DEFAULT_NQN) as host:
            queue = host.queue()
            queue.put(2, 0, bytes(4096), 4096)
            queue.put(1, 7, data, 4096)
            open(world.full_path, 'w').close()
            change = threading.Thread(target=lambda: answers.append(world.call('PUT', '/v1/config', document)))
            change.start()
            in_force = poll(lambda: str(uuid.UUID(bytes=bytes(host.admin.identify(3, 1).data)[4:20])) == other, 60)
            t.ok(in_force and not answers, 'a file passes to another namespace before the change is saved', why=answers)
            poll(lambda: queue.read(1, 0, 1, 4096).status == nvmetcp.ANA_INACCESSIBLE, 60)
            t.status(queue.do(nvmetcp.DSM, 1, cdw11=4, data=ranges), nvmetcp.ANA_INACCESSIBLE, 'its deallocation is refused')
            t.ok(not answers, 'until the change is saved', why=answers)
            change.join()
            t.ok(answers[0][0] >= 400, 'the change is refused, because it cannot be saved', why=answers)
        with nvmetcp.Host(('127.0.0.1', world.port), store_world.DEFAULT_NQN) as host:
            queue = host.queue()
            t.eq(str(uuid.UUID(bytes=bytes(host.admin.identify(3, 1).data)[4:20])), former, 'the former namespace is back')
            t.eq(bytes(queue.read(1, 7, 1, 4096).data), data, 'with its data')
            t.status(queue.do(nvmetcp.DSM, 1, data=ranges, cdw11=4), nvmetcp.OK, 'and can be deallocated')
    finally:
        world.remove()


def locked(t):
    world = World()
    try:
        world.start()
        other = sqlite3.connect(os.path.join(world.state, 'weft.db'), isolation_level=None)
        other.execute('BEGIN IMMEDIATE')
        refused(t, world, ['weft.db', 'another program'], 'a locked database')
        other.execute('COMMIT')
        other.close()
        works(t, world, 'a locked database')
    finally:
        world.remove()


def start_refused(t, world, words, what):
    path = os.path.join(world.state, 'weft.db')
    with open(path, 'rb') as file:
        before = file.read()
    started = world.start(shim=False)
    log = world.log()
    t.ok(not started and world.wait_exit() == 1 and all(word in log for word in words),
         what + ': the start is refused with the reason', why=log)
    world.kill()
    with open(path, 'rb') as file:
        t.ok(file.read() == before, what + ': the file stays as it is')


def damaged(t):
    world = World()
    path = os.path.join(world.state, 'weft.db')
    try:
        world.start()
        world.change(*ADD)
        world.stop()
        with open(path, 'rb') as file:
            good = file.read()

        def put(data):
            with open(path, 'wb') as file:
                file.write(data)

        for what, data, words in (
                ('an empty database', b'', ['damaged', 'backup', 'aside']),
                ('a truncated database', good[:len(good) // 2], ['weft.db', 'backup', 'aside']),
                ('garbage', os.urandom(8192), ['weft.db', 'backup', 'aside']),
                ('a damaged page', good[:4096] + b'\x55' * 4096 + good[8192:],
                 ['weft.db', 'backup', 'aside'])):
            put(data)
            start_refused(t, world, words, what)
        put(good)
        other = sqlite3.connect(path)
        other.execute('PRAGMA user_version = 99')
        other.close()
        start_refused(t, world, ['version 99', 'newer'], 'a newer version')
        # The remedy of the error text: move the file aside and start anew.
        os.rename(path, path + '.damaged')
        t.ok(world.start(shim=False), 'moved aside: it starts anew', why=world.log())
        t.eq(world.stop(), 0, 'and ends with status 0')
        os.rename(path + '.damaged', path)
    finally:
        world.remove()


def read_only(t):
    world = World()
    mounted = False
    try:
        world.start()
        world.stop()
        # Root ignores permissions, so use a read-only mount.
        if os.geteuid() == 0:
            mounted = subprocess.run(['mount', '--bind', world.state, world.state],
                                     capture_output=True).returncode == 0 and subprocess.run(
                ['mount', '-o', 'remount,bind,ro', world.state],
                capture_output=True).returncode == 0
            if not mounted:
                t.skip('a read-only folder', 'mounting is not allowed')
                return
        else:
            os.chmod(world.state, 0o500)
        started = world.start(shim=False)
        t.ok(not started and world.wait_exit() == 1 and '--state' in world.log(),
             'a read-only folder: the start is refused with the reason', why=world.log())
    finally:
        world.kill()
        if os.geteuid() == 0:
            subprocess.run(['umount', world.state], capture_output=True, check=False)
        else:
            os.chmod(world.state, 0o700)
        world.remove()


def main():
    t = Tap()
    for test in (full_by_shim, kept_counters_fail, no_room_for_hosts, second_commit_fails, undone_keeps_data, undone_hand_over,
                 undone_discards_nothing, undone_leaves_no_file, undone_growth_is_corrected, undone_growth_without_size,
                 undone_recreate, undone_removal_of_lost, full_for_real, locked, damaged, read_only):
        with t.guard(test.__name__):
            test(t)
    sys.exit(t.done())


if __name__ == '__main__':
    main()
