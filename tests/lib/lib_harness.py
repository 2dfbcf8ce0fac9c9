#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Runs a C program that tests libweft against a live `weft serve`, and changes the target as the program requests.
The program prints TAP; its rows become rows of this test.

    lib_harness.py PROGRAM      $WEFT names the executable weft
"""

import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'wire'))
import target  # noqa: E402
from relay import Relay  # noqa: E402
from tap import Tap  # noqa: E402

PROGRAM_TIMEOUT_S = 240


def uuid_of(nsid, life=0):
    return '7a2d6c10-0000-4000-8000-%08x%04x' % (nsid, life)


NAMESPACES = [
    # The same UUID after a restart of the target, though the data is lost.
    target.namespace(1, 'mem:8M,block=512', uuid='6f1c7b9a-52e0-4d0b-9a39-1f0f5c1d2e01'),
    target.namespace(2, 'mem:64M,block=4096'),
    target.namespace(3, 'mem:1M,block=512', read_only=True),
    target.namespace(4, 'fault:fail:op=read@mem:1M,block=512'),
    target.namespace(5, 'fault:fail:op=write:errno=ENOSPC@mem:1M,block=512'),
    target.namespace(6, 'mem:1M,block=512'),
    target.namespace(7, 'mem:1M,block=512'),
]
# A target that is started again must have the same namespaces.
for _ns in NAMESPACES:
    _ns.setdefault('uuid', uuid_of(_ns['nsid']))


def remove_namespace(tgt):
    def change(config):
        config['subsystems'][0]['namespaces'] = [
            ns for ns in config['subsystems'][0]['namespaces'] if ns['nsid'] != 6]
    tgt.reload(change)


def format_namespace(tgt):
    """Another host formats with 4 KiB blocks in place of 512 bytes."""
    with tgt.host() as host:
        assert host.admin.do(0x80, nsid=7, cdw10=1).status == (0, 0)


def replace_namespace(tgt, life, media='mem:1M,block=512'):
    """Puts another namespace under the NSID of the leaving one; life 0 is the first one."""
    remove_namespace(tgt)

    def change(config):
        config['subsystems'][0]['namespaces'].append(
            target.namespace(6, media, uuid=uuid_of(6, life)))
    tgt.reload(change)


def restart_replaced(tgt):
    for ns in tgt.config['subsystems'][0]['namespaces']:
        if ns['nsid'] == 6:
            ns['uuid'] = uuid_of(6, 3)
    tgt.write_config()
    tgt.kill()
    tgt.start('--reset')


ASKED = {
    'format namespace': lambda tgt, relay: format_namespace(tgt),
    'replace namespace': lambda tgt, relay: replace_namespace(tgt, 1),
    'replace namespace by a larger one': lambda tgt, relay:
        replace_namespace(tgt, 2, 'mem:2M,block=4096'),
    'restart target with another namespace': lambda tgt, relay: restart_replaced(tgt),
    'give namespace back': lambda tgt, relay: replace_namespace(tgt, 0),
    'remove namespace': lambda tgt, relay: remove_namespace(tgt),
    'kill target': lambda tgt, relay: tgt.kill(),
    'start target': lambda tgt, relay: tgt.start(),
    'cut relay': lambda tgt, relay: relay.cut(),
}


def program(tap, tgt, argv, dead_port, second_port):
    relay = Relay(second_port)
    env = dict(os.environ, WEFT_PORT=str(tgt.port), WEFT_PORT_2=str(second_port),
               WEFT_RELAY_PORT=str(relay.port), WEFT_DEAD_PORT=str(dead_port),
               WEFT_NQN=target.NQN)
    complaints = tempfile.TemporaryFile('w+')
    process = subprocess.Popen(['timeout', str(PROGRAM_TIMEOUT_S)] + argv, env=env, text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints)
    notes = []
    for line in process.stdout:
        line = line.rstrip('\n')
        if line.startswith('# ask: '):
            ASKED[line[7:]](tgt, relay)
            process.stdin.write('done\n')
            process.stdin.flush()
        elif line.startswith(('ok ', 'not ok ')):
            is_good, name = line.startswith('ok '), line.split(' - ', 1)[1]
            tap.ok(is_good, name, why='\n'.join(notes))
            notes = []
        elif not line.startswith('1..'):
            notes.append(line)
    code = process.wait()
    tap.ok(code in (0, 1) and not notes, 'the program ends in good order',
           why='status %d\n%s' % (code, '\n'.join(notes)))
    complaints.seek(0)
    tap.eq(complaints.read(), '', 'the library writes nothing to standard error')


def test(tap, argv):
    first, second, dead = target.free_port(), target.free_port(), target.free_port()
    ports = [{'id': i, 'transport': 'tcp', 'address': '127.0.0.1', 'service': str(port)}
             for i, port in ((1, first), (2, second))]
    tgt = target.Target(port=first, config=target.config_of(first, NAMESPACES, ports=ports, rights=target.ALL_RIGHTS))
    try:
        with tap.guard('the program'):
            program(tap, tgt, argv, dead, second)
    finally:
        tgt.finish(tap)


if __name__ == '__main__':
    TAP = Tap()
    test(TAP, sys.argv[1:])
    sys.exit(TAP.done())
