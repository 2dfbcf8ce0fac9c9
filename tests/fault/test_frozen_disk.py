# SPDX-License-Identifier: Apache-2.0
"""
A disk that hangs: a file system of its own, frozen. Commands of one host wait in the kernel for as long. Reads,
writes, flushes and deallocations of another host on another disk, and a clean end of the target, do not wait for
them. Needs root, loop devices, mkfs.ext4 and fsfreeze.
"""

import os
import shutil
import struct
import subprocess
import sys

import store_world
from lossy_disk import run
from store_world import World

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'wire'))
import nvmetcp as n  # noqa: E402
import peerlink  # noqa: E402
import target  # noqa: E402
from tap import Tap  # noqa: E402

HUNG, WELL = (1, 2, 3, 4), 5
BLOCK = 4096
DSM, ZEROES = 0x09, 0x08
WRITERS, FLUSHERS = 5, 4  # queues of 127 commands
OTHER = {'hostnqn': 'nqn.2014-08.org.nvmexpress:uuid:22222222-2222-4333-8444-555555555555', 'hostid': bytes(16 * [7])}


def why_not():
    """Returns the reason why the disk cannot be made here, or None."""
    if os.geteuid() == 0 and shutil.which('mkfs.ext4') and shutil.which('fsfreeze') and os.path.exists('/dev/loop-control'):
        return None
    return 'needs root, loop devices, mkfs.ext4 and fsfreeze'


class Disk:
    """A file system that can be frozen."""

    def __init__(self, folder):
        self.mount = os.path.join(folder, 'disk')
        self.is_mounted = self.is_frozen = False
        image = os.path.join(folder, 'ext4')
        with open(image, 'wb') as file:
            file.truncate(64 << 20)
        run('mkfs.ext4', '-q', image)
        os.mkdir(self.mount)
        run('mount', '-o', 'loop', image, self.mount)
        self.is_mounted = True

    def freeze(self):
        run('fsfreeze', '-f', self.mount)
        self.is_frozen = True

    def thaw(self):
        if self.is_frozen:
            run('fsfreeze', '-u', self.mount)
        self.is_frozen = False

    def remove(self):
        self.thaw()
        if self.is_mounted:
            run('umount', self.mount)


def pile_up(host):
    """More commands on the files of the disk that hangs than the kernel has workers, and than one file may have."""
    commands = []
    for qid in range(1, WRITERS + FLUSHERS + 1):
        queue = host.queue(qid)
        for i in range(120):
            if qid <= WRITERS:
                cmd = queue.submit(n.WRITE, nsid=HUNG[i % len(HUNG)], cdw10=i * 2, cdw12=0, data=b'z' * BLOCK)
            else:
                cmd = queue.submit(n.FLUSH, nsid=HUNG[i % len(HUNG)])
            commands.append((queue, cmd))
    return commands


def rows(t, world, disk):
    with n.Host(('127.0.0.1', world.port), store_world.DEFAULT_NQN) as host, \
            n.Host(('127.0.0.1', world.port), store_world.DEFAULT_NQN, **OTHER) as other:
        queue = other.queue()
        statuses = [host.queue(20 + nsid).put(nsid, 1, b'r' * BLOCK, BLOCK).status for nsid in HUNG]
        t.eq(set(statuses), {n.OK}, 'a disk that is well')
        disk.freeze()
        commands = pile_up(host)
        t.eq(queue.put(WELL, 900, b'x' * BLOCK, BLOCK).status, n.OK, 'a write to another disk is answered')
        t.eq(queue.do(n.FLUSH, WELL).status, n.OK, 'a flush of it')
        t.eq(queue.do(DSM, WELL, data=struct.pack('<IIQ', 0, 1, 901), cdw11=4).status, n.OK, 'a deallocation')
        t.eq(queue.do(ZEROES, WELL, cdw10=902, cdw12=0).status, n.OK, 'zeroes')
        t.eq(bytes(queue.read(WELL, 900, 1, BLOCK).data), b'x' * BLOCK, 'and a read')
        t.eq(bytes(queue.read(HUNG[0], 1, 1, BLOCK).data), b'r' * BLOCK, 'and a direct read of the disk whose writes hang')
        t.ok(not any(cmd.is_done for _, cmd in commands[:120]), 'while the other disk hangs')
        disk.thaw()
        answers = {queue.wait(cmd).status for queue, cmd in commands}
        t.eq(answers, {n.OK}, 'which executes all of its commands when it goes on')


def helpers(t):
    """A member of a cluster writes through helper threads where a call would block: 8 for all stores of a reactor."""
    world, disk = peerlink.World(names=('a', 'b'), start=False), None
    member = world['a']
    try:
        disk = Disk(world.folder)
        member.config['subsystems'][0]['namespaces'].append(target.namespace(
            2, 'file:%s/shared,size=8M,block=4096' % disk.mount, uuid='7f1c7b9a-52e0-4d0b-9a39-1f0f5c1d2e3f', clustered=True))
        member.reactors = 1
        member.write_config()
        member.start()
        with member.host(kato_ms=60000) as host, member.host(kato_ms=60000, **OTHER) as other:
            queue, innocent = host.queue(), other.queue()
            target.know(host, queue, 2, BLOCK)
            target.know(other, innocent, 1, BLOCK)
            t.eq(queue.put(2, 0, b'a' * BLOCK, BLOCK).status, n.OK, 'a member with two disks')
            disk.freeze()
            commands = [queue.rw(n.WRITE, 2, 2 * i, 1, BLOCK, b'z' * BLOCK) for i in range(16)]
            t.eq(innocent.do(ZEROES, 1, cdw10=9, cdw12=0).status, n.OK, 'zeroes on one disk while writes to the other hang')
            t.eq(innocent.put(1, 100, b'y' * BLOCK, BLOCK).status, n.OK, 'and a write that allocates')
            t.ok(not any(cmd.is_done for cmd in commands), 'are answered meanwhile')
            disk.thaw()
            t.eq({queue.wait(cmd).status for cmd in commands}, {n.OK}, 'the others end when their disk goes on')
        member.terminate()
        t.eq(member.wait_exit(), 0, 'the member ends with status 0')
    finally:
        if disk:
            disk.thaw()
        member.kill()
        if disk:
            disk.remove()
        shutil.rmtree(world.folder, ignore_errors=True)


def main():
    t = Tap()
    if why_not():
        t.skip('a disk that hangs', why_not())
        sys.exit(t.done())
    world, disk = World(), None
    try:
        disk = Disk(world.folder)
        world.args = ['--listen', '127.0.0.1:%d' % world.port]
        for nsid in HUNG:
            world.args += ['--ns', 'file:%s/image%d,size=8M' % (disk.mount, nsid)]
        world.args += ['--ns', 'file:%s/image,size=16M' % world.folder]
        with t.guard('a disk that hangs'):
            t.ok(world.start(shim=False), 'it starts', why=world.log())
            rows(t, world, disk)
        t.eq(world.stop(), 0, 'and the target ends with status 0')
    finally:
        if disk:
            disk.thaw()
        world.kill()
        if disk:
            disk.remove()
        world.remove()
    with t.guard('helpers'):
        helpers(t)
    sys.exit(t.done())


main()
