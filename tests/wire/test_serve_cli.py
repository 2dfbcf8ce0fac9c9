#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
`weft serve` on the command line: --help, unknown flags, --check of valid and invalid configurations with the place
of every error, the banner, and the figures printed on SIGUSR1.
"""

import copy
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

import nvmetcp as n
import target
from tap import Tap

GOOD = {
    'version': 1,
    'subsystems': [
        {'nqn': target.NQN, 'serial': 'S1', 'model': 'M', 'allow_any_host': True,
         'namespaces': [
             {'nsid': 1, 'media': 'mem:64M,block=4096',
              'uuid': '6f1c7b9a-52e0-4d0b-9a39-1f0f5c1d2e3f', 'read_only': False, 'ana_group': 1},
             {'nsid': 2, 'media': 'null:1G'}]},
        {'nqn': 'nqn.2026-11.io.weft:b', 'hosts': [n.HOST_NQN], 'namespaces': []},
    ],
    'ports': [
        {'id': 1, 'transport': 'tcp', 'address': '127.0.0.1', 'service': '4420',
         'subsystems': [target.NQN], 'ana': [{'group': 1, 'state': 'non-optimized'}]},
        {'id': 2, 'address': '::1', 'service': '4421'},
    ],
    'limits': {'connections': 100, 'connections_per_host': 50, 'io_queues': 8, 'queue_size': 128,
               'in_capsule_bytes': 4096, 'transfer_bytes': 131072, 'ic_timeout_ms': 1000,
               'connect_timeout_ms': 1000, 'data_timeout_ms': 1000, 'kato_max_ms': 0,
               'header_digest': True, 'data_digest': False},
}


def ns(config, i=0):
    return config['subsystems'][0]['namespaces'][i]


def setter(path, value):
    """Returns a function that sets the value at a path of keys."""
    def change(config):
        at = config
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = value
    return change


NS0 = ['subsystems', 0, 'namespaces', 0]
# name, change, text that the explanation must hold: the place or the cause
BAD = [
    ('unknown version', setter(['version'], 2), 'version'),
    ('unknown key at the top', setter(['colour'], 1), 'colour'),
    ('subsystems is not a list', setter(['subsystems'], {}), 'subsystems'),
    ('a subsystem without a name', lambda c: c['subsystems'][0].pop('nqn'), 'subsystems[0].nqn'),
    ('a name that is no NQN', setter(['subsystems', 0, 'nqn'], 'disk'), 'subsystems[0].nqn'),
    ('one name twice', setter(['subsystems', 1, 'nqn'], target.NQN), 'subsystems[1].nqn'),
    ('a serial number too long', setter(['subsystems', 0, 'serial'], 'x' * 21),
     'subsystems[0].serial'),
    ('a host that is no NQN', setter(['subsystems', 1, 'hosts'], ['me']), 'subsystems[1].hosts'),
    ('NSID 0', setter(NS0 + ['nsid'], 0), 'subsystems[0].namespaces[0].nsid'),
    ('NSID 16385', setter(NS0 + ['nsid'], 16385), 'subsystems[0].namespaces[0].nsid'),
    ('NSID twice', setter(NS0 + ['nsid'], 2), 'subsystems[0].namespaces[1].nsid'),
    ('NSID as text', setter(NS0 + ['nsid'], '1'), 'subsystems[0].namespaces[0].nsid'),
    ('no medium', lambda c: ns(c).pop('media'), 'subsystems[0].namespaces[0].media'),
    ('unknown medium', setter(NS0 + ['media'], 'tape:1G'), 'subsystems[0].namespaces[0].media'),
    ('block size 1024', setter(NS0 + ['media'], 'mem:1M,block=1024'),
     'subsystems[0].namespaces[0].media'),
    ('a UUID too short', setter(NS0 + ['uuid'], '6f1c'), 'subsystems[0].namespaces[0].uuid'),
    ('ANA group 0', setter(NS0 + ['ana_group'], 0), 'subsystems[0].namespaces[0].ana_group'),
    ('unknown transport', setter(['ports', 0, 'transport'], 'rdma'), 'ports[0].transport'),
    ('address with a port', setter(['ports', 0, 'address'], '127.0.0.1:4420'), 'ports[0].address'),
    ('address that is a name', setter(['ports', 0, 'address'], 'localhost'), 'ports[0].address'),
    ('service 65536', setter(['ports', 0, 'service'], '65536'), 'ports[0].service'),
    ('one port id twice', setter(['ports', 1, 'id'], 1), 'ports[1].id'),
    ('one address twice', lambda c: c['ports'][1].update(address='127.0.0.1', service='4420'),
     'ports[1].address'),
    ('a port that offers what is not there',
     setter(['ports', 0, 'subsystems'], ['nqn.2026-11.io.weft:x']), 'ports[0].subsystems'),
    ('unknown ANA state', setter(['ports', 0, 'ana', 0, 'state'], 'fine'), 'ports[0].ana[0].state'),
    ('limit below its least value', setter(['limits', 'queue_size'], 1), 'limits.queue_size'),
    ('unknown limit', setter(['limits', 'speed'], 1), 'speed'),
    ('transfer size that is no power of two', setter(['limits', 'transfer_bytes'], 100000),
     'limits.transfer_bytes'),
]


def weft(*args, **kwargs):
    return subprocess.run([target.weft_path()] + list(args), capture_output=True, text=True,
                          timeout=30, **kwargs)


def check(folder, text):
    path = os.path.join(folder, 'config.json')
    with open(path, 'w') as file:
        file.write(text if isinstance(text, str) else json.dumps(text))
    return weft('serve', '-c', path, '--check', '--state', os.path.join(folder, 'state'),
                '--discovery', 'none')


def usage(t):
    done = weft('serve', '--help')
    t.eq((done.returncode, done.stderr), (0, ''), 'serve --help: status 0, nothing on stderr')
    missing = [flag for flag in ('--config', '--listen', '--ns', '--nqn', '--allow-host', '--state',
                                 '--reactors', '--pin', '--discovery', '--check',
                                 '--self-check',
                                 '--run-for', '--log-level') if flag not in done.stdout]
    t.eq(missing, [], 'serve --help names every flag')
    for args in (['--frobnicate'], ['--reactors', '0'], ['--reactors', 'two'], ['--run-for', 'x'],
                 ['--log-level', 'loud'], ['surplus'], ['-c', 'a.json', '--ns', 'mem:1M'],
                 ['--reactors'], ['--discovery', 'nonsense', '--ns', 'mem:1M', '--check']):
        done = weft('serve', *args)
        t.eq((done.returncode, done.stdout), (2, ''), 'serve %s: status 2' % ' '.join(args))
        t.ok(done.stderr, 'serve %s: an explanation on stderr' % ' '.join(args))
    done = weft('frobnicate')
    t.ok(done.returncode == 2 and 'frobnicate' in done.stderr, 'an unknown sub-command: status 2')


def good(t, folder):
    done = check(folder, GOOD)
    t.eq((done.returncode, done.stderr), (0, ''), '--check of a good configuration: status 0')
    for text in ('valid', target.NQN, 'mem:64M,block=4096', 'non-optimized', '127.0.0.1:4420', 'serial S1',
                 'uuid 6f1c7b9a-52e0-4d0b-9a39-1f0f5c1d2e3f', 'serial made at the first start',
                 'uuid made at the first start'):
        t.ok(text in done.stdout, '--check tells of ' + text, why=done.stdout)
    t.ok(not os.path.exists(os.path.join(folder, 'state')), '--check touches nothing')
    done = weft('serve', '--ns', 'mem:1M', '--check', '--state', folder)
    t.eq(done.returncode, 0, '--check of flags: status 0')
    done = weft('serve', '--ns', 'tape:1M', '--check', '--state', folder)
    t.ok(done.returncode == 1 and 'tape' in done.stderr, '--check of a bad --ns: status 1')


def bad(t, folder):
    for name, change, text in BAD:
        config = copy.deepcopy(GOOD)
        change(config)
        done = check(folder, config)
        t.ok(done.returncode == 1 and text in done.stderr,
             '--check: %s is refused at %s' % (name, text),
             why='status %d\n%s' % (done.returncode, done.stderr))
    config = copy.deepcopy(GOOD)
    for _, change, _ in (BAD[6], BAD[16], BAD[17]):
        change(config)
    done = check(folder, config)
    t.ok(all(text in done.stderr for text in (BAD[6][2], BAD[16][2], BAD[17][2])),
         '--check tells all errors at once', why=done.stderr)
    done = check(folder, '{"version": 1,\n "subsystems": [}\n')
    t.ok(done.returncode == 1 and '2' in done.stderr, '--check: a syntax error with its line',
         why=done.stderr)
    done = check(folder, '')
    t.eq(done.returncode, 1, '--check: an empty file')
    done = weft('serve', '-c', os.path.join(folder, 'nowhere.json'), '--check')
    t.ok(done.returncode == 1 and 'nowhere.json' in done.stderr,
         '--check: a file that is not there')


def banner(t):
    tgt = target.Target()
    try:
        out = tgt.out()
        for text in (target.NQN, '127.0.0.1:%d' % tgt.port, 'mem:8M,block=512',
                     'nvme connect -t tcp -a 127.0.0.1 -s %d -n %s' % (tgt.port, target.NQN),
                     'nvme discover -t tcp -a 127.0.0.1 -s %d' % tgt.port, 'weft perf'):
            t.ok(text in out, 'the banner tells ' + text, why=out)
        path = os.path.join(tgt.folder, 'other-state')
        done = weft('serve', '-c', tgt.config_path, '--state', path, '--discovery', 'none')
        t.ok(done.returncode == 1 and str(tgt.port) in done.stderr,
             'an address that is in use: status 1 and the address', why=done.stderr)
    finally:
        tgt.finish(t)


def pinning(t):
    """CPU affinity of each reactor, with one reactor per CPU."""
    ours = os.sched_getaffinity(0)
    for is_pinned in (True, False):
        tgt = target.Target(reactors=len(ours), start=False)
        command = tgt.command()
        if is_pinned:
            command.append('--pin')
        tgt.command = lambda: command
        tgt.start()
        try:
            cpus = [os.sched_getaffinity(int(task)) for task, (name, *_) in tgt.threads().items()
                    if name.startswith('weft-r')]
            want = [{cpu} for cpu in sorted(ours)] if is_pinned else [ours] * len(ours)
            t.eq(sorted(map(sorted, cpus)), sorted(map(sorted, want)),
                 'reactors have %s' % ('a CPU each with --pin' if is_pinned else 'all CPUs'))
        finally:
            tgt.finish(t)


def figures(t):
    tgt = target.Target(reactors=2)
    line = re.compile(r'info control: reactor (\d+): run ([\d.]+) s, busy ([\d.]+) s, spun ([\d.]+) s, '
                      r'turns (\d+), sleeps \d+, posts \d+, stalls \d+\n')
    last = re.compile(r'info control: target: connections (\d+), controllers (\d+), commands (\d+)\n')
    try:
        with tgt.host():
            for count in (1, 2):
                tgt.process.send_signal(signal.SIGUSR1)
                t.ok(target.poll(lambda: len(last.findall(tgt.log())) == count),
                     'SIGUSR1, time %d: the figures are in the log' % count, why=tgt.log()[-2000:])
            told = last.findall(tgt.log())
            t.eq(told[-1][:2], ('1', '1'), 'SIGUSR1 tells of the connection and its controller')
            t.ok(int(told[-1][2]) > 0, 'SIGUSR1 tells of the commands')
        rows = line.findall(tgt.log())
        t.eq([row[0] for row in rows], ['0', '1', '0', '1'], 'SIGUSR1: a line for each reactor')
        t.ok(all(float(busy) + float(spun) <= float(run) + 1e-3 and float(run) > 0
                 for _, run, busy, spun, _ in rows), 'a reactor works and spins no longer than it runs', why=str(rows))
        t.ok(all(float(new[1]) >= float(old[1]) for old, new in zip(rows[:2], rows[2:])),
             'the time of a reactor goes on', why=str(rows))
    finally:
        tgt.finish(t)


def run_for(t, folder):
    done = weft('serve', '--ns', 'mem:1M', '--listen', '127.0.0.1:0', '--state',
                os.path.join(folder, 'flags'), '--discovery', 'none', '--run-for', '200ms',
                '--reactors', '2')
    t.eq(done.returncode, 0, '--run-for ends by itself with status 0')
    t.ok('nqn.2026-11.io.weft:default' in done.stdout, 'the default name of the subsystem')


def main():
    t = Tap()
    folder = tempfile.mkdtemp(prefix='weft-wire-')
    for name, part in (('usage', lambda: usage(t)), ('good', lambda: good(t, folder)),
                       ('bad', lambda: bad(t, folder)), ('banner', lambda: banner(t)),
                       ('pinning', lambda: pinning(t)),
                       ('figures', lambda: figures(t)),
                       ('run-for', lambda: run_for(t, folder))):
        with t.guard(name):
            part()
    shutil.rmtree(folder, ignore_errors=True)
    sys.exit(t.done())


main()
