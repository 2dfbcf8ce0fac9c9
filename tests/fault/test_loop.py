# SPDX-License-Identifier: Apache-2.0
"""
A file that a loop device of this machine uses may be mounted, so it is not served for writing, neither at a start
nor by a change. A loop device attached while the file is served makes health red until it is detached. A file and
its loop device are not served at the same time. Needs the right to set up loop devices.
"""

import os
import subprocess
import sys
import tempfile

import store_world
from store_world import World, poll, quoted

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'wire'))
from tap import Tap  # noqa: E402

NAMESPACES = '/v1/subsystems/' + quoted(store_world.DEFAULT_NQN) + '/namespaces'
SIZE = 8 << 20


class Loop:
    """A loop device over a file; path is None where loop devices are not allowed."""

    def __init__(self, image, *options):
        made = subprocess.run(['losetup', '--find', '--show'] + list(options) + [image], capture_output=True, text=True)
        self.path = made.stdout.strip() if made.returncode == 0 else None

    def detach(self):
        if self.path:
            subprocess.run(['losetup', '--detach', self.path], capture_output=True)
            self.path = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.detach()


def image_make(folder, name):
    path = os.path.join(folder, name)
    file = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
    os.truncate(file, SIZE)
    os.close(file)
    return path


def add(world, nsid, media):
    return world.call('POST', NAMESPACES, {'nsid': nsid, 'media': media})


def remove(world, nsid):
    return world.call('DELETE', '%s/%d' % (NAMESPACES, nsid))


def health(world):
    status, answer = world.call('GET', '/v1/health')
    return status, ' '.join(problem['text'] for problem in answer['problems'])


def refused(t, answer, words, name):
    status, text = answer[0], str(answer[1])
    t.ok(status == 409 and all(word in text for word in words), name, why='%s %s' % (status, text))


def attached_before(t, world, image):
    with Loop(image) as loop:
        refused(t, add(world, 2, 'file:' + image), [loop.path, 'losetup -d'], 'a file that has a loop device')
        link = image + '.link'
        os.link(image, link)
        refused(t, add(world, 2, 'file:' + link), [loop.path], 'also by another name')
        os.unlink(link)
        t.eq(add(world, 2, 'file:' + image + ',readonly')[0], 201, 'reads alone do no harm')
        t.eq(health(world), (200, ''), 'and are no problem')
        remove(world, 2)
    with Loop(image, '--read-only'):
        t.eq(add(world, 2, 'file:' + image)[0], 201, 'nor does a loop device that cannot write')
        remove(world, 2)
    t.ok(poll(lambda: add(world, 2, 'file:' + image)[0] == 201), 'without a loop device the file is served')
    remove(world, 2)


def attached_later(t, world, image):
    t.ok(poll(lambda: add(world, 2, 'file:' + image)[0] == 201), 'a file is served')
    t.eq(health(world), (200, ''), 'health is green')
    with Loop(image) as loop:
        path = loop.path
        t.ok(poll(lambda: health(world)[0] == 503), 'a loop device is attached later: health is red')
        t.ok(path in health(world)[1], 'and names the device', why=health(world))
        t.ok(world.says(path + ' was attached to the file'), 'so does the log')
        refused(t, add(world, 3, 'file:' + path), ['the file of ' + path], 'the loop device is not served beside its file')
    t.ok(poll(lambda: health(world) == (200, '')), 'detached: health is green')
    remove(world, 2)


def device_first(t, world, image):
    with Loop(image) as loop:
        t.ok(poll(lambda: add(world, 2, 'file:' + loop.path)[0] == 201), 'a loop device is served')
        t.eq(health(world), (200, ''), 'and is no problem')
        refused(t, add(world, 3, 'file:' + image), [loop.path], 'its file is not served beside it')
        remove(world, 2)


def start_refused(t, folder, image):
    world = World(folder=os.path.join(folder, 'second'))
    os.mkdir(world.folder)
    world.args = ['--listen', '127.0.0.1:%d' % world.port, '--ns', 'file:' + image]
    with Loop(image) as loop:
        t.ok(not world.start(shim=False), 'a start with a file that has a loop device is refused')
        t.ok(world.process.returncode == 1 and loop.path in world.log(), 'with the reason', why=world.log())
    world.kill()


def main():
    t = Tap()
    with tempfile.TemporaryDirectory(prefix='weft-loop-') as folder:
        image = image_make(folder, 'image')
        with Loop(image) as loop:
            if not loop.path:
                t.skip('files of loop devices', 'loop devices are not allowed here')
                sys.exit(t.done())
        world = World()
        try:
            t.ok(world.start(shim=False), 'the target starts', why=world.log())
            for part in (attached_before, attached_later, device_first):
                with t.guard(part.__name__):
                    part(t, world, image)
            t.eq(world.stop(), 0, 'it ends with status 0')
            t.eq(world.alarms(), [], 'no failed check')
        finally:
            world.remove()
        start_refused(t, folder, image)
    sys.exit(t.done())


if __name__ == '__main__':
    main()
