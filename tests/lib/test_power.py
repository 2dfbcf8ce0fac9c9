#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
The target's machine loses power between an acknowledged write and the flush: the flush fails, once for each user:
an attached disk, handles of libweft, a copy. A killed process and an orderly restart of the machine lose nothing.
$WEFT names the executable weft, the first argument the program lib_power.

A power loss is a SIGKILL, the image as of its last flush, and another boot ID of the kernel: a file mounted over
the kernel's own for the target alone. That needs root.
"""

import errno
import os
import shutil
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'wire'))
import nbd  # noqa: E402
import peerlink  # noqa: E402
import target  # noqa: E402
from copy_world import MIB, TIMEOUT_S, World, digest, journal_bytes  # noqa: E402
from tap import Tap  # noqa: E402
from test_attach import Attach  # noqa: E402

BOOT_ID = '/proc/sys/kernel/random/boot_id'
MOUNT = 'mount --bind "$0" %s && exec "$@"' % BOOT_ID
BLOCK = 4096
PIECE = 128 << 10
FUA = 1
LOST = -errno.EIO


def why_not():
    """Why the kernel's boot ID cannot be replaced here; '' when it can."""
    if os.geteuid() != 0:
        return 'not root'
    with tempfile.NamedTemporaryFile() as file:
        done = subprocess.run(['unshare', '-m', 'sh', '-c', MOUNT, file.name, 'true'], capture_output=True, text=True)
    return done.stderr.strip() if done.returncode else ''


class Machine(target.Target):
    """A machine with a target of one namespace and an unused neighbour, whose power can fail."""

    def __init__(self, size=8 * MIB, faults=''):
        self.boots = 0
        folder = tempfile.mkdtemp(prefix='weft-power-')
        self.boot_path = os.path.join(folder, 'boot_id')
        self.image = os.path.join(folder, 'disk')
        self.neighbour = os.path.join(folder, 'neighbour')
        self.stable = os.path.join(folder, 'stable')
        self.next_boot()
        super().__init__(folder=folder, namespaces=[
            target.namespace(1, 'file:%s,size=%d,block=%d' % (self.image, size, BLOCK)),
            target.namespace(2, '%sfile:%s,size=1M' % (faults, self.neighbour))])
        self.own_folder = True

    def command(self):
        return ['unshare', '-m', 'sh', '-c', MOUNT, self.boot_path] + super().command()

    def next_boot(self):
        self.boots += 1
        with open(self.boot_path + '.new', 'w') as file:
            file.write('%08d-2222-4333-8444-555555555555\n' % self.boots)
        os.rename(self.boot_path + '.new', self.boot_path)

    def flushed(self):
        """Called after a flush: records the image as stable."""
        shutil.copyfile(self.image, self.stable)

    def unflushed(self, piece_bytes):
        """Number of pieces of the image that differ from the stable one."""
        with open(self.image, 'rb') as image, open(self.stable, 'rb') as stable:
            pieces = iter(lambda: (image.read(piece_bytes), stable.read(piece_bytes)), (b'', b''))
            return sum(now != before for now, before in pieces)

    def lose_power(self):
        self.kill()
        shutil.copyfile(self.stable, self.image)
        self.next_boot()

    def stop(self, t):
        self.terminate()
        t.eq(self.wait_exit(), 0, 'an orderly stop')


class Disk:
    """The namespace as an attached disk."""

    def __init__(self, machine):
        self.attach = Attach([machine.port], 1)
        self.nbd = self.attach.client()

    def attach_fds(self):
        """Descriptors of the server: its paths, and clients with requests in flight."""
        return len(os.listdir('/proc/%d/fd' % self.attach.process.pid))

    def write(self, letter, flags=0):
        return self.nbd.ask(nbd.WRITE, 0, data=letter * BLOCK, flags=flags)[0]

    def flush(self):
        return self.nbd.ask(nbd.FLUSH)[0]

    def read(self):
        return self.nbd.ask(nbd.READ, 0, BLOCK)[1][:1]


def with_disk(t, part, faults=''):
    machine = Machine(faults=faults)
    disk = None
    try:
        disk = Disk(machine)
        t.eq((disk.write(b'1'), disk.flush()), (0, 0), part.__name__ + ': a write and a flush')
        machine.flushed()
        part(t, machine, disk)
    finally:
        if disk:
            disk.nbd.sock.close()
            disk.attach.finish(t, part.__name__)
        machine.finish(t)


def unflushed_write(t, machine, disk):
    t.eq(disk.write(b'2'), 0, 'a second write is acknowledged')
    machine.lose_power()
    machine.start()
    t.eq(disk.flush(), nbd.EIO, 'the flush behind the loss of power fails')
    t.eq(disk.read(), b'1', 'the second write is lost')
    t.ok(target.poll(lambda: 'acknowledged writes that were not flushed' in disk.attach.errors()),
         'and the log says so', why=disk.attach.errors())
    t.ok('1 namespace (1)' in disk.attach.errors(), 'and names the namespace', why=disk.attach.errors())
    t.eq((disk.write(b'3'), disk.flush(), disk.read()), (0, 0, b'3'), 'written again and flushed')
    machine.flushed()
    machine.lose_power()
    machine.start()
    t.eq((disk.flush(), disk.read()), (0, b'3'), 'power lost with everything flushed: nothing is lost')


def flush_under_way(t, machine, disk):
    t.eq(disk.write(b'2'), 0, 'a second write is acknowledged')
    machine.lose_power()
    cookie = disk.nbd.send(nbd.FLUSH)
    machine.start()
    t.eq(disk.nbd.reply()[:2], (cookie, nbd.EIO), 'a flush that waits for the target fails')
    t.eq(disk.flush(), 0, 'and the next one does not')


def gone_client(t, machine, disk):
    """A client disconnects while its flush waits, and the flush fails: no client got the error."""
    t.eq(disk.write(b'2'), 0, 'a second write is acknowledged')
    before = disk.attach_fds()
    machine.lose_power()
    disk.nbd.send(nbd.FLUSH)
    disk.nbd.sock.close()
    machine.start()
    t.ok(target.poll(lambda: 'acknowledged writes that were not flushed' in disk.attach.errors()),
         'the loss is found', why=disk.attach.errors())
    with disk.attach.client() as other:
        t.eq(other.ask(nbd.READ, 0, BLOCK)[1][:1], b'1', 'the target answers again')
    t.ok(target.poll(lambda: disk.attach_fds() < before), 'and has ended the flush of the one that is gone')
    disk.nbd = disk.attach.client()
    t.eq((disk.flush(), disk.flush()), (nbd.EIO, 0), 'the client that comes after it is told, once')


def gone_client_and_bystander(t, machine, disk):
    """
    A client that was connected before the flush of a gone client ended gets the error too, before that one is
    back.
    """
    t.eq(disk.write(b'2'), 0, 'a second write is acknowledged')
    before = disk.attach_fds()
    machine.lose_power()
    disk.nbd.send(nbd.FLUSH)
    with disk.attach.client() as bystander:
        disk.nbd.sock.close()
        machine.start()
        t.eq(bystander.ask(nbd.READ, 0, BLOCK)[1][:1], b'1', 'the target answers again')
        t.ok(target.poll(lambda: disk.attach_fds() <= before), 'the flush of the one that is gone has ended')
        t.eq(bystander.ask(nbd.FLUSH)[0], nbd.EIO, 'the flush of a client that was there before fails')
        disk.nbd = disk.attach.client()
        t.eq((disk.flush(), disk.flush()), (nbd.EIO, 0), 'and so does that of the one that wrote and is back, once')
    with disk.attach.client() as late:
        t.eq(late.ask(nbd.FLUSH)[0], 0, 'one that comes later has lost nothing')


def two_clients(t, machine, disk):
    with disk.attach.client() as backup:
        t.eq(disk.write(b'2'), 0, 'a second write is acknowledged')
        machine.lose_power()
        machine.start()
        t.eq(backup.ask(nbd.FLUSH)[0], nbd.EIO, 'the flush of another client fails')
        t.eq((disk.flush(), disk.flush()), (nbd.EIO, 0), 'and that of the one that wrote, too')
    with disk.attach.client() as late:
        t.eq(late.ask(nbd.FLUSH)[0], 0, 'one that comes later has lost nothing')


def killed_process(t, machine, disk):
    t.eq(disk.write(b'2'), 0, 'a second write is acknowledged')
    machine.kill()
    machine.start()
    t.eq((disk.flush(), disk.read()), (0, b'2'), 'a killed process loses nothing: the flush succeeds')


def stable_writes(t, machine, disk):
    t.eq(disk.write(b'2', FUA), 0, 'a write with FUA')
    machine.flushed()
    machine.lose_power()
    machine.start()
    t.eq((disk.flush(), disk.read()), (0, b'2'), 'power lost after FUA: the flush succeeds')


def orderly_restart(t, machine, disk):
    t.eq(disk.write(b'2'), 0, 'a second write is acknowledged')
    machine.stop(t)
    machine.next_boot()
    machine.start()
    t.eq((disk.flush(), disk.read()), (0, b'2'), 'the machine restarts in order: the flush succeeds')
    t.eq(disk.write(b'3'), 0, 'a third write is acknowledged')
    machine.lose_power()
    machine.start()
    t.eq(disk.flush(), nbd.EIO, 'the power fails after the restart: the flush fails')


def lost_neighbour(t, machine, disk):
    """A namespace whose file is missing affects only its own hosts, and only those that wrote."""
    t.eq(disk.write(b'2'), 0, 'a second write is acknowledged')
    machine.stop(t)
    os.unlink(machine.neighbour)
    machine.start()
    t.eq((disk.flush(), disk.write(b'3')), (0, 0), 'with a namespace that is lost: a flush, and a write')
    machine.stop(t)
    machine.next_boot()
    machine.start()
    t.eq((disk.flush(), disk.read()), (0, b'3'), 'the machine restarts in order: the flush succeeds')


def failing_neighbour(t, machine, disk):
    """
    A medium that fails the flush at the stop, or does not end it, affects only the hosts of its own namespace.
    """
    other = Attach([machine.port], 2)
    try:
        with other.client() as neighbour:
            t.eq(neighbour.ask(nbd.WRITE, 0, data=bytes(BLOCK))[0], 0, 'the neighbour writes')
            t.eq((disk.flush(), disk.write(b'2')), (0, 0), 'a flush, and a second write')
            machine.stop(t)
            machine.next_boot()
            machine.start()
            t.eq((disk.flush(), disk.read()), (0, b'2'), 'the machine restarts in order: the flush succeeds')
            t.ok(target.poll(lambda: 'in namespace 2' in other.errors()), 'the neighbour hears of its own loss',
                 why=other.errors())
    finally:
        other.finish(t, 'neighbour')


def stuck_end(t, machine, disk):
    """
    The flush at the stop never ends and the target is killed: the kernel has all data, unless the machine restarts
    too.
    """
    late = 'media were not flushed in time'
    t.eq(disk.write(b'2'), 0, 'a second write is acknowledged')
    for ends, (what, result) in enumerate((('runs on: the flush succeeds', 0), ('restarts: the flush fails', nbd.EIO)), 1):
        machine.terminate()
        t.ok(target.poll(lambda: machine.log().count(late) == ends), 'the flush at the end is stuck', why=machine.log())
        machine.kill()
        if result:
            machine.next_boot()
        machine.start()
        t.eq((disk.flush(), disk.read(), disk.write(b'2')), (result, b'2', 0), 'killed, and the machine ' + what)
    machine.kill()


def server_at(address):
    """A listener on the target's address once the kernel has released it; None before."""
    try:
        return socket.create_server(address)
    except OSError:
        return None


def failed_start(t, machine, disk):
    """A failed start flushes nothing, even when it ends in order."""
    t.eq(disk.write(b'2'), 0, 'a second write is acknowledged')
    machine.kill()
    with target.poll(lambda: server_at(machine.address)):
        bad = subprocess.run(machine.command(), capture_output=True, text=True, timeout=60)
    t.ok(bad.returncode != 0, 'a start that fails', why=bad.stderr)
    machine.lose_power()
    machine.start()
    t.eq(disk.flush(), nbd.EIO, 'the power fails after it: the flush fails')


def under_boot(member, boot_path):
    """Makes the member run with the boot ID in that file."""
    plain = member.command
    member.command = lambda: ['unshare', '-m', 'sh', '-c', MOUNT, boot_path] + plain()


def boot_write(path, number):
    with open(path, 'w') as file:
        file.write('%08d-2222-4333-8444-555555555555\n' % number)


def two_members(t):
    """One of two members on a machine has ended in order; the other acknowledges writes until the power fails."""
    world = peerlink.World(start=False, fence='none')
    boot = os.path.join(world.folder, 'boot_id')
    stable = os.path.join(world.folder, 'stable')
    attach = None
    try:
        boot_write(boot, 1)
        for member in world.members.values():
            under_boot(member, boot)
            member.start()
        t.ok(world.wait_up('b', 'a') and world.wait_up('a', 'b'), 'two members on one machine')
        attach = Attach([world['a'].port, world['b'].port], 1)
        with attach.client() as disk:
            t.eq((disk.ask(nbd.WRITE, 0, data=b'1' * BLOCK)[0], disk.ask(nbd.FLUSH)[0]), (0, 0), 'a write and a flush')
            world['a'].terminate()
            t.eq(world['a'].wait_exit(), 0, 'one of them ends in order')
            shutil.copyfile(world.disk, stable)
            t.eq(disk.ask(nbd.WRITE, 0, data=b'2' * BLOCK)[0], 0, 'a write through the other one')
            world['b'].kill()
            with open(world.disk, 'r+b') as image, open(stable, 'rb') as before:
                image.write(before.read())
            boot_write(boot, 2)
            world['a'].start()
            t.eq(disk.ask(nbd.FLUSH)[0], nbd.EIO, 'after the loss of power the first one is back alone: the flush fails')
            t.eq(disk.ask(nbd.READ, 0, BLOCK)[1][:1], b'1', 'the write is lost')
            world['b'].start()
            t.eq(disk.ask(nbd.FLUSH)[0], 0, 'and it is told once')
    finally:
        if attach:
            attach.finish(t, 'two members')
        world.finish(t)


class Handles:
    """lib_power.c: handles of libweft in one process, over two reactors."""

    def __init__(self, machine, program):
        self.process = subprocess.Popen([program, str(machine.port), target.NQN], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def line(self):
        return self.process.stdout.readline().strip()

    def ask(self, *words):
        self.process.stdin.write(' '.join(map(str, words)) + '\n')
        self.process.stdin.flush()
        return self.line()


def handles(t, machine, program):
    users = Handles(machine, program)
    try:
        t.eq(users.line(), 'ready', 'two reactors are connected')
        t.eq([users.ask('open') for _ in range(3)], ['0', '1', '2'], 'three handles')
        t.eq([users.ask('write', 0, reactor, 0) for reactor in (0, 1)], ['0', '0'], 'writes through both reactors')
        t.eq(users.ask('flush', 1, 0), '0', 'a flush through one of them')
        machine.flushed()
        machine.lose_power()
        machine.start()
        t.eq(users.ask('flush', 0, 1), '0', 'it has covered the writes of both')
        t.eq(users.ask('write', 0, 1, 0), '0', 'a write through the second reactor')
        machine.lose_power()
        machine.start()
        t.eq(users.ask('flush', 0, 0), str(LOST), 'lost: the flush through the first one fails')
        t.eq(users.ask('flush', 0, 1), '0', 'once for each handle')
        t.eq(users.ask('flush', 1, 1), str(LOST), 'another handle is told, too')
        t.eq(users.ask('open'), '3', 'a handle that is opened afterwards')
        t.eq(users.ask('flush', 3, 0), '0', 'has lost nothing')
        t.eq(users.ask('write', 1, 0, 0), '0', 'the third handle has not been told yet when more is written')
        machine.lose_power()
        t.eq(users.ask('both', 1), 'submitted', 'two flushes of one handle wait for the target')
        machine.start()
        t.eq(users.line(), '%d %d' % (LOST, LOST), 'and both fail')
        t.eq([users.ask('flush', 2, 0), users.ask('flush', 2, 0)], [str(LOST), '0'],
             'two losses are one failure for who has not flushed in between')
        users.process.stdin.close()
        t.eq(users.process.wait(60), 0, 'and everything is closed')
    finally:
        users.process.kill()
        users.process.wait()
        machine.finish(t)


def copy(t):
    """A copy whose target loses power fails, and its journal is as before the loss."""
    machine = Machine(size=16 * MIB)
    try:
        world = World(machine, machine.folder)
        data = world.put(os.urandom(16 * MIB))
        journal = world.path('journal')
        process = world.start(data, world.url(1), '--resume', journal, '--rate', '1M', '--size', str(PIECE))
        t.ok(target.poll(lambda: journal_bytes(journal) > 0 or process.poll() is not None, 60),
             'the journal says that some of it is done')
        machine.flushed()
        done = journal_bytes(journal)
        t.ok(target.poll(lambda: machine.unflushed(PIECE) > 2, 60), 'more of it is written')
        t.eq(journal_bytes(journal), done, 'and not flushed')
        machine.lose_power()
        machine.start()
        out, err = process.communicate(timeout=TIMEOUT_S)
        t.ok(process.returncode == 1 and 'run the same command again' in err, 'the copy fails and says what to do',
             why='status %d\n%s%s' % (process.returncode, out, err))
        t.eq(journal_bytes(journal), done, 'the journal says what was flushed before')
        world.good(t, 'run again, it goes on', data, world.url(1), '--resume', journal)
        t.eq(digest(machine.image), digest(data), 'and all of it is there')
    finally:
        machine.finish(t)


def main():
    t = Tap()
    cannot = why_not()
    if cannot:
        t.skip('a target that loses power', cannot)
        return t.done()
    for part in (unflushed_write, flush_under_way, gone_client, gone_client_and_bystander, two_clients, lost_neighbour,
                 killed_process, stable_writes,
                 orderly_restart, failed_start):
        with t.guard(part.__name__):
            with_disk(t, part)
    for fault in ('fail:op=flush', 'delay:op=flush:ms=600000'):
        with t.guard('failing_neighbour: ' + fault):
            with_disk(t, failing_neighbour, 'fault:%s@' % fault)
    with t.guard('stuck_end'):
        with_disk(t, stuck_end, 'fault:stuck:op=flush:ms=600000@')
    with t.guard('handles'):
        handles(t, Machine(), sys.argv[1])
    with t.guard('two_members'):
        two_members(t)
    with t.guard('copy'):
        copy(t)
    return t.done()


if __name__ == '__main__':
    sys.exit(main())
