"""What a policy makes of a case, whether its objective could have been met there, and who else meets it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from headgate.core.errors import HeadgateError
from headgate.core.objective import By, Objective, objective_from
from headgate.core.types import Instant, Proposal, Target
from headgate.core.window import Window
from headgate.forecast.base import FloatArray
from headgate.lab.experiments.document import parse_experiment
from headgate.lab.experiments.run_case import Case, load_of, model_of, simulate_case
from headgate.lab.measures.clairvoyant import needed_instances, paid_instances
from headgate.lab.measures.measures import STEP_S, step_rates_per_s
from headgate.policies.frame.base import Context, GuardSettings, PolicyBase
from headgate.policies.frame.settings import Settings
from headgate.runtime.simulate import SimulationResult, micro_batch
from headgate.runtime.summary import Summary, is_objective_met
from headgate.workloads import Workload

RIVALS = ("hpa", "reactive", "trigger-ratio")
"""Simple policies: where one of them meets an objective, meeting it is not too much to ask."""
DEAR = 1.3
"""From this multiple of the clairvoyant's cost on it is worth to know whether that cost can be attained."""


@dataclass(frozen=True, order=True)
class Attack:
    """A case to be judged: the text of its experiment file, and with whom the policy is compared."""

    text: str
    rivals: tuple[str, ...] = RIVALS


@dataclass(frozen=True)
class AttackOutcome:
    """What a case came to; costs are instance-hours over those of the cheapest that knows the load and meets it."""

    missed_pct: float
    allowed_pct: float
    cost: float
    is_possible: bool = True
    """Whether somebody who knows the load meets the objective."""
    met_by: Mapping[str, float] = field(default_factory=dict)
    """The cost of each rival that meets the objective; only where the policy does not."""
    error: str | None = None

    @property
    def is_broken(self) -> bool:
        return self.is_possible and self.missed_pct > self.allowed_pct

    @property
    def harm(self) -> float:
        """How bad it is: broken where others meet it, then broken, then dear."""
        if self.error is not None or not self.is_possible:
            return -1.0
        if not self.is_broken:
            return min(9.0, max(0.0, self.cost - 1))
        over = (self.missed_pct - self.allowed_pct) / max(1e-9, 100 - self.allowed_pct)
        return (20.0 if self.met_by else 10.0) + 9 * min(1.0, over)

    @property
    def kind(self) -> str:
        """In words."""
        if not self.is_broken:
            return "dear"
        return "broken, others meet it" if self.met_by else "broken"


class _Schedule(PolicyBase[Settings]):
    """Plays the sizes that a scaler takes that knows the load."""

    name = "clairvoyant"
    summary = "Knows the load."
    Settings = Settings
    guards = GuardSettings(pending_timeout_s=0.0, recovery_timeout_s=0.0, stale_after_s=1e9)

    def __init__(self, context: Context, sizes: FloatArray) -> None:
        super().__init__(Settings(), context)
        self._sizes = sizes

    def decide(self, now: Instant, window: Window) -> Proposal:
        size = int(self._sizes[min(int(now / STEP_S), len(self._sizes) - 1)])
        return Proposal(dict.fromkeys(window.operators, Target(size, "known", "the load is known")))


@dataclass(frozen=True)
class _Plan:
    sizes: FloatArray

    def make(self, context: Context) -> _Schedule:
        return _Schedule(context, self.sizes)


def judge(attack: Attack) -> AttackOutcome:
    """Run a case; what fails becomes an outcome with its error."""
    try:
        (case,) = parse_experiment(attack.text, Path("case.yaml")).cases()
        objective = objective_from(case.objective_data)
        load = load_of(case, Path())
        ours = simulate_case(case, objective, load, Path()).summary
    except HeadgateError as error:
        return AttackOutcome(0.0, 0.0, 0.0, error=str(error))
    allowed_pct, missed = 100 * objective.slo.allowed_share, missed_pct(ours, objective)
    sizes = known_sizes(case, objective, load)
    ideal_s = float(sizes.sum() * STEP_S)
    if missed <= allowed_pct and ours.instance_seconds <= DEAR * ideal_s:
        return AttackOutcome(missed, allowed_pct, ours.instance_seconds / ideal_s)
    attained_s = [
        summary.instance_seconds
        for summary in _of_those_who_know(case, objective, load, sizes)
        if is_objective_met(summary, objective, case.seconds)
    ]
    reference_s = min(attained_s, default=ideal_s)
    outcome = AttackOutcome(missed, allowed_pct, ours.instance_seconds / reference_s, is_possible=bool(attained_s))
    if not outcome.is_broken:
        return outcome
    met_by = {}
    for rival in attack.rivals:
        if rival != case.policy:
            theirs = simulate_case(replace(case, policy=rival, settings={}), objective, load, Path()).summary
            if is_objective_met(theirs, objective, case.seconds):
                met_by[rival] = theirs.instance_seconds / reference_s
    return replace(outcome, met_by=met_by)


def missed_pct(summary: Summary, objective: Objective) -> float:
    """Return what a run missed: late records where the objective counts records, otherwise time in violation."""
    late = summary.late_records_pct if objective.slo.by is By.RECORDS else None
    return float((summary.slo_violation_pct if late is None else late) or 0.0)


def known_sizes(case: Case, objective: Objective, load: Workload) -> FloatArray:
    """Return the paid instances of the clairvoyant, per ``STEP_S``."""
    model = model_of(case)
    needed = needed_instances(
        step_rates_per_s(load, case.seconds, STEP_S),
        STEP_S,
        service_rate_per_s=case.rate_per_s,
        job=None if model == "queue" else micro_batch(model),
        bound_s=objective.late_after_s,
        bounds=(objective.min_instances, objective.max_instances),
    )
    return paid_instances(needed, STEP_S, case.startup_s)


def _of_those_who_know(case: Case, objective: Objective, load: Workload, sizes: FloatArray) -> Iterator[Summary]:
    """Yield what the clairvoyant comes to, with an instance to spare as well, and the fixed size of its peak."""
    highest = float(objective.max_instances)
    for plan in (sizes, np.minimum(highest, sizes + 1), np.full(len(sizes), sizes.max())):
        yield _played(case, objective, load, plan).summary


def _played(case: Case, objective: Objective, load: Workload, sizes: FloatArray) -> SimulationResult:
    return simulate_case(replace(case, start=int(sizes[0])), objective, load, Path(), policy=_Plan(sizes))
