#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Rights of hosts: what a host may change of state that it shares with others (write protection, format, labels,
namespaces). A host without a right does not see the command or feature and is refused; with the right, it sees and
may use it; the operator overrides both. NVMe Base 2.1, sections 5.1.13.2.1, 5.1.12.1.6, 5.1.25.1.
"""

import json
import os
import struct
import subprocess
import tempfile

import nvmetcp as n
import target
from tap import Tap

HOST = n.HOST_NQN
OTHER = 'nqn.2026-11.io.weft:other-host'
RIGHTS = ('write-protect', 'format', 'label', 'namespaces')
NS_MANAGEMENT, NS_ATTACHMENT, FORMAT_NVM = 0x0d, 0x15, 0x80
OACS_FORMAT, OACS_NAMESPACES = 1 << 1, 1 << 3
LABEL = b'mine'.ljust(256, b'\0')


def ctl(tgt, *words):
    return subprocess.run([target.weft_path(), 'ctl', '--state', os.path.join(tgt.folder, 'state'),
                           *words], capture_output=True, text=True, timeout=60)


def told(admin):
    """The functions that the controller reports as supported."""
    page = bytes(admin.identify(1).data)
    effects = bytes(admin.get_log(5, 4096).data)
    features = bytes(admin.get_log(0x12, 1024).data)

    def supported(log, index):
        return struct.unpack_from('<I', log, 4 * index)[0] & 1 != 0

    oacs = struct.unpack_from('<H', page, 256)[0]
    return {
        'write-protect': (page[531] != 0, supported(features, 0x84)),
        'format': (oacs & OACS_FORMAT != 0, supported(effects, FORMAT_NVM)),
        'namespaces': (oacs & OACS_NAMESPACES != 0, supported(effects, NS_MANAGEMENT),
                       supported(effects, NS_ATTACHMENT)),
        'label': (admin.get_feature(0x1f, 3, nsid=1).dw0 & 4 != 0,),
    }


def tries(admin, cntlid):
    """One attempt for each right; an allowed attempt leaves the state as it was."""
    return {
        'write-protect': [admin.set_feature(0x84, state, nsid=1).status for state in (1, 0)],
        'format': [admin.do(FORMAT_NVM, nsid=1, cdw10=0).status],
        'label': [admin.set_feature(0x1f, data=LABEL, nsid=1).status],
        'namespaces': [admin.do(NS_MANAGEMENT, nsid=1, cdw10=1).status,
                       admin.do(NS_ATTACHMENT, nsid=1, cdw10=1,
                                     data=struct.pack('<HH', 1, cntlid).ljust(4096, b'\0')).status],
    }


REFUSED = {'write-protect': [n.INVALID_FIELD] * 2, 'format': [n.INVALID_OPCODE],
           'label': [n.NOT_CHANGEABLE], 'namespaces': [n.INVALID_OPCODE] * 2}


def nothing_by_default(t, tgt):
    with tgt.host() as host:
        for right, flags in told(host.admin).items():
            t.ok(not any(flags), 'no rights: "%s" is not told of' % right, 'Base 5.1.13.2.1',
                 why=flags)
        for right, status in tries(host.admin, host.cntlid).items():
            t.eq(status, REFUSED[right], 'no rights: "%s" is refused' % right)
        t.status(host.admin.get_feature(0x84, nsid=1), n.INVALID_FIELD,
                 'no rights: nor is write protection read')
        t.status(host.admin.get_feature(0x1f, read_bytes=256, nsid=1), n.OK,
                 'no rights: a label is read')
        t.status(host.admin.identify(0, 0xffffffff), n.INVALID_NS,
                 'no rights: there is no page of all namespaces')
    for right in RIGHTS:
        t.ok(tgt.wait_log('weft ctl host rights %s %s %s` gives the right' % (target.NQN, HOST, right)),
             'the log names the command that gives "%s"' % right)


def given_one_by_one(t, tgt):
    """Each right alone, given to a connected controller, allows only what it names."""
    with tgt.host() as host:
        for right in RIGHTS:
            run = ctl(tgt, 'host', 'rights', target.NQN, HOST, right)
            t.ok(run.returncode == 0, 'weft ctl host rights: %s' % right, why=run.stderr)
            for other, flags in told(host.admin).items():
                t.eq(set(flags), {other == right}, '"%s" given: "%s" is %stold of' % (
                    right, other, '' if other == right else 'not '))
            for other, status in tries(host.admin, host.cntlid).items():
                if other == right:
                    t.ok(not any(s in (n.INVALID_OPCODE, n.NOT_CHANGEABLE, n.INVALID_FIELD)
                                 for s in status), '"%s" given: it works' % right, why=status)
                else:
                    t.eq(status, REFUSED[other], '"%s" given: "%s" is refused' % (right, other))
        with tgt.host(hostnqn=OTHER, hostid=bytes(range(1, 17))) as other:
            t.eq({flag for flags in told(other.admin).values() for flag in flags}, {False},
                 'another host has none of them')
        ctl(tgt, 'host', 'rights', target.NQN, HOST, 'none')
        t.eq({flag for flags in told(host.admin).values() for flag in flags}, {False},
             'taken away: nothing is told of any more')
        t.eq(tries(host.admin, host.cntlid), REFUSED, 'and all is refused again')
    ctl(tgt, 'host', 'rights', target.NQN, 'any', 'all')
    with tgt.host(hostnqn=OTHER, hostid=bytes(range(1, 17))) as other:
        t.eq({flag for flags in told(other.admin).values() for flag in flags}, {True},
             'given to any host: another one has them')
    ctl(tgt, 'host', 'rights', target.NQN, 'any', 'none')


def operator_is_last(t, tgt):
    """A host sets permanent protection; no host can lift it, the operator can, and it stays lifted."""
    ctl(tgt, 'host', 'rights', target.NQN, HOST, 'write-protect')
    with tgt.host() as host:
        admin, conn = host.admin, host.queue()
        t.status(admin.set_feature(0x84, 3, nsid=2), n.OK, 'a host protects for good')
        t.status(admin.set_feature(0x84, 0, nsid=2), n.NOT_CHANGEABLE, 'and cannot take it back')
        document = json.loads(ctl(tgt, '--json', 'export').stdout)
        for ns in document['subsystems'][0]['namespaces']:
            ns.pop('write_protect')
        path = os.path.join(tgt.folder, 'silent.json')
        with open(path, 'w') as file:
            json.dump(document, file)
        run = ctl(tgt, 'apply', path)
        t.ok(run.returncode == 1 and 'is write protected (permanent)' in run.stderr,
             'a document that does not mention the protection does not lift it', why=run.stderr)
        run = ctl(tgt, 'namespace', 'set', target.NQN, '2', '--write-protect', 'none')
        t.ok(run.returncode == 0, 'the operator takes it back', why=run.stderr)
        t.status(conn.put(2, 0, bytes(4096), 4096), n.OK, 'a write succeeds again')
        t.eq(admin.identify(0, 2).data[99] & 1, 0, 'NSATTR says so', 'NVM 4.1.5.1')
    run = ctl(tgt, 'audit')
    t.ok('write_protect permanent -> none' in run.stdout, 'the audit names it', why=run.stdout)
    tgt.terminate()
    tgt.wait_exit()
    tgt.start()
    with tgt.host() as host:
        t.status(host.queue().put(2, 0, bytes(4096), 4096), n.OK, 'and so after a restart')
        t.status(host.admin.set_feature(0x84, 0, nsid=2), n.OK, 'the right is kept too')
    ctl(tgt, 'host', 'rights', target.NQN, HOST, 'none')


def words(t, tgt):
    for name, args, text in (
            ('an unknown right', (target.NQN, HOST, 'everything'), 'unknown right "everything"'),
            ('a host that is no NQN', (target.NQN, 'him', 'format'), 'nqn')):
        run = ctl(tgt, 'host', 'rights', *args)
        t.ok(run.returncode != 0 and text in run.stderr, 'host rights: ' + name, why=run.stderr)
    ctl(tgt, 'host', 'rights', target.NQN, HOST, 'label,format')
    ctl(tgt, 'host', 'rights', target.NQN, 'any', 'label')
    run = ctl(tgt, 'host', 'list', target.NQN)
    t.ok('any: label\n' in run.stdout and HOST + ': format,label\n' in run.stdout,
         'host list shows rights', why=run.stdout)
    run = ctl(tgt, 'host', 'rights', target.NQN, HOST, 'label', '--dry-run')
    t.ok('rights' in run.stdout and run.returncode == 0, 'a dry run tells the difference',
         why=run.stdout)


def closed(t):
    """Rights of a host that may not connect are an error; removing a host removes its rights."""
    tgt = target.Target(allow_any_host=False, hosts=[HOST, OTHER], rights={HOST: ['label']})
    try:
        run = ctl(tgt, 'host', 'rights', target.NQN, 'nqn.2026-11.io.weft:third', 'label')
        t.ok(run.returncode == 1 and 'is not among "hosts"' in run.stderr,
             'a right for a host that may not connect', why=run.stderr)
        ctl(tgt, 'host', 'remove', target.NQN, HOST)
        ctl(tgt, 'host', 'add', target.NQN, HOST)
        run = ctl(tgt, 'host', 'list', target.NQN)
        t.ok(HOST in run.stdout and 'rights' not in run.stdout,
             'removed and added again, a host has no rights', why=run.stdout)
    finally:
        tgt.finish(t)


def flags(t):
    """weft serve --rights."""
    with tempfile.TemporaryDirectory(prefix='weft-rights-') as folder:
        for args, code, text in (
                (('--rights', 'any=all'), 0, ''),
                (('--rights', HOST + '=format,label'), 0, ''),
                (('--rights', 'any'), 1, 'must be HOST=RIGHT'),
                (('--rights', 'any=root'), 1, '"root" is not a right')):
            run = subprocess.run([target.weft_path(), 'serve', '--check', '--state', folder, '--ns',
                                  'mem:1M', *args], capture_output=True, text=True, timeout=60)
            t.ok(run.returncode == code and text in run.stderr, 'serve ' + ' '.join(args),
                 why='%d %s' % (run.returncode, run.stderr))


def test(t, tgt):
    for part in (nothing_by_default, given_one_by_one, operator_is_last, words):
        with t.guard(part.__name__):
            part(t, tgt)
    for part in (closed, flags):
        with t.guard(part.__name__):
            part(t)


if __name__ == '__main__':
    with tempfile.TemporaryDirectory(prefix='weft-pool-') as pool:
        target.run(Tap(), test, pool={'folder': pool, 'capacity': '16M'})
