# SPDX-License-Identifier: Apache-2.0
"""
The kernel acknowledges buffered writes and cannot write them back: a file system on a loop device whose own store
is full. Linux reports this once, to one flush. That flush fails, every later one on any queue fails too, and
health is red, until the operator rechecks. An attached disk that wrote, and flushes only after a restart, a
recheck or a removal, gets the error too. Needs root, loop devices and mkfs.ext2.
"""

import os
import signal
import struct
import subprocess
import sys

import store_world
from lossy_disk import BLOCK, IMAGE_MIB, PIECE, Disk, Writer, why_not
from store_world import World, quoted

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'wire'))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
import nbd  # noqa: E402
import nvmetcp as n  # noqa: E402
import target  # noqa: E402
from tap import Tap  # noqa: E402

NQN = store_world.DEFAULT_NQN
NS = '/v1/subsystems/' + quoted(NQN) + '/namespaces/1'
SHST_COMPLETE = 2 << 2
SLOW_FLUSH = 'fault:stuck:op=flush:ms=300@'  # its host has gone before it ends
FLUSH_TAG = int.from_bytes(b'weft', 'little')


def flush(host, qid):
    return host.queue(qid).do(n.FLUSH, 1).status


def mark_of(host):
    """Returns the loss mark that Identify reports."""
    page = host.admin.identify(0, 1).data
    return struct.unpack_from('<Q', page, 384 + 16)[0]


def flush_knowing(queue, mark):
    return queue.do(n.FLUSH, 1, cdw13=FLUSH_TAG, cdw14=mark & 0xffffffff, cdw15=mark >> 32).status


def rows(t, world, disk):
    def health():
        status, answer = world.call('GET', '/v1/health')
        return status, [p['text'] for p in answer['problems'] if 'a flush failed' in p['text']]

    with n.Host(('127.0.0.1', world.port), NQN) as host:
        queue = host.queue(1)
        t.eq(queue.do(n.FLUSH, 1).status, n.OK, 'a flush of a disk that is well')
        before = mark_of(host)
        t.eq(flush_knowing(queue, before), n.OK, 'and one that tells the mark that its host knows')
        written = [queue.put(1, i * PIECE // BLOCK, os.urandom(PIECE), BLOCK).status for i in range(64)]
        t.eq(set(written), {n.OK}, 'the kernel takes what does not fit')
        t.ok(queue.do(n.FLUSH, 1).status != n.OK, 'the flush hears that it does not fit')
        t.ok(queue.do(n.FLUSH, 1).status != n.OK, 'so does the next one')
        t.ok(flush(host, 2) != n.OK, 'and that of another queue')
        fua = queue.do(n.WRITE, 1, cdw10=0, cdw12=1 << 30, data=bytes(BLOCK))
        t.ok(fua.status != n.OK, 'a write with FUA cannot be promised either')
        status, texts = health()
        t.ok(status == 503 and len(texts) == 1 and 'recheck' in texts[0] and disk.image in texts[0],
             'health tells file and remedy', why='%s %s' % (status, texts))
        world.change('POST', '/v1/subsystems/%s/namespaces' % quoted(NQN), {'nsid': 5, 'media': 'mem:1M'})
        t.ok(queue.do(n.FLUSH, 1).status != n.OK, 'another change does not make it well')
        disk.resize('80m')
        t.ok(queue.do(n.FLUSH, 1).status != n.OK, 'nor does room: what is lost is lost')
        t.eq(world.call('PATCH', NS, {'recheck': True, 'ana_group': 0})[0], 400, 'a recheck with a wrong field is refused')
        t.ok(queue.do(n.FLUSH, 1).status != n.OK, 'and has no effect')
        world.change('PATCH', NS, {'recheck': True})
        data = os.urandom(PIECE)
        t.eq(queue.put(1, 0, data, BLOCK).status, n.OK, 'after recheck it is written again')
        t.eq((queue.do(n.FLUSH, 1).status, flush(host, 3)), (n.OK, n.OK), 'and flushed')
        t.eq(flush_knowing(queue, before), n.WRITE_FAULT, 'but not for a host that does not know of the loss')
        t.eq(flush_knowing(queue, mark_of(host)), n.OK, 'until it has read the new mark')
        t.eq(health()[1], [], 'and health has forgotten')
        t.eq(world.call('PATCH', NS, {'recheck': True})[0], 409, 'there is nothing to recheck any more')


def other_flush(t, world):
    with n.Host(('127.0.0.1', world.port), NQN) as host:
        t.ok(flush(host, 1) != n.OK, 'the flush of another host hears of it')


def end_in_order(t, world):
    world.stop()
    t.ok('flush at shutdown failed' in world.log(), 'the flush at the end fails', why=world.log())


def killed(t, world):
    other_flush(t, world)
    world.kill()


def left(t, world):
    """A host disconnects in order: the flush of its controller's shutdown gets the error, and no command does."""
    with n.Host(('127.0.0.1', world.port), NQN) as host:
        host.admin.set_property(n.CC, n.CC_ENABLE | 1 << 14)
        t.eq(host.admin.csts_until(SHST_COMPLETE, 0xc) & 0xc, SHST_COMPLETE, 'the controller shuts down')
    t.ok('flush at shutdown failed' in world.log(), 'its flush fails', why=world.log())
    world.kill()


def gone(t, world):
    """The flush that gets the error belongs to a host that has gone; then the operator rechecks."""
    with n.Host(('127.0.0.1', world.port), NQN) as host:
        host.queue(1).submit(n.FLUSH, 1)
    t.ok(target.poll(lambda: world.call('GET', '/v1/health')[0] == 503), 'the flush of a host that is gone fails',
         why=world.log())
    t.ok(target.poll(lambda: world.call('PATCH', NS, {'recheck': True})[0] == 200), 'it is rechecked', why=world.log())
    world.stop()


def rechecked(t, world):
    other_flush(t, world)
    world.change('PATCH', NS, {'recheck': True})


def removed_and_added(t, world):
    other_flush(t, world)
    status, before = world.call('GET', NS)
    t.eq(status, 200, 'the namespace')
    world.change('DELETE', NS, None)
    world.change('POST', '/v1/subsystems/%s/namespaces' % quoted(NQN),
                 {key: before[key] for key in ('nsid', 'media', 'uuid')})


def grow(t, world):
    """The sync of a growth takes the kernel's one error report, because hosts use the same open file."""
    media = world.call('GET', NS)[1]['media']
    status, answer = world.call('PATCH', NS, {'media': '%s,size=%dM' % (media, IMAGE_MIB + 1)})
    t.ok(status >= 400 and 'cannot sync' in str(answer), 'a growth fails that hears of it', why=str(answer))
    t.eq(world.call('GET', '/v1/health')[0], 503, 'and health is red')


def grown_and_rechecked(t, world, disk, writer):
    """No notice follows: the flush reports the mark that its host knows, and the host reads it again."""
    grow(t, world)
    disk.resize('80m')
    world.change('PATCH', NS, {'recheck': True})
    t.eq(writer.flush(), nbd.EIO, 'grown: the flush of the one that wrote fails')
    t.eq(writer.nbd.ask(nbd.WRITE, 0, data=bytes(PIECE))[0], 0, 'grown: it is written again')
    t.ok(target.poll(lambda: writer.flush() == 0), 'grown: and stable when the mark is read')


def grown_and_killed(t, world):
    grow(t, world)
    world.kill()


def made_readonly(t, world, disk, writer):
    """Earlier writes are still in the page cache."""
    media = world.call('GET', NS)[1]['media']
    world.change('PATCH', NS, {'media': media + ',readonly'})
    t.ok(writer.flush() != 0, 'made readonly: the flush of the one that wrote fails')
    t.ok(writer.flush() != 0, 'made readonly: so does the next one')
    t.eq(world.call('GET', '/v1/health')[0], 503, 'made readonly: health is red')


def removed_and_synced(t, world):
    """Another process's sync gets the error while the namespace is removed and its file closed."""
    before = world.call('GET', NS)[1]
    world.change('DELETE', NS, None)
    subprocess.run(['sync', world.disk.image], check=False, capture_output=True)
    world.change('POST', '/v1/subsystems/%s/namespaces' % quoted(NQN),
                 {key: before[key] for key in ('nsid', 'media', 'uuid')})


def told_at_once(t, world, disk, writer):
    """The writing disk gets the error from its own flush, once, and not again after the recheck."""
    t.ok(writer.flush() != 0, 'the flush of the one that wrote fails')
    disk.resize('80m')
    world.change('PATCH', NS, {'recheck': True})
    t.eq((writer.nbd.ask(nbd.WRITE, 0, data=bytes(PIECE))[0], writer.flush()), (0, 0),
         'written again after the recheck it is stable')
    with writer.attach.client() as other:
        t.eq(other.ask(nbd.FLUSH)[0], 0, 'and another client has nothing to hear')


def told_later(t, world, disk, writer, what):
    """The writing disk gets the error, whatever happens between the loss and its flush."""
    name = what.__name__
    what(t, world)
    disk.resize('80m')
    if world.process.poll() is not None:
        t.ok(world.start(shim=False), name + ': it starts again', why=world.log())
    t.eq(writer.flush(), nbd.EIO, name + ': the flush of the one that wrote fails')
    t.eq((writer.nbd.ask(nbd.WRITE, 0, data=bytes(PIECE))[0], writer.flush()), (0, 0),
         name + ': once; written again it is stable')
    world.stop()
    t.ok(world.start(shim=False), name + ': it starts once more', why=world.log())
    t.eq(writer.flush(), 0, name + ': and nothing is told twice')


def told_asleep(t, world, disk, writer):
    """The operator rechecks before the writing disk has read the notice of the loss."""
    writer.attach.process.send_signal(signal.SIGSTOP)
    try:
        other_flush(t, world)
        disk.resize('80m')
        world.change('PATCH', NS, {'recheck': True})
        cookie = writer.nbd.send(nbd.FLUSH)
    finally:
        writer.attach.process.send_signal(signal.SIGCONT)
    t.eq(writer.nbd.reply()[:2], (cookie, nbd.EIO), 'the flush of the one that slept fails')
    t.eq(writer.nbd.ask(nbd.WRITE, 0, data=bytes(PIECE))[0], 0, 'it is written again')
    t.ok(target.poll(lambda: writer.flush() == 0), 'and stable when the mark is read')


def with_writer(t, name, part, *args, faults=''):
    world = World()
    disk = writer = None
    try:
        disk = world.disk = Disk(world.folder)
        world.args = ['--listen', '127.0.0.1:%d' % world.port, '--ns',
                      '%sfile:%s,block=%d' % (faults, disk.image, BLOCK)]
        t.ok(world.start(shim=False), name + ': it starts', why=world.log())
        writer = Writer(t, world.port, NQN)
        part(t, world, disk, writer, *args)
    finally:
        if writer:
            writer.finish(t, name)
        world.kill()
        if disk:
            disk.remove()
        world.remove()


def main():
    t = Tap()
    if why_not():
        t.skip('writes that the kernel lost', why_not())
        sys.exit(t.done())
    world = World()
    disk = None
    try:
        disk = Disk(world.folder)
        world.args = ['--listen', '127.0.0.1:%d' % world.port, '--ns', 'file:%s,block=%d' % (disk.image, BLOCK)]
        with t.guard('lost writes'):
            t.ok(world.start(shim=False), 'it starts', why=world.log())
            rows(t, world, disk)
        world.stop()
    finally:
        world.kill()
        if disk:
            disk.remove()
        world.remove()
    for what in (end_in_order, killed, rechecked, removed_and_added, left, gone, grown_and_killed,
                 removed_and_synced):
        with t.guard(what.__name__):
            with_writer(t, what.__name__, told_later, what, faults=SLOW_FLUSH if what is gone else '')
    for part in (told_at_once, told_asleep, grown_and_rechecked, made_readonly):
        with t.guard(part.__name__):
            with_writer(t, part.__name__, part)
    sys.exit(t.done())


main()
