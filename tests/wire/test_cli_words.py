#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
The command line without a target: help of every command, asked for in both ways, suggestions for misspelled
words, values of options, completions of three shells made from the option tables, and the message when a
seccomp profile refuses io_uring.
"""

import ctypes
import re
import shutil
import struct
import subprocess
import tempfile

import target
from tap import Tap

COMMANDS = ('serve', 'ctl', 'perf', 'discover', 'identify', 'list-subsys', 'explain-timeouts',
            'attach', 'copy', 'info', 'completion')
# Accepted without effect: discovery has no I/O queues.
NOT_IN_HELP = {'discover': {'nr-io-queues', 'queues', 'queue-size'}}
WIDTH = 80


def weft(*args, **more):
    return subprocess.run([target.weft_path(), *args], capture_output=True, text=True, timeout=60, **more)


def help_pages(t):
    listed = weft('--help').stdout
    for command in COMMANDS:
        asked, told = weft(command, '--help'), weft('help', command)
        t.eq((told.returncode, told.stdout), (0, asked.stdout), 'weft help %s is weft %s --help' % (command, command))
        t.ok(asked.stdout.startswith('Usage: weft %s' % command), '%s: help begins with its usage' % command,
             why=asked.stdout[:80])
        t.ok('\n  %s ' % command in listed, '%s: listed by weft --help' % command)
    t.eq(weft('help').stdout, listed, 'weft help is weft --help')
    t.eq(weft('help', 'ctl', 'ana').stdout, weft('ctl', 'ana', '--help').stdout, 'weft help ctl ana')
    t.ok('optimized, non-optimized, inaccessible, persistent-loss or change' in
         ' '.join(weft('help', 'ctl', 'ana').stdout.split()), 'ctl ana: the states are listed')
    fields = weft('help', 'ctl', 'port').stdout + weft('help', 'ctl', 'namespace').stdout
    t.ok('--zero-copy off|auto|on' in fields and
         '--write-protect none|protected|until-power-cycle|permanent' in fields,
         'ctl: fields with a fixed set of values list them')


SUGGESTIONS = (
    (('srve',), 'unknown command "srve"; did you mean serve?'),
    (('lst-subsys',), 'unknown command "lst-subsys"; did you mean list-subsys?'),
    (('help', 'pref'), 'unknown command "pref"; did you mean perf?'),
    (('perf', '--detph', '3'), 'unknown option "--detph"; did you mean --depth?'),
    (('serve', '--alow-host=x'), 'unknown option "--alow-host"; did you mean --allow-host?'),
    (('ctl', 'naemspace', 'list'), 'unknown command "naemspace"; did you mean namespace?'),
    (('ctl', 'ns', 'ad'), 'did you mean add?'),
    (('ctl', 'namespace'), '"namespace" needs a second word: list, show, add'),
    (('perf', '--rw', 'randred'), 'is not one of read, write, randread, randwrite, rw, randrw; did you mean randread?'),
    (('perf', '--policy', 'x'), '--policy: "x" is not one of numa, round-robin, queue-depth, latency'),
    (('discover', '-o', 'jsn'), '--output-format: "jsn" is not one of normal, json; did you mean json?'),
    (('serve', '--log-level', 'warning'), '--log-level: "warning" is not one of error, warn, info, debug'),
    (('explain-timeouts', 'datbase'), 'did you mean database?'),
    (('completion', 'bsh'), 'unknown shell "bsh" (bash, zsh, fish); did you mean bash?'),
    (('perf', '--depth'), '--depth needs a value'),
    (('perf', '--json=3'), '--json takes no value'),
    (('perf', '-Z'), 'unknown option "-Z"'),
)


def suggestions(t):
    for words, said in SUGGESTIONS:
        done = weft(*words)
        t.ok(done.returncode == 2 and said in done.stderr, 'weft ' + ' '.join(words), why=done.stderr)
    done = weft('xyzzy')
    t.ok(done.returncode == 2 and 'did you mean' not in done.stderr and 'serve' in done.stderr,
         'nothing near: no suggestion, the list instead', why=done.stderr)


def bash_answers(*words):
    """bash's completions for the last of these words."""
    script = 'eval "$(%s completion bash)"; COMP_WORDS=("$@"); COMP_CWORD=$(($#-1)); _weft; printf "%%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(['bash', '-c', script % target.weft_path(), '-', *words], capture_output=True, text=True,
                          timeout=60)
    return done.stdout.split(), done.stderr


def completions(t):
    t.eq(bash_answers('weft', 'id'), (['identify'], ''), 'bash: commands')
    t.eq(bash_answers('weft', 'help', 'cop'), (['copy'], ''), 'bash: commands behind help')
    t.eq(bash_answers('weft', 'perf', '--rwm'), (['--rwmixread'], ''), 'bash: options')
    t.eq(bash_answers('weft', 'perf', '--rw', 'randr'), (['randread', 'randrw'], ''), 'bash: values')
    t.eq(bash_answers('weft', 'attach', '-p', 'r'), (['round-robin'], ''), 'bash: values of a letter')
    t.eq(bash_answers('weft', 'ctl', 'port', 'set', '--discovery', ''), (['yes', 'no'], ''), 'bash: values of this command')
    t.eq(bash_answers('weft', 'explain-timeouts', 'tr'), (['training'], ''), 'bash: the first word')
    t.eq(bash_answers('weft', 'ctl', 'name'), (['namespace'], ''), 'bash: nouns of ctl')
    t.eq(bash_answers('weft', 'ctl', 'namespace', 're'), (['resize', 'recheck', 'recreate', 'remove'], ''), 'bash: verbs of ctl')
    t.eq(bash_answers('weft', 'ctl', 'namespace', 'add', '--med'), (['--media'], ''), 'bash: fields of ctl')
    for shell in ('zsh', 'fish'):
        script = weft('completion', shell).stdout
        if not shutil.which(shell):
            t.skip(shell + ' takes its completions', shell + ' is not installed (tools/setup test)')
            continue
        done = subprocess.run([shell, '-n', '/dev/stdin'], input=script, capture_output=True, text=True, timeout=60)
        t.eq((done.returncode, done.stderr), (0, ''), shell + ' takes its completions')
    if shutil.which('fish'):
        done = subprocess.run(['fish', '--no-config', '-c', '%s completion fish | source; complete -C "weft perf --rw randr"' %
                               target.weft_path()], capture_output=True, text=True, timeout=60)
        t.eq(sorted(done.stdout.split()), ['randread', 'randrw'], 'fish: values')


def options_agree(t):
    """The help explains every option of the tables and no other."""
    bash = weft('completion', 'bash').stdout
    for command in COMMANDS:
        table = set(re.search(r"^\t\t%s\) words='([^']*)'" % command, bash, re.M).group(1).replace('--', '').split())
        shown = set(re.findall(r'--([a-z][a-z-]*)', weft(command, '--help').stdout))
        if command == 'ctl':
            for noun in ('subsystem', 'namespace', 'port', 'host', 'health'):
                shown |= set(re.findall(r'--([a-z][a-z-]*)', weft('help', 'ctl', noun).stdout))
        if command != 'completion':
            t.eq(sorted(table - shown - NOT_IN_HELP.get(command, set())), [], '%s: every option is explained' % command)


def help_fits(t):
    """Descriptions of options are wrapped to the width of a terminal."""
    for command in COMMANDS:
        options = [line for line in weft(command, '--help').stdout.splitlines()
                   if line.startswith(('  -', '      --', ' ' * 28))]
        t.eq([line for line in options if len(line) > WIDTH or line != line.rstrip()], [],
             '%s: its options fit %d columns' % (command, WIDTH))


class Filter(ctypes.Structure):
    _fields_ = [('len', ctypes.c_ushort), ('filter', ctypes.c_void_p)]


def refuse_io_uring(error):
    """For preexec_fn: makes io_uring_setup fail with this error, as container runtimes do."""
    code = b''.join(struct.pack('HBBI', *row) for row in (
        (0x20, 0, 0, 0),                # load the number of the system call
        (0x15, 0, 1, 425),              # io_uring_setup?
        (0x06, 0, 0, 0x00050000 | error),  # yes: fail
        (0x06, 0, 0, 0x7fff0000)))      # no: allow
    held = ctypes.create_string_buffer(code, len(code))
    prog = Filter(4, ctypes.cast(held, ctypes.c_void_p).value)
    libc = ctypes.CDLL(None, use_errno=True)

    def install():
        if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, ctypes.byref(prog), 0, 0) != 0:
            raise OSError(ctypes.get_errno(), 'no seccomp')
    return install


def io_uring_refused(t):
    for args in (('info',), ('serve', '--ns', 'mem:1M', '--listen', '127.0.0.1:0', '--discovery', 'none',
                             '--api-socket', 'none', '--run-for', '1s'),
                 ('perf', '--time', '1s'), ('discover',), ('list-subsys',),
                 ('copy', 'nvme://127.0.0.1:1/nqn.x:y/1', '/dev/null')):
        with tempfile.TemporaryDirectory(prefix='weft-wire-') as folder:
            extra = ('--state', folder) if args[0] == 'serve' else ()
            done = weft(*args, *extra, preexec_fn=refuse_io_uring(1))
        t.ok(done.returncode == 1 and 'a seccomp profile refuses io_uring' in done.stdout + done.stderr and
             'io_uring_setup' in done.stdout + done.stderr,
             'weft %s behind a seccomp profile: names it and the remedy' % args[0], why=done.stdout + done.stderr)


def main():
    t = Tap()
    help_pages(t)
    suggestions(t)
    completions(t)
    options_agree(t)
    help_fits(t)
    io_uring_refused(t)
    return t.done()


if __name__ == '__main__':
    raise SystemExit(main())
