"""The figures of a run, live or simulated, by records and by time, computed from the course of the run.

A simulated run is scored on what truly happened, whatever its readings said and however often it was observed. A live
run is scored on what its engine counted: the batches and the counters of its readings.
What was never known is ``None``.

- Every batch has its oldest record, and every reading has the oldest that is not done yet: from its arrival on it aged
  second by second. That is enough to know how long any bound was exceeded, however rare the readings are.
- Where an engine counts late records and arrivals, their share is a difference; otherwise it follows from the batches.
- Where there are no batches, a reading stands for the time since the one before it, and so do rates and sizes.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise

import numpy as np

from headgate.core.budget import BudgetKeeper, paid_instances
from headgate.core.course import Course, Rows, above, rows
from headgate.core.objective import HOUR_S, By, LatencySlo, Objective, Slo, SlowShareSlo, ThroughputSlo
from headgate.core.types import JSON, Batch, Decision, Instances, Observation, Role, Sample, Verdict
from headgate.journal.findings import Standing, purse_of

FORMAT_VERSION = 3
"""Of the report as plain data. 2: scored on records and on what truly happened; before, on readings. 3: with the error
budget, and what was paid."""
MOST_BATCHES = 500_000
"""The most batches that are retained where observations are bounded: four weeks of a trigger of 5 s."""
_DECISIONS_SHARE = 5
"""Observations per decision, at least, in what is retained."""
_DIGITS = 6
"""Decimals of the numbers in a report: a microsecond, a millionth of a record."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The figures by which runs are compared."""

    slo_violation_pct: float | None
    """Share of the time in which the objective was violated: the oldest record that was not done was older than the
    bound, too large a share was slow, or less was got through than arrived. A job without instances violates any."""
    late_records_pct: float | None
    """Share of the records whose result came, or is still to come, later than the bound; of a latency objective."""
    qos_pct: float | None
    """Share of the time in which the job was not behind: its throughput while busy is at least the arrival rate, or
    nothing waits (imai eq. 22)."""
    mean_instances: float
    """Ready instances, averaged over time."""
    instance_seconds: float
    """What is paid for: instances from the request for them until they have left, times how long."""
    rescales: int
    """Decisions that changed the size."""
    max_backlog: float | None
    """The most records that ever waited."""
    latency_p50_s: float | None
    latency_p95_s: float | None
    latency_p99_s: float | None
    """The latency that this share of the records did not exceed, from arrival to result; those that are not done count
    with what they have waited so far."""
    cost: float | None = None
    """What was paid, in the unit of the price; ``None`` where there is none."""

    def to_json(self) -> dict[str, JSON]:
        return {name: _rounded(value) for name, value in dataclasses.asdict(self).items()}


def summarise(course: Course, decisions: Sequence[Decision], objective: Objective, operator: str = "job") -> Summary:
    """Return the summary of one operator's run."""
    slo = objective.slo_of(operator)
    violated = violated_parts(course, objective, operator)
    late = course.late_share(slo.bound_s) if isinstance(slo, LatencySlo) else None
    p50_s, p95_s, p99_s = course.latencies_s(0.5, 0.95, 0.99)
    price, paid_s = objective.price_per_instance_hour, course.paid_s()
    return Summary(
        slo_violation_pct=None if violated is None else 100 * course.share_of_time(violated),
        late_records_pct=None if late is None else 100 * late,
        qos_pct=None if course.behind is None else 100 * (1 - course.share_of_time(course.behind)),
        mean_instances=course.mean_ready(),
        instance_seconds=paid_s,
        rescales=_rescales(decisions, operator),
        max_backlog=course.max_backlog,
        latency_p50_s=p50_s,
        latency_p95_s=p95_s,
        latency_p99_s=p99_s,
        cost=None if price is None else price * paid_s / HOUR_S,
    )


def is_objective_met(summary: Summary, objective: Objective, seconds: float) -> bool | None:
    """Return whether a run met its objective; ``None`` where this is unknown.

    Late records count where the objective counts records, and time in violation otherwise.
    """
    slo = objective.slo
    by_records = slo.by is By.RECORDS and summary.late_records_pct is not None
    missed_pct = summary.late_records_pct if by_records else summary.slo_violation_pct
    if missed_pct is None:
        return None
    in_budget = objective.cost is None or (summary.cost or 0.0) <= objective.cost.per_hour * seconds / HOUR_S
    return bool(missed_pct <= 100 * slo.allowed_share) and in_budget


def _rescales(decisions: Sequence[Decision], operator: str) -> int:
    """Count the decisions that changed the size."""
    return sum(
        decision.verdicts[operator].change != 0
        for decision in decisions
        if decision.role is Role.ACTING and operator in decision.verdicts
    )


def violated_parts(course: Course, objective: Objective, operator: str = "job") -> Rows | None:
    """Return the spans in which the objective of an operator was violated; they may overlap."""
    violated = _violated(course, objective.slo_of(operator))
    # An objective that allows no instances allows idling; records that then wait too long violate it all the same.
    powerless = course.without_capacity if objective.min_instances > 0 else course.without_capacity[:0]
    return None if violated is None else np.concatenate([violated, powerless])


def _violated(course: Course, slo: Slo) -> Rows | None:
    """Return the spans in which an objective was violated."""
    match slo:
        case LatencySlo(bound_s=bound_s):
            return None if course.waits is None else above(course.waits, bound_s)
        case SlowShareSlo(share=share):
            loads = course.loads()
            if loads is None:
                return None
            from_s, to_s, first, last, arrived = loads.T
            allowed = share * arrived / np.where(to_s > from_s, to_s - from_s, 1.0)
            return above(np.column_stack([from_s, to_s, first - allowed, last - allowed]), 0.0)
        case ThroughputSlo():
            return course.behind


UNDECIDED = frozenset({"no-data", "no-model", "no-reading-yet", "no-rules"})
"""Codes of holds of a policy that lacks what it decides by."""


@dataclass(frozen=True, slots=True)
class Undecided:
    """How long a policy lacked what it decides by."""

    reason: str
    until_s: float | None
    """Seconds from the start of the run; ``None``: to its end."""


class RunRecord:
    """Records what a report needs of a run. It is a watcher: add it to a loop's ``watchers``.

    ``truth`` is what truly happened, where that is known.

    Of the decisions it retains those that changed a size, and the first of each row of equal ones that recommended a
    change, or in which a guard stopped or altered the proposal. A journal has them all.

    With more observations than ``most``, or more than ``most_batches`` batches in them, every other observation is
    dropped, as often as necessary: a run may last for years, and what is scored is the truth, which does not depend on
    them. Decisions beyond a fifth of that number are dropped likewise.
    """

    def __init__(
        self,
        objective: Objective,
        operator: str = "job",
        *,
        most: int | None = None,
        most_batches: int = MOST_BATCHES,
    ) -> None:
        self.objective = objective
        self.operator = operator
        self.truth: Course | None = None
        self._most = most
        self._most_batches = most_batches
        self._batches = 0
        """How many the retained observations have."""
        self.observations: list[Observation] = []
        self.decisions: list[Decision] = []
        self._rescales_dropped = 0
        self._altered: tuple[int, int, str] | None = None
        self._why_undecided: str | None = None
        self._decided_s: float | None = None
        self._counted = 0
        """Observations that the budget and the purse have counted; they count when they are read."""
        self._budget = BudgetKeeper(objective.slo_of(operator))
        self._purse = purse_of(objective, (operator,))

    def __call__(self, observation: Observation | None, decision: Decision | None) -> None:
        if observation is not None:
            self._retain(observation)
        verdict = None if decision is None else decision.verdicts.get(self.operator)
        if decision is None or verdict is None:
            return
        if self._decided_s is None and verdict.code in UNDECIDED:
            self._why_undecided = verdict.reason
        elif self._decided_s is None:
            self._decided_s = decision.at_s
        altered = None
        is_advice = verdict.change != 0 and decision.role is not Role.ACTING
        if verdict.proposed != verdict.target or is_advice:
            guards = [note.guard for note in verdict.notes if note.before != note.after]
            wanted = verdict.target if is_advice else verdict.proposed
            altered = (wanted, verdict.target, guards[0] if guards else "")
        if (verdict.change != 0 and not is_advice) or altered not in (None, self._altered):
            self.decisions.append(decision)
            if self._most is not None and len(self.decisions) > max(3, self._most // _DECISIONS_SHARE):
                self._rescales_dropped += _rescales(self.decisions[1:-1:2], self.operator)
                del self.decisions[1:-1:2]
        self._altered = altered

    def _retain(self, observation: Observation) -> None:
        self.observations.append(observation)
        if self._most is None:
            return
        for sample in observation.samples.values():
            self._batches += len(sample.batches)
        if len(self.observations) > self._most or self._batches > self._most_batches:
            self._thin_out()

    @property
    def start_s(self) -> float:
        """When the run began, on the loop's clock."""
        return self.observations[0].at_s if self.observations else 0.0

    def undecided(self) -> Undecided | None:
        """Return how long the policy could not decide, and why; ``None`` if it could from the start."""
        if self._why_undecided is None:
            return None
        return Undecided(self._why_undecided, None if self._decided_s is None else self._decided_s - self.start_s)

    def standing(self) -> Standing:
        """Return the state of the error budget by the readings, and the cost."""
        self._count()
        at_s = self.observations[-1].at_s if self.observations else 0.0
        budget = self._budget.budget(at_s)
        return Standing(
            {} if budget is None else {self.operator: budget},
            None if self._purse is None else self._purse.spending(at_s),
        )

    def _thin_out(self) -> None:
        self._count()  # Budgets count every observation.
        del self.observations[1:-1:2]
        self._counted = len(self.observations)
        self._batches = sum(len(sample.batches) for seen in self.observations for sample in seen.samples.values())

    def _count(self) -> None:
        for observation in islice(self.observations, self._counted, None):
            if (sample := observation.samples.get(self.operator)) is not None:
                self._budget.observe(sample)
            if self._purse is not None:
                self._purse.observe(observation)
        self._counted = len(self.observations)

    def summary(self) -> Summary:
        course = self.truth or course_of(self.observations, self.operator)
        made = summarise(course, self.decisions, self.objective, self.operator)
        return dataclasses.replace(made, rescales=made.rescales + self._rescales_dropped)

    def series(self) -> list[dict[str, JSON]]:
        """Return one point per observation: rates per second, times in seconds from the start.

        The latency of a point is the longest that any record waited since the point before it.
        """
        return [
            {
                "t": _rounded(at_s - self.start_s),
                "input_rate": None if sample is None else _rounded(sample.input_rate_per_s),
                "backlog": None if sample is None else _rounded(sample.backlog),
                "latency_s": None if sample is None else _rounded(sample.worst_latency_s),
                "ready": instances.ready,
                "planned": instances.planned,
            }
            for at_s, sample, instances in _points(self.observations, self.operator)
        ]

    def decision_rows(self) -> list[dict[str, JSON]]:
        """Return the retained decisions with their reasons."""
        return [
            {
                "t": _rounded(decision.at_s - self.start_s),
                "role": str(decision.role),
                **_verdict_row(decision.verdicts[self.operator]),
            }
            for decision in self.decisions
        ]

    def to_json(self, run: Mapping[str, JSON]) -> dict[str, JSON]:
        """Return the whole report as plain data; ``run`` says what was run, and its settings."""
        return {
            "version": FORMAT_VERSION,
            "run": dict(run),
            "summary": self.summary().to_json(),
            **_all_rounded(self.standing().to_json()),
            "series": self.series(),
            "decisions": self.decision_rows(),
        }


def _points(observations: Sequence[Observation], operator: str) -> Iterator[tuple[float, Sample | None, Instances]]:
    """Yield the time, the newest reading and the size of each observation that knows the size."""
    newest: Sample | None = None
    for observation in observations:
        newest = observation.samples.get(operator, newest)
        instances = observation.instances.get(operator)
        if instances is not None:
            yield observation.at_s, newest, instances


def _verdict_row(verdict: Verdict) -> dict[str, JSON]:
    return {
        "operator": verdict.operator,
        "from": verdict.current,
        "to": verdict.target,
        "proposed": verdict.proposed,
        "code": verdict.code,
        "reason": verdict.reason,
        "numbers": {
            name: _rounded(value) if isinstance(value, float) else value for name, value in verdict.numbers.items()
        },
        "guards": [
            {"guard": note.guard, "from": note.before, "to": note.after, "why": note.why}
            for note in verdict.notes
            if note.before != note.after
        ],
    }


def _all_rounded(value: JSON) -> JSON:
    """Return plain data whose numbers JSON can represent."""
    if isinstance(value, Mapping):
        return {name: _all_rounded(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_all_rounded(part) for part in value]
    return _rounded(value) if isinstance(value, float) else value


def _rounded(value: float | None) -> float | None:
    """Return a number that JSON can represent: infinity and NaN become ``None``."""
    return round(value, _DIGITS) if value is not None and math.isfinite(value) else None


def course_of(observations: Sequence[Observation], operator: str) -> Course:
    """Return the course of one operator from the observations of a run."""
    samples = list(_samples(observations, operator))
    known_s = [observation.at_s for observation in observations]
    batches = [batch for sample in samples for batch in sample.batches if batch.records]
    backlogs = [sample.backlog for sample in samples if sample.backlog is not None]
    last_s = known_s[-1] if known_s else 0.0
    return Course(
        samples[0].at_s if samples else last_s,
        last_s,
        waits=_known((*map(_wait_of_batch, batches), *_waits_of_readings(samples)), 4),
        results=rows((*_results(batches, samples), *_unfinished(samples)), 3),
        loads=lambda: _known(_loads(samples, last_s), 5),
        behind=_behind(samples, last_s),
        sizes=_sizes(observations, operator),
        max_backlog=max(backlogs, default=None),
        counted_late=_counted_late(samples),
    )


def _samples(observations: Iterable[Observation], operator: str) -> Iterator[Sample]:
    """The readings, each once: an engine may report the newest one again."""
    newest: Sample | None = None
    for observation in observations:
        sample = observation.samples.get(operator)
        if sample is not None and (newest is None or sample.at_s > newest.at_s):
            newest = sample
            yield sample


def _wait_of_batch(batch: Batch) -> tuple[float, ...]:
    return batch.ended_s - batch.latency_s, batch.ended_s, 0.0, batch.latency_s


def _waits_of_readings(samples: Iterable[Sample]) -> Iterator[tuple[float, ...]]:
    for sample in samples:
        if sample.latency_s is not None:
            yield sample.at_s - sample.latency_s, sample.at_s, 0.0, sample.latency_s


def _results(batches: Sequence[Batch], samples: Sequence[Sample]) -> Iterator[tuple[float, ...]]:
    for query in dict.fromkeys(batch.query for batch in batches):
        yield from _results_of_query([batch for batch in batches if batch.query == query])
    if any(sample.batch_ended_s is not None for sample in samples):
        return
    for before, sample in pairwise(samples):
        if sample.latency_s is not None:
            arrived = _difference(before.arrived, sample.arrived)
            yield sample.at_s - before.at_s if arrived is None else arrived, sample.latency_s, sample.latency_s
    if len(samples) == 1 and samples[0].latency_s is not None:
        yield 1.0, samples[0].latency_s, samples[0].latency_s


def _results_of_query(batches: Sequence[Batch]) -> Iterator[tuple[float, ...]]:
    """The newest record of a batch had arrived as it started, and is older if more waited than were admitted."""
    next_oldest_s = [*(batch.oldest_s for batch in batches[1:]), None]
    for batch, after_s in zip(batches, next_oldest_s, strict=True):
        newest_s = batch.started_s if after_s is None else min(batch.started_s, after_s)
        yield batch.records, min(batch.ended_s - newest_s, batch.latency_s), batch.latency_s


def _unfinished(samples: Sequence[Sample]) -> Iterator[tuple[float, ...]]:
    last = samples[-1] if samples else None
    if last is not None and last.batch_ended_s is not None and last.backlog and last.latency_s is not None:
        yield last.backlog, 0.0, last.latency_s


def _counted_late(samples: Sequence[Sample]) -> tuple[float, float] | None:
    """Return the late records and all records: arrivals, and the backlog of the first reading."""
    late = [_difference(before.late, after.late) for before, after in pairwise(samples)]
    arrived = [_difference(before.arrived, after.arrived) for before, after in pairwise(samples)]
    known = [(some, all_) for some, all_ in zip(late, arrived, strict=True) if some is not None and all_ is not None]
    if not known:
        return None
    total = (samples[0].backlog or 0.0) + sum(all_ for _, all_ in known)
    return min(total, sum(some for some, _ in known)), total


def _difference(before: float | None, after: float | None) -> float | None:
    # A counter that went back was restarted.
    return None if before is None or after is None or after < before else after - before


def _spans(samples: Sequence[Sample], last_s: float) -> Iterator[tuple[float, float, Sample]]:
    """Yield the span that each reading stands for: since the one before it, and the last one until the end."""
    for before, sample in pairwise(samples):
        yield before.at_s, sample.at_s, sample
    if samples and (last_s > samples[-1].at_s or len(samples) == 1):
        yield samples[-1].at_s, last_s, samples[-1]


def _loads(samples: Sequence[Sample], last_s: float) -> Iterator[tuple[float, ...]]:
    for from_s, to_s, sample in _spans(samples, last_s):
        if sample.backlog is not None and sample.input_rate_per_s is not None:
            yield from_s, to_s, sample.backlog, sample.backlog, sample.input_rate_per_s * (to_s - from_s)


def _behind(samples: Sequence[Sample], last_s: float) -> Rows | None:
    """Return the spans with less throughput than arrivals; the newest rate stands while a batch has not ended."""
    slo, fell = ThroughputSlo(), []
    processed = samples[0].processed_rate_per_s if samples else None
    for from_s, to_s, sample in _spans(samples, last_s):
        processed = processed if sample.processed_rate_per_s is None else sample.processed_rate_per_s
        fell.append((from_s, to_s, slo.violated_by(replace(sample, processed_rate_per_s=processed))))
    if all(behind is None for _, _, behind in fell):
        return None
    return rows(((from_s, to_s) for from_s, to_s, behind in fell if behind), 2)


def _known(values: Iterable[tuple[float, ...]], width: int) -> Rows | None:
    found = rows(values, width)
    return found if len(found) else None


def _sizes(observations: Sequence[Observation], operator: str) -> Rows:
    sizes = [(seen.at_s, seen.instances[operator]) for seen in observations if operator in seen.instances]
    spans = ((before_s, at_s, size) for (before_s, _), (at_s, size) in pairwise(sizes))
    found = [(from_s, to_s, size.ready, paid_instances(size)) for from_s, to_s, size in spans]
    if len(sizes) == 1:
        ((at_s, size),) = sizes
        found.append((at_s, at_s, size.ready, paid_instances(size)))
    return rows(found, 4)
