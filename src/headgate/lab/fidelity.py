"""Fidelity of the simulator: a live run's load and sizes, replayed on a job that behaves as measured.

    recording = Recording.of(record, load, trigger_interval_s=2.0, partitions=8, drain_s=3.0)
    calibration = calibrate(recording)
    simulated = replay(recording, calibration, objective)
    compare(record.summary(), simulated)

A replay uses the sizes decided live and the measured start-up times, so that differences come from the simulator, not
from the policy or from other work on the machine. To run a policy on the calibrated job instead, pass
``calibration.options`` to ``simulate``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from statistics import median
from typing import Any

import numpy as np

from headgate.core.course import Course, paid_from
from headgate.core.errors import InputError
from headgate.core.objective import Objective
from headgate.core.types import Batch, Decision, Startup, Verdict
from headgate.lab.batch_times import (
    SEEN_WITHIN_S,
    MeasuredBatchTimes,
    cold_task_s,
    fit_batch_times,
    without_first_tasks,
)
from headgate.runtime.summary import RunRecord, Summary, summarise
from headgate.simulation.batch_job import OPERATOR, MicroBatchJob
from headgate.simulation.batch_readings import ReadingMode
from headgate.simulation.engine import SimulatedEngine
from headgate.simulation.micro_batch import MicroBatch
from headgate.workloads.contract import Workload

COMPARED = ("latency_p50_s", "latency_p95_s", "max_backlog", "instance_seconds")
"""The figures in which a simulation is compared with the live run."""


@dataclass(frozen=True)
class Recording:
    """A recorded run; times are in seconds from its start."""

    load: Workload
    """The true arrivals."""
    seconds: float
    start: int
    """Instances at the start."""
    sizes: Sequence[tuple[float, int]]
    """Decided sizes, each with its time."""
    batches: Sequence[Batch]
    startups: Sequence[Startup] = ()
    """How instances started."""
    drain_s: float = 0.0
    """How long instances took to leave after they had finished their work."""
    trigger_interval_s: float = 0.0
    max_records_per_batch: float | None = None
    cores: int = 1
    partitions: int | None = None
    seen_within_s: float = SEEN_WITHIN_S
    """Longest delay until the end of an instance's first task is observed."""
    lead_s: float = 0.0
    """The time before the first reading, which is simulated but not part of any figure."""
    starts_at_s: float = 0.0
    """The date of its start, in seconds since the Unix epoch."""

    @classmethod
    def of(cls, record: RunRecord, load: Workload, **about: Any) -> Recording:
        """Return a record of a run as a recording, with the offered load and facts ``about`` the job."""
        operator, start_s = record.operator, record.start_s - about.get("lead_s", 0.0)
        if not record.observations:
            raise InputError("0 observations are not enough for a recording; at least one is needed.")
        samples = [seen.samples[operator] for seen in record.observations if operator in seen.samples]
        batches = [batch for sample in samples for batch in sample.batches]
        changes = ((decision.at_s, decision.verdicts[operator]) for decision in record.decisions)
        reported = (startup for seen in record.observations for startup in seen.startups.get(operator, ()))
        # The last report on an instance is the most complete one.
        startups = {startup.instance: startup for startup in reported}.values()
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
            starts_at_s=start_s,
            **about,
        )

    def shifted(self, by_s: float) -> Recording:
        """Return the same batches and start-ups at a later time."""
        return replace(
            self,
            batches=[
                replace(batch, started_s=batch.started_s + by_s, ended_s=batch.ended_s + by_s) for batch in self.batches
            ],
            startups=[replace(startup, requested_s=startup.requested_s + by_s) for startup in self.startups],
        )


@dataclass(frozen=True)
class Calibration:
    """A simulated job that behaves like a measured one."""

    times: MeasuredBatchTimes
    model: MicroBatch
    startup_s: float
    """The median."""
    startup_spread: float
    drain_s: float

    @property
    def options(self) -> Mapping[str, Any]:
        """Arguments for ``simulate``."""
        return {
            "service_rate_per_s": self.times.rate_per_s,
            "model": self.model,
            "startup_s": self.startup_s,
            "startup_spread": self.startup_spread,
            "drain_s": self.drain_s,
        }


def calibrate(recording: Recording, *others: Recording) -> Calibration:
    """Calibrate a simulated job to the batch, start-up and leaving times of a recorded one.

    ``others`` are more runs of the same job: more start-ups give a better estimate of their cost.
    """
    # As if run one after the other, a minute apart, so that a start-up is not matched with another run's batch.
    ends_s = accumulate(run.seconds + 60.0 for run in (recording, *others))
    parts = [recording, *(run.shifted(by_s) for run, by_s in zip(others, ends_s, strict=False))]
    batches, tasks = [batch for part in parts for batch in part.batches], recording.partitions
    startups = [startup for part in parts for startup in part.startups]
    within_s = recording.seen_within_s
    settled_batches = without_first_tasks(startups, batches, within_s)
    times = fit_batch_times(settled_batches, cores=recording.cores, tasks=tasks)
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
            # Without a trigger interval, each batch follows the last at once.
            trigger_interval_s=recording.trigger_interval_s or 0.01,
            overhead_s=times.overhead_s,
            max_records_per_batch=recording.max_records_per_batch,
            cores=recording.cores,
            partitions=recording.partitions,
            # With tasks, the cost of new instances is all in ``cold_task_s``.
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
    """Simulate the recorded load and sizes on the calibrated job, and return its true figures."""
    course, decisions = replay_course(recording, calibration, objective, seed=seed)
    return summarise(course, decisions, objective)


def replay_course(
    recording: Recording, calibration: Calibration, objective: Objective, *, seed: int = 0
) -> tuple[Course, Sequence[Decision]]:
    """Simulate the recorded load and sizes on the calibrated job, and return its course and decisions."""
    kernel = MicroBatchJob(
        recording.load,
        calibration.times.rate_per_s,
        calibration.model,
        ready=recording.start,
        seed=seed,
        readings=ReadingMode.PERFECT,
        late_after_s=objective.late_after_s,
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
        verdict = Verdict(OPERATOR, size, target, target, "recorded", "decided live")
        decisions.append(Decision(at_s, "recorded", {OPERATOR: verdict}))
        engine.apply(decisions[-1])
        size = target
    engine.advance(recording.seconds)
    course = replace(kernel.course(), sizes=engine.sizes(OPERATOR))
    return paid_from(course, recording.lead_s), decisions


def compare(measured: Summary, simulated: Summary) -> dict[str, float | None]:
    """Return the relative error of the simulation for each figure; ``None`` where a figure is unknown."""
    found: dict[str, float | None] = {}
    for name in COMPARED:
        live, other = getattr(measured, name), getattr(simulated, name)
        found[name] = None if live is None or other is None or not live else other / live - 1
    return found
