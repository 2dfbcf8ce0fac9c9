#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Two processes serve one file: the link between them (right and wrong secrets, garbage, replays, floods), resets of
a peer's controllers (38h) that a live peer answers, and peers that are stopped or killed: data in the sockets of a
stopped peer is never written after the reset is reported done.
"""

import copy
import os
import signal
import socket
import struct
import subprocess
import threading
import time

import nvmetcp as n
import target
from peerlink import (CHALLENGE, FAILED, HELLO, HOST_KATO_MS, LOST_HOST, MAC, PING, PONG, PROOF, RESET,
                      RESET_DONE, SECRET, SEEN, SUCCESS, Answerer, Instance, Member, World, boot_id_of_kernel, can_loop, header, host_of,
                      lost_body, reset, reset_body, reset_submit, TIMEOUT_S)
from tap import Tap

LOG_LOST, SPEC = 0x1f, 'TP8028'
LOST_CONNECTION = 2
DONE, FORBIDDEN = 0, 2
OLD, NEW = b'\x11' * 4096, b'\x22' * 4096


def disk_block(world, lba):
    with open(world.disk, 'rb') as file:
        file.seek(lba * 4096)
        return file.read(4096)


def both_up(t, world, what):
    t.ok(world.wait_up('b', 'a') and world.wait_up('a', 'b'), what,
         why=world['a'].log() + world['b'].log())


# ---- the link ------------------------------------------------------------------------------------


def links(t, world):
    both_up(t, world, 'two members with the same secret link up')
    peer = world.peer('b', 'a')
    t.eq((peer['pid'], peer['can_fence'], peer['fenced'], peer['cntlids'], peer['last_error']),
         (world['b'].process.pid, True, False, [2000, 2999], ''), 'what is known of a peer')
    run = subprocess.run([target.weft_path(), 'ctl', '--socket', world.api('a').place, 'peers'],
                         capture_output=True, text=True, timeout=20)
    t.ok(run.returncode == 0 and 'PEER' in run.stdout and '2000' in run.stdout, 'weft ctl peers',
         why=run.stdout + run.stderr)
    with host_of(world['a']) as one, host_of(world['b']) as two:
        t.ok(1 <= one.cntlid <= 1000 and 2000 <= two.cntlid <= 2999,
             'each gives out identifiers of its own range', 'Base 5.1.13.2.1')
        pages = [bytes(host.admin.identify(3, nsid=1).data) for host in (one, two)]
        t.eq(pages[0], pages[1], 'both tell the same identifiers of the namespace', 'Base 4.7.1')
        t.eq(one.admin.do(0x80, 1, cdw10=0).status, (0, 0x15), 'no Format NVM behind the back of others')
        one.queue().put(1, 3, NEW, block=4096)
        t.eq(bytes(two.queue().read(1, 3, 1, block=4096).data), NEW,
             'what one has written the other reads')


def redials(t):
    """A member that does not answer is dialled at growing intervals of at most about a second."""
    world = World(has_tcp=True, start=False)
    try:
        with socket.socket() as there:
            there.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            there.bind(('127.0.0.1', world.ports['b']))
            there.listen()
            there.settimeout(TIMEOUT_S)
            world['a'].start()
            times = []
            while len(times) < 9:
                there.accept()[0].close()
                times.append(time.monotonic())
        pauses = [after - before for before, after in zip(times, times[1:])]
        # A single reading of the clock may be late, so the sums are judged.
        t.ok(sum(pauses[:6]) > 1.0, 'the pauses double from 20 ms', why=pauses)
        t.ok(sum(pauses[6:]) < 20.0, 'and grow no more after a second', why=pauses)
    finally:
        world.finish(t)


def marks(t):
    """
    Another member failed a flush: hosts here get a new loss mark, once per failure, if both share a page cache.
    """
    def mark():
        with host_of(world['a']) as host:
            return struct.unpack_from('<Q', host.admin.identify(0, 1).data, 384 + 16)[0]

    def told(generation, loss, boot_id=boot_id_of_kernel()):
        with Member(world.socket('a')) as member:
            member.boot_id = boot_id
            t.ok(member.shake() and member.tell(generation, loss), 'list %d is compared' % generation)
        return mark()

    world = World(fence='none', start=False)
    try:
        world['a'].start()
        before = mark()
        t.eq(told(1, 0), before, 'a member that has lost nothing')
        t.eq(told(2, 7, os.urandom(16)), before, 'one on another machine, with a page cache of its own')
        first = told(3, 7)
        t.ok(first != before, 'one that has failed a flush under this kernel: another mark')
        t.eq(told(4, 7), first, 'which is not drawn twice')
        world['a'].kill()
        world['a'].start()
        t.eq(mark(), first, 'and outlives the process')
        t.eq(told(5, 7), first, 'as does what was heard')
        t.ok(told(6, 8) not in (first, before), 'another failure: another mark')
    finally:
        world.finish(t)


def told_again(t):
    """
    The list that arrived last counts. When an older list over another link may have arrived last, the list is sent
    again.
    """
    world = World(fence='none', start=False)
    try:
        world['a'].start()
        with Member(world.socket('a')) as theirs, socket.socket(socket.AF_UNIX) as there:
            t.ok(theirs.shake(), 'a link that the other member has made')
            generation = theirs.next_list()
            t.ok(generation, 'the list goes back over it')
            there.bind(world.socket('b'))
            there.listen()
            there.settimeout(TIMEOUT_S)
            with Answerer(there.accept()[0]) as ours:
                t.ok(ours.answer(), 'then a link of its own')
                t.eq(ours.next_list(), generation, 'which the list goes over from now on')
                theirs.send(theirs.message(SEEN, struct.pack('<QQ', generation, 0)))
                t.eq(ours.next_list(), generation, 'again, when the first one came in after it')
                t.eq(ours.next_list(), None, 'once')
                theirs.sock.close()
                t.eq(ours.next_list(), generation, 'and again when a link ends that may have brought the last one')
                t.eq(ours.next_list(), None, 'once')
    finally:
        world.finish(t)


def strangers(t, world):
    path = world.socket('a')
    t.eq(os.stat(path).st_mode & 0o777, 0o600, 'no other user may connect')
    t.ok('cannot set mode 0600' not in world['a'].log(), 'and nothing is said about that')
    with Member(path) as member:
        t.ok(member.shake(), 'our own words for the protocol are understood')
        frame = member.ask(PING)
        t.eq(frame[:3], (PONG, 1, bytes(16)), 'a ping is answered: every reactor runs')
        again = member.message(PING, number=member.number)
        member.send(again)
        t.ok(member.is_closed(), 'the same message again ends the link')
    for what, spoil in (('a number is left out', lambda m: m.message(PING, number=3)),
                        ('a wrong signature', lambda m: header(PING, 1) + bytes(MAC)),
                        ('no number', lambda m: header(PING, 0) + bytes(MAC)),
                        ('a greeting in between', lambda m: m.hello + bytes(MAC)),
                        ('an answer that nobody asked for',
                         lambda m: m.message(RESET_DONE, bytes(16))),
                        ('a reset without names',
                         lambda m: m.message(RESET, bytes(488)))):
        with Member(path) as member:
            t.ok(member.shake(), what + ': the link is up')
            member.send(spoil(member))
            t.ok(member.is_closed(), what + ' ends the link')
    for what, kwargs in (('a wrong secret', {'secret': SECRET + '!'}),
                         ('an unknown name', {'name': 'c'}), ('another addressee', {'to': 'b'}),
                         ('other members', {'ranges': {'a': [1, 1000], 'b': [2000, 3000]}})):
        with Member(path, **kwargs) as member:
            t.eq(member.shake(), False, what + ' is refused')
    with Member(path) as first:
        first.greet(bytes(32))
        first.take_challenge()
        proof = first.derive('dialer proof')
        with Member(path) as second:
            second.greet(bytes(32))
            second.take_challenge()
            second.prove(proof)
            t.ok(second.is_closed(), 'the proof of another connection is refused')
    with Member(path) as member:
        member.greet()
        member.take_challenge()
        member.prove(member.derive('listener proof'))
        t.ok(member.is_closed(), "the listener's own kind of proof is refused")


def garbage(t, world):
    path = world.socket('a')
    for what, raw in (('noise', os.urandom(4096)), ('zeroes', bytes(4096)),
                      ('HTTP', b'GET / HTTP/1.1\r\n\r\n' * 4),
                      ('a huge size', header(HELLO, body=0xffffffff) + bytes(4096)),
                      ('another version', header(HELLO, version=1) + bytes(248)),
                      ('reserved bytes', header(HELLO, reserved=1) + bytes(248)),
                      ('a greeting of zeroes', header(HELLO) + bytes(216 + MAC)),
                      ('names without an end', header(HELLO) + b'x' * 216 + bytes(MAC)),
                      ('a proof first', header(PROOF) + bytes(MAC)),
                      ('a challenge first', header(CHALLENGE) + bytes(216 + MAC)),
                      ('a ping first', header(PING, 1) + bytes(MAC))):
        with Member(path) as member:
            member.send(raw)
            t.ok(member.is_closed(), what + ' ends the connection')
    with Member(path) as member:
        member.send(header(HELLO))
        t.ok(member.is_closed(), 'half a greeting is not waited for')
    crowd = [Member(path) for _ in range(100)]
    with Member(path) as member:
        t.ok(member.shake(), 'a crowd that says nothing keeps nobody out')
    for member in crowd:
        member.sock.close()
    t.ok(world.peer('b', 'a')['up'], 'and the link is up as before')


def asked_by_member(t, world):
    """Resets by a member, which the wire tests of 38h cannot send."""
    with host_of(world['a']) as host, Member(world.socket('a')) as member:
        who = Instance(host)
        member.shake()

        def ask(**kwargs):
            frame = member.ask(RESET, reset_body(**kwargs))
            return struct.unpack_from('<QI', frame[2]) if frame[0] == RESET_DONE else frame
        of_it = dict(cntlid=who.cntlid, ciu=who.ciu, cirn=who.cirn)
        t.eq(ask(request_id=7, **of_it), (7, FORBIDDEN), 'a controller of another host')
        t.eq(ask(request_id=8, cntlid=2000), (8, FORBIDDEN), 'an identifier that is not ours')
        t.eq(ask(request_id=9, cntlid=999), (9, DONE), 'a controller that is not there')
        t.eq(host.admin.identify(1).status, n.OK, 'the controller lives')


# ---- resets --------------------------------------------------------------------------------------


def live_peer(t, world):
    with host_of(world['a']) as asker, host_of(world['b']) as victim:
        who = Instance(victim)
        queue = victim.queue()
        t.eq(reset(asker, who), SUCCESS, 'a live peer resets its controller', SPEC)
        t.ok(victim.admin.wait_closed() and queue.wait_closed(), 'whose host is cut off', SPEC)
        t.eq(reset(asker, who), SUCCESS, 'once more: it is gone already', SPEC)
    t.ok(world['b'].is_running(), 'the peer lives')
    t.eq((world.peer('b', 'a')['resets_asked'], world.peer('a', 'b')['resets_served'],
          world.peer('b', 'a')['fences']), (2, 2, 0), 'both have counted')
    with host_of(world['b']) as victim, \
            world['a'].host(hostnqn='nqn.2014-08.org.example:another',
                            kato_ms=HOST_KATO_MS) as other:
        t.eq(reset(other, Instance(victim)), n.INVALID_FIELD, "another host's controller", SPEC)


def lost_elsewhere(t, world):
    """The other members report a host that one member has lost (log 1Fh, notice F5h)."""
    both_up(t, world, 'before a host is lost')
    with host_of(world['a']) as host, \
            world['a'].host(hostnqn='nqn.2014-08.org.example:another',
                            kato_ms=HOST_KATO_MS) as other:
        host.admin.set_feature(0x0b, 1 << 21)
        aer = host.admin.submit(n.AER)
        gone = host_of(world['b'])
        who = Instance(gone)
        gone.close()
        host.admin.wait(aer)
        t.eq((aer.dw0 & 7, aer.dw0 >> 8 & 0xff, aer.dw0 >> 16 & 0xff), (2, 0xf5, LOG_LOST),
             'a connection lost by a peer: notice', SPEC)
        page = bytes(host.admin.get_log(LOG_LOST, 16).data)
        t.eq(page, struct.pack('<H6xHBBI', 1, who.cntlid, LOST_CONNECTION, who.ciu, 0),
             'log 1Fh names the controller of the peer', SPEC)
        page = bytes(other.admin.get_log(LOG_LOST, 16).data)
        t.eq(page[:2], bytes(2), 'another host is not told', SPEC)
    with Member(world.socket('a')) as member:
        member.shake()
        member.send(member.message(LOST_HOST, lost_body(cntlid=2001)))
        t.eq(member.ask(PING)[0], PONG, 'a member tells of a controller of its own')
        member.send(member.message(LOST_HOST, lost_body(cntlid=1)))
        t.ok(member.is_closed(), 'of one that is not its own: the link ends')


def stopped_peer(t, world):
    both_up(t, world, 'before a stop')
    with host_of(world['a']) as asker, host_of(world['b']) as victim:
        who, queue = Instance(victim), victim.queue()
        queue.put(1, 5, OLD, block=4096)
        world.stop('b')
        queue.rw(n.WRITE, 1, 5, 1, 4096, NEW)
        t.eq(reset(asker, who), SUCCESS, 'a stopped peer: the reset is done', SPEC)
        t.eq(world['b'].wait_exit(), -signal.SIGKILL, 'because the peer was killed')
        t.eq(disk_block(world, 5), OLD, 'the write in its socket has not landed')
        t.eq(bytes(asker.queue().read(1, 5, 1, block=4096).data), OLD, 'nor is it seen')
    peer = world.peer('b', 'a')
    t.eq((peer['fenced'], peer['fences'], peer['up']), (True, 1, False), 'it shows')
    t.ok('killed (process %d)' % world['b'].process.pid in world['a'].log() and
         'is dead' in world['a'].log(), 'and is logged', why=world['a'].log())
    world['b'].start()
    both_up(t, world, 'it is started again and joins')
    t.eq(world.peer('b', 'a')['fenced'], False, 'and is not fenced any more')


def killed_peer(t, world):
    both_up(t, world, 'before a kill')
    with host_of(world['a']) as asker, host_of(world['b']) as victim:
        who = Instance(victim)
        world['b'].kill()
        t.eq(reset(asker, who), SUCCESS, 'a peer that was killed: the reset is done', SPEC)
        t.ok(world.peer('b', 'a')['fences'] < 2, 'without another kill')
        world['b'].start()
        both_up(t, world, 'a new process of it joins')
        t.eq(reset(asker, who), SUCCESS, 'and answers for its predecessor', SPEC)


def held_listener(t, world):
    """The kernel still holds the listener of a killed member when the next process starts."""
    text = world.socket('b') + ' is still in use; waiting'
    world['b'].kill()
    os.unlink(world.socket('b'))
    before = world['b'].log().count(text)
    with socket.socket(socket.AF_UNIX) as held:
        held.bind(world.socket('b'))
        held.listen()
        starter = threading.Thread(target=world['b'].start)
        starter.start()
        t.ok(target.poll(lambda: world['b'].log().count(text) > before),
             'a killed member still has its address: the next one waits')
    starter.join()
    both_up(t, world, 'and then joins')


def each_other(t, world):
    """Both members are stopped with a reset of each other in flight."""
    both_up(t, world, 'before both stop')
    hosts = {name: host_of(world[name]) for name in ('a', 'b')}
    who = {name: Instance(host) for name, host in hosts.items()}
    for name in ('a', 'b'):
        world.stop(name)
    for name, other in (('a', 'b'), ('b', 'a')):
        reset_submit(hosts[name], who[other])
    for name in ('a', 'b'):
        world[name].process.send_signal(signal.SIGCONT)
    # The member reset first may not have received its own request yet.
    t.ok(target.poll(lambda: any(host.admin.wait_closed(0.02) for host in hosts.values())),
         'two that reset each other: a controller ends', SPEC)
    alive = [name for name in ('a', 'b') if world[name].process.poll() is None]
    t.ok(len(alive) >= 1, 'and one of the processes lives at least', why=alive)
    for name in ('a', 'b'):
        hosts[name].close()
        if name not in alive:
            world[name].start()


def both_stop_and_end(t, world):
    """This member is terminated while its peer is stopped: nothing hangs."""
    with host_of(world['a']) as asker, host_of(world['b']) as victim:
        who = Instance(victim)
        world.stop('b')
        reset_submit(asker, who)
        world['a'].terminate()
        t.eq(world['a'].wait_exit(), 0, 'an end with a reset under way')
    if world['b'].is_running():
        world['b'].process.send_signal(signal.SIGCONT)
    else:
        world['b'].process.wait()


def asked_while_it_ends(t):
    """A peer asks for resets while this member ends: every answer must be that the controller is gone."""
    for _ in range(3):
        world = World(answer_ms=50)
        results = []
        with host_of(world['a']) as host, Member(world.socket('a')) as peer:
            who = Instance(host)
            t.ok(peer.shake(), 'linked')
            world['a'].terminate()
            while True:
                body = reset_body(len(results), who.cntlid, who.ciu ^ 1, who.cirn)
                frame = peer.ask(RESET, body)
                if frame is None or frame[0] != RESET_DONE:
                    break
                results.append(struct.unpack_from('<QI', frame[2])[1])
        t.eq(set(results) - {DONE}, set(), 'every answer says that it is gone')
        t.eq(world['a'].wait_exit(), 0, 'and it ends in good order')
        world.finish(t)


def on_a_device(t):
    """The same fence for a block device: its node carries the locks as a file does."""
    why_not = can_loop()
    if why_not:
        t.skip('a block device that two processes share', why_not)
        return
    world = World(is_device=True)
    try:
        with host_of(world['a']) as one, host_of(world['b']) as two:
            one.queue().put(1, 3, NEW, block=4096)
            t.eq(bytes(two.queue().read(1, 3, 1, block=4096).data), NEW,
                 'a block device: what one has written the other reads')
        stopped_peer(t, world)
        killed_peer(t, world)
        alone(t, world, 'members of a cluster')
    finally:
        world.finish(t)


def unkillable(t):
    world = World(fence='none', answer_ms=50)
    try:
        both_up(t, world, 'fence none')
        with host_of(world['a']) as asker, host_of(world['b']) as victim:
            who = Instance(victim)
            world.stop('b')
            t.eq(reset(asker, who), FAILED, 'a peer that may not be killed: the reset fails', SPEC)
            t.ok('not permitted' in world.peer('b', 'a')['last_error'], 'and why is told',
                 why=world.peer('b', 'a'))
            world['b'].process.send_signal(signal.SIGCONT)
            t.ok(world.wait_up('b', 'a'), 'it answers again')
            # An earlier request may still run there: 3Fh, reset in progress.
            t.ok(target.poll(lambda: reset(asker, who) == SUCCESS), 'and then resets', SPEC)
    finally:
        world.finish(t)


def other_secrets(t):
    world = World(secrets={'b': 'another secret that has thirty-two characters'}, answer_ms=50)
    try:
        t.ok(target.poll(lambda: 'secret' in world.peer('b', 'a')['last_error']),
             'members with different secrets do not link up', why=world.peer('b', 'a'))
        with host_of(world['a']) as asker, host_of(world['b']) as victim:
            t.eq(reset(asker, Instance(victim)), FAILED,
                 'a peer that lives and is not known cannot be fenced', SPEC)
            t.eq(victim.admin.identify(1).status, n.OK, 'nothing happened to it')
            who = Instance(victim)
            world['b'].kill()
            t.eq(reset(asker, who), SUCCESS, 'once it is dead its locks tell', SPEC)
    finally:
        world.finish(t)


def other_lists(t):
    """Members with different lists of members, as while members are restarted one by one to add a member."""
    world = World(answer_ms=50, start=False)
    world['a'].config['cluster']['peers'].append(
        {'name': 'a2', 'address': 'unix:' + os.path.join(world.folder, 'a2.sock'), 'cntlids': [5000, 5999]})
    world['a'].write_config()
    for name in 'ab':
        world[name].start()
    try:
        t.ok(target.poll(lambda: 'differ in the members' in world.peer('b', 'a')['last_error']),
             'members that list others do not link up', why=world.peer('b', 'a'))
        with host_of(world['a']) as asker, host_of(world['b']) as victim:
            who, queue = Instance(victim), victim.queue()
            queue.put(1, 5, OLD, block=4096)
            world.stop('b')
            queue.rw(n.WRITE, 1, 5, 1, 4096, NEW)
            t.eq(reset(asker, who), FAILED, 'one that only stands still is not taken for dead', SPEC)
            world['b'].kill()
            t.eq(reset(asker, who), SUCCESS, 'its own lock tells when it is', SPEC)
            t.eq(disk_block(world, 5), OLD, 'nothing of it has landed late')
    finally:
        world.finish(t)


def over_tcp(t):
    world = World(has_tcp=True, answer_ms=50)
    try:
        both_up(t, world, 'a link over TCP')
        t.eq(world.peer('b', 'a')['can_fence'], False, 'whoever is there cannot be killed')
        with host_of(world['a']) as asker, host_of(world['b']) as victim:
            t.eq(reset(asker, Instance(victim)), SUCCESS, 'it resets its controller', SPEC)
        with host_of(world['a']) as asker, host_of(world['b']) as victim:
            who = Instance(victim)
            world.stop('b')
            t.eq(reset(asker, who), FAILED, 'it does not answer: the reset fails', SPEC)
            world['b'].process.send_signal(signal.SIGCONT)
            t.ok(world.wait_up('b', 'a'), 'it answers again')
        t.ok(world['b'].is_running(), 'it was not killed')
    finally:
        world.finish(t)


# ---- documents -----------------------------------------------------------------------------------


def serve_fails(t, member, what, text):
    run = subprocess.run(member.command(), capture_output=True, text=True, timeout=30)
    t.ok(run.returncode == 1 and text in run.stderr, what, why='%d\n%s' % (run.returncode,
                                                                          run.stderr))


def secrets_at_their_limits(t):
    """A secret has 32 to 256 characters, without the newline at the end of its file."""
    for length in (32, 256):
        world = World(secrets=dict.fromkeys(('a', 'b'), 'x' * length), answer_ms=50)
        try:
            both_up(t, world, 'a secret of %d characters' % length)
        finally:
            world.finish(t)


def secrets(t, world):
    member = world['a']
    for what, secret, mode, text in (
            ('a secret that others can read', SECRET, 0o644, 'chmod 600'),
            ('a secret that is too short', 'x' * 31, 0o600, 'at least 32'),
            ('a secret that is too long', 'x' * 257, 0o600, 'at most 256')):
        world.write_secret('a', secret, mode)
        serve_fails(t, member, what + ' is refused', text)
    os.unlink(world.secret_path('a'))
    serve_fails(t, member, 'a secret that is not there', 'cluster.secret_file: cannot read')
    os.mkfifo(world.secret_path('a'), 0o600)
    serve_fails(t, member, 'a pipe', 'no regular file')


def check(member, change):
    """Runs `weft serve --check` on a changed document."""
    good, config = member.config, copy.deepcopy(member.config)
    change(config)
    member.config = config
    member.write_config()
    run = subprocess.run([target.weft_path(), 'serve', '-c', member.config_path, '--check'],
                         capture_output=True, text=True, timeout=30)
    member.config = good
    member.write_config()
    return run


def documents(t, world):
    member = world['a']
    t.eq(check(member, lambda c: None).returncode, 0, 'a good document')
    ns = 'subsystems[0].namespaces[0].'
    for what, change, text in (
            ('no secret', lambda c: c['cluster'].pop('secret_file'), 'cluster.secret_file'),
            ('no name', lambda c: c['cluster'].pop('name'), 'cluster.name'),
            ('no range', lambda c: c['cluster'].pop('cntlids'), 'cluster.cntlids'),
            ('a bad name', lambda c: c['cluster'].update(name='a b'), 'cluster.name'),
            ('its own name', lambda c: c['cluster']['peers'][0].update(name='a'),
             'cluster.peers[0].name'),
            ('one name twice',
             lambda c: c['cluster']['peers'].append(dict(c['cluster']['peers'][0],
                                                         cntlids=[9000, 9001])),
             'cluster.peers[1].name'),
            ('ranges that meet', lambda c: c['cluster']['peers'][0].update(cntlids=[1000, 1001]),
             'cluster.peers[0].cntlids'),
            ('a range to FFF0h', lambda c: c['cluster'].update(cntlids=[1, 0xfff0]),
             'cluster.cntlids'),
            ('a range from 0', lambda c: c['cluster'].update(cntlids=[0, 5]), 'cluster.cntlids'),
            ('a range backwards', lambda c: c['cluster'].update(cntlids=[5, 1]),
             'cluster.cntlids'),
            ('a bad address', lambda c: c['cluster'].update(listen='here'), 'cluster.listen'),
            ('a long name', lambda c: c['cluster'].update(listen='unix:/run/' + 'x' * 200),
             'cluster.listen: the socket\'s file name has more than 80 bytes; with a path this long the maximum is 80'),
            ('a long path', lambda c: c['cluster'].update(listen='unix:' + 200 * '/12345' + '/a'),
             'cluster.listen: the path has more than 1023 bytes'),
            ('no peers', lambda c: c['cluster'].update(peers=[]), 'cluster.peers'),
            ('a bad fence', lambda c: c['cluster'].update(fence='shoot'), 'cluster.fence'),
            ('a kill over TCP',
             lambda c: c['cluster']['peers'][0].update(address='127.0.0.1:1', fence='kill'),
             'cluster.peers[0].fence'),
            ('an unknown key', lambda c: c['cluster'].update(colour='blue'), 'colour'),
            ('clustered without a UUID',
             lambda c: c['subsystems'][0]['namespaces'][0].pop('uuid'), ns + 'clustered'),
            ('clustered memory',
             lambda c: c['subsystems'][0]['namespaces'][0].update(media='mem:1M'),
             ns + 'clustered'),
            ('clustered without a cluster', lambda c: c.pop('cluster'), ns + 'clustered')):
        run = check(member, change)
        t.ok(run.returncode != 0 and text in run.stdout + run.stderr, 'document: ' + what,
             why=run.stdout + run.stderr)


def live_documents(t, world):
    api = world.api('a')
    document = api.get('/v1/config').json
    t.eq(document['cluster']['peers'][0]['fence'], 'kill', 'the exported document has it all')
    t.eq(api.put('/v1/config', document).json['diff'], [], 'and can be applied again')
    changed = dict(document, cluster=dict(document['cluster'], answer_ms=300))
    answer = api.put('/v1/config', changed)
    t.ok(answer.status == 400 and 'fixed while the target runs' in answer.body.decode(),
         'a live change of the cluster is refused', why=answer.body)
    path = '/v1/subsystems/%s/namespaces/1' % target.NQN
    answer = api.patch(path, {'clustered': False})
    t.ok(answer.status == 400 and 'clustered' in answer.body.decode(),
         'and so is one of "clustered"', why=answer.body)


def alone(t, world, why='in use by another target'):
    """A target outside the cluster refuses the cluster's files."""
    port = target.free_port()
    config = target.config_of(port, [target.namespace(1, 'file:%s,readonly' % world.disk)])
    folder = os.path.join(world.folder, 'alone')
    os.mkdir(folder)
    member = target.Target(config, folder=folder, port=port, start=False)
    serve_fails(t, member, 'a reader outside of the cluster', 'members of a cluster')
    config['subsystems'][0]['namespaces'][0]['media'] = 'file:' + world.disk
    member.write_config()
    serve_fails(t, member, 'a writer outside of the cluster', why)


def run_all(t):
    world = World(start=False)
    with t.guard('documents'):
        documents(t, world)
        secrets(t, world)
    world.finish(t)
    world = World()
    for name, rows in (('links', links), ('strangers', strangers), ('garbage', garbage),
                       ('asked', asked_by_member), ('documents', live_documents),
                       ('alone', alone), ('live peer', live_peer),
                       ('lost elsewhere', lost_elsewhere), ('stopped peer', stopped_peer),
                       ('killed peer', killed_peer), ('held listener', held_listener),
                       ('each other', each_other),
                       ('the end', both_stop_and_end)):
        with t.guard(name):
            rows(t, world)
    world.finish(t)
    for name, rows in (('a device', on_a_device), ('asked while it ends', asked_while_it_ends),
                       ('unkillable', unkillable), ('redials', redials), ('told again', told_again), ('marks', marks),
                       ('other secrets', other_secrets),
                       ('secrets at their limits', secrets_at_their_limits),
                       ('other lists', other_lists), ('TCP', over_tcp)):
        with t.guard(name):
            rows(t)
    return t.done()


if __name__ == '__main__':
    raise SystemExit(run_all(Tap()))
