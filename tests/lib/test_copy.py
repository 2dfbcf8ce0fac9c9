#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
`weft copy` against a live target: data is copied unchanged, sparse files stay sparse, a killed copy resumes from
its journal, a lost path does not disturb it. $WEFT names the executable weft.
"""

import os
import pty
import random
import re
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'wire'))
import target  # noqa: E402
from copy_world import MIB, TIMEOUT_S, World, digest, interrupted, journal_bytes  # noqa: E402
from relay import Relay  # noqa: E402
from tap import Tap  # noqa: E402


def blocks_of(path):
    """Allocated bytes of a file."""
    return os.stat(path).st_blocks * 512


def sparse_file(world, size, pieces, seed):
    """A file with some data pieces; the rest is a hole."""
    rng = random.Random(seed)
    path = world.path()
    with open(path, 'wb') as file:
        file.truncate(size)
        for _ in range(pieces):
            file.seek(rng.randrange(0, size - 70000) & ~511)
            file.write(rng.randbytes(rng.randrange(512, 65536)))
    return path


def noise(world, nsid):
    """Fills the namespace, so that unwritten blocks show."""
    path = world.put(b'\xa5' * (16 * MIB))
    assert world.copy('--no-sparse', '--quiet', path, world.url(nsid))[0] == 0
    os.unlink(path)


def round_trips(t, world):
    for nsid, block in ((1, 4096), (2, 512)):
        data = world.put(os.urandom(16 * MIB))
        back = world.path()
        out = world.good(t, 'a file to a namespace of %d byte blocks' % block, data, world.url(nsid), '--verify')
        t.ok(out.startswith('copied 16 MiB in ') and 'verified 16 MiB' in out, 'it says so', why=out)
        world.good(t, 'and back', world.url(nsid), back)
        t.eq(digest(back), digest(data), 'the same')
    other = world.path()
    world.good(t, 'a namespace to one with other blocks', world.url(2), world.url(1), '--verify', '--depth', '3')
    world.good(t, 'which is read', world.url(1), other, '--size', '64k', '--depth', '64')
    t.eq(digest(other), digest(back), 'the same')


def sparse(t, world):
    for seed in range(3):
        noise(world, 1)
        path = sparse_file(world, 16 * MIB, 12, seed)
        back = world.put(b'x' * (20 * MIB))
        out = world.good(t, 'a sparse file', path, world.url(1), '--verify')
        t.ok('of it zeroes' in out, 'its holes are not copied', why=out)
        world.good(t, 'and back over an old file that is longer', world.url(1), back, '--verify')
        t.eq((digest(back), os.path.getsize(back)), (digest(path), 16 * MIB), 'the same')
        t.ok(blocks_of(back) < 4 * MIB, 'and sparse', why='%d bytes' % blocks_of(back))
    noise(world, 1)
    out = world.good(t, '--no-sparse', path, world.url(1), '--no-sparse', '--verify')
    t.ok('zeroes' not in out, '--no-sparse: all is data', why=out)


def ends_within_block(t, world):
    noise(world, 1)
    data = os.urandom(3 * MIB + 1000)
    world.good(t, 'a file that ends within a block', world.put(data), world.url(1), '--verify')
    back = world.path()
    world.good(t, 'read', world.url(1), back)
    with open(back, 'rb') as file:
        got = file.read()
    end = 3 * MIB + 4096
    t.ok(got[:len(data)] == data and got[len(data):end] == bytes(end - len(data)), 'its last block ends with zeroes')
    t.eq(got[end:end + 4096], b'\xa5' * 4096, 'what comes after it is left alone')
    world.good(t, 'an empty file', world.put(b''), world.url(1), '--verify')


def streams(t, world):
    """`-` is standard input and output."""
    for nsid, block in ((1, 4096), (2, 512)):
        noise(world, nsid)
        data = os.urandom(3 * MIB) + bytes(2 * MIB) + os.urandom(1000)
        # In small pieces, so that reads are partial.
        process = world.start('-', world.url(nsid), '--size', '64k', '--depth', '8', '--progress',
                              stdin=subprocess.PIPE, cwd=world.folder)
        for i in range(0, len(data), 70001):
            os.write(process.stdin.fileno(), data[i:i + 70001])
        process.stdin.close()
        process.stdin = None
        out, err = process.communicate()
        t.ok(process.returncode == 0 and 'copied' in out, 'standard input to a namespace', why=out + err)
        result = world.run_bytes(world.url(nsid), '-', cwd=world.folder)
        got, end = result.stdout, -(-len(data) // block) * block
        t.eq((result.returncode, len(got)), (0, 16 * MIB), 'a namespace to standard output')
        t.ok(got[:len(data)] == data and got[len(data):end] == bytes(end - len(data)), 'the same, the last block filled up')
        t.ok(got[end:] == b'\xa5' * (16 * MIB - end), 'what comes after it is left alone')
        t.ok(b'copied 16 MiB' in result.stderr, 'the sum is on standard error', why=repr(result.stderr))
        shell = '"$0" copy "$1" - --quiet --size 128k --depth 5 | "$0" copy - "$2" --quiet'
        code = subprocess.run(['bash', '-o', 'pipefail', '-c', shell, target.weft_path(), world.url(nsid),
                               world.url(3 - nsid)], timeout=TIMEOUT_S).returncode
        t.eq(code, 0, 'one into the other')
        t.ok(world.run_bytes(world.url(3 - nsid), '-').stdout == got, 'the same')
    t.ok(not os.path.exists(os.path.join(world.folder, '-')), 'no file is made that is named -')
    with open(os.path.join(world.folder, '-'), 'wb') as file:
        file.write(b'x' * 4096)
    code = subprocess.run([target.weft_path(), 'copy', './-', world.url(1)], cwd=world.folder,
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL).returncode
    t.ok(code == 0 and world.run_bytes(world.url(1), '-').stdout[:4096] == b'x' * 4096, './- is a file')
    code = subprocess.run([target.weft_path(), 'copy', '-', world.url(1)], cwd=world.folder,
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL).returncode
    t.eq(code, 0, 'an empty standard input')


def streams_that_fail(t, world):
    noise(world, 1)
    for name, length, block in (('by a byte', 16 * MIB + 1, 16 * MIB), ('by much', 20 * MIB, 16 * MIB)):
        result = world.run_bytes('-', world.url(1), input=b'y' * length)
        t.ok(result.returncode == 1 and b'is longer than' in result.stderr and b'16777216 bytes' in result.stderr,
             'an input that is too long, ' + name, why=repr(result.stderr))
        t.ok(world.run_bytes(world.url(1), '-').stdout == b'y' * block, 'what fits is written, as it says')
    process = world.start(world.url(1), '-')
    process.stdout.read(1)
    process.stdout.close()
    process.stdout = None
    err = process.communicate()[1]
    t.ok(process.returncode == 1 and 'closed it after' in err, 'a reader that goes away', why=err)
    for args in ((world.url(1), '-'), ('-', world.url(1))):
        # Without a reader or writer at the pipe: a signal still ends the copy.
        with open(os.path.join(world.folder, 'err'), 'w+') as err:
            ours, theirs = os.pipe()
            process = subprocess.Popen([target.weft_path(), 'copy', *args], stderr=err,
                                       **({'stdout': theirs} if args[1] == '-' else {'stdin': ours}))
            target.poll(lambda: len(os.listdir('/proc/%d/task' % process.pid)) > 8 or process.poll() is not None, 60)
            process.send_signal(signal.SIGTERM)
            t.eq(process.wait(60), 1, 'SIGTERM while a stream stands still')
            os.close(ours)
            os.close(theirs)
            err.seek(0)
            t.ok('interrupted' in err.read(), 'it says so')
    world.bad(t, '--verify of a stream', '--verify cannot', '-', world.url(1), '--verify', code=2)
    world.bad(t, '--verify to a stream', '--verify cannot', world.url(1), '-', '--verify', code=2)
    world.bad(t, '--resume of a stream', '--resume cannot', '-', world.url(1), '--resume', world.path(), code=2)
    world.bad(t, 'a journal named -', '--resume must be a file', world.path(), world.url(1), '--resume', '-', code=2)
    world.bad(t, 'a stream to a stream', 'neither', '-', '-', code=2)
    near, far = pty.openpty()
    process = subprocess.run([target.weft_path(), 'copy', world.url(1), '-'], stdout=far, stderr=subprocess.PIPE)
    t.ok(process.returncode == 1 and b'is a terminal' in process.stderr, 'a terminal gets no data',
         why=repr(process.stderr))
    os.close(near)
    os.close(far)


def resumes(t, world):
    for number, to_file in ((signal.SIGKILL, False), (signal.SIGKILL, True), (signal.SIGINT, False)):
        name = '%s, to a %s' % (signal.Signals(number).name, 'file' if to_file else 'namespace')
        data = world.put(os.urandom(16 * MIB))
        noise(world, 1)
        ends = (data, world.url(1))
        if to_file:
            world.good(t, name + ': prepared', data, world.url(2))
            ends = (world.url(2), world.path())
        journal = world.path()
        code, out, err = interrupted(world, number, *ends, journal=journal)
        done = journal_bytes(journal)
        t.ok(code != 0 and 0 < done < 16 * MIB, name + ': ended in the middle', why='%d, at %d\n%s' % (code, done, err))
        if number == signal.SIGINT:
            t.ok('the same command continues' in err, name + ': it says how to go on', why=err)
        code, out, err = world.copy(*ends, '--resume', journal)
        t.ok(code == 0 and 'continues at' in err, name + ': it goes on', why=out + err)
        t.ok(not os.path.exists(journal), name + ': the journal is gone')
        back = ends[1]
        if not to_file:
            back = world.path()
            world.good(t, name + ': read', world.url(1), back)
        with open(back, 'rb') as file, open(data, 'rb') as original:
            got, want = file.read(), original.read()
        t.ok(got == want, name + ': the copy is whole')
        # What the journal has as done is compared, and not copied again.
        sizes = dict(re.findall(r'^(compared|copied) ([0-9.]+) MiB', out, re.M))
        t.ok(abs(float(sizes.get('compared', 0)) - done / MIB) < 0.1 and abs(float(sizes.get('copied', 0)) - (16 - done / MIB)) < 0.1,
             name + ': only the rest was copied', why='%d done\n%s' % (done, out))


def journal_refusals(t, world):
    data = world.put(os.urandom(16 * MIB))
    journal = world.path()
    interrupted(world, signal.SIGKILL, data, world.url(1), journal=journal)
    world.bad(t, 'the journal of another copy', 'journal of another copy', data, world.url(2), '--resume', journal)
    os.utime(data)
    world.bad(t, 'a source that has changed', 'one end has changed', data, world.url(1), '--resume', journal)
    for text in ('', 'weft-copy 1\n', 'hello\ndone 5\n', 'weft-copy 1\ndone -5\n', 'weft-copy 1\ndone 5', 'x' * 10000):
        junk = world.put(text.encode())
        code, _, err = world.copy(data, world.url(1), '--resume', junk)
        t.ok(code == 1 and 'journal' in err, 'a journal that is none: %r' % text[:20], why=err)
    world.bad(t, 'a journal that cannot be written', 'cannot write the journal', data, world.url(1), '--resume',
              '/nonexistent/journal')


def fails_over(t, world):
    relay = Relay(world.tgt.port)
    data = world.put(os.urandom(16 * MIB))
    journal = world.path()
    process = world.start(data, world.url(1, relay.port, world.tgt.port), '--policy', 'round-robin', '--rate', '8M',
                          '--size', '64k', '--verify', '--resume', journal)
    t.ok(target.poll(lambda: journal_bytes(journal) > 0, 60), 'a copy over two paths is under way')
    relay.cut()
    out, err = process.communicate()
    t.ok(process.returncode == 0 and 'verified 16 MiB' in out, 'one is cut: it is copied and verified', why=out + err)
    t.ok('127.0.0.1:%d' % relay.port in err, 'the lost path is told of', why=err)


def differs(t, world):
    """--verify detects a medium that loses writes."""
    data = world.put(os.urandom(MIB))
    world.bad(t, '--verify finds what was lost', 'differs from', data, world.url(6), '--verify')
    world.bad(t, 'a write that fails', 'writing nvme://', data, world.url(4))
    world.bad(t, 'a read that fails', 'reading nvme://', world.url(5), world.path())


def shows(t, world):
    data = world.put(os.urandom(4 * MIB))
    _, _, err = world.copy(data, world.url(1), '--progress', '--rate', '2M', '--size', '128k')
    t.ok(re.search(r'^ *\d+ % copied: .* of 4 MiB, .*/s, \d+ s left$', err, re.M), '--progress: lines', why=err)
    _, out, err = world.copy(data, world.url(1), '--quiet')
    t.eq((out, err), ('', ''), '--quiet: nothing')

    def copy_s():
        _, out, _ = world.copy(data, world.url(1), '--rate', '4M', '--size', '128k')
        return float(re.search(r' in ([0-9.]+) s', out).group(1))
    times = target.least(copy_s, 10, 3)
    t.ok(0.8 <= min(times) <= 10, '--rate is kept', why=times)
    near, far = pty.openpty()
    process = subprocess.Popen([target.weft_path(), 'copy', data, world.url(1), '--rate', '4M', '--size', '128k'],
                               stdout=subprocess.PIPE, stderr=far)
    os.close(far)
    process.communicate()
    shown = os.read(near, 65536).decode()
    os.close(near)
    t.ok(re.search(r'\r *\d+ % copied: ', shown), 'a terminal: one line that is written over', why=repr(shown))


def refusals(t, world):
    data = world.put(os.urandom(16 * MIB + 4096))
    url = world.url(1)
    world.bad(t, 'a destination that is too small', 'make it larger by 4096', data, url)
    world.bad(t, 'a namespace that is too small', 'is too small', world.url(1), world.url(3))
    world.bad(t, 'a read-only namespace', 'is read-only', world.put(bytes(4096)), world.url(7))
    world.bad(t, 'no such file', 'No such file', '/nonexistent', url)
    world.bad(t, 'a folder', 'Is a directory', url, world.folder)
    world.bad(t, 'something else', 'neither a file nor a block device', '/dev/null', url)
    world.bad(t, 'no such namespace', 'no namespace 99', data, world.url(99))
    world.bad(t, 'nobody listens', 'refused', data, world.url(1, target.free_port()))
    world.bad(t, 'no such subsystem', 'nqn.2026-11.io.weft:other', data,
              'nvme://127.0.0.1:%d/nqn.2026-11.io.weft:other/1' % world.tgt.port)
    for name, words, args in (
            ('one end', 'FROM and TO are required', [url]),
            ('two files', 'is a namespace', ['a', 'b']),
            ('a wrong option', '--help', ['--frobnicate', 'a', url]),
            ('a wrong size', '--size must be', ['--size', '1000', 'a', url]),
            ('a wrong depth', '--depth must be', ['--depth', '0', 'a', url]),
            ('a wrong rate', '--rate must be', ['--rate', 'fast', 'a', url])):
        world.bad(t, name, words, *args, code=2)
    for bad in ('nvme://', 'nvme://127.0.0.1', 'nvme://127.0.0.1/nqn', 'nvme://127.0.0.1//1', 'nvme:///nqn/1',
                'nvme://127.0.0.1,/nqn/1', 'nvme://127.0.0.1:/nqn/1', 'nvme://[::1/nqn/1', 'nvme://127.0.0.1/nqn/0',
                'nvme://127.0.0.1/nqn/x', 'nvme://127.0.0.1/nqn/4294967295'):
        got, _, err = world.copy(data, bad)
        t.ok(got == 1 and 'weft copy: ' in err, 'a wrong URL: ' + bad, why=err)
    code, out, _ = world.copy('--help')
    t.ok(code == 0 and 'nvme://ADDR[:PORT]' in out, '--help', why=out)


def test(t, tgt):
    with tempfile.TemporaryDirectory(prefix='weft-copy-') as folder:
        world = World(tgt, folder)
        for part in (round_trips, sparse, ends_within_block, streams, streams_that_fail, resumes, journal_refusals,
                     fails_over, differs, shows, refusals):
            with t.guard(part.__name__):
                part(t, world)


if __name__ == '__main__':
    target.run(Tap(), test, namespaces=[
        target.namespace(1, 'mem:16M,block=4096'),
        target.namespace(2, 'mem:16M,block=512'),
        target.namespace(3, 'mem:1M,block=4096'),
        target.namespace(4, 'fault:fail:op=write:errno=ENOSPC@mem:1M,block=4096'),
        target.namespace(5, 'fault:fail:op=read@mem:1M,block=4096'),
        target.namespace(6, 'fault:lose:op=write@mem:1M,block=4096'),
        target.namespace(7, 'mem:1M,block=4096', read_only=True),
    ])
