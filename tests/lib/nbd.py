# SPDX-License-Identifier: Apache-2.0
"""A small NBD client that can also send what no real client sends (the NBD project's doc/proto.md)."""

import fcntl
import socket
import struct
import termios

TIMEOUT_S = 30.0

READ, WRITE, DISC, FLUSH, TRIM, CACHE, WRITE_ZEROES, BLOCK_STATUS = range(8)
FUA, NO_HOLE, DF, REQ_ONE = 1, 2, 4, 8
CHUNK_DATA, CHUNK_HOLE, CHUNK_STATUS, CHUNK_ERROR = 1, 2, 5, 0x8001
HOLE = 3  # base:allocation: a hole that reads as zeroes
EPERM, EIO, EINVAL, ENOSPC, ESHUTDOWN = 1, 5, 22, 28, 108

OPT_EXPORT_NAME, OPT_ABORT, OPT_LIST, OPT_STARTTLS, OPT_INFO, OPT_GO, OPT_STRUCTURED = 1, 2, 3, 5, 6, 7, 8
OPT_LIST_META, OPT_SET_META = 9, 10
REP_ACK, REP_SERVER, REP_INFO, REP_META = 1, 2, 3, 4
ERR_UNSUP, ERR_INVALID, ERR_UNKNOWN, ERR_TOO_BIG = (0x80000000 + n for n in (1, 3, 6, 9))
INFO_EXPORT, INFO_NAME, INFO_DESCRIPTION, INFO_BLOCK_SIZE = range(4)

FLAG_READ_ONLY, FLAG_FLUSH, FLAG_FUA, FLAG_TRIM, FLAG_ZEROES, FLAG_DF, FLAG_MULTI = (
    1 << n for n in (1, 2, 3, 5, 6, 7, 8))


class Nbd:
    def __init__(self, path, flags=3):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(TIMEOUT_S)
        self.sock.connect(path)
        self.size = None
        self.flags = None
        self.infos = {}
        self.cookie = 0
        self.greeting = self.recv(18)
        if flags is not None:
            self.sock.sendall(struct.pack('>I', flags))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def recv(self, length):
        parts = bytearray()
        while len(parts) < length:
            part = self.sock.recv(length - len(parts))
            if not part:
                raise EOFError('the server closed after %d of %d bytes' % (len(parts), length))
            parts += part
        return bytes(parts)

    def is_closed(self):
        try:
            return self.sock.recv(1) == b''
        except ConnectionResetError:
            return True

    # ---- haggling

    def option(self, option, body=b'', length=None):
        """Sends an option; returns its replies up to the last one, as (type, body)."""
        length = len(body) if length is None else length
        self.sock.sendall(struct.pack('>8sII', b'IHAVEOPT', option, length) + body)
        return self.option_replies(option)

    def option_replies(self, option):
        replies = []
        while True:
            magic, about, kind, length = struct.unpack('>QIII', self.recv(20))
            assert magic == 0x3e889045565a9 and about == option, (magic, about)
            replies.append((kind, self.recv(length)))
            if kind == REP_ACK or kind & 0x80000000:
                return replies

    def info(self, option, name=b'', infos=()):
        body = struct.pack('>I', len(name)) + name + struct.pack('>H', len(infos))
        replies = self.option(option, body + b''.join(struct.pack('>H', i) for i in infos))
        for kind, text in replies:
            if kind == REP_INFO:
                self.infos[struct.unpack('>H', text[:2])[0]] = text[2:]
        if INFO_EXPORT in self.infos:
            self.size, self.flags = struct.unpack('>QH', self.infos[INFO_EXPORT])
        return replies[-1][0]

    def go(self, **kwargs):
        assert self.info(OPT_GO, **kwargs) == REP_ACK
        return self

    # ---- requests

    def is_read(self):
        """True when the server has read everything sent (Unix socket only)."""
        return fcntl.ioctl(self.sock, termios.TIOCOUTQ, bytes(4)) == bytes(4)

    def send(self, command, offset=0, length=0, data=b'', flags=0):
        self.cookie += 1
        self.sock.sendall(struct.pack('>IHHQQI', 0x25609513, flags, command, self.cookie, offset,
                                      length or len(data)) + data)
        return self.cookie

    def reply(self, lengths=None):
        """(cookie, error, data); lengths: of the reads in flight, by cookie."""
        magic, error, cookie = struct.unpack('>IIQ', self.recv(16))
        assert magic == 0x67446698, hex(magic)
        length = (lengths or {}).get(cookie, 0)
        return cookie, error, self.recv(length) if length and not error else b''

    def ask(self, command, offset=0, length=0, data=b'', flags=0):
        """One request and its reply: (error, data)."""
        cookie = self.send(command, offset, length, data, flags)
        got, error, answer = self.reply({cookie: length} if command == READ else None)
        assert got == cookie, (got, cookie)
        return error, answer

    # ---- structured replies

    def meta(self, option, *queries, name=b''):
        body = struct.pack('>I', len(name)) + name + struct.pack('>I', len(queries))
        return self.option(option, body + b''.join(struct.pack('>I', len(q)) + q for q in queries))

    def structured(self):
        """Negotiates structured replies and base:allocation; returns itself, ready for requests."""
        assert self.option(OPT_STRUCTURED) == [(REP_ACK, b'')]
        assert self.meta(OPT_SET_META, b'base:allocation')[-1] == (REP_ACK, b'')
        return self.go()

    def chunk(self):
        """(cookie, type, payload) of one chunk, which must be the last of its reply."""
        magic, flags, kind, cookie, length = struct.unpack('>IHHQI', self.recv(20))
        assert (magic, flags) == (0x668e33ef, 1), (hex(magic), flags)
        return cookie, kind, self.recv(length)

    def ask_chunk(self, command, offset=0, length=0, flags=0):
        cookie = self.send(command, offset, length, flags=flags)
        got, kind, payload = self.chunk()
        assert got == cookie, (got, cookie)
        return kind, payload

    def extents(self, offset, length, flags=0):
        kind, payload = self.ask_chunk(BLOCK_STATUS, offset, length, flags)
        assert kind == CHUNK_STATUS and payload[:4] == struct.pack('>I', 1), (kind, payload[:16])
        return list(struct.iter_unpack('>II', payload[4:]))

    def disc(self):
        self.send(DISC)
        return self.is_closed()
