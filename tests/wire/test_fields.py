#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Every field of Command Dwords 2, 3 and 12 to 15 on every command on blocks: supported fields take effect,
meaningless ones are ignored, requests for unsupported functions are refused and change nothing. NVM Command
Set 1.1, sections 3.3 and 5.2; NVMe Base 2.1, section 1.8.

Without protection information PRINFO, STC and the tags are ignored. Directives (DTYPE) and command extensions
(CETYPE: a key per I/O) are not supported: a command that names one must not succeed.
"""

import os
import struct
import tempfile

import nvmetcp as n
import target
from tap import Tap

MEM, FILE = 1, 2
BLOCK = 512
AT, SOURCE, OTHER = 16, 64, 99
DTYPE = {'DTYPE 1': 1 << 20, 'DTYPE Fh': 15 << 20}
CETYPE = {'CETYPE 1': 1 << 16, 'CETYPE Fh': 15 << 16}
COMMON = {'LR': 1 << 31, 'FUA': 1 << 30, 'PRACT': 1 << 29, 'PRCHK guard': 1 << 28,
          'PRCHK application tag': 1 << 27, 'PRCHK reference tag': 1 << 26, 'STC': 1 << 24}
# Name, opcode, good bits of CDW12, refused bits of CDW12, whether it changes the blocks.
COMMANDS = [
    ('Read', n.READ, {**COMMON, 'reserved 25': 1 << 25, 'reserved 23:20': 15 << 20}, CETYPE, False),
    ('Write', n.WRITE, {**COMMON, 'reserved 25': 1 << 25}, {**DTYPE, **CETYPE}, True),
    ('Compare', n.COMPARE, {**COMMON, 'reserved 25': 1 << 25, 'reserved 23:20': 15 << 20}, CETYPE,
     False),
    ('Verify', n.VERIFY, {**COMMON, 'reserved 25': 1 << 25, 'reserved 23:20': 15 << 20}, CETYPE,
     False),
    ('Write Zeroes', n.WRITE_ZEROES, {**COMMON, 'DEAC': 1 << 25}, {**DTYPE, **CETYPE}, True),
    ('Write Uncorrectable', n.WRITE_UNCORRECTABLE, {'reserved 31:24': 255 << 24},
     {**DTYPE, **CETYPE}, True),
    ('Copy', n.COPY, {**COMMON, 'STCR': 1 << 25, 'PRINFOR': 15 << 12}, {**DTYPE, **CETYPE}, True),
]
SPEC = {'Read': 'NVM 3.3.4', 'Write': 'NVM 3.3.6', 'Compare': 'NVM 3.3.1', 'Verify': 'NVM 3.3.5',
        'Write Zeroes': 'NVM 3.3.8', 'Write Uncorrectable': 'NVM 3.3.7', 'Copy': 'NVM 3.3.2'}
DWORDS = {'DSPEC and DSM': {'cdw13': 0xffffffff}, 'ILBRT': {'cdw14': 0xffffffff},
          'LBAT and LBATM': {'cdw15': 0xffffffff},
          'upper tags': {'cdw2': 0xffffffff, 'cdw3': 0xffffffff}}


def submit(conn, nsid, opcode, cdw12, data, **fields):
    entry = struct.pack('<8xQH14x', SOURCE, 0)
    payload = {n.WRITE: data, n.COMPARE: data, n.COPY: entry}.get(opcode, b'')
    return conn.do(opcode, nsid, data=payload, read_bytes=BLOCK if opcode == n.READ else 0,
                   cdw10=AT, cdw12=cdw12, **fields)


def good(t, conn, nsid, row, old, new):
    """The command succeeds, with the same effect as without the field."""
    name, opcode, bits, _, _ = row
    for field, cdw12, dwords in [(f, v, {}) for f, v in bits.items()] + \
            [(f, 0, d) for f, d in DWORDS.items()]:
        conn.put(nsid, AT, old)
        conn.put(nsid, SOURCE, new)
        data = old if opcode == n.COMPARE else new
        cmd = submit(conn, nsid, opcode, cdw12, data, **dwords)
        after = conn.read(nsid, AT, 1)
        want = {n.WRITE: new, n.COPY: new, n.WRITE_ZEROES: bytes(BLOCK)}.get(opcode, old)
        result = (cmd.status, after.status, bytes(after.data))
        if opcode == n.WRITE_UNCORRECTABLE:
            t.eq(result[:2], (n.OK, n.UNRECOVERED_READ), '%s, %s on %d' % (name, field, nsid),
                 SPEC[name])
        else:
            t.eq(result, (n.OK, n.OK, want), '%s, %s on %d' % (name, field, nsid), SPEC[name])
    conn.put(nsid, AT, old)


def bad(t, conn, nsid, row, old, new):
    """The command is refused with DNR and changes nothing."""
    name, opcode, _, bits, _ = row
    for field, cdw12 in bits.items():
        conn.put(nsid, AT, old)
        conn.put(nsid, SOURCE, new)
        cmd = submit(conn, nsid, opcode, cdw12, old if opcode == n.COMPARE else new)
        t.status(cmd, n.INVALID_FIELD, '%s, %s on %d' % (name, field, nsid), SPEC[name], 1)
        t.eq(bytes(conn.read(nsid, AT, 1).data), old, 'and the block is as before')


def location(t, host, conn):
    """The error log has the byte and bit of the wrong field. Base 5.1.12.1.2."""
    for name, cdw12, want in (('DTYPE', 1 << 20, 50 | 4 << 8), ('CETYPE', 1 << 16, 50)):
        submit(conn, MEM, n.WRITE, cdw12, bytes(BLOCK))
        entry = bytes(host.admin.get_log(1, 64).data)
        t.eq(struct.unpack_from('<H', entry, 14)[0], want, 'error log: the place of ' + name,
             'Base 5.1.12.1.2')


def test(t, tgt):
    old, new = n.pattern(BLOCK, 1), n.pattern(BLOCK, OTHER)
    with tgt.host() as host:
        conn = host.queue()
        for nsid in (MEM, FILE):
            for row in COMMANDS:
                with t.guard('%s on %d' % (row[0], nsid)):
                    good(t, conn, nsid, row, old, new)
                    bad(t, conn, nsid, row, old, new)
        location(t, host, conn)


def main():
    with tempfile.TemporaryDirectory(prefix='weft-fields-') as folder:
        target.run(Tap(), test, namespaces=[
            target.namespace(MEM, 'mem:1M,block=512'),
            target.namespace(FILE, 'file:%s,size=1M,block=512' % os.path.join(folder, 'disk'))])


main()
