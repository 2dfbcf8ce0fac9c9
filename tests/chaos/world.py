# SPDX-License-Identifier: Apache-2.0
"""The world of the chaos: three targets, two machines with hosts, and the checks.

Targets a and b are a cluster that serves three files as one subsystem. Target c is alone, with its own
namespaces: one on a medium that fails by rule, one on a small file system that can fill up, a plain one, and
those that operators add. Five hosts stamp and check their namespaces (tests/torture/weft_torture.c), all with
digests; fio verifies one more, through libweft. Built on the stage of the torture test.
"""

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, '..', folder) for folder in ('torture', 'wire')]

import stage as stages  # noqa: E402
from target import ALARMS  # noqa: E402

NQN_ALONE = 'nqn.2026-11.io.weft:chaos-alone'
HOST_NQN = 'nqn.2026-11.io.weft:chaos-host-%d'
NEIGHBOUR = os.path.join(HERE, '..', 'wire', 'neighbour.py')
BLOCK = 4096
DISK_MIB = 24
FILE_MIB = 16
# Errors, latency spikes and torn writes, but no lost writes: the block model would report those.
RULES = ('fail:op=read:prob=1:seed=%d+fail:op=write:prob=1:seed=%d+tear:prob=1:seed=%d+split:ms=5:prob=2:seed=%d'
         '+delay:ms=40:prob=2:seed=%d+fail:op=zero:prob=1:seed=%d')
# Lost writes, to prove that the block model reports them (chaos --lie).
LIE = '+lose:op=write:after=100:every=50'
CTL_TIMEOUT_S = 60
OPERATOR_NSIDS = range(100, 110)
CROWD = 8
CROWD_CONTROLLERS = 100

WRITE_FAULT, READ_ERROR, CAPACITY, INTERNAL = 0x280, 0x281, 0x81, 0x06


class ChaosTarget(stages.Target):
    """Target a, b or c. Listens on all its links."""

    def is_clustered(self):
        return self.name in 'ab'

    def state_path(self):
        # c: on the disk that can fill up, like the medium.
        return super().state_path() if self.is_clustered() else os.path.join(self.stage.disk, 'state')

    def document(self):
        port = {'id': self.index + 1, 'address': '0.0.0.0', 'service': str(stages.PORT)}
        if not self.is_clustered():
            return {'version': 1, 'ports': [port], 'subsystems': [self.stage.subsystem_alone()]}
        spaces = [{'nsid': nsid, 'media': 'file:%s-%d,block=%d' % (self.stage.medium, nsid, BLOCK), 'ana_group': nsid,
                   'uuid': '77656674-0000-4000-8000-%012d' % nsid, 'clustered': True} for nsid in (1, 2, 3)]
        subsystem = {'nqn': stages.NQN, 'serial': 'CHAOS', 'allow_any_host': True, 'namespaces': spaces}
        return {'version': 1, 'cluster': self.cluster(), 'subsystems': [subsystem], 'ports': [port]}

    def ctl(self, *words):
        """(exit status, output). A target that is stopped or has ended gives a result too."""
        try:
            done = subprocess.run([self.stage.weft, 'ctl', '--state', self.state_path(), *map(str, words)],
                                  capture_output=True, text=True, timeout=CTL_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return None, 'no answer'
        return done.returncode, done.stdout + done.stderr

    def ctl_json(self, *words):
        status, text = self.ctl('--json', *words)
        if status != 0:
            raise stages.StageError('weft ctl %s: %s' % (' '.join(map(str, words)), text[-500:]))
        return json.loads(text)

    def limit(self, kind, value):
        """Sets a soft limit of the running process, unless it has just ended."""
        try:
            resource.prlimit(self.process.pid, kind, (value, resource.prlimit(self.process.pid, kind)[1]))
        except ProcessLookupError:
            pass

    def proc(self, name):
        with open('/proc/%d/%s' % (self.process.pid, name)) as file:
            return file.read()

    def kib(self, name):
        return int(re.search(r'^%s:\s+(\d+)' % name, self.proc('status'), re.M).group(1))

    def files(self):
        """Open files of the target: count of each kind."""
        kinds = []
        folder = '/proc/%d/fd' % self.process.pid
        for fd in os.listdir(folder):
            try:
                kinds.append(re.sub(r'\[\d+\]|-(wal|shm)\b', '', os.readlink(os.path.join(folder, fd))))
            except FileNotFoundError:
                pass
        return sorted(kinds)

    def connections(self):
        """Number of its connections with hosts."""
        table = subprocess.run(['ip', 'netns', 'exec', self.netns, 'ss', '-Htn', 'state', 'connected', 'exclude', 'time-wait',
                                'sport = :%d' % stages.PORT], capture_output=True, text=True, check=True)
        return len(table.stdout.splitlines())

    def log_text(self):
        with open(os.path.join(self.folder, 'log'), errors='replace') as file:
            return file.read()

    def alarms(self):
        return [line for line in self.log_text().splitlines() if re.search('|'.join(ALARMS), line)]


class Fio:
    """
    One fio after another on its own namespace, started while no fault is active, and running through the faults.
    """

    # fio connects while the first faults of a round begin: that may take as long as they last.
    ARGS = ['--thread', '--rw=randwrite', '--bs=4k', '--iodepth=8', '--size=6M', '--verify=crc32c',
            '--verify_fatal=1', '--do_verify=1', '--verify_state_save=0', '--rate_iops=150,300', '--policy=round-robin',
            '--timeout_profile=training', '--timeouts=fast-io-fail=0,connect=20000', '--data_digest=1', '--output-format=json',
            '--eta=never', '--nsid=3', '--nqn=' + stages.NQN, '--hostnqn=' + HOST_NQN % 9]

    def __init__(self, stage, engine, machine):
        self.stage, self.process, self.passes, self.errors, self.ios = stage, None, 0, [], 0
        self.lacks = None if engine and os.path.exists(engine) else 'the engine of fio is not built (make fio)'
        if not shutil.which('fio'):
            self.lacks = 'fio is not installed'
        paths = ','.join('%s:%d' % (target.addr_for(machine), stages.PORT) for target in stage.targets
                         if target.is_clustered())
        # The engine defines these options, so it must come first.
        self.command = ['ip', 'netns', 'exec', stage.netns(stage.machines[machine]), 'fio', '--name=chaos',
                        '--ioengine=external:' + os.path.abspath(engine or ''), *self.ARGS, '--paths=' + paths]

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def tend(self):
        """Checks the fio that has ended, and starts the next."""
        if self.lacks or self.is_running():
            return
        self.collect()
        log = open(os.path.join(self.stage.folder, 'fio.log'), 'w+')
        self.process = subprocess.Popen(self.command, stdout=log, stderr=subprocess.STDOUT, cwd=self.stage.folder)
        self.log = log

    def collect(self):
        if self.process is None:
            return
        self.log.seek(0)
        text = self.log.read()
        self.log.close()
        jobs = json.loads(text[text.find('{'):text.rfind('}') + 1])['jobs'] if '{' in text else []
        self.ios += sum(job['read']['total_ios'] for job in jobs)
        if self.process.returncode != 0 or not jobs or any(job['error'] for job in jobs):
            # Errors come before the figures, or there are no figures.
            self.errors.append('status %s, errors %s: %s' % (self.process.returncode, [job['error'] for job in jobs],
                                                             text[:text.find('{')] if '{' in text else text[-1500:]))
        self.passes += 1
        self.process = None

    def finish(self, timeout):
        if self.process is None:
            return
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.errors.append('it did not end within %d s of quiet' % timeout)
            self.kill()
        self.collect()

    def kill(self):
        if self.is_running():
            self.process.kill()
            self.process.wait()


class World(stages.Stage):
    target_class = ChaosTarget

    def __init__(self, folder, args):
        super().__init__(folder, os.path.abspath(args.weft), args.programs, machines='hi', names='abc')
        self.engine, self.seed, self.rate, self.has_lie = args.engine, args.seed, args.rate, args.lie
        self.hosts, self.fio = [], None
        self.disk = os.path.join(folder, 'disk')
        self.has_disk = False
        self.allowed = {HOST_NQN % number for number in (3, 4, 5, CROWD)}
        # Operators' changes of c: sizes in MiB by NSID as last seen, and all sizes that are possible now.
        self.added, self.may_have, self.files_made, self.grown = {}, {}, 0, 0
        self.changes, self.refusals = 0, 0

    def subsystem_alone(self):
        def spec(name, size_mib=FILE_MIB):
            return 'file:%s,size=%dM,block=%d' % (os.path.join(self.folder, name), size_mib, BLOCK)
        rules = RULES % tuple(self.seed + i for i in range(6)) + (LIE if self.has_lie else '')
        spaces = [{'nsid': 1, 'media': 'fault:%s@%s' % (rules, spec('alone-1'))},
                  {'nsid': 2, 'media': spec('disk/medium')},
                  {'nsid': 3, 'media': spec('alone-3')}]
        return {'nqn': NQN_ALONE, 'serial': 'ALONE', 'hosts': sorted(self.allowed), 'namespaces': spaces}

    def build(self):
        os.makedirs(self.disk)
        mount = subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=%dm' % DISK_MIB, 'weft-chaos', self.disk],
                               capture_output=True)
        self.has_disk = mount.returncode == 0
        for nsid in (1, 2, 3):
            with open('%s-%d' % (self.medium, nsid), 'wb') as file:
                file.truncate(FILE_MIB << 20)
        super().build()

    def start_hosts(self):
        a, b, c = self.targets
        both = [('--nqn', stages.NQN), (a, b)]
        alone = [('--nqn', NQN_ALONE), (c,)]
        rows = [  # number, machine, subsystem and targets, nsid, blocks, profile, statuses that faults explain
            (1, 0, both, 1, 1024, 'training', ()),
            (2, 1, both, 2, 512, 'default', ()),
            (3, 0, alone, 1, 512, 'training', (WRITE_FAULT, READ_ERROR)),
            (4, 1, alone, 2, 4096, 'default', (CAPACITY, WRITE_FAULT)),
            (5, 0, alone, 3, 512, 'training', ()),
        ]
        for number, machine, (nqn, targets), nsid, blocks, profile, statuses in rows:
            args = [*nqn, '--nsid', str(nsid), '--blocks', str(blocks), '--profile', profile, '--digests', '--zeroes',
                    '--host-nqn', HOST_NQN % number, '--seed', str(self.seed * 10 + number), '--depth', '8',
                    '--rate', str(self.rate), '--set', 'fast-io-fail=0']
            host = stages.Host(self, 'host-%d' % number, machine, targets, args)
            host.statuses = {'%#x' % status for status in statuses}
            host.commands = 0
            self.hosts.append(host)
        self.fio = Fio(self, self.engine, 1)

    def change(self, nsid, size_mib, *words):
        """An operator's change of a namespace of c; size None removes it."""
        before = self.added.get(nsid)
        status, text = self.targets[2].ctl('--json', *words)
        if status == 0:
            self.changes += 1
            may = {size_mib}
        elif '"errors"' in text:
            self.refusals += 1
            may = {before}
        else:
            may = {before, size_mib}  # no answer: the change was done or not
        self.may_have[nsid] = may if nsid not in self.may_have or len(may) == 1 else self.may_have[nsid] | may
        if status == 0 and size_mib is not None:
            self.added[nsid] = size_mib
        elif status == 0:
            self.added.pop(nsid, None)

    def namespaces_differ(self):
        """Compares the answers to operators with c's namespaces, which are then recorded; '' when they agree."""
        rows = self.targets[2].ctl_json('namespace', 'list', NQN_ALONE)['namespaces']
        have = {row['nsid']: row['live']['size_bytes'] >> 20 for row in rows if row['nsid'] in OPERATOR_NSIDS}
        wrong = ['namespace %d has %s MiB, and was told to have %s' % (nsid, have.get(nsid), sorted(map(str, may)))
                 for nsid, may in self.may_have.items() if have.get(nsid) not in may]
        wrong += ['namespace %d is there, and nobody made it' % nsid for nsid in have if nsid not in self.may_have]
        self.added = have
        self.may_have = {nsid: {have.get(nsid)} for nsid in self.may_have}
        return '; '.join(wrong)

    def crowd(self, target):
        """More hosts than a limited target has room for; they only read, and may be refused."""
        nqn, nsid = (stages.NQN, 2) if target.is_clustered() else (NQN_ALONE, 3)
        return subprocess.Popen(
            ['ip', 'netns', 'exec', self.netns(self.machines[1]), self.weft, 'perf', '-a', target.addr_for(1), '-s',
             str(stages.PORT), '-n', nqn, '--hostnqn', HOST_NQN % CROWD, '--nsid', str(nsid), '-g', '-G', '--controllers',
             str(CROWD_CONTROLLERS), '--queues', '4', '--depth', '1', '--rate', '100', '--time', '500ms', '--no-spin'],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def neighbour(self, target, word, seconds):
        """
        A hostile host (tests/wire/neighbour.py). An innocent host uses namespace 1 too; the hostile writes never
        complete.
        """
        return subprocess.Popen(
            ['ip', 'netns', 'exec', self.netns(self.machines[1]), sys.executable, NEIGHBOUR, word, target.addr_for(1),
             str(stages.PORT), stages.NQN if target.is_clustered() else NQN_ALONE, str(seconds)],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def links_of(self, target):
        return [link for i, link in enumerate(self.links) if i % len(self.names) == target.index]

    def __exit__(self, *exc):
        if self.fio:
            self.fio.kill()
        for host in self.hosts:
            host.kill()
        super().__exit__(*exc)
        if self.has_disk:
            subprocess.run(['umount', self.disk], capture_output=True)


def wait_for(what, timeout, step=0.05):
    """Calls `what` until it is true or the timeout has passed; returns its last result."""
    deadline = time.monotonic() + timeout
    while True:
        answer = what()
        if answer or time.monotonic() > deadline:
            return answer
        time.sleep(step)  # poll with a deadline
