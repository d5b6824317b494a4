"""A trial of rules on simulated worst cases: ratchets, oscillation, rules that never act, and missing dead bands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from headgate.core.objective import LatencySlo, Objective
from headgate.core.types import JSON
from headgate.core.units import plain
from headgate.lab.scenario import Progress
from headgate.rules.model import ALL_OPERATORS, Comparison, Direction, Rule, RulePolicy, ScaleFactor
from headgate.rules.rules_policy import Rules
from headgate.runtime.simulate import simulate
from headgate.simulation.micro_batch import MicroBatch
from headgate.workloads import parse_workload

OPERATOR = "job"
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

    @property
    def reversals(self) -> int:
        """Changes after the load has settled that reverse the one before."""
        settled = [change for at_s, change in self.changes if at_s >= SETTLED_S]
        return sum(before * after < 0 for before, after in pairwise(settled))

    def row(self) -> dict[str, JSON]:
        return {
            "load": self.case.name,
            "changes": len(self.changes),
            "reversals_after_1h": self.reversals,
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


def try_rules(policy: RulePolicy, progress: Progress = lambda _: None) -> list[RulesTrial]:
    """Run the rules of each operator on a simulated job with a batch every 5 s, and report what goes wrong."""
    named = dict.fromkeys(rule.operator for rule in policy.rules)
    operators = [name for name in named if name != ALL_OPERATORS] or list(named)
    trials = []
    for place, operator in enumerate(operators):
        rules = [
            replace(rule, operator=OPERATOR) for rule in policy.rules if rule.operator in (operator, ALL_OPERATORS)
        ]
        known = [rule for rule in rules if not any(trigger.metric in policy.metrics for trigger in rule.triggers)]
        cases = trial_cases(_most_instances(known))
        runs = []
        for case in cases:
            runs.append(_run(tuple(known), case))
            progress((place + len(runs) / len(cases)) / len(operators))
        untried = [
            f"{rule.name!r} was not tried: it depends on a metric of your own." for rule in rules if rule not in known
        ]
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
    acting = [(decision.at_s, decision.verdicts[OPERATOR]) for decision in result.decisions if not decision.is_hold]
    sizes = [seen.instances[OPERATOR].planned for seen in result.observations]
    return TrialRun(
        case,
        [(at_s, verdict.change) for at_s, verdict in acting],
        max(sizes),
        sizes[-1],
        frozenset(str(verdict.numbers["rule"]) for _, verdict in acting if "rule" in verdict.numbers),
    )


def _findings(rules: Sequence[Rule], runs: Sequence[TrialRun]) -> Iterator[str]:
    acted = frozenset[str]().union(*(run.acted for run in runs))
    for run in runs:
        if run.case.is_low_in_the_end and run.last == run.most > 1:
            yield (
                f"ratchet: the size rises to {run.most} and stays there for hours after the load has fallen to a "
                "seventh of what an instance processes."
            )
        if run.case.is_constant and run.reversals >= OSCILLATING:
            yield (
                f"oscillation: under a load that is {run.case.name} the size is reversed {run.reversals} times in "
                f"three hours, by {', '.join(repr(name) for name in sorted(run.acted))}."
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
