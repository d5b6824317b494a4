"""Explain a run from its journal, with what other policies would have come to on a simulator calibrated to it.

The load is what the engine counted; batches and start-ups take as long as observed. The policy that acted is simulated
too, so that rows differ by policy and not by the error of the simulator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import pairwise
from os import PathLike
from pathlib import Path
from statistics import median, median_high

import numpy as np

from headgate.core.course import paid_from
from headgate.core.errors import InputError
from headgate.core.objective import LatencySlo, Objective
from headgate.core.types import Batch, Decision, Observation, Role, Sample
from headgate.core.units import parse_duration_s, plain
from headgate.journal.database import JournalReader
from headgate.journal.writer import SqliteJournal
from headgate.lab.batch_times import SEEN_WITHIN_S, without_first_tasks
from headgate.lab.fidelity import Calibration, Recording, calibrate, replay, replay_course
from headgate.render.explanation import Explanation, JournalRun, explanation_of, objective_of, pick_run, why_not_of
from headgate.render.verdict import FixedSizes
from headgate.runtime.simulate import SimulationResult, fixed_size_comparison, simulate
from headgate.runtime.summary import RunRecord, Summary, course_of, summarise
from headgate.simulation.batch_work import make_work
from headgate.workloads.steps import Steps

_AT_ONCE_S = 0.01
"""The backlog at the first reading arrives within this time in the simulation."""
_LEFT_BEHIND_S = 0.5
"""A record older than the previous batch by more than this was left over by that batch."""
_SAME_MOMENT_S = 2.0
_WAITED_S = 0.05
"""A batch that started this long after the end of the previous one waited for its trigger."""
_OFTEN = 3
_ALIKE = 0.02


def recording_of(
    observations: Sequence[Observation], decisions: Sequence[Decision], objective: Objective, operator: str = "job"
) -> Recording:
    """Return a run as a recording, from the first reading of a job that has instances.

    The trigger interval, the tasks of a batch and the limit of its records are inferred from the readings. A run with
    too few readings of its load raises an ``InputError``.
    """
    observations = from_first_reading(observations, operator)
    samples = [seen.samples[operator] for seen in observations if operator in seen.samples]
    record = RunRecord(objective, operator)
    for observation in observations:
        record(observation, None)
    acting = [decision for decision in decisions if decision.role is Role.ACTING]
    for decision in acting:
        # The timestamp of a decision at the first reading may be slightly older than the reading.
        if decision.at_s >= record.start_s - _SAME_MOMENT_S:
            record(None, replace(decision, at_s=max(decision.at_s, record.start_s)))
    batches = [batch for sample in samples for batch in sample.batches]
    interval_s = max((batch.trigger_interval_s for batch in batches), default=0.0)
    lead_s = until_trigger_s(batches, record.start_s, interval_s)
    observations = [seen for seen in observations if operator in seen.instances]
    found = Recording.of(
        record,
        recorded_load(samples, lead_s),
        lead_s=lead_s,
        seen_within_s=max(SEEN_WITHIN_S, reading_interval_s(observations)),
        trigger_interval_s=interval_s,
        partitions=max((sample.useful_instances or 0 for sample in samples), default=0) or None,
        max_records_per_batch=most_records(batches),
    )
    if not acting:
        # Something else scaled the job.
        return replace(found, sizes=_planned(observations, operator, record.start_s - lead_s))
    planned = observations[0].instances[operator].planned
    # Some may have been requested already.
    return found if planned == found.start else replace(found, sizes=[(lead_s, planned), *found.sizes])


def _planned(observations: Sequence[Observation], operator: str, from_s: float) -> list[tuple[float, int]]:
    """Return the planned sizes in the observations, each with its time."""
    sizes = [(seen.at_s - from_s, seen.instances[operator].planned) for seen in observations]
    return [sizes[0], *(after for before, after in pairwise(sizes) if before[1] != after[1])]


def reading_interval_s(observations: Sequence[Observation]) -> float:
    """Return the median time between readings, because a journal may have been thinned."""
    times_s = [seen.at_s for seen in observations]
    spans_s = [after_s - before_s for before_s, after_s in pairwise(times_s) if after_s > before_s]
    return median_high(spans_s) if spans_s else 0.0


def from_first_reading(observations: Sequence[Observation], operator: str) -> Sequence[Observation]:
    """Return the observations from the first one with a sample and ready instances."""
    first = next((place for place, seen in enumerate(observations) if _has_reading(seen, operator)), len(observations))
    return observations[first:]


def _has_reading(observation: Observation, operator: str) -> bool:
    size = observation.instances.get(operator)
    return operator in observation.samples and size is not None and size.ready > 0


def recorded_load(samples: Sequence[Sample], lead_s: float = 0.0) -> Steps:
    """Return the arrivals between readings, and the backlog at the first one, as a load.

    The first reading is at ``lead_s``, and the backlog arrives before it.
    """
    # Arrivals between two known counts are spread evenly.
    known = [(sample.at_s, sample.arrived) for sample in samples if sample.arrived is not None]
    start_s = (samples[0].at_s if samples else 0.0) - lead_s
    times_s, rates = [known[0][0] - start_s if known else lead_s], []
    for (before_s, before), (after_s, after) in pairwise(known):
        if after_s > before_s:
            times_s.append(after_s - start_s)
            # A counter that decreased was reset.
            rates.append(max(0.0, float(after - before)) / (after_s - before_s))
    if not any(rates):
        raise InputError(f"{len(samples)} readings do not tell what arrived; two with a count are needed.")
    waited = samples[0].backlog or 0.0
    if times_s[0] > 0:
        rates.insert(0, waited / times_s[0])
        times_s.insert(0, 0.0)
    elif waited:
        at_once_s = min(_AT_ONCE_S, times_s[1] / 2)
        times_s.insert(1, at_once_s)
        rates.insert(0, rates[0] + waited / at_once_s)
    return Steps(times_s, rates, "recorded load")


def until_trigger_s(batches: Sequence[Batch], from_s: float, interval_s: float) -> float:
    """Return the time since the last trigger before ``from_s``, inferred from the starts of batches.

    >>> round(until_trigger_s([Batch(100.3 + 2 * n, 101.0 + 2 * n, 5) for n in range(9)], 105.0, 2.0), 6)
    0.7
    """
    on_time = [after.started_s for before, after in pairwise(batches) if after.started_s - before.ended_s > _WAITED_S]
    if not interval_s or not on_time:
        return 0.0
    # Averaged as angles: the mean of times just before and just after a trigger is the trigger.
    angles = 2 * np.pi * (from_s - np.array(on_time)) / interval_s
    return float(np.angle(np.exp(1j * angles).mean()) / (2 * np.pi) * interval_s) % interval_s


def most_records(batches: Sequence[Batch]) -> float | None:
    """Return the limit of records per batch, where batches left records over; ``None`` where none did.

    >>> left = [Batch(10 * n, 10 * n + 9, 120, oldest_s=10 * n - 30 if n > 1 else None) for n in range(8)]
    >>> most_records(left), most_records(left[:2])
    (120, None)
    """
    full = [
        before.records
        for before, after in pairwise(batch for batch in batches if batch.records)
        if after.oldest_s is not None and after.oldest_s < before.started_s - _LEFT_BEHIND_S
    ]
    most = max(full, default=0.0)
    alike = [records for records in full if records >= (1 - _ALIKE) * most]
    return most if len(alike) >= max(_OFTEN, len(full) / 2) else None


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
            starts_at_s=recording.starts_at_s,
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
        return FixedSizes(
            missing=f"the job has {len(operators)} operators, and only jobs of one operator can be simulated."
        )
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


def explain(
    journal: str | PathLike[str],
    *,
    run: int | None = None,
    job: str | None = None,
    last: int | None = 20,
    shadows: bool = False,
    why_not: int | None = None,
    at: float | str | None = None,
) -> Explanation:
    """Explain what was decided in a run, when and why, from its journal.

    Args:
        journal: The journal's file; it may be in use.
        run: Which run; by default the newest.
        job: Which job, in a journal of several; by default the one whose run is the newest.
        last: Explain this many changes and stopped changes, the last ones; ``None`` for the whole run.
        shadows: Also compare shadow policies with what was decided.
        why_not: Also answer why the size is not this one, from the sizes that the policy compared.
        at: In the decision so long after the start of the run, such as ``"10m"``; by default in the newest.

    Returns:
        The explanation as data: ``verdict`` says whether the objective was met and at what cost, ``rows`` are the story
        in words, ``sentences`` describe the whole run, ``to_json()`` is all of it as plain data, and
        ``print(explanation)`` shows it.
    """
    if at is not None and why_not is None:
        raise InputError("at goes with why_not: it names the decision that is explained.")
    with closing(SqliteJournal.read(Path(journal))) as reader:
        picked = pick_run(reader, run, job)
        explanation = explanation_of(reader, picked, last, shadows=shadows, fixed_sizes=fixed_sizes_of)
        if why_not is not None:
            after_s = None if at is None else parse_duration_s(at)
            explanation = replace(explanation, why_not=why_not_of(reader, picked, why_not, after_s))
        if explanation.shadows:
            return replace(explanation, what_if=_what_if(reader, picked, explanation.shadows))
        return explanation


def _what_if(reader: JournalReader, picked: JournalRun, shadows: Iterable[str]) -> Mapping[str, Summary] | str:
    """Simulate the acting policy and its shadows on a job calibrated to this run; or return why not."""
    run = picked.run
    if len(run.operators) > 1:
        return f"the job has {len(run.operators)} operators; the simulator is calibrated to jobs of one."
    contenders = [CandidatePolicy(run.policy, run.settings), *(CandidatePolicy(name, {}) for name in shadows)]
    try:
        observations, decisions = reader.observations(run=picked.number), reader.decisions(run=picked.number)
        objective, operator = objective_of(run), run.operators[0]
        return what_if(observations, contenders, objective, operator, decisions=decisions, seed=run.seed)
    except InputError as error:
        return str(error)
