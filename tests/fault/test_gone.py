# SPDX-License-Identifier: Apache-2.0
"""
A block device that goes away while it is served (a loop device whose file is cut): commands fail with a status,
nothing is written, health is red and names the remedy, everything else is served. `recheck` serves the device
again when it has its bytes back, or, sent twice, another device that has its name. Until then `recheck` closes
the device and the namespace is inaccessible. Needs the right to set up loop devices.
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
from target import poll  # noqa: E402

NS = '/v1/subsystems/' + quoted(store_world.DEFAULT_NQN) + '/namespaces/1'
BLOCK, SIZE, LEFT = 4096, 8 << 20, 1 << 20
DEVICE, FILE = 1, 2
INACCESSIBLE = (3, 0x02)


def losetup(*words):
    return subprocess.run(['losetup'] + list(words), capture_output=True, text=True)


class Device:
    """A loop device over a file."""

    def __init__(self, folder):
        self.image = os.path.join(folder, 'image-of-device')
        os.truncate(os.open(self.image, os.O_CREAT | os.O_WRONLY, 0o600), SIZE)
        made = losetup('--find', '--show', self.image)
        self.path = made.stdout.strip() if made.returncode == 0 else None

    def resize(self, size):
        os.truncate(self.image, size)
        losetup('--set-capacity', self.path)

    def is_attached(self):
        return self.image in losetup('--list', '--noheadings', '--output', 'BACK-FILE', self.path).stdout

    def detach(self):
        losetup('--detach', self.path)

    def attach(self):
        return losetup(self.path, self.image).returncode == 0


def data_of(lba):
    return n.pattern(BLOCK, lba + 1)


def host_of(world):
    return n.Host(('127.0.0.1', world.port), store_world.DEFAULT_NQN)


def problems(world):
    status, answer = world.call('GET', '/v1/health')
    return status, ' '.join(problem['text'] for problem in answer['problems'])


def recheck(world):
    return world.call('PATCH', NS, {'recheck': True})


def is_lost(world):
    return world.call('GET', NS)[1]['live']['lost']


def acknowledge(world):
    world.call('POST', '/v1/health/acknowledge')


def gone(t, world, conn, name):
    """Checks a device that has LEFT bytes or fewer."""
    t.status(conn.put(DEVICE, 1024, data_of(0), BLOCK), n.WRITE_FAULT, name + ': a write')
    t.status(conn.put(DEVICE, 0, data_of(1), BLOCK), n.WRITE_FAULT, name + ': a write of what is left')
    t.status(conn.read(DEVICE, 1024, 1, BLOCK), n.UNRECOVERED_READ, name + ': a read')
    t.status(conn.do(n.FLUSH, DEVICE), n.WRITE_FAULT, name + ': a flush')
    t.status(conn.put(FILE, 0, data_of(2), BLOCK), n.OK, name + ': the other namespace is served')
    status, text = problems(world)
    t.ok(status == 503 and 'removed, or shrank' in text and 'recheck' in text, name + ': health says so', why=text)


def back(t, world, conn, name):
    t.status(conn.put(DEVICE, 7, data_of(7), BLOCK), n.OK, name + ': it is written to again')
    t.eq(bytes(conn.read(DEVICE, 7, 1, BLOCK).data), data_of(7), name + ': and read')
    acknowledge(world)
    t.eq(problems(world), (200, ''), name + ': health is green')
    status, answer = recheck(world)
    t.ok(status == 409 or status == 400, name + ': recheck of one that is well', why='%s %s' % (status, answer))


def shrunk_and_back(t, world, device):
    """The same device lacks its bytes for a while."""
    with host_of(world) as host:
        conn = host.queue()
        conn.put(DEVICE, 0, data_of(0), BLOCK)
        conn.do(n.FLUSH, DEVICE)
        device.resize(LEFT)
        gone(t, world, conn, 'shrunk')
        t.eq(bytes(conn.read(DEVICE, 0, 1, BLOCK).data), data_of(0), 'shrunk: what is surely left can be read')
        device.resize(SIZE)
        t.status(conn.put(DEVICE, 0, data_of(1), BLOCK), n.WRITE_FAULT, 'restored: nothing is written unasked')
        status, answer = recheck(world)
        t.ok(status == 200, 'restored: recheck', why='%s %s' % (status, answer))
        t.eq(bytes(conn.read(DEVICE, 0, 1, BLOCK).data), data_of(0), 'restored: its data are there')
        back(t, world, conn, 'restored')


def removed_and_back(t, world, device):
    """The device is removed for good and another device gets its name."""
    with host_of(world) as host:
        conn = host.queue()
        conn.put(DEVICE, 0, data_of(0), BLOCK)
        conn.do(n.FLUSH, DEVICE)
        shutil.copyfile(device.image, device.image + '.copy')
        device.resize(0)
        gone(t, world, conn, 'removed')
        device.detach()
        status, answer = recheck(world)
        t.ok(status == 200 and is_lost(world), 'removed: recheck finds nothing', why='%s %s' % (status, answer))
        t.status(conn.read(DEVICE, 0, 1, BLOCK), INACCESSIBLE, 'removed: the namespace is inaccessible')
        t.ok(poll(lambda: not device.is_attached()), 'removed: the device is let go of')
        os.replace(device.image + '.copy', device.image)
        t.ok(device.attach(), 'another device has the name')
        status, answer = recheck(world)
        t.ok(status >= 400 and 'another device' in str(answer) and is_lost(world), 'back: it is not what was served',
             why='%s %s' % (status, answer))
        status, answer = recheck(world)
        t.ok(status == 200 and not is_lost(world), 'back: recheck', why='%s %s' % (status, answer))
        t.eq(bytes(conn.read(DEVICE, 0, 1, BLOCK).data), data_of(0), 'back: its data are there')
        back(t, world, conn, 'back')


def main():
    t = Tap()
    folder = tempfile.mkdtemp(prefix='weft-gone-')
    device = Device(folder)
    if not device.path:
        t.skip('a block device that goes away', 'loop devices are not allowed here')
        shutil.rmtree(folder)
        sys.exit(t.done())
    world = World(folder=folder)
    world.args = ['--listen', '127.0.0.1:%d' % world.port, '--ns', 'file:%s,block=%d' % (device.path, BLOCK),
                  '--ns', 'file:%s/file,size=1M,block=%d' % (folder, BLOCK)]
    try:
        t.ok(world.start(shim=False), 'a block device is served', why=world.log())
        for part in (shrunk_and_back, removed_and_back):
            with t.guard(part.__name__):
                part(t, world, device)
        t.eq(world.stop(), 0, 'it ends with status 0')
        t.eq(world.alarms(), [], 'no failed check')
    finally:
        world.kill()
        device.detach()
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(t.done())


if __name__ == '__main__':
    main()
