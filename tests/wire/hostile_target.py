# SPDX-License-Identifier: Apache-2.0
"""A proxy between a host and a live target that changes the target's answers, to test how the host side
treats a hostile target.
"""

import socket
import threading

import nvmetcp as n

CAPSULE_CMD = 4


class HostileTarget(threading.Thread):
    """
    Relays to a live target; `spoil` changes the answers. `spoil` gets each C2HData PDU and (opcode, CNS or
    LID).
    """

    def __init__(self, address, spoil):
        super().__init__(daemon=True)
        self.address = address
        self.spoil = spoil
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.port = self.listener.getsockname()[1]
        self.start()

    def run(self):
        while True:
            host, _ = self.listener.accept()
            upstream = socket.create_connection(self.address)
            asked = {}
            threading.Thread(target=self.up, args=(host, upstream, asked), daemon=True).start()
            threading.Thread(target=self.down, args=(host, upstream, asked), daemon=True).start()

    @staticmethod
    def pdus(sock):
        stream = sock.makefile('rb')
        while len(head := stream.read(8)) == 8:
            yield bytearray(head + stream.read(int.from_bytes(head[4:8], 'little') - 8))

    def up(self, host, upstream, asked):
        try:
            for pdu in self.pdus(host):
                if pdu[0] == CAPSULE_CMD:
                    asked[bytes(pdu[10:12])] = (pdu[8], pdu[48])  # CID: opcode, CNS or LID
                upstream.sendall(pdu)
            upstream.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def down(self, host, upstream, asked):
        try:
            for pdu in self.pdus(upstream):
                if pdu[0] == n.C2HDATA:
                    self.spoil(pdu, asked.get(bytes(pdu[8:10])))
                host.sendall(pdu)
        except OSError:
            pass
        host.close()
