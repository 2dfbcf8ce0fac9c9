# SPDX-License-Identifier: Apache-2.0
"""
A `weft serve` for the tests of its store: in a folder of its own, driven over the REST API on its Unix socket, on
request with the shim that kills it or fills its disk (crash_shim.c).

The binary comes from $WEFT, the shim from $WEFT_SHIM. One reactor.
"""

import http.client
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'wire'))
import nvmetcp  # noqa: E402
import target as wire_target  # noqa: E402
from target import poll  # noqa: E402

START_TIMEOUT_S = 60.0
ALARMS = wire_target.ALARMS
NQN = 'nqn.2026-11.io.weft:crash-%s'
DEFAULT_NQN = 'nqn.2026-11.io.weft:default'
RESERVE = 'RESERVE'  # no API method: commands of a host
KEY = 0x5745465400000001


class Gone(Exception):
    """The target ended before it answered."""


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__('localhost', timeout=30)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class World:
    def __init__(self, folder=None, args=(), port=None):
        self.own_folder = folder is None
        self.folder = folder or tempfile.mkdtemp(prefix='weft-store-')
        self.state = os.path.join(self.folder, 'state')
        self.log_path = os.path.join(self.folder, 'log')
        self.out_path = os.path.join(self.folder, 'out')
        self.full_path = os.path.join(self.folder, 'disk-is-full')
        self.count_path = os.path.join(self.folder, 'count')
        self.port = port or wire_target.free_port()
        self.args = list(args) or ['--listen', '127.0.0.1:%d' % self.port, '--ns',
                                   'file:%s/disk,size=1M' % self.folder]
        self.process = None

    def command(self):
        return [wire_target.weft_path(), 'serve', '--state', self.state, '--reactors', '1',
                '--discovery', 'none'] + self.args

    def environment(self, kill_at, loses_power, shim):
        env = dict(os.environ)
        if shim:
            env.update(LD_PRELOAD=os.environ['WEFT_SHIM'], WEFT_CRASH_DIR=self.state,
                       WEFT_CRASH_AT=str(kill_at), WEFT_CRASH_POWER='1' if loses_power else '0',
                       WEFT_CRASH_FULL=self.full_path, WEFT_CRASH_COUNT=self.count_path)
            # The sanitizer insists on being loaded first, which is not needed.
            env['ASAN_OPTIONS'] = env.get('ASAN_OPTIONS', '') + ':verify_asan_link_order=0'
        return env

    def start(self, kill_at=0, loses_power=False, shim=True):
        """Returns False when the target has ended instead."""
        with open(self.log_path, 'wb') as log, open(self.out_path, 'wb') as out:
            self.process = subprocess.Popen(self.command(), stdout=out, stderr=log,
                                            env=self.environment(kill_at, loses_power, shim))
        poll(lambda: self.process.poll() is not None or 'Connect with' in self.out(),
             START_TIMEOUT_S)
        return self.process.poll() is None

    def out(self):
        with open(self.out_path, errors='replace') as file:
            return file.read()

    def log(self):
        with open(self.log_path, errors='replace') as file:
            return file.read()

    def says(self, *texts):
        """True when the log has all of the texts. Polls: the log is written by a thread of its own."""
        return poll(lambda: all(text in self.log() for text in texts))

    def call(self, method, path, body=None):
        """Returns (status, answer) of the API. Raises Gone when the target ended before the answer."""
        conn = UnixConnection(os.path.join(self.state, 'weft.sock'))
        try:
            conn.request(method, path, body=None if body is None else json.dumps(body),
                         headers={'Content-Type': 'application/json'})
            response = conn.getresponse()
            text = response.read()
            return response.status, json.loads(text) if text else None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Gone(str(error)) from error
        finally:
            conn.close()

    def change(self, method, path, body=None):
        if method == RESERVE:
            self.reserve()
            return
        status, answer = self.call(method, path, body)
        if status // 100 != 2:
            raise RuntimeError('%s %s: %d %s' % (method, path, status, answer))

    def reserve(self):
        """Registers with CPTPL ("persist through power loss") and acquires."""
        try:
            with nvmetcp.Host(('127.0.0.1', self.port), DEFAULT_NQN) as host:
                queue = host.queue()
                for opcode, fields in ((0x0d, 3 << 30 | 1 << 3), (0x11, 1 << 8)):
                    keys = (0, KEY) if opcode == 0x0d else (KEY, 0)
                    cmd = queue.do(opcode, nsid=1, cdw10=fields, data=struct.pack('<QQ', *keys))
                    if cmd.status != nvmetcp.OK:
                        raise RuntimeError('opcode %x: status %s' % (opcode, cmd.status))
        except (OSError, nvmetcp.Closed, nvmetcp.Late) as error:
            raise Gone(str(error)) from error

    def is_reserved(self):
        """Reservation Report, extended: the only registrant is the holder, with KEY."""
        with nvmetcp.Host(('127.0.0.1', self.port), DEFAULT_NQN) as host:
            cmd = host.queue().do(0x0e, nsid=1, cdw10=128 // 4 - 1, cdw11=1, read_bytes=128)
        data = bytes(cmd.data)
        return (cmd.status == nvmetcp.OK and data[4] == 1 and data[5:7] == b'\1\0' and
                struct.pack('<Q', KEY) in data[64:128])

    def document(self):
        status, answer = self.call('GET', '/v1/config')
        if status != 200:
            raise RuntimeError('GET /v1/config: %d %s' % (status, answer))
        return answer

    def wait_exit(self):
        try:
            return self.process.wait(START_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return None

    def stop(self):
        """Returns the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.wait_exit()

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def changes_counted(self):
        with open(self.count_path) as file:
            return int(file.read())

    def alarms(self):
        return [line for line in self.log().splitlines() if any(word in line for word in ALARMS)]

    def wipe(self):
        shutil.rmtree(self.state, ignore_errors=True)

    def remove(self):
        self.kill()
        if self.own_folder:
            shutil.rmtree(self.folder, ignore_errors=True)


def quoted(text):
    return urllib.parse.quote(text, safe='')


def script():
    """Changes of every kind, each a tuple of arguments for World.change."""
    first, second = quoted(NQN % 'a'), quoted(NQN % 'b')
    return [
        ('POST', '/v1/subsystems', {'nqn': NQN % 'a', 'allow_any_host': True}),
        ('POST', '/v1/subsystems/%s/namespaces' % first, {'nsid': 1, 'media': 'mem:1M'}),
        ('POST', '/v1/subsystems', {'nqn': NQN % 'b', 'hosts': ['nqn.2014-08.org.example:first'], 'namespaces': [
            {'nsid': 1, 'media': 'mem:1M'}, {'nsid': 2, 'media': 'null:1M'}]}),
        (RESERVE, None, None),
        ('POST', '/v1/subsystems/%s/hosts' % second, {'nqn': 'nqn.2014-08.org.example:host'}),
        ('PATCH', '/v1/subsystems/%s/namespaces/1' % first, {'media': 'mem:2M'}),
        ('DELETE', '/v1/subsystems/%s/namespaces/2' % second, None),
        # The start made generation 1; every change except the reservation made one more.
        ('POST', '/v1/history/6/rollback', None),
        ('DELETE', '/v1/subsystems/%s' % first, None),
    ]
