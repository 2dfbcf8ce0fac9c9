# SPDX-License-Identifier: Apache-2.0
"""
The protocol between members of a cluster in plain Python, written from docs/adr/0021: a member that sends
what a test wants. And World, a cluster whose members serve one file.
"""

import hashlib
import hmac
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import uuid

import nvmetcp as n
import procfs
import restapi
import target

HELLO, CHALLENGE, PROOF, WELCOME, PING, PONG, RESET, RESET_DONE, LOST_HOST, SERVED, SEEN = range(1, 12)
BODY = {HELLO: 216, CHALLENGE: 216, PROOF: 0, WELCOME: 0, PING: 0, PONG: 16, RESET: 488,
        RESET_DONE: 16, LOST_HOST: 472, SERVED: 448, SEEN: 16}
MAC = 32
VERSION = 4
MAGIC = 0x72656570
SECRET = 'a secret of at least thirty-two characters, for tests'
TIMEOUT_S = 60.0
PINGS_MAX = 20  # pings in a row without a list: no list is coming
RANGES = {'a': [1, 1000], 'b': [2000, 2999]}
UUID = '6f1c7b9a-52e0-4d0b-9a39-1f0f5c1d2e3f'
LABELS = {'dialer proof': b'weft peer, proof of who connects',
          'listener proof': b'weft peer, proof of who was connected to',
          'dialer key': b'weft peer, key of who connects',
          'listener key': b'weft peer, key of who was connected to'}


def header(kind, number=0, body=None, magic=MAGIC, version=VERSION, reserved=0):
    return struct.pack('<IHHIIQ', magic, version, kind, BODY[kind] if body is None else body,
                       reserved, number)


def members_hash(ranges):
    text = b''
    for name in sorted(ranges):
        text += name.encode().ljust(64, b'\0') + struct.pack('<HH', *ranges[name])
    return hashlib.sha256(text.ljust(16 * 68, b'\0')).digest()


class Member:
    """A member that connects to another member."""

    boot_id = bytes(16)  # unknown kernel

    def __init__(self, path, name='b', to='a', secret=SECRET, ranges=None):
        self.name, self.to, self.secret = name, to, secret.encode()
        self.ranges = ranges or RANGES
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(TIMEOUT_S)
        self.sock.connect(path)
        self.number = 0

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.sock.close()

    def derive(self, label):
        text = LABELS[label].ljust(64, b'\0') + self.hello + self.challenge
        return hmac.new(self.secret, text, 'sha256').digest()

    def send(self, raw):
        try:
            self.sock.sendall(raw)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the next recv reports it

    def recv(self, count):
        raw = b''
        while len(raw) < count:
            try:
                got = self.sock.recv(count - len(raw))
            except ConnectionResetError:
                got = b''
            if not got:
                return None
            raw += got
        return raw

    def recv_frame(self):
        """(kind, number, body, mac), or None at the end of the stream."""
        raw = self.recv(24)
        if raw is None:
            return None
        magic, version, kind, body_bytes, reserved, number = struct.unpack('<IHHIIQ', raw)
        if (magic, version, reserved, body_bytes) != (MAGIC, VERSION, 0, BODY.get(kind)):
            raise RuntimeError('a frame that is none: %r' % raw)
        body = self.recv(body_bytes)
        return kind, number, body, self.recv(MAC), raw

    def is_closed(self):
        """True when the other side closes the link and, before that, sends only answers that were on the way."""
        while True:
            frame = self.recv_frame()
            if frame is None:
                return True
            if frame[0] not in (PONG, CHALLENGE, SERVED):
                return False

    def greeting(self, nonce=None):
        return self.name.encode().ljust(64, b'\0') + self.to.encode().ljust(64, b'\0') + \
            members_hash(self.ranges) + (nonce or os.urandom(32)) + self.boot_id + \
            struct.pack('<II', os.getpid(), 0)

    def greet(self, nonce=None):
        self.hello = header(HELLO) + self.greeting(nonce)
        self.send(self.hello + bytes(MAC))

    def take_challenge(self):
        frame = self.recv_frame()
        if frame is None or frame[0] != CHALLENGE:
            return False
        self.challenge = frame[4] + frame[2]
        return True

    def prove(self, proof=None):
        self.send(header(PROOF) + (proof or self.derive('dialer proof')))

    def shake(self):
        """True when the link is up and the other side has authenticated too."""
        self.greet()
        if not self.take_challenge():
            return False
        self.prove()
        frame = self.recv_frame()
        if frame is None or frame[0] != WELCOME:
            return False
        self.key, self.their_key = self.derive('dialer key'), self.derive('listener key')
        return hmac.compare_digest(frame[3], self.derive('listener proof'))

    def message(self, kind, body=b'', number=None):
        if number is None:
            self.number += 1
            number = self.number
        raw = header(kind, number) + body
        return raw + hmac.new(self.key, raw, 'sha256').digest()

    def ask(self, kind, body=b''):
        self.send(self.message(kind, body))
        frame = self.recv_frame()
        while frame is not None and frame[0] == SERVED:  # its list; it has no link of its own yet
            frame = self.recv_frame()
        if frame is not None:
            wanted = hmac.new(self.their_key, frame[4] + frame[2], 'sha256').digest()
            if not hmac.compare_digest(frame[3], wanted):
                raise RuntimeError('a wrong signature')
        return frame

    def tell(self, generation, loss):
        """
        Sends a list with the one namespace, which this member does not serve. True when the other side
        compared it.
        """
        entry = uuid.UUID(UUID).bytes + struct.pack('<5QIHBBQ', 1, 1, 8 << 20, 0, 0, 4096, 0, 0, 0, loss)
        self.send(self.message(SERVED, (struct.pack('<QII', generation, 0, 1) + entry).ljust(BODY[SERVED], b'\0')))
        frame = self.recv_frame()
        while frame is not None and frame[0] != SEEN:
            frame = self.recv_frame()
        return frame is not None and struct.unpack_from('<Q', frame[2])[0] == generation

    def next_list(self):
        """Answers pings. Returns the generation of the next list; None when only pings come."""
        for _ in range(PINGS_MAX):
            kind, _, body = self.recv_frame()[:3]
            if kind == SERVED:
                return struct.unpack_from('<Q', body)[0]
            if kind == PING:
                self.send(self.message(PONG, bytes(BODY[PONG])))
        return None


class Answerer(Member):
    """A member that another member has connected to."""

    def __init__(self, sock, name='b', to='a'):
        self.name, self.to, self.secret = name, to, SECRET.encode()
        self.ranges = RANGES
        self.sock = sock
        self.sock.settimeout(TIMEOUT_S)
        self.number = 0

    def answer(self):
        """True when the link is up."""
        kind, _, body, _, raw = self.recv_frame()
        self.hello = raw + body
        self.challenge = header(CHALLENGE) + self.greeting()
        self.send(self.challenge + bytes(MAC))
        proof = self.recv_frame()
        if kind != HELLO or proof is None or not hmac.compare_digest(proof[3], self.derive('dialer proof')):
            return False
        self.send(header(WELCOME) + self.derive('listener proof'))
        self.key, self.their_key = self.derive('listener key'), self.derive('dialer key')
        return True


CCR, LOG_RESET = 0x38, 0x1e
PROGRESS, SUCCESS, FAILED = 0, 1, 2
HOST_KATO_MS = 120000


class Instance:
    """The identity of a host's controller, as a Cross-Controller Reset names it."""

    def __init__(self, host):
        page = bytes(host.admin.identify(1).data)
        self.cntlid, self.ciu = host.cntlid, page[135]
        self.cirn = struct.unpack_from('<Q', page, 136)[0]


def reset_submit(host, who):
    return host.admin.submit(CCR, cdw10=who.cntlid | who.ciu << 16, cdw12=who.cirn & 0xffffffff,
                             cdw13=who.cirn >> 32)


def reset_state(host, who):
    """The final state of the reset in log 1Eh; None while the reset runs."""
    page = bytes(host.admin.get_log(LOG_RESET, 8 + 8 * 32, rae=1).data)
    for at in range(struct.unpack_from('<H', page)[0]):
        cntlid, ciu, state = struct.unpack_from('<HBxxxB', page, 8 + 8 * at)
        if (cntlid, ciu) == (who.cntlid, who.ciu) and state != PROGRESS:
            return state
    return None


def reset(host, who):
    """Resets a controller: SUCCESS, the final state from log 1Eh, or the status of a failed command."""
    cmd = host.admin.wait(reset_submit(host, who))
    if cmd.status != n.OK:
        return cmd.status
    if cmd.dw0 & 1:
        return SUCCESS
    return target.poll(lambda: reset_state(host, who))


def host_of(member):
    return member.host(kato_ms=HOST_KATO_MS)


def lost_body(cntlid=1, ciu=1, reason=2, subnqn=target.NQN, hostnqn='nqn.x'):
    return struct.pack('<16sHBB4x', bytes(16), cntlid, ciu, reason) + \
        subnqn.encode().ljust(224, b'\0') + hostnqn.encode().ljust(224, b'\0')


def reset_body(request_id=1, cntlid=1, ciu=1, cirn=1, subnqn=target.NQN, hostnqn='nqn.x'):
    return struct.pack('<QQHB5x16s', request_id, cirn, cntlid, ciu, bytes(16)) + \
        subnqn.encode().ljust(224, b'\0') + hostnqn.encode().ljust(224, b'\0')


def boot_id_of_kernel():
    with open('/proc/sys/kernel/random/boot_id') as file:
        return uuid.UUID(file.read().strip()).bytes


def can_loop():
    """None when loop devices can be made here, else the reason."""
    if os.geteuid() != 0:
        return 'only root can make a loop device'
    return None if os.path.exists('/dev/loop-control') else 'this kernel has no loop devices'


def loop_make(path):
    """Makes a block device (loop) of 8 MiB with sectors of 4 KiB; returns its path."""
    with open(path, 'wb') as file:
        file.truncate(8 << 20)
    return subprocess.run(['losetup', '--sector-size', '4096', '-f', '--show', path], check=True, timeout=20,
                          capture_output=True, text=True).stdout.strip()


class World:
    """Members that serve one file or one block device (loop). Each is a process with its own folder."""

    def __init__(self, names=('a', 'b'), answer_ms=200, fence='kill', secrets=None, size='8M',
                 start=True, has_tcp=False, is_device=False, where=None):
        self.ports = {name: target.free_port() if has_tcp else None for name in names}
        self.folder = tempfile.mkdtemp(prefix='weft-peers-', dir=where)
        self.disk = os.path.join(self.folder, 'disk.img')
        self.loop = loop_make(self.disk) if is_device else None
        media = 'file:%s,size=%s,block=4096' % (self.disk, size)
        if self.loop:
            self.disk = self.loop
            media = 'file:%s,block=4096' % self.loop
        self.members = {}
        self.clients = {name: restapi.Client(os.path.join(self.folder, name, 'state', 'weft.sock'))
                        for name in names}
        for name in names:
            self.write_secret(name, (secrets or {}).get(name, SECRET))
        for name in names:
            port = target.free_port()
            config = target.config_of(port, [target.namespace(
                1, media, uuid=UUID, clustered=True)], rights=target.ALL_RIGHTS)
            config['cluster'] = {
                'name': name, 'listen': self.place(name),
                'secret_file': self.secret_path(name), 'cntlids': RANGES[name],
                'answer_ms': answer_ms, 'fence': fence,
                'peers': [{'name': other, 'address': self.place(other),
                           'cntlids': RANGES[other]} for other in names if other != name]}
            folder = os.path.join(self.folder, name)
            os.mkdir(folder)
            self.members[name] = target.Target(config, folder=folder, port=port, start=False)
        if start:
            for member in self.members.values():
                member.start()

    def __getitem__(self, name):
        return self.members[name]

    def socket(self, name):
        return os.path.join(self.folder, name + '.sock')

    def place(self, name):
        port = self.ports[name]
        return 'unix:' + self.socket(name) if port is None else '127.0.0.1:%d' % port

    def secret_path(self, name):
        return os.path.join(self.folder, name + '.secret')

    def write_secret(self, name, text, mode=0o600):
        with open(self.secret_path(name), 'w') as file:
            file.write(text + '\n')
        os.chmod(self.secret_path(name), mode)

    def api(self, name):
        return self.clients[name]

    def peer(self, name, of):
        """How member `of` sees member `name`."""
        peers = self.api(of).get('/v1/peers').json['peers']
        return [peer for peer in peers if peer['name'] == name][0]

    def wait_up(self, name, of, up=True):
        return target.poll(lambda: self.peer(name, of)['up'] == up)

    def stop(self, name):
        """Sends SIGSTOP and waits until every thread has stopped."""
        process = self.members[name].process
        process.send_signal(signal.SIGSTOP)
        if not target.poll(lambda: procfs.is_stopped(process.pid)):
            raise RuntimeError('%s does not stop' % name)

    def finish(self, t):
        for name, member in self.members.items():
            if member.process is None:
                continue
            if member.process.poll() is None:
                member.process.send_signal(signal.SIGCONT)
            member.finish(t)
            t.eq(self.clients[name].violations, [], 'the API of %s answers by its document' % name)
        if self.loop:
            subprocess.run(['losetup', '-d', self.loop], check=True, timeout=20)
        shutil.rmtree(self.folder, ignore_errors=True)
