#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Ports that send without a copy: the same bytes as ports that copy, for sizes on both sides of the threshold, with
and without digests, many commands at once, hosts that leave early, and a reload that switches zero copy. Loopback
copies anyway and reports that, which "auto" obeys.
"""

import json
import re
import socket
import subprocess
import tempfile

import nvmetcp as n
import target
from tap import Tap

BLOCK = 4096
SIZES = (4096, 8192, 65536, 131072, 262144, 524288)
MEM, FILE = 1, 2
TALLY = re.compile(r'zero copy: (\d+) sends, (\d+) copied by the kernel, (\d+) refused')


def kernel_can():
    out = subprocess.run([target.weft_path(), 'info', '-o', 'json'], capture_output=True, text=True,
                         check=True)
    return any(feature['name'] == 'zero-copy usage reports' and feature['supported']
               for feature in json.loads(out.stdout)['io_uring_features'])


def tallies(tgt):
    return [tuple(map(int, match)) for match in TALLY.findall(tgt.log())]


def transfers(t, conn, name):
    bad = []
    for nsid in (MEM, FILE):
        for size in SIZES:
            data = n.pattern(size, size + nsid)
            conn.put(nsid, 16, data, BLOCK)
            cmd = conn.read(nsid, 16, size // BLOCK, BLOCK)
            if cmd.status != n.OK or bytes(cmd.data) != data:
                bad.append((nsid, size, cmd.status))
    t.eq(bad, [], '%s: reads of 4 KiB to 512 KiB from memory and a file' % name, 'NVM 3.3.4')


def many(t, conn, name, turns):
    """Large and small reads, writes by R2T and responses, concurrently."""
    data = {lba: n.pattern(131072, lba) for lba in range(512, 512 + 16 * 32, 32)}
    for lba, part in data.items():
        conn.put(FILE, lba, part, BLOCK)
    fresh = n.pattern(131072, 99)
    for turn in range(turns):
        reads, writes = [], []
        for lba in data:
            reads.append((lba, 32, conn.rw(n.READ, FILE, lba, 32, BLOCK, send=False)))
            reads.append((lba, 1, conn.rw(n.READ, FILE, lba, 1, BLOCK, send=False)))
        writes = [conn.rw(n.WRITE, FILE, 2048 + 32 * i, 32, BLOCK, fresh, way='r2t', send=False)
                  for i in range(4)]
        cmds = [cmd for _, _, cmd in reads] + writes
        conn.send(b''.join(cmd.wire for cmd in cmds))
        for cmd in cmds:
            conn.wait(cmd)
        bad = [lba for lba, count, cmd in reads
               if cmd.status != n.OK or bytes(cmd.data) != data[lba][:count * BLOCK]]
        t.eq(bad, [], '%s: 32 reads and 4 writes at once, turn %d' % (name, turn), 'TCP 3.4')
        t.eq([cmd.status for cmd in writes], [n.OK] * 4, '%s: the writes, turn %d' % (name, turn),
             'TCP 3.4')


def leaving(t, tgt, address):
    """A host requests much, receives nothing and leaves; the buffers return to the pool."""
    for way in ('close', 'reset'):
        for _ in range(8):
            with n.Host(address, target.NQN) as host:
                conn = host.queue()
                for lba in range(8):
                    conn.rw(n.READ, FILE, lba * 128, 128, BLOCK)
                if way == 'reset':
                    conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                         b'\1\0\0\0\0\0\0\0')
                conn.close()
        with n.Host(address, target.NQN) as host:
            transfers(t, host.queue(), 'after hosts that left by a ' + way)


def on_port(t, tgt, address, name):
    """With and without digests; returns how much the connections sent without a copy."""
    before = len(tallies(tgt))
    # CATTR bit 2: no SQ flow control, so the SUCCESS flag of the data replaces the response.
    for digests, cattr, ic in (('plain', 4, {}),
                               ('with digests', 0, dict(hdgst=True, ddgst=True))):
        with t.guard('%s, %s' % (name, digests)), n.Host(address, target.NQN, **ic) as host:
            conn = host.queue(cattr=cattr)
            transfers(t, conn, '%s, %s' % (name, digests))
            many(t, conn, '%s, %s' % (name, digests), 1 if ic else 4)
    # One admin and one I/O queue each; only I/O queues send data without a copy.
    target.poll(lambda: len(tallies(tgt)) >= before + 4, 5 if name != 'off' else 0)
    return [tally for tally in tallies(tgt)[before:] if tally[0] > 0]


def zero_copy_of(tgt, port, mode):
    def change(config):
        config['ports'][port - 1]['zero_copy'] = mode
    tgt.reload(change)


def test(t, tgt):
    ports = {port['zero_copy']: ('127.0.0.1', int(port['service']))
             for port in tgt.config['ports']}
    can = kernel_can()
    t.eq(on_port(t, tgt, ports['off'], 'off'), [], 'off: nothing is sent without a copy')
    forced = on_port(t, tgt, ports['on'], 'on')
    auto = on_port(t, tgt, ports['auto'], 'auto')
    if can:
        t.eq(len(forced), 2, 'on: both hosts were sent data without a copy')
        t.ok(all(sends > 8 for sends, _, _ in forced), 'on: all the time', why=str(forced))
        t.ok(all(sends == copied for sends, copied, _ in forced),
             'on: loopback is reported as copied', why=str(forced))
        t.eq(len(auto), 2, 'auto: both hosts were sent data without a copy')
        t.ok(all(4 <= sends < 40 for sends, _, _ in auto), 'auto: but not for long', why=str(auto))
        t.ok('zero copy is off for this connection: the kernel copies the data anyway' in tgt.log(),
             'auto: the log says why')
    else:
        t.ok('this kernel cannot send without a copy' in tgt.log(), 'the log says that it cannot')
    with t.guard('hosts that leave'):
        leaving(t, tgt, ports['on'])
    with t.guard('reload'):
        zero_copy_of(tgt, 1, 'on')
        found = on_port(t, tgt, ports['off'], 'switched on')
        t.eq(len(found), 2 if can else 0, 'a reload switches it for new connections')


with tempfile.TemporaryDirectory(prefix='weft-wire-') as disk_folder:
    target.run(Tap(), test,
               namespaces=[target.namespace(MEM, 'mem:16M'),
                           target.namespace(FILE, 'file:%s/disk.img,size=16M' % disk_folder)],
               ports=[{'id': i + 1, 'address': '127.0.0.1', 'service': str(target.free_port()),
                       'zero_copy': mode, 'zero_copy_min_bytes': 32768}
                      for i, mode in enumerate(('off', 'on', 'auto'))])
