#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
The programs of examples/ against a live target: each is run as the manual describes and must work. The path of
`failover` goes through a relay that the test cuts.

    test_examples.py FOLDER     with the built examples; $WEFT names the executable weft
"""

import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'wire'))
import target  # noqa: E402
from relay import Relay  # noqa: E402
from tap import Tap  # noqa: E402

NAMESPACES = [
    target.namespace(1, 'mem:4M,block=512'),
    target.namespace(2, 'mem:4M,block=4096'),
    target.namespace(3, 'mem:8M,block=4096'),
]
FOLDER = ''


def start(name, *args):
    return subprocess.Popen(['timeout', '60', os.path.join(FOLDER, name), *map(str, args)],
                            text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def run(name, *args):
    process = start(name, *args)
    out, err = process.communicate()
    return process.returncode, out, err


def read_block(t, tgt):
    with tgt.host() as host:
        host.queue().put(1, 5, bytes(range(256)) * 2)
    code, out, err = run('read_block', '127.0.0.1', tgt.port, target.NQN, 1, 5)
    t.eq((code, err), (0, ''), 'read_block: status')
    t.ok('8192 blocks of 512 bytes' in out and
         '00000010  10 11 12 13 14 15 16 17 18 19 1a 1b 1c 1d 1e 1f' in out,
         'read_block: prints the block', why=out)
    code, out, err = run('read_block', '127.0.0.1', tgt.port, target.NQN, 9, 5)
    t.ok(code == 1 and 'no namespace 9' in err, 'read_block: names what is not there', why=err)
    code, out, err = run('read_block', '127.0.0.1', target.free_port(), target.NQN, 1, 5)
    t.ok(code == 1 and 'refused' in err, 'read_block: says that nobody listens', why=err)


def async_copy(t, tgt):
    data = os.urandom(4 << 20)
    with tgt.host() as host:
        conn = host.queue()
        for i in range(0, len(data), 65536):
            conn.put(2, i // 4096, data[i:i + 65536], 4096)
    code, out, err = run('async_copy', '127.0.0.1', tgt.port, target.NQN, 2, 3)
    t.eq((code, err), (0, ''), 'async_copy: status')
    t.ok('copied 1024 blocks of 4096 bytes' in out, 'async_copy: says what it did', why=out)
    with tgt.host() as host:
        conn = host.queue()
        got = b''.join(bytes(conn.read(3, i // 4096, 16, 4096).data) for i in range(0, len(data), 65536))
    t.ok(got == data, 'async_copy: the copy is the same')
    code, out, err = run('async_copy', '127.0.0.1', tgt.port, target.NQN, 1, 3)
    t.ok(code == 1 and 'do not fit' in err, 'async_copy: refuses other blocks', why=err)


def failover(t, tgt):
    relay = Relay(tgt.port)
    process = start('failover', 5, target.NQN, 1, '127.0.0.1', relay.port, '127.0.0.1', tgt.port)
    lines, wanted = [], {'first round is done', 'path 127.0.0.1:%d: live' % relay.port}
    for line in process.stdout:
        lines.append(line)
        wanted = {text for text in wanted if text not in line}
        if not wanted:  # only an established path can be lost
            relay.cut()
            break
    out, err = process.communicate()
    out = ''.join(lines) + out
    t.eq((process.returncode, err), (0, ''), 'failover: status')
    t.ok('every block as it was written' in out, 'failover: the data is right', why=out)
    t.ok('path 127.0.0.1:%d: ' % relay.port in out, 'failover: tells of the lost path', why=out)
    t.ok('path: 127.0.0.1:%d live' % tgt.port in out and 'lost 1 times' in out,
         'failover: shows its paths', why=out)


def test(t):
    tgt = target.Target(namespaces=NAMESPACES)
    try:
        for part in (read_block, async_copy, failover):
            with t.guard(part.__name__):
                part(t, tgt)
    finally:
        tgt.finish(t)


if __name__ == '__main__':
    FOLDER = sys.argv[1]
    TAP = Tap()
    test(TAP)
    sys.exit(TAP.done())
