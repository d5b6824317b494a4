"""The job that has a name, whatever its number is by now: jobs are stopped with a savepoint and submitted again."""

from __future__ import annotations

from headgate.core.errors import EngineError, EngineGoneError, InputError, UnknownNameError
from headgate.core.types import Event, Instant
from headgate.core.units import format_duration
from headgate.engines.flink.answers import TERMINAL, JobDetails, JobEntry
from headgate.engines.flink.rest import FlinkRest, UnknownJobError

GONE_AFTER_S = 120.0
"""As long as this, a job that ended is waited for under its name: an upgrade takes its time."""


class Followed:
    """Finds the job again when it has ended, and says when it is gone for good. A number serves as a name, too."""

    def __init__(self, rest: FlinkRest, name: str, *, gone_after_s: float = GONE_AFTER_S) -> None:
        self._rest = rest
        self.name = name
        self._gone_after_s = gone_after_s
        self._missing_since_s: Instant | None = None
        self._events: list[Event] = []
        self.id = self._first().jid
        """Its number."""

    def take_events(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def details(self, now: Instant) -> JobDetails:
        """The job as it is; ``EngineError`` while there is none, ``EngineGoneError`` when it has ended for good."""
        try:
            job = self._rest.job(self.id)
        except UnknownJobError:
            state = "not known any more"
        else:
            if job.state not in TERMINAL:
                self._missing_since_s = None
                return job
            state = job.state
        return self._found_again(now, state)

    def _found_again(self, now: Instant, state: str) -> JobDetails:
        running = self._running()
        if running:
            newest = max(running, key=lambda one: one.started_ms)
            told = f"job {self.name!r} is {state} as {self.id}, and goes on as {newest.jid}"
            self._events.append(Event(now, "job-followed", told))
            self.id, self._missing_since_s = newest.jid, None
            return self._rest.job(newest.jid)
        if self._missing_since_s is None or self._missing_since_s > now:
            self._missing_since_s = now
        told = f"job {self.name!r} is {state} at {self._rest.url}, and no other of that name"
        if now - self._missing_since_s >= self._gone_after_s:
            raise EngineGoneError(f"{told} came within {format_duration(now - self._missing_since_s)}.")
        raise EngineError(f"{told} runs yet.")

    def _running(self) -> list[JobEntry]:
        return [one for one in self._rest.jobs() if self.name in (one.name, one.jid) and one.state not in TERMINAL]

    def _first(self) -> JobEntry:
        running = self._running()
        if not running:
            known = {one.name for one in self._rest.jobs() if one.state not in TERMINAL}
            raise UnknownNameError(f"job at {self._rest.url}", self.name, known)
        if len(running) > 1:
            numbers = ", ".join(one.jid for one in running)
            raise InputError(f"job {self.name!r} runs {len(running)} times at {self._rest.url}; give one of {numbers}.")
        return running[0]
