# SPDX-License-Identifier: Apache-2.0
"""Median, range, paired ratios, and what counts as a change."""

from world import Tap, stats

tap = Tap()

s = stats.spread([3, 1, 2])
tap.eq((s.median, s.min, s.max, s.runs), (2.0, 1.0, 3.0, 3), 'median and range of three')
tap.eq(stats.spread([4, 2]).median, 3.0, 'the median of two lies between them')
tap.eq(stats.spread([]), None, 'no runs have no spread')
tap.eq(stats.spread([None, 5]).runs, 1, 'a run without the figure does not count')
tap.eq(stats.spread([90, 100, 110]).percent, 10.0, 'half the range in per cent of the median')
tap.eq(stats.from_dict(s.as_dict()), s, 'through JSON and back')
tap.eq(stats.from_dict(None), None, 'nothing comes back as nothing')
flipped = s.scaled(-1)
tap.eq((flipped.min, flipped.max), (-3.0, -1.0), 'scaled by a negative number: the ends change places')

tap.eq(stats.ratios({0: 10, 1: 30}, {0: 5, 1: 10}), [2.0, 3.0], 'rounds are divided by their own partner')
tap.eq(stats.ratios({0: 10, 1: 30, 2: 50}, {0: 5, 2: 10}), [2.0, 5.0], 'a round without a partner is left out')
tap.eq(stats.ratios({0: 10}, {0: 0}), [], 'nothing is divided by zero')
paired = stats.ratio({0: 100, 1: 50}, {0: 50, 1: 25})
tap.eq((paired.min, paired.max), (2.0, 2.0), 'a slow round that slowed both does not widen the ratio')

quiet = [stats.spread(v) for v in ([99, 100, 101], [109, 110, 111])]
tap.ok(stats.is_beyond_noise(*quiet), 'ten per cent between narrow ranges is a change')
wide = [stats.spread(v) for v in ([80, 100, 120], [90, 110, 130])]
tap.ok(not stats.is_beyond_noise(*wide), 'ten per cent between ranges that touch is none')
near = [stats.spread(v) for v in ([100, 100.1, 100.2], [101, 101.1, 101.2])]
tap.ok(not stats.is_beyond_noise(*near), 'one per cent is none even between narrow ranges')
single = [stats.spread(v) for v in ([100], [105])]
tap.ok(not stats.is_beyond_noise(*single), 'five per cent between single runs is none')
tap.ok(stats.is_beyond_noise(stats.spread([100]), stats.spread([80])), 'twenty per cent between single runs is one')
tap.ok(not stats.is_beyond_noise(None, stats.spread([1])), 'what was not measured did not change')
tap.eq(stats.change_percent(stats.spread([200]), stats.spread([150])), -25.0, 'change in per cent of the old')

tap.done()
