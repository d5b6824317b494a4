"""The figures of one job: counts what its loop observes and decides, and reads the rest when they are collected.

They are updated on the loop's thread and collected on another. Labels are bounded: operators, policies, guards.
"""

from __future__ import annotations

import contextlib
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from headgate.core.guards import is_capped, is_limited_by_cluster
from headgate.core.types import Decision, Event, Instances, Observation, Sample, Verdict
from headgate.journal.contract import Journal
from headgate.runtime.exposition.families import Reading
from headgate.runtime.exposition.open_telemetry import Telemetry, open_telemetry
from headgate.runtime.loop import ControlLoop, Mode

MISSABLE = ("backlog", "latency_s", "input_rate_per_s", "utilization")
"""The metrics that are counted when they are missing."""
MOST_KINDS = 50
"""Kinds of events that are counted each; agents may report any."""
OTHER_KIND = "other"
Paused = Callable[[], Mapping[str, bool]]
"""Which directions are held back: ``out`` and ``in``."""


def never_paused() -> Mapping[str, bool]:
    return {"out": False, "in": False}


class JobFigures:
    """Watches the loop of a job; the driver of the loop reports when a cycle was due, began and ended (``ticked``).

    A job that gets another loop continues its counts: ``attach`` is called again.
    """

    def __init__(
        self,
        job: str,
        interval_s: Callable[[], float],
        *,
        journal: Path | None = None,
        paused: Paused = never_paused,
    ) -> None:
        self.job = job
        self._loop: ControlLoop | None = None
        self._interval_s = interval_s
        self._journal = journal
        self._paused = paused
        self._counts: defaultdict[tuple[str, tuple[str, ...]], float] = defaultdict(float)
        self._kinds: set[str] = set()
        self.decision: Decision | None = None
        """The last decision; ``None`` if nothing could be observed."""
        self._lateness_s = 0.0
        self._ended_s: float | None = None
        self._observation: Observation | None = None
        self._samples: dict[str, Sample] = {}
        self._limits: dict[str, dict[str, bool]] = {}
        """By operator: what limits its size."""
        self._of_objective: list[Reading] = []
        self._lock = threading.Lock()

    def attach(self, loop: ControlLoop) -> None:
        """Watch a loop from now on."""
        self._loop = loop
        loop.watchers.append(self.saw)
        loop.event_watchers.append(self.noted)

    # ---------------------------------------------------------------------------------------- called by the loop

    def saw(self, observation: Observation | None, decision: Decision | None) -> None:
        self.decision = decision
        with self._lock:
            if observation is None:
                self._count("headgate_observe_failures_total", self.job)
                return
            self._observation = observation
            self._samples.update(observation.samples)
            for operator in observation.instances:
                self._count_missing(operator, observation.samples.get(operator))
            if decision is not None:
                for verdict in decision.verdicts.values():
                    self._count_verdict(decision.policy, verdict)
            # Here and not when they are collected: only the loop's own thread may read its history.
            self._of_objective = list(self._objective_readings())

    def noted(self, event: Event) -> None:
        with self._lock:
            is_known = event.kind in self._kinds or len(self._kinds) < MOST_KINDS
            kind = event.kind if is_known else OTHER_KIND
            self._kinds.add(kind)
            self._count("headgate_events_total", self.job, kind)

    def ticked(self, due_s: float, began_s: float, ended_s: float) -> None:
        """A cycle has ended."""
        with self._lock:
            self._count("headgate_ticks_total", self.job)
            self._count("headgate_tick_seconds_total", self.job, by=ended_s - began_s)
            self._lateness_s = max(0.0, began_s - due_s)
            self._ended_s = ended_s

    def _count(self, family: str, *labels: str, by: float = 1.0) -> None:
        self._counts[family, labels] += by

    def _count_missing(self, operator: str, sample: Sample | None) -> None:
        missing = ["sample"] if sample is None else [name for name in MISSABLE if getattr(sample, name) is None]
        for name in missing:
            self._count("headgate_missing_readings_total", self.job, operator, name)

    def _count_verdict(self, policy: str, verdict: Verdict) -> None:
        direction = "hold" if verdict.change == 0 else "out" if verdict.change > 0 else "in"
        self._count("headgate_decisions_total", self.job, verdict.operator, policy, direction)
        self._limits[verdict.operator] = {
            "headgate_capped": is_capped(verdict),
            "headgate_limited_by_cluster": is_limited_by_cluster(verdict),
        }
        for note in verdict.notes:
            if note.before != note.after:
                self._count("headgate_guard_changes_total", self.job, verdict.operator, note.guard)

    # --------------------------------------------------------------------------------------------------- collected

    def readings(self) -> Iterator[Reading]:
        """Yield every figure that is known; an unknown one is left out, never 0."""
        with self._lock:
            counts, seen, samples = list(self._counts.items()), self._observation, dict(self._samples)
            lateness_s, ended_s, of_objective = self._lateness_s, self._ended_s, self._of_objective
            limits = dict(self._limits)
        for (family, labels), value in counts:
            yield Reading(family, labels, value)
        for operator, instances in seen.instances.items() if seen else ():
            yield from self._of_size(operator, instances)
        for operator, found in limits.items():
            yield from (Reading(family, (self.job, operator), float(is_so)) for family, is_so in found.items())
        for operator, sample in samples.items():
            yield from self._of_sample(operator, sample)
        yield from of_objective
        loop = self._loop
        of_loop: tuple[tuple[str, float | None], ...] = (
            ("headgate_acting", None if loop is None else float(loop.mode is Mode.ACT)),
            ("headgate_loop_lateness_seconds", lateness_s),
            ("headgate_loop_interval_seconds", self._interval_s()),
            ("headgate_last_tick_timestamp_seconds", ended_s),
            ("headgate_journal_failed", None if loop is None else float(loop.journal_fault is not None)),
            ("headgate_journal_size_bytes", _size_bytes(self._journal)),
        )
        yield from (Reading(name, (self.job,), value) for name, value in of_loop if value is not None)
        for direction, is_paused in self._paused().items():
            yield Reading("headgate_paused", (self.job, direction), float(is_paused))

    def _of_size(self, operator: str, instances: Instances) -> Iterator[Reading]:
        for state in ("planned", "requested", "ready"):
            yield Reading("headgate_instances", (self.job, operator, state), float(getattr(instances, state)))
        yield Reading("headgate_size_is_stale", (self.job, operator), float(instances.stale))

    def _of_sample(self, operator: str, sample: Sample) -> Iterator[Reading]:
        values = {
            "headgate_records_arrived_total": sample.arrived,
            "headgate_records_done_total": sample.done,
            "headgate_records_late_total": sample.late,
            "headgate_backlog_records": sample.backlog,
            "headgate_latency_seconds": sample.worst_latency_s,
            "headgate_processing_time_seconds": sample.processing_time_s,
            "headgate_utilization_ratio": sample.utilization,
            "headgate_reading_timestamp_seconds": sample.at_s - sample.age_s,
        }
        for name, value in values.items():
            if value is not None:
                yield Reading(name, (self.job, operator), float(value))

    def _objective_readings(self) -> Iterator[Reading]:
        if self._loop is None:
            return
        history = self._loop.history
        for operator in history.operators:
            budget = history.budget(operator)
            if budget is None:
                continue
            yield Reading("headgate_error_budget_left_ratio", (self.job, operator), 1.0 - budget.spent)
            for window, rate in (("long", budget.burn_long), ("short", budget.burn_short)):
                if rate is not None:
                    yield Reading("headgate_error_budget_burn_rate", (self.job, operator, window), rate)
        spending = history.spending()
        if spending is not None:
            yield Reading("headgate_cost_per_hour", (self.job,), spending.per_hour)
            yield Reading("headgate_cost_spent", (self.job,), spending.spent)


def _size_bytes(path: Path | None) -> float | None:
    try:
        return None if path is None else float(path.stat().st_size)
    except OSError:
        return None  # A journal that was moved away has no size; another metric shows that it cannot be written.


class JobExposure:
    """Exposes the figures of one loop to Prometheus and OpenTelemetry until it is closed."""

    def __init__(self) -> None:
        self.url: str | None = None
        """Of the page for Prometheus."""
        self._figures: JobFigures | None = None
        self._telemetry: Telemetry | None = None
        self._open = contextlib.ExitStack()

    def watch(self, loop: ControlLoop, interval_s: float, journal: Path | None, port: int | None) -> None:
        """Expose a loop as configured."""
        telemetry = open_telemetry()
        if port is None and telemetry is None:
            return
        figures = self._figures = JobFigures(loop.job, lambda: interval_s, journal=journal)
        figures.attach(loop)
        if port is not None:
            from headgate.runtime.exposition.families import Exposition

            exposition = Exposition()
            exposition.add(figures)
            page = self._open.enter_context(exposition.serve(port))
            self.url = page.url
        if telemetry is not None:
            telemetry.begin(figures.readings)
            self._telemetry = telemetry
            self._open.callback(telemetry.close)

    def ticked(self, due_s: float, began_s: float, ended_s: float) -> None:
        if self._figures is None:
            return
        self._figures.ticked(due_s, began_s, ended_s)
        if self._telemetry is not None:
            self._telemetry.ticked(self._figures.job, began_s, ended_s, self._figures.decision)

    def close(self) -> None:
        """Stop exposing it. Calling it twice is fine."""
        self._open.close()


def expose(loop: ControlLoop, interval_s: float, journal: Journal | None, port: int | None) -> JobExposure:
    """Expose a job on a port, and as the variables of OpenTelemetry say."""
    exposure = JobExposure()
    path = getattr(journal, "path", None)
    exposure.watch(loop, interval_s, path if isinstance(path, Path) else None, port)
    return exposure
