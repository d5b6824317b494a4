"""Simulate other policies under a recorded run's load, on a simulator calibrated to that run.

The load is what the engine counted; batches and start-ups take as long as observed. The policy that acted is simulated
too, so that rows differ by policy and not by the error of the simulator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from headgate.core.course import paid_from
from headgate.core.errors import InputError
from headgate.core.objective import LatencySlo, Objective
from headgate.core.types import Batch, Decision, Observation
from headgate.core.units import plain
from headgate.lab.batch_times import without_first_tasks
from headgate.lab.fidelity import Calibration, Recording, calibrate, replay, replay_course
from headgate.lab.recorded import from_first_reading, reading_interval_s, recorded_load, recording_of
from headgate.render.verdict import FixedSizes
from headgate.runtime.counted import course_of
from headgate.runtime.simulate import SimulationResult, fixed_size_comparison, simulate
from headgate.runtime.summary import Summary, summarise
from headgate.simulation.batch_work import make_work

_ROUNDS = 30
_CLOSE_S = 0.001


def as_it_happened(recording: Recording, calibration: Calibration, objective: Objective) -> Calibration:
    """Return the calibrated job with all recorded delays, also those of new instances, and without noise.

    With the recorded sizes it reproduces the recorded run.
    """
    plain = replace(calibration, model=replace(calibration.model, cold_factor=1.0, cold_task_s=0.0, noise=0.0))
    off_s = tuple((start_s, by_s) for _, start_s, by_s in _offsets(recording, plain, objective))
    return replace(plain, model=replace(plain.model, off_s=off_s))


def as_held_up(recording: Recording, calibration: Calibration, objective: Objective) -> Calibration:
    """Return the calibrated job with the recorded delays, except those of new instances.

    Another policy adds instances at other times, so these get their usual cost.
    """
    others = without_first_tasks(recording.startups, recording.batches, recording.seen_within_s)
    typical = {id(batch) for batch in others if not batch.warming}
    off_s = tuple(
        (start_s, by_s) for batch, start_s, by_s in _offsets(recording, calibration, objective) if id(batch) in typical
    )
    return replace(calibration, model=replace(calibration.model, off_s=off_s, noise=0.0))


def _offsets(
    recording: Recording, calibration: Calibration, objective: Objective
) -> Iterator[tuple[Batch, float, float]]:
    """Yield each batch, the time from which its delay applies, and its delay in seconds.

    A delay applies from half a trigger interval before the batch, because a simulated batch may start a little earlier
    than the recorded one. The effect of instances that joined or left during a batch is not part of its delay.
    """
    course, _ = replay_course(recording, calibration, objective)
    model, cores = calibration.model, calibration.model.cores
    warm = replace(model, cold_task_s=0.0)
    turns = [(float(row[0]), int(row[2])) for row in course.sizes]
    for batch in sorted((b for b in recording.batches if b.records > 0), key=lambda b: b.started_s):
        start_s = max(0.0, batch.started_s)
        work_s = batch.records * cores / calibration.times.rate_per_s + (model.partitions or 0) * model.task_overhead_s
        slots = [(at_s, ready * cores) for at_s, ready in turns if start_s < at_s < batch.ended_s]
        first = _ready(turns, start_s) * cores
        by_s, left_s = 0.0, math.inf
        for _ in range(_ROUNDS):
            work = make_work(warm, start_s, work_s, first, held_up_s=max(0.0, by_s))
            for at_s, there in slots:
                if at_s < work.end_s:
                    work.resize(at_s, there, 0.0)
            left_s = batch.ended_s - work.end_s
            by_s += left_s if math.isfinite(left_s) else 0.0
            # A delay that lasts until more instances have joined needs to be longer, so iterate.
            if by_s <= 0 or not slots or abs(left_s) < _CLOSE_S:
                break
        if math.isfinite(left_s):
            yield batch, max(0.0, start_s - recording.trigger_interval_s / 2), by_s


def _ready(turns: list[tuple[float, int]], at_s: float) -> int:
    return next((ready for since_s, ready in reversed(turns) if since_s <= at_s), turns[0][1] if turns else 0)


@dataclass(frozen=True, slots=True)
class CandidatePolicy:
    """A policy with its settings, to be simulated under a recorded load."""

    policy: str
    settings: Mapping[str, object]


@dataclass(frozen=True)
class RecordedJob:
    """A run of one operator, and the simulated job calibrated to it."""

    operator: str
    recording: Recording
    calibration: Calibration
    observations: Sequence[Observation]
    """From the first reading."""
    decisions: Sequence[Decision]
    interval_s: float
    """Time between readings."""

    @classmethod
    def of(
        cls,
        observations: Sequence[Observation],
        decisions: Sequence[Decision],
        objective: Objective,
        operator: str = "job",
    ) -> RecordedJob:
        """Calibrate a job to a run; too little data on its load or batches raises an ``InputError``."""
        recording = recording_of(observations, decisions, objective, operator)
        known = from_first_reading(observations, operator)
        return cls(operator, recording, calibrate(recording), known, decisions, reading_interval_s(known))

    def measured(self, objective: Objective, recorded_objective: Objective) -> Summary:
        """Return the run's figures from its engine's counts, judged by an objective that may differ from the run's."""
        course = course_of(self.observations, self.operator)
        if _bound_s(objective, self.operator) != _bound_s(recorded_objective, self.operator):
            # Late records were counted by another bound.
            course = replace(course, counted_late=None)
        return summarise(course, self.decisions, objective, self.operator)

    def again(self, objective: Objective) -> Summary:
        """Simulate the recorded load and sizes with all recorded delays."""
        return replay(self.recording, as_it_happened(self.recording, self.calibration, objective), objective)

    def predicted(self, objective: Objective) -> Summary:
        """Simulate the recorded load and sizes with the usual cost of new instances, as policies are simulated."""
        return replay(self.recording, as_held_up(self.recording, self.calibration, objective), objective)

    def under(
        self,
        contender: CandidatePolicy,
        objective: Objective,
        *,
        seed: int = 0,
        progress: Callable[[float], None] | None = None,
    ) -> tuple[Summary, SimulationResult]:
        """Simulate a policy under the recorded load."""
        recording = self.recording
        fitting = objective.fitting(max(1, recording.start))
        result = simulate(
            contender.policy,
            recording.load,
            objective=fitting,
            settings=contender.settings,
            start=fitting.clamp(recording.start),
            interval_s=self.interval_s,
            seconds=recording.seconds,
            seed=seed,
            progress=progress,
            **as_held_up(recording, self.calibration, objective).options,
        )
        assert result.record.truth is not None
        return summarise(paid_from(result.record.truth, recording.lead_s), result.decisions, fitting), result

    def fixed_sizes(self, objective: Objective, progress: Callable[[float], None] | None = None) -> FixedSizes:
        """Simulate fixed sizes under the recorded load."""
        recording, held_up = self.recording, as_held_up(self.recording, self.calibration, objective)
        found = fixed_size_comparison(
            recording.load,
            recording.seconds,
            objective=objective,
            lead_s=recording.lead_s,
            progress=progress,
            model=held_up.model,
            service_rate_per_s=held_up.times.rate_per_s,
        )
        return FixedSizes(found, "simulated under the load of this run, with its measured batch times")


def fixed_sizes_of(
    observations: Sequence[Observation],
    decisions: Sequence[Decision],
    objective: Objective,
    operators: Sequence[str],
    progress: Callable[[float], None] | None = None,
) -> FixedSizes:
    """Return what fixed sizes would have come to under the load of a run, or why that is not known."""
    if len(operators) > 1:
        return FixedSizes(missing=f"the job has {len(operators)} operators, and the simulator is calibrated to one.")
    operator = operators[0]
    try:
        if not any(seen.samples[operator].batches for seen in observations if operator in seen.samples):
            return _fixed_sizes_of_queue(observations, objective, operator, progress)
        return RecordedJob.of(observations, decisions, objective, operator).fixed_sizes(objective, progress)
    except InputError as error:
        return FixedSizes(missing=str(error))


def _fixed_sizes_of_queue(
    observations: Sequence[Observation],
    objective: Objective,
    operator: str,
    progress: Callable[[float], None] | None,
) -> FixedSizes:
    """Simulate a job without batches as a queue, at the throughput that its instances had while they were busy."""
    known = from_first_reading(observations, operator)
    samples = [seen.samples[operator] for seen in known if operator in seen.samples]
    rates_per_s = [
        sample.processed_rate_per_s / seen.instances[operator].ready
        for seen in known
        if (sample := seen.samples.get(operator)) is not None
        and sample.processed_rate_per_s
        and seen.instances[operator].ready > 0
    ]
    if not rates_per_s:
        raise InputError("no reading tells how much an instance processes.")
    each_per_s, load = median(rates_per_s), recorded_load(samples)
    seconds = known[-1].at_s - known[0].at_s
    found = fixed_size_comparison(load, seconds, objective=objective, service_rate_per_s=each_per_s, progress=progress)
    return FixedSizes(
        found, f"simulated under the load of this run, at {plain(each_per_s)} records/s for each instance"
    )


def what_if(
    observations: Sequence[Observation],
    contenders: Sequence[CandidatePolicy],
    objective: Objective,
    operator: str = "job",
    *,
    decisions: Sequence[Decision] = (),
    seed: int = 0,
) -> dict[str, Summary]:
    """Return the simulated figures of each contender under the recorded load, by its name.

    Too little data on the load or the batches raises an ``InputError``.
    """
    job = RecordedJob.of(observations, decisions, objective, operator)
    return {policy.policy: job.under(policy, objective, seed=seed)[0] for policy in contenders}


def _bound_s(objective: Objective, operator: str) -> float | None:
    slo = objective.slo_of(operator)
    return slo.bound_s if isinstance(slo, LatencySlo) else None
