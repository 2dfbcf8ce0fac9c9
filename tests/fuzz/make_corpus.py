#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes seeds for the fuzzers: one small file per PDU type, structure, rule broken and story told.

    make_corpus.py [FOLDER]     FOLDER: tests/fuzz/corpus

Run it after a change of the input format of a fuzzer; each describes its own at its top. For
fuzz_tcp, fuzz_conn, fuzz_host, fuzz_mpath and fuzz_link the corpus in git is not these seeds but
what is left of them and of long runs when it reaches nothing new (names are sums of the content):
write the seeds to another folder, let the fuzzer run on it, then

    fuzz_NAME -merge=1 -use_counters=0 tests/fuzz/corpus/NAME FOLDER/NAME

and look at `make fuzz-cover`.
"""
import pathlib
import struct
import sys

HERE = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "corpus"
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


def pdu_wrong_seeds():
    """Each rule of a header broken once: (state, type, body, data, byte of the header, its value)."""
    sqe, data = bytes(64), data_body(0, 9, 512, 256)
    put, get = state(INITIALIZED, 0, 128, 4), state(HOST | INITIALIZED, 0, 128, 4)
    digests = INITIALIZED | HDGST | DDGST
    request = struct.pack("<HBBI112x", 0, 0, 0, 0)
    wrong = {
        "type": (put, 0, 4, sqe, 512, ((0, 99),)), "hole": (put, 0, 4, sqe, 512, ((0, 8),)),
        "hlen": (put, 0, 4, sqe, 512, ((2, 71),)), "hlen_0": (put, 0, 4, sqe, 512, ((2, 0),)),
        "hlen_255": (put, 0, 4, sqe, 512, ((2, 255),)), "flag": (put, 0, 4, sqe, 512, ((1, 4),)),
        "hdgst": (put, 0, 4, sqe, 512, ((1, 1),)), "ddgst": (put, 0, 4, sqe, 512, ((1, 2),)),
        "success": (get, 0, 7, data, 256, ((1, 8),)), "pdo": (put, 0, 4, sqe, 512, ((3, 4),)),
        "pdo_odd": (put, 0, 4, sqe, 512, ((3, 74),)), "pdo_none": (put, 0, 4, sqe, 0, ((3, 4),)),
        "pdo_end": (put, 0, 4, sqe, 0, ((3, 72),)), "pdo_far": (put, 0, 4, sqe, 4, ((3, 80),)),
        "pdo_align": (state(INITIALIZED, 2, 128, 4), 0, 4, sqe, 512, ((3, 76),)),
        "no_data": (put, 0, 6, data, 256, ((4, 24), (5, 0))), "plen": (put, 0, 4, sqe, 512, ((4, 8), (5, 0))),
        "plen_cut": (put, 0, 4, sqe, 0, ((4, 71),)), "plen_small": (state(digests), 0, 6, data, 0, ((4, 28), (1, 3))),
        "digest_only": (state(digests), digests, 6, data, 0, ((4, 2), (1, 3), (3, 28))),
        "capsule": (state(INITIALIZED, 0, 1, 4), 0, 4, sqe, 512, ()), "term": (put, 0, 2, bytes(16), 200, ()),
        "pfv": (state(0), 0, 0, request, 0, ((8, 1),)), "pda": (state(0), 0, 0, request, 0, ((10, 32),)),
        "maxr2t": (state(0), 0, 0, request, 0, ((12, 255), (13, 255), (14, 255), (15, 255))),
        "h2cdata": (state(HOST), 0, 1, request, 0, ((12, 1), (13, 32))),
        "h2cdata_0": (state(HOST), 0, 1, request, 0, ()), "again": (put, 0, 0, request, 0, ()),
        "r2t_none": (get, 0, 9, data_body(0, 9, 512, 0), 0, ()), "datal": (put, 0, 6, data, 256, ((16, 1),)),
        "too_much": (state(INITIALIZED, 0, 128, 0), 0, 6, data_body(0, 9, 512, 8192), 8192, ()),
        "early": (state(0), 0, 4, sqe, 0, ()), "align_0": (state(INITIALIZED, 255), 0, 4, sqe, 512, ()),
        "offset": (put, 0, 6, data_body(0, 9, 4, 256), 256, ()), "cccid": (put, 0, 6, data_body(1, 9, 512, 256), 256, ()),
        "beyond": (put, 0, 6, data_body(0, 9, 512, 1024), 1024, ((1, 4),)),
        "dwords": (put, 0, 6, data_body(0, 9, 512, 255), 255, ()), "last_late": (put, 0, 6, data, 256, ()),
        "last_early": (put, 0, 6, data_body(0, 9, 512, 128), 128, ((1, 4),)),
        "part": (put, 0, 6, data_body(0, 9, 512, 128), 128, ()),
        "odd_end": (state(INITIALIZED, 0, 128, 1), 0, 6, data_body(0, 9, 512, 64), 64, ((1, 4),)),
        "closed": (state(INITIALIZED, 0, 128, 255), 0, 6, data, 256, ((1, 4),)),
        "c2h_cccid": (get, 0, 7, data_body(1, 9, 512, 256), 256, ((1, 4),)),
        "c2h_closed": (state(HOST | INITIALIZED, 0, 128, 255), 0, 7, data, 256, ((1, 4),)),
        "r2t_cccid": (get, 0, 9, data_body(1, 9, 512, 256), 0, ()),
        "r2t_closed": (state(HOST | INITIALIZED, 0, 128, 255), 0, 9, data, 0, ()),
        "r2t_many": (state(HOST | INITIALIZED | 192, 0, 128, 4), 0, 9, data, 0, ()),
        "bad_digest": (state(digests | 16), digests, 4, sqe, 0, ((20, 1),)),
    }
    for name, (head, flags, kind, body, data_bytes, changes) in wrong.items():
        content = bytearray(pdu(flags, kind, body, data_bytes))
        for at, value in changes:
            content[at] = value
        write("pdu", "wrong_" + name, head + bytes(content))


def page_seeds():
    """Values in the order in which fuzz_page.c takes them; pages spoilt at offsets that matter."""
    def ctrl(nqn=b"nqn.x", bools=0, numbers=0, kind=1, spoil=()):
        return (b"\0" + nqn + b"\0s\0" + bytes([kind]) + bytes([bools]) * 31 + b"\5\0"
                + struct.pack("<I", numbers) * 13 + struct.pack("<QQ", numbers, numbers)
                + bytes([len(spoil)]) + b"".join(struct.pack("<HB", *change) for change in spoil))

    discovery = b"nqn.2014-08.org.nvmexpress.discovery"
    for numbers in (0, 1, 30, 257, 70000, 0x80000000, 0xffffffff):
        for bools in (0, 1):
            write("page", "ctrl_%x_%d" % (numbers, bools), ctrl(bools=bools, numbers=numbers))
    write("page", "ctrl_discovery", ctrl(discovery, kind=0))
    offsets = {"sqes": (512, 0x55), "sqes_more": (512, 0x77), "cqes": (513, 0x33), "ioccsz": (1792, 3),
               "ioccsz_far": (1795, 0x20), "iorcsz": (1796, 0), "icdoff": (1800, 1), "sgls": (536, 0),
               "type_0": (111, 0), "type_9": (111, 9), "capacity": (288, 1), "pels": (355, 1)}
    for name, change in offsets.items():
        write("page", "ctrl_spoilt_" + name, ctrl(bools=1, numbers=65536, spoil=(change,)))
    write("page", "ctrl_spoilt_nqn", ctrl(discovery, spoil=((111, 0),)))
    write("page", "ctrl_spoilt_end", ctrl(b"n" * 223, spoil=((768 + 223, 65),)))

    def ns(size=0, bools=0, numbers=0, spoil=(), spoil_descriptors=()):
        changes = [bytes([len(c)]) + b"".join(struct.pack("<HB", *x) for x in c) for c in (spoil, spoil_descriptors)]
        return (b"\1" + bytes([size]) + struct.pack("<Q", 1 << 20) + bytes([bools]) * 6
                + struct.pack("<I", numbers) * 8 + b"\1\1" + b"".join(changes))

    for numbers in (0, 1, 257, 65537, 0xffffffff):
        write("page", "ns_%x" % numbers, ns(numbers & 3, numbers & 1, numbers))
    for name, changes in {"index": ((26, 3),), "shift": ((130, 40),), "small": ((130, 3),), "meta": ((128, 8),),
                          "size": ((7, 0xff),), "capacity": ((56, 1),), "formats": ((25, 20), (26, 0x20)),
                          "too_many": ((25, 70),)}.items():
        write("page", "ns_spoilt_" + name, ns(spoil=changes))
    for name, changes in {"uuid": ((1, 15),), "nguid": ((21, 17),), "csi": ((44, 2),), "type": ((0, 9),),
                          "long": ((1, 255), (260, 255), (519, 255))}.items():
        write("page", "ns_descriptors_" + name, ns(spoil_descriptors=changes))
    page_of_255 = tuple((at, 255) for at in range(1, 4096, 259))
    write("page", "ns_descriptors_all", ns(spoil_descriptors=page_of_255[:7]))
    names = ["", "x", "nqn.", "nqn.2026-11.io.weft:x", "nqn.2026-11.io.weft", "nqn.2026-11.io.weft:", "nqn.2026-13.a:x",
             "nqn.2026-00.a:x", "nqn.202x-11.a:x", "nqn.2026x11.a:x", "nqn.2026-x1.a:x", "nqn.2026-1x.a:x",
             "nqn.2026-11xa:x", "nqn.2026-11..a:x", "nqn.2026-11.a.:x", "nqn.2026-11.A-1_b.Z9.{:x", "nqn.2026-11.a@:x",
             "nqn.2026-11.a[:x", "nqn.2026-11.a/:x", "nqn.2026-11.a:\x01", "nqn.2026-11.a:\x7f",
             "nqn.2014-08.org.nvmexpress:uuid:x", "nqn.2014-08.org.nvmexpress.discovery",
             "nqn.2014-08.org.nvmexpress:uuid:1b4e28ba-2fa1-11d2-883f-0016d3cca427", "n" * 300,
             "nqn.2026-11.a:" + "x" * 300]
    for i, name in enumerate(names):
        write("page", "nqn_%02d" % i, b"\x0c" + struct.pack("<H", i) + name.encode())
    write("page", "nqn_utf8", b"\x0c\0\0nqn.2026-11.a:\xff\xfe")
    for kind in range(13):
        for fill in (1, 0xFF):
            write("page", "all_%02d_%x" % (kind, fill), bytes([kind]) + bytes([fill]) * 120)
    for status in (0x185, 0x186, 0x187, 0x183, 0x184, 0x700, 0x285, 0x0):
        write("page", "status_%x" % status, b"\x0c" + struct.pack("<H", status))
    sgl = struct.pack("<QHBBB", 0, 0, 0, 0, 0) + bytes(2) + bytes(8) + bytes(1)
    for name, tail in {"offset": (0x40, 1, 64, 8000), "length": (0x40, 1, 8000, 0), "fits": (0x40, 1, 64, 64)}.items():
        write("page", "sgl_" + name, b"\x0b" + sgl + struct.pack("<BBHH", *tail))


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


# Steps of fuzz_conn.c, in the order of its enum step.
(RAW, IC_REQ, CONNECT_ADMIN, ENABLE, CONNECT_IO, COMMAND, IO, DATA, DATA_FITTING, TIME, CLOSE, RESET,
 SWITCH, DEAF, SWAP, ANSWER_R2T, ADMIN, IC_ANY, TERM_REQ, SPOIL) = range(20)
READY, SLOW, DISCOVERY, TWO_REACTORS = 4, 8, 16, 32


def conn_command(opcode, nsid=0, cdws=(), transfer=0, capsule=0):
    """A 64-byte entry; the first reserved byte of its SGL chooses how it is filled in."""
    cdws = tuple(cdws) + (0,) * (6 - len(cdws))
    sgl = struct.pack("<QI", 0, transfer) + bytes([1 if capsule else 2 if transfer else 0, 0, 0, 0])
    sqe = struct.pack("<BBHI16x", opcode, 0, 0, nsid) + sgl + struct.pack("<6I", *cdws)
    return bytes([COMMAND]) + sqe + bytes([capsule])


def conn_seeds():
    setup = bytes([IC_REQ, CONNECT_ADMIN, 50, TIME, 0, ENABLE, 0, 0, TIME, 0])
    write("conn", "setup", bytes([0]) + setup)
    write("conn", "setup_digests", bytes([3]) + setup)
    write("conn", "setup_io", bytes([0]) + setup + bytes([SWITCH, IC_REQ, CONNECT_IO, 1, 6, TIME, 0, IO, 0, 1, 3]))
    write("conn", "discovery", bytes([DISCOVERY]) + setup + conn_command(2, 0, (0x00ff0070,), 1024))
    for flags, name in ((READY, "mem"), (READY | SLOW, "slow"), (READY | 3, "digests"),
                        (READY | TWO_REACTORS | SLOW, "two")):
        head = bytes([flags])
        for kind in range(6):
            write("conn", "%s_io_%d" % (name, kind), head + bytes([IO, kind, 2, 7, TIME, 2]))
        # 132 and 133 are Read and Write too, and ask for data in the capsule.
        write("conn", name + "_in_capsule", head + bytes([IO, 133, 2, 7, IO, 134, 2, 7, IO, 137, 2, 3]))
        write("conn", name + "_r2t", head + bytes([IO, 1, 0, 31, TIME, 0, DATA_FITTING, 0, TIME, 0]))
        write("conn", name + "_r2t_reset", head + bytes([IO, 1, 0, 31, TIME, 0, RESET, TIME, 1]))
        write("conn", name + "_deaf", head + bytes([DEAF] + [IO, 0, 0, 31] * 12 + [TIME, 200]))
        write("conn", name + "_swap", head + bytes([IO, 1, 0, 3, SWAP, IO, 1, 0, 3, TIME, 0, SWAP]))
        # Connection 1 has the I/O queue; two switches lead back to the admin queue.
        abort = conn_command(8, 0, (1 | 6 << 16,))
        write("conn", name + "_abort", head + bytes([IO, 1, 0, 31, TIME, 0, SWITCH, SWITCH]) + abort + bytes([TIME, 9]))
    admin = bytes([READY, SWITCH, SWITCH])
    for cns in (0, 1, 2, 3, 5, 6, 8, 0x1c):
        write("conn", "identify_%x" % cns, admin + conn_command(6, 1, (cns,), 4096))
    for log in (0, 1, 2, 3, 4, 5, 0xc, 0x70):
        write("conn", "log_%x" % log, admin + conn_command(2, 0xffffffff, (log | 127 << 16,), 512))
    for feature in (1, 2, 4, 6, 7, 0xb, 0xf, 0x10, 0x81):
        write("conn", "get_feature_%x" % feature, admin + conn_command(10, 0, (feature,)))
        write("conn", "set_feature_%x" % feature, admin + conn_command(9, 0, (feature, 0x30003)))
    write("conn", "events", admin + conn_command(12) * 6 + bytes([SWAP, TIME, 1]))
    write("conn", "keep_alive", admin + conn_command(0x18))
    write("conn", "shutdown", admin + bytes([ENABLE, 0, 0x40, TIME, 5]))
    write("conn", "disable", admin + bytes([ENABLE, 1, 0, TIME, 5, ENABLE, 0, 0, TIME, 5]))
    write("conn", "data_unasked", bytes([READY, DATA, 1]) + struct.pack("<HHIH", 1, 0, 0, 512))
    write("conn", "raw", bytes([0, RAW, 16]) + pdu(0, 0, struct.pack("<HBBI112x", 0, 0, 3, 0))[:16])


def conn_talk_seeds():
    """R2Ts answered rightly and wrongly, terminations, ICReqs of every kind, silence."""
    for flags, name in ((READY, "mem"), (READY | SLOW, "slow"), (READY | 3, "digests")):
        for choice in (0, 8, 12, 16, 80, 32, 96, 136, 140, 24):
            steps = [IO, 1, 0, 31, TIME, 0, ANSWER_R2T, choice, TIME, 1, IO, 0, 0, 31, TIME, 1]
            write("conn", "%s_answer_%d" % (name, choice), bytes([flags] + steps))
        write("conn", name + "_spoil", bytes([flags, SPOIL, IO, 133, 2, 7, TIME, 1, IO, 1, 0, 31, TIME, 0, SPOIL,
                                              ANSWER_R2T, 0, TIME, 1]))
        write("conn", name + "_term", bytes([flags, TERM_REQ, 2, 70, TIME, 1]))
        write("conn", name + "_owed", bytes([flags, IO, 1, 0, 31, TIME, 255, TIME, 255, TIME, 255]))
    for digests in range(4):
        for align in (0, 1, 17, 31):
            steps = [IC_ANY, digests, align, CONNECT_ADMIN, 50, TIME, 0, ENABLE, 0, 0, TIME, 0]
            steps += [ADMIN, 6, 63, 1, 0, 0, 0, 0, 0, TIME, 1]
            write("conn", "ic_%d_%d" % (digests, align), bytes([0] + steps))
    for hlen in (0, 71, 255):
        header = bytes([4, 0, hlen, 0, 72, 0, 0, 0]) + bytes(64)
        write("conn", "raw_hlen_%d" % hlen, bytes([READY, RAW, len(header)]) + header + bytes([TIME, 1]))
    write("conn", "ic_none", bytes([0, RAW, 1, 0] + [TIME, 255] * 6))
    write("conn", "ic_twice", bytes([0, IC_REQ, IC_REQ, TIME, 1]))
    for opcode in (2, 6, 8, 9, 10, 12, 13, 0x15, 0x18, 0x80, 0x38, 0x7f, 0xff):
        for transfer in (0, 63):
            write("conn", "admin_%x_%d" % (opcode, transfer),
                  bytes([READY, SWITCH, SWITCH, ADMIN, opcode, 128 | transfer, 1, 0, 0xff, 3, 0, 0, TIME, 1]))


def config_seeds():
    """Two documents: a change from one to the other."""
    def document(size="1M", more="", nsid=1, subsystems=1, port=1):
        uuid = "00000000-0000-4000-8000-%012d"
        parts = ['{"nqn": "nqn.2026-11.io.weft:%d", "namespaces": [{"nsid": %d, "media": "mem:%s", "uuid": "%s"%s}]}'
                 % (i, nsid, size, uuid % i, more) for i in range(subsystems)]
        return ('{"version": 1, "subsystems": [%s], "ports": [{"id": %d, "address": "127.0.0.1"}]}'
                % (", ".join(parts), port)).encode()

    protected = [', "write_protect": "%s"' % kind for kind in ("none", "until-power-cycle", "permanent")]
    pairs = {"same": (document(), document()), "grow": (document(), document("2M")), "move": (document(), document(nsid=7)),
             "more": (document(), document(subsystems=3)), "port": (document(), document(port=2)),
             "read_only": (document(), document(more=', "read_only": true'))}
    for i, kind in enumerate(protected):
        pairs["protect_%d" % i] = (document(more=kind), document())
    for name, (before, after) in pairs.items():
        write("config", "change_" + name, before + b"\x1e" + after)


# Acts of fuzz_host.c, in the order of its enum act; it answers what a seed does not say honestly.
(HONEST, TWICE, CQE, C2H_DATA, R2T, IC_RESP, RAW_BYTES, SILENT, BYE, CUT, TERM, PAGE) = range(12)


def host_seeds():
    for switches in range(16):
        write("host", "honest_%x" % switches, bytes([switches]))
    acts = {
        "twice": bytes([TWICE]),
        "cqe": bytes([CQE]) + struct.pack("<IIHHHH", 0, 0, 1, 1, 0, 0),
        "cqe_error": bytes([CQE]) + struct.pack("<IIHHHH", 0, 0, 1, 1, 0, 4),
        "data": bytes([C2H_DATA, 12]) + struct.pack("<H", 512),
        "data_far": bytes([C2H_DATA, 14]) + struct.pack("<IH", 512, 4096),
        "r2t": bytes([R2T, 0]) + struct.pack("<H", 512),
        "r2t_far": bytes([R2T, 2]) + struct.pack("<IH", 8192, 16384),
        "ic_resp": bytes([IC_RESP]) + struct.pack("<HBBI", 0, 0, 0, 4096),
        "silent": bytes([SILENT]),
        "close": bytes([BYE]),
        "reset": bytes([CUT]),
        "term": bytes([TERM, 2]),
        "page": bytes([PAGE, 0]) + struct.pack("<HB", 77, 0),
    }
    # The host speaks about 30 PDUs before it is connected, on three connections.
    for name, act in acts.items():
        for before in (0, 1, 3, 8, 11, 14, 20, 26, 32):
            write("host", "%s_%d" % (name, before), bytes([before & 3]) + bytes([HONEST] * before) + act)


def host_ic_seeds():
    for version, align, digests, limit in ((0, 0, 1, 4096), (0, 0, 2, 4096), (0, 0, 3, 65536), (1, 0, 0, 4096),
                                           (0, 200, 0, 4096), (0, 17, 0, 4096), (0, 0, 0, 1), (0, 0, 0, 8194)):
        answer = bytes([IC_RESP]) + struct.pack("<HBBI", version, align, digests, limit)
        for switches in (0, 1, 3):
            name = "ic_%d_%d_%d_%d_%d" % (switches, version, align, digests, limit)
            write("host", name, bytes([switches]) + answer)


# Steps of fuzz_tcp.c; the other side has the highest bit.
(T_TIME, T_SEND, T_MANY, T_RESUME, T_CHANGE, T_CLOSE, T_ABORT, T_FAIL, T_DISCARD, T_IGNORE, T_NO_MEMORY, T_INTERRUPT,
 T_FLIP, T_NETWORK, T_HOLD) = range(15)
T_TARGET = 128
NO_DATA, LAST, IN_CAPSULE, GUARDED, SKIPS, SHARED = 128, 64, 32, 16, 8, 4


def tcp_seeds():
    def seed(name, steps, sim=1, zc=0, host=0, target=0, flags=5, more=(0, 0)):
        write("tcp", name, bytes([sim, zc, host, target, flags, *more]) + bytes(steps))

    def send(choice, size=2, value=63, where=0, pieces=0, side=0):
        """Its payload: (1 + value) * 1 KiB when size is 2, * 8 KiB when it is 3."""
        return [side | T_SEND, choice] + ([] if choice & NO_DATA else [size, value, where, pieces])

    wait, long_wait = [T_TIME, 199], [T_TIME, 255]
    for digests in (0, 3):
        for sink in (0, 1, 3, 4, 6, 7, 20, 22):
            for choice in (LAST, LAST | SHARED, LAST | SHARED | GUARDED, LAST | SKIPS, LAST | IN_CAPSULE):
                seed("sink_%d_%d_%02x" % (digests, sink, choice), send(choice) + wait + [sink] * 8,
                     host=digests | 24, target=digests | 24, sim=1 + 8 * (sink & 1))
                seed("c2h_%d_%d_%02x" % (digests, sink, choice),
                     send(choice, 3, 20, side=T_TARGET) + wait + [sink] * 8, host=digests, target=digests, sim=9)
        # Paused with a lot behind it, then resumed, and paused again.
        lot = send(IN_CAPSULE, 2, 7) * 8 + wait + [5] + wait
        seed("pause_%d" % digests, lot + [T_TARGET | T_RESUME] + wait + [5] + [T_TARGET | T_RESUME] + wait,
             host=digests | 24, target=digests | 24)
        seed("pause_end_%d" % digests, lot + [T_TARGET | T_RESUME, T_TARGET | T_CLOSE] + wait, host=digests | 24,
             target=digests | 24)
        seed("pause_memory_%d" % digests, [T_NO_MEMORY, 0] + lot, host=digests | 24, target=digests | 24)
    for pieces in (70, 140, 199, 255):
        for zc in (0, 1, 2, 5, 7):
            for error in range(5):
                steps = [T_INTERRUPT, 0, error] + send(LAST, 3, 199, pieces=pieces, side=T_TARGET) * 2
                steps += [T_TARGET | T_MANY, NO_DATA, 3] + wait * 3
                seed("zc_%d_%d_%d" % (pieces, zc, error), steps, zc=zc, target=32 | 128 * (zc & 1))
    seed("headers", [T_TARGET | T_MANY, NO_DATA, 250] + wait)
    seed("headers_zc", send(LAST, 3, 130, side=T_TARGET) + [T_TARGET | T_MANY, NO_DATA, 20] + wait, target=32)
    seed("hold", [T_HOLD, 3] + send(LAST | SHARED | GUARDED, pieces=130) * 2 + wait)
    seed("change", send(LAST | SHARED, 2, 200) * 3 + [T_TIME, 5, T_CHANGE, 0, 200] + wait, sim=2)
    seed("deaf", [T_TARGET | T_IGNORE] + send(LAST, 3, 250) * 3 + wait)
    for side in (0, T_TARGET):
        for how in (T_CLOSE, T_ABORT, T_FAIL, T_IGNORE, T_DISCARD):
            seed("end_%d_%d" % (side, how), send(LAST, 3, 100) + send(LAST, 3, 100, side=T_TARGET) + [T_TIME, 60, 3, 3]
                 + [side | how, 1] + wait, more=(1, 1))
        for at in (1, 20, 40, 90, 140, 250):
            seed("cut_%d_%d" % (side, at), [T_NETWORK, 11 + (16 if side else 0)] + list(struct.pack("<H", at * 3))
                 + send(LAST, 2, 10) + send(LAST, 2, 10, side=T_TARGET) + wait)
            seed("silent_%d_%d" % (side, at), [T_TIME, at, T_NETWORK, 1] + long_wait, flags=1, more=(1, 1))
    # With records between engine and socket: few and many, with noise, slow, silent, cut off, of another key.
    for kind in (0, 16, 32, 48, 64, 128, 144, 253, 254, 255):
        for sim in (1, 2, 8):
            seed("records_%d_%d" % (kind, sim), send(LAST, 3, 100) + send(LAST, 2, 50, side=T_TARGET) + wait + [0] * 4
                 + [T_CLOSE] + wait, sim=sim, flags=13, more=(kind, kind))
    for at in range(0, 120, 11):
        seed("records_flip_%d" % at, [T_FLIP] + list(struct.pack("<H", at)) + send(LAST, 0, 99) + wait, flags=13)
    for at in range(0, 300, 23):
        seed("flip_%d" % at, [T_FLIP] + list(struct.pack("<H", at)) + send(LAST, 0, 99) + wait, host=3, target=3)


def mpath_seeds():
    (time, read, put, fused, admin, event, persona, cut, remove, add, silence) = range(11)
    for switches in (0, 1, 2, 4, 4 | 64, 8, 16, 32):
        io = bytes([read, 0, put, 0, fused, 0, admin, 1, time, 5])
        write("mpath", "io_%x" % switches, bytes([switches]) + bytes(60) + io)
        write("mpath", "cut_%x" % switches, bytes([switches]) + io + bytes([cut, time, 20, 0x80 | cut, time, 255]))
        write("mpath", "silent_%x" % switches, bytes([switches]) + io + bytes([silence]) + io + bytes([time, 255]) * 3)
        for kind in range(8):
            write("mpath", "persona_%x_%d" % (switches, kind), bytes([switches, persona, kind, 3, event, kind, time, 60])
                  + io + bytes([time, 100]))


def link_seeds():
    (time, message, close, change, cut, connect, hello, frame, raw, repeat) = range(10)
    talk = bytes([message, 0, *range(16), 128 | message, 1, *range(16), message, 2, *range(16), time, 199])
    write("link", "talk", b"\0" + talk * 3)
    for switches in range(8):
        write("link", "switches_%d" % switches, bytes([switches]) + talk + bytes([time, 255]))
        for choice in range(16):
            proof = bytes([frame, 2, 0]) + bytes(20)
            write("link", "stranger_%d_%d" % (switches, choice),
                  bytes([switches, connect, time, 150, hello, choice, time, 150]) + proof + bytes([time, 199]))
    for at in range(0, 800, 70):
        write("link", "change_%d" % at, bytes([0, change]) + struct.pack("<H", at) + talk)
        write("link", "repeat_%d" % at, b"\0" + talk + bytes([connect, time, 150, repeat]) + struct.pack("<HH", at, 900)
              + bytes([time, 199]))
    write("link", "raw", bytes([0, connect, time, 100, raw, 8, *range(8), time, 100, cut, time, 50, close]))


def discovery_seeds():
    for name, content in {"empty": b"", "two": b"\0\2\2\0\0", "changing": b"\0" + b"\3\2\0" * 12,
                          "many": b"\0\4\3\4\0", "absurd": b"\0\4\3\x3f\0", "restart": b"\0\xff\2\1\0",
                          "failed": b"\0\xf5", "refused": b"\xff"}.items():
        write("discovery", name, content)


def admin_seeds():
    for kind in range(6):
        for fill in (0, 1, 0xFF):
            write("admin", "%d_%x" % (kind, fill), bytes([kind]) + bytes([fill]) * 64 + bytes([fill]) * 600)
    sqe = struct.pack("<BBHI32x6I", 0x19, 0, 1, 1, 8, 0, 0x2001, 0, 0, 0)
    write("admin", "copy", bytes([2]) + sqe + struct.pack("<IIQH14x", 1, 0, 5, 3) * 2)
    write("admin", "ctrl_list", bytes([3]) + sqe + struct.pack("<HHH", 2, 1, 2))


def kept_seeds():
    hosts = b"".join(bytes([i]) * 16 + struct.pack("<Q", i) for i in (1, 2, 3))
    for kind, holder in ((0, 0), (1, 2), (5, 0)):
        head = struct.pack("<IIBB2xI", 0x31767352, 9, kind, 1, 3) + bytes([holder]) * 16
        write("kept", "reservation_%d" % kind, bytes([0]) + head + hosts)
        whole = head + hosts
        write("kept", "ns_reservation_%d" % kind, bytes([4]) + whole + struct.pack("<I", crc32c(whole)))
    bad = struct.pack("<Q4Q", 2 << 56 | 2, 3, 5, 9, 10)
    write("kept", "bad_blocks", bytes([1]) + bad)
    write("kept", "ns_bad_blocks", bytes([4]) + bad)
    write("kept", "health", bytes([3]) + struct.pack("<8Q", *range(8)))
    # An event: type, revision, length of the header behind the first three bytes, its attributes.
    event = struct.pack("<BBBBHHQHHHH", 4, 1, 21, 0, 0, 0, 0, 0, 0, 0, 8) + bytes(8)
    write("kept", "events", bytes([2]) + event)
    write("kept", "subsystem_events", bytes([3]) + event)


def peer_frame(kind, body=b"", number=0, magic=0x72656570):
    return struct.pack("<IHHIIQ", magic, 4, kind, len(body), 0, number) + body + bytes(32)


def peer_seeds():
    hello = b"a".ljust(64, b"\0") + b"b".ljust(64, b"\0") + bytes(range(64)) + bytes(16) + \
        struct.pack("<II", 4711, 0)
    reset = struct.pack("<QQHBB4x16s", 1, 2, 3, 4, 1, bytes(16)) + \
        b"nqn.2026-11.io.weft:s".ljust(224, b"\0") + b"nqn.2026-11.io.weft:h".ljust(224, b"\0")
    done = struct.pack("<QII", 1, 0, 0)
    seeds = {"hello": peer_frame(1, hello), "challenge": peer_frame(2, hello),
             "proof": peer_frame(3), "welcome": peer_frame(4), "ping": peer_frame(5, number=1),
             "pong": peer_frame(6, struct.pack("<II8x", 250, 1), 1), "reset": peer_frame(7, reset, 2),
             "done": peer_frame(8, done, 2), "seen": peer_frame(11, struct.pack("<QQ", 5, 0), 3),
             "served": peer_frame(10, struct.pack("<QII", 5, 0, 1) + bytes(range(62)) +
                                  struct.pack("<BBQ", 0, 1, 7) + bytes(360), 3), "magic": peer_frame(5, number=1, magic=1)}
    seeds["session"] = seeds["hello"] + seeds["proof"] + seeds["ping"] + seeds["reset"]
    for name, content in seeds.items():
        write("peer", name, content)


def api_request(method, path, body="", match="", kind=""):
    return "\n".join((method, path, match, kind, body)).encode()


def api_seeds():
    sub, ns, port = "/v1/subsystems/nqn.2026-11.io.weft%3Aa", "/namespaces/1", "/v1/ports/1"
    other = '{"nqn": "nqn.2026-11.io.weft:c", "namespaces": [{"nsid": 1, "media": "mem:1M"}]}'
    seeds = {
        "state": ("GET", "/v1/state"), "health": ("GET", "/v1/health"), "audit": ("GET", "/v1/audit?limit=5"),
        "config": ("GET", "/v1/config"), "openapi": ("GET", "/v1/openapi.json"),
        "connections": ("GET", "/v1/connections"), "reservations": ("GET", "/v1/reservations"),
        "subsystems": ("GET", "/v1/subsystems"), "subsystem": ("GET", sub), "namespaces": ("GET", sub + "/namespaces"),
        "ns": ("GET", sub + ns), "ports": ("GET", "/v1/ports"), "port": ("GET", port), "ana": ("GET", port + "/ana"),
        "hosts": ("GET", sub + "/hosts"), "head": ("HEAD", "/v1/state"), "options": ("OPTIONS", "/v1/ports"),
        "subsystem_add": ("POST", "/v1/subsystems?dry_run=true", other, '"7"', "application/json"),
        "subsystem_change": ("PATCH", sub, '{"model": "m", "hosts": ["nqn.2026-11.io.weft:h"]}', "7"),
        "subsystem_remove": ("DELETE", sub), "host_add": ("POST", sub + "/hosts", '{"nqn": "nqn.2026-11.io.weft:h"}'),
        "host_remove": ("DELETE", "/v1/subsystems/nqn.2026-11.io.weft%3Ab/hosts/nqn.2026-11.io.weft:host"),
        "ns_add": ("POST", sub + "/namespaces", '{"media": "mem:2M", "ana_group": 3}'),
        "ns_change": ("PATCH", sub + ns, '{"size": "2M", "visible_to": ["nqn.2026-11.io.weft:h"], "read_only": true}'),
        "ns_remove": ("DELETE", sub + ns + "?delete_data=true"), "reservation_clear": ("DELETE", sub + ns + "/reservation"),
        "port_add": ("POST", "/v1/ports", '{"id": 2, "address": "127.0.0.1", "service": "4421"}'),
        "port_change": ("PATCH", port, '{"ana": [{"group": 2, "state": "inaccessible"}]}'),
        "port_remove": ("DELETE", port), "ana_move": ("PUT", port + "/ana/2", '{"state": "non-optimized"}'),
        "config_put": ("PUT", "/v1/config", '{"version": 1, "subsystems": [], "ports": []}', "*"),
        "config_import": ("POST", "/v1/config/import?apply=true", '{"subsystems": [], "ports": [], "hosts": []}'),
        "escape": ("GET", "/v1/subsystems/%00%zz"), "nowhere": ("GET", "/v2"), "number": ("GET", sub + "/namespaces/x"),
    }
    for name, parts in seeds.items():
        method, path = parts[:2]
        write("api", name, api_request(method, path, *parts[2:]))
    one = '{"nqn": "nqn.2026-11.io.weft:c", "namespaces": [{"nsid": 1, "media": "mem:1M"}]}'
    new = "/v1/subsystems/nqn.2026-11.io.weft%3Ac"
    stories = {
        "life": [("POST", "/v1/subsystems", one), ("GET", new), ("POST", new + "/namespaces", '{"media": "mem:2M"}'),
                 ("PATCH", new + "/namespaces/2", '{"read_only": true}'), ("DELETE", new + "/namespaces/1"),
                 ("POST", new + "/hosts", '{"nqn": "nqn.2026-11.io.weft:h"}'), ("GET", "/v1/state"), ("DELETE", new),
                 ("GET", new)],
        "twice": [("POST", "/v1/subsystems", one)] * 2 + [("DELETE", new)] * 2,
        "match": [("DELETE", sub, "", '"7"'), ("DELETE", port, "", '"7"'), ("DELETE", port, "", '"8"')],
        "replace": [("GET", "/v1/config"), ("PUT", "/v1/config", '{"version": 1, "subsystems": [], "ports": []}'),
                    ("GET", "/v1/state"), ("GET", "/v1/health"), ("POST", "/v1/subsystems", one),
                    ("POST", "/v1/ports", '{"id": 3, "address": "127.0.0.1", "service": "4422"}'),
                    ("PUT", "/v1/ports/3/ana/1", '{"state": "inaccessible"}'), ("GET", "/v1/ports/3/ana")],
    }
    for name, requests in stories.items():
        write("api", "story_" + name, b"\x1e".join(api_request(*request) for request in requests))


def nbd_seeds():
    """A byte for the export (0: no name, 1: "disk"), one for the pieces, then the client's stream."""
    def option(number, body=b""):
        return b"IHAVEOPT" + struct.pack(">II", number, len(body)) + body

    def go(number, name=b"", infos=(3,)):
        return option(number, struct.pack(">I", len(name)) + name
                      + struct.pack(">%dH" % (len(infos) + 1), len(infos), *infos))

    def request(command, offset=0, length=4096, flags=0):
        return struct.pack(">IHHQQI", 0x25609513, flags, command, 7, offset, length)

    flags = b"\0\0\0\3"
    requests = b"".join(request(command) for command in (0, 1, 3, 4, 6, 2))
    write("nbd", "go", b"\0\xff" + flags + go(7) + requests)
    write("nbd", "info_go", b"\1\x03" + flags + go(6, b"disk", (0, 1, 2, 3)) + go(7, b"disk", ()) + request(0, 1, 1))
    write("nbd", "list", b"\1\xff" + flags + option(3) + option(8) + option(2))
    write("nbd", "export_name", b"\0\xff" + b"\0\0\0\1" + option(1) + request(6, 4096, 8192, 3))
    write("nbd", "too_long", b"\0\xff" + flags + b"IHAVEOPT" + struct.pack(">II", 9, 9000) + bytes(9000) + go(7))
    def runs(*entries, end=2, count=None):
        return struct.pack("<IB3x", len(entries) if count is None else count, end) + b"".join(
            struct.pack("<QIBBH", first, blocks - 1, 0, 2, 0) for first, blocks in entries)

    lists = {"": runs((2, 1), (3, 2), (10, 5)), "_none": runs(), "_full": runs((4, 4), end=1), "_no_end": runs((0, 1), end=0),
             "_order": runs((9, 2), (3, 1)), "_count": runs((0, 1), (4, 1), count=2**32 - 1), "_far": runs((2**63, 2**32)),
             "_past": runs((0, 1), (2**64 - 1, 2**32)), "_short": b"\2\0\0\0", "_many": runs(*((4 * i, 2) for i in range(20)))}
    for name, answer in lists.items():
        write("nbd", "status" + name, b"\0\xff" + flags + go(7) + request(7, 512, 65536) + answer)
    write("nbd", "status_one", b"\0\xff" + flags + go(7) + request(7, 0, 65536, 8) + lists[""])
    write("nbd", "status_4k", b"\2\xff" + flags + go(7) + request(7, 2**40, 2**32 - 4096) + runs((2**28 + 1, 2**20)))
    write("nbd", "large", b"\2\xff" + flags + go(7) + request(4, 2**64 - 8192, 4096) + request(1, 2**64 - 1, 2**32 - 1))


if __name__ == "__main__":
    pdu_seeds()
    pdu_wrong_seeds()
    page_seeds()
    connect_seeds()
    conn_seeds()
    conn_talk_seeds()
    config_seeds()
    host_seeds()
    host_ic_seeds()
    tcp_seeds()
    mpath_seeds()
    link_seeds()
    discovery_seeds()
    admin_seeds()
    kept_seeds()
    api_seeds()
    peer_seeds()
    nbd_seeds()
