#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Connect and Disconnect: what is accepted, and every refusal with the parameter in the response (IPO in DW0
15:0, IATTR in bit 16). NVMe Base 2.1, sections 3.3.2.2, 6.3 and 6.4.
"""

import struct

import nvmetcp as n
import target
from tap import Tap

PRIVATE = 'nqn.2026-11.io.weft:private'
OTHER_PORT = 'nqn.2026-11.io.weft:elsewhere'
FRIEND = 'nqn.2026-11.io.weft:friend'
IN_DATA = 1 << 16
LONGEST = 'nqn.2026-11.io.weft:' + 'x' * 203

# name, Connect arguments, status, DW0 (None: not checked), section
ADMIN_REJECTS = [
    ('RECFMT 1', dict(recfmt=1), n.INCOMPATIBLE_FORMAT, None, 'Base 6.3, RECFMT'),
    ('RECFMT FFFFh', dict(recfmt=0xffff), n.INCOMPATIBLE_FORMAT, None, 'Base 6.3, RECFMT'),
    ('unknown subsystem', dict(subnqn='nqn.2026-11.io.weft:nobody'), n.CONNECT_INVALID,
     256 | IN_DATA, 'Base 6.3, SUBNQN'),
    ('unknown subsystem of 223 bytes', dict(subnqn=LONGEST), n.CONNECT_INVALID, 256 | IN_DATA,
     'Base 6.3, SUBNQN'),
    ('subsystem that this port does not offer', dict(subnqn=OTHER_PORT), n.CONNECT_INVALID,
     256 | IN_DATA, 'Base 6.3, SUBNQN'),
    ('empty SUBNQN', dict(subnqn=''), n.CONNECT_INVALID, 256 | IN_DATA, 'Base 4.7'),
    ('SUBNQN without end', dict(subnqn=b'n' * 256), n.CONNECT_INVALID, 256 | IN_DATA, 'Base 4.7'),
    ('SUBNQN of 224 bytes', dict(subnqn=LONGEST + 'x'), n.CONNECT_INVALID, 256 | IN_DATA,
     'Base 4.7'),
    ('SUBNQN that is no NQN', dict(subnqn='not-an-nqn'), n.CONNECT_INVALID, 256 | IN_DATA,
     'Base 4.7'),
    ('SUBNQN followed by a letter', dict(subnqn=target.NQN + 'x'), n.CONNECT_INVALID,
     256 | IN_DATA, 'Base 6.3, SUBNQN'),
    ('SUBNQN in capitals', dict(subnqn=target.NQN.upper()), n.CONNECT_INVALID, 256 | IN_DATA,
     'Base 4.7'),
    ('empty HOSTNQN', dict(hostnqn=''), n.CONNECT_INVALID, 512 | IN_DATA, 'Base 4.7'),
    ('HOSTNQN without end', dict(hostnqn=b'n' * 256), n.CONNECT_INVALID, 512 | IN_DATA,
     'Base 4.7'),
    ('HOSTNQN that is no NQN', dict(hostnqn='nqn.'), n.CONNECT_INVALID, 512 | IN_DATA,
     'Base 4.7'),
    ('host that is not allowed', dict(subnqn=PRIVATE), n.CONNECT_HOST, None,
     'Base 6.3, Connect Invalid Host'),
    ('CNTLID 1 for a dynamic controller', dict(cntlid=1), n.CONNECT_INVALID, 16 | IN_DATA,
     'Base 6.3, CNTLID'),
    ('CNTLID FFFEh for a dynamic controller', dict(cntlid=0xfffe), n.CONNECT_INVALID,
     16 | IN_DATA, 'Base 6.3, CNTLID'),
    ('SQSIZE 0', dict(sqsize=0), n.CONNECT_INVALID, 44, 'Base 6.3, SQSIZE'),
    ('SQSIZE above CAP.MQES', dict(sqsize=128), n.CONNECT_INVALID, 44, 'Base 6.3, SQSIZE'),
    ('SQSIZE FFFFh', dict(sqsize=0xffff), n.CONNECT_INVALID, 44, 'Base 6.3, SQSIZE'),
    ('KATO beyond what is allowed', dict(kato_ms=600001), n.CONNECT_INVALID, 48,
     'Base 6.3, KATO'),
]

ADMIN_ACCEPTS = [
    ('the usual', dict(), 'Base 6.3'),
    ('SQSIZE equal to CAP.MQES', dict(sqsize=127), 'Base 6.3, SQSIZE'),
    ('SQSIZE 1', dict(sqsize=1), 'Base 6.3, SQSIZE'),
    ('KATO at the limit', dict(kato_ms=600000), 'Base 6.3, KATO'),
    ('reserved CATTR bits', dict(cattr=0xf0), 'Base 1.4.1'),
    ('a host that is allowed', dict(subnqn=PRIVATE, hostnqn=FRIEND), 'Base 6.3'),
    ('discovery', dict(subnqn=n.DISCOVERY_NQN), 'Base 3.1.2.3'),
    ('data by R2T', dict(way='r2t'), 'TCP 3.4'),
    ('SUBNQN with rubbish behind its end',
     dict(subnqn=target.NQN.encode() + b'\0' + b'\xff' * 100), 'Base 4.7'),
]


def connect_args(args):
    return dict({'subnqn': target.NQN}, **args)


def admin_rejects(t, tgt):
    for name, args, status, dw0, spec in ADMIN_REJECTS:
        with t.guard(name, spec), tgt.conn() as conn:
            conn.ic()
            cmd = conn.connect(**connect_args(args))
            t.status(cmd, status, name, spec)
            if dw0 is not None:
                t.eq(cmd.dw0, dw0, name + ': IPO and IATTR', 'Base 6.3, Connect response')
            # The queue does not exist yet: another Connect may follow.
            t.status(conn.connect(target.NQN), n.OK, name + ': a right Connect may follow',
                     'Base 6.3')


def admin_accepts(t, tgt):
    for name, args, spec in ADMIN_ACCEPTS:
        with t.guard(name, spec), tgt.conn() as conn:
            conn.ic()
            cmd = conn.connect(**connect_args(args))
            t.status(cmd, n.OK, name + ' is accepted', spec)
            t.ok(0 < cmd.dw0 & 0xffff <= 0xffef and cmd.dw0 >> 16 == 0,
                 name + ': a controller identifier, no authentication asked for',
                 'Base 6.3, Connect response', hex(cmd.dw0))


def flow_control(t, tgt):
    with t.guard('SQ flow control disabled'), tgt.conn() as conn:
        conn.ic()
        t.eq(conn.connect(target.NQN, cattr=4).sqhd, 0xffff,
             'CATTR bit 2: SQHD FFFFh grants it', 'Base 6.3, CATTR')
    with t.guard('SQ flow control'), tgt.conn() as conn:
        conn.ic()
        t.ok(conn.connect(target.NQN).sqhd != 0xffff, 'without it SQHD is a head pointer',
             'Base 6.3, CATTR')


def sequence(t, tgt):
    """Commands that may not be first, and commands that may not be second. Base 3.3.2.2."""
    first = [
        ('Identify', lambda c: c.identify(1)),
        ('Get Log Page', lambda c: c.get_log(2, 512)),
        ('Keep Alive', lambda c: c.do(n.KEEP_ALIVE)),
        ('Asynchronous Event Request', lambda c: c.do(n.AER)),
        ('Property Get', lambda c: c.get_property(n.CAP)),
        ('Property Set', lambda c: c.set_property(n.CC, n.CC_ENABLE)),
        ('Disconnect', lambda c: c.fabrics(n.DISCONNECT, b'')),
        ('Read', lambda c: c.read(1, 0, 1)),
    ]
    for name, do in first:
        with t.guard(name), tgt.conn() as conn:
            conn.ic()
            t.status(do(conn), n.CMD_SEQUENCE, name + ' before Connect', 'Base 3.3.2.2')
    with t.guard('second Connect'), tgt.conn() as conn:
        conn.ic()
        conn.connect(target.NQN)
        t.status(conn.connect(target.NQN), n.CMD_SEQUENCE, 'second Connect on an admin queue',
                 'Base 6.3')
        conn.enable()
        t.status(conn.identify(1), n.OK, 'and the queue works on', 'Base 6.3')
    with t.guard('second I/O Connect'), tgt.host() as host:
        conn = host.queue()
        t.status(conn.connect(target.NQN, 1, cntlid=host.cntlid), n.CMD_SEQUENCE,
                 'second Connect on an I/O queue', 'Base 6.3')
        t.status(conn.read(1, 0, 1), n.OK, 'and that queue works on too', 'Base 6.3')


def lengths(t, tgt):
    data = n.connect_data(target.NQN)
    rows = [
        ('512 bytes of Connect data', data[:512], n.sgl_capsule(512)),
        ('1028 bytes of Connect data', data + bytes(4), n.sgl_capsule(1028)),
        ('SGL longer than the capsule', data, n.sgl_capsule(1028)),
        ('no Connect data', b'', n.sgl_none()),
    ]
    for name, sent, sgl in rows:
        with t.guard(name), tgt.conn() as conn:
            conn.ic()
            cmd = conn.fabrics(n.CONNECT, n.connect_body(), sent, sgl=sgl)
            t.status(cmd, n.SGL_LENGTH, name, 'Base 4.2.3.1, Data SGL Length Invalid')
            t.status(conn.connect(target.NQN), n.OK, name + ': a right Connect may follow',
                     'Base 6.3')


def io_rejects(t, tgt):
    with tgt.host() as host, tgt.host(hostnqn=FRIEND) as other:
        conn = host.queue(1)
        rows = [
            ('QID beyond the limit', dict(qid=5), (n.CONNECT_INVALID,), 42, 'Base 6.3, QID'),
            ('QID FFFFh', dict(qid=0xffff), (n.CONNECT_INVALID,), 42, 'Base 6.3, QID'),
            ('QID in use', dict(qid=1), (n.CMD_SEQUENCE,), None, 'Base 3.3.2.2'),
            ('CNTLID of nobody', dict(cntlid=0xff00), (n.CONNECT_INVALID,), 16 | IN_DATA,
             'Base 6.3, CNTLID'),
            ('CNTLID FFFFh', dict(cntlid=0xffff), (n.CONNECT_INVALID,), 16 | IN_DATA,
             'Base 6.3, CNTLID'),
            ('CNTLID 0', dict(cntlid=0), (n.CONNECT_INVALID,), 16 | IN_DATA, 'Base 6.3, CNTLID'),
            ("another host's controller", dict(cntlid=other.cntlid), (n.CONNECT_INVALID,),
             512 | IN_DATA, 'Base 6.3, HOSTNQN'),
            ('another HOSTNQN', dict(hostnqn=FRIEND), (n.CONNECT_INVALID,), 512 | IN_DATA,
             'Base 6.3, HOSTNQN'),
            ('another HOSTID', dict(hostid=bytes(16)), (n.CONNECT_INVALID,), 0 | IN_DATA,
             'Base 6.3, HOSTID'),
            ('another SUBNQN', dict(subnqn=PRIVATE, hostnqn=FRIEND, cntlid=other.cntlid),
             (n.CONNECT_INVALID,), 256 | IN_DATA, 'Base 6.3, SUBNQN'),
            ('SQSIZE 0', dict(sqsize=0), (n.CONNECT_INVALID,), 44, 'Base 6.3, SQSIZE'),
            ('SQSIZE above CAP.MQES', dict(sqsize=128), (n.CONNECT_INVALID,), 44,
             'Base 6.3, SQSIZE'),
            ('RECFMT 1', dict(recfmt=1), (n.INCOMPATIBLE_FORMAT,), None, 'Base 6.3, RECFMT'),
        ]
        for name, args, statuses, dw0, spec in rows:
            name = 'I/O queue: ' + name
            with t.guard(name, spec), tgt.conn() as bad:
                bad.ic()
                cmd = bad.connect(**dict({'subnqn': target.NQN, 'qid': 2,
                                          'cntlid': host.cntlid}, **args))
                t.ok(cmd.status in statuses, name, spec, 'got %d/%02Xh' % cmd.status)
                if dw0 is not None:
                    t.eq(cmd.dw0, dw0, name + ': IPO and IATTR', 'Base 6.3, Connect response')
        t.status(conn.read(1, 0, 1), n.OK, 'the queue that exists is untouched', 'Base 6.3')
        statuses = [host.queue(qid).read(1, 0, 1).status for qid in (2, 3, 4)]
        t.eq(statuses, [n.OK] * 3, 'the other three I/O queues connect and work', 'Base 6.3, QID')


def granted(t, tgt):
    with t.guard('granted'), tgt.host() as host:
        host.admin.set_feature(7, 0x00010001)
        host.queue(2)
        with tgt.conn() as conn:
            conn.ic()
            cmd = conn.connect(target.NQN, 3, cntlid=host.cntlid)
            t.status(cmd, n.CONNECT_INVALID, 'QID beyond what Set Features granted',
                     'Base 5.1.25.2.1')
            t.eq(cmd.dw0, 42, 'QID beyond what was granted: IPO', 'Base 6.3')


def before_enable(t, tgt):
    with t.guard('before enable'), tgt.host(enable=False) as host, tgt.conn() as conn:
        conn.ic()
        cmd = conn.connect(target.NQN, 1, cntlid=host.cntlid)
        t.status(cmd, n.CMD_SEQUENCE, 'I/O queue before CC.EN', 'Base 3.3.2.2')
        host.admin.enable()
        cmd = conn.connect(target.NQN, 1, cntlid=host.cntlid)
        t.status(cmd, n.OK, 'and after it', 'Base 3.3.2.2')


def disconnect(t, tgt):
    with t.guard('Disconnect'), tgt.host() as host:
        conn = host.queue(1)
        cmd = conn.fabrics(n.DISCONNECT, struct.pack('<H', 1))
        t.status(cmd, n.INCOMPATIBLE_FORMAT, 'Disconnect with RECFMT 1', 'Base 6.4')
        t.status(host.admin.fabrics(n.DISCONNECT, b''), n.INVALID_QUEUE_TYPE,
                 'Disconnect on the admin queue', 'Base 6.4')
        t.status(conn.fabrics(n.DISCONNECT, b''), n.OK, 'Disconnect', 'Base 6.4')
        t.ok(conn.wait_closed(), 'Disconnect: the connection ends', 'TCP 3.3')

        def again():
            try:
                host.queue(1)
                return True
            except n.Violation:
                return False
        t.ok(target.poll(again), 'the QID is free again', 'Base 6.4')
        t.status(host.queues[1].read(1, 0, 1), n.OK, 'and works', 'Base 6.4')


def many_hosts(t, tgt):
    with t.guard('several controllers'):
        hosts = [tgt.host(hostnqn=FRIEND, hostid=bytes([i]) * 16) for i in range(8)]
        ids = {host.cntlid for host in hosts}
        t.eq(len(ids), 8, 'eight controllers have eight identifiers', 'Base 3.1.2')
        for host in hosts:
            host.close()


def test(t, tgt):
    admin_rejects(t, tgt)
    admin_accepts(t, tgt)
    flow_control(t, tgt)
    sequence(t, tgt)
    lengths(t, tgt)
    with t.guard('I/O Connect'):
        io_rejects(t, tgt)
    granted(t, tgt)
    before_enable(t, tgt)
    disconnect(t, tgt)
    many_hosts(t, tgt)


def start():
    port = target.free_port()
    subsystems = [
        {'nqn': target.NQN, 'serial': 'A', 'allow_any_host': True,
         'namespaces': [target.namespace(1, 'mem:1M,block=512')]},
        {'nqn': PRIVATE, 'serial': 'B', 'hosts': [FRIEND], 'namespaces': []},
        {'nqn': OTHER_PORT, 'serial': 'C', 'allow_any_host': True, 'namespaces': []},
    ]
    ports = [
        {'id': 1, 'address': '127.0.0.1', 'service': str(port),
         'subsystems': [target.NQN, PRIVATE]},
        {'id': 2, 'address': '127.0.0.2', 'service': str(port), 'subsystems': [OTHER_PORT]},
    ]
    config = target.config_of(port, subsystems=subsystems, ports=ports,
                              limits={'io_queues': 4, 'queue_size': 128, 'kato_max_ms': 600000})
    target.run(Tap(), test, config=config, port=port)


start()
