# SPDX-License-Identifier: Apache-2.0
"""
What /proc tells of another process. Its threads end and its files are closed while they are listed: the kernel ends workers
of io_uring that have nothing to do, and a target closes the connection whose end a test waits for. What is gone when
its turn comes is left out of every answer here.
"""

import os

GONE = (FileNotFoundError, ProcessLookupError)


def names(path):
    try:
        return os.listdir(path)
    except GONE:
        return []


def open_files(pid):
    """What each descriptor of the process refers to: a path, or such as socket:[1234]."""
    folder = '/proc/%d/fd' % pid
    found = []
    for fd in names(folder):
        try:
            found.append(os.readlink(os.path.join(folder, fd)))
        except GONE:
            continue
    return found


def threads(pid, *files):
    """Thread ID -> the texts of these files of the thread, by ascending ID."""
    folder = '/proc/%d/task' % pid
    found = {}
    for tid in sorted(map(int, names(folder))):
        try:
            found[tid] = [read('%s/%d/%s' % (folder, tid, name)) for name in files]
        except GONE:
            continue
    return found


def read(path):
    with open(path) as file:
        return file.read()


def state(stat):
    """The letter of a thread's state, from its file `stat`; its name in there may hold anything."""
    return stat.rpartition(')')[2].split()[0]


def is_stopped(pid):
    """Whether SIGSTOP has reached every thread."""
    states = [state(stat) for stat, in threads(pid, 'stat').values()]
    return bool(states) and all(letter == 'T' for letter in states)
