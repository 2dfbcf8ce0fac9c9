#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
weft perf with a timetable (--rate), many controllers, idle controllers beside them, and many namespaces: its load
on the target, its report, and its end when a path is lost or an option is refused. A slow medium makes overload
certain without a fast machine.
"""

import json
import re
import resource
import signal
import subprocess
import time

import target
from tap import Tap

SLOW_MS = 100
COMMANDS = re.compile(r'target: .*commands (\d+)')


def perf(tgt, *args, **more):
    return subprocess.run(command(tgt, *args), capture_output=True, text=True, timeout=60, **more)


def command(tgt, *args):
    return [target.weft_path(), 'perf', '-s', str(tgt.port), '-n', target.NQN, '--quiet', *args]


def result(t, tgt, name, *args):
    done = perf(tgt, '--json', *args)
    long = [word for word in re.findall(r'-?[0-9.]+', done.stdout) if '.' in word and len(word.lstrip('0.')) > 10]
    t.eq(long, [], 'no number has more digits than were measured')
    t.eq((done.returncode, done.stderr), (0, ''), name + ': exit status')
    return json.loads(done.stdout)


def rate(t, tgt):
    """The timetable gives the number of commands, however late this machine runs."""
    got = result(t, tgt, 'rate', '--rate', '500', '--time', '1s', '--depth', '64')
    t.eq(got['rate_asked'], 500, 'rate: asked')
    t.eq(timetable(got), 500, 'rate: every command of the second was sent or is told')
    t.ok(got['rate_achieved'] <= 501, 'rate: not more than asked', why=got['rate_achieved'])
    t.eq(got['late_us'].keys(), got['read']['latency_us'].keys(), 'rate: how late they left')
    got = result(t, tgt, 'rate with suffix', '--rate', '2k', '--bytes', '400k', '--depth', '64')
    t.eq((got['rate_asked'], got['read']['ios'], got['rate_unsent']), (2000, 100, 0),
         'rate: --bytes ends it')
    text = perf(tgt, '--rate', '1k', '--time', '200ms').stdout
    t.ok('rate    asked 1000/s' in text, 'rate: in words', why=text)


def timetable(got):
    """All commands that the timetable has for the measured time: sent, answered late, or never sent."""
    return got['read']['ios'] + got['rate_unsent'] + got['rate_answered_late']


def accuracy(t, tgt):
    """
    "Kept" is within 3 per cent. On a slow or busy machine perf reports that it did not keep the rate, and the
    counts must add up. More than the rate is wrong on any machine.
    """
    for asked in (10000, 50000, 200000):
        name = 'rate %d: ' % asked
        got = result(t, tgt, name, '--rate', str(asked), '--warmup', '200ms', '--time', '0.5s', '--depth', '127')
        t.eq(timetable(got), asked // 2, name + 'all commands of the timetable are accounted for')
        t.ok(got['elapsed_s'] >= 0.5, name + 'the whole time is measured', why=got)
        t.ok(got['rate_achieved'] <= asked * 1.0001, name + 'not more than asked', why=got)
        if got['rate_kept']:
            t.ok(got['rate_achieved'] >= 0.97 * asked, name + 'kept', why=got)
        else:
            t.ok(got['rate_unsent'] + got['rate_answered_late'] > 0 or got['elapsed_s'] > 0.505,
                 name + 'not kept, and it says why', why=got)


def commands(tgt):
    """Number of commands of the target so far, from its report on SIGUSR1."""
    known = len(COMMANDS.findall(tgt.log()))
    tgt.process.send_signal(signal.SIGUSR1)
    target.poll(lambda: len(COMMANDS.findall(tgt.log())) > known)
    return int(COMMANDS.findall(tgt.log())[-1])


def stalled(t, tgt, *args):
    """Stops perf from within its warm-up until after the end of its time."""
    before = commands(tgt)
    with subprocess.Popen(command(tgt, '--warmup', '500ms', '--time', '300ms', '--json', *args), text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        # More commands than connecting takes: the load and the warm-up have begun.
        target.poll(lambda: commands(tgt) > before + 25)
        process.send_signal(signal.SIGSTOP)
        resumed = time.monotonic() + 1.2
        target.poll(lambda: time.monotonic() > resumed)
        process.send_signal(signal.SIGCONT)
        out, err = process.communicate(timeout=30)
    t.eq((process.returncode, err), (0, ''), 'stalled: exit status')
    return json.loads(out)


def late_start(t, tgt):
    """The warm-up ends late: the measured time begins then and is not shortened."""
    got = stalled(t, tgt, '--nsid', '3', '--depth', '8')
    t.ok(0.3 <= got['elapsed_s'], 'a late start does not shorten the time', why=got)
    # Eight at a time, 100 ms each; commands in flight at the beginning add one more lot.
    most = 8 * (got['elapsed_s'] * 1000 / SLOW_MS + 2)
    t.ok(0 < got['read']['ios'] <= most, 'a late start does not add commands', why=got)
    got = stalled(t, tgt, '--rate', '2k', '--depth', '64')
    t.eq(timetable(got), 600, 'a late start with --rate: the timetable of the time, no more')
    t.ok(got['rate_achieved'] <= 2001, 'a late start with --rate: nothing is caught up', why=got)
    t.ok(got['elapsed_s'] > 0.8 or got['rate_warmup_unsent'] > 500,
         'a late start with --rate: what the warm-up owed is told', why=got)


def slower_than_the_time(t, tgt):
    for args in ([], ['--rate', '1k']):
        got = result(t, tgt, 'slow', '--nsid', '3', '--depth', '1', '--time', '0.02s', *args)
        t.ok(got['read']['ios'] == 1 and got['elapsed_s'] >= SLOW_MS / 1000,
             'an answer slower than the time is waited for', why=got)


def overload(t, tgt):
    """One command takes 100 ms and one may be in flight: 10 a second; the rest waits."""
    got = result(t, tgt, 'overload', '--nsid', '3', '--rate', '100', '--depth', '1', '--time', '1s')
    t.ok(not got['rate_kept'] and got['rate_achieved'] <= 11, 'overload: it says so', why=got)
    t.ok(got['rate_unsent'] >= 85, 'overload: what never left is counted', why=got)
    latency = got['read']['latency_us']
    t.ok(latency['min'] >= SLOW_MS * 1000 and latency['max'] >= 5 * SLOW_MS * 1000,
         'overload: waiting for a place counts as latency', why=latency)
    text = perf(tgt, '--nsid', '3', '--rate', '100', '--depth', '1', '--time', '500ms').stdout
    t.ok('NOT REACHED' in text, 'overload: in words', why=text)

    def closed_us():
        got = result(t, tgt, 'the same closed', '--nsid', '3', '--depth', '1', '--time', '500ms')
        t.ok('rate_asked' not in got, 'without --rate there is none')
        return got['read']['latency_us']['p50']
    p50s = target.least(closed_us, 4 * SLOW_MS * 1000)
    t.ok(min(p50s) <= 4 * SLOW_MS * 1000, 'overload: without --rate the loop is closed', why=p50s)


def rate_verified(t, tgt):
    done = perf(tgt, '--nsid', '2', '--rw', 'randwrite', '--rate', '4k', '--bytes', '2M', '--verify',
                '--controllers', '2')
    t.eq((done.returncode, done.stderr), (0, ''), 'rate: what was written is read back')
    t.ok('512 I/Os' in done.stdout and ' 0 wrong' in done.stdout, 'rate: and is right', why=done.stdout)


def controllers(t, tgt):
    got = result(t, tgt, 'controllers', '--controllers', '40', '--queues', '2', '--depth', '2',
                 '--idle-controllers', '7', '--bytes', '8M')
    t.eq((got['controllers'], got['idle_controllers'], got['queues'], got['read']['ios']),
         (40, 7, 2, 2048), 'controllers: what ran')
    slow, fast = got['controller_iops']['min'], got['controller_iops']['max']
    t.ok(0 < slow <= got['read']['iops'] / 40 <= fast, 'controllers: slowest and fastest', why=got)
    t.ok(tgt.log().count('connected to ' + target.NQN) >= 47, 'controllers: each had its Connect')
    text = perf(tgt, '--controllers', '3', '--bytes', '1M').stdout
    t.ok('3 controllers with 1 queue' in text and 'ctrls   slowest' in text,
         'controllers: in words', why=text)

    def paced():
        got = result(t, tgt, 'paced', '--controllers', '5', '--rate', '1k', '--bytes', '400k')
        t.eq(got['read']['ios'], 100, 'controllers: one timetable for all')
        return got['controller_iops']['max'] / got['controller_iops']['min']
    ratios = target.least(paced, 1.3)
    t.ok(min(ratios) <= 1.3, 'controllers: they take turns', why=ratios)


def controllers_refused(t, tgt):
    done = perf(tgt, '--controllers', '99', '--idle-controllers', '2', '--bytes', '1M')
    t.eq(done.returncode, 1, 'one controller too many: exit status')
    t.ok('of 101: ' in done.stderr, 'one controller too many: which', why=done.stderr)
    t.ok(target.poll(lambda: tgt.log().count(' gone: ') == tgt.log().count('connected to')),
         'one controller too many: the others are disconnected')

    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

    done = perf(tgt, '--controllers', '50', preexec_fn=few)
    t.eq(done.returncode, 1, 'too few open files: exit status')
    t.ok('50 controllers of 1 queues need 164 open files, and the limit is 64' in done.stderr,
         'too few open files: how many', why=done.stderr)


def files_raised(t, tgt):
    def soft():
        resource.setrlimit(resource.RLIMIT_NOFILE,
                           (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))

    done = perf(tgt, '--controllers', '50', '--bytes', '1M', preexec_fn=soft)
    t.eq((done.returncode, done.stderr), (0, ''), 'the soft limit of open files is raised')


def namespaces(t, tgt):
    got = result(t, tgt, 'namespaces', '--nsid', '4', '--namespaces', '20', '--bytes', '4M')
    t.eq((got['namespaces'], got['read']['ios']), (20, 1024), 'namespaces: what ran')
    # With 1,000 random choices every one of the 20 namespaces is written.
    perf(tgt, '--nsid', '4', '--namespaces', '20', '--rw', 'randwrite', '--bytes', '4M')
    with tgt.host() as host:
        queue = host.queue()
        blank = [nsid for nsid in range(4, 24) if not any(queue.read(nsid, 0, 128).data)]
    t.eq(blank, [], 'namespaces: all of them are used')


def interrupted(t, tgt):
    for name, args in (('paced', ['--rate', '1']), ('closed', ['--controllers', '4'])):
        before = tgt.log().count('connected to')
        with subprocess.Popen(command(tgt, '--time', '1h', '--json', *args), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            target.poll(lambda: tgt.log().count('connected to') > before)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=30)
        # 1 when the signal came before the first command.
        t.ok(process.returncode in (0, 1) and json.loads(out), name + ': an interrupt ends it',
             why=(process.returncode, err))


def lost(t, tgt):
    """The target is lost under several controllers: one message, status 1, no hang."""
    with subprocess.Popen(command(tgt, '--time', '1h', '--controllers', '8', '--rate', '2k'),
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        target.poll(lambda: tgt.log().count('connected to') >= 8)
        tgt.kill()
        _, err = process.communicate(timeout=30)
    t.eq(process.returncode, 1, 'a lost target: exit status')
    t.eq(len(err.strip().splitlines()), 1, 'a lost target: one message')


def watched(t, tgt):
    got = result(t, tgt, 'watch', '--bytes', '8M', '--watch-pid', str(tgt.process.pid))
    t.ok(0 < got['watched_cpu_s'] < 60, 'watch: the CPU time of the target', why=got)
    done = perf(tgt, '--bytes', '1M', '--watch-pid', '2147483647')
    t.ok(done.returncode == 2 and 'no process 2147483647' in done.stderr, 'watch: nobody there', why=done)


def usage(t):
    rows = [
        (['--rate', '0'], '--rate must be'), (['--rate', 'k'], '--rate must be'), (['--rate', ''], '--rate must be'),
        (['--rate', '10x'], '"10x"'), (['--rate', '101M'], '100000000'), (['--rate', '-5'], '"-5"'),
        (['--controllers', '0'], 'from 1 to 65519'), (['--idle-controllers', '65520'], 'from 0 to 65519'),
        (['--namespaces', '0'], 'from 1'), (['--namespaces', '2', '--verify'], '--verify'),
        (['--watch-pid', '0'], '--watch-pid'), (['--time', '1.s'], '1.5s'),
        (['--nsid', '0xfffffffe', '--namespaces', '2'], 'exceeds the largest NSID'),
    ]
    for args, text in rows:
        done = subprocess.run([target.weft_path(), 'perf', *args], capture_output=True, text=True,
                              timeout=60)
        t.ok(done.returncode == 2 and text in done.stderr, 'usage: ' + ' '.join(args), why=done)


def uneven(t, tgt):
    done = perf(tgt, '--namespaces', '2', '--bytes', '1M')
    t.eq(done.returncode, 2, 'namespaces of different block sizes: exit status')
    t.ok('4096-byte blocks' in done.stderr, 'namespaces of different block sizes: said',
         why=done.stderr)
    done = perf(tgt, '--nsid', '20', '--namespaces', '9', '--bytes', '1M')
    t.ok(done.returncode == 2 and 'no namespace 24' in done.stderr, 'a namespace that is not there',
         why=done)


def test(t, tgt):
    for part in (rate, accuracy, late_start, slower_than_the_time, overload, rate_verified, controllers, controllers_refused, files_raised,
                 namespaces, uneven, watched, interrupted):
        with t.guard(part.__name__):
            part(t, tgt)
    with t.guard('usage'):
        usage(t)
    with t.guard('lost'):
        other = target.Target()
        try:
            lost(t, other)
        finally:
            other.kill()
            other.remove()


SPACES = [target.namespace(1, 'mem:8M,block=512'), target.namespace(2, 'mem:16M,block=4096'),
          target.namespace(3, 'fault:delay:op=read:ms=%d@mem:8M' % SLOW_MS)]
SPACES += [target.namespace(4 + i, 'mem:64k,block=512') for i in range(20)]

target.run(Tap(), test, namespaces=SPACES, limits={'controllers': 100})
