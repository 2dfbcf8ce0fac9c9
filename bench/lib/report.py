# SPDX-License-Identifier: Apache-2.0
"""
Formats of results: rows of result.json, the text table, the markdown tables of docs/performance.md.
"""

import json
import os

from . import stats

# Figures that are kept per contender, and whether more is better.
FIGURES = {
    "iops": True, "mib_per_s": True, "iops_per_client_core": True,
    "latency_us.p50": False, "latency_us.p99": False, "latency_us.p99_9": False,
    "target_cpu_us_per_io": False, "target_cpu_percent": False, "target_busy_percent": False,
    "client_cpu_us_per_io": False, "target_rss_kib": False,
}
UNITS = {"iops": "IOPS", "mib_per_s": "MiB/s", "iops_per_client_core": "IOPS per client core",
         "latency_us.p50": "us, p50", "latency_us.p99": "us, p99", "latency_us.p99_9": "us, p99.9",
         "target_cpu_us_per_io": "us of target CPU per I/O", "target_cpu_percent": "% of a core",
         "target_busy_percent": "% of a core at work", "client_cpu_us_per_io": "us of client CPU per I/O",
         "target_rss_kib": "KiB resident"}
NAMES = {"weft": "weft", "spdk": "SPDK", "echo": "ceiling", "echo-sleep": "blocking echo", "fio": "local fio",
         "weft-r2t": "weft by R2T", "weft-file": "weft on the file", "spdk>weft": "SPDK's client on weft",
         "weft>spdk": "weft's client on SPDK", "weft>weft-hot": "weft perf",
         "spdk>weft-hot": "spdk_nvme_perf"}
PASS, MISS, REPORTED, UNKNOWN = "pass", "MISS", "reported", "not measured"
FORMER_WORDS = {"told": REPORTED}    # verdicts in files of earlier versions


def check(title, value, relation=">=", limit=None, key="other", reason="", is_ratio=True, is_noisy=False):
    """
    One check. value: a stats.Spread or None; its median is judged; without a limit it is only shown. is_noisy: most
    of its runs were disturbed, which the verdict shows.
    """
    if reason or value is None:
        verdict = UNKNOWN
        reason = reason or "no run succeeded"
    elif limit is None:
        verdict = REPORTED
    else:
        held = {">=": value.median >= limit, "<=": value.median <= limit, "<": value.median < limit}[relation]
        verdict = PASS if held else MISS
    return {"title": title, "key": key, "value": value.as_dict() if value else None, "relation": relation,
            "limit": limit, "verdict": verdict, "reason": reason, "is_ratio": is_ratio,
            "is_noisy": bool(is_noisy)}


def row_result(name, title, figures, checks, shown="iops", load="", series=None, noisy=0, thrown=0, note=""):
    """figures: {contender: {figure: stats.Spread}}; series: {name: [point, ...]} for a curve, where a
    point is {"offered" or "x": ..., figure: Spread.as_dict()}. Every list of runs becomes one
    with stats.spread([...])."""
    return {"name": name, "title": title, "load": load, "shown": shown,
            "figures": {c: {f: s.as_dict() for f, s in fs.items()} for c, fs in figures.items()},
            "checks": checks, "series": series or {}, "noisy_points": noisy, "repeated_points": thrown, "note": note}


# ---- text

def number(value):
    """Three significant figures: 812k, 1.10M, 11.9, 0.43."""
    if value is None:
        return "-"
    size = abs(value)
    for limit, unit in ((1e6, "M"), (1e4, "k")):
        if size >= limit:
            scaled = value / (1e6 if unit == "M" else 1e3)
            return ("%.2f" if abs(scaled) < 10 else "%.1f" if abs(scaled) < 100 else "%.0f") % scaled + unit
    return ("%.0f" if size >= 1000 else "%.1f" if size >= 10 else "%.2f") % value


def spread_text(d):
    return "%s [%s..%s]" % (number(d["median"]), number(d["min"]), number(d["max"])) if d else "-"


def verdict_text(c):
    noisy = " (NOISY RUNS)" if c.get("is_noisy") and c["verdict"] != UNKNOWN else ""
    return c["verdict"] + noisy + (" (%s)" % c["reason"] if c["reason"] else "")


def limit_text(c):
    return "" if c["limit"] is None else "%s %g" % (c["relation"], c["limit"])


def contender_name(name):
    return NAMES.get(name, name)


def row_lines(row):
    """The lines printed after a row."""
    shown = row["shown"]
    lines = ["%s%s" % (row["title"], "" if not row["noisy_points"] else
                       "   (%d noisy points kept, %d repeated)" % (row["noisy_points"], row["repeated_points"]))]
    for contender, figures in row["figures"].items():
        text = "    %-24s %-28s" % (contender_name(contender), spread_text(figures.get(shown)) + " " +
                                    UNITS.get(shown, shown))
        extra = [("p50", "latency_us.p50"), ("p99", "latency_us.p99"), ("target us/IO", "target_cpu_us_per_io"),
                 ("client us/IO", "client_cpu_us_per_io")]
        text += "  " + ", ".join("%s %s" % (n, number(figures[k]["median"])) for n, k in extra
                                 if k in figures and k != shown)
        lines.append(text.rstrip(" ,"))
    for c in row["checks"]:
        lines.append("    %-50s %-22s %-9s %s" % (
            c["title"], spread_text(c["value"]) if c["verdict"] != UNKNOWN else "-", limit_text(c), verdict_text(c)))
    for name, points in row["series"].items():
        lines.append("    " + contender_name(name))
        lines += ["      " + series_text(p) for p in points]
    if row["note"]:
        lines.append("    " + row["note"])
    return lines


def series_text(point):
    parts = ["%10s" % point.get("offered", point.get("x", ""))]
    parts += ["%s %s" % (number(v["median"]), UNITS.get(k, k)) for k, v in point.items() if isinstance(v, dict)]
    return "  ".join(parts)


def cell(row, key):
    """The first judged check of a column: value and limit."""
    for c in row["checks"]:
        if c["key"] == key and c["limit"] is not None:
            if c["verdict"] == UNKNOWN:
                return "not measured (%s)" % limit_text(c)
            return "%s (%s) %s" % (spread_text(c["value"]), limit_text(c), verdict_text(c))
    return "-"


# The contenders of each column; the first one that was measured is shown.
COLUMNS = {"weft": ("weft-file", "weft-r2t", "weft"), "SPDK": ("spdk",), "ceiling": ("fio", "echo-sleep", "echo")}


def figure_cell(row, column):
    for contender in COLUMNS[column]:
        d = row["figures"].get(contender, {}).get(row["shown"])
        if d:
            usual = contender in ("weft", "spdk", "echo")
            return number(d["median"]) + ("" if usual else " (%s)" % contender_name(contender))
    return "-"


def is_in_columns(row):
    return any(c in row["figures"] for c in ("weft", "weft-file"))


def grid(heads, lines):
    """Columns as wide as their longest cell."""
    widths = [max(len(str(l[i])) for l in [heads] + lines) for i in range(len(heads))]
    return ["  ".join(str(c).ljust(w) for c, w in zip(l, widths)).rstrip() for l in [heads] + lines]


def summary_lines(result):
    """The table at the end: one line per check with a limit."""
    lines = []
    for row in result["rows"]:
        for c in row["checks"]:
            if c["limit"] is not None:
                lines.append([row["title"], c["title"], "-" if c["verdict"] == UNKNOWN else spread_text(c["value"]),
                              limit_text(c), verdict_text(c)])
    if not lines:
        return []
    counts = {v: sum(1 for l in lines if l[4].startswith(v)) for v in (PASS, MISS, UNKNOWN)}
    return grid(["work", "what", "median [min..max]", "goal", "verdict"], lines) + [
        "%d reached, %d missed, %d not measured" % (counts[PASS], counts[MISS], counts[UNKNOWN])]


# ---- markdown

def table(heads, lines):
    return ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)] + [
        "| " + " | ".join(str(c) for c in l) + " |" for l in lines] + [""]


def markdown_machine(result):
    m = result["machine"]
    keys = ("cpu", "cpus_allowed", "is_virtual", "kernel", "governor", "memory_mib", "compiler", "commit")
    return table(["machine", ""], [[k.replace("_", " "), m.get(k, "")] for k in keys] +
                 [["peer", (result.get("peers") or {}).get("spdk", {}).get("version", "none")],
                  ["rounds, time of a point", "%s, %s s" % (result["options"].get("rounds"),
                                                           result["options"].get("time_s"))]])


def markdown_rows(rows):
    lines = []
    for row in rows:
        if is_in_columns(row):
            lines.append([row["title"], UNITS.get(row["shown"], row["shown"])] +
                         [figure_cell(row, c) for c in COLUMNS] + [cell(row, k) for k in ("spdk", "ceiling")])
    return table(["work", "unit", "weft", "SPDK", "ceiling", "against SPDK (goal)", "against the ceiling (goal)"],
                 lines)


def markdown_figures(row):
    """A row with its own contenders: all of them with all figures."""
    used = [f for f in FIGURES if any(f in fs for fs in row["figures"].values())]
    used += sorted({f for fs in row["figures"].values() for f in fs} - set(FIGURES))
    return table([""] + [UNITS.get(f, f) for f in used],
                 [[contender_name(c)] + [spread_text(fs.get(f)) for f in used] for c, fs in row["figures"].items()])


def markdown_checks(rows, wanted):
    lines = []
    for row in rows:
        for c in row["checks"]:
            if wanted(c):
                lines.append([row["title"], c["title"], spread_text(c["value"]), limit_text(c) or "-", verdict_text(c)])
    return table(["work", "what", "median [min..max]", "goal", "verdict"], lines) if lines else []


def markdown_series(row):
    lines = []
    for name, points in row["series"].items():
        figures = [k for k in points[0] if isinstance(points[0][k], dict)]
        heads = ["offered"] + [UNITS.get(f, f) for f in figures]
        lines += ["**%s**" % contender_name(name), ""]
        lines += table(heads, [[p.get("offered", p.get("x", ""))] + [spread_text(p.get(f)) for f in figures]
                               for p in points])
    return lines


def markdown(result):
    rows = result["rows"]
    lines = ["### Machine", ""] + markdown_machine(result)
    lines += ["### The table", "", "Median of the rounds; ratios are of paired rounds, median [min..max].", ""]
    lines += markdown_rows(rows)
    lines += ["### Everything that is judged", ""] + markdown_checks(rows, lambda c: c["limit"] is not None)
    lines += ["### The same client on both targets", ""] + markdown_checks(rows, lambda c: c["limit"] is None)
    for row in rows:
        if row["series"] or (row["figures"] and not is_in_columns(row)):
            lines += ["### " + row["title"], ""] + markdown_series(row)
            lines += markdown_figures(row) if row["figures"] else []
            lines += [row["note"], ""] if row["note"] else []
    return "\n".join(lines).rstrip() + "\n"


# ---- files

def save(path, result):
    """Writes the file atomically."""
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path + ".new", "w") as f:
        json.dump(result, f, indent=1)
        f.write("\n")
    os.replace(path + ".new", path)


def load(path):
    with open(path) as f:
        result = json.load(f)
    if not isinstance(result, dict) or "rows" not in result:
        raise ValueError("%s is not a result of bench/run" % path)
    for row in result["rows"]:
        for c in row["checks"]:
            c["verdict"] = FORMER_WORDS.get(c["verdict"], c["verdict"])
    return result


def spread_of(row, contender, figure):
    return stats.from_dict(row["figures"].get(contender, {}).get(figure))
