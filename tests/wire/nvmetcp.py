# SPDX-License-Identifier: Apache-2.0
"""
NVMe/TCP as a host sees it, in plain Python: an encoder and a decoder written from the specifications and
independent of src/wire, so that both sides cannot share a mistake. NVMe/TCP Transport 1.1, section 3.6
(PDUs); NVMe Base 2.1, sections 4.1 to 4.3 and chapter 6.

Conn is one connection, which is one queue. It checks every PDU from the target (lengths, flags, digests,
alignment, order of data) and raises Violation for a PDU that the specification does not allow.
"""

import select
import socket
import struct
import time

# PDU types, TCP 3.6.1
ICREQ, ICRESP, H2CTERM, C2HTERM, CAPCMD, CAPRESP, H2CDATA, C2HDATA, R2T = 0, 1, 2, 3, 4, 5, 6, 7, 9
HDGSTF, DDGSTF, LAST, SUCCESS = 1, 2, 4, 8
HLEN = {ICREQ: 128, ICRESP: 128, H2CTERM: 24, C2HTERM: 24, CAPCMD: 72, CAPRESP: 24, H2CDATA: 24,
        C2HDATA: 24, R2T: 24}
# Fatal Error Status, TCP 3.6.2.4
FES_FIELD, FES_SEQUENCE, FES_HDGST, FES_RANGE, FES_LIMIT, FES_PARAM = 1, 2, 3, 4, 5, 6

# Opcodes: Base 3.1.3.4 (admin), NVM 3.3 (I/O), Base chapter 6 (Fabrics)
DELETE_SQ, CREATE_SQ, GET_LOG, IDENTIFY, ABORT = 0x00, 0x01, 0x02, 0x06, 0x08
SET_FEATURES, GET_FEATURES, AER, KEEP_ALIVE, FABRICS = 0x09, 0x0a, 0x0c, 0x18, 0x7f
FLUSH, WRITE, READ, COMPARE, WRITE_ZEROES, DSM = 0x00, 0x01, 0x02, 0x05, 0x08, 0x09
WRITE_UNCORRECTABLE, VERIFY, CANCEL, COPY = 0x04, 0x0c, 0x18, 0x19
PROPERTY_SET, CONNECT, PROPERTY_GET, DISCONNECT = 0x00, 0x01, 0x04, 0x08
CAP, VS, CC, CSTS, NSSR, CRTO = 0x00, 0x08, 0x14, 0x1c, 0x20, 0x68

# Status (SCT, SC): Base 4.2.3, NVM 3.1.2
OK = (0, 0x00)
INVALID_OPCODE = (0, 0x01)
INVALID_FIELD = (0, 0x02)
ABORT_REQUESTED = (0, 0x07)
ABORT_SQ_DELETED = (0, 0x08)
INVALID_NS = (0, 0x0b)  # invalid NSID: 0, above NN, or FFFFFFFFh where broadcast is not allowed
INACTIVE_NS = (0, 0x02)  # Invalid Field: an NSID up to NN without a namespace, Base 3.2.1.5
CMD_SEQUENCE = (0, 0x0c)
SGL_SEGMENT = (0, 0x0d)
SGL_LENGTH = (0, 0x0f)
SGL_TYPE = (0, 0x11)
SGL_OFFSET = (0, 0x16)
WRITE_PROTECTED = (0, 0x20)
TRANSIENT_TRANSPORT = (0, 0x22)
LBA_RANGE = (0, 0x80)
CAPACITY_EXCEEDED = (0, 0x81)
ABORT_LIMIT = (1, 0x03)
AER_LIMIT = (1, 0x05)
INVALID_LOG_PAGE = (1, 0x09)
NOT_SAVEABLE = (1, 0x0d)
NOT_CHANGEABLE = (1, 0x0e)
NOT_NS_SPECIFIC = (1, 0x0f)
INCOMPATIBLE_FORMAT = (1, 0x80)
CONNECT_INVALID = (1, 0x82)
CONNECT_HOST = (1, 0x84)
SIZE_LIMIT = (1, 0x83)  # NVM command set, like the next ones
INCOMPATIBLE_NS = (1, 0x85)
FAST_COPY_IMPOSSIBLE = (1, 0x86)
OVERLAPPING_RANGE = (1, 0x87)
INVALID_QUEUE_TYPE = (1, 0x85)
WRITE_FAULT = (2, 0x80)
UNRECOVERED_READ = (2, 0x81)
COMPARE_FAILURE = (2, 0x85)
ANA_LOSS, ANA_INACCESSIBLE, ANA_TRANSITION = (3, 0x01), (3, 0x02), (3, 0x03)

CC_ENABLE = 1 | 6 << 16 | 4 << 20  # EN, IOSQES 64 bytes, IOCQES 16 bytes: Base 3.1.4.5
DISCOVERY_NQN = 'nqn.2014-08.org.nvmexpress.discovery'
HOST_NQN = 'nqn.2014-08.org.nvmexpress:uuid:11111111-2222-4333-8444-555555555555'
HOST_ID = bytes(range(0x10, 0x20))
TIMEOUT_S = 60.0  # for hangs only; a slow answer is no failure


class Violation(Exception):
    """The target sent what the specification does not allow."""


class Closed(Exception):
    """The target ended the connection."""


class Late(Exception):
    """No PDU arrived before the deadline."""


def crc_table():
    table = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ 0x82f63b78 if n & 1 else n >> 1
        table.append(n)
    return table


CRC_TABLE = crc_table()


def crc32c(data):
    crc = 0xffffffff
    table = CRC_TABLE
    for byte in data:
        crc = table[(crc ^ byte) & 0xff] ^ crc >> 8
    return crc ^ 0xffffffff


# ---- encoding -----------------------------------------------------------------------------------


def common(kind, flags, hlen, pdo, plen):
    return struct.pack('<BBBBI', kind, flags, hlen, pdo, plen)


def icreq(pfv=0, hpda=0, dgst=0, maxr2t=0, kind=ICREQ, flags=0, hlen=128, pdo=0, plen=128,
          reserved=bytes(112)):
    return common(kind, flags, hlen, pdo, plen) + struct.pack('<HBBI', pfv, hpda, dgst, maxr2t) + \
        reserved


def sgl_none():
    return struct.pack('<QI3xB', 0, 0, 0x5a)


def sgl_transport(length):
    return struct.pack('<QI3xB', 0, length, 0x5a)


def sgl_capsule(length, offset=0):
    return struct.pack('<QI3xB', offset, length, 0x01)


def sqe(opcode, cid, nsid=0, sgl=None, flags=0x40, cdw10=0, cdw11=0, cdw12=0, cdw13=0, cdw14=0,
        cdw15=0, cdw2=0, cdw3=0):
    """A submission entry, Base 4.1.1; PSDT 01b is the only one allowed over fabrics."""
    return struct.pack('<BBHIIIQ', opcode, flags, cid, nsid & 0xffffffff, cdw2, cdw3, 0) + \
        (sgl if sgl is not None else sgl_none()) + \
        struct.pack('<6I', cdw10, cdw11, cdw12, cdw13, cdw14, cdw15)


def fabrics_sqe(fctype, cid, body, sgl=None, flags=0x40):
    """A Fabrics command, Base 6.1: FCTYPE in byte 4, its own fields from byte 40 on."""
    head = struct.pack('<BBHB19x', FABRICS, flags, cid, fctype)
    return head + (sgl if sgl is not None else sgl_none()) + body.ljust(24, b'\0')


def connect_body(qid=0, sqsize=31, kato_ms=0, cattr=0, recfmt=0):
    return struct.pack('<HHHBxI', recfmt, qid, sqsize, cattr, kato_ms)


def nqn_field(nqn):
    raw = nqn if isinstance(nqn, (bytes, bytearray)) else nqn.encode()
    return bytes(raw).ljust(256, b'\0')[:256]


def connect_data(subnqn, hostnqn=HOST_NQN, hostid=HOST_ID, cntlid=0xffff):
    """Connect data, Base 6.3: HOSTID 0, CNTLID 16, SUBNQN 256, HOSTNQN 512."""
    return (hostid + struct.pack('<H', cntlid)).ljust(256, b'\0') + nqn_field(subnqn) + \
        nqn_field(hostnqn) + bytes(256)


def pattern(length, seed=0):
    """Bytes that differ in every 4 KiB and for every seed."""
    unit = bytes((i * 7 + (i >> 8) * 13 + seed * 31) & 0xff for i in range(4096))
    out = bytearray()
    block = 0
    while len(out) < length:
        stamp = struct.pack('<II', block, seed)
        out += stamp + unit[8:]
        block += 1
    return bytes(out[:length])


# ---- decoding -----------------------------------------------------------------------------------


class Pdu:
    def __init__(self, raw):
        self.raw = raw
        self.type, self.flags, self.hlen, self.pdo, self.plen = struct.unpack_from('<BBBBI', raw)
        self.header = raw[:self.hlen]
        self.data = b''

    def u16(self, at):
        return struct.unpack_from('<H', self.raw, at)[0]

    def u32(self, at):
        return struct.unpack_from('<I', self.raw, at)[0]

    @property
    def cccid(self):
        return self.u16(8)

    @property
    def ttag(self):
        return self.u16(10)

    @property
    def offset(self):
        return self.u32(12)

    @property
    def length(self):
        return self.u32(16)

    # TermReq, TCP 3.6.2.4: FES at 8, FEI at 10 (four bytes, not aligned)
    @property
    def fes(self):
        return self.u16(8)

    @property
    def fei(self):
        return self.u32(10)


class Cmd:
    """One command in flight and its answer."""

    def __init__(self, cid, entry, write_data, read_bytes):
        self.cid = cid
        self.entry = entry
        self.write_data = write_data
        self.read_bytes = read_bytes
        self.data = bytearray()
        self.is_done = False
        self.is_auto = True
        self.by_flag = False  # completed by the SUCCESS flag, without a response capsule
        self.sct = self.sc = self.dnr = self.more = self.crd = 0
        self.dw0 = self.dw1 = 0
        self.sqhd = None
        self.r2ts = []
        self.pdus = []

    @property
    def status(self):
        return (self.sct, self.sc)

    @property
    def result64(self):
        return self.dw0 | self.dw1 << 32


class Conn:
    def __init__(self, address, source=None, timeout=TIMEOUT_S):
        self.timeout = timeout
        self.address = address
        self.sock = socket.create_connection(address, timeout=timeout, source_address=source)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buf = bytearray()
        self.hdgst = self.ddgst = False
        self.hpda = 0
        self.cpda = 0
        self.maxh2cdata = 4096
        self.capsule_max = 8192
        self.next_cid = 1
        self.inflight = {}
        self.qid = None
        self.has_flow_control = True
        self.write = self.sock.sendall  # tests/wire/test_split.py replaces it to cut PDUs

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.close()

    # ---- bytes

    def send(self, data):
        try:
            self.write(data)
        except (ConnectionResetError, BrokenPipeError):
            raise Closed('send failed')

    def is_readable(self, timeout):
        poller = select.poll()  # select() takes no descriptor above 1023
        poller.register(self.sock, select.POLLIN)
        return bool(poller.poll(timeout * 1000))

    def fill(self, want, deadline):
        while len(self.buf) < want:
            left = deadline - time.monotonic()
            if left <= 0 or not self.is_readable(left):
                raise Late('%d of %d bytes came' % (len(self.buf), want))
            try:
                part = self.sock.recv(1 << 20)
            except ConnectionResetError:
                raise Closed('reset')
            if not part:
                raise Closed('end of stream with %d bytes left over' % len(self.buf))
            self.buf += part

    def wait_closed(self, timeout=TIMEOUT_S):
        """Discards what arrives. True when the target closes the connection before the timeout."""
        deadline = time.monotonic() + timeout
        while True:
            left = deadline - time.monotonic()
            if left <= 0 or not self.is_readable(left):
                return False
            try:
                if not self.sock.recv(1 << 16):
                    return True
            except ConnectionResetError:
                return True

    def is_silent(self):
        """True when nothing has arrived and the connection is open."""
        if self.buf:
            return False
        return not self.is_readable(0)

    # ---- PDUs out

    def ic(self, pfv=0, hpda=0, hdgst=False, ddgst=False, maxr2t=0):
        """Initialization; returns the ICResp. TCP 3.6.2.1 and 3.6.2.2."""
        self.ic_send(pfv, hpda, hdgst, ddgst, maxr2t)
        return self.ic_wait(hpda)

    def ic_send(self, pfv=0, hpda=0, hdgst=False, ddgst=False, maxr2t=0):
        self.send(icreq(pfv, hpda, (1 if hdgst else 0) | (2 if ddgst else 0), maxr2t))

    def ic_wait(self, hpda=0):
        resp = self.recv_pdu()
        if resp.type != ICRESP or resp.hlen != 128 or resp.plen != 128:
            raise Violation('not an ICResp: %s' % resp.raw[:32].hex())
        self.take_icresp(resp, hpda)
        return resp

    def take_icresp(self, resp, hpda=0):
        self.hpda = hpda
        self.cpda = resp.raw[10]
        self.hdgst = bool(resp.raw[11] & 1)
        self.ddgst = bool(resp.raw[11] & 2)
        self.maxh2cdata = resp.u32(12)

    def seal(self, kind, flags, body, data=b'', spoil_hdgst=False, spoil_ddgst=False):
        """A PDU with digests and padding as agreed. TCP 3.6.1, 3.3.1 (digests)."""
        hlen = 8 + len(body)
        end = hlen + (4 if self.hdgst else 0)
        pdo, plen, pad = 0, end, 0
        if self.hdgst:
            flags |= HDGSTF
        if data:
            unit = (self.cpda + 1) * 4
            pdo = -(-end // unit) * unit
            pad = pdo - end
            plen = pdo + len(data) + (4 if self.ddgst else 0)
            if self.ddgst:
                flags |= DDGSTF
        out = common(kind, flags, hlen, pdo, plen) + body
        if self.hdgst:
            out += struct.pack('<I', crc32c(out) ^ (1 if spoil_hdgst else 0))
        out += bytes(pad) + data
        if data and self.ddgst:
            out += struct.pack('<I', crc32c(data) ^ (1 if spoil_ddgst else 0))
        return out

    def capsule(self, entry, data=b'', **spoil):
        return self.seal(CAPCMD, 0, entry, data, **spoil)

    def h2cdata(self, cccid, ttag, offset, data, last=True, length=None, **spoil):
        body = struct.pack('<HHII4x', cccid, ttag, offset, len(data) if length is None else length)
        return self.seal(H2CDATA, LAST if last else 0, body, data, **spoil)

    # ---- PDUs in

    def recv_pdu(self, timeout=None):
        deadline = time.monotonic() + (self.timeout if timeout is None else timeout)
        self.fill(8, deadline)
        kind, flags, hlen, pdo, plen = struct.unpack_from('<BBBBI', self.buf)
        if kind not in (ICRESP, C2HTERM, CAPRESP, C2HDATA, R2T):
            raise Violation('PDU type %d from a controller' % kind)
        if hlen != HLEN[kind] or plen < hlen or plen > 4 << 20:
            raise Violation('HLEN %d PLEN %d of type %d' % (hlen, plen, kind))
        self.fill(plen, deadline)
        pdu = Pdu(bytes(self.buf[:plen]))
        del self.buf[:plen]
        self.judge(pdu)
        return pdu

    def judge(self, pdu):
        raw = pdu.raw
        if pdu.type in (ICRESP, C2HTERM):
            if pdu.flags:
                raise Violation('flags %02Xh in type %d' % (pdu.flags, pdu.type))
            pdu.data = raw[pdu.hlen:]
            return
        allowed = HDGSTF | (DDGSTF | LAST | SUCCESS if pdu.type == C2HDATA else 0)
        if pdu.flags & ~allowed or bool(pdu.flags & HDGSTF) != self.hdgst:
            raise Violation('flags %02Xh in type %d' % (pdu.flags, pdu.type))
        end = pdu.hlen
        if self.hdgst:
            if pdu.u32(end) != crc32c(raw[:end]):
                raise Violation('header digest of type %d' % pdu.type)
            end += 4
        if pdu.type != C2HDATA:
            if pdu.plen != end:
                raise Violation('PLEN %d of type %d without data' % (pdu.plen, pdu.type))
            return
        tail = 4 if self.ddgst else 0
        if bool(pdu.flags & DDGSTF) != self.ddgst:
            raise Violation('DDGSTF of a C2HData')
        if pdu.pdo < end or pdu.pdo % ((self.hpda + 1) * 4) or pdu.pdo - end >= 128:
            raise Violation('PDO %d with HPDA %d' % (pdu.pdo, self.hpda))
        pdu.data = raw[pdu.pdo:pdu.plen - tail]
        if len(pdu.data) != pdu.length or not pdu.data:
            raise Violation('DATAL %d but %d bytes of data' % (pdu.length, len(pdu.data)))
        if tail and struct.unpack('<I', raw[-4:])[0] != crc32c(pdu.data):
            raise Violation('data digest of a C2HData')
        if pdu.flags & SUCCESS and not pdu.flags & LAST:
            raise Violation('SUCCESS without LAST_PDU')

    # ---- commands

    def cid(self):
        for _ in range(65536):
            cid = self.next_cid
            self.next_cid = self.next_cid + 1 & 0xffff
            if cid not in self.inflight:
                return cid
        raise AssertionError('no free command identifier')

    def track(self, cid, entry, write_data=b'', read_bytes=0):
        cmd = Cmd(cid, entry, write_data, read_bytes)
        self.inflight[cid] = cmd
        return cmd

    def submit(self, opcode, nsid=0, data=b'', read_bytes=0, way='auto', is_auto=True, sgl=None,
               cid=None, send=True, spoil_ddgst=False, **fields):
        """
        Starts a command. `way` says how `data` travels: capsule, r2t, or auto (in the capsule when it fits).
        pump() answers an R2T when is_auto.
        """
        cid = self.cid() if cid is None else cid
        in_capsule = b''
        if sgl is None:
            if data and (way == 'capsule' or way == 'auto' and len(data) <= self.capsule_max):
                in_capsule, sgl = data, sgl_capsule(len(data))
            elif data:
                sgl = sgl_transport(len(data))
            elif read_bytes:
                sgl = sgl_transport(read_bytes)
            else:
                sgl = sgl_none()
        elif way == 'capsule':
            in_capsule = data
        cmd = self.track(cid, sqe(opcode, cid, nsid, sgl, **fields), data, read_bytes)
        cmd.is_auto = is_auto
        cmd.wire = self.capsule(cmd.entry, in_capsule, spoil_ddgst=spoil_ddgst)
        if send:
            self.send(cmd.wire)
        return cmd

    def submit_fabrics(self, fctype, body, data=b'', sgl=None, way='capsule', send=True,
                       flags=0x40):
        cid = self.cid()
        if sgl is None:
            sgl = sgl_none() if not data else \
                sgl_capsule(len(data)) if way == 'capsule' else sgl_transport(len(data))
        cmd = self.track(cid, fabrics_sqe(fctype, cid, body, sgl, flags), data)
        cmd.wire = self.capsule(cmd.entry, data if way == 'capsule' else b'')
        if send:
            self.send(cmd.wire)
        return cmd

    def answer_r2t(self, cmd, r2t, chunk=None, spoil_ddgst=False):
        chunk = min(chunk or self.maxh2cdata, self.maxh2cdata)
        end = r2t.offset + r2t.length
        at = r2t.offset
        while at < end:
            part = cmd.write_data[at:min(at + chunk, end)]
            self.send(self.h2cdata(cmd.cid, r2t.ttag, at, part, at + len(part) == end,
                                   spoil_ddgst=spoil_ddgst))
            at += len(part)

    def take(self, pdu):
        """Adds a PDU to its command; returns the command."""
        if pdu.type == C2HTERM:
            raise Closed('TermReq: FES %d FEI %d' % (pdu.fes, pdu.fei))
        if pdu.type not in (CAPRESP, C2HDATA, R2T):
            raise Violation('type %d after initialization' % pdu.type)
        cid = pdu.u16(20) if pdu.type == CAPRESP else pdu.cccid
        cmd = self.inflight.get(cid)
        if cmd is None:
            raise Violation('type %d for command %d, which is not in flight' % (pdu.type, cid))
        cmd.pdus.append(pdu)
        if pdu.type == R2T:
            if pdu.offset + pdu.length > len(cmd.write_data) or pdu.length == 0:
                raise Violation('R2T of %d at %d' % (pdu.length, pdu.offset))
            cmd.r2ts.append(pdu)
            if cmd.is_auto:
                self.answer_r2t(cmd, pdu)
        elif pdu.type == C2HDATA:
            if pdu.offset != len(cmd.data) or len(cmd.data) + len(pdu.data) > cmd.read_bytes:
                raise Violation('C2HData of %d at %d' % (pdu.length, pdu.offset))
            cmd.data += pdu.data
            if bool(pdu.flags & LAST) != (len(cmd.data) == cmd.read_bytes):
                raise Violation('LAST_PDU before or behind the end')
            if pdu.flags & SUCCESS:
                cmd.by_flag = True
                self.finish(cmd)
        else:
            cmd.dw0, cmd.dw1, cmd.sqhd, _, _, status = struct.unpack_from('<IIHHHH', pdu.raw, 8)
            cmd.sc, cmd.sct = status >> 1 & 0xff, status >> 9 & 7
            cmd.crd, cmd.more, cmd.dnr = status >> 12 & 3, status >> 14 & 1, status >> 15 & 1
            self.finish(cmd)
        return cmd

    def finish(self, cmd):
        cmd.is_done = True
        del self.inflight[cmd.cid]
        if cmd.status == OK and len(cmd.data) != cmd.read_bytes:
            raise Violation('%d of %d bytes read' % (len(cmd.data), cmd.read_bytes))

    def pump(self, timeout=None):
        return self.take(self.recv_pdu(timeout))

    def wait(self, cmd, timeout=None):
        deadline = time.monotonic() + (self.timeout if timeout is None else timeout)
        while not cmd.is_done:
            self.pump(max(0.0, deadline - time.monotonic()))
        return cmd

    def wait_r2t(self, cmd, timeout=None):
        deadline = time.monotonic() + (self.timeout if timeout is None else timeout)
        while not cmd.r2ts and not cmd.is_done:
            self.pump(max(0.0, deadline - time.monotonic()))
        if not cmd.r2ts:
            raise Violation('no R2T but status %s' % (cmd.status,))
        return cmd.r2ts[0]

    def do(self, *args, **kwargs):
        return self.wait(self.submit(*args, **kwargs))

    def fabrics(self, *args, **kwargs):
        return self.wait(self.submit_fabrics(*args, **kwargs))

    # ---- Fabrics

    def connect(self, subnqn, qid=0, sqsize=31, kato_ms=0, cattr=0, recfmt=0, hostnqn=HOST_NQN,
                hostid=HOST_ID, cntlid=0xffff, way='capsule'):
        return self.connect_wait(self.connect_send(subnqn, qid, sqsize, kato_ms, cattr, recfmt, hostnqn, hostid, cntlid, way),
                                 qid, sqsize, cattr)

    def connect_send(self, subnqn, qid, sqsize, kato_ms, cattr, recfmt, hostnqn, hostid, cntlid, way='capsule'):
        return self.submit_fabrics(CONNECT, connect_body(qid, sqsize, kato_ms, cattr, recfmt),
                                   connect_data(subnqn, hostnqn, hostid, cntlid), way=way)

    def connect_wait(self, cmd, qid, sqsize, cattr):
        self.wait(cmd)
        if cmd.status == OK:
            self.qid = qid
            self.sqsize = sqsize
            self.has_flow_control = not cattr & 4
        return cmd

    def get_property(self, offset, size=None):
        attrib = (1 if offset == CAP else 0) if size is None else size
        return self.fabrics(PROPERTY_GET, struct.pack('<B3xI', attrib, offset))

    def set_property(self, offset, value, size=0):
        return self.fabrics(PROPERTY_SET, struct.pack('<B3xIQ', size, offset, value))

    def csts_until(self, want, mask, timeout=TIMEOUT_S):
        """Reads CSTS until the masked bits are as wanted; returns its last value."""
        deadline = time.monotonic() + timeout
        while True:
            value = self.get_property(CSTS).dw0
            if value & mask == want or time.monotonic() > deadline:
                return value
            time.sleep(0.002)  # poll with a deadline

    def enable(self, cc=CC_ENABLE):
        self.set_property(CC, cc)
        return self.csts_until(1, 1)

    # ---- shorthands

    def identify(self, cns, nsid=0, cntid=0, csi=0, **kwargs):
        return self.do(IDENTIFY, nsid, read_bytes=4096, cdw10=cns | cntid << 16, cdw11=csi << 24,
                       **kwargs)

    def get_log(self, lid, length, offset=0, lsp=0, rae=0, nsid=0xffffffff, cdw14=0):
        numd = length // 4 - 1
        return self.do(GET_LOG, nsid, read_bytes=length,
                       cdw10=lid | lsp << 8 | rae << 15 | (numd & 0xffff) << 16, cdw11=numd >> 16,
                       cdw12=offset & 0xffffffff, cdw13=offset >> 32, cdw14=cdw14)

    def get_feature(self, fid, sel=0, read_bytes=0, nsid=0, **fields):
        return self.do(GET_FEATURES, nsid, cdw10=fid | sel << 8, read_bytes=read_bytes, **fields)

    def set_feature(self, fid, cdw11=0, data=b'', save=0, nsid=0):
        return self.do(SET_FEATURES, nsid, data=data, cdw10=fid | save << 31, cdw11=cdw11)

    def rw(self, opcode, nsid, lba, blocks, block, data=b'', cdw12=0, **kwargs):
        read_bytes = blocks * block if opcode == READ else 0
        return self.submit(opcode, nsid, data=data, read_bytes=read_bytes, cdw10=lba & 0xffffffff,
                           cdw11=lba >> 32, cdw12=blocks - 1 | cdw12, **kwargs)

    def read(self, nsid, lba, blocks, block=512, **kwargs):
        return self.wait(self.rw(READ, nsid, lba, blocks, block, **kwargs))

    def put(self, nsid, lba, data, block=512, **kwargs):
        return self.wait(self.rw(WRITE, nsid, lba, len(data) // block, block, data, **kwargs))


class Host:
    """A controller with its admin queue, and I/O queues on demand."""

    def __init__(self, address, subnqn, hostnqn=HOST_NQN, hostid=HOST_ID, kato_ms=0, cattr=0,
                 enable=True, source=None, **ic):
        self.address, self.subnqn, self.hostnqn, self.hostid = address, subnqn, hostnqn, hostid
        self.ic, self.source = ic, source
        self.queues = {}
        self.admin = Conn(address, source)
        self.admin.ic(**ic)
        cmd = self.admin.connect(subnqn, 0, 31, kato_ms, cattr, hostnqn=hostnqn, hostid=hostid)
        if cmd.status != OK:
            raise Violation('Connect: status %d/%02Xh' % cmd.status)
        self.cntlid = cmd.dw0 & 0xffff
        if enable and not self.admin.enable() & 1:
            raise Violation('the controller does not become ready')

    def queue(self, qid=1, sqsize=127, cattr=4, **ic):
        conn = Conn(self.address, self.source)
        conn.ic(**(ic or self.ic))
        cmd = conn.connect(self.subnqn, qid, sqsize, 0, cattr, hostnqn=self.hostnqn,
                           hostid=self.hostid, cntlid=self.cntlid)
        if cmd.status != OK:
            raise Violation('I/O Connect: status %d/%02Xh' % cmd.status)
        self.queues[qid] = conn
        return conn

    def many_queues(self, qids, sqsize=127, cattr=4):
        """
        Connects all queues in parallel, step by step: on a busy machine, one round trip after another takes
        long.
        """
        conns = {qid: Conn(self.address, self.source) for qid in qids}
        self.queues.update(conns)
        for conn in conns.values():
            conn.ic_send(**self.ic)
        for conn in conns.values():
            conn.ic_wait(self.ic.get('hpda', 0))
        cmds = {qid: conn.connect_send(self.subnqn, qid, sqsize, 0, cattr, 0, self.hostnqn, self.hostid, self.cntlid)
                for qid, conn in conns.items()}
        for qid, conn in conns.items():
            if conn.connect_wait(cmds[qid], qid, sqsize, cattr).status != OK:
                raise Violation('I/O Connect: status %d/%02Xh' % cmds[qid].status)
        return list(conns.values())

    def close(self):
        for conn in self.queues.values():
            conn.close()
        self.admin.close()

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.close()
