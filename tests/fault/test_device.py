# SPDX-License-Identifier: Apache-2.0
"""
Block devices whose names are exchanged over a restart, as those of disks are when the kernel finds them in
another order. Neither is served in place of the other: both namespaces are lost, health is red, the log has both
identities and the remedy. With the former names a recheck serves them. A second recheck by the operator accepts
the device that has the name now, but not a third device that got the name meanwhile. Needs the right to set up
loop devices.
"""

import os
import shutil
import subprocess
import sys
import tempfile

import store_world
from store_world import World, quoted

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'wire'))
import nvmetcp as n  # noqa: E402
from tap import Tap  # noqa: E402

SUB = '/v1/subsystems/' + quoted(store_world.DEFAULT_NQN)
SIZE = 4 << 20
BLOCK = 4096
INACCESSIBLE = (3, 0x02)


def losetup(*words):
    return subprocess.run(['losetup'] + list(words), capture_output=True, text=True)


def image_make(folder, letter):
    path = os.path.join(folder, 'image-' + letter)
    with open(path, 'wb') as file:
        file.write(letter.encode() * SIZE)
    return path


def attach(names, images):
    """Attaches a loop device to each image and makes each name a link to its device."""
    devices = []
    for name, image in zip(names, images):
        made = losetup('--find', '--show', image)
        if made.returncode != 0:
            detach(devices)
            return None
        devices.append(made.stdout.strip())
        if os.path.islink(name):
            os.unlink(name)
        os.symlink(devices[-1], name)
    return devices


def detach(devices):
    for device in devices or []:
        losetup('--detach', device)


def first_byte(world, nsid):
    with n.Host(('127.0.0.1', world.port), store_world.DEFAULT_NQN) as host:
        cmd = host.queue().read(nsid, 0, 1, BLOCK)
        return bytes(cmd.data)[:1].decode() if cmd.status == n.OK else cmd.status


def is_lost(world, nsid):
    return world.call('GET', '%s/namespaces/%d' % (SUB, nsid))[1]['live']['lost']


def uuid_of(world, nsid):
    return world.call('GET', '%s/namespaces/%d' % (SUB, nsid))[1]['uuid']


def recheck(world, nsid):
    return world.call('PATCH', '%s/namespaces/%d' % (SUB, nsid), {'recheck': True})


def errors_of(world):
    status, answer = world.call('GET', '/v1/health')
    return status, [problem['text'] for problem in answer['problems'] if problem['severity'] == 'error']


class Scene:
    def __init__(self, folder):
        self.images = [image_make(folder, letter) for letter in 'ABC']
        self.names = [os.path.join(folder, 'disk%d' % i) for i in (1, 2)]
        self.devices = attach(self.names, self.images[:2])
        self.world = World(folder=folder)
        self.world.args = ['--listen', '127.0.0.1:%d' % self.world.port]
        for name in self.names:
            self.world.args += ['--ns', 'file:%s,block=%d' % (name, BLOCK)]

    def give(self, images):
        """Links the names to loop devices of these images."""
        detach(self.devices)
        self.devices = attach(self.names, images)

    def restart_with(self, images):
        self.world.stop()
        self.give(images)
        return self.world.start(shim=False)


def same(t, scene):
    world = scene.world
    a, b, _ = scene.images
    t.eq([first_byte(world, 1), first_byte(world, 2)], ['A', 'B'], 'first start: each is its own')
    scene.uuids = [uuid_of(world, 1), uuid_of(world, 2)]
    t.ok(scene.restart_with([a, b]), 'restart with new loop devices', why=world.log())
    t.eq([first_byte(world, 1), first_byte(world, 2)], ['A', 'B'], 'other numbers, same disks: served')
    t.eq(errors_of(world), (200, []), 'and health is green')


def exchanged(t, scene):
    world = scene.world
    a, b, _ = scene.images
    t.ok(scene.restart_with([b, a]), 'names exchanged: the target starts', why=world.log())
    t.eq([first_byte(world, 1), first_byte(world, 2)], [INACCESSIBLE] * 2, 'exchanged: neither is served')
    t.ok(is_lost(world, 1) and is_lost(world, 2), 'exchanged: both are lost')
    status, texts = errors_of(world)
    t.ok(status == 503 and len([text for text in texts if 'another device' in text]) == 2, 'exchanged: health is red',
         why=str(texts))
    ids = ['loop:%d:' % os.stat(image).st_ino for image in (a, b)]
    world.says('namespace recheck')
    lines = [line for line in world.log().splitlines() if scene.names[0] in line and 'recheck' in line]
    t.ok(len(lines) == 1 and all(word in lines[0] for word in ids), 'exchanged: one line has both identities',
         why=world.log())
    t.eq([uuid_of(world, 1), uuid_of(world, 2)], scene.uuids, 'exchanged: the UUIDs stay')
    t.ok(world.stop() == 0 and world.start(shim=False) and is_lost(world, 1), 'exchanged: lost after another start too')


def brought_back(t, scene):
    world = scene.world
    a, b, _ = scene.images
    scene.give([a, b])
    for nsid in (1, 2):
        status, answer = recheck(world, nsid)
        t.ok(status == 200, 'names as they were: recheck of %d' % nsid, why='%s %s' % (status, answer))
    t.eq([first_byte(world, 1), first_byte(world, 2)], ['A', 'B'], 'names as they were: each is its own')
    t.eq(errors_of(world), (200, []), 'names as they were: health is green')


def operators_word(t, scene):
    world = scene.world
    _, b, c = scene.images
    t.ok(scene.restart_with([b, b]), 'a name with another device', why=world.log())
    scene.give([c, b])
    status, answer = recheck(world, 1)
    t.ok(status >= 400 and 'loop:%d:' % os.stat(c).st_ino in str(answer) and is_lost(world, 1),
         'a third device: the word was not for it', why='%s %s' % (status, answer))
    t.ok('loop:%d:' % os.stat(c).st_ino in str(errors_of(world)[1]), 'a third device: health names it')
    status, answer = recheck(world, 1)
    t.ok(status == 200 and first_byte(world, 1) == 'C', 'the operator was told, and asks for it',
         why='%s %s' % (status, answer))
    t.ok(scene.restart_with([c, b]) and first_byte(world, 1) == 'C', 'and it is the known one from then on',
         why=world.log())


def deleted(t, scene):
    """A deleted file's data exist as long as its loop device: health does not advise to bring another device."""
    world = scene.world
    c = scene.images[2]
    t.eq(world.stop(), 0, 'deleted: it ends')
    os.unlink(c)
    t.ok(world.start(shim=False), 'the file behind a device was deleted: it starts', why=world.log())
    status, texts = errors_of(world)
    t.ok(status == 503 and len(texts) == 1 and 'was deleted' in texts[0] and 'copy them first' in texts[0] and
         'recheck' in texts[0] and 'another device' not in texts[0],
         'deleted: health says why the device is not served, and what to do', why=str(texts))
    status, answer = recheck(world, 1)
    t.ok(status == 200 and first_byte(world, 1) == 'C', 'deleted: the operator asks for it', why='%s %s' % (status, answer))
    t.ok(world.stop() == 0 and world.start(shim=False) and first_byte(world, 1) == 'C',
         'deleted: and it is the known one from then on', why=world.log())


def main():
    t = Tap()
    folder = tempfile.mkdtemp(prefix='weft-device-')
    scene = Scene(folder)
    if not scene.devices:
        t.skip('block devices that change their names', 'loop devices are not allowed here')
        shutil.rmtree(folder)
        sys.exit(t.done())
    try:
        t.ok(scene.world.start(shim=False), 'block devices are served', why=scene.world.log())
        for part in (same, exchanged, brought_back, operators_word, deleted):
            with t.guard(part.__name__):
                part(t, scene)
        t.eq(scene.world.stop(), 0, 'it ends with status 0')
        t.eq(scene.world.alarms(), [], 'no failed check')
    finally:
        scene.world.kill()
        detach(scene.devices)
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(t.done())


if __name__ == '__main__':
    main()
