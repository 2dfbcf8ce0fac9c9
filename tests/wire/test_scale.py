#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
A thousand subsystems and ten thousand namespaces over two reactors: they start from the store; the first and the
last are reachable; lists, ANA log and Identify of the largest subsystem are right; one namespace is added, resized
and removed while another is read; 4,096 queues connect and answer a command each; memory returns when the queues
have left and after a change. NVMe Base 2.1, sections 5.1.13.2, 5.1.12.1.13, 5.1.2.1.
"""

import os
import resource
import struct
import threading

import nvmetcp as n
import restapi
import target
from tap import Tap

SUBSYSTEMS = 1000
NAMESPACES = 10000
LARGE = NAMESPACES - (SUBSYSTEMS - 1)   # in the largest subsystem; every other has one
GROUPS = 1000
BLOCK = 4096
BLOCKS = 16
NEW = 16384                 # the largest possible NSID
QUEUES, PER_CTRL = 4096, 64
LIST, ANA = 'Base 5.1.13.2.2', 'Base 5.1.12.1.13'
NS_NOTICE, NS_BIT = 2 | 0x04 << 16, 1 << 8
SANITIZER_KIB = 1 << 30     # of address space: only sanitizers' shadow memory takes as much


def nqn(i):
    return 'nqn.2026-11.io.weft:scale-%04d' % i


LARGEST = nqn(SUBSYSTEMS // 2)


def group_of(nsid):
    return nsid % GROUPS + 1


def document(port):
    subsystems = []
    for i in range(SUBSYSTEMS):
        count = LARGE if nqn(i) == LARGEST else 1
        spaces = [target.namespace(k, 'mem:64K', ana_group=group_of(k)) for k in range(1, count + 1)]
        subsystems.append({'nqn': nqn(i), 'allow_any_host': True, 'namespaces': spaces})
    return target.config_of(port, subsystems=subsystems,
                            limits={'connections': 16384, 'connections_per_host': 16384,
                                    'controllers_per_host': 4096})


def blocks(host, nsid):
    return struct.unpack_from('<QQ', bytes(host.admin.identify(0, nsid).data))


def uuid_of(host, nsid):
    """CNS 03h: the descriptor of type 3."""
    page, at = bytes(host.admin.identify(3, nsid).data), 0
    while page[at]:
        if page[at] == 3:
            return page[at + 4:at + 20]
        at += 4 + page[at + 1]
    return None


def active(host):
    found, page = [], [0]
    while page:
        page = [x for x in struct.unpack('<1024I', bytes(host.admin.identify(2, page[-1]).data)) if x]
        found += page
    return found


# ---- what is there ------------------------------------------------------------------------------


def ends(t, tgt):
    """The first and the last subsystem, and the first and the last namespace of the largest."""
    marks, uuids = {}, set()
    for i, (name, nsid) in enumerate(((nqn(0), 1), (LARGEST, 1), (LARGEST, LARGE), (nqn(SUBSYSTEMS - 1), 1))):
        what = 'namespace %d of %s' % (nsid, name[-4:])
        with tgt.host(name) as host:
            conn = host.queue()
            t.eq(blocks(host, nsid), (BLOCKS, BLOCKS), what + ': CNS 00h', 'NVM 4.1.5.1')
            uuids.add(uuid_of(host, nsid))
            marks[name, nsid] = n.pattern(BLOCK, i + 1)
            t.status(conn.put(nsid, BLOCKS - 1, marks[name, nsid], BLOCK), n.OK, what + ': Write', 'NVM 3.2.6')
            t.status(conn.read(nsid, BLOCKS, 1, BLOCK), n.LBA_RANGE, what + ': its end', 'NVM 3.1.2', 1)
    t.ok(len(uuids) == 4 and None not in uuids, 'each has a UUID of its own', 'Base 5.1.13.2.4', uuids)
    for (name, nsid), mark in marks.items():
        with tgt.host(name) as host:
            t.eq(bytes(host.queue().read(nsid, BLOCKS - 1, 1, BLOCK).data), mark,
                 'namespace %d of %s: Read gives what was written there' % (nsid, name[-4:]), 'NVM 3.2.4')


def pages(t, host):
    t.eq(active(host), list(range(1, LARGE + 1)), 'CNS 02h: all of them, page by page', LIST)
    t.eq(bytes(host.admin.identify(0, LARGE + 1).data), bytes(4096), 'CNS 00h: none behind the last', LIST)
    size = 16 + GROUPS * 32 + 4 * LARGE
    page = bytes(host.admin.get_log(0x0c, size).data)
    want = {g: [] for g in range(1, GROUPS + 1)}
    for nsid in range(1, LARGE + 1):
        want[group_of(nsid)].append(nsid)
    at, found = 16, {}
    for _ in range(struct.unpack_from('<QH', page)[1]):
        group, count = struct.unpack_from('<II', page, at)
        found[group] = list(struct.unpack_from('<%dI' % count, page, at + 32))
        at += 32 + 4 * count
    t.eq((found == want, at), (True, size), 'LID 0Ch: %d groups, every namespace in its own' % GROUPS, ANA)
    parts = b''.join(bytes(host.admin.get_log(0x0c, min(4096, size - x), x).data)
                     for x in range(0, size, 4096))
    t.eq(parts == page, True, 'LID 0Ch in parts of 4096 bytes', 'Base 5.1.12, LPO')


# ---- live changes -------------------------------------------------------------------------------


class Reader(threading.Thread):
    """Reads one block again and again until stop()."""

    def __init__(self, conn, nsid, want):
        super().__init__(daemon=True)
        self.conn, self.nsid, self.want = conn, nsid, want
        self.reads, self.problem, self.is_stopping = 0, None, False

    def run(self):
        try:
            while not self.is_stopping and not self.problem:
                cmd = self.conn.read(self.nsid, 0, 1, BLOCK)
                if cmd.status != n.OK or bytes(cmd.data) != self.want:
                    self.problem = 'read %d: status %s' % (self.reads, cmd.status)
                self.reads += 1
        except Exception as e:
            self.problem = repr(e)

    def stop(self):
        self.is_stopping = True
        self.join(n.TIMEOUT_S)
        return self.problem


def live(t, tgt, host):
    api = restapi.Client(os.path.join(tgt.folder, 'state', 'weft.sock'))
    conn, want, space = host.queue(1), n.pattern(BLOCK, 77), '/v1/subsystems/%s/namespaces' % LARGEST
    conn.put(7, 0, want, BLOCK)
    host.admin.set_feature(11, NS_BIT)
    reader = Reader(conn, 7, want)
    reader.start()
    other = host.queue(2)
    steps = (('added', lambda: api.post(space, {'nsid': NEW, 'media': 'mem:2M'}), 201, 512),
             ('resized', lambda: api.patch('%s/%d' % (space, NEW), {'size': '4M'}), 200, 1024),
             ('removed', lambda: api.delete('%s/%d' % (space, NEW)), 200, 0))
    for what, change, status, count in steps:
        host.admin.get_log(4, 4096)
        aer, before = host.admin.submit(n.AER), reader.reads
        answer = change()
        t.eq(answer.status, status, 'a namespace is ' + what, 'weft-api')
        t.ok(target.poll(lambda: reader.reads > before), what + ': another is read on', why=reader.problem)
        host.admin.wait(aer)
        t.eq((aer.status, aer.dw0), (n.OK, NS_NOTICE), what + ': the host is told', 'Base 5.1.2.1')
        t.eq([x for x in struct.unpack('<1024I', bytes(host.admin.get_log(4, 4096).data)) if x], [NEW],
             what + ': changed namespace list', 'Base 5.1.12.1.5')
        t.eq((blocks(host, NEW)[0], len(active(host))), (count, LARGE + (count > 0)),
             what + ': CNS 00h and 02h', LIST)
        if count:
            t.status(other.put(NEW, count - 1, want, BLOCK), n.OK, what + ': its last block', 'NVM 3.2.6')
        t.status(other.read(NEW, count, 1, BLOCK), n.LBA_RANGE if count else n.INVALID_FIELD,
                 what + ': nothing behind it', 'NVM 3.1.2', 1)
    t.eq(reader.stop(), None, 'every read of the other one was good', 'NVM 3.2.4')
    t.eq(api.violations, [], 'the API answers as described', 'openapi.json')


# ---- queues -------------------------------------------------------------------------------------


def status_kib(tgt, key):
    with open('/proc/%d/status' % tgt.process.pid) as file:
        return next(int(line.split()[1]) for line in file if line.startswith(key + ':'))


def is_sanitized(tgt):
    return status_kib(tgt, 'VmSize') > SANITIZER_KIB


def queues_possible():
    """How many queues the limit of open files allows; the target has the same limit."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return QUEUES if hard > QUEUES + QUEUES // PER_CTRL + 256 else 1024


def crowd(tgt, count):
    """Connects hosts spread over the subsystems, so that no subsystem has them all."""
    hosts = [tgt.host(nqn(i * 7 % SUBSYSTEMS)) for i in range(count // PER_CTRL)]
    return hosts, [conn for host in hosts for conn in host.many_queues(range(1, PER_CTRL + 1))]


def queues(t, tgt):
    count = queues_possible()
    what = '%d queues' % count
    if count < QUEUES:
        what += ' (%d are wanted; the limit of open files is too low here)' % QUEUES
    before = status_kib(tgt, 'VmRSS')
    hosts, conns = crowd(tgt, count)
    try:
        t.eq(len(conns), count, what + ' connect', 'Base 6.3')
        cmds = [conn.rw(n.READ, 1, i % BLOCKS, 1, BLOCK) for i, conn in enumerate(conns)]
        bad = [conn.qid for conn, cmd in zip(conns, cmds) if conn.wait(cmd).status != n.OK]
        t.eq(bad, [], what + ': each answers a command that all have sent at once', 'NVM 3.2.4')
        full = status_kib(tgt, 'VmRSS')
    finally:
        for host in hosts:
            host.close()
    gone = target.poll(lambda: len(os.listdir('/proc/%d/fd' % tgt.process.pid)) < 256)
    t.ok(gone, what + ': all are gone when their hosts have left')
    if is_sanitized(tgt):
        t.skip('memory after the queues', 'a sanitizer keeps what was freed')
        return
    # The commands' buffers and the allocator's free memory may stay.
    most = before + (full - before) // 4
    target.poll(lambda: status_kib(tgt, 'VmRSS') <= most)
    after = status_kib(tgt, 'VmRSS')
    t.ok(after <= most, what + ': memory goes with them', why='%d KiB before, %d with them, %d after' % (
        before, full, after))
    print('# resident: %d KiB before, %d with %d queues, %d after' % (before, full, count, after))


def memory_of_changes(t, tgt, before):
    """A change temporarily needs several times the memory of the configuration."""
    if is_sanitized(tgt):
        t.skip('memory after the changes', 'a sanitizer keeps what was freed')
        return
    most = before + before // 4
    target.poll(lambda: status_kib(tgt, 'VmRSS') <= most)
    after = status_kib(tgt, 'VmRSS')
    t.ok(after <= most, 'memory that the changes needed is given back',
         why='%d KiB before, %d after' % (before, after))
    print('# resident: %d KiB before the changes, %d after' % (before, after))


# -------------------------------------------------------------------------------------------------


def test(t, tgt):
    tgt.terminate()
    t.eq(tgt.wait_exit(), 0, 'the first run, which fills the store, ends')
    tgt.start()
    t.ok('starting with the saved state' in tgt.log(), 'the second one starts from the store')
    with t.guard('first and last'):
        ends(t, tgt)
    with t.guard('the largest subsystem'), tgt.host(LARGEST) as host:
        pages(t, host)
    with t.guard('queues'):
        queues(t, tgt)
    before = status_kib(tgt, 'VmRSS')
    with t.guard('live changes'), tgt.host(LARGEST) as host:
        live(t, tgt, host)
    with t.guard('memory of changes'):
        memory_of_changes(t, tgt, before)


PORT = target.free_port()
target.run(Tap(), test, port=PORT, config=document(PORT))
