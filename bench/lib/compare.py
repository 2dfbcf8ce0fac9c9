# SPDX-License-Identifier: Apache-2.0
"""
What changed between two results beyond the noise of both. Ratios (to the ceiling or SPDK of the same run) come first
and decide about a regression. A plain figure decides only in rows without a ratio, because a machine performs
differently on another day.
"""

from . import report, stats

# Changes of other contenders come from the machine, not from weft.
OURS = ("weft", "weft-r2t", "weft-file", "spdk>weft")

TOLD = ("latency_us.p50", "latency_us.p99", "target_cpu_us_per_io", "client_cpu_us_per_io")


def checks_of(row):
    return {c["title"]: c for c in row["checks"]}


def has_ratio(row):
    return any(c["is_ratio"] and c["value"] for c in row["checks"])


def change(kind, row, what, pair, more_is_better):
    old, new = pair
    percent = stats.change_percent(old, new)
    is_beyond = stats.is_beyond_noise(old, new)
    is_better = (percent > 0) == more_is_better
    verdict = "same" if not is_beyond else "better" if is_better else "worse"
    return {"kind": kind, "row": row["name"], "title": row["title"], "what": what, "old": old, "new": new,
            "percent": percent, "verdict": verdict, "decides": False}


def compare_row(old, new):
    changes = []
    before, after = checks_of(old), checks_of(new)
    for title in after:
        if title in before:
            pair = tuple(stats.from_dict(c["value"]) for c in (before[title], after[title]))
            if all(pair):
                one = change("ratio" if after[title]["is_ratio"] else "value", new, title, pair,
                             after[title]["relation"] == ">=")
                # The peer's own figures and figures without a limit fail nothing.
                one["decides"] = after[title]["limit"] is not None
                changes.append(one)
    for contender in new["figures"]:
        for figure, more_is_better in report.FIGURES.items():
            # Of other contenders only the figure that the row shows.
            if figure != new["shown"] and (contender not in OURS or figure not in TOLD):
                continue
            pair = tuple(report.spread_of(r, contender, figure) for r in (old, new))
            if all(pair):
                one = change("figure", new, "%s, %s" % (report.contender_name(contender),
                                                        report.UNITS.get(figure, figure)), pair, more_is_better)
                one["decides"] = contender in OURS and figure == new["shown"] and not has_ratio(new)
                changes.append(one)
    return changes


def verdict_changes(old, new):
    """(row, check, old verdict, new verdict) of the checks that crossed their limit."""
    found = []
    before = {r["name"]: r for r in old["rows"]}
    for row in new["rows"]:
        if row["name"] in before:
            theirs = checks_of(before[row["name"]])
            found += [(row["title"], t, theirs[t]["verdict"], c["verdict"]) for t, c in checks_of(row).items()
                      if t in theirs and theirs[t]["verdict"] != c["verdict"]]
    return found


def compare(old, new):
    before = {r["name"]: r for r in old["rows"]}
    changes = []
    for row in new["rows"]:
        if row["name"] in before:
            changes += compare_row(before[row["name"]], row)
    return changes + compare_counts(old.get("counts") or {}, new.get("counts") or {})


def compare_counts(old, new):
    """Instruction counts hardly vary: 2 per cent is a change."""
    changes = []
    for name in sorted(set(old) & set(new)):
        if isinstance(old[name], (int, float)) and isinstance(new[name], (int, float)) and old[name]:
            percent = 100.0 * (new[name] - old[name]) / old[name]
            pair = tuple(stats.Spread(float(v), float(v), float(v), 1) for v in (old[name], new[name]))
            changes.append({"kind": "count", "row": name, "title": name, "what": "instructions", "old": pair[0],
                            "new": pair[1], "percent": percent, "decides": True,
                            "verdict": "same" if abs(percent) < 2 else "better" if percent < 0 else "worse"})
    return changes


def machine_lines(old, new):
    """Differences between the machines, which make plain figures incomparable."""
    keys = ("cpu", "cpus_allowed", "kernel", "governor", "memory_mib", "compiler", "build")
    a, b = old.get("machine", {}), new.get("machine", {})
    return ["machine: %s was %s, is %s" % (k, a.get(k), b.get(k)) for k in keys if a.get(k) != b.get(k)]


def line(c):
    return "  %-6s %+7.1f %%  %-46s %-44s %s -> %s" % (
        c["verdict"], c["percent"], c["title"], c["what"], report.spread_text(c["old"].as_dict()),
        report.spread_text(c["new"].as_dict()))


def lines_of(old, new, wants_all=False):
    """(lines, number of regressions)."""
    changes = compare(old, new)
    lines = ["%s (%s) -> %s (%s)" % (old.get("machine", {}).get("commit", "?"), old.get("started", "?"),
                                     new.get("machine", {}).get("commit", "?"), new.get("started", "?"))]
    lines += machine_lines(old, new)
    groups = (("ratio", "Ratios within a run, which do not depend on the day"), ("value", "Values"),
              ("count", "Instruction counts"), ("figure", "Plain figures, which do"))
    for kind, head in groups:
        mine = [c for c in changes if c["kind"] == kind and (wants_all or c["verdict"] != "same")]
        total = sum(1 for c in changes if c["kind"] == kind)
        if total:
            lines += ["%s: %d of %d changed beyond the noise" % (head, sum(
                1 for c in mine if c["verdict"] != "same"), total)] + [line(c) for c in mine]
    lines += ["  %s, %s: was %s, is %s" % v for v in verdict_changes(old, new)]
    gone = sorted({r["name"] for r in old["rows"]} - {r["name"] for r in new["rows"]})
    if gone:
        lines.append("only in the old result: " + ", ".join(gone))
    regressions = sum(1 for c in changes if c["verdict"] == "worse" and c["decides"])
    lines.append("%d regressions" % regressions if regressions else "no regression")
    return lines, regressions
