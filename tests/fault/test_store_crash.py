# SPDX-License-Identifier: Apache-2.0
"""
The store under SIGKILL and power loss: `weft serve` runs a script of management changes and is killed at the Nth
change to the store's files, for every N until a whole run survives. After each kill it is started again: every
acknowledged change is there, the change in flight is there as a whole or not at all, a reservation that persists
through power loss is held, and the next change works.

$WEFT_CRASH_STEP takes every Nth point only (1).
"""

import os
import signal
import sys

import store_world
from store_world import Gone, World, script

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'wire'))
from tap import Tap  # noqa: E402
from target import free_port  # noqa: E402

SPEC = 'acknowledged changes survive'
NS = '/v1/subsystems/%s/namespaces/1' % store_world.quoted(store_world.DEFAULT_NQN)
RESERVED_AT = [step[0] for step in script()].index(store_world.RESERVE)


def document_of(world):
    """The document without what differs between state folders; see test_identity.py."""
    document = world.document()
    for subsystem in document['subsystems']:
        del subsystem['serial']
        for ns in subsystem['namespaces']:
            if ns['media'].startswith('file:'):
                del ns['media'], ns['uuid'], ns['nguid']
    return document


def reference(t, port):
    """Returns the documents after 0, 1, 2… changes, and the number of changes to files."""
    world = World(port=port)
    try:
        if not t.ok(world.start(), 'the whole script, without a kill', why=world.log()):
            return None, 0
        documents = [document_of(world)]
        for step in script():
            world.change(*step)
            documents.append(document_of(world))
        t.ok(world.is_reserved(), 'the reservation is there')
        t.eq(world.stop(), 0, 'it ends with status 0')
        return documents, world.changes_counted()
    finally:
        world.remove()


def run_until_killed(world, kill_at, loses_power):
    """Returns the number of acknowledged changes; None: the start failed."""
    if not world.start(kill_at, loses_power):
        return None
    acknowledged = 0
    try:
        for step in script():
            world.change(*step)
            acknowledged += 1
    except Gone:
        pass
    else:
        world.stop()
    return acknowledged


def check_restart(world, documents, acknowledged):
    """Returns what is wrong after a restart, or ''."""
    if not world.start(shim=False):
        return 'it does not start again:\n' + world.log()
    done = acknowledged or 0
    now = document_of(world)
    if now not in documents[done:done + 2]:
        where = documents.index(now) if now in documents else 'none of the script'
        return 'acknowledged %s, found the state after: %s' % (acknowledged, where)
    if done > RESERVED_AT and not world.is_reserved():
        return 'the reservation is gone'
    world.change('POST', '/v1/subsystems', {'nqn': store_world.NQN % 'after'})
    if world.stop() != 0:
        return 'the restarted one does not end well:\n' + world.log()
    return '\n'.join(world.alarms())


def every_point(t, port, documents, total, loses_power):
    what = 'power lost' if loses_power else 'killed'
    step = int(os.environ.get('WEFT_CRASH_STEP', '1'))
    world = World(port=port)
    wrong, killed, tried = [], 0, 0
    try:
        for kill_at in range(1, total + 1, step):
            world.wipe()
            tried += 1
            acknowledged = run_until_killed(world, kill_at, loses_power)
            code = world.wait_exit()
            killed += code == -signal.SIGKILL
            if code != -signal.SIGKILL:
                wrong.append('%d: not killed, but status %s\n%s' % (kill_at, code, world.log()))
                continue
            problem = check_restart(world, documents, acknowledged)
            world.kill()
            if problem:
                wrong.append('%d: %s' % (kill_at, problem))
            if len(wrong) > 5:
                break
    finally:
        world.remove()
    t.eq(wrong, [], '%s at each of %d changes to the store' % (what, tried), SPEC)
    t.eq(killed, tried, '%s: every point was reached' % what)


def removal_run(world, kill_at, removes):
    """Returns the UUID; None: killed before the namespace was known."""
    uuid = None
    if not world.start(kill_at):
        return None
    try:
        world.reserve()
        uuid = world.call('GET', NS)[1]['uuid']
        if removes:
            world.change('DELETE', NS)
        world.stop()
    except Gone:
        pass
    world.wait_exit()
    return uuid


def removal(t, port):
    """A namespace whose removal was interrupted is there, or is known as removed, with its reservation."""
    world = World(port=port)
    wrong, found = [], set()
    try:
        counts = []
        for removes in (False, True):
            removal_run(world, 0, removes)
            counts.append(world.changes_counted())
            world.wipe()
        for kill_at in range(counts[0] // 2, counts[1] + 1):
            uuid = removal_run(world, kill_at, True)
            if uuid and world.start(shim=False):
                there = [ns['uuid'] for ns in world.document()['subsystems'][0]['namespaces']]
                kept = [e['uuid'] for e in world.call('GET', '/v1/removed')[1]['removed'] if e['kept'] == ['reservation']]
                found.add((uuid in there, uuid in kept))
                if (there + kept).count(uuid) != 1:
                    wrong.append('%d: there %s, removed %s' % (kill_at, there, kept))
                world.stop()
            world.kill()
            world.wipe()
    finally:
        world.remove()
    t.eq(wrong, [], 'killed at each change to the store while a namespace is removed', SPEC)
    t.eq(found, {(True, False), (False, True)}, 'it was there, or removed')


def main():
    t = Tap()
    with t.guard('the test as a whole'):
        port = free_port()
        removal(t, port)
        documents, total = reference(t, port)
        if documents:
            t.ok(total > 50, 'the script changes the store often enough', why=str(total))
            every_point(t, port, documents, total, False)
            every_point(t, port, documents, total, True)
    sys.exit(t.done())


if __name__ == '__main__':
    main()
