# SPDX-License-Identifier: Apache-2.0
"""
Two members of a cluster on one machine serve one file, and the kernel loses acknowledged writes (lossy_disk.py).
Linux reports the loss to descriptors that were open then: a flush through member a gets the error. The host of
member b, which wrote and has no path to a, must learn of the loss although b opens the file anew before that host
flushes. docs/adr/0036-lost-writes-fail-the-flush.md. Needs root, loop devices and mkfs.ext2.
"""

import contextlib
import os
import sys

from lossy_disk import BLOCK, PIECE, Disk, Writer, why_not

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'wire'))
import nbd  # noqa: E402
import nvmetcp as n  # noqa: E402
import target  # noqa: E402
from peerlink import World, host_of  # noqa: E402
from tap import Tap  # noqa: E402

NS = '/v1/subsystems/%s/namespaces/1' % target.NQN


def flush_fails(t, world):
    with host_of(world['a']) as host:
        t.ok(host.queue().do(n.FLUSH, 1).status != n.OK, 'the flush of another host, through a, hears of it')


def kill(world, name):
    world[name].kill()


def is_told(world):
    """Member b has logged the failed flush of member a."""
    return target.poll(lambda: 'member a could not flush the namespace' in world['b'].log())


def killed(t, world, disk):
    flush_fails(t, world)
    disk.resize('80m')
    t.ok(is_told(world), 'a tells b')
    kill(world, 'b')
    kill(world, 'a')
    world['b'].start()


def started_anew(t, world, disk):
    """b is not running when a's flush fails."""
    kill(world, 'b')
    flush_fails(t, world)
    disk.resize('80m')
    world['b'].start()


def a_alone_hears(t, world, disk):
    """b is stopped and receives nothing; both are killed when only a's store has the loss mark."""
    world.stop('b')
    flush_fails(t, world)
    disk.resize('80m')
    kill(world, 'a')
    kill(world, 'b')


def told_by_the_next(t, world, disk):
    """The next process of a reports the loss."""
    a_alone_hears(t, world, disk)
    world['a'].start()
    world['b'].start()


def alone(t, world, disk):
    """a does not come back: b cannot ask it."""
    a_alone_hears(t, world, disk)
    world['b'].start()


@contextlib.contextmanager
def members(t, name):
    world = disk = writer = None
    try:
        world = World(fence='none', start=False)
        disk = Disk(world.folder)
        for member in world.members.values():
            member.config['subsystems'][0]['namespaces'][0]['media'] = 'file:%s,block=%d' % (disk.image, BLOCK)
            member.write_config()
        world['a'].start()
        world['b'].start()
        t.ok(world.wait_up('a', 'b') and world.wait_up('b', 'a'), name + ': the members are linked')
        writer = Writer(t, world['b'].port, target.NQN)
        yield world, disk, writer
    finally:
        if writer:
            writer.finish(t, name)
        if world:
            for member in world.members.values():
                member.kill()
        if disk:
            disk.remove()
        if world:
            world.finish(t)


def told(t, what):
    name = what.__name__
    with members(t, name) as (world, disk, writer):
        what(t, world, disk)
        t.eq(writer.flush(), nbd.EIO, name + ': the flush of the one that wrote through b fails')
        t.eq((writer.nbd.ask(nbd.WRITE, 0, data=bytes(PIECE))[0], writer.flush()), (0, 0),
             name + ': once; written again it is stable')
        kill(world, 'b')
        world['b'].start()
        t.eq(writer.flush(), 0, name + ': and nothing is told twice')


def not_told(t):
    """Nothing was lost: a ends in order. b, which cannot ask a then, reports no loss to its host."""
    with members(t, 'in order') as (world, disk, writer):
        disk.resize('80m')
        world['a'].terminate()
        t.eq(world['a'].wait_exit(), 0, 'in order: a ends')
        kill(world, 'b')
        world['b'].start()
        t.eq(writer.flush(), 0, 'in order: the flush of the one that wrote through b succeeds')


def main():
    t = Tap()
    if why_not():
        t.skip('writes that the kernel lost, through two members', why_not())
        sys.exit(t.done())
    for what in (killed, started_anew, told_by_the_next, alone):
        with t.guard(what.__name__):
            told(t, what)
    with t.guard('in order'):
        not_told(t)
    sys.exit(t.done())


main()
