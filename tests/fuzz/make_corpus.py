#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of tests/fuzz/corpus: one small file per PDU type and per structure.

Run it after a change of the input format of fuzz_pdu.c or fuzz_connect.c. The state bytes come
first, as those files describe.
"""
import pathlib
import struct

HERE = pathlib.Path(__file__).parent / "corpus"
HOST, INITIALIZED, HDGST, DDGST = 1, 2, 4, 8


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def state(flags, align=0, capsule=128, limit=4):
    return bytes([flags, align, capsule, limit])


def pdu(flags, kind, body, data=0, pdu_flags=0):
    """A header with its digest and no payload: the decoder never looks at payload."""
    hlen = 8 + len(body)
    pdo = hlen + (4 if flags & HDGST else 0)
    plen = pdo + data + (4 if data and flags & DDGST else 0)
    pdu_flags |= (1 if flags & HDGST else 0) | (2 if data and flags & DDGST else 0)
    header = struct.pack("<BBBBI", kind, pdu_flags, hlen, pdo if data else 0, plen) + body
    return header + (struct.pack("<I", crc32c(header)) if flags & HDGST else b"")


def data_body(cccid, ttag, offset, length):
    return struct.pack("<HHII4x", cccid, ttag, offset, length)


def write(folder, name, content):
    (HERE / folder).mkdir(parents=True, exist_ok=True)
    (HERE / folder / name).write_bytes(content)


def pdu_seeds():
    sqe = struct.pack("<BBHI16xQI3xB24x", 1, 0x40, 7, 1, 0, 512, 0x01)
    cqe = struct.pack("<IIHHHH", 0, 0, 1, 0, 7, 0)
    write("pdu", "ic_req", state(0) + pdu(0, 0, struct.pack("<HBBI112x", 0, 0, 3, 0)))
    write("pdu", "ic_resp", state(HOST) + pdu(0, 1, struct.pack("<HBBI112x", 0, 0, 3, 131072)))
    term = struct.pack("<HI10x", 1, 2)
    write("pdu", "h2c_term", state(INITIALIZED) + pdu(0, 2, term))
    write("pdu", "c2h_term", state(HOST | INITIALIZED) + pdu(0, 3, term))
    for digests, suffix in ((0, ""), (HDGST | DDGST, "_digests")):
        to_target = INITIALIZED | digests
        to_host = to_target | HOST
        # Alignment byte 0 is 4 bytes; it is also the CCCID of the transfer, and the two limit
        # bytes are its range: 512 to 768.
        put = state(to_target, 0, 128, 4)
        get = state(to_host, 0, 128, 4)
        body = data_body(0, 9, 512, 256)
        write("pdu", "cmd" + suffix, put + pdu(to_target, 4, sqe, 512))
        write("pdu", "cmd_no_data" + suffix, put + pdu(to_target, 4, sqe))
        write("pdu", "resp" + suffix, get + pdu(to_host, 5, cqe))
        write("pdu", "h2c_data" + suffix, put + pdu(to_target, 6, body, 256, 4))
        write("pdu", "c2h_data" + suffix, get + pdu(to_host, 7, body, 256, 12))
        write("pdu", "r2t" + suffix, get + pdu(to_host, 9, body))


def connect_seeds():
    sqe = struct.pack("<BBHI16xQI3xBHHHBxI12x", 0x7F, 0x40, 1, 1, 0, 1024, 1, 0, 0, 31, 0, 5000)
    names = (b"nqn.2026-11.io.weft:default",
             b"nqn.2014-08.org.nvmexpress:uuid:1b4e28ba-2fa1-11d2-883f-0016d3cca427")
    data = struct.pack("<16sH238x256s256s256x", bytes(range(16)), 0xFFFF, *names)
    write("connect", "connect", b"\0" + sqe + data)
    ctrl = bytearray(1806)
    ctrl[111] = 1
    ctrl[512:514] = b"\x66\x44"
    ctrl[536] = 1
    ctrl[768:768 + len(names[0])] = names[0]
    ctrl[1792], ctrl[1796] = 4, 1
    write("connect", "identify_ctrl", b"\1" + bytes(ctrl))
    namespace = bytearray(132)
    namespace[0] = namespace[8] = 64
    namespace[130] = 12
    write("connect", "identify_ns", b"\1" + bytes(namespace))
    entry = struct.pack("<BBBBHHHH20x32s192x256s32s", 3, 1, 2, 0, 1, 0xFFFF, 32, 0, b"4420",
                        names[0], b"127.0.0.1")
    write("connect", "discovery_entry", b"\2" + entry)


if __name__ == "__main__":
    pdu_seeds()
    connect_seeds()
