#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Allow-lists changed by `weft ctl` on a live target, as hosts see them: restricting an open subsystem ends the
connections of hosts that are not listed and refuses their next Connect; listed hosts notice nothing. Adding,
removing, "none" and "any" likewise. weft-ctl(1).
"""

import os
import subprocess

import nvmetcp as n
import target
from tap import Tap

SPEC = 'Base 6.3'
LISTED = 'nqn.2014-08.org.example:listed'
STRANGER = 'nqn.2014-08.org.example:stranger'
NQN = target.NQN
BYTES = 16384


def ctl(tgt, *words):
    return subprocess.run([target.weft_path(), 'ctl', '--state', os.path.join(tgt.folder, 'state')] + list(words),
                          capture_output=True, text=True, timeout=60)


def change(t, tgt, name, *words):
    run = ctl(tgt, *words)
    t.ok(run.returncode == 0, name, why=run.stdout + run.stderr)


def connect(tgt, hostnqn, qid=0, **fields):
    with tgt.conn() as conn:
        conn.ic()
        return conn.connect(NQN, qid, hostnqn=hostnqn, **fields)


def is_admitted(tgt, hostnqn):
    return connect(tgt, hostnqn).status == n.OK


def offered(tgt, hostnqn):
    """Whether this host's discovery log lists the subsystem."""
    with tgt.host(n.DISCOVERY_NQN, hostnqn=hostnqn) as host:
        return NQN.encode() in bytes(host.admin.get_log(0x70, 4096, nsid=0).data)


def works(t, host, conn, name):
    t.status(conn.put(1, 0, b'\x11' * 512), n.OK, name + ': its I/O goes on', SPEC)
    t.ok(host.admin.is_silent(), name + ': it hears nothing of it', SPEC)


def ended(t, host, name):
    t.ok(all(conn.wait_closed() for conn in [host.admin] + list(host.queues.values())),
         name + ': its connections end', 'weft-ctl(1)')


def restricted(t, tgt):
    """Changes the subsystem from any host to one host."""
    with tgt.host(hostnqn=LISTED) as kept, tgt.host(hostnqn=STRANGER) as lost:
        mine, theirs = kept.queue(), lost.queue()
        owed = theirs.rw(n.WRITE, 1, 64, BYTES // 512, 512, b'\x66' * BYTES, way='r2t', is_auto=False)
        theirs.wait_r2t(owed)
        run = ctl(tgt, 'host', 'add', NQN, LISTED)
        t.ok(run.returncode == 1 and 'subsystem set %s --host %s' % (NQN, LISTED) in run.stderr,
             'host add on an open subsystem is refused, with what to say instead', why=run.stderr)
        t.ok(is_admitted(tgt, STRANGER), 'and restricts nothing', SPEC)
        change(t, tgt, 'restricted to one host', 'subsystem', 'set', NQN, '--host', LISTED)
        refused = connect(tgt, STRANGER)
        t.status(refused, n.CONNECT_HOST, 'a host that is not listed is refused', SPEC, dnr=1)
        t.status(connect(tgt, STRANGER, qid=1, cntlid=lost.cntlid), n.CONNECT_HOST,
                 'also with one more I/O queue of its controller', SPEC)
        ended(t, lost, 'a host that is not listed')
        works(t, kept, mine, 'the listed host')
        t.eq(bytes(mine.read(1, 64, 1).data), bytes(512), 'a write that the other one owed is not done', SPEC)
        t.ok(is_admitted(tgt, LISTED), 'the listed host connects again', SPEC)
        t.eq((offered(tgt, LISTED), offered(tgt, STRANGER)), (True, False), 'discovery tells the one alone',
             'Base 5.1.12.3.1')


def added_and_removed(t, tgt):
    with tgt.host(hostnqn=LISTED) as kept:
        mine = kept.queue()
        change(t, tgt, 'host add', 'host', 'add', NQN, STRANGER)
        with tgt.host(hostnqn=STRANGER) as other:
            theirs = other.queue()
            works(t, other, theirs, 'a host that was added')
            works(t, kept, mine, 'the one that was there')
            change(t, tgt, 'host remove', 'host', 'remove', NQN, STRANGER)
            ended(t, other, 'a host that was removed')
        t.ok(not is_admitted(tgt, STRANGER), 'a host that was removed does not come back', SPEC)
        works(t, kept, mine, 'the other one')


def none_and_any(t, tgt):
    with tgt.host(hostnqn=LISTED) as host:
        host.queue()
        change(t, tgt, '--host none', 'subsystem', 'set', NQN, '--host', 'none')
        ended(t, host, 'none: every host')
    t.ok(not is_admitted(tgt, LISTED) and not is_admitted(tgt, STRANGER), 'none: nobody connects', SPEC)
    change(t, tgt, '--host any', 'subsystem', 'set', NQN, '--host', 'any')
    with tgt.host(hostnqn=STRANGER) as host:
        works(t, host, host.queue(), 'any: whoever comes')


def test(t, tgt):
    for part in (restricted, added_and_removed, none_and_any):
        with t.guard(part.__name__):
            part(t, tgt)


target.run(Tap(), test, limits={'data_timeout_ms': 3600000})
