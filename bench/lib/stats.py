# SPDX-License-Identifier: Apache-2.0
"""Statistics for few, short runs: median and range, never a mean alone."""

import dataclasses
import statistics


@dataclasses.dataclass(frozen=True)
class Spread:
    """Median [min..max] of the runs."""
    median: float
    min: float
    max: float
    runs: int

    @property
    def percent(self):
        """Half the range, in per cent of the median ("plus or minus")."""
        return 50.0 * (self.max - self.min) / abs(self.median) if self.median else 0.0

    def as_dict(self):
        return dataclasses.asdict(self)

    def scaled(self, factor):
        low, high = sorted((self.min * factor, self.max * factor))
        return Spread(self.median * factor, low, high, self.runs)


def spread(values):
    """None for no values."""
    values = [float(v) for v in values if v is not None]
    if not values:
        return None
    return Spread(statistics.median(values), min(values), max(values), len(values))


def ratios(above, below):
    """
    Ratio per round: values of the same round are divided, so that a slow minute of the machine slows both. above and
    below: {round: value}.
    """
    return [above[r] / below[r] for r in sorted(above) if below.get(r) and above[r] is not None]


def ratio(above, below):
    return spread(ratios(above, below))


def is_beyond_noise(old, new, least_percent=2.0):
    """
    Whether two spreads differ by more than both of them: the ranges do not overlap, and the medians differ by at
    least least_percent, or 10 per cent with only one run, which has no range.
    """
    if old is None or new is None:
        return False
    if min(old.runs, new.runs) < 2:
        least_percent = max(least_percent, 10.0)
    base = abs(old.median) or abs(new.median)
    if not base or abs(new.median - old.median) * 100.0 / base < least_percent:
        return False
    return new.min > old.max or new.max < old.min


def change_percent(old, new):
    return 100.0 * (new.median - old.median) / abs(old.median) if old.median else 0.0


def from_dict(d):
    return Spread(d["median"], d["min"], d["max"], d["runs"]) if d else None
