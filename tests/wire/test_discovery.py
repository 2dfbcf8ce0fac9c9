#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
The discovery service: its controller, what the controller refuses, and the discovery log for each host on
each port. NVMe Base 2.1, sections 3.1.2.3, 5.1.12.3.1 and 8.3.
"""

import struct

import nvmetcp as n
import target
from tap import Tap

SECOND = 'nqn.2026-11.io.weft:second'
PRIVATE = 'nqn.2026-11.io.weft:private'
FRIEND = 'nqn.2026-11.io.weft:friend'
LOG = 'Base 5.1.12.3.1'


class Entry:
    def __init__(self, raw):
        self.trtype, self.adrfam, self.subtype, self.treq = raw[:4]
        self.portid, self.cntlid, self.asqsz, self.eflags = struct.unpack_from('<4H', raw, 4)
        self.trsvcid = raw[32:64].rstrip(b' \0').decode()
        self.subnqn = raw[256:512].rstrip(b'\0').decode()
        self.traddr = raw[512:768].rstrip(b' \0').decode()
        self.tsas = raw[768:1024]


def read_log(admin):
    head = bytes(admin.get_log(0x70, 1024).data)
    genctr, numrec, recfmt = struct.unpack_from('<QQH', head)
    raw = bytes(admin.get_log(0x70, 1024 * (numrec + 1)).data)
    entries = [Entry(raw[1024 * i:1024 * (i + 1)]) for i in range(1, numrec + 1)]
    return genctr, recfmt, entries, raw


def discover(address, **kwargs):
    with n.Host(address, n.DISCOVERY_NQN, **kwargs) as host:
        return read_log(host.admin)


def entries(t, tgt):
    genctr, recfmt, found, raw = discover(tgt.address)
    t.eq(recfmt, 0, 'RECFMT 0', LOG)
    t.ok(genctr > 0, 'GENCTR', LOG, genctr)
    mine = [e for e in found if e.subtype == 2]
    t.eq(sorted((e.subnqn, e.portid) for e in mine), [(SECOND, 2), (target.NQN, 1)],
         'one entry per port and subsystem that the host may use', LOG)
    t.eq([e.subnqn for e in found if e.subtype == 3], [n.DISCOVERY_NQN],
         'one entry for this discovery service', LOG)
    t.ok(all((e.trtype, e.adrfam, e.cntlid) == (3, 1, 0xffff) for e in found),
         'TRTYPE TCP, ADRFAM IPv4, CNTLID FFFFh', LOG)
    t.ok(all(32 <= e.asqsz <= 1024 for e in found), 'ASQSZ at least 32', LOG)
    t.ok(all(e.tsas[0] == 0 for e in found), 'TSAS: no TLS', 'TCP 3.1.1')
    by_nqn = {e.subnqn: e for e in mine}
    t.eq((by_nqn[target.NQN].traddr, by_nqn[target.NQN].trsvcid), ('127.0.0.1', str(tgt.port)),
         'TRADDR and TRSVCID of the port', LOG)
    t.eq(by_nqn[SECOND].traddr, '127.0.0.2', 'TRADDR of the other port', LOG)
    with n.Host((by_nqn[SECOND].traddr, int(by_nqn[SECOND].trsvcid)), SECOND) as host:
        t.ok(host.cntlid, 'an entry can be connected to', LOG)
    found = discover(tgt.address, hostnqn=FRIEND)[2]
    t.eq(sorted(e.subnqn for e in found if e.subtype == 2), [PRIVATE, SECOND, target.NQN],
         'a host that is allowed more sees more', LOG)
    found = discover(('127.0.0.2', tgt.port))[2]
    t.eq(sorted(e.subnqn for e in found if e.subtype == 2), [SECOND, target.NQN],
         'the other port tells the same', LOG)


def windows(t, tgt):
    with tgt.host(n.DISCOVERY_NQN) as host:
        raw = read_log(host.admin)[3]
        parts = b''.join(bytes(host.admin.get_log(0x70, 256, at, rae=1).data)
                         for at in range(0, len(raw), 256))
        t.eq(parts, raw, 'the log in windows of 256 bytes', 'Base 5.1.12, LPO')
        t.eq(bytes(host.admin.get_log(0x70, len(raw) + 1024).data), raw + bytes(1024),
             'zeroes behind its end', 'Base 5.1.12')
        t.status(host.admin.get_log(0x70, 64, 1 << 20), n.INVALID_FIELD, 'an offset behind its end',
                 'Base 5.1.12, LPO')
        for bit, name in ((1, 'extended entries'), (2, 'entries of this port only'), (4, 'all subsystems')):
            t.status(host.admin.get_log(0x70, 1024, lsp=bit), n.INVALID_FIELD, 'LSP: %s, which page 0 does not offer' %
                     name, LOG)
        offered = struct.unpack_from('<I', bytes(host.admin.get_log(0, 1024).data), 0x70 * 4)[0]
        t.eq(offered, 1, 'page 0: the discovery log, without any of its options', 'Base 5.1.12.1.1')


def generation(t, tgt):
    with tgt.host(n.DISCOVERY_NQN) as host:
        first = read_log(host.admin)[0]
        t.eq(read_log(host.admin)[0], first, 'GENCTR stays while nothing changes', LOG)
        tgt.reload(lambda config: config['ports'][1].update(subsystems=[SECOND, target.NQN]))
        genctr, _, found, _ = read_log(host.admin)
        t.ok(genctr > first, 'GENCTR rises with a change', LOG)
        t.eq(sum(e.subnqn == target.NQN for e in found), 2, 'a second path appears', LOG)
        tgt.reload(lambda config: config['ports'][1].update(subsystems=[SECOND]))


def controller(t, tgt):
    with tgt.host(n.DISCOVERY_NQN) as host:
        admin = host.admin
        page = bytes(admin.identify(1).data)
        t.eq(page[111], 2, 'CNTRLTYPE: discovery controller', 'Base 5.1.13.2.1')
        t.eq(page[768:1024].rstrip(b'\0'), n.DISCOVERY_NQN.encode(), 'SUBNQN', 'Base 3.1.2.3')
        t.ok(struct.unpack_from('<I', page, 92)[0] & 1 << 31, 'OAES: discovery log change',
             'Base 5.1.13.2.1')
        t.ok(page[261] & 4, 'LPA: offsets', 'Base 5.1.13.2.1')
        rows = [
            ('Identify CNS 00h', lambda: admin.identify(0, 1), n.INVALID_FIELD),
            ('Identify CNS 02h', lambda: admin.identify(2), n.INVALID_FIELD),
            ('Identify CNS 03h', lambda: admin.identify(3, 1), n.INVALID_FIELD),
            ('log page 0Ch (ANA)', lambda: admin.get_log(0x0c, 64), n.INVALID_LOG_PAGE),
            ('log page 04h', lambda: admin.get_log(4, 64), n.INVALID_LOG_PAGE),
            ('Get Features 07h', lambda: admin.get_feature(7), n.INVALID_FIELD),
            ('Set Features 07h', lambda: admin.set_feature(7, 1), n.INVALID_FIELD),
            ('Get Features 06h', lambda: admin.get_feature(6), n.INVALID_FIELD),
            ('Abort', lambda: admin.do(n.ABORT), n.INVALID_OPCODE),
            ('Format NVM', lambda: admin.do(0x80), n.INVALID_OPCODE),
        ]
        for name, do, want in rows:
            t.status(do(), want, name + ' on a discovery controller', 'Base 3.1.3.4, 3.1.3.5')
        for lid in (0, 1):
            t.status(admin.get_log(lid, 64), n.OK, 'log page %02Xh' % lid, 'Base 3.1.3.5')
        t.status(admin.do(n.KEEP_ALIVE), n.OK, 'Keep Alive', 'Base 3.1.3.4')
        with tgt.conn() as conn:
            conn.ic()
            cmd = conn.connect(n.DISCOVERY_NQN, 1, cntlid=host.cntlid)
            t.status(cmd, n.CONNECT_INVALID, 'an I/O queue of a discovery controller',
                     'Base 3.1.2.3')
            t.eq(cmd.dw0, 42, 'an I/O queue of a discovery controller: IPO names QID', 'Base 6.3')
    with tgt.host(enable=False) as host:
        t.status(host.admin.set_property(n.CC, n.CC_ENABLE), n.OK, 'an I/O controller beside it')
        t.status(host.admin.get_log(0x70, 1024), n.INVALID_LOG_PAGE,
                 'log page 70h on an I/O controller', 'Base 3.1.3.5')


def plain_cc(t, tgt):
    """A discovery controller ignores the entry sizes of I/O queues in CC."""
    with tgt.host(n.DISCOVERY_NQN, enable=False) as host:
        t.eq(host.admin.enable(1) & 3, 1, 'CC.EN alone enables a discovery controller',
             'Base 3.1.4.5, IOSQES')


def well_known_port(t):
    """Port 8009 in addition to the listeners, on an otherwise unused address."""
    address = '127.98.7.6'
    port = target.free_port(address)
    config = target.config_of(port, ports=[{'id': 1, 'address': address, 'service': str(port)}])
    tgt = target.Target(config=config, port=port, address=address, args=())
    try:
        with t.guard('port 8009'):
            found = discover((address, 8009))[2]
            t.eq([(e.subnqn, e.trsvcid) for e in found if e.subtype == 2],
                 [(target.NQN, str(port))], 'discovery answers on port 8009', 'Base 8.3.2, TCP 3.1')
            t.eq([e.trsvcid for e in found if e.subtype == 3], ['8009'],
                 'and tells its own port', LOG)
            with n.Conn((address, 8009)) as conn:
                conn.ic()
                cmd = conn.connect(target.NQN)
                t.status(cmd, n.CONNECT_INVALID, 'port 8009 offers no I/O subsystem', 'Base 6.3')
    finally:
        tgt.finish(t)


def test(t, tgt):
    for part in (entries, windows, generation, controller, plain_cc):
        with t.guard(part.__name__):
            part(t, tgt)
    well_known_port(t)


def start():
    port = target.free_port()
    subsystems = [
        {'nqn': target.NQN, 'serial': 'A', 'allow_any_host': True,
         'namespaces': [target.namespace(1, 'mem:1M,block=512')]},
        {'nqn': PRIVATE, 'serial': 'B', 'hosts': [FRIEND], 'namespaces': []},
        {'nqn': SECOND, 'serial': 'C', 'allow_any_host': True, 'namespaces': []},
    ]
    ports = [
        {'id': 1, 'address': '127.0.0.1', 'service': str(port),
         'subsystems': [target.NQN, PRIVATE]},
        {'id': 2, 'address': '127.0.0.2', 'service': str(port), 'subsystems': [SECOND]},
    ]
    config = target.config_of(port, subsystems=subsystems, ports=ports)
    target.run(Tap(), test, config=config, port=port)


start()
