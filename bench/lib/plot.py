# SPDX-License-Identifier: Apache-2.0
"""
Plots as SVG without a library: bars of ratios with whiskers from the slowest to the fastest run and a mark at the
limit, and curves over a logarithmic or linear axis.
"""

import math
from xml.sax.saxutils import escape

FONT = "font-family='system-ui, sans-serif'"
INK, GRID, PAPER = "#1f2933", "#d9dee3", "#ffffff"
COLOURS = ("#1f6feb", "#d9730d", "#2e8b57", "#8250df", "#c0392b")
GOOD, BAD, PLAIN = "#2e8b57", "#d9730d", "#7a8794"


class Canvas:
    def __init__(self, width, height, title):
        self.parts = [
            "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' width='%d' height='%d' role='img'>" % (
                width, height, width, height),
            "<title>%s</title>" % escape(title),
            "<rect width='%d' height='%d' fill='%s'/>" % (width, height, PAPER)]
        self.text(20, 28, title, size=16, weight="600")

    def text(self, x, y, words, size=12, anchor="start", colour=INK, weight="400", rotate=None):
        turn = " transform='rotate(%d %.1f %.1f)'" % (rotate, x, y) if rotate else ""
        self.parts.append("<text x='%.1f' y='%.1f' %s font-size='%d' font-weight='%s' text-anchor='%s' fill='%s'%s>"
                          "%s</text>" % (x, y, FONT, size, weight, anchor, colour, turn, escape(str(words))))

    def line(self, x1, y1, x2, y2, colour=INK, width=1.0, dash=""):
        self.parts.append("<line x1='%.1f' y1='%.1f' x2='%.1f' y2='%.1f' stroke='%s' stroke-width='%.1f'%s/>" % (
            x1, y1, x2, y2, colour, width, " stroke-dasharray='%s'" % dash if dash else ""))

    def rect(self, x, y, width, height, colour):
        self.parts.append("<rect x='%.1f' y='%.1f' width='%.1f' height='%.1f' fill='%s' rx='2'/>" % (
            x, y, max(0.0, width), height, colour))

    def path(self, points, colour):
        self.parts.append("<polyline fill='none' stroke='%s' stroke-width='2' points='%s'/>" % (
            colour, " ".join("%.1f,%.1f" % p for p in points)))

    def dot(self, x, y, colour):
        self.parts.append("<circle cx='%.1f' cy='%.1f' r='3.5' fill='%s'/>" % (x, y, colour))

    def svg(self):
        return "\n".join(self.parts + ["</svg>", ""])


def nice_ticks(low, high, count=6):
    """Round numbers from low to high."""
    if high <= low:
        high = low + 1.0
    raw = (high - low) / count
    step = 10 ** math.floor(math.log10(raw))
    step *= next(m for m in (1, 2, 5, 10) if raw <= m * step * 1.0001)
    first = math.ceil(low / step - 1e-9)
    return [i * step for i in range(first, int(math.floor(high / step + 1e-9)) + 1)]


def log_ticks(low, high):
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return [10.0 ** e for e in range(first, last + 1) if low * 0.999 <= 10.0 ** e <= high * 1.001]


def axis_number(value):
    for limit, unit in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return "%g%s" % (value / limit, unit)
    return "%g" % round(value, 6)


def bars(title, entries, axis):
    """entries: (label, median, min, max, wanted or None, relation). Green reaches the wanted value."""
    width, left, right, top, step = 980, 400, 90, 56, 30
    height = top + step * len(entries) + 64
    canvas = Canvas(width, height, title)
    most = max([e[3] for e in entries] + [e[4] or 0 for e in entries] + [1.0]) * 1.05
    scale = (width - left - right) / most
    bottom = top + step * len(entries)
    for tick in nice_ticks(0, most):
        x = left + tick * scale
        canvas.line(x, top - 6, x, bottom, GRID)
        canvas.text(x, bottom + 18, axis_number(tick), 11, "middle")
    canvas.line(left + scale, top - 6, left + scale, bottom, INK, 1.0, "4 3")
    canvas.text(left + (width - left - right) / 2, bottom + 40, axis, 12, "middle")
    for i, (label, median, low, high, wanted, relation) in enumerate(entries):
        y = top + step * i
        held = wanted is None or {">=": median >= wanted, "<=": median <= wanted, "<": median < wanted}[relation]
        canvas.text(left - 10, y + 15, label, 12, "end")
        canvas.rect(left, y + 3, median * scale, 17, PLAIN if wanted is None else GOOD if held else BAD)
        canvas.line(left + low * scale, y + 11.5, left + high * scale, y + 11.5, INK, 1.5)
        for end in (low, high):
            canvas.line(left + end * scale, y + 7, left + end * scale, y + 16, INK, 1.5)
        if wanted is not None:
            canvas.line(left + wanted * scale, y, left + wanted * scale, y + 23, "#c0392b", 2.5)
        canvas.text(left + max(high, wanted or 0, median) * scale + 8, y + 16, "%.2f" % median, 12)
    canvas.text(left, height - 8, "whiskers: slowest and fastest round; red mark: the goal", 10, colour=PLAIN)
    return canvas.svg()


class Axis:
    """Values to pixels."""

    def __init__(self, values, low_px, high_px, is_log):
        values = [v for v in values if not is_log or v > 0] or [1.0]
        self.is_log, self.low_px, self.high_px = is_log, low_px, high_px
        if is_log:
            self.low, self.high = min(values) / 1.15, max(values) * 1.15
            self.ticks = log_ticks(self.low, self.high)
            if len(self.ticks) < 2:
                self.ticks = [min(values), max(values)]
        else:
            self.low, self.high = min(0.0, min(values)), max(values) * 1.06 or 1.0
            self.ticks = nice_ticks(self.low, self.high)

    def at(self, value):
        low, high = self.low, self.high
        if self.is_log:
            value, low, high = (math.log10(max(v, self.low)) for v in (value, low, high))
        return self.low_px + (value - low) / ((high - low) or 1.0) * (self.high_px - self.low_px)


def curves(title, series, x_title, y_title, is_log_x=True, is_log_y=False):
    """series: {name: [(x, median, min, max), ...]}."""
    width, height, left, right, top, bottom = 760, 440, 80, 30, 70, 380
    canvas = Canvas(width, height, title)
    points = [p for ps in series.values() for p in ps]
    if not points:
        canvas.text(width / 2, height / 2, "nothing measured", 14, "middle", PLAIN)
        return canvas.svg()
    across = Axis([p[0] for p in points], left, width - right, is_log_x)
    up = Axis([v for p in points for v in p[1:]], bottom, top, is_log_y)
    for tick in across.ticks:
        canvas.line(across.at(tick), top, across.at(tick), bottom, GRID)
        canvas.text(across.at(tick), bottom + 18, axis_number(tick), 11, "middle")
    for tick in up.ticks:
        canvas.line(left, up.at(tick), width - right, up.at(tick), GRID)
        canvas.text(left - 8, up.at(tick) + 4, axis_number(tick), 11, "end")
    canvas.line(left, bottom, width - right, bottom)
    canvas.line(left, top, left, bottom)
    canvas.text((left + width - right) / 2, bottom + 42, x_title, 12, "middle")
    canvas.text(24, (top + bottom) / 2, y_title, 12, "middle", rotate=-90)
    for i, (name, mine) in enumerate(series.items()):
        colour = COLOURS[i % len(COLOURS)]
        mine = sorted(mine)
        canvas.path([(across.at(x), up.at(y)) for x, y, _, _ in mine], colour)
        for x, y, low, high in mine:
            canvas.line(across.at(x), up.at(low), across.at(x), up.at(high), colour, 1.5)
            canvas.dot(across.at(x), up.at(y), colour)
        canvas.rect(left + 10 + 190 * i, 42, 12, 12, colour)
        canvas.text(left + 28 + 190 * i, 53, name, 12)
    return canvas.svg()


# ---- the plots of a result

def ratio_entries(result, key):
    entries = []
    for row in result["rows"]:
        for c in row["checks"]:
            if c["key"] == key and c["value"] and c["is_ratio"] and c["verdict"] != "not measured":
                v = c["value"]
                entries.append((row["title"], v["median"], v["min"], v["max"], c["limit"], c["relation"]))
    return entries


def series_points(points, x, y):
    return [(p[x]["median"], p[y]["median"], p[y]["min"], p[y]["max"]) for p in points if x in p and y in p]


def plots(result, names):
    """{file name: SVG} for everything in the result that can be drawn. names: contender -> words."""
    made = {}
    for key, file, title in (("spdk", "ratio-spdk.svg", "weft against SPDK, pair against pair"),
                             ("ceiling", "ratio-ceiling.svg", "weft against the ceiling")):
        entries = ratio_entries(result, key)
        if entries:
            made[file] = bars(title, entries, "ratio; CPU and latency: less is better, else more is")
    for row in result["rows"]:
        if not row["series"]:
            continue
        named = {names(n): ps for n, ps in row["series"].items()}
        if all(isinstance(p.get("x"), (int, float)) for ps in named.values() for p in ps):
            made[row["name"] + ".svg"] = curves(row["title"], {n: [
                (p["x"],) + tuple(p[row["shown"]][k] for k in ("median", "min", "max")) for p in ps
                if row["shown"] in p] for n, ps in named.items()}, row.get("x_title") or "", row["shown"])
            continue
        if not any(isinstance(p.get("offered"), int) for ps in named.values() for p in ps):
            continue
        for y, word, is_log in (("target_cpu_percent", "target CPU, % of a core", False),
                                ("latency_us.p50", "p50, microseconds", True)):
            series = {n: series_points(ps, "iops", y) for n, ps in named.items()}
            series = {n: ps for n, ps in series.items() if ps}
            if series:
                made["%s-%s.svg" % (row["name"], "cpu" if "cpu" in y else "latency")] = curves(
                    row["title"] if "cpu" in y else row["title"].replace("target CPU", "latency"), series,
                    "I/Os a second", word, True, is_log)
    return made
