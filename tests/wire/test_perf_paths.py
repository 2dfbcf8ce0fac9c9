#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
weft perf over several paths, to several subsystems and targets: commands per path, verification when a path is cut
under load, hedged reads, and the end when no path is left.
"""

import json
import os
import re
import signal
import subprocess
import sys

import target
from tap import Tap

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib'))
from relay import Relay  # noqa: E402

OTHER = 'nqn.2026-11.io.weft:wire-other'
SLOW_MS = 50
COMMANDS = re.compile(r'target: .*commands (\d+)')


def command(*args):
    return [target.weft_path(), 'perf', '--quiet', '-n', target.NQN, *args]


def perf(*args):
    return subprocess.run(command(*args), capture_output=True, text=True, timeout=60)


def result(t, name, *args):
    done = perf('--json', *args)
    t.eq((done.returncode, done.stderr), (0, ''), name + ': exit status')
    return json.loads(done.stdout)


def commands(tgt):
    """Number of commands of the target so far, from its report on SIGUSR1."""
    known = len(COMMANDS.findall(tgt.log()))
    tgt.process.send_signal(signal.SIGUSR1)
    target.poll(lambda: len(COMMANDS.findall(tgt.log())) > known)
    return int(COMMANDS.findall(tgt.log())[-1])


def cut_under_load(tgt, relay, *args):
    """Cuts the relay of a running perf; returns its status, report and error output."""
    before = commands(tgt)
    with subprocess.Popen(command('--json', *args), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        # More commands than connecting takes.
        target.poll(lambda: commands(tgt) > before + 200)
        relay.cut()
        out, err = process.communicate(timeout=60)
    return process.returncode, json.loads(out), err


def path_args(tgt, ports=None):
    return [word for port in ports or tgt.ports for word in ('--path', '127.0.0.1:%d' % port)]


def shares(got):
    return [path['commands'] for path in got['paths']]


def policies(t, tgt):
    for policy in ('round-robin', 'queue-depth', 'latency'):
        got = result(t, policy, *path_args(tgt), '--policy', policy, '--bytes', '8M')
        t.eq((got['policy'], got['profile'], got['read']['ios']), (policy, 'default', 2048), policy + ': what ran')
        t.eq([path['address'] for path in got['paths']], ['127.0.0.1:%d' % port for port in tgt.ports],
             policy + ': its paths')
        t.eq(sum(shares(got)), 2048, policy + ': every command has its path')
        t.ok(all(path['live'] and path['losses'] == 0 and path['subsystem'] == target.NQN and path['last_error'] == ''
                 for path in got['paths']), policy + ': both are there', why=got['paths'])
        t.ok(all(path['latency_us'] > 0 for path in got['paths'] if path['commands']), policy + ': their latency',
             why=got['paths'])
        t.ok(abs(sum(path['share_percent'] for path in got['paths']) - 100) < 0.01, policy + ': the shares are all of it')
        if policy == 'round-robin':
            t.ok(abs(shares(got)[0] - shares(got)[1]) <= 1, policy + ': in turn', why=shares(got))
    got = result(t, 'numa', *path_args(tgt), '--policy', 'numa', '--bytes', '4M')
    t.eq(shares(got), [1024, 0], 'numa: the others only when it is gone')
    got = result(t, 'warm-up', *path_args(tgt), '--warmup', '200ms', '--time', '200ms')
    # Commands sent before the measured time and answered in it count as well; a path counts all that it answered.
    t.ok(abs(sum(shares(got)) - got['read']['ios']) <= 64, 'warm-up: is not counted', why=(shares(got), got['read']))
    text = perf(*path_args(tgt), '--bytes', '1M', '--profile', 'training').stdout
    t.ok('paths   2, policy queue-depth, profile training' in text and '127.0.0.1:%d: ' % tgt.ports[1] in text and
         '% of the commands' in text, 'in words', why=text)


def one_path(t, tgt):
    got = result(t, 'one path', '--path', '127.0.0.1:%d' % tgt.ports[1], '--bytes', '1M')
    t.eq(shares(got), [256], 'one path: through the same engine')
    got = result(t, 'no path but a policy', '-s', str(tgt.ports[0]), '--policy', 'latency', '--bytes', '1M')
    t.eq((shares(got), got['paths'][0]['address']), ([256], '127.0.0.1:%d' % tgt.ports[0]),
         'no path but a policy: the one of -a and -s')
    got = result(t, 'twice', *path_args(tgt), *path_args(tgt), '--bytes', '1M')
    t.eq(len(got['paths']), 2, 'twice the same path is one')
    got = result(t, 'plain', '-s', str(tgt.ports[0]), '--bytes', '1M')
    t.ok('paths' not in got and 'policy' not in got, 'a single controller tells of no paths', why=got)


def more(t, tgt):
    """Queues, controllers, namespaces and --rate work with paths."""
    got = result(t, 'queues', *path_args(tgt), '--queues', '2', '--controllers', '3', '--depth', '4', '--bytes', '4M')
    t.eq((got['read']['ios'], sum(shares(got)), got['controllers']), (1024, 1024, 3), 'queues and controllers: what ran')
    perf(*path_args(tgt), '--nsid', '4', '--namespaces', '5', '--rw', 'randwrite', '--bytes', '1M')
    with tgt.host() as host:
        queue = host.queue()
        blank = [nsid for nsid in range(4, 9) if not any(queue.read(nsid, 0, 128).data)]
    t.eq(blank, [], 'namespaces: all of them are used')
    got = result(t, 'rate', *path_args(tgt), '--rate', '500', '--bytes', '400k', '--depth', '64')
    t.eq((got['read']['ios'], sum(shares(got))), (100, 100), 'rate: the timetable')
    done = perf(*path_args(tgt), '--nsid', '2', '--rw', 'randrw', '--bytes', '8M', '--verify', '-g', '-G')
    t.ok(done.returncode == 0 and ' 0 wrong' in done.stdout, 'verify: with digests', why=done)


def targets(t, tgt):
    first, second = ('127.0.0.1:%d' % port for port in tgt.ports)
    got = result(t, 'targets', '--target', '%s@%s+%s' % (target.NQN, first, second), '--target', '%s@%s' % (OTHER, second),
                 '--policy', 'round-robin', '--bytes', '64M')
    t.eq([(path['subsystem'], path['address']) for path in got['paths']],
         [(target.NQN, first), (target.NQN, second), (OTHER, second)], 'targets: each has its paths')
    # Long enough for a target that starts late on a busy machine to get its share.
    t.ok(all(count > 100 for count in shares(got)) and sum(shares(got)) == 16384, 'targets: all get the load',
         why=shares(got))
    text = perf('--target', '%s@%s' % (target.NQN, first), '--target', '%s@%s' % (OTHER, second), '--bytes', '1M').stdout
    t.ok('%s of %s: ' % (second, OTHER) in text and '2 controllers with' in text, 'targets: in words', why=text)
    got = result(t, 'target and path', '--target', '%s@%s' % (OTHER, second), '--path', first, '--bytes', '1M')
    t.eq([path['subsystem'] for path in got['paths']], [OTHER, target.NQN], '--path is of -n, beside a target')


def cut(t, tgt):
    """
    Half the load goes over a relay that resets its connections: no data is lost, and the report shows the cut.
    """
    relay = Relay(tgt.ports[1])
    code, got, err = cut_under_load(
        tgt, relay, *path_args(tgt, [tgt.ports[0], relay.port]), '--nsid', '2', '--policy', 'round-robin', '--rw', 'randwrite',
        '--rate', '2k', '--time', '2s', '--verify', '--profile', 'training')
    t.eq((code, err, got['io_errors'], got['verify']['errors']), (0, '', 0, 0), 'a cut path: nothing is lost')
    t.eq([path['losses'] for path in got['paths']], [0, 1], 'a cut path: told')
    t.eq([path['live'] for path in got['paths']], [True, False], 'a cut path: is not there any more')
    t.ok('refused' in got['paths'][1]['last_error'], 'a cut path: and why', why=got['paths'])
    t.ok(shares(got)[0] > shares(got)[1] > 0, 'a cut path: the other carries on', why=shares(got))


def missing(t, tgt):
    dead = target.free_port()
    got = result(t, 'a path is missing', *path_args(tgt, [tgt.ports[0], dead]), '--set', 'connect=300', '--bytes', '1M')
    t.eq(([path['live'] for path in got['paths']], shares(got)), ([True, False], [256, 0]),
         'a path is missing: the load runs over the other')
    done = perf(*path_args(tgt, [dead]), '--set', 'connect=300', '--bytes', '1M')
    t.ok(done.returncode == 1 and 'refused' in done.stderr, 'no path at all: said', why=done)
    done = perf(*path_args(tgt), '--nsid', '77', '--bytes', '1M')
    t.ok(done.returncode == 2 and 'no namespace 77' in done.stderr, 'no such namespace', why=done)


def all_gone(t, tgt):
    relay = Relay(tgt.ports[0])
    code, got, err = cut_under_load(tgt, relay, *path_args(tgt, [relay.port]), '--rate', '1k', '--time', '1h',
                                    '--set', 'fast-io-fail=300', '--set', 'keep-alive=1000')
    t.eq(code, 1, 'every path is gone: exit status')
    t.ok('all paths to %s are lost' % target.NQN in err and 'are lost' in got['error'], 'every path is gone: said', why=(err, got))


def hedged(t, tgt):
    """A twentieth of the reads is slow: perf sends twins, within the limit."""
    got = result(t, 'hedge', *path_args(tgt), '--nsid', '3', '--depth', '8', '--time', '2s', '--hedge', '90',
                 '--hedge-extra', '20')
    hedge = got['hedge']
    t.eq(hedge['percentile'], 90, 'hedge: what was asked for')
    t.eq(hedge['reads'], got['read']['ios'], 'hedge: of all reads')
    t.ok(hedge['extra'] > 0 and hedge['threshold_us'] > 0, 'hedge: some are sent twice', why=hedge)
    # The budget of 256 may be full when measuring begins.
    t.ok(hedge['extra'] <= 256 + 0.2 * hedge['reads'] and hedge['wins'] <= hedge['extra'], 'hedge: bounded', why=hedge)
    text = perf(*path_args(tgt), '--bytes', '1M', '--hedge', '99.5').stdout
    t.ok('hedge   ' in text and 'reads sent twice' in text, 'hedge: in words', why=text)


def usage(t):
    rows = [
        (['--path', 'nowhere.invalid:1'], 'cannot find the address'), (['--path', '127.0.0.1:0x'], 'cannot find'),
        (['--target', 'x'], '--target must be'), (['--target', 'nqn.2026-11.io.weft:a@'], '--target must be'),
        (['--target', 'bad@127.0.0.1'], 'NQN "bad"'), (['--policy', 'best'], '--policy: "best" is not one of numa'),
        (['--profile', 'best'], '--profile: "best" is not one of default'), (['--set', 'nothing=1'], 'nothing'),
        (['--hedge', '100'], '--hedge must be'), (['--hedge', 'x'], '--hedge must be'), (['--hedge', '0'], '--hedge must be'),
        (['--hedge-extra', '0'], '--hedge-extra must be'), (['--policy', 'latency', '--idle-controllers', '1'], '--idle'),
        (['--target', 'nqn.2026-11.io.weft:a@127.0.0.1', '--target', 'nqn.2026-11.io.weft:b@127.0.0.1', '--verify'],
         'one --target only'),
        ([word for i in range(33) for word in ('--path', '127.0.0.1:%d' % (5000 + i))], 'more than 32 paths'),
        ([word for i in range(17) for word in ('--target', 'nqn.2026-11.io.weft:%d@127.0.0.1' % i)], 'more than 16 targets'),
    ]
    for args, text in rows:
        done = subprocess.run([target.weft_path(), 'perf', *args], capture_output=True, text=True, timeout=60)
        t.ok(done.returncode == 2 and text in done.stderr, 'usage: ' + ' '.join(args[:4]), why=done)


def test(t):
    ports = [target.free_port(), target.free_port()]
    listeners = [{'id': i + 1, 'transport': 'tcp', 'address': '127.0.0.1', 'service': str(port)}
                 for i, port in enumerate(ports)]
    spaces = [target.namespace(1, 'mem:8M,block=512'), target.namespace(2, 'mem:16M,block=4096'),
              target.namespace(3, 'fault:delay:op=read:prob=5:ms=%d@mem:8M' % SLOW_MS)]
    spaces += [target.namespace(4 + i, 'mem:64k,block=512') for i in range(5)]
    subsystems = [{'nqn': nqn, 'serial': 'PATHS%d' % i, 'allow_any_host': True, 'namespaces': spaces if i == 0 else spaces[:1]}
                  for i, nqn in enumerate((target.NQN, OTHER))]
    tgt = target.Target(port=ports[0], config=target.config_of(ports[0], subsystems=subsystems, ports=listeners))
    tgt.ports = ports
    try:
        for part in (policies, one_path, more, targets, cut, missing, all_gone, hedged):
            with t.guard(part.__name__):
                part(t, tgt)
        with t.guard('usage'):
            usage(t)
    finally:
        tgt.finish(t)


if __name__ == '__main__':
    TAP = Tap()
    test(TAP)
    sys.exit(TAP.done())
