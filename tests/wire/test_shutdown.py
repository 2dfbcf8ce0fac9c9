#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
The stop of the target: SIGTERM answers commands in flight, closes connections in order and exits with 0; SIGKILL
loses nothing that was flushed or written with FUA; a second daemon on the same state folder is refused. NVMe Base
2.1, sections 3.6 (shutdown), 5.1.2.1 (events), 7.2 (Flush).
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile

import nvmetcp as n
import target
from tap import Tap

FUA = 1 << 30
SHUTDOWN_EVENT = 3  # type 3 (immediate), information 00h: normal NVM subsystem shutdown
SLOW = 2


def terminate(t, tgt):
    """Leaves the target stopped."""
    host = tgt.host()
    admin, conn, idle = host.admin, host.queue(1), host.queue(2)
    half = tgt.conn()
    half.send(n.icreq()[:50])
    admin.set_feature(11, 1 << 15)
    aer = admin.submit(n.AER)
    slow = [conn.rw(n.READ, SLOW, i, 1, 512) for i in range(10)]
    data = n.pattern(4096, 1)
    slow.append(conn.rw(n.WRITE, SLOW, 100, 8, 512, data))
    t.status(conn.read(1, 0, 1), n.OK, 'commands are in flight')
    tgt.terminate()
    for cmd in slow:
        conn.wait(cmd)
    t.eq({cmd.status for cmd in slow}, {n.OK}, 'SIGTERM: commands in flight are answered',
         'Base 3.6')
    admin.wait(aer)
    t.eq((aer.status, aer.dw0), (n.OK, SHUTDOWN_EVENT), 'SIGTERM: hosts that asked are told',
         'Base 5.1.2.1, Immediate')
    for name, peer in (('I/O queue', conn), ('idle I/O queue', idle), ('admin queue', admin),
                       ('half-open connection', half)):
        t.ok(peer.wait_closed(), 'SIGTERM: the %s is closed' % name)
        peer.close()
    t.eq(tgt.wait_exit(), 0, 'SIGTERM: exit status 0')
    try:
        tgt.conn().close()
        is_refused = False
    except ConnectionError:
        is_refused = True
    t.ok(is_refused, 'and nobody listens any more')


def stubborn(t, tgt):
    """Hosts that neither answer nor close do not delay the stop."""
    tgt.start()
    host = tgt.host()
    conn = host.queue(1)
    owed = conn.rw(n.WRITE, 1, 0, 8, 512, bytes(4096), way='r2t', is_auto=False)
    conn.wait_r2t(owed)
    tgt.terminate()
    t.eq(tgt.wait_exit(), 0, 'SIGTERM while a host owes data and does not close: exit status 0')
    host.close()


def killed(t, tgt):
    tgt.start()
    host = tgt.host()
    conn = host.queue(1)
    flushed = [n.pattern(65536, i) for i in range(8)]
    for i, data in enumerate(flushed):
        conn.put(3, 128 * i, data)
    t.status(conn.do(n.FLUSH, 3), n.OK, 'Flush before SIGKILL', 'Base 7.2')
    forced = [n.pattern(4096, 100 + i) for i in range(8)]
    for i, data in enumerate(forced):
        conn.put(3, 2048 + 8 * i, data, cdw12=FUA)
    conn.wait(conn.rw(n.WRITE_ZEROES, 3, 128, 128, 512, cdw12=FUA))
    flushed[1] = bytes(65536)
    tgt.kill()
    t.ok(conn.wait_closed(), 'SIGKILL: the connection breaks')
    host.close()
    tgt.start()
    with tgt.host() as host:
        conn = host.queue(1)
        t.eq([bytes(conn.read(3, 128 * i, 128).data) for i in range(8)], flushed,
             'after SIGKILL: what was flushed is there', 'Base 7.2')
        t.eq([bytes(conn.read(3, 2048 + 8 * i, 8).data) for i in range(8)], forced,
             'after SIGKILL: what was written with FUA is there', 'NVM 3.3.6, FUA')
        page = bytes(host.admin.get_log(2, 512).data)
        t.eq(int.from_bytes(page[144:160], 'little'), 1, 'SMART: one unsafe shutdown',
             'Base 5.1.12.1.3')
        t.eq(int.from_bytes(page[112:128], 'little'), 4, 'SMART: four starts', 'Base 5.1.12.1.3')


def killed_often(t, tgt):
    """After a kill the address and the file are still held for a moment; the next start must cope with that."""
    for round_nr in range(8):
        host = tgt.host()
        conns = [host.queue(qid) for qid in (1, 2)]
        for conn in conns:
            for i in range(40):
                conn.rw(n.WRITE, 3, 8 * i, 8, 512, n.pattern(4096, round_nr), cdw12=FUA)
        tgt.kill()
        host.close()
        tgt.start()
    with tgt.host() as host:
        t.status(host.queue().read(3, 0, 1), n.OK,
                 'SIGKILL under load and a start at once, eight times')


def second_daemon(t, tgt):
    path = os.path.join(tgt.folder, 'second.json')
    with open(path, 'w') as file:
        json.dump(target.config_of(target.free_port()), file)
    command = [target.weft_path(), 'serve', '-c', path, '--state',
               os.path.join(tgt.folder, 'state'), '--reactors', '1', '--discovery', 'none']
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    t.eq(done.returncode, 1, 'a second daemon on the same state folder is refused')
    t.ok('in use by process %d' % tgt.process.pid in done.stderr, 'and told who holds it',
         why=done.stderr)
    with tgt.host() as host:
        t.status(host.queue().read(1, 0, 1), n.OK, 'the first one is not disturbed')


def many(t, tgt):
    """Many queues under load at SIGTERM; then the final rows see exit status 0."""
    hosts = [tgt.host() for _ in range(4)]
    conns = [host.queue(qid) for host in hosts for qid in (1, 2, 3)]
    for conn in conns:
        for i in range(20):
            conn.rw(n.READ, SLOW, i, 8, 512)
    for conn in conns:
        conn.do(n.FLUSH, 1)
    tgt.terminate()
    bad = 0
    for conn in conns:
        for cmd in list(conn.inflight.values()):
            conn.wait(cmd)
            bad += cmd.status != n.OK
        conn.close()
    t.eq(bad, 0, 'SIGTERM with 240 commands on 12 queues: all are answered', 'Base 3.6')
    for host in hosts:
        host.admin.close()
    t.eq(tgt.wait_exit(), 0, 'SIGTERM under load: exit status 0')
    tgt.start()


def test(t, tgt):
    for part in (terminate, stubborn, killed, killed_often, second_daemon, many):
        with t.guard(part.__name__):
            part(t, tgt)


def start():
    folder = tempfile.mkdtemp(prefix='weft-wire-')
    spaces = [target.namespace(1, 'mem:1M,block=512'),
              target.namespace(SLOW, 'fault:delay:ms=300@mem:1M,block=512'),
              target.namespace(3, 'file:%s,size=4M,block=512' % os.path.join(folder, 'disk'))]
    try:
        target.run(Tap(), test, namespaces=spaces, folder=folder)
    except SystemExit as end:
        shutil.rmtree(folder, ignore_errors=True)
        sys.exit(end.code)


start()
