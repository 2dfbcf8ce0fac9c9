#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Foreign text: strings from a hostile target or host reach a terminal, a log and the audit escaped. Every
sub-command that prints such strings queries a target whose names are full of escape sequences; a host sets
such a label and connects under such a name. Only printable text and the program's own newlines may come out;
JSON stays JSON.
"""

import json
import os
import struct
import subprocess
import unicodedata

import nvmetcp as n
import target
from hostile_target import HostileTarget
from tap import Tap

# A window title, a cleared screen, a forged line, C1 (CSI), DEL, direction overrides, a line
# separator, a hidden tag, and bytes that are not UTF-8.
EVIL = ('\x1b]0;owned\x07\x1b[2J\nforged: line\r\x9b31m\x7f\u202eltr\u2066\u2028\u200b\U000e0041'
        .encode() + b'\xff\xfe\xc3(')
EVIL_UTF8 = EVIL[:-4]  # for names that must be UTF-8
FORGED = 'forged: line'


def evil_field(size, start=b'', text=EVIL):
    return (start + text)[:size].ljust(size, b' ')


def spoil(pdu, what):
    """Puts EVIL into the names of the controller and of the discovery log."""
    data = pdu[3]  # PDO
    if what == (0x06, 1):
        pdu[data + 4:data + 24] = evil_field(20)
        pdu[data + 24:data + 64] = evil_field(40, b'm')
        pdu[data + 64:data + 72] = evil_field(8)
        pdu[data + 768:data + 1024] = evil_field(256, b'nqn.2026-11.io.weft:').rstrip().ljust(
            256, b'\0')
    elif what == (0x02, 0x70):
        at = data + 1024 if len(pdu) > data + 1024 and \
            struct.unpack_from('<Q', pdu, data + 8)[0] < 16 else data
        for entry in range(at, len(pdu) - 1023, 1024):
            pdu[entry + 32:entry + 64] = evil_field(32)
            pdu[entry + 256:entry + 512] = evil_field(256, b'nqn.2026-11.io.weft:').rstrip(
            ).ljust(256, b'\0')
            pdu[entry + 512:entry + 768] = evil_field(256)


def bad_characters(data, newlines=None):
    """Why the output is not safe for a terminal, or None."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return 'not UTF-8: %r' % data
    bad = [c for c in text if c != '\n' and unicodedata.category(c) in ('Cc', 'Cf', 'Zl', 'Zp', 'Co',
                                                                       'Cn', 'Cs')]
    if bad:
        return 'characters %r in %r' % (bad, text)
    if any(line.startswith(FORGED) for line in text.split('\n')):
        return 'a forged line in %r' % text
    return None


def run(*args):
    return subprocess.run([target.weft_path(), *args], capture_output=True, timeout=120)


def shown(t, name, done, needs=None):
    """Both outputs are printable and contain the name in escaped form."""
    for stream, data in (('stdout', done.stdout), ('stderr', done.stderr)):
        why = bad_characters(data)
        t.ok(why is None, '%s: %s is printable' % (name, stream), why=why)
    if needs:
        t.ok(needs.encode() in done.stdout + done.stderr, name + ': the text is there, escaped',
             why='%r' % (done,))
    return done


def host_side(t, tgt):
    hostile = HostileTarget(tgt.address, spoil)
    at = ('-a', '127.0.0.1', '-s', str(hostile.port))
    sub = ('-n', target.NQN)
    shown(t, 'discover', run('discover', *at), '\\u001b')
    done = shown(t, 'discover -o json', run('discover', *at, '-o', 'json'))
    with t.guard('discover -o json: is JSON'):
        records = json.loads(done.stdout)['records']
        t.ok(records and all(FORGED in r['traddr'] for r in records),
             'discover -o json: is JSON, with the text', why=records)
    shown(t, 'identify', run('identify', *at, *sub), '\\u001b')
    done = shown(t, 'identify -o json', run('identify', *at, *sub, '-o', 'json'))
    with t.guard('identify -o json: is JSON'):
        t.ok('owned' in json.loads(done.stdout)['controller']['model'],
             'identify -o json: is JSON, with the text')
    for name, args in (
            ('list-subsys', ('list-subsys', *at, *sub)),
            ('list-subsys -o json', ('list-subsys', *at, *sub, '-o', 'json')),
            ('perf', ('perf', *at, *sub, '--bytes', '4k')),
            ('perf --json', ('perf', *at, *sub, '--bytes', '4k', '--json')),
            ('perf --path', ('perf', '--path', '127.0.0.1:%d' % hostile.port, *sub, '--bytes',
                             '4k')),
            ('copy', ('copy', 'nvme://127.0.0.1:%d/%s/1' % (hostile.port, target.NQN),
                      os.path.join(tgt.folder, 'copy.img')))):
        done = shown(t, name, run(*args))
        if name.endswith('json') and done.returncode == 0:
            with t.guard(name + ': is JSON'):
                json.loads(done.stdout)
    # Messages repeat names that the user typed.
    text = os.fsdecode(EVIL_UTF8.replace(b'\0', b''))
    for args in (('identify', *at, '-n', text), ('discover', '-a', text), (text,),
                 ('ctl', '--state', text, 'status'), ('serve', '--ns', 'file:' + text, '--check'),
                 ('perf', '--rw', text), ('copy', text, text)):
        shown(t, 'a message about %s' % args[0].encode('unicode_escape').decode()[:20], run(*args))


def label_of(text):
    return text[:256].ljust(256, b'\0')


def target_side(t, tgt):
    place = ('--state', os.path.join(tgt.folder, 'state'))
    name = 'nqn.2026-11.io.weft:\x9b31m\u202ehost'
    with tgt.host(hostnqn=name) as host:
        label = host.admin.set_feature(0x1f, data=label_of(EVIL_UTF8), nsid=1)
        t.status(label, n.OK, 'a host sets a label of escape sequences')
        for words in (('audit',), ('history',), ('ns', 'list'), ('ns', 'show', target.NQN, '1'),
                      ('connections',), ('subsystem', 'show', target.NQN), ('export',), ('status',),
                      ('health',), ('reservations',)):
            done = shown(t, 'ctl ' + ' '.join(words[:2]), run('ctl', *place, *words))
            done = shown(t, 'ctl --json ' + ' '.join(words[:2]), run('ctl', *place, '--json', *words))
            with t.guard('ctl --json %s is JSON' % ' '.join(words[:2])):
                json.loads(done.stdout)
        lines = run('ctl', *place, 'audit').stdout.decode().splitlines()
        t.ok(any('label none -> \\u001b]0;owned' in line for line in lines),
             'the audit has the label on one line', why=lines)
        t.ok(not any(line.strip().startswith(FORGED) for line in lines), 'and no forged one')
        found = json.loads(run('ctl', *place, '--json', 'ns', 'show', target.NQN, '1').stdout)
        t.eq(found['label'].encode(), EVIL_UTF8[:256], 'as JSON the label is what the host set')
    with t.guard('a refused Connect'):
        with tgt.conn() as conn:
            conn.ic()
            conn.connect('nqn.2026-11.io.weft:\x9b2J\u202eno', hostnqn=name)
    t.ok(tgt.wait_log('\\u202eno'), 'a refused Connect is logged, escaped')
    with open(tgt.log_path, 'rb') as file:
        log = file.read()
    t.ok(bad_characters(log) is None, 'the log is printable', why=bad_characters(log))
    t.ok(b'\\u009b31m\\u202ehost' in log, 'and names the host, escaped')


def test(t, tgt):
    for part in (host_side, target_side):
        with t.guard(part.__name__):
            part(t, tgt)


target.run(Tap(), test, rights=target.ALL_RIGHTS)
