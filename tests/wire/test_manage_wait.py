#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Commands that change the configuration wait for their turn on the control thread. Each part makes that queue long
(labels of many other hosts), lets a host send a Format NVM behind it, and changes something before the Format's turn: the host is
fenced, gone or reset, the namespace is another one, is hidden, or the right is taken away. The Format must not be carried
out. docs/adr/0034, NVMe Base 2.1, sections 3.7.2, 5.1.1, 5.1.10 and 8.1.22.
"""

import contextlib
import os
import struct
import subprocess
import tempfile

import nvmetcp as n
import target
import threadstop
from tap import Tap

SPEC = 'ADR 0034'
FORMAT, SET_FEATURES, ABORT, LABEL = 0x80, 0x09, 0x08, 0x1f
REGISTER, ACQUIRE, RELEASE, FLUSH = 0x0d, 0x11, 0x15, 0x00
CONFLICT, PREEMPTED, IN_PROGRESS = (0, 0x83), (0, 0x1b), (0, 0x84)
ERASE = 1 << 9
DATA, LABELS, SLOW = 1, 2, 3
ERASED_LATER = 40000  # LBA: behind the first piece of 16 MiB
ALL = 0xffffffff
CROWD_HOSTS, CROWD_EACH, CROWD_S = 40, 6, 100
A, B = ('nqn.2014-08.org.example:%s' % name for name in 'ab')
SLOW_MS = 60000
FOLDER = tempfile.mkdtemp(prefix='weft-wire-manage-')
MINE, THEIRS = b'\xaa' * 512, b'\xbb' * 512


def connect(tgt, nqn):
    return tgt.host(hostnqn=nqn, hostid=nqn[-16:].encode())


def image(name):
    return os.path.join(FOLDER, name)


def is_intact(path, data):
    with open(path, 'rb') as file:
        return file.read(len(data)) == data


@contextlib.contextmanager
def busy(tgt, each=CROWD_EACH, nqn='nqn.2014-08.org.example:crowd-%d'):
    """The queue of changes is long. Yields a function that waits until all of it has ended."""
    hosts = [connect(tgt, nqn % i if '%' in nqn else nqn) for i in range(CROWD_HOSTS)]
    cmds = [(host, host.admin.submit(SET_FEATURES, LABELS, cdw10=LABEL | 1 << 31,
                                     data=(b'label %d' % i).ljust(256, b'\0')))
            for host in hosts for i in range(each)]

    def wait():
        for host, cmd in cmds:
            host.admin.wait(cmd, CROWD_S)
    try:
        yield wait
        wait()
    finally:
        for host in hosts:
            host.close()


def ctl(tgt, *words):
    return subprocess.Popen([target.weft_path(), 'ctl', '--state', os.path.join(tgt.folder, 'state'), *words],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def send_format(host, nsid=DATA):
    """Returns when the target has taken it."""
    cmd = host.admin.submit(FORMAT, nsid, cdw10=ERASE)
    host.admin.identify(1)
    return cmd


def reserve(host_a, host_b, nsid):
    """A holds Write Exclusive, B is registered."""
    for conn, key in ((host_a, 1), (host_b, 2)):
        conn.do(REGISTER, nsid, data=struct.pack('<QQ', 0, key))
    return host_a.do(ACQUIRE, nsid, data=struct.pack('<QQ', 1, 0), cdw10=1 << 8).status


def preempt(conn, nsid, abort=True):
    cmd = conn.submit(ACQUIRE, nsid, data=struct.pack('<QQ', 2, 1), cdw10=(2 if abort else 1) | 1 << 8)
    return conn.wait(cmd, CROWD_S).status


def forget(conn, nsid):
    conn.do(RELEASE, nsid, data=struct.pack('<Q', 2), cdw10=1)  # clear


def fenced(t, tgt, is_closed, abort):
    what = '%s, %s: ' % ('Preempt and Abort' if abort else 'Preempt', 'A is gone' if is_closed else 'A waits')
    with connect(tgt, A) as a, connect(tgt, B) as b:
        qa, qb = a.queue(), b.queue()
        t.eq(reserve(qa, qb, DATA), n.OK, what + 'A holds the reservation')
        with busy(tgt) as wait:
            waiting = send_format(a)
            if is_closed:
                a.close()
            # Format in Progress: its turn came before.
            t.ok(target.poll(lambda: preempt(qb, DATA, abort) == n.OK), what + 'B takes it')
            t.status(qb.put(DATA, 0, THEIRS), n.OK, what + 'B writes')
            t.status(qb.do(FLUSH, DATA), n.OK, what + 'B flushes')
            if not is_closed:
                status = a.admin.wait(waiting, CROWD_S).status
                t.ok(status in (PREEMPTED, CONFLICT, n.OK), what + 'the Format of A is refused, or was first', SPEC,
                     why=status)
            wait()
        t.ok(is_intact(image('a.img'), THEIRS), what + 'what B wrote stays', SPEC)
        t.eq(bytes(qb.read(DATA, 0, 1).data), THEIRS, what + 'and B reads it', SPEC)
        forget(qb, DATA)


def gone(t, tgt):
    with connect(tgt, B) as b:
        qb = b.queue()
        qb.put(DATA, 0, MINE)
        with busy(tgt) as wait:
            a = connect(tgt, A)
            send_format(a)
            a.close()
            wait()
        t.eq(bytes(qb.read(DATA, 0, 1).data), MINE, 'the Format of a host that is gone is not carried out', SPEC)


def aborted(t, tgt):
    with connect(tgt, A) as a, connect(tgt, B) as b:
        qb = b.queue()
        qb.put(DATA, 0, MINE)
        with busy(tgt):
            waiting = send_format(a)
            abort = a.admin.do(ABORT, cdw10=waiting.cid << 16)
            status = a.admin.wait(waiting, CROWD_S).status
        was_late = status == n.OK  # its turn had come: nothing to see
        t.ok(was_late or (status == n.ABORT_REQUESTED and abort.dw0 & 1 == 0), 'Abort of a Format that waits', 'Base 5.1.1',
             why=(status, abort.dw0))
        t.ok(was_late or bytes(qb.read(DATA, 0, 1).data) == MINE, 'which does nothing', SPEC)


def reset(t, tgt):
    with connect(tgt, A) as a, connect(tgt, B) as b:
        qb = b.queue()
        with busy(tgt) as wait:
            send_format(a)
            a.admin.set_property(0x14, 0)
            t.eq(a.admin.csts_until(0, 1) & 1, 0, 'a controller is reset while its Format waits', 'Base 3.7.2')
            target.poll(lambda: qb.put(DATA, 0, MINE).status == n.OK)
            wait()
        t.eq(bytes(qb.read(DATA, 0, 1).data), MINE, 'the Format is not carried out after the reset', SPEC)


def swapped(t, tgt):
    with open(image('b.img'), 'wb') as file:
        file.write(THEIRS * 16384)
    with connect(tgt, A) as a, busy(tgt):
        operator = ctl(tgt, 'ns', 'set', target.NQN, str(DATA), '--media', 'file:%s,block=512' % image('b.img'))
        waiting = send_format(a)
        out = operator.communicate(timeout=CROWD_S)[0]
        t.eq(operator.returncode, 0, 'the operator puts another image under the NSID')
        status = a.admin.wait(waiting, CROWD_S).status
        # The Format may have come before the operator's change: then it erased the former image.
        t.ok(status in (n.INVALID_NS, n.OK), 'a Format that waited', SPEC, why=(status, out))
    t.ok(is_intact(image('b.img'), THEIRS * 16384), 'the other image is not erased', SPEC)
    back = ctl(tgt, 'ns', 'set', target.NQN, str(DATA), '--media', 'file:%s,size=8M,block=512' % image('a.img'))
    t.ok(back.wait(CROWD_S) == 0, 'the former image comes back', why=back.communicate()[0])


def added(t, tgt):
    """Format of all: a namespace that was added since is none of them."""
    with open(image('c.img'), 'wb') as file:
        file.write(THEIRS * 16384)
    with connect(tgt, A) as a, busy(tgt):
        operator = ctl(tgt, 'ns', 'add', target.NQN, '--nsid', '9', '--media', 'file:%s,block=512' % image('c.img'))
        waiting = a.admin.submit(FORMAT, ALL, cdw10=ERASE)
        operator.communicate(timeout=CROWD_S)
        t.eq(operator.returncode, 0, 'the operator adds a namespace')
        t.status(a.admin.wait(waiting, CROWD_S), n.OK, 'a Format of all that waited')
    t.ok(is_intact(image('c.img'), THEIRS * 16384), 'the namespace that was added is not erased', SPEC)


def forbidden(t, tgt):
    """Hidden from the host, or the right taken away, before the Format's turn."""
    for words, undo, expected in (
            (('ns', 'set', target.NQN, str(DATA), '--hidden-from', A),
             ('ns', 'set', target.NQN, str(DATA), '--hidden-from', 'none'), n.INVALID_NS),
            (('host', 'rights', target.NQN, 'any', 'label'), ('host', 'rights', target.NQN, 'any', 'all'),
             (0, 0x15))):
        with connect(tgt, A) as a, connect(tgt, B) as b:
            qb = b.queue()
            qb.put(DATA, 0, MINE)
            with busy(tgt):
                operator = ctl(tgt, *words)
                waiting = send_format(a)
                operator.communicate(timeout=CROWD_S)
                t.eq(operator.returncode, 0, ' '.join(words[:2]))
                status = a.admin.wait(waiting, CROWD_S).status
            t.ok(status in (expected, n.OK), 'a Format that waited', SPEC, why=status)
            t.ok(status == n.OK or bytes(qb.read(DATA, 0, 1).data) == MINE, 'which does nothing', SPEC)
        t.eq(ctl(tgt, *undo).wait(CROWD_S), 0, 'undone')


def running(t, tgt):
    """The host of a Format that erases goes: the rest of the medium is not erased, and another host can go on."""
    with connect(tgt, A) as a, connect(tgt, B) as b:
        qa, qb = a.queue(), b.queue()
        qb.put(SLOW, ERASED_LATER, MINE)
        t.eq(reserve(qa, qb, SLOW), n.OK, 'A holds the reservation')
        send_format(a, SLOW)
        t.ok(target.poll(lambda: qb.read(SLOW, 0, 1).status == IN_PROGRESS), 'A formats a slow medium')
        t.eq(preempt(qb, SLOW), IN_PROGRESS, 'nobody is told to have taken a namespace that is being erased', 'Base 5.1.10')
        a.close()
        t.ok(target.poll(lambda: preempt(qb, SLOW) == n.OK), 'A goes: B preempts and aborts A', SPEC)
        t.status(qb.put(SLOW, 0, THEIRS), n.OK, 'B writes', SPEC)
        t.eq(bytes(qb.read(SLOW, ERASED_LATER, 1).data), MINE, 'what was not erased yet stays', SPEC)
        forget(qb, SLOW)


def operator_first(t, tgt):
    """A host with a right asks for more changes than there is time for: the operator's goes before them."""
    with busy(tgt, 28, B) as wait:
        operator = ctl(tgt, 'ns', 'set', target.NQN, str(DATA), '--label', 'first')
        out = operator.communicate(timeout=CROWD_S)[0]
        wait()
    last = ctl(tgt, 'ns', 'set', target.NQN, str(DATA), '--label', 'last').communicate(timeout=CROWD_S)[0]
    first, last = (int(text.rsplit('generation ', 1)[1]) for text in (out, last))
    t.ok(last - first > 100, 'the operator waits for no more than the change under way', SPEC, why=(first, last))


def hosts_take_turns(t, tgt):
    """The same between hosts: 1120 changes of one, one of another."""
    with connect(tgt, A) as a, busy(tgt, 28, B) as wait:
        a.admin.wait(a.admin.submit(SET_FEATURES, DATA, cdw10=LABEL | 1 << 31, data=b'mine'.ljust(256, b'\0')), CROWD_S)
        out = ctl(tgt, 'ns', 'set', target.NQN, str(DATA), '--label', 'first').communicate(timeout=CROWD_S)[0]
        wait()
    last = ctl(tgt, 'ns', 'set', target.NQN, str(DATA), '--label', 'last').communicate(timeout=CROWD_S)[0]
    first, last = (int(text.rsplit('generation ', 1)[1]) for text in (out, last))
    t.ok(last - first > 100, 'a host waits for few changes of another', SPEC, why=(first, last))


def reservations_take_turns(t, tgt):
    """Clear of B, sent after 120 Registers of A have arrived, comes before most of them: they find A unregistered."""
    cannot = threadstop.why_not()
    if cannot:
        t.skip('reservations take turns', cannot)
        return
    with connect(tgt, A) as a, connect(tgt, B) as b:
        qa, qb = a.queue(), b.queue()
        for conn, key in ((qa, 10), (qb, 2)):
            conn.do(REGISTER, DATA, data=struct.pack('<QQ', 0, key), cdw10=3 << 30)  # PTPL: each is kept
        with threadstop.Stopped(tgt.process, threadstop.MAIN):
            flood = [qa.submit(REGISTER, DATA, data=struct.pack('<QQ', key, key + 1), cdw10=2) for key in range(10, 130)]
            qa.do(FLUSH, DATA)
            clear = qb.submit(RELEASE, DATA, data=struct.pack('<Q', 2), cdw10=1)
            qb.do(FLUSH, DATA)
        t.status(qb.wait(clear), n.OK, 'Clear')
        done = [qa.wait(cmd, CROWD_S).status for cmd in flood]
        t.ok(set(done) == {n.OK, CONFLICT} and done.count(n.OK) < 5, 'a host with one reservation command waits for few of another',
             SPEC, why={status: done.count(status) for status in done})


def test(t, tgt):
    for is_closed in (False, True):
        for abort in (True, False):
            with t.guard('fenced'):
                fenced(t, tgt, is_closed, abort)
    for part in (gone, aborted, reset, running, forbidden, added, swapped, operator_first,
                 hosts_take_turns, reservations_take_turns):
        with t.guard(part.__name__):
            part(t, tgt)


try:
    target.run(Tap(), test, rights={'any': ['label', 'format']}, reactors=2, namespaces=[
        target.namespace(DATA, 'file:%s,size=8M,block=512' % image('a.img')), target.namespace(LABELS, 'mem:1M,block=512'),
        target.namespace(SLOW, 'fault:delay:op=zero:count=1:ms=%d@mem:32M,block=512' % SLOW_MS)])
finally:
    for name in os.listdir(FOLDER):
        os.unlink(os.path.join(FOLDER, name))
    os.rmdir(FOLDER)
