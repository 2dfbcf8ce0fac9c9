# SPDX-License-Identifier: Apache-2.0
"""
The second step of an ANA transition fails (once_shim.c): the group returns to its former state, the caller gets
the reason, the document and what hosts see agree, also after a restart, and the same transition succeeds the next
time. NVMe Base 2.1, section 8.1.1.
"""

import json
import os
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'wire'))
import nvmetcp as n  # noqa: E402
import restapi  # noqa: E402
import target  # noqa: E402
from tap import Tap  # noqa: E402

SPEC = 'Base 8.1.1'
CHANGE, OPTIMIZED, INACCESSIBLE = 15, 1, 3


class Shimmed(target.Target):
    def command(self):
        asan = os.environ.get('ASAN_OPTIONS', '') + ':verify_asan_link_order=0'
        return ['env', 'LD_PRELOAD=' + os.environ['WEFT_SHIM'], 'ASAN_OPTIONS=' + asan,
                'WEFT_FAIL_ONCE=' + self.sign] + super().command()

    @property
    def sign(self):
        return os.path.join(self.folder, 'fail-once')

    def api(self):
        return restapi.Client(os.path.join(self.folder, 'state', 'weft.sock'))


def put(tgt, answers):
    answers.append(tgt.api().put('/v1/ports/1/ana/1', {'state': 'inaccessible'}))


def state(host):
    return bytes(host.admin.get_log(0x0c, 4096).data)[32]


def attempt(t, tgt, host, fails):
    """Moves the group while a Write without its data keeps the first step pending."""
    conn = host.queue(2 if fails else 3)
    owed = conn.rw(n.WRITE, 1, 0, 64, 512, bytes(32768), way='r2t', is_auto=False)
    r2t = conn.wait_r2t(owed)
    answers = []
    caller = threading.Thread(target=put, args=(tgt, answers))
    caller.start()
    t.ok(target.poll(lambda: state(host) == CHANGE), 'the first step is done: change', SPEC)
    if fails:
        with open(tgt.sign, 'w'):
            pass
    conn.answer_r2t(owed, r2t)
    conn.wait(owed)
    t.status(owed, n.OK, 'what was under way ends well', SPEC)
    caller.join()
    return answers[0]


def test(t, tgt):
    with tgt.host() as host:
        document = tgt.api().get('/v1/config').json
        answer = attempt(t, tgt, host, True)
        t.eq((answer.status, os.path.exists(tgt.sign)), (500, False), 'the second step fails', SPEC)
        t.ok('pool' in answer.json['error'], 'and the caller is told why', why=answer.json)
        t.eq(state(host), OPTIMIZED, 'hosts see the state before', SPEC)
        t.status(host.queue().read(1, 0, 1), n.OK, 'and have I/O', SPEC)
        t.eq(tgt.api().get('/v1/config').json, document, 'the document says the same')
        origins = [entry['origin'] for entry in tgt.api().get('/v1/audit?limit=2').json['audit']]
        t.eq(origins, ['an ANA transition that failed', 'rest'], 'the audit has both')
        t.eq(tgt.api().violations, [], 'every answer is as docs/openapi.json describes it')
    tgt.kill()
    tgt.start()
    with tgt.host() as host:
        t.eq(state(host), OPTIMIZED, 'after a kill too', SPEC)
        t.eq(json.dumps(tgt.api().get('/v1/config').json), json.dumps(document), 'and the document')
        t.eq(attempt(t, tgt, host, False).status, 200, 'the next time it works', SPEC)
        t.eq(state(host), INACCESSIBLE, 'to its end', SPEC)


def main():
    tap = Tap()
    tgt = None
    with tempfile.TemporaryDirectory(prefix='weft-revert-') as folder:
        try:
            with tap.guard('the test as a whole'):
                tgt = Shimmed(namespaces=[target.namespace(1, 'mem:1M,block=512')],
                              pool={'folder': folder + '/pool', 'capacity': '1M'})
                test(tap, tgt)
        finally:
            if tgt:
                tgt.finish(tap)
    raise SystemExit(tap.done())


main()
