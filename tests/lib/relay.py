# SPDX-License-Identifier: Apache-2.0
"""A TCP relay between host and target: a path that a test can cut."""

import os
import select
import socket
import threading


class Relay(threading.Thread):
    """Relays TCP between host and target until cut: then every connection is reset at once."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.upstream = port
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.port = self.listener.getsockname()[1]
        self.wake_in, self.wake_out = os.pipe()
        self.has_frozen = threading.Event()
        self.start()

    def run(self):
        peer = {}
        is_frozen = False
        while True:
            ready = select.select([self.wake_in] if is_frozen else [self.listener, self.wake_in, *peer], [], [])[0]
            if self.wake_in in ready:
                is_frozen = os.read(self.wake_in, 1) == b'f'
                if is_frozen:
                    self.has_frozen.set()
                    continue
                break
            for sock in ready:
                if sock is self.listener:
                    near = sock.accept()[0]
                    far = socket.create_connection(('127.0.0.1', self.upstream))
                    peer[near], peer[far] = far, near
                elif sock in peer:
                    self.move(peer, sock)
        self.listener.close()
        for sock in peer:
            # Linger of 0 s: a reset.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b'\1\0\0\0\0\0\0\0')
            sock.close()

    @staticmethod
    def move(peer, sock):
        try:
            data = sock.recv(1 << 16)
            if data:
                peer[sock].sendall(data)
                return
        except OSError:
            pass
        other = peer.pop(sock)
        peer.pop(other, None)
        sock.close()
        other.close()

    def freeze(self):
        """Forwards nothing from now on."""
        os.write(self.wake_out, b'f')
        self.has_frozen.wait()

    def cut(self):
        os.write(self.wake_out, b'x')
        self.join()
