# SPDX-License-Identifier: Apache-2.0
"""
A start that changes the saved state (--reset, --merge) is killed, or loses power, at each of its changes to the
store's files. The same start then succeeds and reaches the same state. The former state is kept as a whole, in
the history and, for --reset, in the copy.

$WEFT_CRASH_STEP takes every Nth point only (1).
"""

import contextlib
import os
import shutil
import signal
import sqlite3
import sys

import store_world
from store_world import World

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'wire'))
from tap import Tap  # noqa: E402

SPEC = 'weft-serve(1), the saved state'


class Start:
    """Repeats one kind of start over the same saved state."""

    def __init__(self, t, way):
        self.t, self.way = t, way
        self.world = World()
        self.saved = os.path.join(self.world.folder, 'saved')
        self.first = list(self.world.args)
        self.args = self.first + ['--ns', 'null:1M', way]

    def prepare(self):
        """Makes a state with changes that only weft ctl made. Returns its document."""
        self.world.start(shim=False)
        self.world.change('POST', '/v1/subsystems', {'nqn': store_world.NQN % 'ctl'})
        document = self.world.document()
        self.t.eq(self.world.stop(), 0, self.way + ': the saved state')
        shutil.copytree(self.world.state, self.saved,
                        ignore=lambda folder, names: [n for n in names if n.endswith('.sock')])
        self.world.args = self.args
        return document

    def restore(self):
        self.world.wipe()
        shutil.copytree(self.saved, self.world.state)

    def copy_problem(self):
        """Returns why the copy is not a whole store at the saved generation, or ''."""
        path = os.path.join(self.world.state, 'weft.db.reset-2')
        if not os.path.exists(path):
            return 'no copy: %s' % os.listdir(self.world.state)
        with contextlib.closing(sqlite3.connect(path)) as store:
            whole = store.execute('PRAGMA integrity_check').fetchone()[0]
            generation = store.execute("SELECT value FROM meta WHERE name = 'generation'").fetchone()
        return '' if (whole, generation) == ('ok', (2,)) else '%s %s' % (whole, generation)

    def again_problem(self, before, after):
        if not self.world.start(shim=False):
            return 'it does not start again:\n' + self.world.log()
        document = self.world.document()
        status, former = self.world.call('GET', '/v1/history/2')
        code = self.world.stop()
        if document != after:
            return 'another state: %s' % document
        if status != 200 or former['config'] != before:
            return 'generation 2 is another: %s' % former
        if code != 0:
            return 'status %s' % code
        return self.copy_problem() if self.way == '--reset' else ''

    def every_point(self, before, after, total, loses_power):
        what = '%s, %s' % (self.way, 'power lost' if loses_power else 'killed')
        wrong, killed, tried = [], 0, 0
        for kill_at in range(1, total + 1, int(os.environ.get('WEFT_CRASH_STEP', '1'))):
            self.restore()
            tried += 1
            if self.world.start(kill_at, loses_power):
                self.world.stop()
            killed += self.world.wait_exit() == -signal.SIGKILL
            problem = self.again_problem(before, after)
            self.world.kill()
            if problem:
                wrong.append('%d: %s' % (kill_at, problem))
            if len(wrong) > 3:
                break
        self.t.eq(wrong, [], '%s at each of %d changes to files' % (what, tried), SPEC)
        self.t.eq(killed, tried, what + ': every point was reached')

    def run(self):
        before = self.prepare()
        if not self.t.ok(self.world.start(), self.way + ', without a kill', why=self.world.log()):
            return
        after = self.world.document()
        self.world.stop()
        total = self.world.changes_counted()  # the orderly end makes changes too
        self.t.eq(len(after['subsystems']), 1 if self.way == '--reset' else 2, self.way + ': done')
        self.t.ok(total > 5, self.way + ': the start changes the store', why=str(total))
        for loses_power in (False, True):
            self.every_point(before, after, total, loses_power)


def main():
    t = Tap()
    for way in ('--reset', '--merge'):
        start = Start(t, way)
        with t.guard(way):
            start.run()
        start.world.remove()
    sys.exit(t.done())


if __name__ == '__main__':
    main()
