#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
When `weft copy --resume` continues and when it refuses: a destination or source that is missing, truncated,
replaced or overwritten since the journal was written is refused, and nothing is changed. $WEFT names the
executable weft.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'wire'))
import nvmetcp as n  # noqa: E402
import target  # noqa: E402
from copy_world import MIB, World, digest, interrupted, journal_bytes, loop_device  # noqa: E402
from tap import Tap  # noqa: E402

TAG = 'user.weft.copy'
SIZE = 16 * MIB


def has_tags(path):
    """Whether the file system has extended attributes."""
    try:
        os.setxattr(path, 'user.weft.test', b'')
        os.removexattr(path, 'user.weft.test')
        return True
    except OSError:
        return False


def remade(path):
    """Another file of the same name and size; many file systems give it the same inode number."""
    os.unlink(path)
    with open(path, 'wb') as file:
        file.truncate(SIZE)


def half_file(t, world, name):
    """Starts a copy of namespace 1 to a file and kills it in the middle; returns the file and its journal."""
    out, journal = world.path(), world.path()
    interrupted(world, signal.SIGKILL, world.url(1), out, journal=journal)
    t.ok(0 < journal_bytes(journal) < SIZE, name + ': a copy is killed in the middle')
    return out, journal


def missing_file(t, world, data):
    out, journal = half_file(t, world, 'missing')
    os.rename(out, out + '.away')
    world.bad(t, 'a destination that is missing', 'is missing, and the journal', world.url(1), out, '--resume', journal)
    t.ok(not os.path.exists(out), 'it is not made')
    shutil.copy2(out + '.away', out)
    world.bad(t, 'a destination that is a copy', 'was recreated', world.url(1), out, '--resume', journal)
    os.unlink(out)
    os.rename(out + '.away', out)
    for size in (SIZE - 1, SIZE + 1):
        os.truncate(out, size)
        world.bad(t, 'a destination of another size', 'has %d bytes and had %d' % (size, SIZE), world.url(1), out,
                  '--resume', journal)
        t.eq(os.path.getsize(out), size, 'it is left alone')
        os.truncate(out, SIZE)
    world.good(t, 'the same destination again: the copy goes on', world.url(1), out, '--resume', journal)
    t.eq(digest(out), digest(data), 'all of it is there')
    t.ok(not os.path.exists(journal) and TAG not in os.listxattr(out), 'the journal and the tag are gone')


def remade_file(t, world, data):
    out, journal = half_file(t, world, 'made anew')
    before = os.stat(out).st_ino
    remade(out)
    t.ok(True, 'the new file has %s inode number' % ('the same' if os.stat(out).st_ino == before else 'another'))
    world.bad(t, 'a destination that was made anew', 'was recreated', world.url(1), out, '--resume', journal)
    t.eq(os.stat(out).st_blocks, 0, 'it is left alone')
    os.unlink(journal)
    world.good(t, 'without the journal everything is copied', world.url(1), out, '--resume', journal)
    t.eq(digest(out), digest(data), 'all of it is there')


def overwritten_file(t, world, data):
    """Another copy to the same file invalidates the journal."""
    for args in ((), ('--resume', world.path())):
        out, journal = half_file(t, world, 'overwritten')
        if not has_tags(out):
            t.skip('a destination that another copy wrote to', 'no extended attributes here')
            return
        world.good(t, 'another copy to the same file', world.url(3), out, *args)
        world.bad(t, 'then the first one', 'another copy wrote to', world.url(1), out, '--resume', journal)
    out, journal = half_file(t, world, 'no tags')
    os.removexattr(out, TAG)
    with open(journal, 'r+') as file:
        text = file.read().replace('tagged 1\n', 'tagged 0\n')
        file.seek(0)
        file.write(text)
    world.good(t, 'a file system without extended attributes: it goes on', world.url(1), out, '--resume', journal)
    t.eq(digest(out), digest(data), 'all of it is there')


def sources(t, world, data):
    journal = world.path()
    interrupted(world, signal.SIGKILL, data, world.url(2), journal=journal)
    done = journal_bytes(journal)
    os.rename(data, data + '.away')
    world.bad(t, 'a source that is missing', 'No such file', data, world.url(2), '--resume', journal)
    shutil.copy2(data + '.away', data)
    os.utime(data, ns=(0, os.stat(data + '.away').st_mtime_ns))
    world.bad(t, 'a source that is another file of the same time', 'is another source', data, world.url(2), '--resume',
              journal)
    os.rename(data + '.away', data)
    t.eq(journal_bytes(journal), done, 'the journal is as it was')
    world.good(t, 'the same source again: the copy goes on', data, world.url(2), '--resume', journal, '--verify')


def namespaces(t, world, data):
    journal = world.path()
    interrupted(world, signal.SIGKILL, data, world.url(2), journal=journal)
    world.bad(t, 'another namespace', 'is another destination', data, world.url(4), '--resume', journal)
    world.tgt.kill()
    world.tgt.start()
    world.bad(t, 'memory that was lost', 'is another destination', data, world.url(2), '--resume', journal)


def changed_namespaces(t, world, data):
    """
    A namespace that was formatted or written to since the interruption, as destination or as source: its identity is
    the same, so the copied part is compared.
    """
    other, zeroes = world.put(os.urandom(SIZE)), world.put(bytes(SIZE))

    def format_ns():
        with world.tgt.host() as host:
            t.status(host.admin.do(0x80, nsid=2, cdw10=1 | 1 << 9), n.OK, 'the destination is formatted')

    def over():
        world.good(t, 'another copy to the destination', other, world.url(2))

    def source():
        world.good(t, 'the source is written to', other, world.url(1))
    for change, ends in ((format_ns, (data, world.url(2))), (over, (data, world.url(2))), (source, (world.url(1), world.path()))):
        journal = world.path()
        world.good(t, 'the source is as before', data, world.url(1))
        world.good(t, 'the destination is empty', zeroes, world.url(2))
        interrupted(world, signal.SIGKILL, *ends, journal=journal)
        done = journal_bytes(journal)
        t.ok(0 < done < SIZE, 'a copy is killed in the middle')
        change()
        world.bad(t, 'the copied part differs: refused', 'since the copy was interrupted', *ends, '--resume', journal)
        t.eq(journal_bytes(journal), done, 'the journal is as it was')
        os.unlink(journal)
        world.good(t, 'without the journal everything is copied', *ends, '--resume', journal, '--verify')
    world.good(t, 'the source is as before', data, world.url(1))


def devices(t, world, data):
    """A device of the same name and size, over another file."""
    first, second, journal = world.put(bytes(SIZE)), world.put(bytes(SIZE)), world.path()
    device = loop_device(first)
    if not device:
        t.skip('block devices', 'no loop devices here')
        return
    try:
        interrupted(world, signal.SIGKILL, world.url(1), device, journal=journal)
        t.ok(0 < journal_bytes(journal) < SIZE, 'device: a copy is killed in the middle')
        shutil.copy(journal, journal + '.kept')
        world.good(t, 'the same device: the copy goes on', world.url(1), device, '--resume', journal, '--verify')
        os.rename(journal + '.kept', journal)
        subprocess.run(['losetup', '--detach', device], check=True)
        if not loop_device(second, device):
            device = None
            t.skip('another device of the same name', 'another program took it')
            return
        world.bad(t, 'another device of the same name', 'is another destination', world.url(1), device, '--resume', journal)
    finally:
        if device:
            subprocess.run(['losetup', '--detach', device], check=True)


def journals(t, world, data):
    """Files that the journal may and may not be."""
    out = world.path()
    world.bad(t, 'the journal is the destination', 'name another file', world.url(1), out, '--resume', out)
    t.ok(not os.path.exists(out), 'no file is made')
    link = world.path()
    os.symlink(out, link)
    world.bad(t, 'the journal is the destination by a link', 'name another file', world.url(1), out, '--resume', link)
    os.unlink(link)
    os.symlink(data, link)
    world.bad(t, 'the journal is the source', 'not a journal', data, world.url(2), '--resume', link)
    beside = world.path('journal.new')
    shutil.copy(data, beside)
    world.good(t, 'a source beside the journal', beside, world.url(2), '--resume', world.path('journal'))
    t.eq(digest(beside), digest(data), 'it is as it was')
    t.eq([name for name in os.listdir(world.folder) if name.startswith('journal')], ['journal.new'], 'nothing is left')
    old = world.put(b'weft-copy 1\nfrom file 1:2:0\nto namespace x\nbytes 5\ndone 5\n')
    world.bad(t, 'a journal of an earlier version', 'earlier version', world.url(1), out, '--resume', old)
    t.ok(re.search(rb'^weft-copy 1', open(old, 'rb').read()), 'it is left alone')


def test(t, tgt):
    with tempfile.TemporaryDirectory(prefix='weft-copy-') as folder:
        world = World(tgt, folder)
        data = world.put(os.urandom(SIZE))
        assert world.copy(data, world.url(1), '--quiet')[0] == 0
        for part in (missing_file, remade_file, overwritten_file, sources, devices, journals, changed_namespaces, namespaces):
            with t.guard(part.__name__):
                part(t, world, data)


if __name__ == '__main__':
    target.run(Tap(), test, rights=target.ALL_RIGHTS, namespaces=[target.namespace(nsid, 'mem:16M,block=4096') for nsid in (1, 2, 3, 4)])
