#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Sources and destinations that change during `weft copy`: each ends the copy with an error that names the end. The
copy never has zeroes in place of data. $WEFT names the executable weft.
"""

import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'wire'))
import target  # noqa: E402
from copy_world import MIB, World, journal_bytes  # noqa: E402
from tap import Tap  # noqa: E402

SIZE = 16 * MIB
SOURCE, GROWING = 7, 8  # the namespaces after those that files are copied to
SIZES = 'had %d bytes when the copy began and has %d now'


def cut(path):
    os.truncate(path, SIZE // 2)


def cut_and_restore(path):
    os.truncate(path, 0)
    os.truncate(path, SIZE)


def append(path):
    with open(path, 'ab') as file:
        file.write(b'x' * 4096)


def write_inside(path):
    with open(path, 'r+b') as file:
        file.seek(SIZE - 4096)
        file.write(b'x')


def replace(path):
    with open(path + '.other', 'wb') as file:
        file.truncate(SIZE)
    os.rename(path + '.other', path)


SOURCES = (
    ('is cut', cut, SIZES % (SIZE, SIZE // 2)),
    ('is cut to nothing', lambda path: os.truncate(path, 0), SIZES % (SIZE, 0)),
    ('is cut and made as long as before', cut_and_restore, 'was written to during the copy'),
    ('grows', append, SIZES % (SIZE, SIZE + 4096)),
    ('is written to', write_inside, 'was written to during the copy'),
    ('is replaced', replace, None),
)
DESTINATIONS = (
    # A write in flight may have extended the file again.
    ('is cut', cut, SIZES.rsplit('%d', 1)[0] % SIZE),
    ('grows', append, SIZES % (SIZE, SIZE + 4096)),
    ('is removed', os.unlink, 'was removed or replaced during the copy'),
    ('is replaced', replace, 'was removed or replaced during the copy'),
)


class Case:
    """A slow copy; `change` is applied when some of it is done."""

    def __init__(self, world, name, ends, change, words):
        self.name, self.change, self.words = name, change, words
        self.journal = world.path()
        self.process = world.start(*ends, '--resume', self.journal, '--rate', '640k', '--size', '128k')

    def strike(self, t):
        under_way = target.poll(lambda: journal_bytes(self.journal) > 0 or self.process.poll() is not None, 60)
        t.ok(under_way and self.process.poll() is None, self.name + ': the copy is under way')
        self.change()

    def judge(self, t):
        out, err = self.process.communicate()
        code = self.process.returncode
        if self.words is None:
            t.ok(code == 0, self.name + ': what was opened is copied', why=out + err)
        else:
            t.ok(code == 1 and self.words in err, self.name + ': the copy fails and says why', why='%d\n%s%s' % (code, out, err))
        t.ok(not os.path.exists(self.journal), self.name + ': the next copy begins anew')


def grow(tgt, path):
    def change(config):
        for namespace in config['subsystems'][0]['namespaces']:
            if namespace['nsid'] == GROWING:
                namespace['media'] = 'file:%s,size=24M,block=4096' % path
    tgt.reload(change)


def test(t, tgt, folder):
    world = World(tgt, folder)
    data = os.urandom(SIZE)
    assert world.copy(world.put(data), world.url(SOURCE), '--quiet')[0] == 0
    cases = []
    for nsid, (name, change, words) in enumerate(SOURCES, 1):
        path = world.put(data)
        cases.append(Case(world, 'a source that ' + name, (path, world.url(nsid)),
                          lambda change=change, path=path: change(path), words))
    for name, change, words in DESTINATIONS:
        path = world.path()
        cases.append(Case(world, 'a destination that ' + name, (world.url(SOURCE), path),
                          lambda change=change, path=path: change(path), words))
    cases.append(Case(world, 'a namespace that grows', (world.url(GROWING), world.path()),
                      lambda: grow(tgt, os.path.join(folder, 'grows')), SIZES % (SIZE, 24 * MIB)))
    for step in (Case.strike, Case.judge):
        for case in reversed(cases):
            with t.guard(case.name):
                step(case, t)


if __name__ == '__main__':
    with tempfile.TemporaryDirectory(prefix='weft-copy-') as work:
        target.run(Tap(), lambda t, tgt: test(t, tgt, work), namespaces=[
            *(target.namespace(nsid, 'mem:16M,block=4096') for nsid in range(1, SOURCE + 1)),
            target.namespace(GROWING, 'file:%s,size=16M,block=4096' % os.path.join(work, 'grows')),
        ])
