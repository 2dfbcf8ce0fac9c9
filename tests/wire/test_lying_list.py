#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
A target whose list of active namespaces does not increase (Identify CNS 02h): a program that continues after the
last NSID would never end. `weft identify` ends with an error that names the cause.
"""

import struct
import subprocess

import target
from hostile_target import HostileTarget
from tap import Tap

SPEC = 'Base 5.1.13.2.2'
LISTS = {'the same NSID all over': [1] * 1024, 'NSIDs that decrease': list(range(1025, 1, -1)),
         'NSIDs that begin again': list(range(1, 1025))}


def identify(port):
    try:
        out = subprocess.run([target.weft_path(), 'identify', '-a', '127.0.0.1', '-s', str(port), '-n', target.NQN],
                             capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        return None, 'it does not end'
    return out.returncode, out.stderr


def test(t, tgt):
    for name, nsids in LISTS.items():
        def spoil(pdu, what, nsids=nsids):
            if what == (0x06, 2):
                pdu[pdu[3]:pdu[3] + 4096] = struct.pack('<1024I', *nsids)

        with t.guard(name):
            code, text = identify(HostileTarget(tgt.address, spoil).port)
            t.ok(code == 1 and 'do not increase' in text, name, SPEC, why='%s %s' % (code, text[:300]))
    code, text = identify(HostileTarget(tgt.address, lambda pdu, what: None).port)
    t.eq((code, text), (0, ''), 'a list that is true')


target.run(Tap(), test)
