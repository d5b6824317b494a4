"""Metrics of a service and of all its jobs, for Prometheus and OpenTelemetry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from headgate.core.types import Instant
from headgate.rules.model import ALL_OPERATORS
from headgate.runtime.exposition.families import Exposition, Reading
from headgate.runtime.exposition.job_figures import JobFigures
from headgate.runtime.exposition.open_telemetry import Telemetry, open_telemetry
from headgate.service.applied_changes import BOTH, IN, OUT
from headgate.service.jobs import ServedJob

if TYPE_CHECKING:
    from headgate.service.service import Service


class ServiceFigures:
    """Counts the observations and decisions of all jobs of a service."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._jobs: dict[str, JobFigures] = {}
        self._telemetry: Telemetry | None = None

    @cached_property
    def exposition(self) -> Exposition:
        """Made at the first request, because only then Prometheus' library is needed."""
        made = Exposition(self.readings)
        for figures in tuple(self._jobs.values()):
            made.add(figures)
        return made

    def of_job(self, name: str) -> JobFigures:
        """Return the figures of a job; a job that comes back under the same name continues counting."""
        if name not in self._jobs:
            figures = JobFigures(name, lambda: self._interval_s(name), paused=lambda: self._paused(name))
            self._jobs[name] = figures
            if "exposition" in self.__dict__:
                self.exposition.add(figures)
        return self._jobs[name]

    def forget(self, name: str) -> None:
        self._jobs.pop(name, None)
        if "exposition" in self.__dict__:
            self.exposition.remove(name)

    def ticked(self, job: ServedJob, due_s: Instant, began_s: Instant, ended_s: Instant) -> None:
        figures = self._jobs.get(job.name)
        if figures is None:
            return
        figures.ticked(due_s, began_s, ended_s)
        if self._telemetry is not None:
            self._telemetry.ticked(job.name, began_s, ended_s, figures.decision)

    @contextmanager
    def sent(self) -> Iterator[None]:
        """Send the figures to where the variables of OpenTelemetry say, inside the block."""
        telemetry = open_telemetry()
        if telemetry is None:
            yield
            return
        telemetry.begin(lambda: self.exposition.readings())  # noqa: PLW0108 - made at the first request
        self._telemetry = telemetry
        try:
            yield
        finally:
            self._telemetry = None
            telemetry.close()

    def readings(self) -> Iterator[Reading]:
        """Yield the readings of the service itself."""
        service = self._service
        for job in service.fleet:
            joined = job.engine.joined
            for operator in job.operators:
                yield Reading("headgate_agent_up", (job.name, operator), float(operator in joined))
        yield Reading("headgate_jobs", (), float(len(service.fleet)))
        yield Reading("headgate_jobs_short", (), float(len(service.arbiter.short())))
        yield Reading("headgate_jobs_waiting", (), float(service.arbiter.waiting))
        for labels, (used, limit) in service.arbiter.usage().items():
            yield Reading("headgate_quota_used", labels, used)
            yield Reading("headgate_quota_limit", labels, limit)
        yield Reading("headgate_file_refused", (), float(bool(service.config_problem)))

    def _interval_s(self, name: str) -> float:
        return self._service.fleet.job(name).spec.interval_s

    def _paused(self, name: str) -> Mapping[str, bool]:
        """Return which directions are paused for the whole job; pauses of single operators do not count."""
        pause = self._service.fleet.job(name).steering.paused(ALL_OPERATORS, self._service.clock.now())
        way = None if pause is None else pause.body["direction"]
        return {direction: way in (direction, BOTH) for direction in (OUT, IN)}
