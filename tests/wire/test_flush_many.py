#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Flush with NSID FFFFFFFFh in a subsystem of 10,000 namespaces with a volatile cache: it flushes all of them,
also those after one that fails, and holds no reactor for over 1 ms (the reactors count such stalls). NVMe
Base 2.1, section 7.2.
"""

import os
import resource
import tempfile

import nvmetcp as n
import procfs
import restapi
import target
from tap import Tap

COUNT = 10000
ALL = 0xffffffff
TRIES = 8
SPEC = 'Base 7.2'


def stalls(tgt):
    client = restapi.Client(os.path.join(tgt.folder, 'state', 'weft.sock'))
    return sum(reactor['stalls'] for reactor in client.get('/v1/state').json['reactors'])


def preemptions(tgt):
    """Number of involuntary context switches of the reactors."""
    count = 0
    for status, in procfs.threads(tgt.process.pid, 'status').values():
        fields = dict(line.split(':', 1) for line in status.splitlines())
        if fields['Name'].strip().startswith('weft-r'):
            count += int(fields['nonvoluntary_ctxt_switches'])
    return count


def flush_all(t, tgt):
    with tgt.host() as host:
        conn = host.queue()
        t.status(conn.do(n.FLUSH, ALL), n.OK, 'Flush of %d namespaces' % COUNT, SPEC)
        # The kernel may preempt a reactor at any time: one undisturbed try is enough. Without one, no more
        # callbacks may be long than reactors were preempted.
        held = []
        for _ in range(TRIES):
            before, taken = stalls(tgt), preemptions(tgt)
            t.status(conn.do(n.FLUSH, ALL), n.OK, 'once more', SPEC)
            held.append((stalls(tgt) - before, preemptions(tgt) - taken))
            if held[-1][0] == 0:
                break
        t.ok(any(long <= taken for long, taken in held), 'no callback of it held a reactor for over 1 ms', SPEC,
             why='long callbacks, preemptions: %s' % held)
        with tgt.host() as second:
            other = second.queue()
            cmd = conn.submit(n.FLUSH, ALL)
            reads = 0
            while not cmd.is_done:
                t_status = other.read(1, 0, 1, 4096).status
                reads += t_status == n.OK
                while not conn.is_silent():
                    conn.pump()
            t.ok(reads > 0 and cmd.status == n.OK, 'others are served meanwhile', SPEC,
                 why='%d reads, status %s' % (reads, cmd.status))


def one_fails(t, tgt):
    client = restapi.Client(os.path.join(tgt.folder, 'state', 'weft.sock'))
    path = '/v1/subsystems/%s/namespaces' % target.NQN
    for nsid, media in ((COUNT + 1, 'fault:fail:op=flush:count=1@file:%s/bad,size=4096'),
                        (COUNT + 2, 'fault:fail:op=flush:after=1@file:%s/last,size=4096')):
        answer = client.post(path, {'nsid': nsid, 'media': media % tgt.media})
        t.eq(answer.status, 201, 'one more')
    with tgt.host() as host:
        conn = host.queue()
        t.status(conn.do(n.FLUSH, ALL), n.WRITE_FAULT, 'one that fails fails it', SPEC)
        t.status(conn.do(n.FLUSH, ALL), n.WRITE_FAULT, 'after all others were reached: the last '
                 'one, which fails from the second time on, had its first', SPEC)


def test(t, tgt):
    for part in (flush_all, one_fails):
        with t.guard(part.__name__):
            part(t, tgt)


def main():
    tap = Tap()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY and hard < COUNT + 1000:
        tap.skip('10,000 files', 'at most %d may be open here' % hard)
        raise SystemExit(tap.done())
    with tempfile.TemporaryDirectory(prefix='weft-flush-') as folder:
        def run(t, tgt):
            tgt.media = folder
            test(t, tgt)
        # Made here, because the target would sync each file and the folder.
        for i in range(COUNT):
            with open('%s/%d' % (folder, i), 'wb') as file:
                file.truncate(4096)
        target.run(tap, run, namespaces=[
            target.namespace(i + 1, 'file:%s/%d' % (folder, i)) for i in range(COUNT)])


main()
