#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
`weft list-subsys` against a live target with two ports, and `weft explain-timeouts`, which needs no target: output
as text and as JSON, error messages, and exit statuses: 0 done, 1 failed, 2 wrong usage.
"""

import json
import re
import subprocess

import target
from tap import Tap

NQN = target.NQN
HOST = 'nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000001'
HOST_ID = '00000000-0000-4000-8000-000000000002'
PROFILES = ('default', 'training', 'database')


def weft(*words):
    return subprocess.run([target.weft_path()] + list(words), capture_output=True, text=True,
                          timeout=60)


def show(run):
    return 'status %d\n%s%s' % (run.returncode, run.stdout, run.stderr)


def list_subsys(*words):
    return weft('list-subsys', '-n', NQN, '-q', HOST, '-I', HOST_ID, *words)


def both(ports):
    return [word for port in ports for word in ('--path', '127.0.0.1:%d' % port)]


def address(port):
    return 'traddr=127.0.0.1,trsvcid=%d' % port


def text(t, ports):
    run = list_subsys(*both(ports))
    t.eq(run.stdout.splitlines(),
         ['weft-subsys0 - NQN=' + NQN,
          '               hostnqn=' + HOST,
          '               iopolicy=queue-depth',
          '\\',
          ' +- weft0 tcp %s live mixed' % address(ports[0]),
          '      ns 1 optimized',
          '      ns 2 non-optimized',
          ' +- weft1 tcp %s live optimized' % address(ports[1])],
         'text: the shape of nvme-cli, a line for each path')
    t.eq((run.returncode, run.stderr), (0, ''), 'text: status 0, nothing on standard error')
    run = list_subsys('-v', *both(ports))
    t.ok(run.returncode == 0 and run.stdout.count('controller') == 2, 'verbose: controllers',
         why=show(run))
    t.eq(run.stdout.count('1 queues of 127 commands, fails over by Cross-Controller Reset, CQT 1000 ms'),
         2, 'verbose: queues, depth, and how a lost write is fenced', 'TP8028')
    run = list_subsys('-a', '127.0.0.1', '-s', str(ports[0]), '-a', 'localhost', '-s',
                      str(ports[1]), '-p', 'latency', '--profile', 'training')
    t.ok(run.returncode == 0 and run.stdout.count(' live') == 2 and
         'iopolicy=latency' in run.stdout, '-a and -s in pairs, policy, profile', why=show(run))
    run = list_subsys('-s', str(ports[0]), '-k', '7')
    t.ok(run.returncode == 0 and run.stdout.count(' +- ') == 1 and
         address(ports[0]) in run.stdout, '-s alone: the default address', why=show(run))
    run = list_subsys(*(both(ports) + both(ports)))
    t.ok(run.returncode == 0 and run.stdout.count(' +- ') == 2, 'a path given twice is one',
         why=show(run))


def as_json(t, ports, tgt):
    gone = target.free_port()
    run = list_subsys('--json', *both(ports + [gone]))
    t.eq(run.returncode, 0, 'JSON: one path down, status 0')
    host = json.loads(run.stdout)[0]
    t.eq((host['HostNQN'], host['HostID']), (HOST, HOST_ID), 'JSON: the host')
    subsystem = host['Subsystems'][0]
    t.eq((subsystem['NQN'], subsystem['IOPolicy'], len(subsystem['Paths'])),
         (NQN, 'queue-depth', 3), 'JSON: the subsystem')
    first, second, third = subsystem['Paths']
    t.eq([(p['Name'], p['Transport'], p['Address'], p['State']) for p in (first, second, third)],
         [('weft0', 'tcp', address(ports[0]), 'live'), ('weft1', 'tcp', address(ports[1]), 'live'),
          ('weft2', 'tcp', address(gone), 'connecting')], 'JSON: the paths as nvme-cli has them')
    t.eq([(n['NSID'], n['ANAState']) for n in first['Namespaces']],
         [(1, 'optimized'), (2, 'non-optimized')], 'JSON: ANA states', 'Base 8.1.1')
    t.eq((first['ANAState'], second['ANAState'], 'ANAState' in third),
         ('mixed', 'optimized', False), 'JSON: the state of all namespaces')
    t.eq((first['Queues'], first['QueueDepth'], first['CrossControllerReset'], first['QuiesceMs']),
         (1, 127, True, 1000), 'JSON: queues, and how a lost write is fenced', 'TP8028')
    t.ok(first['Cntlid'] != second['Cntlid'], 'JSON: a controller for each path', why=subsystem)
    t.ok('connection refused' in third['LastError'], 'JSON: why a path is down', why=third)
    t.eq(list_subsys('-o', 'json', *both(ports)).returncode, 0, '-o json')


def by_discovery(t, ports, tgt):
    run = weft('list-subsys', '-q', HOST, '-d', '127.0.0.1:%d' % tgt.discovery)
    t.ok(run.returncode == 0 and 'NQN=' + NQN in run.stdout and
         all(address(port) + ' live' in run.stdout for port in ports),
         'discovery: the only subsystem, all its paths', 'Base 3.1.3.3', why=show(run))
    run = weft('list-subsys', '-q', HOST, '-n', NQN + '2', '-d', '127.0.0.1:%d' % tgt.discovery)
    t.ok(run.returncode == 1 and 'no path' in run.stderr, 'discovery: a subsystem that is not '
         'offered', why=show(run))


def errors(t, ports):
    gone = str(target.free_port())
    rows = [
        ('nobody listens', ['-s', gone, '--set', 'connect=300ms'], 1, 'connection refused'),
        ('no discovery service', ['-d', '127.0.0.1:' + gone], 1, 'connection refused'),
        ('unknown subsystem', ['-s', str(ports[0]), '-n', NQN + '2', '--set', 'connect=300ms'], 1,
         NQN + '2'),
        ('unknown policy', ['-p', 'fastest'], 2, 'is not one of numa, round-robin, queue-depth, latency'),
        ('unknown profile', ['--profile', 'fast'], 2, 'is not one of default, training, database'),
        ('unknown time-out', ['--set', 'patience=1'], 2, 'known: connect, keep-alive'),
        ('no port', ['-s', '0'], 2, '1 to 65535'),
        ('no address', ['--path', 'a:b:c'], 1, 'a path is ADDR:PORT'),
        ('too many paths', ['-a', '::1'] * 33, 2, 'more than 32'),
        ('unknown format', ['-o', 'xml'], 2, 'xml'),
        ('stray word', ['now'], 2, 'now'),
        ('unknown flag', ['--colour'], 2, 'Try `weft list-subsys --help`.'),
    ]
    for name, words, status, says in rows:
        run = list_subsys(*words)
        t.ok(run.returncode == status and says in run.stderr, 'list-subsys: ' + name,
             why=show(run))


def explain(t):
    for profile in PROFILES:
        run = weft('explain-timeouts', profile)
        page = run.stdout.splitlines()
        t.ok(run.returncode == 0 and not run.stderr and 'profile %s' % profile in page[0] and
             len(page) <= 60 and max(map(len, page)) <= 100, 'explain-timeouts %s: one page' %
             profile, why=show(run))
        doc = json.loads(weft('explain-timeouts', profile, '-o', 'json').stdout)
        values, faults = doc['values'], {f['fault']: f for f in doc['faults']}
        # The page shows every value, with a unit that gives the same time.
        for name, value in values.items():
            line = [l for l in page if l.startswith('  %s ' % name)][0]
            number, unit = re.match(r'\s+\S+\s+([\d.]+) (ms|s|min|%)', line).groups()
            scale = {'ms': 1, '%': 1, 's': 1000, 'min': 60000}[unit]
            t.eq(round(float(number) * scale), value, '%s: %s' % (profile, name))
        silent = faults['silent-death']
        t.eq((silent['read_ms'], silent['write_with_reset_ms'], silent['write_by_time_ms']),
             (values['silence'], values['silence'] + values['reset'],
              values['silence'] + 2 * values['keep-alive'] + values['quiesce']),
             '%s: the sums of a silent death' % profile, 'Base 9.6')
        t.eq(faults['target-killed']['read_ms'], 0, '%s: a killed target is told' % profile)
    t.ok(json.loads(weft('explain-timeouts', '-o', 'json').stdout)['profile'] == 'default',
         'explain-timeouts: the default')
    doc = json.loads(weft('explain-timeouts', 'training', '--set', 'keep-alive=2s', '--set',
                          'silence=200ms', '-o', 'json').stdout)
    t.eq((doc['values']['keep-alive'], doc['values']['silence']), (2000, 200), '--set')
    rows = [
        ('unknown profile', ['fast'], 'is not one of default, training, database'),
        ('unknown value', ['--set', 'patience=1'], 'known: connect, keep-alive'),
        ('contradiction', ['--set', 'silence=10s'], 'must be below keep-alive'),
        ('stray word', ['default', 'training'], 'training'),
        ('unknown format', ['-o', 'xml'], 'xml'),
        ('unknown flag', ['--colour'], 'Try `weft explain-timeouts --help`.'),
        ('too many', ['--set', 'reset=1s'] * 33, 'more than 32'),
    ]
    for name, words, says in rows:
        run = weft('explain-timeouts', *words)
        t.ok(run.returncode == 2 and says in run.stderr and not run.stdout,
             'explain-timeouts: ' + name, why=show(run))


def test(t, tgt):
    ports = [tgt.port, tgt.second]
    for part, args in ((text, [ports]), (as_json, [ports, tgt]), (by_discovery, [ports, tgt]),
                       (errors, [ports]), (explain, [])):
        with t.guard(part.__name__):
            part(t, *args)
    for command in ('list-subsys', 'explain-timeouts'):
        run = weft(command, '--help')
        t.ok(run.returncode == 0 and 'Usage: weft ' + command in run.stdout, command + ' --help',
             why=show(run))


def main():
    first, second, discovery = (target.free_port() for _ in range(3))
    config = target.config_of(first, namespaces=[
        target.namespace(1, 'mem:1M,block=512', ana_group=1),
        target.namespace(2, 'mem:1M,block=512', ana_group=2)],
        ports=[dict({'id': i + 1, 'transport': 'tcp', 'address': '127.0.0.1',
                     'service': str(port)}, **more)
               for i, (port, more) in enumerate([
                   (first, {'ana': [{'group': 2, 'state': 'non-optimized'}]}), (second, {})])])

    def run(t, tgt):
        tgt.second, tgt.discovery = second, discovery
        test(t, tgt)

    target.run(Tap(), run, config=config, port=first,
               args=('--discovery', '127.0.0.1:%d' % discovery))


main()
