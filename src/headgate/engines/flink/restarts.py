"""How long a job stands still when it is rescaled, and when it was started again: noticed, measured and told.

Flink starts a job again for every change of its sizes. The times are Flink's own, to the millisecond, however rarely it
is looked at: the new run says when it was made, and every subtask how long it has been at work.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from headgate.core.types import Event, Instant, Startup
from headgate.engines.flink.answers import RUNNING, JobDetails, VertexDetails

RESTARTING = "RESTARTING"
CREATED = "CREATED"
KEPT = 50


class Restarts:
    """Follows the lives of one job."""

    def __init__(self) -> None:
        self._life: tuple[str, int] | None = None
        self._stopped_ms: int | None = None
        """When Flink was seen to stop the life before."""
        self._sizes: dict[str, int] = {}
        self._asked_s: Instant | None = None
        """When other sizes were asked for that are not there yet."""
        self.pauses_s: list[float] = []
        """How long the job stood still for each of the last rescales."""
        self.paused_s = 0.0
        """How long it stood still for all of them together."""
        self._events: list[Event] = []
        self._startups: dict[str, list[Startup]] = {}

    @property
    def usual_pause_s(self) -> float | None:
        return median(self.pauses_s) if self.pauses_s else None

    def asked(self, now: Instant) -> None:
        """Other sizes were asked for."""
        self._asked_s = now

    def glance(self, job: JobDetails) -> bool:
        """Take in how a job stands; whether it is at work in a life that was not measured yet."""
        if job.state == RESTARTING:
            self._stopped_ms = job.timestamps.get(RESTARTING) or job.now_ms
        return job.is_at_work and job.life != self._life

    def began(
        self, now: Instant, job: JobDetails, vertices: Mapping[str, VertexDetails], sizes: Mapping[str, int]
    ) -> None:
        """Take in that a life has begun, by when its subtasks did."""
        before, is_first = dict(self._sizes), self._life is None
        is_other_job = self._life is not None and self._life[0] != job.jid
        self._life, self._sizes = job.life, dict(sizes)
        if is_first:
            # That it was stopped before it was ever seen at work is no pause of what comes next.
            self._stopped_ms = None
            return
        running_ms = [
            one.lasting_ms[RUNNING]
            for vertex in vertices.values()
            for one in vertex.subtasks
            if RUNNING in one.lasting_ms
        ]
        looked_ms = max((vertex.now_ms for vertex in vertices.values()), default=job.now_ms)
        began_ms = looked_ms - min(running_ms, default=0)
        made_ms = job.timestamps.get(CREATED) or began_ms
        stopped_ms = made_ms if self._stopped_ms is None else min(made_ms, self._stopped_ms)
        pause_s = max(0.0, (began_ms - stopped_ms) / 1000)
        began_s = now - max(0, looked_ms - began_ms) / 1000
        self._stopped_ms = None
        changed = {name: (before[name], size) for name, size in sizes.items() if before.get(name, size) != size}
        if changed and not is_other_job:
            self._rescaled(began_s, pause_s, changed)
        elif not is_other_job:
            told = f"the job was started again, after {pause_s:.1f} s in which it stood still"
            self._events.append(Event(now, "job-restarted", told, {"pause_s": pause_s}))

    def _rescaled(self, began_s: Instant, pause_s: float, changed: Mapping[str, tuple[int, int]]) -> None:
        self.pauses_s = [*self.pauses_s, pause_s][-KEPT:]
        self.paused_s += pause_s
        asked_s, self._asked_s = self._asked_s, None
        sizes = ", ".join(f"{name} {before} → {size}" for name, (before, size) in changed.items())
        took = "" if asked_s is None else f" {max(0.0, began_s - asked_s):.1f} s after it was asked for"
        told = f"{sizes} at work{took}; the job stood still for {pause_s:.1f} s"
        self._events.append(Event(began_s, "rescaled", told, {"pause_s": pause_s}))
        if asked_s is None:
            return
        for name, (before, size) in changed.items():
            after_s = max(0.0, began_s - asked_s)
            self._startups.setdefault(name, []).extend(
                Startup(f"{name}-{number}", asked_s, after_s, after_s, after_s) for number in range(before, size)
            )

    def take_events(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def take_startups(self) -> dict[str, tuple[Startup, ...]]:
        startups, self._startups = self._startups, {}
        return {name: tuple(found) for name, found in startups.items()}
