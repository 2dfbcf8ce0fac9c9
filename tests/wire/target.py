# SPDX-License-Identifier: Apache-2.0
"""
A live `weft serve` in its own folder, on a free port, for one test program.

The binary comes from $WEFT or the first argument, the number of reactors from $WEFT_REACTORS (2). Reactors
are not pinned: tests run in parallel, and a pinned thread may wait long for its CPU. At the end of the test
the target must exit with status 0 on SIGTERM. Its log may hold neither a failed CHECK nor a sanitizer's
report.
"""

import copy
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import nvmetcp
import procfs

NQN = 'nqn.2026-11.io.weft:wire'
ALL_RIGHTS = {'any': ['write-protect', 'format', 'label', 'namespaces']}
RELOADED = re.compile('is in force|has not changed')
START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 90.0
ALARMS = ('check failed', 'CHECK', 'Sanitizer', 'runtime error:', 'stack smashing', 'corrupted')


def weft_path():
    path = os.environ.get('WEFT') or (sys.argv[1] if len(sys.argv) > 1 else '')
    if not path or not os.access(path, os.X_OK):
        print('Bail out! name the weft executable in $WEFT or as the first argument')
        sys.exit(1)
    return os.path.abspath(path)


def free_port(address='127.0.0.1'):
    """
    A port below the kernel's ephemeral range: a target that a test restarts must not find its port taken by
    an outgoing connection.
    """
    while True:
        with socket.socket() as sock:
            try:
                sock.bind((address, random.randrange(12000, 32000)))
                return sock.getsockname()[1]
            except OSError:
                continue


def poll(what, timeout=nvmetcp.TIMEOUT_S, step=0.005):
    """Calls `what` until it is true or the timeout has passed; returns its last result."""
    deadline = time.monotonic() + timeout
    while True:
        answer = what()
        if answer or time.monotonic() > deadline:
            return answer
        time.sleep(step)  # poll with a deadline


def least(once, most, tries=5):
    """
    Calls once(), which returns a time, until the result is at most `most`; returns all results. Load on the
    machine can only add to a time, so the least of some tries is what the target needs.
    """
    measured = []
    while len(measured) < tries and not (measured and measured[-1] <= most):
        measured.append(once())
    return measured


def memory_folder(need_bytes):
    """A folder in memory (/dev/shm); None, for the default folder, when /dev/shm has too little room."""
    try:
        stat = os.statvfs('/dev/shm')
    except OSError:
        return None
    has_room = stat.f_bavail * stat.f_frsize >= need_bytes and os.access('/dev/shm', os.W_OK)
    return '/dev/shm' if has_room else None


def know(host, conn, nsid, block=512):
    """
    Reads which namespace has the NSID now, as a host does after a notice, until its commands are accepted
    (docs/adr/0033).
    """
    host.admin.identify(3, nsid)
    host.admin.identify(0, nsid)
    poll(lambda: conn.read(nsid, 0, 1, block).status != (0, 0x82))


def namespace(nsid, media, **more):
    return dict({'nsid': nsid, 'media': media}, **more)


def config_of(port, namespaces=None, limits=None, subsystems=None, ports=None, **subsystem):
    if subsystems is None:
        if namespaces is None:
            namespaces = [namespace(1, 'mem:8M,block=512'), namespace(2, 'mem:16M,block=4096')]
        subsystem.setdefault('allow_any_host', True)
        subsystems = [dict({'nqn': NQN, 'serial': 'WIRETEST', 'namespaces': namespaces},
                           **subsystem)]
    if ports is None:
        ports = [{'id': 1, 'transport': 'tcp', 'address': '127.0.0.1', 'service': str(port)}]
    config = {'version': 1, 'subsystems': subsystems, 'ports': ports}
    if limits:
        config['limits'] = limits
    return config


def threads_of(pid):
    """Of each thread of a process: name, state, CPU, wait channel, time on a CPU and time waiting for one."""
    found = {}
    for tid, (stat, wchan, schedstat) in procfs.threads(pid, 'stat', 'wchan', 'schedstat').items():
        comm, fields = re.match(r'\d+ \((.*)\) (.*)', stat, re.DOTALL).groups()
        run_ns, wait_ns, _ = map(int, schedstat.split())
        found[tid] = (comm, fields.split()[0], fields.split()[36], wchan, run_ns, wait_ns)
    return found


class Target:
    def __init__(self, config=None, reactors=None, args=('--discovery', 'none'), folder=None,
                 port=None, address='127.0.0.1', start=True, stderr=None, **config_args):
        weft_path()
        self.own_folder = folder is None
        self.folder = folder or tempfile.mkdtemp(prefix='weft-wire-')
        self.port = port or free_port(address)
        self.address = (address, self.port)
        self.config = config or config_of(self.port, **config_args)
        self.config_path = os.path.join(self.folder, 'config.json')
        self.log_path = os.path.join(self.folder, 'log')
        self.out_path = os.path.join(self.folder, 'out')
        # Two, so that queues and controllers are on different reactors.
        self.reactors = reactors or int(os.environ.get('WEFT_REACTORS', '2'))
        self.args = list(args)
        self.stderr = stderr  # a descriptor in place of the log file
        self.process = None
        self.write_config()
        if start:
            self.start()

    def write_config(self):
        with open(self.config_path + '.new', 'w') as file:
            json.dump(self.config, file, indent=1)
        os.rename(self.config_path + '.new', self.config_path)

    def command(self):
        return [weft_path(), 'serve', '-c', self.config_path, '--state',
                os.path.join(self.folder, 'state'), '--reactors', str(self.reactors),
                '--log-level', 'debug'] + self.args

    def start(self, *more):
        self.log_start = os.path.getsize(self.log_path) if os.path.exists(self.log_path) else 0
        with open(self.log_path, 'ab') as log, open(self.out_path, 'wb') as out:
            self.process = subprocess.Popen(self.command() + list(more), stdout=out, stderr=self.stderr or log)
        poll(lambda: self.process.poll() is not None or 'Connect with' in self.out(),
             START_TIMEOUT_S)
        if self.process.poll() is not None or 'Connect with' not in self.out():
            print('# ' + self.log().replace('\n', '\n# '))
            self.kill()
            raise RuntimeError('weft serve does not start')

    def out(self):
        with open(self.out_path, errors='replace') as file:
            return file.read()

    def is_log_written(self):
        """True when all logged lines are in the file: the log writer is idle or has ended."""
        return not self.is_running() or not any(
            comm == 'weft-log' and state in 'RD' for comm, state, *_ in self.threads().values())

    def log(self):
        poll(self.is_log_written)
        with open(self.log_path, errors='replace') as file:
            return file.read()

    def wait_log(self, text, timeout=nvmetcp.TIMEOUT_S):
        return poll(lambda: text in self.log(), timeout)

    def reload(self, change=None):
        """Changes the configuration, sends SIGHUP, and waits until it is in force."""
        if change:
            config = copy.deepcopy(self.config)
            change(config)
            self.config = config
        self.write_config()
        before = len(RELOADED.findall(self.log()))
        self.process.send_signal(signal.SIGHUP)
        if not poll(lambda: len(RELOADED.findall(self.log())) > before):
            raise RuntimeError('the new configuration does not come into force')

    def host(self, subnqn=NQN, **kwargs):
        return nvmetcp.Host(self.address, subnqn, **kwargs)

    def conn(self, **kwargs):
        return nvmetcp.Conn(self.address, **kwargs)

    def reactor_run_ns(self):
        """Run time of each reactor's thread so far, by the thread's name."""
        threads = procfs.threads(self.process.pid, 'comm', 'schedstat').values()
        return {name.strip(): int(schedstat.split()[0]) for name, schedstat in threads if name.startswith('weft-r')}

    def reactor_of(self, conn, nsid=1, reads=400):
        """The reactor of this queue, found by loading the queue: its thread runs most."""
        before = self.reactor_run_ns()
        for i in range(reads):
            conn.read(nsid, i % 64, 8)
        after = self.reactor_run_ns()
        spent = {name: after[name] - before[name] for name in after}
        return max(spent, key=spent.get)

    def threads(self):
        return threads_of(self.process.pid)

    def wait_taken(self, request):
        """
        Waits until the control thread has the request sent on this REST connection: the HTTP thread has read
        all of it and sleeps again, so it has posted the request.
        """
        def is_taken():
            return request.is_read() and any(comm == 'MHD-single' and state == 'S' for comm, state, *_ in self.threads().values())
        if not poll(is_taken):
            raise RuntimeError('the target does not take a request')

    def scene(self):
        """For a failed guard: what the target and its connections are doing."""
        if not self.is_running():
            return 'the target is gone'
        try:
            before = self.threads()
            self.wait_exit(1.0)  # an interval to measure over
            after = self.threads()
            lines = ['%s: state %s, CPU %s, in %s, in 1 s: ran %d ms, waited %d ms for a CPU' % (
                comm, state, cpu, wchan, (run - before[task][4]) // 1000000,
                (wait - before[task][5]) // 1000000)
                for task, (comm, state, cpu, wchan, run, wait) in after.items() if task in before]
            lines += subprocess.run(['ss', '-tnmi', 'sport = :%d or dport = :%d' % (
                self.port, self.port)], capture_output=True, text=True).stdout.splitlines()
        except (OSError, ValueError) as error:
            lines = ['no more is known: %s' % error]
        return '\n'.join(lines + self.log().splitlines()[-10:])

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def wait_exit(self, timeout=STOP_TIMEOUT_S):
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None

    def kill(self):
        if self.process:
            self.process.kill()
            self.process.wait()

    def alarms(self):
        return [line for line in self.log().splitlines()
                if re.search('|'.join(ALARMS), line)]

    def finish(self, tap):
        """The final rows of every test program."""
        if self.process and self.process.returncode is None:
            alive = self.is_running()
            tap.ok(alive, 'the target is alive at the end', why=self.log()[-3000:])
            if alive:
                self.terminate()
                code = self.wait_exit()
                tap.ok(code == 0, 'SIGTERM: the target leaves with status 0',
                       why='status %s\n%s' % (code, self.log()[-3000:]))
                if code is None:
                    self.kill()
        tap.eq(self.alarms(), [], 'the log holds no failed check and no sanitizer report')
        self.remove()

    def remove(self):
        if self.own_folder:
            shutil.rmtree(self.folder, ignore_errors=True)


def run(tap, test, **target_args):
    """Runs one test function against one target, adds the final rows, exits."""
    target = None
    try:
        with tap.guard('the test as a whole'):
            target = Target(**target_args)
            tap.scene = target.scene
            test(tap, target)
    finally:
        if target:
            target.finish(tap)
    sys.exit(tap.done())
