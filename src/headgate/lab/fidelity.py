"""How close the simulator comes to a live run: the same load, and the same sizes, on a job that behaves as measured.

    recording = Recording.of(record, load, trigger_interval_s=2.0, partitions=8, drain_s=3.0)
    calibration = calibrate(recording)
    simulated = replay(recording, calibration, objective)
    compare(record.summary(), simulated)

A replay takes the sizes that were decided live, and the time that instances took to start, so that what differs is the
simulator: neither the policy, nor what else the machine had to do. To run a policy on the calibrated job instead, give
``calibration.options`` to ``simulate``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from statistics import median
from typing import Any

import numpy as np

from headgate.core.course import Course
from headgate.core.errors import InputError
from headgate.core.objective import Objective
from headgate.core.slo import LatencySlo
from headgate.core.types import Batch, Decision, Startup, Verdict
from headgate.lab.batch_times import SEEN_WITHIN_S, BatchTimeModel, cold_task_s, fit_batch_times, without_first_tasks
from headgate.runtime.summary import RunRecord, Summary, summarise
from headgate.simulation.batch_job import OPERATOR, MicroBatchJob
from headgate.simulation.batch_readings import ReadingMode
from headgate.simulation.engine import SimulatedEngine
from headgate.simulation.micro_batch import MicroBatch
from headgate.workloads.contract import Workload

COMPARED = ("latency_p50_s", "latency_p95_s", "max_backlog", "instance_seconds")
"""What a simulation must come to as the live run did."""


@dataclass(frozen=True)
class Recording:
    """A run as it was recorded; times are in seconds from its start."""

    load: Workload
    """What truly arrived."""
    seconds: float
    start: int
    """Instances at the start."""
    sizes: Sequence[tuple[float, int]]
    """When which size was decided."""
    batches: Sequence[Batch]
    startups: Sequence[Startup] = ()
    """How instances started."""
    drain_s: float = 0.0
    """How long instances took to leave after they had finished what they were doing."""
    trigger_interval_s: float = 0.0
    max_records_per_batch: float | None = None
    cores: int = 1
    partitions: int | None = None
    seen_within_s: float = SEEN_WITHIN_S
    """How long after the end of an instance's first task that was seen, at most."""
    lead_s: float = 0.0
    """What lies before the first reading: it is simulated, but no figure is of it."""

    @classmethod
    def of(cls, record: RunRecord, load: Workload, **about: Any) -> Recording:
        """What a record of a run tells, with the load that was offered and what is known ``about`` the job."""
        operator, start_s = record.operator, record.start_s - about.get("lead_s", 0.0)
        if not record.observations:
            raise InputError("0 observations are not enough for a recording; at least one is needed.")
        samples = [seen.samples[operator] for seen in record.observations if operator in seen.samples]
        batches = [batch for sample in samples for batch in sample.batches]
        changes = ((decision.at_s, decision.verdicts[operator]) for decision in record.decisions)
        told = (startup for seen in record.observations for startup in seen.startups.get(operator, ()))
        # What is told last of an instance is all that is known of it.
        startups = {startup.instance: startup for startup in told}.values()
        return cls(
            load=load,
            seconds=record.observations[-1].at_s - start_s,
            start=record.observations[0].instances[operator].ready,
            sizes=[(at_s - start_s, verdict.target) for at_s, verdict in changes if verdict.change],
            batches=[
                replace(batch, started_s=batch.started_s - start_s, ended_s=batch.ended_s - start_s, oldest_s=None)
                for batch in batches
            ],
            startups=sorted(
                (replace(startup, requested_s=startup.requested_s - start_s) for startup in startups),
                key=lambda startup: startup.requested_s,
            ),
            **about,
        )

    def shifted(self, by_s: float) -> Recording:
        """The same batches and start-ups at a later time."""
        return replace(
            self,
            batches=[
                replace(batch, started_s=batch.started_s + by_s, ended_s=batch.ended_s + by_s) for batch in self.batches
            ],
            startups=[replace(startup, requested_s=startup.requested_s + by_s) for startup in self.startups],
        )


@dataclass(frozen=True)
class Calibration:
    """A simulated job that behaves as one was measured to."""

    times: BatchTimeModel
    model: MicroBatch
    startup_s: float
    """The median."""
    startup_spread: float
    drain_s: float

    @property
    def options(self) -> Mapping[str, Any]:
        """What ``simulate`` is to be told of the job."""
        return {
            "service_rate_per_s": self.times.rate_per_s,
            "model": self.model,
            "startup_s": self.startup_s,
            "startup_spread": self.startup_spread,
            "drain_s": self.drain_s,
        }


def calibrate(recording: Recording, *others: Recording) -> Calibration:
    """A simulated job that takes as long for its batches, its start-ups and its leaving as the recorded one.

    ``others`` are further runs of the same job: the more start-ups were seen, the better it is known what they cost.
    """
    # As if one had run after the other; a minute apart, so that a start-up finds no batch of another run.
    ends_s = accumulate(one.seconds + 60.0 for one in (recording, *others))
    parts = [recording, *(one.shifted(by_s) for one, by_s in zip(others, ends_s, strict=False))]
    batches, tasks = [batch for part in parts for batch in part.batches], recording.partitions
    startups = [startup for part in parts for startup in part.startups]
    within_s = recording.seen_within_s
    others_than_first = without_first_tasks(startups, batches, within_s)
    times = fit_batch_times(others_than_first, cores=recording.cores, tasks=tasks)
    if times is None:
        raise InputError(
            f"{len(batches)} batches do not tell how long batches take; some of different sizes are needed, "
            "made while no instance came or went."
        )
    registered_s = (startup.registered_after_s for startup in startups)
    startups_s = np.array([startup_s for startup_s in registered_s if startup_s > 0])
    return Calibration(
        times=times,
        model=MicroBatch(
            # As fast as possible is every few milliseconds: a batch that takes longer is followed at once.
            trigger_interval_s=recording.trigger_interval_s or 0.01,
            overhead_s=times.overhead_s,
            max_records_per_batch=recording.max_records_per_batch,
            cores=recording.cores,
            partitions=recording.partitions,
            # Where tasks are known, all that new instances cost is told by their first ones.
            cold_factor=times.cold_factor if tasks is None else 1.0,
            cold_task_s=cold_task_s(startups, batches, times, within_s),
            task_overhead_s=times.task_overhead_s,
            noise=times.noise,
        ),
        startup_s=float(np.median(startups_s)) if len(startups_s) else 0.0,
        startup_spread=float(np.std(np.log(startups_s))) if len(startups_s) else 0.0,
        drain_s=median(part.drain_s for part in parts),
    )


def replay(recording: Recording, calibration: Calibration, objective: Objective, *, seed: int = 0) -> Summary:
    """What the recorded load and sizes come to on the calibrated job, scored on what truly happened there."""
    course, decisions = replay_course(recording, calibration, objective, seed=seed)
    return summarise(course, decisions, objective)


def replay_course(
    recording: Recording, calibration: Calibration, objective: Objective, *, seed: int = 0
) -> tuple[Course, Sequence[Decision]]:
    """What becomes of the recorded load on the calibrated job, and the decisions that gave it the recorded sizes."""
    slo = objective.slo
    kernel = MicroBatchJob(
        recording.load,
        calibration.times.rate_per_s,
        calibration.model,
        ready=recording.start,
        seed=seed,
        readings=ReadingMode.PERFECT,
        late_after_s=slo.bound_s if isinstance(slo, LatencySlo) else None,
    )
    engine = SimulatedEngine(
        kernel,
        startup_s=calibration.startup_s,
        startup_spread=calibration.startup_spread,
        first_startups_s=[startup.registered_after_s for startup in recording.startups],
        drain_s=calibration.drain_s,
        seed=seed,
    )
    decisions = []
    size = recording.start
    for at_s, target in recording.sizes:
        engine.advance(at_s)
        verdict = Verdict(OPERATOR, size, target, target, "recorded", "as it was decided live")
        decisions.append(Decision(at_s, "recorded", {OPERATOR: verdict}))
        engine.apply(decisions[-1])
        size = target
    engine.advance(recording.seconds)
    course = replace(kernel.course(), sizes=engine.sizes(OPERATOR))
    return cut(course, recording.lead_s), decisions


def cut(course: Course, from_s: float) -> Course:
    """A course without what was paid for before a time; its records are all in it."""
    sizes = course.sizes[course.sizes[:, 1] > from_s]
    begins_s = np.maximum(sizes[:, 0], from_s)
    return replace(course, from_s=max(course.from_s, from_s), sizes=np.column_stack([begins_s, sizes[:, 1:]]))


def compare(measured: Summary, simulated: Summary) -> dict[str, float | None]:
    """By what share of it the simulation is off each figure that was measured; ``None`` where one is not known."""
    found: dict[str, float | None] = {}
    for name in COMPARED:
        live, other = getattr(measured, name), getattr(simulated, name)
        found[name] = None if live is None or other is None or not live else other / live - 1
    return found
