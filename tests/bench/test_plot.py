# SPDX-License-Identifier: Apache-2.0
"""The plots are well-formed, contain the measured values, and stay inside their frame."""

import re
import xml.etree.ElementTree as xml

from world import Tap, report, result, row, stats

from lib import plot

tap = Tap()
NS = '{http://www.w3.org/2000/svg}'


def texts(svg):
    return [t.text for t in xml.fromstring(svg).iter(NS + 'text')]


def is_inside(svg):
    """True when every coordinate is on the canvas."""
    root = xml.fromstring(svg)
    width, height = (float(v) for v in root.get('viewBox').split()[2:])
    for e in root.iter():
        for key, most in (('x', width), ('x1', width), ('x2', width), ('cx', width), ('y', height), ('y1', height),
                          ('y2', height), ('cy', height)):
            if e.get(key) and not -0.5 <= float(e.get(key)) <= most + 0.5:
                return '%s %s=%s' % (e.tag, key, e.get(key))
    return ''


tap.eq(plot.nice_ticks(0, 1.0, 5), [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0], 'ticks are round numbers')
tap.eq(plot.log_ticks(900, 450e3), [1e3, 1e4, 1e5], 'powers of ten that lie inside')
tap.eq([plot.axis_number(v) for v in (0.2, 1000, 250000, 2e6)], ['0.2', '1k', '250k', '2M'], 'axis numbers')

svg = plot.bars('T & <t>', [('first', 1.5, 1.4, 1.6, 1.3, '>='), ('second', 0.5, 0.4, 0.9, 1.3, '>='),
                            ('third', 0.6, 0.6, 0.6, 0.65, '<='), ('fourth', 1.0, 1.0, 1.0, None, '>=')], 'ratio')
tap.ok('T & <t>' in texts(svg), 'the title is escaped and whole')
tap.ok({'first', 'second', '1.50', '0.50', 'ratio'} <= set(texts(svg)), 'labels, figures and the axis are there')
fills = [r.get('fill') for r in xml.fromstring(svg).iter(NS + 'rect')][1:]
tap.eq(fills, [plot.GOOD, plot.BAD, plot.GOOD, plot.PLAIN], 'the colour says whether the limit is held')
tap.eq(is_inside(svg), '', 'bars stay on the canvas')

series = {'weft': [(1000, 3, 2, 4), (400e3, 100, 99, 100)], 'SPDK': [(1000, 100, 100, 100)]}
svg = plot.curves('load', series, 'I/Os', 'CPU')
tap.eq(len(list(xml.fromstring(svg).iter(NS + 'circle'))), 3, 'one dot for each point')
tap.ok({'weft', 'SPDK', 'I/Os', 'CPU', '10k'} <= set(texts(svg)), 'legend, axes and ticks are there', why=texts(svg))
tap.eq(is_inside(svg), '', 'curves stay on the canvas')
line = re.search("points='([^']*)'", svg).group(1).split()
(x1, y1), (x2, y2) = (tuple(float(v) for v in p.split(',')) for p in line)
tap.ok(x1 < x2 and y1 > y2, 'more load is to the right, more CPU is higher', why=line)
tap.eq(is_inside(plot.curves('one', {'a': [(5, 5, 5, 5)]}, 'x', 'y', True, True)), '', 'one point alone is drawn')
tap.ok('nothing measured' in texts(plot.curves('none', {}, 'x', 'y')), 'nothing measured says so')

checks = [report.check('a', stats.spread([1.2, 1.3]), '>=', 1.5, key='spdk'),
          report.check('b', None, '>=', 1, key='ceiling', reason='no echo')]
spreads = {k: stats.spread([v]).as_dict() for k, v in (('iops', 1000), ('target_cpu_percent', 4),
                                                       ('latency_us.p50', 30))}
curve = report.row_result('spin', 'target CPU against load', {}, [], series={'weft': [dict(spreads, offered=1000)]})
made = plot.plots(result([row('r', {'weft': [1]}, checks), curve]), report.contender_name)
tap.eq(sorted(made), ['ratio-spdk.svg', 'spin-cpu.svg', 'spin-latency.svg'], 'what was measured is plotted, no more')
tap.eq(plot.plots(result([]), report.contender_name), {}, 'nothing makes no files')

tap.done()
