# SPDX-License-Identifier: Apache-2.0
"""
A file whose lock is held by an unknown process: the one that took the lock has ended, and its child still has the
descriptor. A running target refuses such a file at once, because its control thread also serves health, hosts'
reservations and the shutdown. A starting target waits for the lock.
"""

import fcntl
import os
import sys
import tempfile
import threading
import time

import store_world
from store_world import World, quoted

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'wire'))
from tap import Tap  # noqa: E402

NAMESPACES = '/v1/subsystems/' + quoted(store_world.DEFAULT_NQN) + '/namespaces'
AT_ONCE_S = 15  # the wait at a start is 30 s; leaves time for a loaded machine
SIZE = 1 << 20


class Held:
    """A locked file: the process that took the lock has ended, its child holds the lock until release()."""

    def __init__(self, path):
        out, self.end = os.pipe()
        ready, has_lock = os.pipe()
        taker = os.fork()
        if taker == 0:
            os.close(self.end)
            file = os.open(path, os.O_RDONLY)
            fcntl.flock(file, fcntl.LOCK_EX)
            if os.fork() == 0:
                os.write(has_lock, b'x')
                os.read(out, 1)  # until release()
            os._exit(0)
        os.close(out)
        os.close(has_lock)
        os.waitpid(taker, 0)
        os.read(ready, 1)
        os.close(ready)

    def release(self):
        if self.end is not None:
            os.close(self.end)
            self.end = None


def timed(call, *words):
    began = time.monotonic()
    answer = call(*words)
    return time.monotonic() - began, answer


def refused_at_once(t, world, path):
    body = {'nsid': 2, 'media': 'file:' + path}
    with t.guard('an add of a file that is held'):
        seconds, (status, answer) = timed(world.call, 'POST', NAMESPACES, body)
        t.ok(status == 409 or status == 400, 'an add of a file that is held is refused', why='%s %s' % (status, answer))
        t.ok('in use by a process' in str(answer), 'and says why', why=answer)
        t.ok(seconds < AT_ONCE_S, 'at once', why='%.1f s' % seconds)
        t.ok('waiting for the last operations' not in world.log(), 'nothing waits for the lock')


def added_when_free(t, world, path):
    with t.guard('an add after the lock is free'):
        answers = []

        def is_added():
            answers.append(world.call('POST', NAMESPACES, {'nsid': 2, 'media': 'file:' + path}))
            return answers[-1][0] == 201

        t.ok(store_world.poll(is_added, 60), 'an add after the lock is free', why=answers[-1:])


def start_waits(t, path):
    world = World(args=['--ns', 'file:' + path])
    world.args += ['--listen', '127.0.0.1:%d' % world.port]
    held = Held(path)
    try:
        with t.guard('a start waits'):
            starter = threading.Thread(target=world.start, kwargs={'shim': False})
            starter.start()
            is_told = store_world.poll(lambda: os.path.exists(world.log_path) and
                                       'waiting for the last operations' in world.log(), 25)
            t.ok(is_told, 'a start waits for the lock', why=world.log())
            held.release()
            starter.join()
            t.ok(world.process.poll() is None, 'and goes on when it is free', why=world.log())
            t.eq(world.stop(), 0, 'it ends with status 0')
    finally:
        held.release()
        world.remove()


def main():
    t = Tap()
    with tempfile.TemporaryDirectory(prefix='weft-lock-held-') as folder:
        path = os.path.join(folder, 'image')
        os.truncate(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), SIZE)
        world = World()
        held = Held(path)
        try:
            t.ok(world.start(shim=False), 'the target starts', why=world.log())
            refused_at_once(t, world, path)
            held.release()
            added_when_free(t, world, path)
            t.eq(world.stop(), 0, 'it ends with status 0')
            t.eq(world.alarms(), [], 'no failed check')
        finally:
            held.release()
            world.remove()
        start_waits(t, path)
    sys.exit(t.done())


if __name__ == '__main__':
    main()
