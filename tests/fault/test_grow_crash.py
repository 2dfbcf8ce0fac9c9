# SPDX-License-Identifier: Apache-2.0
"""
Namespaces are created and grown while the target is killed, or power is lost, at every change to the image or the
state store, and at random moments of a loop of resizes. Every restart succeeds, the namespace has the size before
or after the change in flight, and no block is lost.

$WEFT_CRASH_STEP takes every Nth point only (1).
"""

import os
import random
import signal
import sys

import store_world
from store_world import Gone, World, quoted

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'wire'))
import nvmetcp as n  # noqa: E402
from tap import Tap  # noqa: E402

NQN = store_world.DEFAULT_NQN
SUB = '/v1/subsystems/' + quoted(NQN)
BLOCK = 4096
MIB = 1 << 20
KILLS = 40


def grow(world, mib):
    world.change('PATCH', SUB + '/namespaces/2', {'size': '%dM' % mib})


def write(world, mib):
    """Writes the size in MiB into the last block of that size."""
    try:
        with n.Host(('127.0.0.1', world.port), NQN) as host:
            host.queue().put(2, mib * MIB // BLOCK - 1, bytes([mib]) * BLOCK, BLOCK)
    except (OSError, n.Closed, n.Late) as error:
        raise Gone(str(error)) from error


def script(world):
    """Returns steps, each a function. After step i the namespace has SIZES[i] MiB."""
    image = os.path.join(world.state, 'image')
    return [
        lambda: world.change('POST', SUB + '/namespaces', {'nsid': 2, 'media': 'file:%s,size=1M' % image}),
        lambda: write(world, 1), lambda: grow(world, 2), lambda: write(world, 2),
        lambda: grow(world, 4), lambda: write(world, 4)]


SIZES = (0, 1, 1, 2, 2, 4, 4)
WRITTEN = {2: 1, 4: 2, 6: 4}


def size_mib(world):
    status, answer = world.call('GET', SUB + '/namespaces/2')
    return answer['live']['size_bytes'] // MIB if status == 200 else 0


def wrong_blocks(world, mibs):
    with n.Host(('127.0.0.1', world.port), NQN) as host:
        conn = host.queue()
        return [mib for mib in mibs
                if bytes(conn.read(2, mib * MIB // BLOCK - 1, 1, BLOCK).data) != bytes([mib]) * BLOCK]


def run(world, kill_at, loses_power):
    if not world.start(kill_at, loses_power):
        return 0
    done = 0
    try:
        for step in script(world):
            step()
            done += 1
    except Gone:
        pass
    else:
        world.stop()
    return done


def check(world, done):
    """Returns what is wrong after a restart, or ''."""
    if not world.start(shim=False):
        return 'it does not start again:\n' + world.log()
    size = size_mib(world)
    if size not in SIZES[done:done + 2]:
        return 'after %d steps it has %d MiB' % (done, size)
    bad = wrong_blocks(world, [mib for step, mib in WRITTEN.items() if step <= done and mib <= size])
    if bad:
        return 'after %d steps blocks of %s MiB are lost' % (done, bad)
    if size == 0:
        script(world)[0]()
    grow(world, 8)
    if size_mib(world) != 8:
        return 'it does not grow after the restart'
    if world.stop() != 0:
        return 'the restarted one does not end well:\n' + world.log()
    return '\n'.join(world.alarms())


def every_point(t, loses_power):
    what = 'power lost' if loses_power else 'killed'
    world = World()
    wrong, tried = [], 0
    try:
        t.eq(run(world, 0, loses_power), len(script(world)), what + ': the script, without a kill')
        total = world.changes_counted()
        for kill_at in range(1, total + 1, int(os.environ.get('WEFT_CRASH_STEP', '1'))):
            world.wipe()
            tried += 1
            done = run(world, kill_at, loses_power)
            code = world.wait_exit()
            problem = check(world, done) if code == -signal.SIGKILL else 'status %s' % code
            world.kill()
            if problem:
                wrong.append('%d: %s' % (kill_at, problem))
            if len(wrong) > 5:
                break
    finally:
        world.remove()
    t.eq(wrong, [], '%s at each of %d changes to image and store' % (what, tried))


def any_moment(t):
    """A loop of resizes, with the target killed at random times."""
    rng = random.Random(1)
    world = World()
    wrong, size, kills = [], 1, 0
    try:
        t.ok(world.start(shim=False), 'a loop of resizes: it starts', why=world.log())
        script(world)[0]()
        write(world, 1)
        while kills < KILLS and not wrong:
            asked = size
            for step in range(rng.randrange(1, 4)):
                asked += 1
                if step == 0 or rng.random() < 0.7:
                    grow(world, asked)
                    size = asked
            # Send the request without waiting for its answer.
            conn = store_world.UnixConnection(os.path.join(world.state, 'weft.sock'))
            conn.request('PATCH', SUB + '/namespaces/2', body='{"size": "%dM"}' % (asked + 1),
                         headers={'Content-Type': 'application/json'})
            for _ in range(rng.randrange(0, 3000)):
                pass
            world.kill()
            conn.close()
            kills += 1
            if not world.start(shim=False):
                wrong.append('it does not start again:\n' + world.log())
                break
            now = size_mib(world)
            if now not in (size, asked + 1):
                wrong.append('%d MiB, not %d or %d' % (now, size, asked + 1))
            size = now
            wrong += ['block of MiB %d' % mib for mib in wrong_blocks(world, [1])]
        t.eq(wrong, [], '%d kills in a loop of resizes' % kills)
    finally:
        world.remove()


def main():
    t = Tap()
    with t.guard('every point'):
        every_point(t, False)
        every_point(t, True)
    with t.guard('any moment'):
        any_moment(t)
    sys.exit(t.done())


main()
