# SPDX-License-Identifier: Apache-2.0
"""
Files that are deleted or replaced while the target uses them. A deleted image still works and is lost when the
process ends: health and log report it while the data can still be copied. A start that finds another file under
the name logs a warning. A state store that has lost its name refuses every change, because the change would be
lost with the process.
"""

import os
import shutil
import sys

import store_world
from store_world import World, quoted

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'wire'))
import nvmetcp as n  # noqa: E402
from tap import Tap  # noqa: E402
from target import poll  # noqa: E402

NQN = store_world.DEFAULT_NQN
SUB = '/v1/subsystems/' + quoted(NQN)
BLOCK = 4096
DELETED = 'was deleted, or replaced by another'
ANOTHER = 'not the one that was served last under this name'
GONE = 'deleted, moved or replaced while in use'


def problems(world, severity):
    return [problem['text'] for problem in world.call('GET', '/v1/health')[1]['problems']
            if problem['severity'] == severity]


def world_with_image():
    world = World()
    image = os.path.join(world.folder, 'one')
    world.args = ['--listen', '127.0.0.1:%d' % world.port, '--ns', 'file:%s,size=1M' % image, '--ns', 'mem:1M']
    return world, image


def started(t, world, what):
    return t.ok(world.start(shim=False), what + ': it starts', why=world.log())


def replace(image):
    """Renames a copy of the same size over the image, as editors and backup programs do."""
    shutil.copyfile(image, image + '.new')
    os.rename(image + '.new', image)


def deleted_image(t, what, do):
    world, image = world_with_image()
    try:
        started(t, world, what)
        with n.Host(('127.0.0.1', world.port), NQN) as host:
            t.eq(problems(world, 'error'), [], what + ': all is well before')
            do(image)
            t.ok(poll(lambda: DELETED in world.log()), what + ': the log says so, unasked', why=world.log())
            host.queue().put(1, 0, b'\x11' * BLOCK, BLOCK)
            t.eq(bytes(host.queue(2).read(1, 0, 1, BLOCK).data)[:1], b'\x11', what + ': the data can still be copied')
        texts = problems(world, 'error')
        t.ok(len(texts) == 1 and DELETED in texts[0] and image in texts[0] and 'weft copy' in texts[0],
             what + ': health tells file and remedy', why=str(texts))
        world.change('PATCH', SUB + '/namespaces/1', {'media': 'file:%s,size=2M' % image})
        t.eq(len(problems(world, 'error')), 1, what + ': also after it has grown')
        t.eq(world.log().count(DELETED), 1, what + ': logged once')
        for action in ('recheck', 'recreate'):
            status, answer = world.call('PATCH', SUB + '/namespaces/1', {action: True})
            t.ok(status == 409 and 'weft copy' in str(answer), what + ': %s is refused, with the remedy' % action,
                 why='%s %s' % (status, answer))
        world.stop()
        t.ok('its data are lost' in world.log(), what + ': the end says that the data are lost',
             why=world.log())
        if started(t, world, what + ', again'):
            texts = problems(world, 'error')
            t.ok(len(texts) == 1 and image in texts[0], what + ': what is missing or shorter at the start is lost', why=str(texts))
    finally:
        world.remove()


def renamed_image(t):
    """A renamed image: nothing is lost and nothing is reported."""
    world, image = world_with_image()
    try:
        started(t, world, 'renamed')
        os.rename(image, image + '.moved')
        t.eq(problems(world, 'error'), [], 'renamed: the data have a name')
        world.stop()
        t.ok('is gone' not in world.log(), 'renamed: nothing is gone', why=world.log())
    finally:
        world.remove()


def removed_namespace(t):
    """The target itself deleted the file, with its namespace: no loss is reported."""
    world = World()
    pool = os.path.join(world.folder, 'pool')
    os.mkdir(pool)
    world.args = ['--listen', '127.0.0.1:%d' % world.port, '--ns', 'mem:1M']
    try:
        started(t, world, 'own files')
        image = os.path.join(pool, 'image')
        world.change('POST', SUB + '/namespaces', {'nsid': 7, 'media': 'file:%s,size=1M' % image})
        world.change('DELETE', SUB + '/namespaces/7')
        os.unlink(image)
        world.stop()
        t.eq([word for word in (DELETED, 'is gone') if word in world.log()], [], 'own files: no alarm')
    finally:
        world.remove()


def nameless_namespace(t):
    """Only the open file has the data: removing the namespace must be confirmed."""
    world, image = world_with_image()
    try:
        started(t, world, 'nameless')
        uuid = world.call('GET', SUB + '/namespaces/1')[1]['uuid']
        os.unlink(image)
        for query in ('', '?dry_run=true'):
            status, answer = world.call('DELETE', SUB + '/namespaces/1' + query)
            t.ok(status == 409 and 'weft copy' in str(answer) and '--delete-data' in str(answer),
                 'nameless: its removal%s is refused, with the remedy' % query, why='%s %s' % (status, answer))
        with open(image, 'w') as file:
            file.write('somebody else')
        status, answer = world.call('DELETE', SUB + '/namespaces/1?delete_data=true')
        t.ok(status == 200 and answer['data'] == 'deleted', 'nameless: it is given up', why='%s %s' % (status, answer))
        t.eq(os.path.getsize(image), len('somebody else'), 'nameless: another file of the name stays')
        t.eq([entry for entry in world.call('GET', '/v1/removed')[1]['removed'] if entry['uuid'] == uuid], [],
             'nameless: nothing of it can come back')
    finally:
        world.remove()


def another_at_start(t):
    world, image = world_with_image()
    try:
        started(t, world, 'another')
        world.stop()
        started(t, world, 'the same')
        t.eq(problems(world, 'warning'), [], 'the same file: no warning')
        world.stop()
        replace(image)
        started(t, world, 'another')
        texts = problems(world, 'warning')
        t.ok(len(texts) == 1 and ANOTHER in texts[0] and image in texts[0], 'another file: health warns', why=str(texts))
        t.ok(world.says(ANOTHER), 'another file: the log warns', why=world.log())
        t.eq(problems(world, 'error'), [], 'another file: it is served')
        world.stop()
        started(t, world, 'another, once more')
        t.eq(problems(world, 'warning'), [], 'another file: it is the known one from then on')
    finally:
        world.remove()


def delete_store(world):
    for name in ('weft.db', 'weft.db-wal', 'weft.db-shm'):
        os.unlink(os.path.join(world.state, name))


def replace_store(world):
    path = os.path.join(world.state, 'weft.db')
    replace(path)


def lost_store(t, what, do):
    world, _ = world_with_image()
    try:
        started(t, world, what)
        before = world.document()
        do(world)
        status, answer = world.call('POST', SUB + '/namespaces', {'nsid': 9, 'media': 'mem:1M'})
        t.ok(status >= 500 and GONE in str(answer) and 'export' in str(answer), what + ': a change is refused, with the remedy',
             why='%s %s' % (status, answer))
        t.eq(world.document(), before, what + ': nothing has changed')
        texts = problems(world, 'error')
        t.ok(len(texts) == 1 and 'state store' in texts[0] and 'export' in texts[0], what + ': health is red', why=str(texts))
        try:
            world.reserve()
            t.ok(False, what + ': a reservation that must persist is refused')
        except RuntimeError:
            t.ok(True, what + ': a reservation that must persist is refused')
        with n.Host(('127.0.0.1', world.port), NQN) as host:
            host.queue().put(1, 0, b'\x22' * BLOCK, BLOCK)
            t.eq(bytes(host.queue(2).read(1, 0, 1, BLOCK).data)[:1], b'\x22', what + ': I/O goes on')
        t.eq(world.stop(), 1, what + ': it ends, and says that something was not kept')
    finally:
        world.remove()


def main():
    t = Tap()
    for name, part in (
            ('deleted', lambda: deleted_image(t, 'deleted', os.unlink)),
            ('replaced', lambda: deleted_image(t, 'replaced', replace)),
            ('renamed', lambda: renamed_image(t)),
            ('own files', lambda: removed_namespace(t)),
            ('nameless', lambda: nameless_namespace(t)),
            ('another', lambda: another_at_start(t)),
            ('store deleted', lambda: lost_store(t, 'store deleted', delete_store)),
            ('store replaced', lambda: lost_store(t, 'store replaced', replace_store))):
        with t.guard(name):
            part()
    sys.exit(t.done())


main()
