"""The verdict on a run, as data: was the objective met, at what cost, and what would have been better.

One sentence each, made here once; the terminal, the report, the dashboard and JSON only show them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headgate.core.budget import Budget
from headgate.core.guards import is_capped, is_limited_by_cluster
from headgate.core.objective import By, LatencySlo, Objective
from headgate.core.types import JSON, Decision, Observation, Role
from headgate.core.units import format_duration, instances_in_words, plain
from headgate.journal.findings import Standing, money, total_spent
from headgate.runtime.summary import UNDECIDED, Summary, is_objective_met

CAPPED, CLUSTER, STARTING, UNDECIDED_CAUSE, HELD = "capped", "cluster", "starting", "undecided", "held"
_REMEDIES = {
    "useful": "split the job's work into more partitions, as more instances would find nothing to do",
    "affordable": "allow a higher cost",
}
"""What to do about guards that are not to be loosened."""
NOTABLE = 0.05
"""A fixed size is recommended if it is cheaper by at least this share."""


@dataclass(frozen=True, slots=True)
class FixedSizes:
    """The results of fixed sizes under the load of a run."""

    summaries: Mapping[int, Summary] = field(default_factory=dict)
    how: str = "simulated under the same load"
    missing: str = ""
    """Why there are none."""

    def met(self, objective: Objective, seconds: float) -> dict[int, Summary]:
        """Return the sizes that meet the objective, with their figures."""
        return {
            size: summary for size, summary in self.summaries.items() if is_objective_met(summary, objective, seconds)
        }


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """The verdict on a run; sentences that nothing is known for are empty."""

    is_met: bool | None
    outcome: str
    cost: str
    fixed: str
    limit: str
    advice: str
    cause: str = ""
    """What limited the run: ``capped``, ``cluster``, ``starting``, ``undecided``, ``held`` or ``guard:NAME``; empty:
    nothing."""
    cheapest_fixed: int | None = None
    met_sizes: Sequence[int] = ()
    """The fixed sizes that would have met the objective."""

    @property
    def sentences(self) -> list[str]:
        return [text for text in (self.outcome, self.cost, self.fixed, self.limit, self.advice) if text]

    def to_json(self) -> dict[str, JSON]:
        return {
            "met": self.is_met,
            "outcome": self.outcome,
            "cost": self.cost,
            "fixed": self.fixed,
            "limit": self.limit,
            "advice": self.advice,
            "cause": self.cause,
            "cheapest_fixed": self.cheapest_fixed,
        }


@dataclass(frozen=True, slots=True)
class Limit:
    """What most of the time in violation was spent on."""

    cause: str
    seconds: float
    of_s: float
    """Seconds in violation, of all causes."""
    operator: str
    size: int
    """The largest size that it was violated at."""


def verdict_on(
    objective: Objective,
    seconds: float,
    *,
    summary: Summary | None = None,
    standing: Standing | None = None,
    fixed: FixedSizes | None = None,
    limit: Limit | None = None,
    recommends: bool = False,
    journal: str = "",
) -> RunVerdict:
    """Return the verdict on a run.

    Args:
        objective: The objective, with the bounds of the sizes.
        seconds: How long the run took.
        summary: The figures of the run; without them ``standing`` tells what was missed and spent.
        standing: The budgets and the cost of the run.
        fixed: Fixed sizes under the same load.
        limit: What limited the run, from :func:`find_limit`.
        recommends: Whether decisions were only recommended.
        journal: The journal's file, for the commands that the advice names.
    """
    missed, what = _missed(objective, summary, standing)
    is_met = None if missed is None else missed <= objective.slo.allowed_share
    if summary is not None and is_met and not is_objective_met(summary, objective, seconds):
        is_met, what = False, f"{what}, and it cost more than the limit"
    met = {} if fixed is None else fixed.met(objective, seconds)
    best = min(met.items(), key=lambda found: (found[1].instance_seconds, found[0]), default=None)
    cause = "" if limit is None else limit.cause
    return RunVerdict(
        is_met,
        _outcome(objective, is_met, missed, what, recommends=recommends),
        _cost(summary, standing, seconds),
        _fixed(objective, summary, fixed, best),
        "" if is_met else _limit(limit),
        _advice(objective, is_met, limit, summary, best, fixed, journal, recommends=recommends),
        cause,
        None if best is None else best[0],
        tuple(met),
    )


def judge_run(
    observations: Sequence[Observation],
    decisions: Sequence[Decision],
    objective: Objective,
    summary: Summary,
    *,
    fixed: FixedSizes | None = None,
    operators: Sequence[str] = (),
    journal: str = "",
) -> RunVerdict:
    """Return the verdict on a run whose observations are known."""
    names = operators or tuple(dict.fromkeys(name for seen in observations for name in seen.instances))
    return verdict_on(
        objective,
        observations[-1].at_s - observations[0].at_s if observations else 0.0,
        summary=summary if observations else None,
        fixed=fixed,
        limit=find_limit(observations, decisions, objective, names),
        recommends=is_recommending(decisions),
        journal=journal,
    )


def is_recommending(decisions: Sequence[Decision]) -> bool:
    """Return whether decisions of a run were only recommended."""
    roles = {decision.role for decision in decisions}
    return Role.RECOMMENDED in roles and Role.ACTING not in roles


def find_limit(
    observations: Sequence[Observation],
    decisions: Sequence[Decision],
    objective: Objective,
    operators: Sequence[str],
    largest: Mapping[str, int] | None = None,
) -> Limit | None:
    """Return what the operator that violated its objective longest was limited by; ``None``: it was not violated.

    ``largest`` is the maximum of operators whose bounds are not those of the objective.
    """
    found = [
        _limit_of(observations, decisions, objective, operator, (largest or {}).get(operator, objective.max_instances))
        for operator in operators
    ]
    return max((limit for limit in found if limit is not None), key=lambda limit: limit.of_s, default=None)


def _limit_of(
    observations: Sequence[Observation],
    decisions: Sequence[Decision],
    objective: Objective,
    operator: str,
    maximum: int,
) -> Limit | None:
    slo = objective.slo_of(operator)
    acting = [
        (decision.at_s, decision.verdicts[operator])
        for decision in decisions
        if decision.role is not Role.SHADOW and operator in decision.verdicts
    ]
    seconds: dict[str, float] = defaultdict(float)
    place, before, largest = -1, None, 0
    for observation in observations:
        while place + 1 < len(acting) and acting[place + 1][0] < observation.at_s:
            place += 1
        sample, size = observation.samples.get(operator), observation.instances.get(operator)
        if sample is not None and size is not None and before is not None and slo.violated_by(sample):
            verdict = acting[place][1] if place >= 0 else None
            if size.planned >= maximum or (verdict is not None and is_capped(verdict)):
                cause = CAPPED
            elif size.missing_why or (verdict is not None and is_limited_by_cluster(verdict)):
                cause = CLUSTER
            elif size.ready < size.planned:
                cause = STARTING
            elif verdict is not None and verdict.code in UNDECIDED:
                cause = UNDECIDED_CAUSE
            else:
                stopped = [] if verdict is None or verdict.proposed <= verdict.target else verdict.notes
                guards = [note.guard for note in stopped if note.before > note.after]
                cause = f"guard:{guards[-1]}" if guards else HELD
            seconds[cause] += observation.at_s - before.at_s
            largest = max(largest, size.planned)
        before = observation
    if not seconds:
        return None
    cause, longest_s = max(seconds.items(), key=lambda item: item[1])
    return Limit(cause, longest_s, sum(seconds.values()), operator, largest)


# ------------------------------------------------------------------------------------------------------------ sentences


def _missed(objective: Objective, summary: Summary | None, standing: Standing | None) -> tuple[float | None, str]:
    """Return the share that missed the objective, and what it is a share of."""
    slo = objective.slo
    late = "late" if isinstance(slo, LatencySlo) else "slow or behind"
    if summary is not None:
        if slo.by is By.RECORDS and summary.late_records_pct is not None:
            return summary.late_records_pct / 100, f"of the records {late}"
        if summary.slo_violation_pct is not None:
            return summary.slo_violation_pct / 100, "of the time in violation"
        return None, ""
    budgets = () if standing is None else standing.budgets.values()
    known = [(share, budget) for budget in budgets if (share := missed_in_run(budget)) is not None]
    if not known:
        return None, ""
    share, budget = max(known, key=lambda pair: pair[0] / max(1e-9, pair[1].slo.allowed_share))
    return share, f"of the records {late}" if budget.slo.by is By.RECORDS else "of the time in violation"


def missed_in_run(budget: Budget) -> float | None:
    """Return the share that missed the objective in the whole run, or in the last period where only that is known."""
    found = None if budget.run is None else budget.run.missed_share
    return budget.missed_share if found is None else found


def _outcome(objective: Objective, is_met: bool | None, missed: float | None, what: str, *, recommends: bool) -> str:
    by_itself = " These are the sizes that the job had: decisions were only recommended." if recommends else ""
    if is_met is None or missed is None:
        return f"Whether the objective was met is not known yet.{by_itself}"
    allowed = f"{plain(100 * objective.slo.allowed_share)} % allowed"
    return f"Objective {'met' if is_met else 'not met'}: {plain(100 * missed)} % {what}, {allowed}.{by_itself}"


def _cost(summary: Summary | None, standing: Standing | None, seconds: float) -> str:
    span = format_duration(seconds)
    if summary is not None:
        hours = f"{plain(summary.instance_seconds / 3600)} instance hours"
        amount = hours if summary.cost is None else f"{money(summary.cost)} ({hours})"
        return f"It cost {amount} in {span}."
    if standing is not None and standing.spending is not None:
        spent, known_s = total_spent(standing.spending)
        return f"It cost {money(spent)} in {format_duration(known_s)}."
    return ""


def amount_of(summary: Summary) -> str:
    """Return the cost of a run in words: money where there is a price, else instance hours."""
    if summary.cost is None:
        return f"{plain(summary.instance_seconds / 3600)} instance hours"
    return f"a cost of {money(summary.cost)}"


def difference_in_words(value: float, base: float) -> str:
    """
    >>> difference_in_words(60.0, 50.0), difference_in_words(50.0, 50.0), difference_in_words(40.0, 50.0)
    ('20 % more', 'as much', '20 % less')
    """
    if base <= 0:
        return "–"
    change_pct = 100 * (value / base - 1)
    return "as much" if abs(change_pct) < 0.5 else f"{abs(change_pct):.0f} % {'more' if change_pct > 0 else 'less'}"


def _fixed(
    objective: Objective, summary: Summary | None, fixed: FixedSizes | None, best: tuple[int, Summary] | None
) -> str:
    if fixed is None:
        return ""
    if not fixed.summaries:
        return f"Fixed sizes are not known: {fixed.missing}" if fixed.missing else ""
    largest = max(fixed.summaries)
    if best is None:
        cost = "" if objective.cost is None else " at the allowed cost"
        return f"No fixed size up to {instances_in_words(largest)} would have met it{cost} ({fixed.how})."
    size, found = best
    than = ""
    if summary is not None:
        difference = difference_in_words(found.instance_seconds, summary.instance_seconds)
        than = f", {difference} {'as' if difference.startswith('as') else 'than'} this run"
    return (
        f"The cheapest fixed size that would have met it is {instances_in_words(size)}: {amount_of(found)}{than} "
        f"({fixed.how})."
    )


def _limit(limit: Limit | None) -> str:
    if limit is None:
        return ""
    most = instances_in_words(limit.size)
    reasons = {
        CAPPED: f"the job had its maximum of {most}, which was not enough",
        CLUSTER: "the cluster gave no more instances",
        STARTING: "requested instances were not ready yet",
        UNDECIDED_CAUSE: "the policy had too little to go by",
        HELD: "the policy had chosen a size that was too small",
    }
    why = reasons.get(limit.cause) or f"the guard {limit.cause.partition(':')[2]} stopped the growth"
    return f"What limited it: in {format_duration(limit.seconds)} of {format_duration(limit.of_s)} in violation, {why}."


def _advice(
    objective: Objective,
    is_met: bool | None,
    limit: Limit | None,
    summary: Summary | None,
    best: tuple[int, Summary] | None,
    fixed: FixedSizes | None,
    journal: str,
    *,
    recommends: bool,
) -> str:
    if is_met is None:
        return ""
    if is_met:
        paid_s = 0.0 if summary is None else summary.instance_seconds
        if best is not None and best[1].instance_seconds < (1 - NOTABLE) * paid_s:
            return f"What to do: this load hardly changes; a fixed size of {best[0]} is cheaper."
        return "What to do: compare the recommended sizes before acting." if recommends else "What to do: nothing."
    replay = f"headgate replay {journal}" if journal else "headgate replay"
    cause = "" if limit is None else limit.cause
    most = instances_in_words(limit.size if limit is not None and cause == CAPPED else objective.max_instances)
    guard = cause.partition(":")[2]
    if fixed is not None and fixed.summaries and best is None:
        more = f"allow more than {most}" if objective.cost is None else "allow a higher cost"
        advice = f"{more}, or a longer latency"
    elif cause == CAPPED and best is not None:
        advice = (
            f"raise the minimum, as {instances_in_words(best[0])} from the start are enough; or allow more than {most}"
        )
    elif guard in _REMEDIES:
        advice = _REMEDIES[guard]
    elif guard:
        advice = f"loosen the guard {guard}, or compare settings by {replay}"
    else:
        advice = {
            CAPPED: f"allow more than {most}",
            CLUSTER: "make room in the cluster, or mend what it says of missing instances",
            STARTING: "raise the minimum, or make instances start faster",
            UNDECIDED_CAUSE: "begin with a larger minimum, or with what an earlier run has learned",
        }.get(cause, f"compare other policies on this load by {replay}")
    return f"What to do: {advice}."
