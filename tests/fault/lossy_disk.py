# SPDX-License-Identifier: Apache-2.0
"""
A disk whose kernel acknowledges buffered writes and cannot write them back: a file system on a loop device whose
own store is full. Also an attached disk that has made such writes. Needs root, loop devices and mkfs.ext2.
"""

import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'wire'))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
import nbd  # noqa: E402
import target  # noqa: E402
from test_attach import Attach  # noqa: E402

BLOCK = 512  # smaller than the device's, so that direct I/O is impossible
PIECE = 65536
IMAGE_MIB = 32


def why_not():
    """Returns the reason why the disk cannot be made here, or None."""
    if os.geteuid() == 0 and shutil.which('mkfs.ext2') and os.path.exists('/dev/loop-control'):
        return None
    return 'needs root, loop devices and mkfs.ext2'


def run(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


class Disk:
    """A file system of 64 MiB on a tmpfs with only 300 KiB of free room."""

    def __init__(self, folder):
        self.tmpfs, self.mount = os.path.join(folder, 'tmpfs'), os.path.join(folder, 'disk')
        self.undo = []
        os.mkdir(self.tmpfs)
        os.mkdir(self.mount)
        self.do(('umount', self.tmpfs), 'mount', '-t', 'tmpfs', '-o', 'size=80m', 'none', self.tmpfs)
        back = os.path.join(self.tmpfs, 'back')
        with open(back, 'wb') as file:
            file.truncate(64 << 20)
        loop = run('losetup', '-f', '-b', '4096', '--show', back)
        self.undo.append(('losetup', '-d', loop))
        run('mkfs.ext2', '-q', '-b', '4096', loop)
        self.do(('umount', self.mount), 'mount', loop, self.mount)
        self.image = os.path.join(self.mount, 'image')
        with open(self.image, 'wb') as file:
            file.write(bytes(IMAGE_MIB << 20))
            os.fsync(file.fileno())
        run('sync', '-f', self.mount)
        run('fallocate', '-d', back)
        used_kib = os.stat(back).st_blocks // 2
        self.resize('%dk' % (used_kib + 300))

    def do(self, undo, *words):
        run(*words)
        self.undo.append(undo)

    def resize(self, size):
        run('mount', '-o', 'remount,size=' + size, self.tmpfs)

    def remove(self):
        for words in reversed(self.undo):
            subprocess.run(words, check=False, capture_output=True)


class Writer:
    """An attached disk with writes that the kernel will lose and that it has not flushed."""

    def __init__(self, t, port, nqn):
        target.NQN = nqn
        self.attach = Attach([port], 1)
        self.nbd = self.attach.client()
        t.eq(self.flush(), 0, 'the attached disk flushes')
        data = os.urandom(PIECE)
        written = [self.nbd.ask(nbd.WRITE, i * PIECE, data=data)[0] for i in range(64)]
        t.eq(set(written), {0}, 'and writes what does not fit')

    def flush(self):
        return self.nbd.ask(nbd.FLUSH)[0]

    def finish(self, t, name):
        self.nbd.sock.close()
        self.attach.finish(t, name)
