"""What other policies would have come to in a run that was recorded: on the simulator, calibrated to that very run.

The load is what the engine counted, the job takes as long for its batches and start-ups as it was seen to. The policy
that acted is simulated, too: what differs between the rows is then the policy, and not the simulator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from headgate.core.objective import LatencySlo, Objective
from headgate.core.types import Decision, Observation
from headgate.lab.batch_offsets import as_held_up, as_it_happened
from headgate.lab.fidelity import Calibration, Recording, calibrate, cut, replay
from headgate.lab.recorded import from_first_reading, looked_every_s, recording_of
from headgate.runtime.counted import course_of
from headgate.runtime.simulate import SimulationResult, simulate
from headgate.runtime.summary import Summary, summarise


@dataclass(frozen=True, slots=True)
class Contender:
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
        contender: Contender,
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
    contenders: Sequence[Contender],
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
