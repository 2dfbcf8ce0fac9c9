# SPDX-License-Identifier: Apache-2.0
"""The stage of the torture test and of the chaos: network namespaces, links that can be broken, targets, hosts.

Machines with hosts (one by default) and machines with one target each are network namespaces. Every host
machine reaches every target over its own link (relay.c). The targets of the torture test are two processes that
serve the same file as one subsystem and are peers (docs/failover.md). Everything is set up here and removed
again, by pid and by name.
"""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
import uuid

NQN = 'nqn.2026-11.io.weft:torture-subsystem'
NS_UUID = str(uuid.UUID(int=0x77656674 << 96 | 1))
START_TIMEOUT_S = 20
PORT = 4420


class StageError(Exception):
    pass


def why_not():
    """What this machine lacks for the test, or None."""
    if os.geteuid() != 0:
        return 'it needs root, for network namespaces'
    if not os.access('/dev/net/tun', os.R_OK | os.W_OK):
        return 'there is no /dev/net/tun'
    lacking = [command for command in ('ip', 'ss') if not shutil.which(command)]
    if lacking:
        return 'there is no %s (iproute2)' % ' and no '.join(lacking)
    name = 'weft-probe-%d' % os.getpid()
    if subprocess.run(['ip', 'netns', 'add', name], capture_output=True).returncode != 0:
        return 'network namespaces cannot be made here'
    subprocess.run(['ip', 'netns', 'del', name], check=True)
    return None


class Talker:
    """A process that answers each order with one line."""

    def __init__(self, command, log):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                                        text=True, bufsize=1)
        self.expect('ready')

    def line(self, timeout=None):
        if not select.select([self.process.stdout], [], [], timeout)[0]:
            raise StageError('%s does not answer within %.0f s' % (self.process.args[-1], timeout))
        line = self.process.stdout.readline()
        if not line:
            raise StageError('%s ended with status %s' % (self.process.args[-1], self.process.wait()))
        return line.strip()

    def expect(self, text):
        line = self.line()
        if line != text:
            raise StageError('%r instead of %r' % (line, text))

    def ask(self, order, timeout=None):
        self.process.stdin.write(order + '\n')
        self.process.stdin.flush()
        return self.line(timeout)

    def end(self, timeout=10):
        if self.process.poll() is None:
            self.process.stdin.close()
            try:
                self.process.wait(timeout)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class Host:
    """A weft_torture that runs on a machine and checks what it reads."""

    def __init__(self, stage, name, machine, targets, args):
        self.stage, self.name, self.targets = stage, name, targets
        command = ['ip', 'netns', 'exec', stage.netns(stage.machines[machine]),
                   os.path.join(stage.programs, 'weft_torture')]
        for target in targets:
            command += ['--path', '%s:%d' % (target.addr_for(machine), PORT)]
        self.log = open(os.path.join(stage.folder, name + '.log'), 'w+')
        self.talker = Talker(command + args, self.log)

    def ask(self, order, timeout=None):
        return json.loads(self.talker.ask(order, timeout))

    def signal(self, number):
        self.talker.process.send_signal(number)

    def log_text(self):
        self.log.seek(0)
        return self.log.read()

    def kill(self):
        self.talker.process.kill()
        self.talker.process.wait()


class Target:
    """A target process; by default one of the two of the torture test."""

    def __init__(self, stage, index):
        self.stage, self.index, self.name = stage, index, stage.names[index]
        self.netns = stage.netns(self.name)
        self.addr = self.addr_for(0)
        self.folder = os.path.join(stage.folder, self.name)
        self.process = None
        self.prefix = []  # words before the program
        self.starts = 0
        os.makedirs(self.folder)
        with open(self.config_path(), 'w') as file:
            json.dump(self.document(), file)

    def addr_for(self, machine):
        """Its address on the link to that host machine."""
        return self.stage.link_addr(machine, self.index, 2)

    def config_path(self):
        return os.path.join(self.folder, 'weft.json')

    def member(self, index):
        """A member of the cluster, the same in both documents."""
        first = 1 + index * 1000
        return {'name': 'ab'[index], 'cntlids': [first, first + 999]}

    def cluster(self):
        other = 1 - self.index
        sock = 'unix:' + os.path.join(self.stage.folder, 'peer-%s.sock')
        return dict(self.member(self.index), listen=sock % self.name, fence=self.stage.fence,
                    secret_file=self.stage.secret_path,
                    peers=[dict(self.member(other), address=sock % 'ab'[other], fence=self.stage.fence)])

    def document(self):
        return {
            'version': 1,
            'cluster': self.cluster(),
            'subsystems': [{
                'nqn': NQN, 'serial': 'TORTURE', 'allow_any_host': True,
                'namespaces': [{'nsid': 1, 'media': 'file:%s,block=4096' % self.stage.medium,
                                'uuid': NS_UUID, 'clustered': True}],
            }],
            'ports': [{'id': self.index + 1, 'address': self.addr, 'service': str(PORT), 'subsystems': [NQN]}],
        }

    def state_path(self):
        return os.path.join(self.folder, 'state')

    def start(self):
        log = open(os.path.join(self.folder, 'log'), 'ab')
        out = os.path.join(self.folder, 'out')
        self.starts += 1
        with log, open(out, 'wb') as out_file:
            self.process = subprocess.Popen(
                ['ip', 'netns', 'exec', self.netns, *self.prefix, self.stage.weft, 'serve', '-c', self.config_path(),
                 '--state', self.state_path(), '--reactors', '1'],
                stdout=out_file, stderr=log)
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self.is_listening():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise StageError('target %s does not start:\n%s' % (self.name, self.log_tail()))
            time.sleep(0.005)  # poll

    def is_listening(self):
        table = subprocess.run(['ip', 'netns', 'exec', self.netns, 'ss', '-Hltn', 'sport = :%d' % PORT],
                               capture_output=True, text=True)
        return bool(table.stdout.strip())

    def log_tail(self):
        with open(os.path.join(self.folder, 'log'), errors='replace') as file:
            return file.read()[-3000:]

    def is_alive(self):
        return self.process is not None and self.process.poll() is None

    def signal(self, number):
        if self.is_alive():
            self.process.send_signal(number)

    def kill(self):
        self.signal(signal.SIGKILL)
        if self.process:
            self.process.wait()

    def stop(self):
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        try:
            return self.process.wait(15) if self.process else None
        except subprocess.TimeoutExpired:
            self.kill()
            return None


class Stage:
    """
    `with Stage(...) as stage`: targets, and links to them, first those of the first machine; hosts are started
    separately.
    """

    target_class = Target

    def __init__(self, folder, weft, programs, fence='kill', size_mib=64, machines='h', names='ab'):
        self.machines, self.names = machines, names
        self.folder, self.weft, self.programs, self.fence = folder, weft, programs, fence
        self.tag = 'weft-%d' % os.getpid()
        self.medium = os.path.join(folder, 'medium')
        self.secret_path = os.path.join(folder, 'secret')
        self.size = size_mib << 20
        self.links, self.targets, self.host = [], [], None

    def netns(self, who):
        return '%s-%s' % (self.tag, who)

    def link_addr(self, machine, target, side):
        return '10.91.%d.%d' % (machine * 16 + target + 1, side)

    def __enter__(self):
        try:
            self.build()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def build(self):
        with open(self.medium, 'wb') as file:
            file.truncate(self.size)
        with open(os.open(self.secret_path, os.O_CREAT | os.O_WRONLY, 0o600), 'w') as file:
            file.write(uuid.uuid4().hex + uuid.uuid4().hex)
        for who in self.machines + self.names:
            subprocess.run(['ip', 'netns', 'add', self.netns(who)], check=True)
            subprocess.run(['ip', '-n', self.netns(who), 'link', 'set', 'lo', 'up'], check=True)
        for machine, who in enumerate(self.machines):
            for index, name in enumerate(self.names):
                relay = [os.path.join(self.programs, 'relay'),
                         'w%d' % index, self.netns(who), self.link_addr(machine, index, 1),
                         'w%d' % machine, self.netns(name), self.link_addr(machine, index, 2)]
                self.links.append(Talker(relay, sys.stderr))
        for index in range(len(self.names)):
            self.targets.append(self.target_class(self, index))
        for target in self.targets:
            target.start()

    def start_host(self, args):
        self.host = Host(self, 'host', 0, self.targets, ['--nqn', NQN] + args)

    def ask_host(self, order):
        return self.host.ask(order)

    def host_log_text(self):
        return self.host.log_text()

    def __exit__(self, *exc):
        if self.host:
            self.host.kill()
        for target in self.targets:
            target.signal(signal.SIGCONT)
            target.kill()
        for link in self.links:
            link.end()
        for who in self.machines + self.names:
            subprocess.run(['ip', 'netns', 'del', self.netns(who)], capture_output=True)
