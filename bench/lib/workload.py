# SPDX-License-Identifier: Apache-2.0
"""One load, defined once and translated for every client."""

import dataclasses
import re

SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def size_bytes(text):
    found = re.fullmatch(r"(\d+)([kmgt]?)", str(text).lower())
    if not found:
        raise ValueError("%r is not a size such as 4k or 256M" % text)
    return int(found.group(1)) * SIZES[found.group(2)]


def seconds(text):
    """'1s', '500ms', '2m' or a bare number of seconds."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h)?", str(text))
    if not found:
        raise ValueError("%r is not a time such as 1s or 500ms" % text)
    return float(found.group(1)) * {"ms": 0.001, "s": 1, None: 1, "m": 60, "h": 3600}[found.group(2)]


@dataclasses.dataclass(frozen=True)
class Workload:
    rw: str = "randread"         # randread, randwrite, read, write, randrw
    bs: str = "4k"
    depth: int = 1               # in flight on each queue
    queues: int = 1
    digests: bool = False        # header and data
    mix_read: int = 70           # per cent, for randrw
    rate: int = 0                # I/Os a second over all queues; 0: as fast as it goes
    sleeps: bool = False         # the client sleeps instead of spinning
    wants_latency: bool = False  # percentiles are needed, where they cost something
    size: str = ""               # part of the namespace that is used; all of it when empty
    extra: tuple = ()            # further arguments, for weft perf only

    @property
    def bytes(self):
        return size_bytes(self.bs)

    @property
    def queue_size(self):
        """Entries: a queue holds one command less, and all clients get the same."""
        need = self.depth + 1
        return max(32, 1 << (need - 1).bit_length())

    def with_rate(self, rate):
        return dataclasses.replace(self, rate=rate)

    def describe(self):
        parts = ["%s %s" % (self.bs, self.rw), "depth %d" % self.depth]
        if self.rw == "randrw":
            parts.append("%d %% reads" % self.mix_read)
        if self.queues > 1:
            parts.append("%d queues" % self.queues)
        if self.digests:
            parts.append("digests")
        if self.rate:
            parts.append("%d/s" % self.rate)
        return ", ".join(parts)
