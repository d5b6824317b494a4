"""Replay of a journal with other policies, with evidence of how far the results can be trusted.

A replay has three parts: the estimated properties of the job with their intervals, the figures of the simulated job
with the recorded sizes compared with the measured ones, and the figures of each policy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headgate.core.objective import Objective
from headgate.core.types import JSON, Decision, Observation
from headgate.lab.batch_times import fit_batch_times, without_first_tasks
from headgate.lab.fidelity import Recording
from headgate.lab.what_if import CandidatePolicy, RecordedJob
from headgate.runtime.simulate import SimulationResult
from headgate.runtime.summary import Summary

FORMAT_VERSION = 1
CHECKED = ("instance_seconds", "late_records_pct", "latency_p50_s", "latency_p95_s")
"""The figures in which the simulated job is compared with the recorded one."""
DRAWS = 60
_LOW, _HIGH = 0.05, 0.95


@dataclass(frozen=True, slots=True)
class JobEstimate:
    """An estimated property of a job, with its 90 % interval."""

    name: str
    value: float
    low: float | None
    high: float | None
    unit: str
    seen: str
    """The observations that it was estimated from."""

    def to_json(self) -> dict[str, JSON]:
        return {"value": self.value, "low": self.low, "high": self.high, "unit": self.unit, "seen": self.seen}


@dataclass(frozen=True)
class JournalReplay:
    job: RecordedJob
    found: Sequence[JobEstimate]
    measured: Summary
    """The figures of the run, from its engine's counts."""
    again: Summary
    """The same load and sizes on the simulated job, delayed as the recorded one was."""
    predicted: Summary
    """The same with the usual cost of new instances, as policies are simulated."""
    outcomes: Mapping[str, Summary]
    """The simulated figures of each policy."""
    runs: Mapping[str, SimulationResult]

    def to_json(self) -> dict[str, JSON]:
        return {
            "version": FORMAT_VERSION,
            "calibration": {estimate.name: estimate.to_json() for estimate in self.found},
            "measured": self.measured.to_json(),
            "replayed": self.again.to_json(),
            "foretold": self.predicted.to_json(),
            "simulated": {name: summary.to_json() for name, summary in self.outcomes.items()},
        }


def replay_journal(
    observations: Sequence[Observation],
    decisions: Sequence[Decision],
    contenders: Mapping[str, CandidatePolicy],
    objective: Objective,
    *,
    recorded_objective: Objective,
    operator: str = "job",
    seed: int = 0,
    progress: Callable[[float], None] = lambda share: None,
) -> JournalReplay:
    """Simulate each contender by an objective, which may differ from the recorded run's."""
    job = RecordedJob.of(observations, decisions, recorded_objective, operator)
    outcomes, runs = {}, {}
    for place, (name, contender) in enumerate(contenders.items()):
        outcomes[name], runs[name] = job.under(
            contender,
            objective,
            seed=seed,
            progress=lambda share, done=place: progress((done + share) / len(contenders)),  # type: ignore[misc]  # mypy cannot infer a default of a lambda
        )
    return JournalReplay(
        job=job,
        found=estimates(job, seed=seed),
        measured=job.measured(objective, recorded_objective),
        again=job.again(objective),
        predicted=job.predicted(objective),
        outcomes=outcomes,
        runs=runs,
    )


def estimates(job: RecordedJob, *, seed: int = 0) -> list[JobEstimate]:
    """Return the properties of the simulated job, with bootstrap intervals over batches and start-ups."""
    times, recording = job.calibration.times, job.recording
    drawn = np.array(_drawn_times(recording, np.random.default_rng(seed)))
    fixed, rates = _interval(drawn[:, 0]), _interval(drawn[:, 1])
    batches = f"{times.batches} batches"
    startups_s = [startup.registered_after_s for startup in recording.startups if startup.registered_after_s > 0]
    interval_s = _interval(np.array(startups_s)) if len(startups_s) > 1 else (None, None)
    delays_s = [max(0.0, times.delay_s(batch)) for batch in recording.batches]
    return [
        JobEstimate("service rate of an instance", times.rate_per_s, *rates, "records/s", batches),
        JobEstimate("fixed time of a batch", times.expected_s(0, max(1, recording.start)), *fixed, "s", batches),
        JobEstimate("start-up", job.calibration.startup_s, *interval_s, "s", f"{len(startups_s)} start-ups"),
        JobEstimate("first task of a new one, longer by", job.calibration.model.cold_task_s, None, None, "s", batches),
        JobEstimate("held up in all", sum(delays_s), None, None, "s", batches),
    ]


def _drawn_times(recording: Recording, random: np.random.Generator) -> list[tuple[float, float]]:
    """Return fixed times and rates fitted to batches drawn with replacement."""
    others = without_first_tasks(recording.startups, recording.batches, recording.seen_within_s)
    batches = [batch for batch in others if not batch.warming]
    found = []
    for _ in range(DRAWS):
        drawn = [batches[place] for place in random.integers(len(batches), size=len(batches))]
        times = fit_batch_times(drawn, cores=recording.cores, tasks=recording.partitions)
        if times is not None:
            found.append((times.expected_s(0, max(1, recording.start)), times.rate_per_s))
    return found or [(np.nan, np.nan)]


def _interval(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> tuple[float | None, float | None]:
    if not len(values) or not np.isfinite(values).all():
        return None, None
    low, high = np.quantile(values, (_LOW, _HIGH))
    return float(low), float(high)
