#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Two unrelated targets that look like two paths to one subsystem: same NQN and serial number, and in turn the same
controller IDs, the same UUIDs (a clone), other UUIDs, another serial number. The host side refuses to join them,
names both addresses, and writes to neither.
"""

import contextlib
import subprocess
import sys
import tempfile

import target
from tap import Tap

UUID = '6f1c7b9a-52e0-4d0b-9a39-1f0f5c1d2e3f'


def weft(*args):
    return subprocess.run([target.weft_path(), *args], capture_output=True, text=True, timeout=60)


@contextlib.contextmanager
def serve(t, uuid=None, **more):
    more_of_ns = {'uuid': uuid} if uuid else {}
    tgt = target.Target(namespaces=[target.namespace(1, 'mem:8M,block=4096', **more_of_ns)], **more)
    try:
        yield tgt
    finally:
        tgt.finish(t)


def is_blank(tgt):
    with tgt.host() as host:
        queue = host.queue()
        return all(not any(queue.read(1, block, 8).data) for block in range(0, 64, 8))


def addresses(targets):
    return ['127.0.0.1:%d' % tgt.port for tgt in targets]


def paths(targets):
    return [word for address in addresses(targets) for word in ('--path', address)]


def perf_refuses(t, name, targets, reason, controllers='1'):
    done = weft('perf', '-n', target.NQN, *paths(targets), '--rw', 'randrw', '--bytes', '4M', '--size', '256k', '--bs', '4k',
                '--verify', '--controllers', controllers)
    t.ok(done.returncode == 1 and reason in done.stderr and all(address in done.stderr for address in addresses(targets)),
         '%s: perf with %s controllers refuses and names both addresses' % (name, controllers), why=done)
    t.ok(' wrong' not in done.stdout, '%s: nothing is verified' % name, why=done)
    t.ok(all(is_blank(tgt) for tgt in targets), '%s: nothing was written to either' % name)


def list_tells(t, name, targets, reason):
    done = weft('list-subsys', '-n', target.NQN, *paths(targets))
    t.ok(reason in done.stdout, '%s: list-subsys tells why' % name, why=done)


def refuses(t, name, targets, reason):
    for controllers in ('1', '4'):
        perf_refuses(t, name, targets, reason, controllers)
    list_tells(t, name, targets, reason)


def joined(t):
    """Only controller IDs tell a member of a cluster from an unrelated target; members have different ones."""
    with serve(t) as one:
        done = weft('perf', '-n', target.NQN, *paths([one]), '--rw', 'randrw', '--bytes', '4M', '--size', '256k', '--verify')
        t.ok(done.returncode == 0 and ' 0 wrong' in done.stdout, 'one target is joined with itself', why=done)


def equal_ids(t):
    """
    Everything is equal, as with two targets set up from one document. Each check starts new targets, because only
    their first controllers are sure to have equal IDs.
    """
    for check in (perf_refuses, list_tells):
        with serve(t, uuid=UUID) as one, serve(t, uuid=UUID) as two:
            check(t, 'equal UUIDs', [one, two], 'another target process')


def moved_on(tgt):
    """Makes the controller IDs differ: the target has already had hosts."""
    for _ in range(20):
        with tgt.host():
            pass
    return tgt


def clone(t):
    """A copy of a target, for example a cloned machine: only the process instance differs."""
    with serve(t, uuid=UUID) as one, serve(t, uuid=UUID) as two:
        refuses(t, 'a clone', [one, moved_on(two)], 'another target process')


def two_ports(folder):
    """Returns a target with two ports, not started, and perf's arguments for paths to both."""
    ports = [{'id': i, 'address': '127.0.0.1', 'service': str(target.free_port())} for i in (1, 2)]
    space = target.namespace(1, 'file:%s/disk,size=8M,block=4096' % folder, uuid=UUID)
    tgt = target.Target(start=False, port=int(ports[0]['service']), namespaces=[space], ports=ports)
    return tgt, [word for port in ports for word in ('--path', '127.0.0.1:' + port['service'])]


def restarted(t):
    """A killed and restarted target is another process at both of its addresses: both paths are used again."""
    with tempfile.TemporaryDirectory(prefix='weft-wire-') as folder:
        tgt, args = two_ports(folder)
        perf = None
        try:
            tgt.start()
            perf = subprocess.Popen(
                [target.weft_path(), 'perf', '-n', target.NQN, *args, '--rw', 'randrw', '--time', '10s', '--size', '256k',
                 '--bs', '4k', '--verify', '--controllers', '2', '--policy', 'round-robin'],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            t.ok(target.poll(lambda: tgt.log().count('connected to') >= 4), 'four controllers: two reactors, two ports')
            tgt.kill()
            tgt.start()
            again = target.poll(lambda: tgt.log()[tgt.log_start:].count('connected to') >= 4)
            said = perf.communicate(timeout=60)[0]
            t.ok(again, 'all four are there again after a restart', why=said)
            t.ok(perf.returncode == 0 and ' 0 wrong' in said, 'and nothing is lost or mixed', why=said)
        finally:
            if perf and perf.poll() is None:
                perf.kill()
            tgt.finish(t)


def other_uuids(t):
    with serve(t) as one, serve(t) as two:
        refuses(t, 'other UUIDs', [one, moved_on(two)], 'another target process')


def other_serial(t):
    with serve(t) as one, serve(t, serial='ANOTHER') as two:
        refuses(t, 'another serial number', [one, two], 'serial number "')


def test(t):
    for part in (joined, equal_ids, clone, restarted, other_uuids, other_serial):
        with t.guard(part.__name__):
            part(t)


if __name__ == '__main__':
    TAP = Tap()
    test(TAP)
    sys.exit(TAP.done())
