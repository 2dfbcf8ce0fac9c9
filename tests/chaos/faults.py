# SPDX-License-Identifier: Apache-2.0
"""The faults of the chaos. Each fault is a generator: it begins, yields while it is active, and ends.

Several are active at once. chaos.bring_back repairs between rounds what a fault leaves behind (a dead process,
a broken link), so an end only undoes what nothing else undoes. Every choice comes from rng.
"""

import errno
import os
import resource
import shutil
import signal
import time

from world import FILE_MIB, HOST_NQN, NQN_ALONE, OPERATOR_NSIDS, wait_for
from neighbour import WORDS  # on the path that world.py adds

ANA_STATES = ('inaccessible', 'non-optimized', 'change', 'persistent-loss')
FILES_LIMIT = 48        # a fresh target has about 25
MEMORY_LEFT_KIB = 512
CROWD_S = 3.0
NEIGHBOUR_S = 4.0
SANITIZER_KIB = 1 << 30  # of address space: only sanitizers' shadow memory takes as much


class NotHere(Exception):
    """The fault cannot be made on this machine; the text says why."""


def hold(seconds):
    time.sleep(seconds)  # the length of the fault


# ---- links ------------------------------------------------------------------------------------


def link_fault(order):
    """A fault that sends one order to some links."""
    def fault(world, rng):
        for link in rng.sample(world.links, rng.choice((1, 1, 2, 3))):
            link.ask(order(rng))
        yield
    return fault


cut = link_fault(lambda rng: 'cut both')
cut_one_way = link_fault(lambda rng: 'cut ' + rng.choice('ab'))
delay = link_fault(lambda rng: 'delay %d %d' % (rng.choice((5, 50, 300, 900)) * 1000, rng.randrange(1, 50000)))
loss = link_fault(lambda rng: 'drop %d' % rng.choice((10000, 100000, 300000)))
reorder = link_fault(lambda rng: 'reorder 200000 %d' % rng.randrange(1000, 50000))
stall = link_fault(lambda rng: 'stall 500000 %d' % rng.randrange(50000, 450000))
corrupt = link_fault(lambda rng: 'corrupt %d' % rng.choice((1000, 10000, 100000)))


def half_close(world, rng):
    for link in rng.sample(world.links, 2):
        link.ask('fin %s %d' % (rng.choice('ab'), rng.choice((30, 100))))
    yield


def reset(world, rng):
    for link in rng.sample(world.links, 2):
        link.ask('reset %s %d' % (rng.choice('ab'), rng.choice((30, 100))))
    yield


def flap(world, rng):
    link = rng.choice(world.links)
    for _ in range(rng.randrange(2, 6)):
        link.ask('cut both')
        hold(rng.uniform(0.01, 0.4))
        link.ask('heal')
        hold(rng.uniform(0.01, 0.2))
    yield


# ---- processes ----------------------------------------------------------------------------------


def freeze(world, rng):
    target = rng.choice(world.targets)
    target.signal(signal.SIGSTOP)
    yield
    target.signal(signal.SIGCONT)


def freeze_host(world, rng):
    """A host stands still: its target gives it up, then the host continues."""
    host = rng.choice(world.hosts)
    host.signal(signal.SIGSTOP)
    yield
    host.signal(signal.SIGCONT)


def kill(world, rng):
    target = rng.choice(world.targets)
    target.kill()
    yield


def kill_and_restart(world, rng):
    target = rng.choice(world.targets)
    target.kill()
    hold(rng.uniform(0, 0.3))
    if target.name in 'ab':
        target.start()  # c may have a full disk just now
    yield


def restart(world, rng):
    target = rng.choice(world.targets)
    target.stop()  # bring_back checks how it ends
    yield


# ---- what a target needs --------------------------------------------------------------------------


def full_disk(world, rng):
    """Fills the disk of c's second medium and its state folder. Existing data stays; whatever needs room fails."""
    if not world.has_disk:
        raise NotHere('no tmpfs can be mounted')
    path = os.path.join(world.disk, 'ballast')
    try:
        with open(path, 'wb', buffering=0) as file:
            while True:
                file.write(bytes(65536))
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
    yield
    os.unlink(path)


def crowded(world, rng, target):
    """Many hosts reach the limit; hosts that were connected before must be able to go on."""
    crowd = world.crowd(target)
    for link in world.links_of(target):
        link.ask('reset %s 30' % rng.choice('ab'))
    wait_for(lambda: crowd.poll() is not None, CROWD_S)
    yield
    crowd.kill()
    crowd.wait()


def few_files(world, rng):
    """Restarts a target with the limit: a listener of io_uring keeps the limit of its start."""
    if not shutil.which('prlimit'):
        raise NotHere('there is no prlimit (util-linux)')
    target = rng.choice(world.targets[:2])  # c may have a full disk just now
    target.stop()
    target.prefix = ['prlimit', '--nofile=%d' % FILES_LIMIT]
    target.start()
    target.prefix = []
    yield from crowded(world, rng, target)
    target.stop()


def little_memory(world, rng):
    target = rng.choice(world.targets)
    if not target.is_alive():
        return
    size_kib = target.kib('VmSize')
    if size_kib > SANITIZER_KIB:
        raise NotHere('a sanitizer needs all the address space there is')
    target.limit(resource.RLIMIT_AS, (size_kib + MEMORY_LEFT_KIB) << 10)
    yield from crowded(world, rng, target)
    if target.is_alive():
        target.limit(resource.RLIMIT_AS, resource.RLIM_INFINITY)


# ---- neighbours -----------------------------------------------------------------------------------


def neighbour(world, rng):
    """A host that floods, drips, hoards, lies or escapes. It may slow the others down, but nothing else."""
    hostile = world.neighbour(rng.choice(world.targets), rng.choice(WORDS), NEIGHBOUR_S)
    hold(rng.uniform(0.5, NEIGHBOUR_S))
    yield
    hostile.kill()
    hostile.wait()
    hostile.stdin.close()


# ---- operators --------------------------------------------------------------------------------------


def ana(world, rng):
    target, group = rng.choice(world.targets[:2]), rng.choice((1, 2, 3))
    target.ctl('ana', 'set', target.index + 1, group, rng.choice(ANA_STATES))
    yield


def namespaces(world, rng):
    """Adds, grows and removes namespaces of c; acknowledged changes are recorded."""
    c = world.targets[2]
    for _ in range(rng.randrange(1, 4)):
        nsid = rng.choice(OPERATOR_NSIDS)
        size_mib = world.added.get(nsid)
        if size_mib is None:
            # A new file each time: the former one may still be open.
            world.files_made += 1
            media = 'file:%s' % os.path.join(world.folder, 'added-%d' % world.files_made)
            world.change(nsid, 4, 'namespace', 'add', NQN_ALONE, '--nsid', nsid, '--media', media, '--size', '4M')
        elif size_mib < 16 and rng.random() < 0.5:
            world.change(nsid, size_mib * 2, 'namespace', 'resize', NQN_ALONE, nsid, '%dM' % (size_mib * 2))
        else:
            world.change(nsid, None, 'namespace', 'remove', NQN_ALONE, nsid)
    if rng.random() < 0.3:
        # A namespace in use grows.
        world.grown = min(world.grown + 1, FILE_MIB)
        c.ctl('namespace', 'resize', NQN_ALONE, 3, '%dM' % (FILE_MIB + world.grown))
    yield


def hosts(world, rng):
    """Removes a host from c's allow-list for a while."""
    world.targets[2].ctl('host', 'remove', NQN_ALONE, HOST_NQN % rng.choice((3, 4, 5)))
    yield


def new_document(world, rng):
    """Applies the document in force again, under load."""
    target = rng.choice(world.targets)
    path = os.path.join(world.folder, 'exported.json')
    if target.ctl('export', path)[0] == 0:
        target.ctl('apply', path)
    yield


FAULTS = dict(
    cut=cut, cut_one_way=cut_one_way, delay=delay, loss=loss, reorder=reorder, stall=stall, corrupt=corrupt,
    half_close=half_close, reset=reset, flap=flap, freeze=freeze, freeze_host=freeze_host, kill=kill,
    kill_and_restart=kill_and_restart, restart=restart, full_disk=full_disk, few_files=few_files,
    little_memory=little_memory, neighbour=neighbour, ana=ana, namespaces=namespaces, hosts=hosts, new_document=new_document)
