"""Policies ranked over all contests of a lab run, by cost where the objective is met.

A contest is a workload with a job and an objective. Fixed sizes do not take part; the cheapest of them that meets the
objective is a reference: the cost with perfect knowledge of a fixed size.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from statistics import mean, median
from typing import Any, TypeAlias

from headgate.core.objective import By, Objective, objective_from
from headgate.core.types import JSON
from headgate.lab.experiments.results import LabResults
from headgate.lab.experiments.summary import COST, RepeatGroup
from headgate.research.promises.tables import tolerated
from headgate.simulation.micro_batch import parse_service_model
from headgate.workloads.day_load import DAY_SHAPES, named_day

FIXED = "static"
BEST_FIXED = "(best fixed afterwards)"
CLOSE = 1.03
"""A policy within this factor of the cost of the first counts as first."""
Contest: TypeAlias = tuple[str, str, str]


@dataclass(frozen=True)
class LeagueRow:
    """A policy over all contests."""

    policy: str
    place: float | None
    """Its mean place in contests; policies that do not meet the objective share the last place."""
    contests: int
    met: int
    """Contests in which every repeat met the objective."""
    nearly_met: int
    """Contests in which it was met on average over the repeats, within the tolerance."""
    close: int
    """Contests in which it counts as first."""
    cost: float | None
    """Its median cost over that of the first, in contests in which it met the objective."""
    worst_cost: float | None
    late_pct: float | None
    """On average over all contests."""

    def to_json(self) -> dict[str, JSON]:
        return {
            "policy": self.policy,
            "place": None if self.place is None else round(self.place, 1),
            "kept %": _pct(self.met, self.contests),
            "nearly %": _pct(self.nearly_met, self.contests),
            "first %": _pct(self.close, self.contests),
            "cost": _rounded(self.cost),
            "worst": _rounded(self.worst_cost),
            "late %": _rounded(self.late_pct),
        }


class League:
    """The groups of a lab run by contest; with ``nearly`` an objective counts as met within the tolerance."""

    def __init__(self, results: LabResults, *, nearly: bool = False) -> None:
        experiment: Mapping[str, Any] = results.experiment
        self._groups, self._nearly = results.groups, nearly
        self._objectives = {entry["name"]: objective_from(entry["objective"]) for entry in experiment["objectives"]}
        self._jobs: dict[str, Mapping[str, Any]] = {entry["name"]: entry for entry in experiment["jobs"]}
        self._kinds = {entry["name"]: entry.get("kind") for entry in experiment["workloads"]}
        self.made_up = {
            entry["name"] for entry in experiment["workloads"] if named_day(entry["workload"]) in DAY_SHAPES
        }
        self.fixed = {entry["name"] for entry in experiment["policies"] if entry["policy"] == FIXED}
        took_part = {entry.policy for entry in self._groups} - self.fixed
        self.policies = [entry["name"] for entry in experiment["policies"] if entry["name"] in took_part]

    @cached_property
    def contests(self) -> dict[Contest, dict[str, RepeatGroup]]:
        """The groups of each contest, with the cheapest fixed size that met its objective."""
        found: dict[Contest, dict[str, RepeatGroup]] = {}
        for group in self._groups:
            there = found.setdefault(group.contest, {})
            if group.policy not in self.fixed:
                there[group.policy] = group
            elif self.is_met(group):
                best = there.get(BEST_FIXED)
                there[BEST_FIXED] = group if best is None else min(best, group, key=hours)
        return found

    def is_met(self, group: RepeatGroup) -> bool:
        return self._is_nearly_met(group) if self._nearly else group.is_met

    def _is_nearly_met(self, group: RepeatGroup) -> bool:
        return is_nearly_met(group, self._objectives[group.objective])

    def late_pct(self, group: RepeatGroup) -> float | None:
        return missed_pct(group, self._objectives[group.objective])

    @cached_property
    def costs(self) -> dict[Contest, dict[str, float]]:
        """Costs over that of the first, of policies that met the objective; empty where no policy did."""
        return {contest: self._against_first([contest]) for contest in self.contests}

    @cached_property
    def workload_costs(self) -> dict[str, dict[str, float]]:
        """The same by workload, of policies that met every objective that any policy met."""
        workloads = dict.fromkeys(workload for workload, _, _ in self.contests)
        found = {
            name: [contest for contest in self.contests if contest[0] == name and self.costs[contest]]
            for name in workloads
        }
        return {name: self._against_first(contests) for name, contests in found.items() if contests}

    def _against_first(self, contests: list[Contest]) -> dict[str, float]:
        own = {
            policy: [self.contests[contest].get(policy) for contest in contests]
            for policy in (*self.policies, BEST_FIXED)
        }
        sums = {
            policy: sum(hours(group) for group in groups if group is not None)
            for policy, groups in own.items()
            if all(group is not None and self.is_met(group) for group in groups)
        }
        least = min((cost for policy, cost in sums.items() if policy != BEST_FIXED), default=None)
        return {policy: cost / least for policy, cost in sums.items()} if least else {}

    def standings(self) -> list[LeagueRow]:
        """Return the rows of all policies, the best first; the fixed sizes at the end."""
        ranked = sorted((self._standing(name) for name in self.policies), key=lambda row: (row.place or 0, row.policy))
        return [*ranked, self._standing(BEST_FIXED)] if self.fixed else ranked

    def _standing(self, policy: str) -> LeagueRow:
        is_fixed = policy == BEST_FIXED
        there = [contest for contest, groups in self.contests.items() if is_fixed or policy in groups]
        groups = [group for contest in there if (group := self.contests[contest].get(policy)) is not None]
        costs = [found[policy] for contest in there if policy in (found := self.costs[contest])]
        late = [pct for group in groups if (pct := self.late_pct(group)) is not None]
        return LeagueRow(
            policy,
            None if is_fixed else mean(self._place(contest, policy) for contest in there),
            len(there),
            sum(self.is_met(group) for group in groups),
            sum(self._is_nearly_met(group) for group in groups),
            sum(cost <= CLOSE for cost in costs),
            median(costs) if costs else None,
            max(costs) if costs else None,
            mean(late) if late else None,
        )

    def _place(self, contest: Contest, policy: str) -> int:
        costs = self.costs[contest]
        if policy not in costs:
            return len(self.policies)
        return 1 + sum(cost < costs[policy] for other, cost in costs.items() if other in self.policies)

    def close_workloads(self, policy: str, *, traces_only: bool) -> tuple[int, int]:
        """Return on how many workloads a policy counts as first, and of how many whose objectives any policy met."""
        judged = [name for name in self.workload_costs if not (traces_only and name in self.made_up)]
        return sum(self.workload_costs[name].get(policy, math.inf) <= CLOSE for name in judged), len(judged)

    def traits(self, contest: Contest) -> list[str]:
        """Return the traits of a contest, in words that follow "good on"."""
        workload, job, _ = contest
        kind = self._kinds.get(workload)
        return [*([f"{kind} loads"] if kind else []), *job_traits(self._jobs[job])]


def is_nearly_met(group: RepeatGroup, objective: Objective) -> bool:
    """Whether a policy met the objective on average, within the tolerance of ``promises``.

    A few hours are a sample, so a policy that aims at the objective misses it slightly half of the time.
    """
    missed = missed_pct(group, objective)
    return not group.failed and missed is not None and missed <= 100 * tolerated(objective.slo.allowed_share)


def missed_pct(group: RepeatGroup, objective: Objective) -> float | None:
    """Return the mean late percentage, as the objective counts it."""
    by_records = objective.slo.by is By.RECORDS and group.figures["late_records_pct"] is not None
    found = group.figures["late_records_pct" if by_records else "slo_violation_pct"]
    return None if found is None else found.mean


def hours(group: RepeatGroup) -> float:
    found = group.figures[COST]
    return math.inf if found is None else found.mean


def job_traits(job: Mapping[str, Any]) -> list[str]:
    """Return the traits of a job of an experiment."""
    service = None if job.get("service") is None else parse_service_model(job["service"])
    return [
        f"{'linear' if service is None else service.name} jobs",
        "jobs that pause" if service is not None and service.pause_s else "jobs without a pause",
        "skewed jobs" if service is not None and service.skew else "jobs without skew",
        f"a start-up of {job['startup_s']:g} s",
    ]


def _pct(part: int, whole: int) -> int | None:
    return round(100 * part / whole) if whole else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
