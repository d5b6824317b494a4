"""What another policy would have done with a job whose run is in a journal, and how far that can be believed.

First comes what was found out about the job, with how sure that is; then how close the simulated job comes to what
really happened when it is given the sizes that it really had; then what each policy comes to.
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
"""What the simulated job must come to as the recorded one did."""
DRAWS = 60
_LOW, _HIGH = 0.05, 0.95


@dataclass(frozen=True, slots=True)
class Found:
    """Something that was found out about a job, with the interval in which it lies at nine of ten."""

    name: str
    value: float
    low: float | None
    high: float | None
    unit: str
    seen: str
    """What it was found from."""

    def to_json(self) -> dict[str, JSON]:
        return {"value": self.value, "low": self.low, "high": self.high, "unit": self.unit, "seen": self.seen}


@dataclass(frozen=True)
class JournalReplay:
    job: RecordedJob
    found: Sequence[Found]
    measured: Summary
    """What the run came to by what its engine counted."""
    again: Summary
    """What the same load and the same sizes come to on the simulated job, held up as the recorded one was."""
    foretold: Summary
    """The same, where what new instances cost is not taken from the run: as policies are simulated."""
    outcomes: Mapping[str, Summary]
    """What each policy comes to, simulated; the one that acted first, where it was asked for."""
    runs: Mapping[str, SimulationResult]

    def to_json(self) -> dict[str, JSON]:
        return {
            "version": FORMAT_VERSION,
            "calibration": {one.name: one.to_json() for one in self.found},
            "measured": self.measured.to_json(),
            "replayed": self.again.to_json(),
            "foretold": self.foretold.to_json(),
            "simulated": {name: summary.to_json() for name, summary in self.outcomes.items()},
        }


def replay_journal(
    observations: Sequence[Observation],
    decisions: Sequence[Decision],
    contenders: Mapping[str, CandidatePolicy],
    objective: Objective,
    *,
    asked: Objective,
    operator: str = "job",
    seed: int = 0,
    progress: Callable[[float], None] = lambda share: None,
) -> JournalReplay:
    """What each contender comes to by an objective, where another may have been ``asked`` of the run."""
    job = RecordedJob.of(observations, decisions, asked, operator)
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
        found=found_out(job, seed=seed),
        measured=job.measured(objective, asked),
        again=job.again(objective),
        foretold=job.as_foretold(objective),
        outcomes=outcomes,
        runs=runs,
    )


def found_out(job: RecordedJob, *, seed: int = 0) -> list[Found]:
    """What the simulated job is like; how sure that is comes from batches and start-ups drawn again and again."""
    times, recording = job.calibration.times, job.recording
    drawn = np.array(_drawn_times(recording, np.random.default_rng(seed)))
    fixed, rates = _interval(drawn[:, 0]), _interval(drawn[:, 1])
    batches = f"{times.batches} batches"
    startups_s = [one.registered_after_s for one in recording.startups if one.registered_after_s > 0]
    startup = _interval(np.array(startups_s)) if len(startups_s) > 1 else (None, None)
    held_up_s = [one.processing_time_s - times.expected_s(one.records, one.instances or 1) for one in recording.batches]
    return [
        Found("service rate of an instance", times.rate_per_s, *rates, "records/s", batches),
        Found("fixed time of a batch", times.expected_s(0, max(1, recording.start)), *fixed, "s", batches),
        Found("start-up", job.calibration.startup_s, *startup, "s", f"{len(startups_s)} start-ups"),
        Found("first task of a new one, longer by", job.calibration.model.cold_task_s, None, None, "s", batches),
        Found("held up in all", sum(max(0.0, one) for one in held_up_s), None, None, "s", batches),
    ]


def _drawn_times(recording: Recording, random: np.random.Generator) -> list[tuple[float, float]]:
    """The fixed time and the rate that batches tell when they are drawn with replacement."""
    others = without_first_tasks(recording.startups, recording.batches, recording.seen_within_s)
    batches = [one for one in others if not one.warming]
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
