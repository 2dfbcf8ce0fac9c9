# SPDX-License-Identifier: Apache-2.0
"""
The Nth allocation of the control thread fails while it handles a request of the REST API (alloc_shim.c), for N =
1, 2, ... until none fails. Every request is answered, the target continues, and a change is either in force as a
whole or has left no trace, also in the store.
"""

import copy
import mmap
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'wire'))
import nvmetcp as n  # noqa: E402
import restapi  # noqa: E402
import target  # noqa: E402
from tap import Tap  # noqa: E402

NAMESPACES = '/v1/subsystems/%s/namespaces' % target.NQN
ANA = '/v1/ports/1/ana/1'
# A request, and the request that undoes it.
CHANGES = (
    (('PUT', ANA, {'state': 'inaccessible'}), ('PUT', ANA, {'state': 'optimized'})),
    (('PUT', ANA, {'state': 'change'}), ('PUT', ANA, {'state': 'optimized'})),
    (('POST', NAMESPACES, {'nsid': 9, 'media': 'mem:1M'}), ('DELETE', NAMESPACES + '/9')),
    (('DELETE', NAMESPACES + '/2'), ('POST', NAMESPACES, {'nsid': 2, 'media': 'mem:1M'})),
)
# Each allocation fails in turn: reading and checking a document has allocations that occur once.
DRY_RUNS = (('POST', NAMESPACES + '?dry_run=true', {'nsid': 9, 'media': 'mem:1M'}),
            ('POST', NAMESPACES + '?dry_run=true', {'media': 'mem:1M'}),
            ('PATCH', NAMESPACES + '/2?dry_run=true', {'size': '2M'}),
            ('DELETE', NAMESPACES + '/2?dry_run=true'),
            ('POST', '/v1/ports?dry_run=true', {'address': '127.0.0.1', 'service': '4423'}),
            ('POST', '/v1/subsystems?dry_run=true', {'nqn': 'nqn.2026-11.io.weft:other'}),
            ('PATCH', '/v1/subsystems/%s?dry_run=true' % target.NQN,
             {'allow_any_host': False, 'hosts': ['nqn.2026-11.io.weft:host']}))
REFUSALS = (500, 503, 507)
READS = ('/v1/config', '/v1/ports', NAMESPACES, '/v1/history', '/v1/audit', '/v1/health')
ALLOCATIONS_MAX = 20000
LATE_MS = 400


class Shimmed(target.Target):
    client = None

    def command(self):
        asan = os.environ.get('ASAN_OPTIONS', '') + ':verify_asan_link_order=0'
        return ['env', 'LD_PRELOAD=' + os.environ['WEFT_SHIM'], 'ASAN_OPTIONS=' + asan,
                'WEFT_FAIL_ALLOC=' + self.count_path] + super().command()

    def start(self, *more):
        self.count_path = os.path.join(self.folder, 'fail-alloc')
        with open(self.count_path, 'wb') as file:
            file.write(bytes(4096))
        with open(self.count_path, 'r+b') as file:
            self.count = mmap.mmap(file.fileno(), 4096)
        super().start(*more)

    def fail(self, number):
        """Makes the number-th allocation from now on fail; 0: none."""
        self.count[:4] = struct.pack('=i', number)

    def has_failed(self):
        return struct.unpack('=i', self.count[:4])[0] == 0

    def api(self):
        if self.client is None:
            self.client = restapi.Client(os.path.join(self.folder, 'state', 'weft.sock'))
        return self.client


def meaning(tgt):
    """The document without the identities that a new namespace is given."""
    document = tgt.api().get('/v1/config').json
    for subsystem in document['subsystems']:
        subsystem['namespaces'].sort(key=lambda ns: ns['nsid'])
        for ns in subsystem['namespaces']:
            ns.pop('uuid', None)
            ns.pop('nguid', None)
    return document


def ask_until_none_fails(tgt, request, judge):
    """Sends the request with the Nth allocation failing and calls judge(N, answer). Returns how many failed."""
    for number in range(1, ALLOCATIONS_MAX):
        tgt.fail(number)
        answer = tgt.api().call(*request)
        has_failed = tgt.has_failed()
        tgt.fail(0)
        judge(number, answer)
        if not has_failed:
            return number - 1
    raise RuntimeError('allocations without end')


def change(t, tgt, request, back):
    before, bad, refused = meaning(tgt), [], []
    tgt.api().call(*request)
    after = meaning(tgt)
    tgt.api().call(*back)

    def judge(number, answer):
        now, is_done = meaning(tgt), answer.status // 100 == 2
        if not is_done:
            refused.append(number)
        if not is_done and answer.status not in REFUSALS:
            bad.append((number, answer.status, answer.json))
        # A change in force may be answered with an error only for lack of memory for the answer.
        if now != after and (now != before or is_done):
            bad.append((number, answer.status, 'is half done'))
        if now != before:
            undone = tgt.api().call(*back)
            if undone.status // 100 != 2 or meaning(tgt) != before:
                bad.append((number, undone.status, 'could not be taken back'))

    count = ask_until_none_fails(tgt, request, judge)
    t.eq(bad, [], '%s %s: whichever of %d allocations fails' % (*request[:2], count))
    t.ok(refused, '%d of these failures were told' % len(refused))


def dry_run(t, tgt, request):
    before, bad, refused = meaning(tgt), [], []

    def judge(number, answer):
        if answer.status != 200:
            refused.append(number)
        if answer.status != 200 and answer.status not in REFUSALS:
            bad.append((number, answer.status, answer.json))

    count = ask_until_none_fails(tgt, request, judge)
    t.eq(bad, [], '%s %s: whichever of %d allocations fails' % (*request[:2], count))
    t.ok(refused, '%d of these failures were told' % len(refused))
    t.eq(meaning(tgt), before, 'nothing has changed')


def read(t, tgt, path):
    bad = []

    def judge(number, answer):
        if answer.status != 200 and answer.status not in REFUSALS:
            bad.append((number, answer.status))

    count = ask_until_none_fails(tgt, ('GET', path), judge)
    t.eq(bad, [], 'GET %s: whichever of %d allocations fails' % (path, count))


def after_wait(t, tgt):
    """The allocations after a change has waited for a medium: what it had opened before is undone."""
    path = os.path.join(tgt.folder, 'opened-before')
    before, left, number = tgt.api().get('/v1/config').json, [], 0
    document = copy.deepcopy(before)
    document['subsystems'][0]['namespaces'] += [
        {'nsid': 8, 'media': 'file:%s,size=1M' % path}, {'nsid': 9, 'media': 'fault:late:op=open:ms=%d@mem:1M' % LATE_MS}]
    status = 0
    while status // 100 != 2 and number < ALLOCATIONS_MAX:
        number += 1
        with restapi.Connection(os.path.join(tgt.folder, 'state', 'weft.sock')) as conn:
            conn.send(restapi.request('PUT', '/v1/config', document))
            target.poll(lambda: os.path.exists(path))
            tgt.api().get('/v1/ports')  # answered after the turn in which the change began to wait
            tgt.fail(number)
            status = conn.receive().status
            tgt.fail(0)
        if status // 100 != 2 and os.path.exists(path):
            left.append((number, status))
            break
    t.eq(left, [], 'a change that waited for a medium: whichever of %d allocations fails afterwards' % (number - 1))
    t.ok(number > 1, 'some do')
    t.eq(tgt.api().put('/v1/config', before).status, 200, 'the change is taken back')


def test(t, tgt):
    with t.guard('after_wait'):
        after_wait(t, tgt)
    for request, back in CHANGES:
        with t.guard('%s %s' % request[:2]):
            change(t, tgt, request, back)
    for request in DRY_RUNS:
        with t.guard('%s %s' % request[:2]):
            dry_run(t, tgt, request)
    for path in READS:
        with t.guard('GET ' + path):
            read(t, tgt, path)
    with tgt.host() as host:
        t.status(host.queue().read(1, 0, 1), n.OK, 'then there is I/O')
    kept = meaning(tgt)
    tgt.kill()
    tgt.start()
    t.eq(meaning(tgt), kept, 'a start after a kill finds the same')
    t.eq(tgt.api().violations, [], 'every answer is as docs/openapi.json describes it')


def main():
    tap = Tap()
    tgt = None
    try:
        with tap.guard('the test as a whole'):
            tgt = Shimmed(namespaces=[target.namespace(1, 'mem:1M,block=512'), target.namespace(2, 'mem:1M')])
            tap.scene = tgt.scene
            test(tap, tgt)
    finally:
        if tgt:
            tgt.finish(tap)
    raise SystemExit(tap.done())


main()
