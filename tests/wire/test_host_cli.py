#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
The host side on the command line against a live target: weft discover, identify, perf and info. Text and JSON
output, exit statuses, error messages that name cause and remedy, the progress line on a terminal, and a
verification that finds data overwritten by another program.
"""

import json
import os
import pty
import socket
import subprocess
import threading

import nvmetcp as n
import target
from tap import Tap


def weft(*args):
    return subprocess.run([target.weft_path(), *args], capture_output=True, text=True, timeout=60)


def at(tgt, command, *args):
    return weft(command, '-t', 'tcp', '-a', '127.0.0.1', '-s', str(tgt.port), *args)


def discover(t, tgt):
    done = at(tgt, 'discover')
    t.eq(done.returncode, 0, 'discover: exit status')
    t.ok('Discovery Log Number of Records 2' in done.stdout and
         'subnqn:  %s' % target.NQN in done.stdout, 'discover: the log as nvme-cli prints it',
         why=done.stdout)
    log = json.loads(at(tgt, 'discover', '-o', 'json').stdout)
    entry = [e for e in log['records'] if e['subnqn'] == target.NQN]
    t.eq([(e['traddr'], e['trsvcid'], e['trtype']) for e in entry],
         [('127.0.0.1', str(tgt.port), 'tcp')], 'discover: the same as JSON')


class ChangingLog(threading.Thread):
    """A proxy that changes the generation in the second discovery log header."""

    def __init__(self, address):
        super().__init__(daemon=True)
        self.upstream = socket.create_connection(address)
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.port = self.listener.getsockname()[1]
        self.headers = 0
        self.start()

    def run(self):
        host, _ = self.listener.accept()
        threading.Thread(target=self.copy_up, args=(host,), daemon=True).start()
        stream = self.upstream.makefile('rb')
        while head := stream.read(8):
            pdu = bytearray(head + stream.read(int.from_bytes(head[4:8], 'little') - 8))
            if pdu[0] == n.C2HDATA and len(pdu) == 24 + 1024:
                self.headers += 1
                pdu[24] += self.headers == 2
            host.sendall(pdu)
        host.close()

    def copy_up(self, host):
        while piece := host.recv(65536):
            self.upstream.sendall(piece)
        self.upstream.shutdown(socket.SHUT_WR)


def discover_changing(t, tgt):
    proxy = ChangingLog(tgt.address)
    done = weft('discover', '-a', '127.0.0.1', '-s', str(proxy.port))
    t.ok(done.returncode == 0 and 'subnqn:  %s' % target.NQN in done.stdout,
         'discover: a log that changed while it was read', why=done)
    t.eq(proxy.headers, 4, 'discover: is read again')


def identify(t, tgt):
    done = at(tgt, 'identify', '-n', target.NQN)
    t.eq(done.returncode, 0, 'identify: exit status')
    t.ok('serial      WIRETEST' in done.stdout and '16384 blocks of 512 bytes' in done.stdout,
         'identify: controller and namespaces', why=done.stdout)
    found = json.loads(at(tgt, 'identify', '-n', target.NQN, '-o', 'json').stdout)
    t.eq([(ns['nsid'], ns['bytes'], ns['block_bytes']) for ns in found['namespaces']],
         [(1, 8 << 20, 512), (2, 16 << 20, 4096)], 'identify: the same as JSON')
    t.ok(all(len(ns['uuid']) == 36 for ns in found['namespaces']), 'identify: every UUID')


def perf(t, tgt):
    for name, args in (
            ('write and verify', ['--rw', 'write', '--bs', '64k', '--bytes', '16M', '--verify']),
            ('random writes and verify',
             ['--rw', 'randwrite', '--bs', '4k', '--bytes', '8M', '--queues', '3', '--verify']),
            ('mixed and verify', ['--rw', 'randrw', '--bytes', '8M', '-g', '-G', '--verify'])):
        done = at(tgt, 'perf', '-n', target.NQN, '--nsid', '2', '--depth', '8', '--quiet', *args)
        t.eq((done.returncode, done.stderr), (0, ''), 'perf: ' + name)
    done = at(tgt, 'perf', '-n', target.NQN, '--nsid', '2', '--bytes', '4M', '--json')
    result = json.loads(done.stdout)
    t.eq(done.returncode, 0, 'perf --json: exit status')
    t.eq(result['read']['ios'] if 'read' in result else None, 1024, 'perf --json: I/Os', '')


def verify_finds(t, tgt):
    region = ['-n', target.NQN, '--nsid', '2', '--rw', 'write', '--bs', '4k', '--size', '1M',
              '--bytes', '1M', '--verify', '--seed', '7', '--quiet']
    t.eq(at(tgt, 'perf', *region).returncode, 0, 'perf --verify: stamps 1 MiB')
    with tgt.host() as host:
        host.queue().put(2, 17, bytes(4096), 4096)
    done = at(tgt, 'perf', *[a if a != 'write' else 'read' for a in region])
    t.eq(done.returncode, 1, 'perf --verify: a block that changed behind its back is found')


def progress(t, tgt):
    """One line a second on a terminal, none elsewhere."""
    ours, theirs = pty.openpty()
    with subprocess.Popen([target.weft_path(), 'perf', '-s', str(tgt.port), '-n', target.NQN,
                           '--time', '2s'], stdout=subprocess.PIPE, stderr=theirs) as process:
        os.close(theirs)
        shown = b''
        try:
            while piece := os.read(ours, 4096):
                shown += piece
        except OSError:
            pass  # the other end is closed: Linux returns EIO
        process.communicate(timeout=30)
    os.close(ours)
    t.ok(b'IOPS' in shown and b'\r' in shown, 'perf: progress on a terminal', why=shown)
    done = at(tgt, 'perf', '-n', target.NQN, '--time', '1500ms')
    t.eq(done.stderr, '', 'perf: no progress elsewhere')


def errors(t, tgt):
    gone = target.free_port()
    rows = [
        ('nobody listens', ['perf', '-s', str(gone), '-n', target.NQN], 1,
         'connection refused; is `weft serve` running?'),
        ('unknown subsystem', ['identify', '-s', str(tgt.port), '-n', target.NQN + '2'], 1,
         target.NQN + '2'),
        ('no such namespace',
         ['perf', '-s', str(tgt.port), '-n', target.NQN, '--nsid', '9', '--bytes', '4k'], None,
         'namespace 9'),
        ('block size that does not fit',
         ['perf', '-s', str(tgt.port), '-n', target.NQN, '--nsid', '2', '--bs', '1000'], 2, '1000'),
        ('unknown mode', ['perf', '--rw', 'backwards'], 2, 'backwards'),
        ('unknown flag', ['discover', '--colour'], 2, 'Try `weft discover --help`.'),
        ('unknown output format', ['identify', '-o', 'xml'], 2, 'xml'),
        ('stray argument', ['discover', 'now'], 2, 'now'),
        ('unknown command', ['serv'], 2, 'serv'),
    ]
    for name, args, status, text in rows:
        done = weft(*args)
        t.ok(done.returncode == status if status else done.returncode in (1, 2),
             name + ': exit status', why=done)
        t.ok(text in done.stderr, name + ': the message says what', why=done.stderr)


def helps(t):
    for command in ('serve', 'perf', 'discover', 'identify', 'info'):
        done = weft(command, '--help')
        t.ok(done.returncode == 0 and 'Usage: weft %s' % command in done.stdout,
             command + ' --help', why=done)
    done = weft('info')
    t.ok(done.returncode == 0 and 'DEFER_TASKRUN' in done.stdout.upper().replace(' ', '_'),
         'info: features of io_uring', why=done.stdout)


def test(t, tgt):
    for part in (discover, discover_changing, identify, perf, verify_finds, progress, errors):
        with t.guard(part.__name__):
            part(t, tgt)
    with t.guard('helps'):
        helps(t)


target.run(Tap(), test)
