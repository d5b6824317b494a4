"""A trial of rules on worst cases and recorded runs: ratchets, oscillation, dead rules, and missing dead bands."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from headgate.core.objective import LatencySlo, Objective
from headgate.core.types import JSON
from headgate.core.units import format_duration, plain
from headgate.lab.scenario import Progress
from headgate.lab.what_if import CandidatePolicy, RecordedJob
from headgate.rules.model import ALL_OPERATORS, Comparison, Direction, Rule, RulePolicy, ScaleFactor
from headgate.rules.rules_policy import Rules
from headgate.runtime.simulate import SimulationResult, simulate
from headgate.runtime.summary import Summary
from headgate.simulation.batch_job import OPERATOR
from headgate.simulation.micro_batch import MicroBatch
from headgate.workloads import Workload, parse_workload

SERVICE_RATE_PER_S = 100.0
"""Of an instance of the simulated job; loads are relative to it."""
MOST_INSTANCES = 20
"""Where rules allow more, only this many are tried."""
SECONDS = 4 * 3600.0
SETTLED_S = 3600.0
"""The load of every case is constant from here on, or repeats."""
OSCILLATING = 3
"""Changes of direction under a constant load from which on rules oscillate."""
_SHARE_METRICS = ("utilization", "busy_share")
"""Metrics that fall with the number of instances at the same load."""
_LEVEL_WITHIN = 0.15
_LEVEL_STEP_S = 60.0
"""A load is level where the mean of no minute differs by more than this share from that of all."""
_FULLY_USED = 0.8
"""Share of their capacity that the instances that a load needs are busy."""


@dataclass(frozen=True)
class TrialCase:
    """A load, in loads of an instance; ``{most}`` is the most that all instances process."""

    name: str
    workload: str
    is_low_in_the_end: bool = False
    is_constant: bool = False


def trial_cases(most: int) -> list[TrialCase]:
    """Return the worst cases for rules that may scale to this many instances."""
    top, low = 0.8 * most * SERVICE_RATE_PER_S, 0.15 * SERVICE_RATE_PER_S
    bell = f"gaussian:base={low:g},peak={top:g},center=30m,sigma=6m"
    levels = (0.3, 0.6, 0.9)
    return [
        TrialCase("rises once and falls", bell, is_low_in_the_end=True),
        TrialCase("short peaks", f"periodic:base={low:g},peak={top:g},high=30s,low=570s"),
        TrialCase("swings within ten minutes", f"sine:mean={top / 2:g},amplitude={top / 2 - low:g},period=10m"),
        *(
            TrialCase(f"constant at {level:.0%} of all instances", f"constant:{level * top:g}", is_constant=True)
            for level in levels
        ),
    ]


@dataclass(frozen=True)
class TrialRun:
    """The result of a case."""

    case: TrialCase
    changes: Sequence[tuple[float, int]]
    """Time and change of each change of size."""
    most: int
    last: int
    acted: frozenset[str]
    """Rules that changed the size."""
    reversals: int
    """Changes that reverse the one before."""
    summary: Summary
    needed_in_the_end: int | None = None
    """Instances that the load of the last quarter of a recorded run needs."""

    def row(self) -> dict[str, JSON]:
        late_pct = self.summary.late_records_pct
        return {
            "load": self.case.name,
            "late_records_pct": None if late_pct is None else round(late_pct, 2),
            "mean_instances": round(self.summary.mean_instances, 2),
            "changes": len(self.changes),
            "reversals": self.reversals,
            "most_instances": self.most,
            "last_instances": self.last,
            "rules_that_acted": ", ".join(sorted(self.acted)) or "none",
        }


@dataclass(frozen=True)
class RulesTrial:
    """The runs of the rules of an operator, and what is wrong with them."""

    operator: str
    runs: Sequence[TrialRun]
    findings: Sequence[str]


@dataclass(frozen=True)
class RecordedRun:
    """A run of a journal, under whose load rules are tried as well."""

    name: str
    jobs: Mapping[str, RecordedJob]
    """By operator."""
    objective: Objective

    def job_for(self, operator: str) -> RecordedJob | None:
        """Return the job that rules for an operator are tried on: that of its name, or the only one."""
        return self.jobs.get(operator) or (next(iter(self.jobs.values())) if len(self.jobs) == 1 else None)


def try_rules(
    policy: RulePolicy, progress: Progress = lambda _: None, recorded: RecordedRun | None = None
) -> list[RulesTrial]:
    """Run the rules of each operator on a simulated job with a batch every 5 s, and report what goes wrong.

    With a recorded run they are also tried under its load, on a job that is calibrated to it.
    """
    named = dict.fromkeys(rule.operator for rule in policy.rules)
    operators = [name for name in named if name != ALL_OPERATORS] or list(named)
    trials = []
    for place, operator in enumerate(operators):
        rules = [
            replace(rule, operator=OPERATOR) for rule in policy.rules if rule.operator in (operator, ALL_OPERATORS)
        ]
        known = [rule for rule in rules if not any(trigger.metric in policy.metrics for trigger in rule.triggers)]
        untried = [
            f"{rule.name!r} was not tried: it depends on a metric of your own." for rule in rules if rule not in known
        ]
        cases = trial_cases(_most_instances(known))
        runs = []
        job = None if recorded is None else recorded.job_for(operator)
        if recorded is not None and job is not None:
            runs.append(_replayed(tuple(known), job, recorded))
        elif recorded is not None:
            untried.append(
                f"not replayed: {recorded.name} has the operators {', '.join(recorded.jobs)}, and not {operator!r}."
            )
        for case in cases:
            runs.append(_run(tuple(known), case))
            progress((place + min(1.0, len(runs) / len(cases))) / len(operators))
        trials.append(RulesTrial(operator, runs, [*_findings(known, runs), *untried]))
    return trials


def _most_instances(rules: Sequence[Rule]) -> int:
    limits = [
        rule.limit.instances(1, rule.direction) for rule in rules if rule.limit and rule.direction is Direction.OUT
    ]
    return min(MOST_INSTANCES, max([2, *limits]))


def _run(rules: tuple[Rule, ...], case: TrialCase) -> TrialRun:
    result = simulate(
        Rules(RulePolicy(rules)),
        parse_workload(case.workload),
        objective=Objective(LatencySlo(10.0), 1, MOST_INSTANCES),
        service_rate_per_s=SERVICE_RATE_PER_S,
        model=MicroBatch(trigger_interval_s=5.0, overhead_s=0.2),
        startup_s=20.0,
        interval_s=10.0,
        seconds=SECONDS,
    )
    settled = [change for at_s, change in _changes(result) if at_s >= SETTLED_S]
    reversals = sum(before * after < 0 for before, after in pairwise(settled))
    return _run_of(case, result, result.summary, reversals)


def _replayed(rules: tuple[Rule, ...], job: RecordedJob, recorded: RecordedRun) -> TrialRun:
    """Run rules under a recorded load; only changes under a level load count as reversals."""
    summary, result = job.under(CandidatePolicy("rules", {"rules": str(RulePolicy(rules))}), recorded.objective)
    load, seconds = job.recording.load, job.recording.seconds
    from_s = 0.75 * seconds
    busy = load.arrivals(from_s, seconds) / max(1e-9, seconds - from_s) / job.calibration.times.rate_per_s
    reversals = sum(
        before * after < 0 and _is_level(load, max(0.0, before_s - _LEVEL_STEP_S), after_s)
        for (before_s, before), (after_s, after) in pairwise(_changes(result))
    )
    run = _run_of(TrialCase(recorded.name, load.describe()), result, summary, reversals)
    return replace(run, needed_in_the_end=max(1, math.ceil(busy / _FULLY_USED)))


def _is_level(load: Workload, from_s: float, to_s: float) -> bool:
    steps = max(1, round((to_s - from_s) / _LEVEL_STEP_S))
    step_s = (to_s - from_s) / steps
    counts = [load.arrivals(from_s + index * step_s, from_s + (index + 1) * step_s) for index in range(steps)]
    mean = sum(counts) / steps
    return all(abs(count - mean) <= _LEVEL_WITHIN * mean for count in counts)


def _changes(result: SimulationResult) -> list[tuple[float, int]]:
    return [
        (decision.at_s, decision.verdicts[OPERATOR].change) for decision in result.decisions if not decision.is_hold
    ]


def _run_of(case: TrialCase, result: SimulationResult, summary: Summary, reversals: int) -> TrialRun:
    acting = [decision.verdicts[OPERATOR] for decision in result.decisions if not decision.is_hold]
    sizes = [seen.instances[OPERATOR].planned for seen in result.observations]
    return TrialRun(
        case,
        _changes(result),
        max(sizes),
        sizes[-1],
        frozenset(str(verdict.numbers["rule"]) for verdict in acting if "rule" in verdict.numbers),
        reversals,
        summary,
    )


def _findings(rules: Sequence[Rule], runs: Sequence[TrialRun]) -> Iterator[str]:
    acted = frozenset[str]().union(*(run.acted for run in runs))
    for run in runs:
        if run.case.is_low_in_the_end and run.last == run.most > 1:
            yield (
                f"ratchet: the size rises to {run.most} and stays there for hours after the load has fallen to a "
                "seventh of what an instance processes."
            )
        only_grew = all(change > 0 for _, change in run.changes)
        if run.needed_in_the_end is not None and only_grew and run.last >= 2 * run.needed_in_the_end:
            yield (
                f"ratchet: under the load of {run.case.name} the size only grows, and ends at {run.last} where the "
                f"last quarter of the run needs {run.needed_in_the_end}."
            )
        if run.case.is_constant and run.reversals >= OSCILLATING:
            yield (
                f"oscillation: under a load that is {run.case.name} the size is reversed {run.reversals} times in "
                f"{format_duration(SECONDS - SETTLED_S)}, by {', '.join(repr(name) for name in sorted(run.acted))}."
            )
        if run.needed_in_the_end is not None and run.reversals >= OSCILLATING:
            yield (
                f"oscillation: under the load of {run.case.name} the size is reversed {run.reversals} times while the "
                f"load is level, by {', '.join(repr(name) for name in sorted(run.acted))}."
            )
    for rule in rules:
        if rule.name not in acted:
            yield f"dead rule: {rule.name!r} changed no size under any of these loads."
    yield from _dead_bands(rules)


def _dead_bands(rules: Sequence[Rule]) -> Iterator[str]:
    """Propose thresholds for scale-in rules that hold again after the smallest scale-out at the same load."""
    simple = [rule for rule in rules if len(rule.triggers) == 1 and rule.triggers[0].metric in _SHARE_METRICS]
    for out in (rule for rule in simple if rule.direction is Direction.OUT):
        for back in (rule for rule in simple if rule.direction is Direction.IN):
            high, low = out.triggers[0], back.triggers[0]
            if high.key != low.key or (high.comparison, low.comparison) != (Comparison.ABOVE, Comparison.BELOW):
                continue
            after = _after(out.factor)
            most = high.threshold.number / after
            if low.threshold.number > most:
                yield (
                    f"dead band: {out.name!r} scales from 1 to {after}, where the load at which it acts uses "
                    f"{plain(100 * most)} %, and {back.name!r} acts below {plain(100 * low.threshold.number)} %; "
                    f"write below: {plain(round(100 * 0.9 * most, 1))} % there."
                )


def _after(factor: ScaleFactor) -> int:
    return factor.applied(1, Direction.OUT)
