"""What a run came to, live or simulated, from the same observations and decisions.

Every observation stands for the time since the one before it: that is the time its rates were measured over, and the
time for which the sizes asked for by the last decision were in force. Where an observation has no new reading, the
newest one known stands, and so does the newest known rate where a reading has none (a batch that has not ended). What
was never known is ``None`` and does not count.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from headgate.core.objective import Objective, ThroughputSlo
from headgate.core.types import JSON, Decision, Instances, Observation, Sample, Verdict

_DIGITS = 6
"""Decimals of the numbers in a report: a microsecond, a millionth of a record."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The figures by which runs are compared."""

    slo_violation_pct: float | None
    """Share of the time whose readings violate the objective."""
    qos_pct: float | None
    """Share of the time in which the job kept up: what it gets through while busy is at least what arrives, or nothing
    waits (imai eq. 22)."""
    mean_instances: float
    """Ready instances, averaged over time."""
    instance_seconds: float
    """What is paid for: instances that were requested, whether they were ready yet, or ready, whether they were still
    requested, times how long."""
    rescales: int
    """Decisions that changed the size."""
    max_backlog: float | None
    """The largest backlog in any reading."""
    latency_p50_s: float | None
    latency_p95_s: float | None
    latency_p99_s: float | None
    """The latency that this share of the time did not exceed."""

    def to_json(self) -> dict[str, JSON]:
        return {name: _rounded(value) for name, value in dataclasses.asdict(self).items()}


def summarise(
    observations: Sequence[Observation], decisions: Sequence[Decision], objective: Objective, operator: str = "job"
) -> Summary:
    """The summary of one operator's run."""
    points = list(_points(observations, operator))
    weights_s = _weights_s([at_s for at_s, _, _ in points])
    violated = [None if sample is None else objective.slo.violated_by(sample) for _, sample, _ in points]
    fell_behind = list(_fell_behind([sample for _, sample, _ in points]))
    latencies_s = [None if sample is None else sample.latency_s for _, sample, _ in points]
    backlogs = [sample.backlog for _, sample, _ in points if sample is not None and sample.backlog is not None]
    ready = np.array([instances.ready for _, _, instances in points], dtype=float)
    paid = np.array([max(instances.requested, instances.ready) for _, _, instances in points], dtype=float)
    behind_share = _share(fell_behind, weights_s)
    violated_share = _share(violated, weights_s)
    p50_s, p95_s, p99_s = _percentiles(latencies_s, weights_s, (50.0, 95.0, 99.0))
    run_s = points[-1][0] - points[0][0] if points else 0.0
    return Summary(
        slo_violation_pct=None if violated_share is None else 100 * violated_share,
        qos_pct=None if behind_share is None else 100 * (1 - behind_share),
        mean_instances=float(np.average(ready, weights=weights_s)) if points else 0.0,
        instance_seconds=float(np.average(paid, weights=weights_s)) * run_s if points else 0.0,
        rescales=sum(
            decision.verdicts[operator].change != 0 for decision in decisions if operator in decision.verdicts
        ),
        max_backlog=max(backlogs, default=None),
        latency_p50_s=p50_s,
        latency_p95_s=p95_s,
        latency_p99_s=p99_s,
    )


class RunRecord:
    """Keeps what a report needs of a run. It is a watcher: add it to a loop's ``watchers``.

    Of the decisions it keeps those that changed a size, and the first of each row of equal ones in which a guard
    stopped or altered what the policy proposed. A journal keeps them all.
    """

    def __init__(self, objective: Objective, operator: str = "job") -> None:
        self.objective = objective
        self.operator = operator
        self.observations: list[Observation] = []
        self.decisions: list[Decision] = []
        self._altered: tuple[int, int, str] | None = None

    def __call__(self, observation: Observation | None, decision: Decision | None) -> None:
        if observation is not None:
            self.observations.append(observation)
        verdict = None if decision is None else decision.verdicts.get(self.operator)
        if decision is None or verdict is None:
            return
        altered = None
        if verdict.proposed != verdict.target:
            guards = [note.guard for note in verdict.notes if note.before != note.after]
            altered = (verdict.proposed, verdict.target, guards[0] if guards else "")
        if verdict.change != 0 or altered not in (None, self._altered):
            self.decisions.append(decision)
        self._altered = altered

    @property
    def start_s(self) -> float:
        """When the run began, on the loop's clock."""
        return self.observations[0].at_s if self.observations else 0.0

    def summary(self) -> Summary:
        return summarise(self.observations, self.decisions, self.objective, self.operator)

    def series(self) -> list[dict[str, JSON]]:
        """One point per observation: rates per second, times in seconds from the start."""
        return [
            {
                "t": _rounded(at_s - self.start_s),
                "input_rate": None if sample is None else _rounded(sample.input_rate_per_s),
                "backlog": None if sample is None else _rounded(sample.backlog),
                "latency_s": None if sample is None else _rounded(sample.latency_s),
                "ready": instances.ready,
                "planned": instances.planned,
            }
            for at_s, sample, instances in _points(self.observations, self.operator)
        ]

    def decision_rows(self) -> list[dict[str, JSON]]:
        """The decisions that were kept, with why."""
        return [
            {"t": _rounded(decision.at_s - self.start_s), **_verdict_row(decision.verdicts[self.operator])}
            for decision in self.decisions
        ]

    def to_json(self, run: Mapping[str, JSON]) -> dict[str, JSON]:
        """The whole report as plain data; ``run`` says what was run, with what."""
        return {
            "version": 1,
            "run": dict(run),
            "summary": self.summary().to_json(),
            "series": self.series(),
            "decisions": self.decision_rows(),
        }


def _points(observations: Sequence[Observation], operator: str) -> Iterator[tuple[float, Sample | None, Instances]]:
    """The time, the newest reading and the size of each observation that knows the size."""
    newest: Sample | None = None
    for observation in observations:
        newest = observation.samples.get(operator, newest)
        instances = observation.instances.get(operator)
        if instances is not None:
            yield observation.at_s, newest, instances


def _fell_behind(samples: Sequence[Sample | None]) -> Iterator[bool | None]:
    """Whether the job got through less than what arrived, for each reading."""
    kept_up = ThroughputSlo()
    processed_rate_per_s: float | None = None
    for sample in samples:
        if sample is None:
            yield None
        elif sample.processed_rate_per_s is None and processed_rate_per_s is not None:
            yield kept_up.violated_by(dataclasses.replace(sample, processed_rate_per_s=processed_rate_per_s))
        else:
            processed_rate_per_s = sample.processed_rate_per_s
            yield kept_up.violated_by(sample)


def _weights_s(times_s: Sequence[float]) -> NDArray[np.float64]:
    weights = np.array([0.0, *(after_s - before_s for before_s, after_s in pairwise(times_s))][: len(times_s)])
    # A single observation is all there is: it counts in full.
    return weights if weights.sum() > 0 else np.ones(len(times_s))


def _share(answers: Sequence[bool | None], weights_s: NDArray[np.float64]) -> float | None:
    """The share of the time with a known answer in which the answer is yes."""
    known_s = sum(weight for answer, weight in zip(answers, weights_s, strict=True) if answer is not None)
    yes_s = sum(weight for answer, weight in zip(answers, weights_s, strict=True) if answer)
    return float(yes_s / known_s) if known_s > 0 else None


def _percentiles(
    values: Sequence[float | None], weights_s: NDArray[np.float64], percentiles: Sequence[float]
) -> list[float | None]:
    known = np.array([value is not None for value in values], dtype=bool)
    weights_s = weights_s[known]
    if not weights_s.sum() > 0:
        return [None] * len(percentiles)
    found = np.array([value for value in values if value is not None])
    order = np.argsort(found, kind="stable")
    reached_s = np.cumsum(weights_s[order])
    # The smallest value that enough of the time did not exceed; a hair less than enough is rounding.
    wanted_s = np.array(percentiles) / 100 * reached_s[-1] * (1 - 1e-12)
    return [float(found[order[index]]) for index in np.searchsorted(reached_s, wanted_s)]


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


def _rounded(value: float | None) -> float | None:
    """A number that JSON can hold: what is infinite or not a number becomes ``None``."""
    return round(value, _DIGITS) if value is not None and math.isfinite(value) else None
