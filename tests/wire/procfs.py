# SPDX-License-Identifier: Apache-2.0
"""
Reads another process's threads and files from /proc. Threads may end and files may close while they are
listed: the kernel ends idle io_uring workers, and a target closes connections. Every function here skips what
has gone meanwhile.
"""

import os

GONE = (FileNotFoundError, ProcessLookupError)


def names(path):
    try:
        return os.listdir(path)
    except GONE:
        return []


def open_files(pid):
    """The target of each open descriptor: a path, or for example socket:[1234]."""
    folder = '/proc/%d/fd' % pid
    found = []
    for fd in names(folder):
        try:
            found.append(os.readlink(os.path.join(folder, fd)))
        except GONE:
            continue
    return found


def threads(pid, *files):
    """Thread ID -> contents of these files of the thread, by ascending ID."""
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
    """The state letter from a thread's `stat` file; the thread name in it may hold any character."""
    return stat.rpartition(')')[2].split()[0]


def is_stopped(pid):
    """Whether SIGSTOP has stopped every thread."""
    states = [state(stat) for stat, in threads(pid, 'stat').values()]
    return bool(states) and all(letter == 'T' for letter in states)
