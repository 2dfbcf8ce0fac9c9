# SPDX-License-Identifier: Apache-2.0
"""
TAP output for the wire tests: one line per row, the plan at the end, exit status 1 when a row failed. Every
row names the section of the specification that its expected value comes from: "Base" is NVMe Base 2.1, "TCP"
is NVMe/TCP Transport 1.1, "NVM" is the NVM Command Set 1.1.

An exception inside a guard (closed connection, time-out, a PDU that the specification does not allow) is a
failed row. The rows after the guard still run.
"""

import contextlib
import sys
import traceback


class Tap:
    def __init__(self):
        self.count = 0
        self.failed = 0
        self.scene = None  # describes the other side when a guard fails

    def ok(self, is_good, name, spec='', why=''):
        self.count += 1
        text = name.replace('#', 'no. ')
        if spec:
            text += ' [%s]' % spec
        if is_good:
            print('ok %d - %s' % (self.count, text))
        else:
            self.failed += 1
            print('not ok %d - %s' % (self.count, text))
            for line in str(why).splitlines():
                print('#   ' + line)
        sys.stdout.flush()
        return bool(is_good)

    def eq(self, got, want, name, spec=''):
        why = 'expected %s\ngot      %s' % (show(want), show(got))
        return self.ok(got == want, name, spec, why)

    def status(self, cmd, want, name, spec='', dnr=None):
        """Checks the command's (SCT, SC), and DNR where the specification defines it."""
        got = cmd.status
        why = 'expected status %s%s\ngot      status %s%s' % (
            hexes(want), '' if dnr is None else ' DNR %d' % dnr, hexes(got), ' DNR %d' % cmd.dnr)
        return self.ok(got == want and dnr in (None, cmd.dnr), name, spec, why)

    def skip(self, name, why):
        self.count += 1
        print('ok %d - %s # SKIP %s' % (self.count, name, why))

    @contextlib.contextmanager
    def guard(self, name, spec=''):
        try:
            yield
        except Exception:
            why = traceback.format_exc() + (self.scene() if self.scene else '')
            self.ok(False, name + ': the conversation broke off', spec, why)

    def done(self):
        print('1..%d' % self.count)
        sys.stdout.flush()
        return 1 if self.failed else 0


def hexes(status):
    return '%d/%02Xh' % status


def show(value):
    if isinstance(value, (bytes, bytearray)):
        if len(value) > 64:
            return '%s... (%d bytes)' % (bytes(value[:64]).hex(), len(value))
        return bytes(value).hex()
    if isinstance(value, int) and not isinstance(value, bool):
        return '%d (%Xh)' % (value, value)
    return repr(value)
