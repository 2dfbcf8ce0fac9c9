#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
tools/spine compares what it counted with its own numbers and with the tables of docs/ARCHITECTURE.md. These tests
trace nothing: the counts are those that the tool knows, or changed ones.
"""

import importlib.machinery
import importlib.util
import os
import sys

from tap import Tap

sys.dont_write_bytecode = True  # of tools/spine, which has no place for it
ROOT = sys.argv[1]
READS = (('compiled', 'memory'), ('compiled', 'file'), ('written', 'memory'), ('written', 'file'))


def load():
    loader = importlib.machinery.SourceFileLoader('spine', os.path.join(ROOT, 'tools', 'spine'))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader('spine', loader))
    loader.exec_module(module)
    return module


spine = load()
with open(os.path.join(ROOT, spine.DOCUMENT), encoding='utf-8') as file:
    TEXT = file.read()


def counted(read, **more):
    """What the tool expects of `read`, plus `more` for the columns that it names with _ for spaces."""
    numbers = dict(zip(spine.COLUMNS[read[0]], spine.COUNTED[read]))
    for column, by in more.items():
        numbers[column.replace('_', ' ')] += by
    return numbers


def differences(read, text, **more):
    return spine.differences(*read, counted(read, **more), text)


def document(t):
    t.eq(tuple(spine.COUNTED), READS, 'both media are counted in both ways')
    for counted_as in ('compiled', 'written'):
        rows = {medium: counted((counted_as, medium)) for medium in ('memory', 'file')}
        t.ok(spine.table(counted_as, rows) in TEXT, 'the document has the table as %s' % counted_as,
             why=spine.table(counted_as, rows))
    t.eq(set(spine.documented(TEXT)), set(READS), 'no other table of the document is read')
    for read in READS:
        t.eq(differences(read, TEXT), [], '%s: no difference' % spine.row_name(*read))


def every_number(t):
    """Each number of the tables is changed in turn."""
    lines, seen = TEXT.split('\n'), 0
    at = [i for i, line in enumerate(lines) if line.startswith(('| memory |', '| file |'))]
    t.eq(len(at), len(READS), 'four rows')
    for read, i in zip(READS, at):
        cells = lines[i].split(' | ')
        for k, column in enumerate(spine.COLUMNS[read[0]], 1):
            slack = spine.SLACK.get(column, 0)
            digits = cells[k].rstrip(' |')
            for by, wants_fault in ((slack, False), (slack + 1, True)):
                value = int(digits) + by
                row = ' | '.join(cells[:k] + [cells[k].replace(digits, str(value))] + cells[k + 1:])
                got = differences(read, '\n'.join(lines[:i] + [row] + lines[i + 1:]))
                want = ['%s: %s: %s: %d, counted %s' % (spine.DOCUMENT, spine.row_name(*read), column, value, digits)]
                seen += got == (want if wants_fault else [])
    t.eq(seen, 2 * sum(len(spine.COLUMNS[read[0]]) for read in READS),
         'a changed number is named; a difference within the slack passes')


def missing(t):
    read = ('written', 'file')
    row = TEXT.rindex('| file |')
    without = TEXT[:row] + TEXT[TEXT.index('\n', row) + 1:]
    got = differences(read, without)
    t.eq((len(got), got[0]), (6, 'docs/ARCHITECTURE.md: file, as written: functions: missing, counted %d'
                              % counted(read)['functions']), 'a row that is missing is a difference')
    t.eq(len(differences(read, TEXT.replace('| files |', '| sources |'))), 1, 'so is a column')


def grown(t):
    for read in READS:
        t.eq(spine.growth(*read, counted(read, functions=2, files=1)), [], '%s: slack' % spine.row_name(*read))
        got = spine.growth(*read, counted(read, functions=3, files=2))
        t.eq([line.split(': ')[1] for line in got], ['functions', 'files'], '%s: growth' % spine.row_name(*read))
    read = ('compiled', 'memory')
    for column in spine.CROSSINGS:
        got = spine.growth(*read, counted(read, **{column.replace(' ', '_'): 1}))
        t.eq([line.split(': ')[1] for line in got], [column], 'one more call %s is growth' % column)
    t.eq(spine.growth(*read, counted(read, functions=-5)), [], 'fewer functions are no growth')
    t.eq(len(differences(read, TEXT, functions=-5)), 1, 'but the document must follow')


def count(t):
    """What a path through the layers counts."""
    recv, body, send = ('recv', 'reactor/r.c'), ('body', 'tcp/rx.c'), ('send', 'tcp/rx.c')
    take, copy, read = ('take', 'target/t.c'), ('copy', 'base/b.c'), ('read', 'media/m.c')
    way = [(body, recv), (take, body), (copy, take), (read, take), (take, read), (send, take)]
    functions, numbers = spine.count(way)
    t.eq(functions, [body, take, read, send], 'functions above the reactor, each once')
    t.eq({name: numbers[name] for name in spine.COLUMNS['compiled'] + ('reactor to tcp', 'target to base')},
         {'functions': 4, 'files': 3, 'calls between layers': 6, 'tcp to target': 1, 'target to tcp': 1,
          'target to media': 1, 'media to target': 1, 'reactor to tcp': 1, 'target to base': 0}, 'numbers')


tap = Tap()
for part in (document, every_number, missing, grown, count):
    with tap.guard(part.__name__):
        part(tap)
sys.exit(tap.done())
