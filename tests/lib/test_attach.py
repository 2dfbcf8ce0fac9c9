#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
`weft attach --nbd` against a live target: QEMU's and libnbd's tools use the export, and a small client sends what
those tools never send. $WEFT names the executable weft.
"""

import os
import resource
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'wire'))
import nbd  # noqa: E402
import nvmetcp as n  # noqa: E402
import target  # noqa: E402
from nbd import Nbd  # noqa: E402
from relay import Relay  # noqa: E402
from tap import Tap  # noqa: E402

MIB = 1 << 20
SIZE = 64 * MIB
SMALL = 16 * MIB
CLIENTS_MAX = 16
ALARMS = ('check failed', 'Sanitizer', 'runtime error:')


class Attach:
    """Runs `weft attach --nbd` of one namespace, in its own folder."""

    def __init__(self, ports, nsid, *args, socket_path=None):
        self.folder = tempfile.mkdtemp(prefix='weft-attach-')
        self.path = socket_path or os.path.join(self.folder, 'nbd.sock')
        self.uri = 'nbd+unix:///?socket=' + self.path
        paths = [word for port in ports for word in ('--path', '127.0.0.1:%d' % port)]
        self.err = open(os.path.join(self.folder, 'err'), 'w+')
        self.process = subprocess.Popen(
            [target.weft_path(), 'attach', '--nbd', self.path, '-n', target.NQN, '--nsid', str(nsid), *paths, *args],
            stdout=subprocess.PIPE, stderr=self.err, text=True)
        self.out = ''
        for line in self.process.stdout:
            self.out += line
            if line.startswith('Connect with: '):
                break

    def errors(self):
        self.err.seek(0)
        return self.err.read()

    def client(self, **kwargs):
        return Nbd(self.path).go(**kwargs)

    def end(self, number=signal.SIGTERM):
        """Ends the server; returns its exit status."""
        self.process.send_signal(number)
        try:
            return self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return None

    def finish(self, t, name):
        if self.process.poll() is None:
            t.eq(self.end(), 0, name + ': SIGTERM ends it with status 0')
        t.ok(not any(alarm in self.errors() for alarm in ALARMS), name + ': no check failed', why=self.errors())
        t.ok(not os.path.exists(self.path), name + ': its socket is gone')
        shutil.rmtree(self.folder)


def command(*argv, timeout=60):
    result = subprocess.run(argv, capture_output=True, text=True, timeout=timeout)
    return result.returncode, result.stdout + result.stderr


def has_tool(t, name):
    if shutil.which(name):
        return True
    t.skip(name, 'not installed (tools/setup test)')
    return False


# ---- other people's programs ---------------------------------------------------------------------

def qemu(t, disk):
    image = os.path.join(disk.folder, 'image')
    with open(image, 'wb') as file:
        file.write(os.urandom(6 * MIB + 4096))
        file.seek(40 * MIB)
        file.write(os.urandom(MIB))
        file.truncate(SIZE)
    code, out = command('qemu-img', 'info', disk.uri)
    t.ok(code == 0 and '(67108864 bytes)' in out, 'qemu-img info', why=out)
    code, out = command('qemu-img', 'convert', '-n', '-f', 'raw', '-O', 'raw', image, disk.uri)
    t.ok(code == 0, 'qemu-img convert to it', why=out)
    code, out = command('qemu-img', 'compare', '-f', 'raw', '-F', 'raw', image, disk.uri)
    t.ok(code == 0 and 'identical' in out, 'qemu-img compare', why=out)
    code, out = command('qemu-img', 'convert', '-W', '-m', '16', '-f', 'raw', '-O', 'raw', disk.uri, image + '2')
    t.ok(code == 0, 'qemu-img convert from it, out of order', why=out)
    with open(image, 'rb') as a, open(image + '2', 'rb') as b:
        t.ok(a.read() == b.read(), 'what qemu-img has read is what it had written')


def qemu_io(t, disk):
    script = ['write -P 0x5a 1M 64k', 'write -f -P 0x5b 2M 64k', 'flush', 'read -P 0x5a 1M 64k', 'write -z 1M 4k',
              'write -zu 1052672 4k', 'discard 2M 64k', 'read -P 0 1M 8k', 'read -P 0x5a 1056768 4k']
    args = [word for line in script for word in ('-c', line)]
    code, out = command('qemu-io', '-f', 'raw', *args, disk.uri)
    t.ok(code == 0 and 'failed' not in out, 'qemu-io: write, FUA, flush, zeroes, discard, read', why=out)
    code, out = command('qemu-io', '-f', 'raw', '-c', 'aio_write -q -P 1 0 1M', '-c', 'aio_write -q -P 2 1M 1M',
                        '-c', 'aio_read -q 3M 1M', '-c', 'aio_flush', '-c', 'read -P 2 1M 1M', disk.uri)
    t.ok(code == 0 and 'failed' not in out, 'qemu-io: several at once', why=out)


def nbdinfo(t, disk):
    code, out = command('nbdinfo', disk.uri)
    good = all(word in out for word in (
        'export-size: 67108864', 'can_flush: true', 'can_fua: true', 'can_trim: true', 'can_zero: true',
        'can_multi_conn: true', 'is_read_only: false', 'block_size_minimum: 4096', 'block_size_maximum: 33554432'))
    t.ok(code == 0 and good, 'nbdinfo: what it can', why=out)
    code, out = command('nbdinfo', '--list', disk.uri)
    t.ok(code == 0 and 'export=""' in out, 'nbdinfo --list', why=out)


# ---- the handshake -------------------------------------------------------------------------------

def haggle(t, disk):
    with Nbd(disk.path) as c:
        t.eq(c.greeting, b'NBDMAGICIHAVEOPT\0\3', 'the greeting: fixed newstyle, no zeroes')
        replies = c.option(nbd.OPT_LIST)
        t.eq(replies, [(nbd.REP_SERVER, b'\0\0\0\0'), (nbd.REP_ACK, b'')], 'LIST: one export without a name')
        t.eq(c.option(nbd.OPT_LIST, b'x')[0][0], nbd.ERR_INVALID, 'LIST with data')
        t.eq(c.meta(nbd.OPT_LIST_META)[0][0], nbd.ERR_INVALID, 'contexts need structured replies')
        t.eq(c.option(nbd.OPT_STARTTLS)[0][0], nbd.ERR_UNSUP, 'TLS is declined')
        t.eq(c.option(4711, b'abc')[0][0], nbd.ERR_UNSUP, 'and an option that nobody knows')
        t.eq(c.option(4711, bytes(100000))[0][0], nbd.ERR_TOO_BIG, 'one that is very long')
        t.eq(c.info(nbd.OPT_INFO, name=b'other'), nbd.ERR_UNKNOWN, 'INFO about an export that is not there')
        t.eq(c.option(nbd.OPT_GO, b'\0\0\0\5abc\0\0')[0][0], nbd.ERR_INVALID, 'GO whose name is longer than itself')
        t.eq(c.option(nbd.OPT_GO, b'\0\0')[0][0], nbd.ERR_INVALID, 'GO that is too short')
        t.eq(c.option(nbd.OPT_GO, b'\0\0\0\0\0\3\0\1')[0][0], nbd.ERR_INVALID, 'GO that counts wrong')
        t.eq(c.info(nbd.OPT_INFO, infos=(1, 2, 2, 3, 99)), nbd.REP_ACK, 'INFO')
        t.eq((c.size, c.infos[nbd.INFO_NAME], struct.unpack('>III', c.infos[nbd.INFO_BLOCK_SIZE])),
             (SIZE, b'', (4096, 4096, 32 * MIB)), 'INFO: size, name, block sizes')
        t.ok(b'namespace 1 of' in c.infos[nbd.INFO_DESCRIPTION], 'INFO: a description')
        t.eq(c.go().ask(nbd.READ, 0, 4096)[0], 0, 'GO after all of that')
    for flags, zeroes in ((1, 124), (3, 0)):
        with Nbd(disk.path, flags) as c:
            c.sock.sendall(struct.pack('>8sII', b'IHAVEOPT', nbd.OPT_EXPORT_NAME, 0))
            size = struct.unpack('>QH', c.recv(10))[0]
            t.eq((size, c.recv(zeroes)), (SIZE, bytes(zeroes)), 'EXPORT_NAME with %d zeroes' % zeroes)
            t.eq(c.ask(nbd.READ, 0, 4096)[0], 0, 'EXPORT_NAME: a read')
    with Nbd(disk.path) as c:
        t.eq(c.option(nbd.OPT_ABORT), [(nbd.REP_ACK, b'')], 'ABORT is acknowledged')
        t.ok(c.is_closed(), 'ABORT ends it')


def contexts(t, disk):
    """NBD doc/proto.md, "Metadata querying" """
    name = b'base:allocation'
    listed = [(nbd.REP_META, struct.pack('>I', 0) + name), (nbd.REP_ACK, b'')]
    with Nbd(disk.path) as c:
        t.eq(c.option(nbd.OPT_STRUCTURED, b'x')[0][0], nbd.ERR_INVALID, 'STRUCTURED_REPLY with data')
        t.eq(c.option(nbd.OPT_STRUCTURED), [(nbd.REP_ACK, b'')], 'STRUCTURED_REPLY')
        t.eq(c.meta(nbd.OPT_LIST_META), listed, 'LIST_META_CONTEXT of all')
        t.eq(c.meta(nbd.OPT_LIST_META, b'base:'), listed, 'of a namespace')
        t.eq(c.meta(nbd.OPT_LIST_META, b'qemu:', b'x'), [(nbd.REP_ACK, b'')], 'of others there are none')
        t.eq(c.meta(nbd.OPT_LIST_META, name=b'other')[0][0], nbd.ERR_UNKNOWN, 'of another export')
        t.eq(c.meta(nbd.OPT_SET_META, b'base:'), [(nbd.REP_ACK, b'')], 'SET_META_CONTEXT takes no namespace')
        t.eq(c.meta(nbd.OPT_SET_META, b'x', name), [(nbd.REP_META, struct.pack('>I', 1) + name), (nbd.REP_ACK, b'')],
             'but a name')
        for body in (b'', bytes(7), bytes(4) + b'\0\0\0\1', bytes(4) + b'\0\0\0\1\0\0\0\5abc', bytes(9),
                     b'\xff\xff\xff\xff' + bytes(8)):
            t.eq(c.option(nbd.OPT_SET_META, body)[0][0], nbd.ERR_INVALID, 'SET_META_CONTEXT that is cut: %r' % body)
        c.go()
        t.ok(c.flags & nbd.FLAG_DF, 'DF is offered')
        t.eq(c.ask_chunk(nbd.BLOCK_STATUS, 0, 4096), (nbd.CHUNK_ERROR, struct.pack('>IH', nbd.EINVAL, 0)),
             'a failed SET_META_CONTEXT has undone the one before')
    with disk.client() as c:
        t.ok(not c.flags & nbd.FLAG_DF, 'without structured replies there is no DF')
        t.eq(c.ask(nbd.BLOCK_STATUS, 0, 4096)[0], nbd.EINVAL, 'and no block status')


def chunks(t, disk):
    data = b'\1' + os.urandom(8191)
    with Nbd(disk.path) as c:
        c.structured()
        t.eq(c.ask(nbd.WRITE_ZEROES, 0, MIB)[0], 0, 'structured: Write Zeroes is answered simply')
        t.eq(c.ask(nbd.WRITE, 65536, data=data)[0], 0, 'structured: so is a write')
        t.eq(c.ask_chunk(nbd.READ, 65536 + 100, 5000), (nbd.CHUNK_DATA, struct.pack('>Q', 65636) + data[100:5100]),
             'structured: a read')
        t.eq(c.ask_chunk(nbd.READ, 0, 65536), (nbd.CHUNK_HOLE, struct.pack('>QI', 0, 65536)), 'a read of zeroes is a hole')
        t.eq(c.ask_chunk(nbd.READ, 0, 65537)[0], nbd.CHUNK_DATA, 'one byte that is none makes it data')
        t.eq(c.ask_chunk(nbd.READ, 0, 128 << 10, flags=nbd.DF)[0], nbd.CHUNK_DATA, 'DF: in one piece')
        t.eq(c.ask_chunk(nbd.READ, SIZE, 512), (nbd.CHUNK_ERROR, struct.pack('>IH', nbd.EINVAL, 0)), 'an error of a read')
        t.eq(c.ask_chunk(nbd.BLOCK_STATUS, SIZE, 512)[0], nbd.CHUNK_ERROR, 'a block status behind the end')
        t.eq(c.ask_chunk(nbd.BLOCK_STATUS, 0, 0)[0], nbd.CHUNK_ERROR, 'of nothing')
        t.eq(c.ask_chunk(nbd.BLOCK_STATUS, 0, 512, flags=nbd.DF)[0], nbd.CHUNK_ERROR, 'with DF')
        kinds = [c.send(nbd.READ, i * 4096, 4096) for i in range(16)] + [c.send(nbd.BLOCK_STATUS, 0, SIZE)]
        t.eq({c.chunk()[0] for _ in kinds}, set(kinds), 'several at once')


def holes(t, tgt):
    """A range reported as a hole is one; written blocks are data once the write is answered."""
    for nsid, what in ((1, 'memory'), (7, 'a file')):
        disk = Attach([tgt.port], nsid)
        with Nbd(disk.path) as c:
            c.structured()
            size = c.size
            t.eq(c.ask(nbd.TRIM, 0, size)[0], 0, what + ': trimmed')
            t.eq(c.extents(0, size), [(size, nbd.HOLE)], what + ': all hole')
            for i in (3, 4, 9):
                c.ask(nbd.WRITE, i * MIB, data=b'x' * 65536)
            exact = nsid == 7
            told = c.extents(0, 16 * MIB)
            t.ok(all(state_at(told, i * MIB) == state_at(told, i * MIB + 65535) == 0 for i in (3, 4, 9)) and
                 state_at(told, 14 * MIB) == nbd.HOLE, what + ': what was written is data', why=repr(told))
            t.eq(c.extents(3 * MIB, 8192), [(8192, 0)], what + ': within data')
            t.eq(len(c.extents(0, 16 * MIB, nbd.REQ_ONE)), 1, what + ': REQ_ONE')
            for i in range(64):
                c.ask(nbd.WRITE, 20 * MIB + i * 8192, data=b'y' * 4096)
                assert c.extents(20 * MIB + i * 8192, 4096) == [(4096, 0)], i
            many = c.extents(20 * MIB, 64 * 8192)
            t.eq(sum(length for length, _ in many), 64 * 8192, what + ': many')
            if exact:  # memory is allocated in huge pages
                t.eq(told, [(3 * MIB, 3), (65536, 0), (MIB - 65536, 3), (65536, 0), (5 * MIB - 65536, 3), (65536, 0),
                            (7 * MIB - 65536, 3)], 'a file: by the block')
                t.eq(c.extents(3 * MIB + 32768, 65536), [(32768, 0), (32768, 3)], 'a file: across the end of data')
                t.eq(len(many), 128, 'a file: every hole')
        if exact and has_tool(t, 'nbdinfo'):
            code, out = command('nbdinfo', '--map', disk.uri)
            lines = [line.split()[:3] for line in out.splitlines()]
            t.ok(code == 0 and lines[:3] == [['0', '3145728', '3'], ['3145728', '65536', '0'],
                                             ['3211264', '983040', '3']], what + ': nbdinfo --map', why=out)
        copies(t, tgt, disk, what)
        disk.finish(t, what)


def state_at(extents, offset):
    for length, state in extents:
        if offset < length:
            return state
        offset -= length
    return None


def copies(t, tgt, disk, what):
    image = os.path.join(disk.folder, 'copy')
    with disk.client() as c:
        want = c.ask(nbd.READ, 0, 32 * MIB)[1] + c.ask(nbd.READ, 32 * MIB, 32 * MIB)[1]
    for tool, argv in (('nbdcopy', ['nbdcopy', disk.uri, image]),
                       ('qemu-img', ['qemu-img', 'convert', '-f', 'raw', '-O', 'raw', disk.uri, image])):
        if not has_tool(t, tool):
            continue
        code, out = command(*argv)
        with open(image, 'rb') as file:
            t.ok(code == 0 and file.read() == want, '%s: %s copies it' % (what, tool), why=out)
        t.ok(os.stat(image).st_blocks * 512 < 8 * MIB, '%s: %s leaves the holes out' % (what, tool))
        os.unlink(image)


def haggle_badly(t, disk):
    for name, flags, data in (
            ('unknown client flags', 0x80, b''),
            ('an option with other magic', 3, b'IHAVEOPX' + bytes(8)),
            ('EXPORT_NAME of another export', 3, struct.pack('>8sII5s', b'IHAVEOPT', 1, 5, b'other')),
            ('EXPORT_NAME that is very long', 3, struct.pack('>8sII', b'IHAVEOPT', 1, 1 << 31))):
        with Nbd(disk.path, flags) as c:
            if data:
                c.sock.sendall(data)
            t.ok(c.is_closed(), name + ': closed')
    with disk.client() as c:
        c.sock.sendall(bytes(28))
        t.ok(c.is_closed(), 'a request with other magic: closed')
    with Nbd(disk.path) as c:
        c.sock.sendall(b'IHAVE')
    with disk.client() as c:
        t.eq(c.ask(nbd.READ, 0, 4096)[0], 0, 'the next client is served')
        for i in range(0, 16):
            c.sock.sendall(struct.pack('>IHHQQI', 0x25609513, 0, nbd.READ, 7, 0, 4096)[i:i + 1])
        c.sock.sendall(struct.pack('>IHHQQI', 0x25609513, 0, nbd.READ, 7, 0, 4096)[16:])
        t.eq(c.reply({7: 4096})[:2], (7, 0), 'a request that comes byte by byte')


# ---- requests ------------------------------------------------------------------------------------

def requests(t, disk):
    data = os.urandom(64 * 1024)
    zero = bytes(4096)
    with disk.client() as c, disk.client() as d:
        t.eq(c.ask(nbd.WRITE, 8192, data=data), (0, b''), 'WRITE')
        t.eq(c.ask(nbd.FLUSH), (0, b''), 'FLUSH')
        t.ok(d.ask(nbd.READ, 8192, len(data)) == (0, data), 'READ by another client')
        t.ok(c.ask(nbd.READ, 8192 + 513, 5000) == (0, data[513:5513]), 'READ that is not aligned')
        t.ok(c.ask(nbd.READ, 8191, 1)[0] == 0, 'READ of one byte')
        t.eq(c.ask(nbd.WRITE, 8192, data=data[:4096], flags=nbd.FUA)[0], 0, 'WRITE with FUA')
        t.eq(c.ask(nbd.READ, 8192, 4096, flags=nbd.FUA)[0], 0, 'READ with FUA, which means nothing')
        t.eq(c.ask(nbd.WRITE, 8192 + 512, data=bytes(4096))[0], nbd.EINVAL, 'WRITE that begins within a block')
        t.eq(c.ask(nbd.WRITE, 8192, data=bytes(512))[0], nbd.EINVAL, 'WRITE of less than a block')
        t.ok(c.ask(nbd.READ, 8192, len(data)) == (0, data), 'which have written nothing')
        t.eq(c.ask(nbd.WRITE_ZEROES, 8192, 4096)[0], 0, 'WRITE_ZEROES')
        t.eq(c.ask(nbd.WRITE_ZEROES, 12288, 4096, flags=nbd.NO_HOLE | nbd.FUA)[0], 0, 'WRITE_ZEROES, no hole, FUA')
        t.ok(c.ask(nbd.READ, 8192, 12288) == (0, zero + zero + data[8192:12288]), 'zeroes, and no more of them')
        t.eq(c.ask(nbd.TRIM, 16384, 4096)[0], 0, 'TRIM')
        t.eq(c.ask(nbd.TRIM, 20480, 4096, flags=nbd.FUA)[0], 0, 'TRIM with FUA')
        t.ok(c.ask(nbd.READ, 24576, 4096) == (0, data[16384:20480]), 'what was not trimmed is there')
        t.eq(c.ask(nbd.WRITE_ZEROES, 0, SIZE)[0], 0, 'WRITE_ZEROES of everything')
        t.ok(c.ask(nbd.READ, 8192, 32 * MIB) == (0, bytes(32 * MIB)), 'READ of 32 MiB')
        t.ok(c.disc(), 'DISC')
        t.eq(d.ask(nbd.READ, 0, 4096)[0], 0, 'the other client goes on')


def refused(t, disk):
    with disk.client() as c:
        for name, error, args in (
                ('READ past the end', nbd.EINVAL, dict(command=nbd.READ, offset=SIZE - 4096, length=8192)),
                ('READ behind the end', nbd.EINVAL, dict(command=nbd.READ, offset=SIZE, length=1)),
                ('READ whose end wraps', nbd.EINVAL, dict(command=nbd.READ, offset=2**64 - 4096, length=8192)),
                ('READ of nothing', nbd.EINVAL, dict(command=nbd.READ)),
                ('READ of more than 32 MiB', nbd.EINVAL, dict(command=nbd.READ, length=32 * MIB + 1)),
                ('WRITE past the end', nbd.ENOSPC, dict(command=nbd.WRITE, offset=SIZE - 4096, data=bytes(8192))),
                ('WRITE of more than 32 MiB', nbd.EINVAL, dict(command=nbd.WRITE, data=bytes(32 * MIB + 4096))),
                ('WRITE_ZEROES past the end', nbd.ENOSPC,
                 dict(command=nbd.WRITE_ZEROES, offset=SIZE, length=4096)),
                ('TRIM past the end', nbd.EINVAL, dict(command=nbd.TRIM, offset=SIZE - 4096, length=8192)),
                ('TRIM that is not aligned', nbd.EINVAL, dict(command=nbd.TRIM, offset=1, length=4096)),
                ('a command that nobody knows', nbd.EINVAL, dict(command=4711)),
                ('CACHE', nbd.EINVAL, dict(command=nbd.CACHE, length=4096)),
                ('READ with DF', nbd.EINVAL, dict(command=nbd.READ, length=4096, flags=nbd.DF)),
                ('WRITE with NO_HOLE', nbd.EINVAL, dict(command=nbd.WRITE, data=bytes(4096), flags=nbd.NO_HOLE))):
            t.eq(c.ask(**args)[0], error, name)
        t.eq(c.ask(nbd.READ, 0, 4096)[0], 0, 'and the connection is as good as before')


def read_all(client, lengths, check):
    """Receives the replies to all of these reads, in any order."""
    good = True
    while lengths:
        cookie, error, data = client.reply(lengths)
        good = good and error == 0 and check(cookie, data)
        del lengths[cookie]
    return good


def many(t, disk):
    data = os.urandom(4 * MIB)
    with disk.client() as c:
        cookies = {c.send(nbd.WRITE, i, data=data[i:i + 65536]) for i in range(0, len(data), 65536)}
        t.eq({c.reply()[:2] for _ in range(64)}, {(cookie, 0) for cookie in cookies}, '64 writes in flight')
        # More than the server accepts at once: the client must receive the replies meanwhile.
        first = c.cookie + 1
        at = {first + i: i * 4096 for i in range(1024)}
        sender = threading.Thread(target=lambda: [c.send(nbd.READ, at[cookie], 4096) for cookie in at])
        sender.start()
        t.ok(read_all(c, dict.fromkeys(at, 4096), lambda k, got: got == data[at[k]:at[k] + 4096]),
             '1024 reads one behind the other: each gets its own')
        sender.join()
        large = [c.send(nbd.READ, 0, 24 * MIB) for _ in range(6)]
        t.ok(read_all(c, dict.fromkeys(large, 24 * MIB), lambda _, got: got[:len(data)] == data),
             'six reads of 24 MiB, more than one client may have under way')


def peak_kib(process):
    with open('/proc/%d/status' % process.pid) as file:
        return next(int(line.split()[1]) for line in file if line.startswith('VmHWM'))


def rude(t, disk):
    """Clients that disconnect in the middle, or never receive."""
    with disk.client() as deaf, disk.client() as c:
        deaf.sock.settimeout(0.2)
        sent = 0
        try:
            for sent in range(20000):
                deaf.send(nbd.READ, 0, MIB)
        except (socket.timeout, BlockingIOError):
            pass
        t.ok(sent < 19999, 'who does not read is not read from')
        t.eq(c.ask(nbd.READ, 0, 4096)[0], 0, 'and the others do not wait for it')
    with disk.client() as c:
        c.sock.sendall(struct.pack('>IHHQQI', 0x25609513, 0, nbd.WRITE, 1, 0, MIB) + bytes(1000))
    with disk.client() as c:
        for i in range(64):
            c.send(nbd.READ, i * MIB % SIZE, MIB)
    with disk.client() as c:
        t.eq(c.ask(nbd.READ, 0, 4096)[0], 0, 'after clients that went away in the middle')
    clients = [disk.client() for _ in range(CLIENTS_MAX)]
    late = socket.socket(socket.AF_UNIX)
    late.settimeout(0.2)
    late.connect(disk.path)
    try:
        heard = late.recv(1)
    except socket.timeout:
        heard = None
    t.eq(heard, None, 'the 17th client waits')
    clients.pop().sock.close()
    late.settimeout(nbd.TIMEOUT_S)
    t.eq(late.recv(8), b'NBDMAGIC', 'until one has left')
    late.close()
    for client in clients:
        client.sock.close()
    # One client's 32 MiB at a time, and the slots' buffers: memory does not grow with the requests.
    t.ok(peak_kib(disk.process) < 400 * 1024, 'memory is bounded', why='%d KiB' % peak_kib(disk.process))


def bounded(t, tgt):
    """An unaligned read counts with all the blocks that it touches."""
    disk = Attach([tgt.port], 1)
    with disk.client() as c:
        cookies = dict.fromkeys((c.send(nbd.READ, 1, 32 * MIB) for _ in range(24)), 32 * MIB)
        t.ok(read_all(c, cookies, lambda _, got: len(got) == 32 * MIB), '24 reads of 32 MiB that are not aligned')
    t.ok(peak_kib(disk.process) < 400 * 1024, 'in bounded memory', why='%d KiB' % peak_kib(disk.process))
    disk.finish(t, 'bounded')


def run_ns(process):
    """CPU time of its main thread."""
    with open('/proc/%d/schedstat' % process.pid) as file:
        return int(file.read().split()[0])


def without_descriptors(t, tgt):
    disk = Attach([tgt.port], 1)
    first = disk.client()
    limits = resource.prlimit(disk.process.pid, resource.RLIMIT_NOFILE)
    taken = max(int(fd) for fd in os.listdir('/proc/%d/fd' % disk.process.pid)) + 1
    resource.prlimit(disk.process.pid, resource.RLIMIT_NOFILE, (taken, limits[1]))
    late = socket.socket(socket.AF_UNIX)
    late.settimeout(nbd.TIMEOUT_S)
    late.connect(disk.path)
    t.ok(target.poll(lambda: 'cannot accept a client' in disk.errors()), 'no descriptor for a client: told',
         why=disk.errors())
    before, begin = run_ns(disk.process), time.monotonic()
    target.poll(lambda: time.monotonic() > begin + 1.5)
    spent = (run_ns(disk.process) - before) / 1e9
    t.ok(spent < 0.3, 'waiting for one costs no CPU time', why='%.2f s of 1.5 s' % spent)
    t.eq(disk.errors().count('cannot accept'), 1, 'and is told once')
    t.eq(first.ask(nbd.READ, 0, 4096)[0], 0, 'others are served meanwhile')
    resource.prlimit(disk.process.pid, resource.RLIMIT_NOFILE, limits)
    t.eq(late.recv(8), b'NBDMAGIC', 'then it is accepted')
    late.close()
    first.sock.close()
    disk.finish(t, 'without descriptors')


# ---- other namespaces ----------------------------------------------------------------------------

def read_only(t, tgt):
    for nsid, args in ((3, ()), (1, ('--read-only',))):
        disk = Attach([tgt.port], nsid, *args)
        with disk.client() as c:
            t.ok(c.flags & nbd.FLAG_READ_ONLY and not c.flags & (nbd.FLAG_TRIM | nbd.FLAG_ZEROES),
                 'read-only: told', why=hex(c.flags))
            t.eq([c.ask(nbd.WRITE, data=bytes(4096))[0], c.ask(nbd.TRIM, length=4096)[0],
                  c.ask(nbd.WRITE_ZEROES, length=4096)[0], c.ask(nbd.READ, length=4096)[0]],
                 [nbd.EPERM] * 3 + [0], 'read-only: refused')
        disk.finish(t, 'read-only')


def named(t, tgt):
    disk = Attach([tgt.port], 2, '--export', 'disk')
    with Nbd(disk.path) as c:
        t.eq(c.option(nbd.OPT_LIST)[0], (nbd.REP_SERVER, b'\0\0\0\4disk'), '--export: listed')
        t.eq(c.info(nbd.OPT_GO), nbd.ERR_UNKNOWN, '--export: without its name there is none')
        t.eq(c.go(name=b'disk', infos=(nbd.INFO_NAME,)).infos[nbd.INFO_NAME], b'disk', '--export: by its name')
        t.eq(c.ask(nbd.WRITE, 512, data=bytes(512))[0], 0, 'blocks of 512 bytes')
    t.ok('nbd+unix:///disk?socket=' in disk.out, '--export: how to connect', why=disk.out)
    disk.finish(t, 'named')


def reaches_medium(t, tgt):
    disk = Attach([tgt.port], 4)
    with disk.client() as c:
        t.eq(c.ask(nbd.WRITE, data=bytes(4096))[0], 0, 'a medium that cannot sync: a write')
        t.eq(c.ask(nbd.WRITE, data=bytes(4096), flags=nbd.FUA)[0], nbd.EIO, 'with FUA it fails')
        t.eq(c.ask(nbd.FLUSH)[0], nbd.EIO, 'and so does a flush')
        t.eq(c.ask(nbd.TRIM, length=4096)[0], 0, 'a trim')
        t.eq(c.ask(nbd.TRIM, length=4096, flags=nbd.FUA)[0], nbd.EIO, 'with FUA it fails')
    disk.finish(t, 'faults')


def grows(t, tgt):
    disk = Attach([tgt.port], 5)
    with disk.client() as c:
        old = c.size
        code, out = command(target.weft_path(), 'ctl', '--state', os.path.join(tgt.folder, 'state'),
                            'ns', 'resize', target.NQN, '5', '16M')
        t.ok(code == 0, 'weft ctl ns resize', why=out)

        def new_size():
            with disk.client() as other:
                return other.size == 16 * MIB
        t.ok(target.poll(new_size), 'a new client is told the new size')
        t.eq((c.size, c.ask(nbd.READ, old, 4096)[0]), (old, nbd.EINVAL), 'an old one keeps its own')
    with disk.client() as c:
        t.eq(c.ask(nbd.WRITE, 16 * MIB - 4096, data=bytes(4096))[0], 0, 'the new end can be written')
    disk.finish(t, 'growth')


def format_ns(tgt, nsid, lbaf):
    """Another host sends Format NVM, data kept (SES 0)."""
    with tgt.host() as host:
        return host.admin.do(0x80, nsid=nsid, cdw10=lbaf).status


def block_changes(t, tgt):
    """A client's requests are executed only with the block size that the client was given."""
    old = b'\x5a' * SMALL
    disk = Attach([tgt.port], 6)
    for tries, (lbaf, block) in enumerate(((1, 4096), (0, 512), (1, 4096), (0, 512))):
        with disk.client() as c, disk.client() as idle, Nbd(disk.path) as shaking:
            t.eq(c.ask(nbd.WRITE, data=old)[0], 0, 'all of it is written')
            t.eq(format_ns(tgt, 6, lbaf), n.OK, 'formatted with blocks of %d bytes' % block)
            # Whenever the server learns of the format: a request is done as it was meant, or not at all.
            said = set()
            try:
                for command in (nbd.TRIM, nbd.WRITE_ZEROES) * 2:
                    said.add(c.ask(command, MIB, 4096)[0])
                    said.add(c.ask(nbd.READ, MIB, 4096)[0])
                t.ok(target.poll(c.is_closed), 'the client is disconnected')
            except (EOFError, ConnectionResetError, BrokenPipeError):
                pass
            t.ok(said <= {0, nbd.EIO, nbd.EINVAL, nbd.ESHUTDOWN}, 'its requests end', why=repr(said))
            t.ok(idle.is_closed(), 'so is one that asks for nothing')
            t.ok(shaking.is_closed(), 'so is one that shakes hands')
        with disk.client(infos=(nbd.INFO_BLOCK_SIZE,)) as c:
            told = struct.unpack('>III', c.infos[nbd.INFO_BLOCK_SIZE])[0]
            t.eq((told, c.size), (block, SMALL), 'the next client is told the new block size')
            data = c.ask(nbd.READ, 0, SMALL)[1]
            wrong = [i for i in range(0, SMALL, 4096) if i != MIB and data[i:i + 4096] != old[:4096]]
            t.eq(wrong, [], 'nothing but what was named is erased, round %d' % tries)
            t.eq(c.ask(nbd.TRIM, 2 * MIB, 4096)[0], 0, 'and it can trim')
    t.ok('has changed' in disk.errors(), 'it is told of', why=disk.errors())
    disk.finish(t, 'block size')


def block_changes_under_load(t, tgt):
    """Requests in flight when the format changed are not executed with the new block size."""
    old = b'\x5a' * SMALL
    relay = Relay(tgt.port)
    disk = Attach([tgt.port, relay.port], 6, '--policy', 'round-robin')
    wrong = set()
    for lbaf in (1, 0) * 4:
        with disk.client() as c:
            assert c.ask(nbd.WRITE, data=old)[0] == 0

            def hammer():
                try:
                    while True:
                        for i in range(32):
                            c.send((nbd.TRIM, nbd.WRITE_ZEROES)[i % 2], MIB, 4096)
                        for _ in range(32):
                            c.reply()
                except (EOFError, ConnectionResetError, BrokenPipeError):
                    pass
            thread = threading.Thread(target=hammer)
            thread.start()
            t.eq(format_ns(tgt, 6, lbaf), n.OK, 'formatted under load')
            thread.join()
        with disk.client() as c:
            data = c.ask(nbd.READ, 0, SMALL)[1]
            wrong |= {i for i in range(0, SMALL, 4096) if i != MIB and data[i:i + 4096] != old[:4096]}
    t.eq(wrong, set(), 'no block is erased that no request named')
    disk.finish(t, 'block size under load')
    relay.cut()


def replace_ns(t, tgt, nsid, media):
    """The operator removes the namespace and adds another one with its NSID."""
    for args in (('remove', target.NQN, str(nsid)), ('add', target.NQN, '--nsid', str(nsid), '--media', media)):
        code, out = command(target.weft_path(), 'ctl', '--state', os.path.join(tgt.folder, 'state'), 'namespace', *args)
        t.ok(code == 0, 'weft ctl namespace ' + args[0], why=out)


def is_served(disk):
    try:
        with disk.client():
            return True
    except (EOFError, ConnectionError):
        return False


def replaced(t, tgt):
    """Another namespace with the same NSID is never read or written through this export."""
    for block in (4096, 512):
        replace_ns(t, tgt, 8, 'mem:8M,block=4096')
        disk = Attach([tgt.port], 8)
        with disk.client() as c:
            t.eq(c.ask(nbd.WRITE, 0, data=b'\x5a' * MIB)[0], 0, 'the namespace that was attached is written')
            replace_ns(t, tgt, 8, 'mem:8M,block=%d' % block)
            what = 'replaced by one with blocks of %d bytes' % block
            told = 'namespace 8 was replaced by another namespace; run weft attach again to use the new one'
            t.ok(target.poll(lambda: told in disk.errors()), what + ': it is told', why=disk.errors())
            said = set()
            try:
                for _ in range(20):
                    said.add(c.ask(nbd.WRITE, MIB, data=b'\x77' * 4096)[0])
                    said.add(c.ask(nbd.READ, 0, 4096)[0])
            except (EOFError, ConnectionResetError, BrokenPipeError):
                pass
            t.ok(said <= {nbd.EIO, nbd.ESHUTDOWN}, what + ': no request is done', why=repr(said))
        t.eq([is_served(disk) for _ in range(3)], [False] * 3, what + ': a new client is not served')
        t.eq(disk.errors().count(told), 1, what + ': it is told once')
        with tgt.host() as host:
            found = bytes(host.queue().read(8, MIB // block, 4096 // block, block).data)
            t.eq(found, bytes(4096), what + ': nothing is written into that one')
        disk.finish(t, what)


def fails_over(t, tgt):
    relay = Relay(tgt.port)
    disk = Attach([relay.port, tgt.port], 2, '--policy', 'round-robin')
    data = os.urandom(4 * MIB)
    with disk.client() as c:
        cookies = {c.send(nbd.WRITE, i, data=data[i:i + 32768]) for i in range(0, len(data), 32768)}
        relay.cut()
        t.eq({c.reply()[:2] for _ in cookies}, {(cookie, 0) for cookie in cookies}, 'a path is lost: no write fails')
        t.ok(c.ask(nbd.READ, 0, len(data)) == (0, data), 'and every one is there')
    t.ok('127.0.0.1:%d' % relay.port in disk.errors(), 'the lost path is told of', why=disk.errors())
    disk.finish(t, 'failover')


def changes_group(t, tgt):
    """The namespace moves to another ANA group under a connected host, which uses the new group."""
    second = target.free_port()

    def ctl(*words):
        code, out = command(target.weft_path(), 'ctl', '--state', os.path.join(tgt.folder, 'state'), *words)
        t.ok(code == 0, 'weft ctl ' + ' '.join(words[:2] + words[3:]), why=out)

    ctl('port', 'add', '--id', '2', '--address', '127.0.0.1', '--service', str(second))
    for port, group in (('1', '2'), ('2', '1')):
        ctl('ana', 'set', port, group, 'inaccessible')
    disk = Attach([tgt.port, second], 8)

    def writes(client, what):
        begin = time.monotonic()
        errors = [client.ask(nbd.WRITE, i * 4096, data=bytes(4096))[0] for i in range(8)]
        t.ok(errors == [0] * 8 and time.monotonic() - begin < 5, what, why='%s, %.1f s; %s' % (
            errors, time.monotonic() - begin, disk.errors()))

    with disk.client() as c:
        writes(c, 'group 1, by the first port')
        ctl('ns', 'set', target.NQN, '8', '--ana-group', '2')
        writes(c, 'group 2, by the second one')
        ctl('ns', 'set', target.NQN, '8', '--ana-group', '3')
        writes(c, 'group 3, which is optimized on both')
        ctl('ana', 'set', '1', '1', 'inaccessible')
        ctl('ana', 'set', '2', '2', 'inaccessible')
        writes(c, 'the groups that it has left are inaccessible on both')
    t.ok('namespace 8 ' in disk.errors(), 'the moves are told of', why=disk.errors())
    disk.finish(t, 'groups')
    for port, group in (('1', '1'), ('1', '2'), ('2', '1'), ('2', '2')):
        ctl('ana', 'set', port, group, 'optimized')
    ctl('port', 'remove', '2')


# ---- its beginning and end -----------------------------------------------------------------------

def ends(t, tgt):
    disk = Attach([tgt.port], 2)
    t.eq(stat.S_IMODE(os.stat(disk.path).st_mode), 0o600, 'the socket is for its owner alone')
    with disk.client() as c:
        cookies = {c.send(nbd.WRITE, i, data=bytes(32768)) for i in range(0, MIB, 32768)}
        first = c.reply()[0]
        disk.process.send_signal(signal.SIGINT)
        answered = {first}
        try:
            while True:
                answered.add(c.reply()[0])
        except (EOFError, ConnectionResetError):
            pass  # a reset when requests were left unread
        t.ok(answered <= cookies, 'SIGINT: what was begun is answered, then it is over')
    t.eq(disk.process.wait(30), 0, 'SIGINT: status 0')
    disk.finish(t, 'end')


def takes_over(t, tgt):
    """A successor takes the socket's path while the former server still ends: the path stays the successor's."""
    relay = Relay(tgt.port)
    disk = Attach([relay.port], 2)
    with disk.client() as c:
        relay.freeze()
        c.send(nbd.WRITE, 0, data=bytes(32768))
        t.ok(target.poll(c.is_read, 30), 'a write is begun')
        disk.process.send_signal(signal.SIGTERM)
        t.ok(target.poll(lambda: not os.path.exists(disk.path), 30), 'SIGTERM: the name is free')
        successor = Attach([tgt.port], 2, socket_path=disk.path)
        t.ok('Connect with' in successor.out, 'a successor takes it', why=successor.errors())
        disk.process.send_signal(signal.SIGTERM)
        t.eq(disk.process.wait(30), 1, 'a second SIGTERM ends the former one at once')
        with successor.client() as other:
            t.eq(other.ask(nbd.READ, 0, 4096)[0], 0, 'the successor is still reached')
    relay.cut()
    os.unlink(successor.path)
    third = Attach([tgt.port], 2, socket_path=successor.path)
    t.eq(successor.end(), 0, 'one whose name was taken away ends')
    with third.client() as other:
        t.eq(other.ask(nbd.READ, 0, 4096)[0], 0, 'and leaves the name to who has it now')
    third.finish(t, 'the third')
    for folder in (disk.folder, successor.folder):
        shutil.rmtree(folder, ignore_errors=True)


def refusals(t, tgt):
    folder = tempfile.mkdtemp(prefix='weft-attach-')
    path = os.path.join(folder, 'nbd.sock')
    weft = target.weft_path()
    base = [weft, 'attach', '--path', '127.0.0.1:%d' % tgt.port, '-n', target.NQN]
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(path)
    dead.close()
    disk = Attach([tgt.port], 1, socket_path=path)
    t.ok('Connect with' in disk.out, 'a socket that nobody answers is replaced', why=disk.errors())
    code, out = command(*base, '--nsid', '1', '--nbd', path)
    t.ok(code == 1 and 'another process listens' in out, 'one with a listener is not', why=out)
    disk.finish(t, 'replaced')
    with open(path, 'w'):
        pass
    code, out = command(*base, '--nsid', '1', '--nbd', path)
    t.ok(code == 1 and 'not a socket' in out, 'nor is a file', why=out)
    url = 'nvme://127.0.0.1:%d/%s/9' % (tgt.port, target.NQN)
    for name, want, words, args in (
            ('no namespace 9', 1, 'no namespace 9', [url, '--nbd', path + '2']),
            ('several namespaces', 1, 'choose one with --nsid', base[2:] + ['--nbd', path + '2']),
            ('nobody listens', 1, 'refused', ['--path', '127.0.0.1:%d' % target.free_port(), '--nbd', path]),
            ('neither NBD nor ublk', 2, 'either --nbd SOCKET or --ublk', ['--nsid', '1']),
            ('both', 2, 'either --nbd SOCKET or --ublk', ['--nbd', path, '--ublk']),
            ('URL and flags', 2, 'not by both', [url, '--nsid', '1', '--nbd', path]),
            ('a wrong URL', 2, 'names no namespace', ['nvme://127.0.0.1', '--nbd', path]),
            ('a wrong NSID', 2, 'not a namespace identifier', ['--nsid', '0', '--nbd', path]),
            ('a wrong policy', 1, 'no policy', ['--policy', 'best', '--nbd', path]),
            ('a wrong time-out', 1, 'nonsense', ['--set', 'nonsense=1', '--nbd', path])):
        code, out = command(weft, 'attach', *args)
        t.ok(code == want and words in out, name, why='status %d\n%s' % (code, out))
    # A port that accepts and never answers.
    silent = socket.create_server(('127.0.0.1', 0))
    process = subprocess.Popen([weft, 'attach', '--path', '127.0.0.1:%d' % silent.getsockname()[1], '--nbd', path + '3'],
                               stderr=subprocess.DEVNULL)
    peer = silent.accept()[0]
    peer.recv(1)
    process.send_signal(signal.SIGINT)
    t.eq(process.wait(30), -signal.SIGINT, 'SIGINT while it connects')
    peer.close()
    silent.close()
    code, out = command(weft, 'attach', '--help')
    t.ok(code == 0 and '--nbd' in out and '--ublk' in out, '--help', why=out)
    if not os.path.exists('/dev/ublk-control'):
        code, out = command(*base, '--nsid', '1', '--ublk')
        t.ok(code == 1 and 'modprobe ublk_drv' in out and '--nbd' in out, 'no ublk: says what to do', why=out)
    shutil.rmtree(folder)


def test(t, tgt):
    disk = Attach([tgt.port], 1)
    for tool, part in (('qemu-img', qemu), ('qemu-io', qemu_io), ('nbdinfo', nbdinfo)):
        with t.guard(part.__name__):
            if has_tool(t, tool):
                part(t, disk)
    for part in (haggle, contexts, haggle_badly, chunks, requests, refused, many, rude):
        with t.guard(part.__name__):
            part(t, disk)
    disk.finish(t, 'attach')
    for part in (holes, bounded, without_descriptors, read_only, named, reaches_medium, grows, block_changes,
                 block_changes_under_load, replaced, fails_over, changes_group, ends, takes_over, refusals):
        with t.guard(part.__name__):
            part(t, tgt)


if __name__ == '__main__':
    with tempfile.TemporaryDirectory(prefix='weft-attach-') as FOLDER:
        target.run(Tap(), test, rights=target.ALL_RIGHTS, namespaces=[
            target.namespace(1, 'mem:64M,block=4096'),
            target.namespace(2, 'mem:8M,block=512'),
            target.namespace(3, 'mem:1M,block=4096', read_only=True),
            target.namespace(4, 'fault:fail:op=fua+fail:op=flush@file:%s/faulty.img,size=1M' % FOLDER),
            target.namespace(5, 'file:%s/grows.img,size=8M' % FOLDER),
            target.namespace(6, 'file:%s/formatted.img,size=16M,block=512' % FOLDER),
            target.namespace(7, 'file:%s/sparse.img,size=64M' % FOLDER),
            target.namespace(8, 'mem:8M,block=4096'),
        ])
