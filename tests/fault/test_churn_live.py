#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Three hosts write and verify on two reactors while an operator changes everything by the REST API. Meanwhile the
target is killed and started again on the same state.

Checked: after a kill the document is the last acknowledged one, with or without the one change in flight;
acknowledged writes to a namespace that stayed are there, for a file also after kills; no check fails; when
everything is configured as at the start, the number of descriptors is too. The seed is $WEFT_CHURN_SEED, or
fixed; $WEFT_CHURN_ROUNDS sets the length.
"""

import os
import random
import struct
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'wire'))
import nvmetcp  # noqa: E402
import store_world  # noqa: E402
import target as wire_target  # noqa: E402
from tap import Tap  # noqa: E402

NQN = 'nqn.2026-11.io.weft:churn'
SUB = '/v1/subsystems/' + store_world.quoted(NQN)
HOSTS = ['nqn.2026-11.io.weft:churn-host%d' % i for i in range(3)]
BLOCK, BLOCKS = 4096, 48  # per host, in each of the two namespaces
FILE, MEMORY = 1, 2
# Statuses that changes cause: inactive, hidden, without a path, write protected.
EXPLAINED = {(0, 0x02), (0, 0x0b), (3, 0x01), (3, 0x02), (3, 0x03), (0, 0x20), (0, 0x08), (0, 0x07)}


def content(host, number, lba):
    return struct.pack('<QQ', host << 32 | number, lba) * (BLOCK // 16)


class HostThread(threading.Thread):
    """Writes to blocks of its own and reads them back. Keeps the contents that each block may have."""

    def __init__(self, world, index):
        super().__init__(daemon=True)
        self.world, self.index = world, index
        self.rng = random.Random(index)
        self.number = 0
        self.held = {(nsid, lba): [bytes(BLOCK)] for nsid in (FILE, MEMORY)
                     for lba in range(index * BLOCKS, (index + 1) * BLOCKS)}
        self.wrong, self.verified, self.odd = [], 0, set()
        self.ended = 0  # commands completed with any status
        self.must_stop = threading.Event()
        self.lock = threading.Lock()

    def forget_memory(self):
        """After a kill: memory is zeroes again, or what was written to the next process."""
        with self.lock:
            for (nsid, lba), values in self.held.items():
                if nsid == MEMORY:
                    values.append(bytes(BLOCK))

    def one(self, queue):
        nsid, lba = self.rng.choice(list(self.held))
        values = self.held[nsid, lba]
        if self.rng.random() < 0.5:
            self.number += 1
            data = content(self.index, self.number, lba)
            with self.lock:
                values.append(data)  # possible from now on
            cmd = queue.rw(nvmetcp.WRITE, nsid, lba, 1, BLOCK, data=data)
            queue.wait(cmd)
            if cmd.status == nvmetcp.OK:
                with self.lock:
                    # If the target was killed meanwhile, zeroes follow in the list and stay possible.
                    del values[:values.index(data)]
            return cmd.status
        cmd = queue.read(nsid, lba, 1, BLOCK)
        if cmd.status == nvmetcp.OK:
            data = bytes(cmd.data)
            with self.lock:
                if data not in values:
                    self.wrong.append((nsid, lba, data[:16].hex()))
            self.verified += 1
        return cmd.status

    def run(self):
        while not self.must_stop.is_set():
            try:
                with nvmetcp.Host(('127.0.0.1', self.world.port), NQN,
                                  hostnqn=HOSTS[self.index],
                                  hostid=bytes([self.index + 1] * 16)) as host:
                    queues = [host.queue(1), host.queue(2)]
                    while not self.must_stop.is_set():
                        status = self.one(self.rng.choice(queues))
                        self.ended += 1
                        if status != nvmetcp.OK and status[:2] not in EXPLAINED:
                            self.odd.add(status)
            except (OSError, nvmetcp.Closed, nvmetcp.Late, nvmetcp.Violation, AssertionError,
                    RuntimeError):
                self.must_stop.wait(0.01)


class Operator:
    """Random changes. Some may be refused; none may crash the target."""

    def __init__(self, world, rng):
        self.world, self.rng = world, rng
        self.extra = {}
        self.sizes = {FILE: 1, MEMORY: 1}
        self.done = self.refused = 0

    def change(self, method, path, body=None):
        status, answer = self.world.call(method, path, body)
        if status // 100 == 5:
            raise RuntimeError('%s %s %s: %s' % (method, path, body, answer))
        self.done += status // 100 == 2
        self.refused += status // 100 != 2
        return status // 100 == 2

    def step(self):
        rng = self.rng
        kind = rng.randrange(8)
        ns = SUB + '/namespaces'
        if kind == 0:
            nsid = rng.randrange(10, 16)
            media = rng.choice(['mem:1M', 'null:1M', 'file:%s/extra%d,size=1M' %
                                (self.world.folder, nsid)])
            self.change('POST', ns, {'nsid': nsid, 'media': media})
        elif kind == 1:
            self.change('DELETE', '%s/%d' % (ns, rng.randrange(10, 16)))
        elif kind == 2:
            nsid = rng.choice([FILE, FILE, MEMORY, 12])
            self.change('PATCH', '%s/%d' % (ns, nsid), {'size': '%dM' % rng.randrange(2, 9)})
        elif kind == 3:
            hidden = rng.sample(HOSTS, rng.randrange(3)) or None
            self.change('PATCH', '%s/%d' % (ns, rng.choice([FILE, MEMORY])),
                        {'hidden_from': hidden})
        elif kind == 4:
            state = rng.choice(['optimized', 'non-optimized', 'inaccessible'])
            self.change('PUT', '/v1/ports/1/ana/1', {'state': state})
        elif kind == 5:
            self.change('POST', SUB + '/hosts', {'nqn': HOSTS[0] + '-more%d' % rng.randrange(3)})
        elif kind == 6:
            path = store_world.quoted(HOSTS[0] + '-more%d' % rng.randrange(3))
            self.change('DELETE', '%s/hosts/%s' % (SUB, path))
        elif rng.random() < 0.5:
            self.change('POST', '/v1/ports', {'id': 2, 'address': '127.0.0.1', 'service': '0'})
        else:
            self.change('DELETE', '/v1/ports/2')

    def as_before(self):
        """Undoes the changes that hosts or the count of descriptors would show."""
        for nsid in range(10, 16):
            self.world.call('DELETE', '%s/namespaces/%d' % (SUB, nsid))
        for nsid in (FILE, MEMORY):
            self.world.call('PATCH', '%s/namespaces/%d' % (SUB, nsid), {'hidden_from': None})
        self.world.call('PUT', '/v1/ports/1/ana/1', {'state': 'optimized'})
        self.world.call('DELETE', '/v1/ports/2')


class ChurnWorld(store_world.World):
    def command(self):
        command = super().command()
        command[command.index('--reactors') + 1] = '2'
        return command

    def descriptors(self):
        return len(os.listdir('/proc/%d/fd' % self.process.pid))


def set_up(world):
    config = {'version': 1, 'subsystems': [{'nqn': NQN, 'hosts': HOSTS, 'namespaces': [
        {'nsid': FILE, 'media': 'file:%s/image,size=1M' % world.folder},
        {'nsid': MEMORY, 'media': 'mem:1M'}]}],
        'ports': [{'id': 1, 'address': '127.0.0.1', 'service': str(world.port)}]}
    world.change('PUT', '/v1/config', config)


def killed_in_a_change(world, number):
    """Kills the target during a change. Returns the two documents that may be in force afterwards."""
    before = world.document()
    after = world.document()
    after['subsystems'][0]['model'] = 'churn %d' % number

    def ask():
        try:
            world.call('PATCH', SUB, {'model': 'churn %d' % number})
        except store_world.Gone:
            pass

    asker = threading.Thread(target=ask)
    asker.start()
    asker.join((number % 5) * 0.0007)  # some changes are answered, some are not
    world.kill()
    asker.join()
    return before, after


def churn(t, world, hosts, operator, rounds):
    kills = lost = 0
    for number in range(rounds):
        for _ in range(12):
            ended = sum(host.ended for host in hosts)
            operator.step()
            # Let hosts run commands, as far as they have access.
            wire_target.poll(lambda: sum(host.ended for host in hosts) > ended + 5, 0.05)
        allowed = killed_in_a_change(world, number)
        for host in hosts:
            host.forget_memory()
        if not world.start(shim=False):
            t.ok(False, 'it starts after kill %d' % number, why=world.log())
            return
        kills += 1
        lost += world.document() not in allowed
    t.eq(lost, 0, 'after each of %d kills the document is one that was acknowledged' % kills)


def main():
    t = Tap()
    seed = int(os.environ.get('WEFT_CHURN_SEED', '4'))
    rounds = int(os.environ.get('WEFT_CHURN_ROUNDS', '5'))
    port = wire_target.free_port()
    world = ChurnWorld(port=port, args=['--listen', '127.0.0.1:%d' % port])
    alarms = []
    try:
        world.start(shim=False)
        set_up(world)
        idle = world.descriptors()
        hosts = [HostThread(world, i) for i in range(3)]
        operator = Operator(world, random.Random(seed))
        for host in hosts:
            host.start()
        churn(t, world, hosts, operator, rounds)
        operator.as_before()
        verified = [host.verified for host in hosts]
        t.ok(wire_target.poll(lambda: all(host.verified > before + 20
                                          for host, before in zip(hosts, verified))),
             'every host goes on once it is let')
        for host in hosts:
            host.must_stop.set()
        for host in hosts:
            host.join(30)
        t.eq([host.wrong for host in hosts], [[], [], []], 'every read had what was written')
        t.eq([sorted(host.odd) for host in hosts], [[], [], []], 'every status has its reason')
        t.ok(operator.done > rounds * 4, 'changes were made', why='%d' % operator.done)
        t.ok(wire_target.poll(lambda: world.descriptors() <= idle),
             'no descriptor is left over', why='%d, not %d' % (world.descriptors(), idle))
        alarms = world.alarms()
        t.eq(world.stop(), 0, 'SIGTERM: the target leaves with status 0')
        alarms = alarms or world.alarms()
        t.eq(alarms, [], 'the log holds no failed check and no sanitizer report')
        print('# %d reads verified, %d changes, %d refused, seed %d' %
              (sum(host.verified for host in hosts), operator.done, operator.refused, seed))
    finally:
        world.remove()
    sys.exit(t.done())


if __name__ == '__main__':
    main()
