#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
The fio engine: fio with libweft-fio.so against a live `weft serve` with two ports. fio verifies its own data
(crc32c); this test reads the medium through another host.

    test_fio.py ENGINE      $WEFT names the executable weft; an ENGINE of "-REASON" skips everything
"""

import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'wire'))
import target  # noqa: E402
from relay import Relay  # noqa: E402
from tap import Tap  # noqa: E402

NAMESPACES = [
    target.namespace(1, 'mem:8M,block=512'),
    target.namespace(2, 'mem:64M,block=4096'),
    target.namespace(3, 'mem:1M,block=512', read_only=True),
    target.namespace(4, 'fault:fail:op=read@mem:1M,block=512'),
    target.namespace(5, 'mem:1M,block=4096'),
]
TIMEOUT_S = 90


def command(tgt, *args, paths=None, nsid=2):
    paths = paths or ['127.0.0.1:%d' % port for port in tgt.ports]
    return ['timeout', str(TIMEOUT_S), 'fio', '--name=job', '--ioengine=external:' + ENGINE, '--nqn=' + target.NQN,
            '--paths=' + ','.join(paths), '--nsid=%d' % nsid, '--output-format=json', '--eta=never', *args]


def fio(tgt, *args, **where):
    done = subprocess.run(command(tgt, *args, **where), capture_output=True, text=True, cwd=tgt.folder)
    start = done.stdout.find('{')
    return done, json.loads(done.stdout[start:]) if start >= 0 else {'jobs': []}


def clean(t, tgt, name, *args, **where):
    """Runs fio, which must succeed; returns the reports of its jobs."""
    done, report = fio(tgt, *args, **where)
    t.ok(done.returncode == 0 and done.stderr == '' and all(job['error'] == 0 for job in report['jobs']),
         name + ': ends well', why=(done.returncode, done.stdout[-2000:], done.stderr))
    return report['jobs']


def verify(t, tgt):
    jobs = clean(t, tgt, 'randwrite and verify', '--rw=randwrite', '--bs=4k', '--iodepth=16', '--size=16M',
                 '--verify=crc32c')
    t.eq((jobs[0]['write']['total_ios'], jobs[0]['read']['total_ios']), (4096, 4096),
         'randwrite and verify: all is written and read back')
    with tgt.host() as host:
        conn = host.queue()
        # fio's verify header begins with a magic number.
        blank = [block for block in range(0, 4096, 97) if bytes(conn.read(2, block, 1, 4096).data)[:2] != b'\xca\xac']
        t.eq(blank, [], 'randwrite and verify: it is on the medium')
        conn.put(2, 100, b'damaged!' * 512, 4096)
    done, report = fio(tgt, '--rw=randread', '--bs=4k', '--iodepth=16', '--size=16M', '--verify=crc32c',
                       '--verify_only')
    t.ok(done.returncode != 0 and 'bad magic header' in done.stderr, 'a damaged block is found', why=done)


def large(t, tgt):
    jobs = clean(t, tgt, 'large blocks', '--rw=write', '--bs=4M', '--iodepth=4', '--size=64M', '--verify=crc32c')
    t.eq(jobs[0]['write']['io_bytes'], 64 << 20, 'large blocks: are split and whole again')


def read(t, tgt):
    jobs = clean(t, tgt, 'randread', '--rw=randread', '--bs=4k', '--iodepth=32', '--size=64M', '--number_ios=20000',
                 '--io_size=1G')
    got = jobs[0]
    t.eq((got['read']['total_ios'], got['read']['short_ios']), (20000, 0), 'randread: all that was asked')
    deep = sum(share for depth, share in got['iodepth_level'].items() if depth in ('32', '>=64'))
    t.ok(deep > 50, 'randread: 32 are in flight', why=got['iodepth_level'])


def trim(t, tgt):
    clean(t, tgt, 'fill', '--rw=write', '--bs=64k', '--iodepth=8', '--size=4M', '--buffer_pattern=0x5a')
    jobs = clean(t, tgt, 'trim', '--rw=trim', '--bs=64k', '--iodepth=8', '--size=2M')
    t.eq(jobs[0]['trim']['total_ios'], 32, 'trim: all ranges')
    with tgt.host() as host:
        conn = host.queue()
        t.ok(not any(bytes(conn.read(2, 10, 1, 4096).data)), 'trim: reads zeroes then')
        t.eq(set(bytes(conn.read(2, 600, 1, 4096).data)), {0x5a}, 'trim: and nothing else is gone')


def sync(t, tgt):
    jobs = clean(t, tgt, 'sync', '--rw=write', '--bs=4k', '--iodepth=4', '--size=1M', '--fsync=16')
    t.ok(jobs[0]['sync']['total_ios'] >= 15, 'sync: is a Flush', why=jobs[0]['sync'])


def jobs(t, tgt):
    for name, more in (('processes', []), ('threads', ['--thread'])):
        got = clean(t, tgt, name, '--numjobs=2', '--rw=randwrite', '--bs=4k', '--iodepth=8', '--size=4M',
                    '--offset_increment=8M', '--verify=crc32c', *more)
        t.eq([job['write']['total_ios'] for job in got], [1024, 1024], name + ': each job has done its part')


def paths(t, tgt):
    relay = Relay(tgt.ports[1])
    where = ['127.0.0.1:%d' % tgt.ports[0], '127.0.0.1:%d' % relay.port]
    args = ['--policy=round-robin', '--timeout_profile=training', '--hedge=99', '--rw=randrw', '--bs=4k', '--iodepth=8',
            '--size=8M', '--verify=crc32c', '--rate_iops=2000,2000', '--do_verify=1']
    before = tgt.log().count('connected to ' + target.NQN)
    process = subprocess.Popen(command(tgt, *args, paths=where), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               cwd=tgt.folder)
    # Two connections to read the size, two for the job.
    target.poll(lambda: tgt.log().count('connected to ' + target.NQN) >= before + 4)
    relay.cut()
    out, err = process.communicate(timeout=TIMEOUT_S)
    report = json.loads(out[out.find('{'):]) if '{' in out else err
    t.eq((process.returncode, report['jobs'][0]['error']), (0, 0), 'a path is cut: nothing is lost')
    t.ok(report['jobs'][0]['write']['total_ios'] > 500, 'a path is cut: it all ran', why=report['jobs'][0]['write'])


def replaced(t, tgt):
    """The first job replaces the namespace with which the second job was set up."""
    ctl = '%s ctl --state %s/state namespace' % (target.weft_path(), tgt.folder)
    script = os.path.join(tgt.folder, 'replace')
    with open(script, 'w') as file:
        file.write('#!/bin/sh\n%s remove %s 5 && %s add %s --nsid 5 --media mem:1M,block=4096\n'
                   % (ctl, target.NQN, ctl, target.NQN))
    os.chmod(script, 0o755)
    small = ['--rw=write', '--bs=4k', '--size=64k', '--buffer_pattern=0x77']
    second = [word for word in command(tgt, *small, nsid=5)[3:] if not word.startswith(('--output', '--eta'))]
    done, report = fio(tgt, *small, '--exec_prerun=' + script, *second, '--stonewall')
    said = 'namespace 5 was replaced since the job was set up'
    t.ok(done.returncode not in (0, 124) and said in done.stderr + done.stdout, 'a namespace replaced before the job: is said',
         why=(done.returncode, done.stderr, done.stdout[-500:]))
    with open(os.path.join(tgt.folder, 'job.prerun.txt')) as file:
        t.ok('generation' in file.read(), 'a namespace replaced before the job: it was')
    t.eq([job['write']['total_ios'] for job in report['jobs']], [16, 0], 'a namespace replaced before the job: no job on it')
    with tgt.host() as host:
        found = bytes(host.queue().read(5, 0, 16, 4096).data)
        t.eq(found, bytes(65536), 'a namespace replaced before the job: nothing is written')


def errors(t, tgt):
    rows = [
        ('a read error', ['--rw=read', '--bs=4k', '--size=64k'], dict(nsid=4), 'No data available'),
        ('a read-only namespace', ['--rw=write', '--bs=4k', '--size=64k'], dict(nsid=3), 'Read-only file system'),
        ('no such namespace', ['--rw=read', '--bs=4k'], dict(nsid=99), 'namespace 99'),
        ('nobody there', ['--rw=read', '--bs=4k', '--timeouts=connect=300'],
         dict(paths=['127.0.0.1:%d' % target.free_port()]), 'refused'),
        ('blocks too small', ['--rw=read', '--bs=512'], {}, 'not a multiple'),
        ('no such policy', ['--rw=read', '--policy=best'], {}, 'best'),
        ('no such profile', ['--rw=read', '--timeout_profile=best'], {}, 'profile'),
        ('a wrong hedge', ['--rw=read', '--hedge=100'], {}, 'hedge wants'),
        ('a wrong option', ['--rw=read', '--nosuch=1'], {}, 'nosuch'),
    ]
    for name, args, where, text in rows:
        done, report = fio(tgt, *args, **where)
        t.ok(done.returncode not in (0, 124) and done.returncode > 0 and text in done.stderr + done.stdout,
             name + ': is said', why=(done.returncode, done.stderr, done.stdout[-500:]))


def test(t):
    ports = [target.free_port(), target.free_port()]
    listeners = [{'id': i + 1, 'transport': 'tcp', 'address': '127.0.0.1', 'service': str(port)}
                 for i, port in enumerate(ports)]
    tgt = target.Target(port=ports[0], config=target.config_of(ports[0], NAMESPACES, ports=listeners))
    tgt.ports = ports
    try:
        for part in (verify, large, read, trim, sync, jobs, paths, replaced, errors):
            with t.guard(part.__name__):
                part(t, tgt)
    finally:
        tgt.finish(t)


if __name__ == '__main__':
    ENGINE = sys.argv[1] if sys.argv[1].startswith('-') else os.path.abspath(sys.argv[1])
    TAP = Tap()
    if ENGINE.startswith('-'):
        print('1..0 # SKIP ' + ENGINE[1:])
        sys.exit(0)
    if not shutil.which('fio'):
        print('1..0 # SKIP fio is not installed')
        sys.exit(0)
    test(TAP)
    sys.exit(TAP.done())
