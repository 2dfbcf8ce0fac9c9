#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
What `weft copy` refuses to prevent a loss of data: files and devices in use by a target, another copy or another
program, and a namespace copied onto itself. $WEFT names the executable weft.
"""

import contextlib
import fcntl
import os
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'wire'))
import target  # noqa: E402
from copy_world import MIB, TIMEOUT_S, World, digest, loop_device  # noqa: E402
from tap import Tap  # noqa: E402

F_OFD_SETLK = 37
MEMBER_LOCK_BASE = (1 << 62) + (1 << 32)  # src/media/member_lock.c


def served_files(t, world):
    """Files that the target serves are neither overwritten nor copied."""
    data = world.put(os.urandom(4 * MIB))
    world.good(t, 'namespace 1 is filled', data, world.url(1), '--verify')
    soft, hard = world.path(), world.path()
    os.symlink(world.image, soft)
    os.link(world.image, hard)
    pid = 'process %d (weft)' % world.tgt.process.pid
    for name, path in (('its own image', world.image), ('its image by a symbolic link', soft),
                       ('its image by a hard link', hard), ('the image of another', world.other_image)):
        before = os.stat(path).st_blocks
        code, _, err = world.copy(world.url(1), path)
        t.ok(code == 1 and pid + ' is using it' in err and 'copy to its nvme:// URL' in err,
             'a namespace to %s is refused' % name, why=err)
        t.eq((os.path.getsize(path), os.stat(path).st_blocks), (4 * MIB, before), 'the file is as it was')
    world.bad(t, 'a served file as the source', pid + ' is writing to it', world.image, world.url(2))
    world.good(t, 'namespace 1 is read', world.url(1), world.path('back'))
    t.eq(digest(world.path('back')), digest(data), 'nothing of it is lost')
    world.bad(t, 'a file that is served for reads, as the destination', 'is using it', world.url(1), world.read_image)
    world.good(t, 'a file that is served for reads, as the source', world.read_image, world.url(2), '--verify')


@contextlib.contextmanager
def opened(path, flags=os.O_RDWR):
    fd = os.open(path, flags)
    try:
        yield fd
    finally:
        os.close(fd)


def locked_files(t, world):
    """Other programs' locks are respected."""
    path = world.put(b'x' * MIB)
    pid = 'process %d ' % os.getpid()
    with opened(path) as fd:
        fcntl.flock(fd, fcntl.LOCK_EX)
        world.bad(t, 'a destination that is locked', pid, world.url(1), path)
        world.bad(t, 'a source that is locked', pid, path, world.url(2))
        fcntl.flock(fd, fcntl.LOCK_SH)
        world.bad(t, 'a destination that another process reads', pid, world.url(1), path)
        world.good(t, 'a source that another process reads too', path, world.url(2))
    with opened(path) as fd:
        fcntl.lockf(fd, fcntl.LOCK_EX, 1, 100)
        world.bad(t, 'a destination with a record lock', pid, world.url(1), path)
    with opened(path) as fd:
        # The lock of a member of a cluster.
        fcntl.fcntl(fd, F_OFD_SETLK, struct.pack('hhqqi4x', fcntl.F_RDLCK, os.SEEK_SET, MEMBER_LOCK_BASE + 3, 1, 0))
        world.bad(t, 'a destination that a cluster serves', 'members of a cluster', world.url(1), path)
        world.bad(t, 'a source that a cluster serves', 'members of a cluster', path, world.url(2))
    with open(path, 'rb') as file:
        t.ok(file.read() == b'x' * MIB, 'the file is as it was')


def locks_held(t, world):
    """A copy holds its locks to the end."""
    out = world.path()
    process = world.start(world.url(1), out, '--rate', '128k', '--size', '64k')
    t.ok(target.poll(lambda: os.path.exists(out) and os.path.getsize(out) == 4 * MIB, 60), 'a copy is under way')
    world.bad(t, 'a second copy to the same file', 'is using it', world.url(2), out)
    world.bad(t, 'a second copy from that file', 'is writing to it', out, world.url(2))
    serve = subprocess.run([target.weft_path(), 'serve', '--state', world.path(), '--listen',
                            '127.0.0.1:%d' % target.free_port(), '--discovery', 'none', '--ns', 'file:' + out],
                           capture_output=True, text=True, timeout=TIMEOUT_S)
    t.ok(serve.returncode != 0 and 'in use by another target or copy (process ' in serve.stderr,
         'a target does not serve that file', why=serve.stderr)
    process.terminate()
    process.communicate()
    world.good(t, 'after its end the file is free', world.url(2), out)


def same_namespace(t, world):
    world.bad(t, 'a namespace to itself', 'are the same namespace', world.url(1), world.url(1))
    world.bad(t, 'a namespace to itself by another path', 'are the same namespace', world.url(1),
              world.url(1, world.tgt.port, world.tgt.port))


def devices(t, world):
    device = loop_device(world.put(b'd' * (4 * MIB)))
    if not device:
        t.skip('block devices', 'no loop devices here')
        return
    try:
        with opened(device, os.O_RDWR | os.O_EXCL):
            world.bad(t, 'a device that is in use, as the destination', 'it is in use', world.url(1), device)
            code, _, err = world.copy(device, world.url(2), '--verify')
            t.ok(code == 0 and 'warning: %s is in use' % device in err, 'as the source: with a warning', why=err)
        code, _, err = world.copy(device, world.url(2), '--verify')
        t.ok(code == 0 and 'warning' not in err, 'a device that is free, as the source', why=err)
        world.good(t, 'as the destination', world.url(1), device, '--verify')
    finally:
        subprocess.run(['losetup', '--detach', device], check=True)


def test(t, tgt, folder):
    world = World(tgt, folder)
    world.image, world.other_image, world.read_image = (os.path.join(folder, name) for name in IMAGES)
    for part in (served_files, locked_files, locks_held, same_namespace, devices):
        with t.guard(part.__name__):
            part(t, world)


IMAGES = ('a.img', 'b.img', 'r.img')

if __name__ == '__main__':
    with tempfile.TemporaryDirectory(prefix='weft-copy-') as work:
        a, b, r = (os.path.join(work, name) for name in IMAGES)
        with open(r, 'wb') as image:
            image.write(b'r' * MIB)
        target.run(Tap(), lambda t, tgt: test(t, tgt, work), namespaces=[
            target.namespace(1, 'file:%s,size=4M,block=4096' % a),
            target.namespace(2, 'mem:4M,block=4096'),
            target.namespace(3, 'file:%s,size=4M,block=4096' % b),
            target.namespace(4, 'file:%s,block=4096,readonly' % r),
        ])
