# SPDX-License-Identifier: Apache-2.0
"""A small NBD client that can also say what no real client says (the NBD project's doc/proto.md)."""

import socket
import struct

TIMEOUT_S = 30.0

READ, WRITE, DISC, FLUSH, TRIM, CACHE, WRITE_ZEROES = range(7)
FUA, NO_HOLE, DF = 1, 2, 4
EPERM, EIO, EINVAL, ENOSPC, ESHUTDOWN = 1, 5, 22, 28, 108

OPT_EXPORT_NAME, OPT_ABORT, OPT_LIST, OPT_STARTTLS, OPT_INFO, OPT_GO, OPT_STRUCTURED = 1, 2, 3, 5, 6, 7, 8
REP_ACK, REP_SERVER, REP_INFO = 1, 2, 3
ERR_UNSUP, ERR_INVALID, ERR_UNKNOWN, ERR_TOO_BIG = (0x80000000 + n for n in (1, 3, 6, 9))
INFO_EXPORT, INFO_NAME, INFO_DESCRIPTION, INFO_BLOCK_SIZE = range(4)

FLAG_READ_ONLY, FLAG_FLUSH, FLAG_FUA, FLAG_TRIM, FLAG_ZEROES, FLAG_MULTI = (1 << n for n in (1, 2, 3, 5, 6, 8))


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
        """Sends one; what comes back up to the last reply, as (type, body)."""
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

    def send(self, command, offset=0, length=0, data=b'', flags=0):
        self.cookie += 1
        self.sock.sendall(struct.pack('>IHHQQI', 0x25609513, flags, command, self.cookie, offset,
                                      length or len(data)) + data)
        return self.cookie

    def reply(self, lengths=None):
        """(cookie, error, data); lengths: of the reads that are under way, by cookie."""
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

    def disc(self):
        self.send(DISC)
        return self.is_closed()
