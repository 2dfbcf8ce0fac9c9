#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Asymmetric Namespace Access: five states per port and group, what each does to I/O and to admin commands,
transitions that wait for commands (at most ANATT), change counts of the log page and of its groups, and a
page that changes while it is read in parts. NVMe Base 2.1, sections 5.1.12.1.13 (log), 5.1.2.1 (events),
8.1.1 (states).
"""

import os
import struct
import threading
import time

import nvmetcp as n
import restapi
import target
from tap import Tap

ANA_NOTICE = 2 | 0x03 << 8 | 0x0c << 16
ANA_BIT = 1 << 11
NS_NOTICE, NS_BIT = 2 | 0x04 << 16, 1 << 8
STATES = {'optimized': 1, 'non-optimized': 2, 'inaccessible': 3, 'persistent-loss': 4, 'change': 15}
ANA_STATUS = {'inaccessible': n.ANA_INACCESSIBLE, 'persistent-loss': n.ANA_LOSS,
              'change': n.ANA_TRANSITION}
SLOW_MS = 400
ANATT_S = 10
PRESS_S = 5  # how long a transition waits for commands that wait for their host (target/barrier.h)
NS_MANAGEMENT, FORMAT = 0x0d, 0x80
WRITE_PROTECT = 0x84
GROUPS = 200


def put_state(tgt, port, group, state):
    client = restapi.Client(os.path.join(tgt.folder, 'state', 'weft.sock'))
    return client.put('/v1/ports/%d/ana/%d' % (port, group), {'state': state}).status


def kept_state(tgt, group):
    client = restapi.Client(os.path.join(tgt.folder, 'state', 'weft.sock'))
    return {entry['group']: entry['state']
            for entry in client.get('/v1/config').json['ports'][0].get('ana', [])}.get(group)


class Later(threading.Thread):
    """Runs a call that returns when the change is complete."""

    def __init__(self, *args):
        super().__init__()
        self.args, self.status = args, None
        self.start()

    def run(self):
        self.status = put_state(*self.args)


class Page:
    def __init__(self, data):
        data = bytes(data)
        self.count, groups = struct.unpack_from('<QH', data)
        self.groups, self.order, at = {}, [], 16
        for _ in range(groups):
            group, nsids, count = struct.unpack_from('<IIQ', data, at)
            self.order.append(group)
            self.groups[group] = (data[at + 16] & 15, count,
                                  list(struct.unpack_from('<%dI' % nsids, data, at + 32)))
            at += 32 + 4 * nsids
        self.size = at

    def state(self, group):
        return self.groups[group][0]

    def change_count(self, group):
        return self.groups[group][1]


def page_of(host):
    return Page(host.admin.get_log(0x0c, 65536).data)


def no_retry_hints(cmd):
    """CRD is 0, because no CRDT is set; DNR is 0, because another path may succeed."""
    return (cmd.dnr, cmd.crd) == (0, 0)


def states(t, tgt):
    """Sets every state of group 2 on port 1; port 2 and group 1 keep theirs."""
    with tgt.host() as host, n.Host(('127.0.0.1', tgt.second), target.NQN) as other:
        admin, conn, there = host.admin, host.queue(), other.queue()
        admin.set_feature(11, ANA_BIT)
        page_of(host)
        count = page_of(host).count
        for state in ('non-optimized', 'inaccessible', 'persistent-loss', 'inaccessible',
                      'optimized'):
            name = 'state ' + state
            aer = admin.submit(n.AER)
            t.eq(put_state(tgt, 1, 2, state), 200, name + ': is set', 'Base 8.1.1')
            admin.wait(aer)
            t.eq((aer.status, aer.dw0), (n.OK, ANA_NOTICE), name + ': notice', 'Base 5.1.2.1')
            page = page_of(host)
            t.eq((page.state(2), page.state(1)), (STATES[state], 1), name + ': the log of its port',
                 'Base 5.1.12.1.13')
            t.ok(page.count > count, name + ': the change count rises', 'Base 5.1.12.1.13')
            count = page.count
            t.eq(page_of(other).state(2), 1, name + ': not of the other port', 'Base 8.1.1')
            want = ANA_STATUS.get(state, n.OK)
            for what, cmd in (('Read', conn.read(2, 0, 1)), ('Write', conn.put(2, 0, bytes(512))),
                              ('Flush', conn.do(n.FLUSH, nsid=2)),
                              ('Compare', conn.rw(5, 2, 0, 1, 512, bytes(512)))):
                if not cmd.is_done:
                    conn.wait(cmd)
                t.status(cmd, want, '%s: %s' % (name, what), 'Base 8.1.1.4')
                if want != n.OK:
                    t.ok(no_retry_hints(cmd), '%s: %s: no DNR, no CRD' % (name, what),
                         'Base 8.1.1.4')
            t.status(conn.read(1, 0, 1), n.OK, name + ': another group', 'Base 8.1.1')
            t.status(there.read(2, 0, 1), n.OK, name + ': another port', 'Base 8.1.1')
            t.status(admin.get_feature(WRITE_PROTECT, nsid=2), want,
                     name + ': Get Features of the namespace', 'Base 8.1.1')
            if want != n.OK:
                t.status(admin.do(FORMAT, nsid=2, cdw10=1), want, name + ': Format NVM',
                         'Base 8.1.1')
                t.status(admin.do(NS_MANAGEMENT, nsid=2, cdw10=1), want,
                         name + ': Namespace Management, delete', 'Base 8.1.1')
            ident = bytes(admin.identify(0, 2).data)
            nsze, ncap, nuse = struct.unpack_from('<QQQ', ident)
            t.eq((nsze, ncap), (2048, 2048), name + ': Identify tells the size', 'Base 8.1.1')
            lost = state in ('inaccessible', 'persistent-loss')
            t.eq(nuse, 0 if lost else 2048, name + ': and NUSE where it can', 'Base 8.1.1')
            t.eq(struct.unpack_from('<I', ident, 92)[0], 2, name + ': ANAGRPID', 'NVM 4.1.5.1')


def bad_calls(t, tgt):
    for what, port, group, state, want in (
            ('an unknown state', 1, 1, 'better', 400),
            ('an unknown port', 77, 1, 'optimized', 404)):
        t.eq(put_state(tgt, port, group, state), want, 'refused: ' + what)


def held_change(t, tgt):
    """An administrator may set a group to `change`, for at most ANATT."""
    with tgt.host() as host:
        conn = host.queue()
        t.eq((put_state(tgt, 1, 2, 'change'), page_of(host).state(2)), (200, 15),
             'state change: is set')
        cmd = conn.read(2, 0, 1)
        t.status(cmd, n.ANA_TRANSITION, 'state change: Read', 'Base 8.1.1.8')
        t.ok(no_retry_hints(cmd), 'state change: no DNR, no CRD', 'Base 8.1.1.4')
        t.eq(put_state(tgt, 1, 2, 'optimized'), 200, 'state change: and back')
        t.status(conn.read(2, 0, 1), n.OK, 'state change: I/O goes on', 'Base 8.1.1')

        anatt = bytes(host.admin.identify(1).data)[342]
        began = time.monotonic()
        t.eq(put_state(tgt, 1, 2, 'change'), 200, 'state change: again, and forgotten')
        t.ok(target.poll(lambda: page_of(host).state(2) != 15, anatt + 60),
             'state change: ends by itself', 'Base 8.1.1.8')
        took = time.monotonic() - began
        t.ok(took > anatt - 1, 'after ANATT', 'Base 8.1.1.8', why='%.1f s' % took)
        t.eq(page_of(host).state(2), STATES['inaccessible'], 'in inaccessible', 'Base 8.1.1.8')
        t.status(conn.read(2, 0, 1), n.ANA_INACCESSIBLE, 'hosts take another path', 'Base 8.1.1.6')
        t.eq(put_state(tgt, 1, 2, 'optimized'), 200, 'and back')
        t.status(conn.read(2, 0, 1), n.OK, 'I/O goes on', 'Base 8.1.1')


def owe(conn):
    """A write that lasts until the host sends its data: no time-out of the target can end it first."""
    owed = conn.rw(n.WRITE, 3, 0, 8, 512, bytes(4096), way='r2t', is_auto=False)
    return owed, conn.wait_r2t(owed)


def transition(t, tgt):
    """A transition waits for slow commands; they succeed, then the final state is set."""
    put_state(tgt, 1, 2, 'inaccessible')
    with tgt.host() as host:
        admin, conn = host.admin, host.queue()
        admin.set_feature(11, ANA_BIT)
        page_of(host)
        aer = admin.submit(n.AER)
        owed, r2t = owe(conn)
        slow = conn.rw(n.READ, 3, 0, 1, 512)
        conn.do(n.FLUSH, nsid=1)
        call = Later(tgt, 1, 3, 'inaccessible')
        admin.wait(aer)
        page = page_of(host)
        t.eq(page.state(3), 15, 'on the way: change', 'Base 8.1.1.8')
        t.eq(page.state(2), 3, 'on the way: an inaccessible group beside it stays so', 'Base 8.1.1.8')
        # The reactor of this queue may apply the change after the reactor of the admin queue.
        t.ok(target.poll(lambda: conn.read(3, 0, 1).status == n.ANA_TRANSITION, PRESS_S),
             'on the way: new commands wait elsewhere', 'Base 8.1.1.8')
        t.ok(not owed.is_done, 'on the way: the old command is not cut off')
        aer = admin.submit(n.AER)
        conn.wait(slow)
        t.status(slow, n.OK, 'and one at the medium ends well', 'Base 8.1.1.8')
        t.eq(page_of(host).state(3), 15, 'but does not end the change: another is there')
        conn.answer_r2t(owed, r2t)
        conn.wait(owed)
        t.status(owed, n.OK, 'which ends well, too', 'Base 8.1.1.8')
        admin.wait(aer)
        t.eq(aer.dw0, ANA_NOTICE, 'the final state is told as well', 'Base 5.1.2.1')
        last = page_of(host)
        t.eq(last.state(3), 3, 'and is the one that was asked for', 'Base 8.1.1')
        t.ok(last.count > page.count and last.change_count(3) > page.change_count(3),
             'both change counts rose once more', 'Base 5.1.12.1.13')
        t.eq(last.change_count(1), page.change_count(1), 'those of other groups did not',
             'Base 5.1.12.1.13')
        call.join()
        t.eq(call.status, 200, 'the call is answered at the end')
        t.status(conn.read(3, 0, 1), n.ANA_INACCESSIBLE, 'I/O is refused by the final state',
                 'Base 8.1.1.6')
        t.eq(put_state(tgt, 1, 3, 'optimized'), 200, 'back in one step')
        t.eq(put_state(tgt, 1, 2, 'optimized'), 200, 'and the group beside it')
        t.status(conn.read(3, 0, 1), n.OK, 'and I/O goes on', 'Base 8.1.1')


def overtaken(t, tgt):
    """A group is set back to its former state in the middle of a transition."""
    with tgt.host() as host:
        conn = host.queue()
        owed, r2t = owe(conn)
        slow = conn.rw(n.READ, 3, 0, 1, 512)
        conn.do(n.FLUSH, nsid=1)
        call = Later(tgt, 1, 3, 'inaccessible')
        target.poll(lambda: page_of(host).state(3) == 15)
        t.eq(put_state(tgt, 1, 3, 'non-optimized'), 200, 'called back on the way')
        t.eq(page_of(host).state(3), 2, 'the later call counts')
        conn.wait(slow)
        conn.answer_r2t(owed, r2t)
        conn.wait(owed)
        call.join()
        t.eq(call.status, 200, 'the one that was overtaken is answered')
        t.eq(page_of(host).state(3), 2, 'and does not come back')
        t.status(conn.read(3, 0, 1), n.OK, 'I/O goes on')
        put_state(tgt, 1, 3, 'optimized')


def older(t, tgt):
    """A transition also waits for a command that began two configurations ago."""
    seen = {}

    def once():
        with tgt.host() as host:
            conn = host.queue()
            owed, r2t = owe(conn)
            put_state(tgt, 1, 2, 'non-optimized')
            begin = time.monotonic()
            call = Later(tgt, 1, 3, 'inaccessible')
            target.poll(lambda: page_of(host).state(3) == 15, PRESS_S)
            put_state(tgt, 1, 2, 'optimized')
            seen['meanwhile'] = page_of(host).state(3)
            conn.answer_r2t(owed, r2t)
            conn.wait(owed)
            call.join()
            took_s = time.monotonic() - begin
            seen['status'], seen['final'] = owed.status, page_of(host).state(3)
            put_state(tgt, 1, 3, 'optimized')
        return took_s

    # A try that takes longer than PRESS_S looks too late.
    times = target.least(once, PRESS_S)
    t.eq(seen.get('meanwhile'), 15, 'an older command holds it, other changes go on', 'Base 8.1.1.8')
    t.ok(seen.get('status') == n.OK and min(times) <= PRESS_S, 'and lets it go when it ends', 'Base 8.1.1.8', why=times)
    t.eq(seen.get('final'), 3, 'the final state', 'Base 8.1.1')


def stuck(t, tgt):
    """A command whose host owes data delays a transition by at most ANATT."""
    def once():
        with tgt.host() as host:
            conn = host.queue()
            owed, r2t = owe(conn)
            begin = time.monotonic()
            t.eq(put_state(tgt, 1, 3, 'persistent-loss'), 200, 'stuck: the state comes all the same')
            took_s = time.monotonic() - begin
            t.eq(page_of(host).state(3), 4, 'stuck: the log', 'Base 5.1.12.1.13')
            conn.answer_r2t(owed, r2t)
            conn.wait(owed)
            t.ok(owed.is_done, 'stuck: the command ends with a status when its data come')
            put_state(tgt, 1, 3, 'optimized')
        return took_s

    with tgt.host() as host:
        t.eq(bytes(host.admin.identify(1).data)[342], ANATT_S, 'ANATT', 'Base 5.1.13.2.1')
    times = target.least(once, ANATT_S, 3)
    t.ok(min(times) <= ANATT_S, 'stuck: within ANATT', 'Base 8.1.1.8', why=times)


def restart(t, tgt):
    """The target is killed during a transition: it starts with the requested state."""
    with tgt.host() as host:
        conn = host.queue()
        owe(conn)
        threading.Thread(target=lambda: ignore(put_state, tgt, 1, 3, 'inaccessible')).start()
        seen = target.poll(lambda: page_of(host).state(3) == 15)
        t.ok(seen, 'a transition is held')
        # Hosts see the state shortly before it is kept; a kill in between reverts it.
        t.ok(target.poll(lambda: kept_state(tgt, 3) == 'inaccessible'), 'and kept')
        tgt.kill()
    tgt.start()
    with tgt.host() as host:
        t.eq(page_of(host).state(3), 3, 'killed on the way: it starts with the final state')
    put_state(tgt, 1, 3, 'optimized')


def ignore(call, *args):
    try:
        call(*args)
    except Exception:  # the kill breaks the connection
        pass


def parts(t, tgt):
    """Reads a page of many groups in parts, also with a change between two parts."""
    with tgt.host() as host:
        admin = host.admin
        whole = bytes(admin.get_log(0x0c, 65536).data)
        page = Page(whole)
        t.eq(page.order, sorted(page.order), 'groups in ascending order', 'Base 5.1.12.1.13')
        t.eq(sorted(sum((entry[2] for entry in page.groups.values()), [])),
             list(range(1, 4)) + list(range(10, 10 + GROUPS)), 'every namespace once',
             'Base 5.1.12.1.13')
        odd = []
        for step in (4, 12, 100, 1024, 4096):
            got = b''.join(bytes(admin.get_log(0x0c, step, offset=at).data)
                           for at in range(0, page.size, step))
            if got[:page.size] != whole[:page.size]:
                odd.append(step)
        t.eq(odd, [], 'parts of any length are the page', 'Base 5.1.12')
        t.status(admin.get_log(0x0c, 4, offset=page.size + 4), n.INVALID_FIELD,
                 'an offset behind the end', 'Base 5.1.12')
        rgo = Page(admin.get_log(0x0c, 65536, lsp=1).data)
        t.eq((rgo.order, rgo.size), (page.order, 16 + 32 * len(page.order)),
             'groups only: the same groups without NSIDs', 'Base 5.1.12.1.13')
        t.eq(rgo.count, page.count, 'groups only: the same change count', 'Base 5.1.12.1.13')

        head = bytes(admin.get_log(0x0c, 16).data)
        admin.get_log(0x0c, 4096, offset=16)
        t.eq(bytes(admin.get_log(0x0c, 16).data), head, 'nothing changed: the same header',
             'Base 5.1.12.1.13')
        first = bytes(admin.get_log(0x0c, 4096).data)
        put_state(tgt, 1, 100, 'non-optimized')
        rest_of = bytes(admin.get_log(0x0c, page.size - 4096, offset=4096).data)
        again = bytes(admin.get_log(0x0c, 16).data)
        t.ok(again[:8] != first[:8], 'a change between two parts shows in the header',
             'Base 5.1.12.1.13')
        now = Page(admin.get_log(0x0c, 65536).data)
        t.ok(now.count > page.count, 'which rose', 'Base 5.1.12.1.13')
        t.ok(first[:8] == head[:8] and len(rest_of) > 0, 'the first part is of the old page')
        changed = [group for group in now.order
                   if now.change_count(group) != page.change_count(group)]
        t.eq(changed, [100], 'the count of the group that changed, and of no other',
             'Base 5.1.12.1.13')

        put_state(tgt, 1, 100, 'optimized')
        now = Page(admin.get_log(0x0c, 65536).data)

        def grow(config):
            ns = next(ns for ns in config['subsystems'][0]['namespaces'] if ns['nsid'] == 10)
            ns['media'] = 'null:2M'
        tgt.reload(grow)
        after = Page(admin.get_log(0x0c, 65536).data)
        t.eq(after.count, now.count, 'a change of something else leaves the count',
             'Base 5.1.12.1.13')

        def move(config):
            ns = next(ns for ns in config['subsystems'][0]['namespaces'] if ns['nsid'] == 11)
            ns['ana_group'] = 100
        admin.set_feature(11, ANA_BIT)
        aer = admin.submit(n.AER)
        tgt.reload(move)
        admin.wait(aer)
        t.eq(aer.dw0, ANA_NOTICE, 'a namespace that moves to another group: notice',
             'Base 5.1.2.1')
        moved = Page(admin.get_log(0x0c, 65536).data)
        t.ok(11 in moved.groups[100][2] and moved.count > after.count,
             'it is listed there, and the count rises', 'Base 5.1.12.1.13')
        t.ok(moved.change_count(100) > after.change_count(100), 'so does that of the group',
             'Base 5.1.12.1.13')

        def move_back(config):
            ns = next(ns for ns in config['subsystems'][0]['namespaces'] if ns['nsid'] == 11)
            ns['ana_group'] = 5
        admin.get_log(0x04, 4096)
        admin.set_feature(11, NS_BIT)
        aer = admin.submit(n.AER)
        tgt.reload(move_back)
        admin.wait(aer)
        t.eq(aer.dw0, NS_NOTICE, 'a namespace that moves: its Identify page has changed too', 'Base 5.1.2.1')
        t.eq(struct.unpack_from('<II', admin.get_log(0x04, 4096).data), (11, 0), 'and the log of changes names it',
             'Base 5.1.12.1.5')

        admin.set_property(n.CC, 0)
        admin.csts_until(0, 1)
        admin.enable()
        t.eq(page_of(host).count, 0, 'after a reset it counts from 0', 'Base 5.1.12.1.13')


def several_at_once(t, tgt):
    """A host gets a notice when any of the changed groups has a namespace that it sees."""
    hidden = ['nqn.2014-08.org.nvmexpress:uuid:99999999-2222-4333-8444-555555555555']
    spaces = [target.namespace(group, 'mem:1M,block=512', ana_group=group,
                               **({} if group in (3, 6) else {'hosts': hidden}))
              for group in range(1, 8)]
    port = target.free_port()
    own = target.Target(port=port, config=target.config_of(port, spaces))
    try:
        with own.host() as host:
            admin = host.admin
            admin.set_feature(11, ANA_BIT)
            page_of(host)
            for groups in ((3,), (1, 3), (3, 7), (1, 2), (2, 6, 7), (1, 2, 3, 4, 5, 6, 7), (7,), (1, 4, 6),
                           (4, 5), (5, 6)):
                want = bool({3, 6} & set(groups))
                aer = admin.submit(n.AER)
                own.reload(lambda config: config['ports'][0].update(
                    ana=[{'group': group, 'state': 'non-optimized'} for group in groups]))
                if want:
                    admin.wait(aer)
                    t.eq(aer.dw0, ANA_NOTICE, 'groups %s change: notice' % (groups,), 'Base 5.1.2.1')
                else:
                    t.status(admin.do(n.KEEP_ALIVE), n.OK, 'groups %s change' % (groups,))
                    t.ok(not aer.is_done, 'groups %s change: none of them has a namespace of the host, '
                         'no notice' % (groups,), 'Base 5.1.2.1')
                    admin.do(n.ABORT, cdw10=aer.cid << 16)
                    admin.wait(aer)
                page_of(host)
                own.reload(lambda config: config['ports'][0].update(ana=[]))
                page_of(host)
    finally:
        own.finish(t)


def test(t, tgt):
    with t.guard('several_at_once'):
        several_at_once(t, tgt)
    for part in (states, bad_calls, held_change, transition, overtaken, older, parts, stuck, restart):
        with t.guard(part.__name__):
            part(t, tgt)


def main():
    tap = Tap()
    first, second = target.free_port(), target.free_port()
    spaces = [
        target.namespace(1, 'mem:1M,block=512'),
        target.namespace(2, 'mem:1M,block=512', ana_group=2),
        target.namespace(3, 'fault:delay:op=read:ms=%d@mem:1M,block=512' % SLOW_MS, ana_group=3),
    ] + [target.namespace(10 + i, 'null:1M', ana_group=4 + i) for i in range(GROUPS)]
    ports = [{'id': number, 'transport': 'tcp', 'address': '127.0.0.1', 'service': str(port)}
             for number, port in ((1, first), (2, second))]
    tgt = None
    try:
        with tap.guard('the test as a whole'):
            tgt = target.Target(port=first, config=target.config_of(
                first, spaces, ports=ports, rights=target.ALL_RIGHTS))
            tgt.second = second
            test(tap, tgt)
    finally:
        if tgt:
            tgt.finish(tap)
    raise SystemExit(tap.done())


main()
