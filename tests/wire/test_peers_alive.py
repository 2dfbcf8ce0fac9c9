#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Which members of a cluster are killed. A member is killed when its data path stands still: the process or one of
its reactors is stopped. A busy member is not killed and carries out resets: its control thread stands still (as in
a long sync of the store) or applies thousands of namespaces, or the thread that answers its peers gets no CPU.
"""

import signal
import threading
import time

import nvmetcp as n
import target
import threadstop
from peerlink import FAILED, HOST_KATO_MS, SUCCESS, Instance, World, host_of, reset, reset_state, reset_submit
from tap import Tap

SPEC = 'TP8028'
# Longer than a busy machine leaves a process without a CPU. An asking member restarts its time-out when it did not
# run itself for half of this time.
ANSWER_MS = 1000
HELD_S, FREE_S = 0.6, 2.0  # for a thread that gets no CPU at times
NAMESPACES = 3000


def both_up(t, world, what):
    t.ok(world.wait_up('b', 'a') and world.wait_up('a', 'b'), what,
         why=world['a'].log() + world['b'].log())


def control_of(world, name):
    return threadstop.Stopped(world[name].process, threadstop.MAIN)


def reset_once(world):
    """Resets a host's controller at b by a request to a."""
    with host_of(world['b']) as victim, host_of(world['a']) as asker:
        return reset(asker, Instance(victim))


def lives(t, world, what):
    t.ok(world['b'].is_running(), what, why=world['a'].log() + world['b'].log())
    t.eq(world.peer('b', 'a')['fences'], 0, what + ': nobody was fenced')


def control_stands_still(t, world):
    both_up(t, world, 'before a control thread stands still')
    with control_of(world, 'b'):
        t.eq([reset_once(world) for _ in range(3)], [SUCCESS] * 3,
             'a member whose control thread stands still resets', SPEC)
    lives(t, world, 'and lives')
    with host_of(world['b']) as victim, host_of(world['a']) as asker:
        who = Instance(victim)
        with control_of(world, 'a'):
            t.eq(reset(asker, who), SUCCESS, 'who asks does not need its control thread either', SPEC)
    lives(t, world, 'and who was asked lives')


def applies(t, world):
    """b adds and removes thousands of namespaces while it is asked for resets."""
    api = world.api('b')
    document = api.get('/v1/config').json
    large = dict(document, subsystems=document['subsystems'] + [{
        'nqn': 'nqn.2026-11.io.weft:many', 'serial': 'MANY', 'allow_any_host': True,
        'namespaces': [target.namespace(i + 1, 'mem:64K') for i in range(NAMESPACES)]}])
    answers, got = [], []
    for put in (large, document):
        thread = threading.Thread(
            target=lambda put=put: answers.append(api.put('/v1/config', put).status))
        thread.start()
        while thread.is_alive():
            got.append(reset_once(world))
        thread.join()
    t.eq(answers, [200, 200], '%d namespaces are added and removed' % NAMESPACES)
    t.ok(got and set(got) == {SUCCESS}, 'and every reset meanwhile is done', SPEC, why=got)
    lives(t, world, 'a member that applies thousands of namespaces lives')


def reactor_stands_still(t, world):
    both_up(t, world, 'before a reactor stands still')
    with host_of(world['a']) as asker, host_of(world['b']) as victim:
        who = Instance(victim)
        victim.queue()
        with threadstop.Stopped(world['b'].process, 'weft-r0', 'weft-r1') as stopped:
            t.eq(reset(asker, who), SUCCESS, 'a member whose reactors stand still is fenced', SPEC)
            t.ok('killed' in world['a'].log(), 'it is killed', why=world['a'].log())
            for tid in stopped.tids:
                stopped.reap(tid)
            t.eq(world['b'].wait_exit(), -signal.SIGKILL, 'by SIGKILL')
    t.ok('has not run' in world['a'].log(), 'and the reason is logged', why=world['a'].log())
    world['b'].start()
    both_up(t, world, 'it joins again')


def one_reactor_stands_still(t, world):
    """Stops one reactor of two: weft-r0, which has the registry that every reset needs."""
    with host_of(world['a']) as asker, host_of(world['b']) as victim:
        who = Instance(victim)
        with threadstop.Stopped(world['b'].process, 'weft-r0') as stopped:
            t.eq(reset(asker, who), SUCCESS, 'one reactor of two is enough', SPEC)
            stopped.reap(stopped.tids[0])
            t.eq(world['b'].wait_exit(), -signal.SIGKILL, 'it was killed')
    world['b'].start()
    both_up(t, world, 'and joins again')


class Reading:
    """A host that reads block after block inside `with`."""

    def __init__(self, host):
        self.queue, self.ends, self.statuses = host.queue(), False, set()

    def run(self):
        while not self.ends:
            self.statuses.add(self.queue.read(1, 0, 1, block=4096).status)

    def __enter__(self):
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        return self

    def __exit__(self, *args):
        self.ends = True
        self.thread.join()


def silent_but_at_work(t, world):
    """
    The answering thread is stopped, the reactors work: no kill, and the reset fails because it is not certain.
    """
    both_up(t, world, 'before a member is silent')
    with host_of(world['a']) as asker, host_of(world['b']) as victim, \
            world['b'].host(hostnqn='nqn.2014-08.org.example:another',
                            kato_ms=HOST_KATO_MS) as other:
        who = Instance(victim)
        kills = world['a'].log().count('killed')
        with Reading(other) as reading, threadstop.Stopped(world['b'].process, 'weft-peers'):
            t.eq(reset(asker, who), FAILED, 'a silent member at work: the reset fails', SPEC)
            t.ok('data path is running' in world.peer('b', 'a')['last_error'], 'and why is told', why=world['a'].log())
        t.eq(reading.statuses, {n.OK}, 'its hosts have read all the time')
        t.ok(world['b'].is_running() and world['a'].log().count('killed') == kills,
             'it was not killed', why=world['a'].log())
        t.ok(world.wait_up('b', 'a'), 'it answers again')
        t.ok(target.poll(lambda: reset(asker, who) == SUCCESS), 'and then resets', SPEC)


def silent_and_idle(t, world):
    """The answering thread is stopped, the reactors sleep: idle is not stuck, so no kill."""
    with host_of(world['a']) as asker, host_of(world['b']) as victim:
        who = Instance(victim)
        kills = world['a'].log().count('killed')
        with threadstop.Stopped(world['b'].process, 'weft-peers'):
            t.eq(reset(asker, who), FAILED, 'a silent, idle member: the reset fails', SPEC)
        t.ok(world['b'].is_running() and world['a'].log().count('killed') == kills,
             'an idle member was not killed', why=world['a'].log())
        t.ok(world.wait_up('b', 'a'), 'an idle member answers again')


def silent_and_held_up(t, world):
    """The answering thread is stopped, and the asking thread gets no CPU at times: the reset still ends."""
    both_up(t, world, 'before both members are held up')
    with host_of(world['a']) as asker, host_of(world['b']) as victim:
        who = Instance(victim)
        with threadstop.Stopped(world['b'].process, 'weft-peers'):
            t.eq(asker.admin.wait(reset_submit(asker, who)).status, n.OK, 'a reset is asked for', SPEC)
            deadline = time.monotonic() + n.TIMEOUT_S
            while (state := reset_state(asker, who)) is None and time.monotonic() < deadline:
                with threadstop.Stopped(world['a'].process, 'weft-peers'):
                    time.sleep(HELD_S)  # the length of the fault
                target.poll(lambda: reset_state(asker, who), FREE_S)
            t.eq(state, FAILED, 'a member that gets no CPU now and then gives up, too', SPEC)
            t.ok('data path is running' in world.peer('b', 'a')['last_error'], 'and tells why', why=world['a'].log())
        t.ok(world.wait_up('b', 'a'), 'both go on')


def over_tcp(t):
    """Over TCP no member can be killed: a busy member resets, a member with a stuck reactor does not confirm."""
    world = World(has_tcp=True, answer_ms=ANSWER_MS)
    try:
        both_up(t, world, 'a link over TCP')
        with control_of(world, 'b'):
            t.eq(reset_once(world), SUCCESS, 'over TCP: control stands still, the reset is done', SPEC)
        with host_of(world['a']) as asker, host_of(world['b']) as victim:
            who = Instance(victim)
            with threadstop.Stopped(world['b'].process, 'weft-r0'):
                t.eq(reset(asker, who), FAILED, 'over TCP: a reactor stands still, the reset fails', SPEC)
        t.ok(world['b'].is_running(), 'it was not killed')
    finally:
        world.finish(t)


def in_world(t, world, parts, cannot):
    for name, rows in parts:
        if cannot:
            t.skip(name, cannot)
            continue
        with t.guard(name):
            rows(t, world)
    world.finish(t)


def run_all(t):
    world = World(answer_ms=ANSWER_MS)
    cannot = threadstop.why_not()
    with t.guard('applies'):
        both_up(t, world, 'two members')
        applies(t, world)
    in_world(t, world, (('control', control_stands_still), ('reactors', reactor_stands_still),
                        ('one reactor', one_reactor_stands_still)), cannot)
    in_world(t, World(answer_ms=ANSWER_MS), (
        ('silent', silent_but_at_work), ('idle', silent_and_idle), ('held up', silent_and_held_up)), cannot)
    with t.guard('TCP'):
        if cannot:
            t.skip('over TCP', cannot)
        else:
            over_tcp(t)
    return t.done()


if __name__ == '__main__':
    raise SystemExit(run_all(Tap()))
