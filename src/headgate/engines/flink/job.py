"""One job over its life: found again by its name, resized by requests, timed over its restarts."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from headgate.core.errors import EngineError, EngineGoneError, InputError, UnknownNameError, UnsupportedEngineError
from headgate.core.types import Event, Instant, Startup
from headgate.core.units import format_duration
from headgate.engines.flink.graph import Graph
from headgate.engines.flink.responses import (
    RUNNING,
    TERMINAL,
    JobDetails,
    JobEntry,
    ParallelismBounds,
    VertexDetails,
    VertexRequirement,
)
from headgate.engines.flink.rest import FlinkResponseError, FlinkRest, UnknownJobError

GONE_AFTER_S = 120.0
"""How long a new job of the same name is awaited after one has ended: an upgrade takes its time."""


class NamedJob:
    """A job by its name or id, found under a new id when it was stopped with a savepoint and submitted again."""

    def __init__(self, rest: FlinkRest, name: str, *, gone_after_s: float = GONE_AFTER_S) -> None:
        self._rest = rest
        self.name = name
        self._gone_after_s = gone_after_s
        self._missing_since_s: Instant | None = None
        self._events: list[Event] = []
        self.id = self._first().jid

    def take_events(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def details(self, now: Instant) -> JobDetails:
        """Return the current job; raise ``EngineError`` while there is none, ``EngineGoneError`` once it is gone."""
        try:
            job = self._rest.job(self.id)
        except UnknownJobError:
            state = "not known any more"
        else:
            if job.state not in TERMINAL:
                self._missing_since_s = None
                return job
            state = job.state
        return self._find_successor(now, state)

    def _find_successor(self, now: Instant, state: str) -> JobDetails:
        running = self._running()
        if running:
            newest = max(running, key=lambda entry: entry.started_ms)
            text = f"job {self.name!r} is {state} as {self.id}, and continues as {newest.jid}"
            self._events.append(Event(now, "job-followed", text))
            self.id, self._missing_since_s = newest.jid, None
            return self._rest.job(newest.jid)
        if self._missing_since_s is None or self._missing_since_s > now:
            self._missing_since_s = now
        text = f"job {self.name!r} is {state} at {self._rest.url}, and no other of that name"
        if now - self._missing_since_s >= self._gone_after_s:
            raise EngineGoneError(f"{text} came within {format_duration(now - self._missing_since_s)}.")
        raise EngineError(f"{text} runs yet.")

    def _running(self) -> list[JobEntry]:
        return [job for job in self._rest.jobs() if self.name in (job.name, job.jid) and job.state not in TERMINAL]

    def _first(self) -> JobEntry:
        running = self._running()
        if not running:
            known = {job.name for job in self._rest.jobs() if job.state not in TERMINAL}
            raise UnknownNameError(f"job at {self._rest.url}", self.name, known)
        if len(running) > 1:
            numbers = ", ".join(entry.jid for entry in running)
            raise InputError(f"job {self.name!r} runs {len(running)} times at {self._rest.url}; give one of {numbers}.")
        return running[0]


LOWEST_PARALLELISM = 1
"""The size at which Flink may run an operator while slots are missing, rather than not run the job at all."""


class SizeRequests:
    """Requests the sizes of all vertices together, and only when one differs."""

    def __init__(self, rest: FlinkRest, graph: Graph) -> None:
        self._rest = rest
        self._graph = graph

    def initial_sizes(self, job: JobDetails) -> dict[str, int]:
        """Return the sizes that were requested for the job before, or at its submission."""
        try:
            required = self._rest.requirements(job.jid)
        except FlinkResponseError as error:
            raise UnsupportedEngineError(
                f"job {job.name!r} cannot be rescaled while it runs; Flink answers: {error.text}; the cluster needs "
                "Flink 1.18 or newer, and 'jobmanager.scheduler: adaptive'."
            ) from error
        sizes = {vertex.id: vertex.parallelism for vertex in job.vertices}
        wanted = {}
        for member in self._graph.members:
            bounds, has = required.get(member.vertex), sizes.get(member.vertex, LOWEST_PARALLELISM)
            # A job without an upper bound, as in the reactive mode, is meant to have its current size.
            is_open = bounds is None or bounds.parallelism.upper >= member.max_parallelism > has
            wanted[member.operator] = max(
                LOWEST_PARALLELISM, has if is_open or bounds is None else bounds.parallelism.upper
            )
        return wanted

    def request(self, job: str, sizes: Mapping[str, int]) -> frozenset[str]:
        """Request these sizes where Flink's differ; return the operators whose size was requested."""
        has = self._rest.requirements(job)
        wanted = {
            member.vertex: VertexRequirement(
                parallelism=ParallelismBounds(lowerBound=LOWEST_PARALLELISM, upperBound=sizes[member.operator])
            )
            for member in self._graph.members
        }
        differing = {
            member.operator
            for member in self._graph.members
            if member.vertex not in has or has[member.vertex].parallelism.upper != sizes[member.operator]
        }
        if differing:
            self._rest.require(job, wanted)
        return frozenset(differing)


RESTARTING = "RESTARTING"
CREATED = "CREATED"
PAUSES_RETAINED = 50


class RestartTracker:
    """Measures how long one job stands still for rescales, and notices other restarts.

    Flink restarts a job for every change of its sizes. The times are Flink's own, to the millisecond, however rarely
    the job is observed: the new run says when it was created, and each subtask how long it has been running.
    """

    def __init__(self) -> None:
        self._life: tuple[str, int] | None = None
        self._stopped_ms: int | None = None
        """When Flink stopped the previous run."""
        self._sizes: dict[str, int] = {}
        self._requested_s: Instant | None = None
        """When sizes were requested that have not taken effect yet."""
        self.pauses_s: list[float] = []
        """The pause of each of the last rescales."""
        self.paused_s = 0.0
        """The pauses of all rescales together."""
        self._events: list[Event] = []
        self._startups: dict[str, list[Startup]] = {}

    @property
    def usual_pause_s(self) -> float | None:
        return median(self.pauses_s) if self.pauses_s else None

    def record_request(self, now: Instant) -> None:
        """Note that other sizes were requested."""
        self._requested_s = now

    def is_new_run(self, job: JobDetails) -> bool:
        """Note the state of the job; return whether it works in a run that was not measured yet."""
        if job.state == RESTARTING:
            self._stopped_ms = job.timestamps.get(RESTARTING) or job.now_ms
        return job.is_at_work and job.life != self._life

    def record_run(
        self, now: Instant, job: JobDetails, vertices: Mapping[str, VertexDetails], sizes: Mapping[str, int]
    ) -> None:
        """Note that a run has begun, as its subtasks say."""
        before, is_first = dict(self._sizes), self._life is None
        is_other_job = self._life is not None and self._life[0] != job.jid
        self._life, self._sizes = job.life, dict(sizes)
        if is_first:
            # A stop before the first observed run is not a pause.
            self._stopped_ms = None
            return
        running_ms = [
            subtask.lasting_ms[RUNNING]
            for vertex in vertices.values()
            for subtask in vertex.subtasks
            if RUNNING in subtask.lasting_ms
        ]
        observed_ms = max((vertex.now_ms for vertex in vertices.values()), default=job.now_ms)
        began_ms = observed_ms - min(running_ms, default=0)
        made_ms = job.timestamps.get(CREATED) or began_ms
        stopped_ms = made_ms if self._stopped_ms is None else min(made_ms, self._stopped_ms)
        pause_s = max(0.0, (began_ms - stopped_ms) / 1000)
        began_s = now - max(0, observed_ms - began_ms) / 1000
        self._stopped_ms = None
        changed = {name: (before[name], size) for name, size in sizes.items() if before.get(name, size) != size}
        if changed and not is_other_job:
            self._rescaled(began_s, pause_s, changed)
        elif not is_other_job:
            text = f"the job was started again, after {pause_s:.1f} s in which it stood still"
            self._events.append(Event(now, "job-restarted", text, {"pause_s": pause_s}))

    def _rescaled(self, began_s: Instant, pause_s: float, changed: Mapping[str, tuple[int, int]]) -> None:
        self.pauses_s = [*self.pauses_s, pause_s][-PAUSES_RETAINED:]
        self.paused_s += pause_s
        requested_s, self._requested_s = self._requested_s, None
        sizes = ", ".join(f"{name} {before} → {size}" for name, (before, size) in changed.items())
        took = "" if requested_s is None else f" {max(0.0, began_s - requested_s):.1f} s after the request"
        text = f"{sizes} at work{took}; the job stood still for {pause_s:.1f} s"
        self._events.append(Event(began_s, "rescaled", text, {"pause_s": pause_s}))
        if requested_s is None:
            return
        for name, (before, size) in changed.items():
            after_s = max(0.0, began_s - requested_s)
            self._startups.setdefault(name, []).extend(
                Startup(f"{name}-{number}", requested_s, after_s, after_s, after_s) for number in range(before, size)
            )

    def take_events(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def take_startups(self) -> dict[str, tuple[Startup, ...]]:
        startups, self._startups = self._startups, {}
        return {name: tuple(found) for name, found in startups.items()}
