#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
tools/manual compares the manual pages of the sub-commands with the option tables: each page has every option, no
other, and the SYNOPSIS of the tables. Also: tools/manual reports an option that is missing on either side.
"""

import importlib.machinery
import importlib.util
import os
import shutil
import sys
import tempfile

import target
from tap import Tap

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')
PAGES = os.path.join(ROOT, 'docs', 'man')


def tool():
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader('manual', os.path.join(ROOT, 'tools', 'manual'))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader('manual', loader))
    loader.exec_module(module)
    return module


def edit(path, before, after):
    with open(path) as file:
        text = file.read()
    assert before in text, before
    with open(path, 'w') as file:
        file.write(text.replace(before, after))


def pages(t, manual, program):
    found = manual.check_all(program, PAGES, False)
    for command in program.commands:
        page = 'weft-%s.1' % command
        t.eq([what for path, what in found if os.path.basename(path) == page], [], page + ' is what the tables say')
    t.eq([what for path, what in found if os.path.basename(path) == 'weft.1'], [], 'weft.1 lists all commands')


MISTAKES = (
    ('an option that the page lacks', 'perf', '.It Fl -seed Ar n\n', '', '--seed is missing'),
    ('an option that the program lacks', 'copy', '.It Fl -verify\n', '.It Fl -verify\n.It Fl -colour\n',
     'there is no option --colour'),
    ('a letter that the program lacks', 'info', '.It Fl o Ar fmt ,', '.It Fl Z Ar fmt ,', 'there is no option -Z'),
    ('a value that is called otherwise', 'attach', '.It Fl -export Ar name\n', '.It Fl -export Ar text\n',
     '".It Fl -export Ar text" must be ".It Fl -export Ar name"'),
    ('a SYNOPSIS that lacks an option', 'serve', '.Op Fl -pin\n', '', 'the SYNOPSIS differs from the tables'),
    ('a command of ctl that the page lacks', 'ctl', '.It Cm port show Ar id\n', '', 'the command "port show" is missing'),
)


def mistakes(t, manual, program):
    for name, command, before, after, said in MISTAKES:
        with tempfile.TemporaryDirectory(prefix='weft-manual-') as folder:
            copy = shutil.copytree(PAGES, os.path.join(folder, 'man'))
            edit(os.path.join(copy, 'weft-%s.1' % command), before, after)
            t.eq([what for _, what in manual.check_all(program, copy, False)], [said], name + ' is found')
    with tempfile.TemporaryDirectory(prefix='weft-manual-') as folder:
        copy = shutil.copytree(PAGES, os.path.join(folder, 'man'))
        page = os.path.join(copy, 'weft-serve.1')
        edit(page, '.Op Fl -pin\n', '')
        edit(page, '.It Fl -reactors Ar n\n', '.It Fl -reactors Ar count\n')
        manual.check_all(program, copy, True)
        with open(page) as wrote, open(os.path.join(PAGES, 'weft-serve.1')) as right:
            t.eq(wrote.read(), right.read(), '--write puts SYNOPSIS and terms right')
        os.unlink(os.path.join(copy, 'weft-info.1'))
        t.eq([what for _, what in manual.check_all(program, copy, False)], ['there is no manual page of weft info'],
             'a command without a page is found')


def main():
    t = Tap()
    manual = tool()
    program = manual.Program(target.weft_path())
    pages(t, manual, program)
    mistakes(t, manual, program)
    return t.done()


if __name__ == '__main__':
    raise SystemExit(main())
