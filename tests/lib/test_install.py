#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
What `meson install` installs: installs into an empty folder, builds the examples with nothing but the flags of
pkg-config, checks the exported symbols and dependencies of the library, and compiles the header alone as strict C
and as C++.

    test_install.py SOURCE BUILD [SANITIZER]
"""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'wire'))
from tap import Tap  # noqa: E402

STRICT = ['-Wall', '-Wextra', '-pedantic', '-Werror', '-fsyntax-only']
# Allowed dependencies: DESIGN's list for the host library, and the C library.
NEEDED = {'liburing.so.2', 'libisal.so.2', 'libc.so.6', 'libpthread.so.0', 'libcrypto.so.3', 'libssl.so.3',
          'ld-linux-x86-64.so.2', 'ld-linux-aarch64.so.1'}


def run(*argv, **kwargs):
    return subprocess.run(argv, capture_output=True, text=True, timeout=120, **kwargs)


def one(root, *pattern):
    found = glob.glob(os.path.join(root, '**', *pattern), recursive=True)
    return found[0] if found else ''


def library(t, root, source):
    path = one(root, 'libweft.so.0')
    shown = run('nm', '-D', '--defined-only', path).stdout.split('\n')
    shown = {line.split()[-1] for line in shown if ' T ' in line or ' D ' in line or ' B ' in line}
    with open(os.path.join(source, 'include/weft/weft.h')) as file:
        header = file.read()
    declared = set(re.findall(r'\b(weft_\w+)\(', re.sub(r'/\*.*?\*/', '', header, flags=re.S)))
    t.eq(sorted(shown), sorted(name + '@@WEFT_0.1' for name in declared),
         'the library shows what the header declares, under WEFT_0.1, and nothing else')
    dynamic = run('readelf', '-d', path).stdout
    t.ok('[libweft.so.0]' in dynamic, 'its name is libweft.so.0', why=dynamic)
    needed = set(re.findall(r'\(NEEDED\).*\[(.*)\]', dynamic))
    t.ok('SANITIZED' in os.environ or needed <= NEEDED, 'it needs no more than it may',
         why=sorted(needed))
    undefined = run('nm', '-D', '-u', path).stdout
    t.ok('mpath_' not in undefined and 'weft_' not in undefined, 'nothing of ours is missing in it',
         why=undefined)


def header(t, root):
    include = '-I' + os.path.dirname(os.path.dirname(one(root, 'weft', 'weft.h')))
    for compiler, args in (('cc', ['-std=c11', '-x', 'c']), ('cc', ['-std=c99', '-x', 'c']),
                           ('c++', ['-std=c++11', '-x', 'c++']), ('c++', ['-std=c++20', '-x', 'c++'])):
        if not shutil.which(compiler):
            t.skip('the header compiles with %s %s' % (compiler, args[0]), compiler + ' is missing')
            continue
        done = run(compiler, *args, *STRICT, include, '-', input='#include <weft/weft.h>\n')
        t.eq((done.returncode, done.stderr), (0, ''), 'the header compiles with ' + args[0])


def examples(t, root, source, folder):
    pc = one(root, 'pkgconfig', 'weft.pc')
    env = dict(os.environ, PKG_CONFIG_PATH=os.path.dirname(pc), PKG_CONFIG_SYSROOT_DIR=root)
    flags = run('pkg-config', '--cflags', '--libs', 'weft', env=env)
    t.eq(flags.returncode, 0, 'pkg-config knows weft')
    version = run('pkg-config', '--modversion', 'weft', env=env).stdout.strip()
    t.ok(re.fullmatch(r'\d+\.\d+\.\d+', version), 'and its version', why=version)
    env['LD_LIBRARY_PATH'] = os.path.dirname(one(root, 'libweft.so.0'))
    for path in sorted(glob.glob(os.path.join(source, 'examples', '*.c'))):
        name = os.path.basename(path)
        out = os.path.join(folder, name[:-2])
        done = run('cc', path, *flags.stdout.split(), '-o', out, env=env)
        t.eq((done.returncode, done.stderr), (0, ''), '%s is built by pkg-config alone' % name)
        done = run(out, env=env)
        t.ok(done.returncode == 2 and done.stderr.startswith('usage: '), '%s starts' % name,
             why=done.stderr)


def static(t, root, source, folder):
    """The archive exports only weft_* too, and links with the flags of --static."""
    path = one(root, 'libweft.a')
    shown = {line.split()[-1] for line in run('nm', '-g', '--defined-only', path).stdout.split('\n')
             if len(line.split()) == 3}
    t.ok(shown and all(name.startswith('weft_') for name in shown), 'libweft.a shows weft_* alone',
         why=sorted(name for name in shown if not name.startswith('weft_')))
    env = dict(os.environ, PKG_CONFIG_PATH=os.path.dirname(one(root, 'pkgconfig', 'weft.pc')),
               PKG_CONFIG_SYSROOT_DIR=root)
    flags = run('pkg-config', '--static', '--cflags', '--libs', 'weft', env=env).stdout
    out = os.path.join(folder, 'static')
    done = run('cc', os.path.join(source, 'examples', 'read_block.c'),
               *flags.replace('-lweft', path).split(), '-o', out)
    t.eq((done.returncode, done.stderr), (0, ''), 'an example links with libweft.a')
    t.ok('libweft' not in run('readelf', '-d', out).stdout and run(out).returncode == 2,
         'and starts without the shared one')


STAND_IN = '''#!/bin/sh
echo "${0##*/} $*" >> "$CALLS"
[ "${0##*/}" != id ] || echo "$USER_ID"
[ "${0##*/} $1" != "meson introspect" ] || echo '[{"name": "prefix", "value": "/usr/local"}]'
'''


def install_script(t, source, folder):
    """Runs tools/install with stand-ins for the programs it calls; checks which are called and when."""
    tools = os.path.join(folder, 'tools')
    os.mkdir(tools)
    for name in ('meson', 'ninja', 'ldconfig', 'id'):
        with open(os.path.join(tools, name), 'w') as file:
            file.write(STAND_IN)
        os.chmod(file.name, 0o755)

    def calls(*args, user='0'):
        log = os.path.join(folder, 'calls')
        open(log, 'w').close()
        env = dict(os.environ, PATH=tools + ':' + os.environ['PATH'], CALLS=log, USER_ID=user)
        done = run(os.path.join(source, 'tools', 'install'), *args, env=env)
        with open(log) as file:
            return done, file.read()

    done, called = calls('/usr/local')
    t.ok(done.returncode == 0 and 'meson install' in called and 'ldconfig' in called and
         'configure' not in called, 'install: refreshes the linker\'s cache', why=called + done.stderr)
    done, called = calls('/opt/weft', '/tmp/package')
    t.ok('meson configure build -Dprefix=/opt/weft' in called and 'ldconfig' not in called,
         'install: PREFIX is taken; DESTDIR touches nothing else', why=called + done.stderr)
    done, called = calls('/usr/local', user='1000')
    t.ok('ldconfig' not in called and 'not root' in done.stdout, 'install: without root it says what is left to do',
         why=done.stdout)
    done, called = calls('opt')
    t.ok(done.returncode == 1 and 'PREFIX must be an absolute path, not "opt"' in done.stderr,
         'install: a relative PREFIX is refused', why=done.stderr)


def test(t, source, build, sanitizer):
    with tempfile.TemporaryDirectory(prefix='weft-install-') as folder:
        root = os.path.join(folder, 'root')
        done = run('meson', 'install', '-C', build, '--no-rebuild', '--destdir', root)
        t.eq(done.returncode, 0, 'meson install')
        if done.returncode != 0:
            print('# ' + (done.stdout + done.stderr).replace('\n', '\n# '))
            return
        for name in ('libweft.7', 'weft_open.3', 'weft_submit.3', 'weft_poll.3'):
            t.ok(one(root, 'man*', name), name + ' is installed')
        header(t, root)
        install_script(t, source, folder)
        if sanitizer == 'none':
            for path in ('bash-completion/completions/weft', 'zsh/site-functions/_weft',
                         'fish/vendor_completions.d/weft.fish'):
                t.ok(one(root, path), path + ' is installed')
        library(t, root, source)
        if sanitizer != 'none':
            t.skip('examples are built by pkg-config alone', 'the library is built with a sanitizer')
        elif not shutil.which('pkg-config'):
            t.skip('examples are built by pkg-config alone', 'pkg-config is missing')
        else:
            examples(t, root, source, folder)
            static(t, root, source, folder)


if __name__ == '__main__':
    TAP = Tap()
    if sys.argv[3] != 'none':
        os.environ['SANITIZED'] = '1'
    test(TAP, *sys.argv[1:4])
    sys.exit(TAP.done())
