"""What other policies would have come to in a run that was recorded: on the simulator, calibrated to that very run.

The load is what the engine counted, the job takes as long for its batches and start-ups as it was seen to. The policy
that acted is simulated, too: what differs between the rows is then the policy, and not the simulator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from headgate.core.objective import Objective
from headgate.core.slo import LatencySlo
from headgate.core.types import Batch, Decision, Observation
from headgate.lab.batch_times import without_first_tasks
from headgate.lab.fidelity import Calibration, Recording, calibrate, cut, replay, replay_course
from headgate.lab.recorded import from_first_reading, looked_every_s, recording_of
from headgate.runtime.counted import course_of
from headgate.runtime.simulate import SimulationResult, simulate
from headgate.runtime.summary import Summary, summarise
from headgate.simulation.batch_work import make_work

_ROUNDS = 30
_CLOSE_S = 0.001


def as_it_happened(recording: Recording, calibration: Calibration, objective: Objective) -> Calibration:
    """The same job, held up whenever the recorded one was, also by instances that were new; nothing is left to chance.

    With the recorded sizes it must come to what was recorded.
    """
    plain = replace(calibration, model=replace(calibration.model, cold_factor=1.0, cold_task_s=0.0, noise=0.0))
    off_s = tuple((start_s, by_s) for _, start_s, by_s in _offsets(recording, plain, objective))
    return replace(plain, model=replace(plain.model, off_s=off_s))


def as_held_up(recording: Recording, calibration: Calibration, objective: Objective) -> Calibration:
    """The same job, held up when the recorded one was, but not by instances that were new: those of another policy are
    new at other times, and cost what they usually do."""
    others = without_first_tasks(recording.startups, recording.batches, recording.seen_within_s)
    typical = {id(one) for one in others if not one.warming}
    off_s = tuple(
        (start_s, by_s) for batch, start_s, by_s in _offsets(recording, calibration, objective) if id(batch) in typical
    )
    return replace(calibration, model=replace(calibration.model, off_s=off_s, noise=0.0))


def _offsets(
    recording: Recording, calibration: Calibration, objective: Objective
) -> Iterator[tuple[Batch, float, float]]:
    """Each batch, from when on one that starts is taken for it, and by how many seconds it was off.

    That is half a trigger interval before it started: a batch of the simulated job that starts a little earlier than
    the recorded one is the same.

    What comes of instances that joined or left during a batch is no part of what it was off by.
    """
    course, _ = replay_course(recording, calibration, objective)
    model, cores = calibration.model, calibration.model.cores
    warm = replace(model, cold_task_s=0.0)
    turns = [(float(row[0]), int(row[2])) for row in course.sizes]
    for batch in sorted((one for one in recording.batches if one.records > 0), key=lambda one: one.started_s):
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
            # What holds up a batch may last until more instances are there for it: then it is held up for longer.
            if by_s <= 0 or not slots or abs(left_s) < _CLOSE_S:
                break
        if math.isfinite(left_s):
            yield batch, max(0.0, start_s - recording.trigger_interval_s / 2), by_s


def _ready(turns: list[tuple[float, int]], at_s: float) -> int:
    return next((ready for since_s, ready in reversed(turns) if since_s <= at_s), turns[0][1] if turns else 0)


@dataclass(frozen=True, slots=True)
class CandidatePolicy:
    """A policy that acted, or was a shadow, or might have acted."""

    policy: str
    settings: Mapping[str, object]


@dataclass(frozen=True)
class RecordedJob:
    """A run of one operator, and the simulated job that was calibrated to it."""

    operator: str
    recording: Recording
    calibration: Calibration
    observations: Sequence[Observation]
    """From the first reading on."""
    decisions: Sequence[Decision]
    interval_s: float
    """How often was looked."""

    @classmethod
    def of(
        cls,
        observations: Sequence[Observation],
        decisions: Sequence[Decision],
        objective: Objective,
        operator: str = "job",
    ) -> RecordedJob:
        """A run that tells too little of its load or its batches is an ``InputError``."""
        recording = recording_of(observations, decisions, objective, operator)
        told = from_first_reading(observations, operator)
        return cls(operator, recording, calibrate(recording), told, decisions, looked_every_s(told))

    def measured(self, objective: Objective, asked: Objective) -> Summary:
        """What the run came to by what its engine counted, as another objective would judge it than was ``asked``."""
        course = course_of(self.observations, self.operator)
        if _bound_s(objective, self.operator) != _bound_s(asked, self.operator):
            # What was counted as late was so by another bound.
            course = replace(course, counted_late=None)
        return summarise(course, self.decisions, objective, self.operator)

    def again(self, objective: Objective) -> Summary:
        """What the recorded load and sizes come to on the simulated job, held up as the recorded one was."""
        return replay(self.recording, as_it_happened(self.recording, self.calibration, objective), objective)

    def as_foretold(self, objective: Objective) -> Summary:
        """What they come to on the job that policies are simulated on: new instances cost what they usually do."""
        return replay(self.recording, as_held_up(self.recording, self.calibration, objective), objective)

    def under(
        self,
        contender: CandidatePolicy,
        objective: Objective,
        *,
        seed: int = 0,
        progress: Callable[[float], None] | None = None,
    ) -> tuple[Summary, SimulationResult]:
        """What a policy comes to under the recorded load."""
        recording = self.recording
        asked = objective.fitting(max(1, recording.start))
        result = simulate(
            contender.policy,
            recording.load,
            objective=asked,
            settings=contender.settings,
            start=asked.clamp(recording.start),
            interval_s=self.interval_s,
            seconds=recording.seconds,
            seed=seed,
            progress=progress,
            **as_held_up(recording, self.calibration, objective).options,
        )
        assert result.record.truth is not None
        return summarise(cut(result.record.truth, recording.lead_s), result.decisions, asked), result


def what_if(
    observations: Sequence[Observation],
    contenders: Sequence[CandidatePolicy],
    objective: Objective,
    operator: str = "job",
    *,
    decisions: Sequence[Decision] = (),
    seed: int = 0,
) -> dict[str, Summary]:
    """The figures that each contender comes to under the recorded load, by its name.

    A run that tells too little of its load or its batches is an ``InputError``.
    """
    job = RecordedJob.of(observations, decisions, objective, operator)
    return {one.policy: job.under(one, objective, seed=seed)[0] for one in contenders}


def _bound_s(objective: Objective, operator: str) -> float | None:
    slo = objective.slo_of(operator)
    return slo.bound_s if isinstance(slo, LatencySlo) else None
