#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Commands that change the configuration wait for the control thread. Each part stops that thread, lets a host send a
Format NVM behind a change of another host, and changes something before the Format's turn: the host is fenced,
lost or reset, the namespace is replaced or hidden, or the right is removed. The Format must not be executed. The
thread then finds the other host's change, the Format and the new change in that order: the Format waits for the
first change, the new change does not wait. docs/adr/0034, NVMe Base 2.1, sections 3.7.2, 5.1.1, 5.1.10 and 8.1.22.
"""

import contextlib
import os
import sqlite3
import struct
import tempfile

import nvmetcp as n
import restapi
import target
import threadstop
from tap import Tap

SPEC = 'ADR 0034'
FORMAT, SET_FEATURES, GET_FEATURES, ABORT = 0x80, 0x09, 0x0a, 0x08
LABEL, PERSISTENCE = 0x1f, 0x83
LABELS_EACH = 28  # an admin queue has 31 entries
REGISTER, REPORT, ACQUIRE, RELEASE, FLUSH = 0x0d, 0x0e, 0x11, 0x15, 0x00
WAITING_MAX = 1024  # reservation commands of a host
CONFLICT, PREEMPTED, IN_PROGRESS, INTERRUPTED, INTERNAL = (0, 0x83), (0, 0x1b), (0, 0x84), (0, 0x21), (0, 0x06)
ERASE = 1 << 9
DATA, LABELS, SLOW = 1, 2, 3
ERASED_LATER = 40000  # LBA after the first piece of 16 MiB
ALL = 0xffffffff
PATIENCE_S = 60
A, B, C, D = ('nqn.2014-08.org.example:%s' % name for name in 'abcd')
NS_PATH = '/v1/subsystems/%s/namespaces' % target.NQN
SLOW_MS = 600000
FOLDER = tempfile.mkdtemp(prefix='weft-wire-manage-')
MINE, THEIRS = b'\xaa' * 512, b'\xbb' * 512


def connect(tgt, nqn):
    return tgt.host(hostnqn=nqn, hostid=nqn[-16:].encode())


def image(name):
    return os.path.join(FOLDER, name)


def is_intact(path, data):
    with open(path, 'rb') as file:
        return file.read(len(data)) == data


def api(tgt):
    return restapi.Client(os.path.join(tgt.folder, 'state', 'weft.sock'))


def set_label(host, text, nsid=LABELS):
    return host.admin.submit(SET_FEATURES, nsid, cdw10=LABEL | 1 << 31, data=text.encode().ljust(256, b'\0'))


labels = iter(range(10 ** 6))


@contextlib.contextmanager
def held(tgt):
    """Stops the control thread; the first thing that it will find is another host's change."""
    with connect(tgt, C) as c:
        with threadstop.Stopped(tgt.process, threadstop.MAIN):
            cmd = set_label(c, 'held %d' % next(labels))
            c.admin.identify(1)
            yield
        must(c.admin.wait(cmd, PATIENCE_S), 'the first change')


class Asked:
    """A REST request that waits for the control thread."""

    def __init__(self, tgt, method, path, body=None):
        self.conn = restapi.Connection(os.path.join(tgt.folder, 'state', 'weft.sock'))
        self.conn.send(restapi.request(method, path, body))
        tgt.wait_taken(self.conn)

    def answer(self):
        with self.conn:
            return self.conn.receive()


def ns_path(nsid):
    return '%s/%d' % (NS_PATH, nsid)


@contextlib.contextmanager
def ended(t, tgt, nsid):
    """Removes the namespace at the end of a part."""
    try:
        yield
    finally:
        t.eq(api(tgt).delete(ns_path(nsid)).status, 200, 'the namespace is removed')


def send_format(host, nsid=DATA):
    """Sends a Format; returns when the target has it."""
    cmd = host.admin.submit(FORMAT, nsid, cdw10=ERASE)
    host.admin.identify(1)
    return cmd


def leave(host):
    """
    Closes the admin queue's connection. Returns when the target has closed the I/O queue's connection: before
    that, the target has cancelled the controller's waiting commands.
    """
    host.admin.close()
    if not host.queues[1].wait_closed(PATIENCE_S):
        raise n.Violation('the controller of a host that is gone stays')
    host.close()


def must(cmd, what):
    """For steps that a part does not test."""
    if cmd.status != n.OK:
        raise n.Violation('%s: status %d/%02Xh' % (what, *cmd.status))


def fill(conn, nsid=DATA, lba=0):
    must(conn.put(nsid, lba, MINE), 'the write before')


def register(conn, nsid, key, is_kept=False):
    """is_kept (PTPL): each change of the reservation is kept from then on."""
    must(conn.do(REGISTER, nsid, data=struct.pack('<QQ', 0, key), cdw10=3 << 30 if is_kept else 0), 'Register')


def clear(conn, nsid, key):
    return conn.do(RELEASE, nsid, data=struct.pack('<Q', key), cdw10=1)


@contextlib.contextmanager
def reservations(tgt, nsid=DATA):
    """Removes all registrations at the end."""
    try:
        yield
    finally:
        with connect(tgt, D) as d:
            qd = d.queue()
            register(qd, nsid, 4)
            must(clear(qd, nsid, 4), 'Clear')


def reserve(host_a, host_b, nsid):
    """Registers A and B; A acquires Write Exclusive."""
    for conn, key in ((host_a, 1), (host_b, 2)):
        register(conn, nsid, key)
    return host_a.do(ACQUIRE, nsid, data=struct.pack('<QQ', 1, 0), cdw10=1 << 8).status


def send_preempt(conn, nsid, abort=True):
    return conn.submit(ACQUIRE, nsid, data=struct.pack('<QQ', 2, 1), cdw10=(2 if abort else 1) | 1 << 8)


def preempt(conn, nsid):
    return conn.wait(send_preempt(conn, nsid), PATIENCE_S).status


def fenced(t, tgt, is_closed, abort):
    what = '%s, %s: ' % ('Preempt and Abort' if abort else 'Preempt', 'A is gone' if is_closed else 'A waits')
    with reservations(tgt), connect(tgt, B) as b:
        qb = b.queue()
        with connect(tgt, A) as a:
            t.eq(reserve(a.queue(), qb, DATA), n.OK, what + 'A holds the reservation')
            with held(tgt):
                waiting = send_format(a)
                if is_closed:
                    leave(a)
                taking = send_preempt(qb, DATA, abort)
                qb.do(FLUSH, LABELS)
            t.status(qb.wait(taking, PATIENCE_S), n.OK, what + 'B takes it')
            t.status(qb.put(DATA, 0, THEIRS), n.OK, what + 'B writes')
            t.status(qb.do(FLUSH, DATA), n.OK, what + 'B flushes')
            if not is_closed:
                t.status(a.admin.wait(waiting, PATIENCE_S), PREEMPTED if abort else CONFLICT, what + 'the Format of A is refused', SPEC)
        settle(tgt)
        t.ok(is_intact(image('a.img'), THEIRS), what + 'what B wrote stays', SPEC)
        t.eq(bytes(qb.read(DATA, 0, 1).data), THEIRS, what + 'and B reads it', SPEC)


def settle(tgt):
    """Makes another change, which is executed after all that waited."""
    with connect(tgt, C) as c:
        must(c.admin.wait(set_label(c, 'settled %d' % next(labels)), PATIENCE_S), 'the last change')


def gone(t, tgt):
    with connect(tgt, B) as b:
        qb = b.queue()
        fill(qb)
        with held(tgt), connect(tgt, A) as a:
            a.queue()
            send_format(a)
            leave(a)
        settle(tgt)
        t.status(qb.read(DATA, 0, 1), n.OK, 'the namespace is open')
        t.eq(bytes(qb.read(DATA, 0, 1).data), MINE, 'the Format of a host that is gone is not carried out', SPEC)


def aborted(t, tgt):
    with connect(tgt, A) as a, connect(tgt, B) as b:
        qb = b.queue()
        fill(qb)
        with held(tgt):
            waiting = send_format(a)
            abort = a.admin.submit(ABORT, cdw10=waiting.cid << 16)
            a.admin.identify(1)
        t.status(a.admin.wait(waiting, PATIENCE_S), n.ABORT_REQUESTED, 'Abort of a Format that waits', 'Base 5.1.1')
        t.eq(a.admin.wait(abort, PATIENCE_S).dw0 & 1, 0, 'it was aborted', 'Base 5.1.1')
        t.eq(bytes(qb.read(DATA, 0, 1).data), MINE, 'and does nothing', SPEC)


def reset(t, tgt):
    with connect(tgt, A) as a, connect(tgt, B) as b:
        qb = b.queue()
        fill(qb)
        with held(tgt):
            send_format(a)
            a.admin.set_property(0x14, 0)
            t.eq(a.admin.get_property(0x1c).result64 & 1, 1, 'a controller that is reset waits for its Format', 'Base 3.7.2')
        t.eq(a.admin.csts_until(0, 1) & 1, 0, 'and is reset', 'Base 3.7.2')
        settle(tgt)
        t.eq(bytes(qb.read(DATA, 0, 1).data), MINE, 'the Format is not carried out after the reset', SPEC)


def swapped(t, tgt):
    with open(image('b.img'), 'wb') as file:
        file.write(THEIRS * 16384)
    try:
        with connect(tgt, A) as a:
            with held(tgt):
                waiting = send_format(a)
                operator = Asked(tgt, 'PATCH', ns_path(DATA), {'media': 'file:%s,block=512' % image('b.img')})
            t.eq(operator.answer().status, 200, 'the operator puts another image under the NSID')
            t.status(a.admin.wait(waiting, PATIENCE_S), n.INVALID_NS, 'a Format that waited is refused', SPEC)
        t.ok(is_intact(image('b.img'), THEIRS * 16384), 'the other image is not erased', SPEC)
    finally:
        back = api(tgt).patch(ns_path(DATA), {'media': 'file:%s,size=8M,block=512' % image('a.img')})
        t.eq(back.status, 200, 'the former image comes back')


def added(t, tgt):
    """Format of all namespaces leaves out a namespace that was added since."""
    with open(image('c.img'), 'wb') as file:
        file.write(THEIRS * 16384)
    with ended(t, tgt, 9), connect(tgt, A) as a, connect(tgt, B) as b:
        qb = b.queue()
        fill(qb, LABELS)
        with held(tgt):
            waiting = send_format(a, ALL)
            operator = Asked(tgt, 'POST', NS_PATH, {'nsid': 9, 'media': 'file:%s,block=512' % image('c.img')})
        t.ok(operator.answer().status in (200, 201), 'the operator adds a namespace')
        t.status(a.admin.wait(waiting, PATIENCE_S), n.OK, 'a Format of all that waited')
        t.eq(bytes(qb.read(LABELS, 0, 1).data), bytes(512), 'erases those that were there', SPEC)
        t.ok(is_intact(image('c.img'), THEIRS * 16384), 'the namespace that was added is not erased', SPEC)


def forbidden(t, tgt):
    """The namespace is hidden or the right removed before the Format's turn."""
    subsystem = '/v1/subsystems/%s' % target.NQN
    for what, method, path, body, undo, expected in (
            ('hidden', 'PATCH', ns_path(DATA), {'hidden_from': [A]}, {'hidden_from': []}, n.INVALID_NS),
            ('the right is taken away', 'PATCH', subsystem, {'rights': {'any': ['label']}},
             {'rights': {'any': ['label', 'format']}}, (0, 0x15))):
        try:
            with connect(tgt, A) as a, connect(tgt, B) as b:
                qb = b.queue()
                fill(qb)
                with held(tgt):
                    waiting = send_format(a)
                    operator = Asked(tgt, method, path, body)
                t.eq(operator.answer().status, 200, what)
                t.status(a.admin.wait(waiting, PATIENCE_S), expected, what + ': a Format that waited is refused', SPEC)
                t.eq(bytes(qb.read(DATA, 0, 1).data), MINE, what + ': and does nothing', SPEC)
        finally:
            t.eq(api(tgt).call(method, path, undo).status, 200, 'undone')


def running(t, tgt):
    """
    The host of an erasing Format is lost: the rest of the medium is not erased, and another host can continue.
    """
    slow = image('slow.img')
    media = 'fault:delay:op=zero:after=1:ms=%d@file:%s,size=32M,block=512' % (SLOW_MS, slow)
    t.eq(api(tgt).post(NS_PATH, {'nsid': SLOW, 'media': media}).status, 201, 'a medium that is slow after the first piece')
    with ended(t, tgt, SLOW), connect(tgt, A) as a, connect(tgt, B) as b:
        qa, qb = a.queue(), b.queue()
        fill(qb, SLOW)
        fill(qb, SLOW, ERASED_LATER)
        t.eq(reserve(qa, qb, SLOW), n.OK, 'A holds the reservation')
        send_format(a, SLOW)
        t.ok(target.poll(lambda: is_intact(slow, bytes(len(MINE)))), 'A has formatted the first piece of a medium')
        t.status(qb.read(SLOW, 0, 1), IN_PROGRESS, 'and is not done', 'Base 5.1.10')
        t.eq(preempt(qb, SLOW), IN_PROGRESS, 'nobody is told to have taken a namespace that is being erased', 'Base 5.1.10')
        a.close()
        t.ok(target.poll(lambda: preempt(qb, SLOW) == n.OK), 'A goes: B preempts and aborts A', SPEC)
        t.eq(bytes(qb.read(SLOW, 0, 1).data), bytes(512), 'what was erased is gone', SPEC)
        t.status(qb.put(SLOW, 0, THEIRS), n.OK, 'B writes', SPEC)
        t.eq(bytes(qb.read(SLOW, ERASED_LATER, 1).data), MINE, 'what was not erased yet stays', SPEC)


def label_generations(tgt, text):
    """Generations of the changes whose label starts with this text, ascending."""
    audit = api(tgt).get('/v1/audit').json['audit']
    return sorted(entry['generation'] for entry in audit if any(text in line for line in entry['diff']))


def operator_first(t, tgt):
    """A host requests more changes than the target has time for: the operator's change overtakes them."""
    with connect(tgt, B) as b:
        with held(tgt):
            cmds = [set_label(b, 'before %d' % i) for i in range(LABELS_EACH)]
            b.admin.identify(1)
            operator = Asked(tgt, 'PATCH', ns_path(DATA), {'label': 'operator'})
        mine = operator.answer().json['generation']
        done = [b.admin.wait(cmd, PATIENCE_S).status for cmd in cmds]
        theirs = label_generations(tgt, 'before ')
    t.eq(done, [n.OK] * LABELS_EACH, 'a host changes much')
    t.eq(len([generation for generation in theirs if generation < mine]), 0, 'the operator waits for the change under way alone', SPEC)


def hosts_take_turns(t, tgt):
    """Many changes of one host, one of another: they alternate. Four per host may be in the queue of changes."""
    with connect(tgt, A) as a, connect(tgt, B) as b:
        with held(tgt):
            cmds = [set_label(b, 'crowd %d' % i) for i in range(LABELS_EACH)]
            b.admin.identify(1)
            cmd = set_label(a, 'mine', DATA)
            a.admin.identify(1)
        t.status(a.admin.wait(cmd, PATIENCE_S), n.OK, 'a host changes a label')
        done = [b.admin.wait(cmd, PATIENCE_S).status for cmd in cmds]
        t.eq(done, [n.OK] * LABELS_EACH, 'another one changes many')
        mine, theirs = label_generations(tgt, 'mine'), label_generations(tgt, 'crowd ')
    t.eq((len(mine), len(theirs)), (1, LABELS_EACH), 'the audit has them all')
    t.eq(len([generation for generation in theirs if generation < mine[0]]), 4, 'a host waits for four changes of another', SPEC)


def bounded(t, tgt):
    """Changes above a host's limit are refused for a retry."""
    with contextlib.ExitStack() as stack:
        hosts = [stack.enter_context(connect(tgt, B)) for _ in range(6)]
        with held(tgt):
            cmds = [(host, set_label(host, 'bound %d' % next(labels))) for host in hosts for _ in range(LABELS_EACH)]
            for host in hosts:
                host.admin.identify(1)
        done = [host.admin.wait(cmd, PATIENCE_S).status for host, cmd in cmds]
    # 128 wait, 4 are in the queue of changes.
    t.eq((done.count(n.OK), done.count(INTERRUPTED)), (132, len(cmds) - 132), 'over the bound of a host: Command Interrupted', SPEC)


def reservations_take_turns(t, tgt):
    """
    B's Clear, sent after 120 Registers of A have arrived, is executed before most of them: A is then unregistered.
    """
    with reservations(tgt), connect(tgt, A) as a, connect(tgt, B) as b:
        qa, qb = a.queue(), b.queue()
        for conn, key in ((qa, 10), (qb, 2)):
            register(conn, DATA, key, is_kept=True)
        with threadstop.Stopped(tgt.process, threadstop.MAIN):
            flood = [qa.submit(REGISTER, DATA, data=struct.pack('<QQ', key, key + 1), cdw10=2) for key in range(10, 130)]
            qa.do(FLUSH, DATA)
            clearing = qb.submit(RELEASE, DATA, data=struct.pack('<Q', 2), cdw10=1)
            qb.do(FLUSH, DATA)
        t.status(qb.wait(clearing, PATIENCE_S), n.OK, 'Clear')
        done = [qa.wait(cmd, PATIENCE_S).status for cmd in flood]
        t.ok(set(done) == {n.OK, CONFLICT} and done.count(n.OK) < 5, 'a host with one reservation command waits for few of another',
             SPEC, why={status: done.count(status) for status in done})


def commits(tgt):
    """Number of commits of the state store: the change counter in the index of SQLite's WAL."""
    with open(os.path.join(tgt.folder, 'state', 'weft.db-shm'), 'rb') as file:
        return struct.unpack_from('=I', file.read(12), 8)[0]


def one_commit_for_many(t, tgt):
    """Waiting Registers share a commit; each is executed after the one before."""
    with reservations(tgt), connect(tgt, A) as a, connect(tgt, B) as b:
        qa, qb = a.queue(), b.queue()
        for conn, key in ((qa, 10), (qb, 1000)):
            register(conn, DATA, key, is_kept=True)
        before = commits(tgt)
        with threadstop.Stopped(tgt.process, threadstop.MAIN):
            flood = [(conn, conn.submit(REGISTER, DATA, data=struct.pack('<QQ', key + i, key + i + 1), cdw10=2))
                     for i in range(100) for conn, key in ((qa, 10), (qb, 1000))]
            refused = qb.submit(REGISTER, DATA, data=struct.pack('<QQ', 1, 2), cdw10=2)
            for conn in (qa, qb):
                conn.do(FLUSH, DATA)
        done = [conn.wait(cmd, PATIENCE_S).status for conn, cmd in flood]
        t.eq(done, [n.OK] * 200, '200 Registers of two hosts, each by the key that the one before it left', SPEC)
        t.status(qb.wait(refused, PATIENCE_S), CONFLICT, 'one by another key is refused', SPEC)
        count = commits(tgt) - before
        t.ok(1 <= count <= 8, 'they need few commits', SPEC, why=count)
        t.eq([clear(conn, DATA, key).status for conn, key in ((qa, 10), (qb, 1100))],
             [CONFLICT, n.OK], 'the last key counts', SPEC)


def set_persistence(host, number, nsid=DATA):
    return host.admin.submit(SET_FEATURES, nsid, cdw10=PERSISTENCE | 1 << 31, cdw11=number % 2)


def persistence_shares_commits(t, tgt):
    """
    Set Features 83h needs no right. Many of them, for one namespace or all, share a commit with each other and with
    reservation commands of other hosts.
    """
    with contextlib.ExitStack() as stack:
        hosts = [stack.enter_context(connect(tgt, A)) for _ in range(4)]
        qb = stack.enter_context(connect(tgt, B)).queue()
        stack.enter_context(reservations(tgt))
        before = commits(tgt)
        with threadstop.Stopped(tgt.process, threadstop.MAIN):
            flood = [(host, set_persistence(host, i)) for i in range(LABELS_EACH) for host in hosts]
            last = set_persistence(hosts[0], 0, ALL)
            for host in hosts:
                host.admin.identify(1)
            registering = qb.submit(REGISTER, DATA, data=struct.pack('<QQ', 0, 2))
            qb.do(FLUSH, LABELS)
        t.status(qb.wait(registering, PATIENCE_S), n.OK, 'Register behind many Set Features 83h', SPEC)
        done = [host.admin.wait(cmd, PATIENCE_S).status for host, cmd in flood + [(hosts[0], last)]]
        t.eq(done, [n.OK] * len(done), 'Set Features 83h of one host, many times', 'Base 5.1.25.1.29')
        count = commits(tgt) - before
        t.ok(count <= 8, 'they need few commits', SPEC, why=count)
        t.eq([set_and_get(hosts[0], number, ALL) for number in (1, 0)], [(1, 1), (0, 0)], 'Set Features 83h of all namespaces',
             'Base 5.1.25.1.29')


def set_and_get(host, number, nsid):
    must(host.admin.wait(set_persistence(host, number, nsid), PATIENCE_S), 'Set Features 83h')
    return tuple(host.admin.get_feature(PERSISTENCE, nsid=one).dw0 for one in (DATA, LABELS))


def persistence_is_bounded(t, tgt):
    """Set Features 83h above a host's limit are refused for a retry."""
    with contextlib.ExitStack() as stack:
        hosts = [stack.enter_context(connect(tgt, A)) for _ in range(40)]
        with threadstop.Stopped(tgt.process, threadstop.MAIN):
            cmds = [(host, set_persistence(host, i)) for host in hosts for i in range(LABELS_EACH)]
            for host in hosts:
                host.admin.identify(1)
        done = [host.admin.wait(cmd, PATIENCE_S).status for host, cmd in cmds]
        must(hosts[0].admin.wait(set_persistence(hosts[0], 0), PATIENCE_S), 'Set Features 83h')
    t.eq((done.count(n.OK), done.count(INTERRUPTED)), (WAITING_MAX, len(cmds) - WAITING_MAX),
         'Set Features 83h over the bound of a host: Command Interrupted', SPEC)


def persistence_of_the_gone(t, tgt):
    """Set Features 83h of a host that leaves is not executed."""
    with connect(tgt, B) as b:
        with threadstop.Stopped(tgt.process, threadstop.MAIN):
            a = connect(tgt, A)
            a.queue()
            set_persistence(a, 1)
            a.admin.identify(1)
            leave(a)
        t.eq(b.admin.get_feature(PERSISTENCE, nsid=DATA).dw0, 0, 'Set Features 83h of a host that is gone is not executed', SPEC)


def all_wait_for_turns(t, tgt):
    """Every command that the control thread works on can be aborted while it waits for its turn."""
    with connect(tgt, A) as a:
        queue = a.queue()
        admin = a.admin
        for what, conn, send in (
                ('Set Features 83h', admin, lambda: set_persistence(a, 1)),
                ('Get Features 83h', admin, lambda: admin.submit(GET_FEATURES, DATA, cdw10=PERSISTENCE)),
                ('SMART', admin, lambda: admin.submit(n.GET_LOG, ALL, read_bytes=512, cdw10=2 | 127 << 16)),
                ('Persistent Event', admin, lambda: admin.submit(n.GET_LOG, ALL, read_bytes=512, cdw10=0x0d | 1 << 8 | 127 << 16)),
                ('Reservation Report', queue, lambda: queue.submit(REPORT, DATA, read_bytes=64, cdw10=15, cdw11=1))):
            with threadstop.Stopped(tgt.process, threadstop.MAIN):
                waiting = send()
                if conn is queue:
                    queue.do(FLUSH, LABELS)
                abort = admin.submit(ABORT, cdw10=waiting.cid << 16 | conn.qid)
                admin.identify(1)
            t.status(conn.wait(waiting, PATIENCE_S), n.ABORT_REQUESTED, 'Abort of %s that waits for its turn' % what, SPEC)
            t.eq(admin.wait(abort, PATIENCE_S).dw0 & 1, 0, 'it was aborted', 'Base 5.1.1')
            t.status(conn.wait(send(), PATIENCE_S), n.OK, what + ' afterwards', SPEC)
        must(admin.wait(set_persistence(a, 0), PATIENCE_S), 'Set Features 83h')


def batch_of_kinds(t, tgt):
    """Commands of one commit, including Preempt and Abort, see each other's effects."""
    with reservations(tgt), connect(tgt, A) as a, connect(tgt, B) as b:
        qa, qb = a.queue(), b.queue()
        t.eq(reserve(qa, qb, DATA), n.OK, 'A holds the reservation')
        before = commits(tgt)
        with threadstop.Stopped(tgt.process, threadstop.MAIN):
            taking = send_preempt(qb, DATA)
            qb.do(FLUSH, LABELS)
            late = qa.submit(REGISTER, DATA, data=struct.pack('<QQ', 1, 3), cdw10=2)
            qa.do(FLUSH, LABELS)
            leaving = qb.submit(RELEASE, DATA, data=struct.pack('<Q', 2), cdw10=1 << 8)
            kept = qb.submit(REGISTER, DATA, data=struct.pack('<QQ', 2, 4), cdw10=2 | 3 << 30)
            qb.do(FLUSH, LABELS)
        t.status(qb.wait(taking, PATIENCE_S), n.OK, 'B preempts and aborts A', SPEC)
        t.status(qa.wait(late, PATIENCE_S), CONFLICT, 'A, which is registered no more, is refused', SPEC)
        t.status(qb.wait(leaving, PATIENCE_S), n.OK, 'B releases', SPEC)
        t.status(qb.wait(kept, PATIENCE_S), n.OK, 'B changes its key, which is kept', SPEC)
        t.eq(commits(tgt) - before, 1, 'with one commit', SPEC)
        t.status(qa.put(DATA, 0, MINE), n.OK, 'nobody holds the reservation')
        t.status(clear(qb, DATA, 4), n.OK, 'B clears by its new key')


def batch_not_kept(t, tgt):
    """Another program locks the state store: all commands of a batch fail and change nothing."""
    with reservations(tgt), connect(tgt, A) as a, connect(tgt, B) as b:
        qa, qb = a.queue(), b.queue()
        for conn, key in ((qa, 1), (qb, 2)):
            register(conn, DATA, key, is_kept=True)
        with contextlib.closing(sqlite3.connect(os.path.join(tgt.folder, 'state', 'weft.db'), isolation_level=None)) as other:
            other.execute('BEGIN IMMEDIATE')  # locked until it is closed
            with threadstop.Stopped(tgt.process, threadstop.MAIN):
                cmds = [(conn, conn.submit(REGISTER, DATA, data=struct.pack('<QQ', key, new), cdw10=2))
                        for conn, key, new in ((qa, 1, 11), (qb, 2, 22), (qa, 11, 111), (qb, 99, 22))]
                for conn in (qa, qb):
                    conn.do(FLUSH, LABELS)
            t.eq([conn.wait(cmd, PATIENCE_S).status for conn, cmd in cmds], [INTERNAL] * 4,
                 'Registers that cannot be kept fail, as does one that was refused beside them', SPEC)
        t.eq([conn.do(REGISTER, DATA, data=struct.pack('<QQ', key, key + 4), cdw10=2).status for conn, key in ((qa, 1), (qb, 2))],
             [n.OK, n.OK], 'and left the keys as they were', SPEC)
        t.status(clear(qb, DATA, 6), n.OK, 'Clear')


def play(t, tgt, part, *args):
    """Runs one part; after a failure, none of its commands is in flight when the next part begins."""
    with t.guard(part.__name__):
        try:
            part(t, tgt, *args)
        finally:
            settle(tgt)


def test(t, tgt):
    cannot = threadstop.why_not()
    if cannot:
        t.skip('commands that wait for the control thread', cannot)
        return
    for is_closed in (False, True):
        for abort in (True, False):
            play(t, tgt, fenced, is_closed, abort)
    for part in (gone, aborted, reset, running, forbidden, added, swapped, operator_first,
                 hosts_take_turns, bounded, reservations_take_turns, one_commit_for_many, batch_of_kinds,
                 batch_not_kept, persistence_shares_commits, persistence_is_bounded, persistence_of_the_gone, all_wait_for_turns):
        play(t, tgt, part)


try:
    target.run(Tap(), test, rights={'any': ['label', 'format']}, reactors=2, namespaces=[
        target.namespace(DATA, 'file:%s,size=8M,block=512' % image('a.img')), target.namespace(LABELS, 'mem:1M,block=512')])
finally:
    for name in os.listdir(FOLDER):
        os.unlink(os.path.join(FOLDER, name))
    os.rmdir(FOLDER)
