# SPDX-License-Identifier: Apache-2.0
"""
The order, number of rounds and duration of the run. A row's contenders alternate (A B C A B C ...). The rounds of a
row are decided when its turn comes, from the time left and the actual cost of earlier rows: a noisy machine gets
fewer rounds, not a longer run.
"""

import time

from . import machine, report, rows as table, stats

LEAST_ROUNDS = 2


def point_cost(bench, contender, row):
    """Approximate seconds for one point."""
    time_s = row.time_s or bench.time_s
    if row.kind == "idle":
        return time_s + 1.5
    if contender == "fio":
        return max(1.0, time_s) + bench.warmup_s + 0.6
    if contender == "spdk" or contender.startswith("spdk>"):
        return 1.0 + max(1.0, round(time_s)) + 0.4
    return time_s + bench.warmup_s + 0.15


def able(bench, row):
    return [c for c in row.contenders if not bench.missing(c, row.load)]


def round_cost(bench, row):
    if row.source:
        return 0.0
    return sum(point_cost(bench, c, row) for c in able(bench, row)) * max(1, len(row.rates))


class Plan:
    """The remaining rows and their time budget."""

    def __init__(self, bench, names, scenarios):
        self.bench = bench
        self.rows = [r for r in table.ROWS if r.name in names]
        needed = {r.source for r in self.rows if r.source} - {r.name for r in self.rows}
        self.rows = [table.by_name(n) for n in sorted(needed)] + self.rows
        if bench.options.quick:
            self.rows = [table.quick(r) for r in self.rows]
        self.scenarios = scenarios
        self.deadline = bench.began + bench.options.budget_s
        self.estimated = self.spent = 0.0
        self.reserve_s = 0.0    # minimum time of the later rows
        bench.is_budget_spent = self.is_spent

    def factor(self):
        """Actual over estimated time: starts of programs, retries."""
        return max(1.0, self.spent / self.estimated) if self.estimated > 5 else 1.0

    def wanted_rounds(self, row):
        return min(row.rounds, self.bench.options.rounds) if row.rounds else self.bench.options.rounds

    def least_rounds(self, row):
        return min(LEAST_ROUNDS, self.wanted_rounds(row))

    def later_cost(self, index, rounds_of):
        cost = sum(rounds_of(r) * round_cost(self.bench, r) for r in self.rows[index:])
        return cost * self.factor() + sum(s.seconds for s in self.scenarios)

    def rounds_for(self, index):
        """Rounds for a row if every later row gets as many, where possible."""
        row, left = self.rows[index], self.deadline - time.monotonic()
        for rounds in range(self.wanted_rounds(row), self.least_rounds(row), -1):
            if self.later_cost(index, lambda r: min(rounds, self.wanted_rounds(r))) <= left:
                return rounds
        return self.least_rounds(row)

    def is_spent(self):
        """No time left for repeats: later rows need it."""
        return time.monotonic() > self.deadline - self.reserve_s

    def eta_s(self, index):
        return self.later_cost(index, lambda r: min(self.wanted_rounds(r), max(
            self.least_rounds(r), self.bench.options.rounds)))

    def charge(self, row, rounds, seconds):
        self.estimated += rounds * round_cost(self.bench, row)
        self.spent += seconds


def clock(seconds):
    return "%d:%02d" % (seconds // 60, seconds % 60)


def run_row(bench, row, rounds, least):
    """Runs all points of one row, alternating; a contender that failed twice is left out."""
    failures = {}
    loads = [(row.name, row.load)]
    if row.kind == "curve":
        loads = [("%s@%s" % (row.name, r or "max"), row.load.with_rate(r)) for r in row.rates]
    for round_ in range(rounds):
        if round_ >= least and bench.is_budget_spent():
            return round_
        for name, load in loads:
            for contender in able(bench, row):
                if failures.get(contender, 0) >= 2:
                    continue
                done = bench.point(name, contender, round_, lambda: bench.measure(
                    contender, load, row.time_s or None, row.kind))
                if done is None:
                    failures[contender] = failures.get(contender, 0) + 1
    return rounds


def disk_is_the_limit(bench):
    """Whether fio is slower than weft from memory; otherwise the file row would judge the network."""
    local = stats.spread(bench.values("file-32", "fio", "iops").values())
    memory = stats.spread(bench.values("randread-32", "weft", "iops").values())
    return not (local and memory) or local.median <= 0.9 * memory.median


def check_values(bench, source, check):
    """The ratio (or the figure itself) in each round."""
    above = bench.values(source, *check.above)
    if check.minus:
        less = bench.values(source, *check.minus)
        above = {r: v - less[r] for r, v in above.items() if r in less}
    if check.below is None:
        return list(above.values())
    return stats.ratios(above, bench.values(source, *check.below))


def check_result(bench, row, check):
    source = row.source or row.name
    reason = ""
    for side in (check.above, check.below, check.minus):
        if side and not reason:
            reason = bench.missing(side[0], row.load)
    if not reason and check.when == "disk is the limit" and not disk_is_the_limit(bench):
        reason = "the disk is not the limit here: fio is as fast as weft from memory"
    sides = [s[0] for s in (check.above, check.below, check.minus) if s]
    return report.check(check.title, stats.spread(check_values(bench, source, check)), check.relation, check.limit,
                        key=check.key, reason=reason, is_ratio=check.below is not None,
                        is_noisy=bench.is_noisy(source, sides))


def row_result(bench, row):
    source = row.source or row.name
    noisy, thrown = bench.noisy_count(source)
    figures = {}
    for contender in row.contenders:
        spreads = {p: stats.spread(bench.values(source, contender, p).values()) for p in report.FIGURES}
        spreads = {p: s for p, s in spreads.items() if s}
        if spreads:
            figures[contender] = spreads
    return report.row_result(row.name, row.title, figures, [check_result(bench, row, c) for c in row.checks],
                             shown=row.figure, load=row.load.describe(), noisy=noisy, thrown=thrown)


def curve_result(bench, row):
    series = {}
    for contender in able(bench, row):
        for rate in row.rates:
            name = "%s@%s" % (row.name, rate or "max")
            paths = ("iops", "target_cpu_percent", "target_busy_percent", "latency_us.p50", "latency_us.p99")
            spreads = {p: stats.spread(bench.values(name, contender, p).values()) for p in paths}
            if spreads["iops"]:
                series.setdefault(contender, []).append(dict(
                    {p: s.as_dict() for p, s in spreads.items() if s}, offered=rate or "max"))
    noisy = [bench.noisy_count("%s@%s" % (row.name, r or "max")) for r in row.rates]
    return report.row_result(row.name, row.title, {}, [], shown=row.figure, load=row.load.describe(), series=series,
                             noisy=sum(n for n, _ in noisy), thrown=sum(t for _, t in noisy))


def result_of(bench, row):
    return curve_result(bench, row) if row.kind == "curve" else row_result(bench, row)


def run_all(bench, plan, done):
    """Runs the plan; calls done(result) after each row."""
    for index, row in enumerate(plan.rows):
        began = time.monotonic()
        rounds = plan.rounds_for(index)
        reasons = sorted({"%s: %s" % (c, bench.missing(c, row.load)) for c in row.contenders
                          if bench.missing(c, row.load)})
        if not row.source and able(bench, row):
            bench.park_all()
            reading = bench.noise.check("before " + row.name)
            print("[%d/%d, %s left] %s: %d x %s%s" % (
                index + 1, len(plan.rows) + len(plan.scenarios), clock(plan.eta_s(index)), row.title, rounds,
                ", ".join(able(bench, row)), " (without %s)" % "; ".join(reasons) if reasons else ""), flush=True)
            print("    noise: " + machine.noise_text(reading), flush=True)
            plan.reserve_s = plan.later_cost(index + 1, plan.least_rounds)
            try:
                rounds = run_row(bench, row, rounds, plan.least_rounds(row))
            except KeyboardInterrupt:
                done(result_of(bench, row))     # the points so far
                raise
            plan.charge(row, rounds, time.monotonic() - began)
        done(result_of(bench, row))
    bench.stop_targets()
    for index, scenario in enumerate(plan.scenarios):
        print("[%d/%d] %s, about %s" % (len(plan.rows) + index + 1, len(plan.rows) + len(plan.scenarios),
                                        scenario.title, clock(scenario.seconds)), flush=True)
        # Repeats may add half of its time; the time of other rows is not used.
        plan.deadline, plan.reserve_s = time.monotonic() + 1.5 * scenario.seconds, 0.0
        for result in scenario.run(bench) or []:
            done(result)
        bench.stop_targets()
