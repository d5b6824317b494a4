"""A Flink job in virtual time: every rescale and every failure stops it, and it catches up afterwards.

It is modelled as micro-batches with a trigger of two seconds; readings every few seconds do not resolve finer steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from headgate.core.course import Course
from headgate.core.topology import Topology
from headgate.core.types import Instant, Sample
from headgate.research.demeter.calibration import JobModel
from headgate.research.demeter.measured_runs import BOUND_S, FAILURE_EVERY_S, STEP_S
from headgate.simulation.batch_job import OPERATOR, MicroBatchJob
from headgate.simulation.batch_readings import ReadingMode
from headgate.simulation.contract import Warmed
from headgate.simulation.micro_batch import MicroBatch
from headgate.workloads.steps import Steps

TRIGGER_S = 2.0
MOST = 24
"""TaskManagers available to a job."""
CPU_OVER_S = 60.0
"""Kubernetes reports CPU as the mean of about this time."""
BURST_S = 40.0
"""How long a restart takes more CPU."""


class ModelledFlinkJob:
    """A kernel with an operator called ``job``, whose instances are TaskManagers; ``deployment`` decides its pauses."""

    def __init__(self, model: JobModel, deployment: str, ready: int) -> None:
        self._model = model
        self._deployment = deployment
        rates = [float(rate) for rate in model.rates_per_s]
        load = Steps([STEP_S * step for step in range(len(rates) + 1)], rates, f"{model.app} of demeter")
        self._batches = MicroBatchJob(
            load, model.capacity(1), _behaviour(model), ready=ready, readings=ReadingMode.KAFKA, late_after_s=BOUND_S
        )
        self._failure_s = FAILURE_EVERY_S
        self._still: list[tuple[Instant, Instant]] = []
        self._read: list[tuple[Instant, float]] = [(0.0, 0.0)]
        """When CPU was read, and the work done by then."""
        self._joined: list[tuple[Instant, int]] = []
        """Recent times and numbers of TaskManagers that joined."""

    @property
    def seconds(self) -> float:
        """How long the load lasts."""
        return STEP_S * len(self._model.rates_per_s)

    @property
    def now_s(self) -> Instant:
        return self._batches.now_s

    @property
    def topology(self) -> Topology:
        return self._batches.topology

    @property
    def standstills(self) -> Sequence[tuple[Instant, Instant]]:
        """Spans in which nothing was processed; later ones may begin before earlier ones end."""
        return self._still

    def ready(self, operator: str) -> int:
        return self._batches.ready(operator)

    def advance(self, to_s: Instant) -> None:
        while self._failure_s < to_s:
            self._batches.advance(self._failure_s)
            self._stop(self._model.failure_s[self._deployment])
            self._failure_s += FAILURE_EVERY_S
        self._batches.advance(to_s)

    def resize(self, operator: str, ready: int, *, lost: bool = False) -> Sequence[Instant]:
        if ready == self.ready(operator):
            return ()
        if (more := ready - self.ready(operator)) > 0:
            self._joined.append((self.now_s, more))
        left = self._batches.resize(operator, ready, lost=lost)
        self.restart()
        # The remaining batch is done after the pause; a TaskManager that is released leaves at once.
        return [self.now_s] * len(left)

    def restart(self) -> None:
        """Restart the job as a rescale does."""
        self._stop(self._model.pause_s[self._deployment])

    def _stop(self, for_s: float) -> None:
        self._batches.stand_still(self.now_s + for_s)
        self._still.append((self.now_s, self.now_s + for_s))

    def warmed(self, operator: str) -> Sequence[Warmed]:
        return self._batches.warmed(operator)

    def samples(self) -> Mapping[str, Sample]:
        return self._batches.samples()

    def course(self, operator: str = OPERATOR) -> Course:
        return self._batches.course(operator)

    def cpu_load(self, operator: str) -> float:
        """Return the recent CPU utilisation of the TaskManagers as Kubernetes reports it; called at every reading."""
        now, model = self.now_s, self._model
        if now > self._read[-1][0]:
            self._read.append((now, self._batches.done()))
        since = [reading for reading in self._read if reading[0] <= now - CPU_OVER_S]
        self._read = [*since[-1:], *self._read[len(since) :]]
        (from_s, before), (_, done) = self._read[0], self._read[-1]
        span_s, ready = now - from_s, self.ready(operator)
        if span_s <= 0 or ready < 1:
            return model.idle_cpu
        # The work is divided by the present number of TaskManagers, although new ones have done none of it.
        worked = (done - before) / span_s / ready / model.records_per_cpu_s
        burst_s = sum(_shared_s(stopped_s, stopped_s + BURST_S, from_s, now) for stopped_s, _ in self._still[-8:])
        burst = model.restart_cpu_s * burst_s / BURST_S / span_s
        steps = slice(int(from_s / STEP_S), max(int(from_s / STEP_S) + 1, math.ceil(now / STEP_S)))
        noise = model.cpu_noise[steps]
        self._joined = [joined for joined in self._joined if joined[0] > now - CPU_OVER_S]
        # Kubernetes counts TaskManagers that have just started as idle, so that growth does not cause growth.
        known = max(0.0, 1 - sum(count for _, count in self._joined) / ready)
        load = model.idle_cpu + worked + burst + (float(noise.mean()) if len(noise) else 0.0)
        return known * max(0.0, min(1.0, load))


def _behaviour(model: JobModel) -> MicroBatch:
    """Return how the job's batches behave: the capacity of n TaskManagers, and a limit on records per batch."""
    return MicroBatch(
        trigger_interval_s=TRIGGER_S,
        overhead_s=0.0,
        max_records_per_batch=TRIGGER_S * model.capacity(MOST),
        cold_factor=model.cold_factor,
        cold_batches=6,
        speed_up=tuple((size, float(size**model.gamma)) for size in range(1, MOST + 1)),
    )


def _shared_s(from_s: float, to_s: float, after_s: float, before_s: float) -> float:
    return max(0.0, min(to_s, before_s) - max(from_s, after_s))
