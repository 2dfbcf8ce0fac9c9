#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Another program truncates a file while the target serves it: reads of lost blocks fail, all writes are refused (a
write beyond the new end would hide the loss), health reports the loss until the file is restored, and blocks that
are certainly intact can be read. NUSE reports the used blocks of a sparse file. NVMe Base 2.1, section 4.2.3.4;
NVM Command Set 1.1, section 4.1.5.1.
"""

import os
import struct
import tempfile

import nvmetcp as n
import restapi
import target
from tap import Tap

CUT, SPARSE, MEM = 1, 2, 3
SIZE, LEFT = 16 << 20, 1 << 20
BLOCK = 4096
SPEC = 'NVM 3.3.6'


def api_of(tgt):
    return restapi.Client(os.path.join(tgt.folder, 'state', 'weft.sock'))


def cut(t, tgt):
    api = api_of(tgt)
    path = os.path.join(tgt.media, 'cut')
    data = n.pattern(BLOCK, 4)
    with tgt.host() as host:
        conn = host.queue()
        for lba in (0, 2048, 4000):
            conn.put(CUT, lba, data, BLOCK)
        conn.do(n.FLUSH, CUT)
        t.eq(api.get('/v1/health').status, 200, 'healthy')
        os.truncate(path, LEFT)
        t.status(conn.put(CUT, SIZE // BLOCK - 1, data, BLOCK), n.WRITE_FAULT,
                 'a write of the last block, which would hide it', SPEC)
        t.eq(os.path.getsize(path), LEFT, 'did not make the file longer')
        t.status(conn.put(CUT, 2049, data, BLOCK), n.WRITE_FAULT, 'a write behind the end', SPEC)
        t.status(conn.put(CUT, 0, data, BLOCK), n.WRITE_FAULT, 'and one before it', SPEC)
        t.status(conn.do(n.FLUSH, CUT), n.WRITE_FAULT, 'Flush does not say that all is well',
                 'Base 7.2')
        t.status(conn.read(CUT, 2048, 1, BLOCK), n.UNRECOVERED_READ, 'what is lost', 'NVM 3.3.4')
        t.eq(bytes(conn.read(CUT, 0, 1, BLOCK).data), data, 'what is left', 'NVM 3.3.4')
        t.eq(os.path.getsize(path), LEFT, 'nothing made the file longer')
        answer = api.get('/v1/health')
        texts = [problem['text'] for problem in answer.json['problems']]
        t.ok(answer.status == 503 and any('truncated from %d to %d bytes' % (SIZE, LEFT) in text
                                          for text in texts), 'health says so', why=texts)
        api.post('/v1/health/acknowledge', None)
        t.eq((api.get('/v1/health').status, len(api.get('/v1/health').json['problems'])), (503, 1),
             'acknowledged are the errors, not the loss')
        sub = '/v1/subsystems/' + target.NQN + '/namespaces/%d' % CUT
        t.eq(api.patch(sub, {'size': '32M'}).status, 400, 'it cannot be resized over the loss')
        t.eq(os.path.getsize(path), LEFT, 'nor did that make it longer')

        os.truncate(path, SIZE)
        t.status(conn.put(CUT, 0, data, BLOCK), n.WRITE_FAULT, 'a file of the old size is not '
                 'taken for a good one by itself', SPEC)
        t.eq(api.put('/v1/config', api.get('/v1/config').json).status, 200,
             'the same document again')
        t.status(conn.put(CUT, 4000, data, BLOCK), n.OK, 'then it is', SPEC)
        t.eq(api.get('/v1/health').status, 503, 'errors since then are new ones')
        t.ok(api.post('/v1/health/acknowledge', None).json['acknowledged'] > 0, 'acknowledge them')
        t.eq(api.get('/v1/health').json, {'ok': True, 'problems': []}, 'healthy again')
        t.eq(api.violations, [], 'every answer is as docs/openapi.json describes it')


def cut_while_idle(t, tgt):
    """The first write after the truncation is refused, at any LBA."""
    path = os.path.join(tgt.media, 'cut')
    with tgt.host() as host:
        conn = host.queue()
        conn.put(CUT, 0, bytes(BLOCK), BLOCK)
        os.truncate(path, LEFT)

        def refused():
            return conn.put(CUT, 3000, bytes(BLOCK), BLOCK).status == n.WRITE_FAULT
        t.ok(target.poll(refused, 5), 'writes in the middle are refused soon', SPEC)
        t.status(conn.read(CUT, 2048, 1, BLOCK), n.UNRECOVERED_READ,
                 'what lies between is not told as zeroes', 'NVM 3.3.4')


def rechecked(t, tgt):
    """
    The file is still truncated from the part before: `weft ctl namespace recheck` accepts it only when restored.
    """
    api = api_of(tgt)
    path = os.path.join(tgt.media, 'cut')
    sub = '/v1/subsystems/' + target.NQN + '/namespaces/%d' % CUT
    spec = 'weft-ctl(1), namespace recheck'
    t.ok(os.path.getsize(path) < SIZE, 'the file is still cut')
    t.ok(api.patch(sub, {'recheck': True}).status in (400, 409), 'a file that is still cut is not taken', spec)
    t.eq(api.get('/v1/health').status, 503, 'and health stays red')
    with tgt.host() as host:
        conn = host.queue()
        os.truncate(path, SIZE)
        t.status(conn.put(CUT, 0, bytes(BLOCK), BLOCK), n.WRITE_FAULT, 'restored: nothing is written unasked', SPEC)
        answer = api.patch(sub, {'recheck': True})
        t.ok(answer.status == 200, 'restored: recheck takes it', spec, why=answer.json)
        t.status(conn.put(CUT, 4000, n.pattern(BLOCK, 5), BLOCK), n.OK, 'it is written to', SPEC)
        t.eq(bytes(conn.read(CUT, 4000, 1, BLOCK).data), n.pattern(BLOCK, 5), 'and read', 'NVM 3.3.4')
    api.post('/v1/health/acknowledge', None)
    t.eq(api.get('/v1/health').json, {'ok': True, 'problems': []}, 'health is green')
    t.eq(api.patch(sub, {'recheck': True}).status, 409, 'recheck of one that is well is refused', spec)


def used(host, nsid):
    page = bytes(host.admin.identify(0, nsid).data)
    return struct.unpack_from('<QQQ', page)


def utilization(t, tgt):
    spec = 'NVM 4.1.5.1'
    api = api_of(tgt)
    path = '/v1/subsystems/' + target.NQN + '/namespaces/%d' % SPARSE
    with tgt.host() as host:
        conn = host.queue()
        size, capacity, before = used(host, SPARSE)
        t.eq((size, capacity, before), (SIZE // BLOCK, SIZE // BLOCK, 0), 'NUSE of a new file', spec)
        for i in range(64):
            conn.put(SPARSE, i * 8, n.pattern(8 * BLOCK, i), BLOCK)
        conn.do(n.FLUSH, SPARSE)
        t.ok(target.poll(lambda: used(host, SPARSE)[2] >= 512), 'NUSE follows what is written', spec)
        size, capacity, after = used(host, SPARSE)
        t.ok(512 <= after < 1024 <= capacity == size, 'by as much, and it stays below NCAP', spec,
             why=str(used(host, SPARSE)))
        t.ok(api.get(path).json['live']['used_bytes'] >= 512 * BLOCK, 'the API tells it too')
        entry = struct.pack('<IIQ', 0, 512, 0)
        t.status(conn.do(n.DSM, SPARSE, data=entry, cdw10=0, cdw11=4), n.OK, 'deallocate',
                 'NVM 3.3.3')
        t.ok(target.poll(lambda: used(host, SPARSE)[2] < 512), 'NUSE follows that', spec)
        size, capacity, all_of_it = used(host, MEM)
        t.eq(all_of_it, capacity, 'of memory it is NCAP', spec)
        page = bytes(host.admin.identify(0, SPARSE).data)
        t.eq((page[24] & 1, struct.unpack_from('<H', page, 46)[0]), (0, 0),
             'THINP is clear, for NCAP is NSZE; a file has no boundary (NOIOB)', spec)
        t.eq((page[24] >> 4 & 1, struct.unpack_from('<5H', page, 64)), (1, (0, 0, 0, 0, 0)),
             'OPTPERF: blocks as the file system has them', spec)


def test(t, tgt):
    for part in (utilization, cut, cut_while_idle, rechecked):
        with t.guard(part.__name__):
            part(t, tgt)


def main():
    with tempfile.TemporaryDirectory(prefix='weft-shrunk-') as folder:
        def run(t, tgt):
            tgt.media = folder
            test(t, tgt)
        target.run(Tap(), run, namespaces=[
            target.namespace(CUT, 'file:%s/cut,size=16M' % folder),
            target.namespace(SPARSE, 'file:%s/sparse,size=16M' % folder),
            target.namespace(MEM, 'mem:16M')])


main()
