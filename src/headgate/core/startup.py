"""Start-up times of new instances, as measured on this job.

>>> times = StartupTimes()
>>> times.add(Startup("1", 0.0, 4.0, 6.0, 11.0))
>>> times.add(Startup("2", 0.0, 5.0, 8.0, None))
>>> times.warm_s.quantile(0.9), times.registered_s.quantile(0.5)
(11.0, 4.0)
>>> startup_summary(times).first_task_s
DurationQuantiles(median_s=6.0, p90_s=8.0)
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headgate.core.errors import JournalError
from headgate.core.types import JSON, Observation, Startup
from headgate.core.units import format_duration, instances_in_words

MAX_DURATIONS = 100
"""Number of newest times to retain, so that a cluster that became slower is noticed."""


class Durations:
    """The newest of some measured durations, in seconds."""

    def __init__(self, values_s: Iterable[float] = ()) -> None:
        self._values_s: deque[float] = deque(values_s, maxlen=MAX_DURATIONS)

    def __len__(self) -> int:
        return len(self._values_s)

    @property
    def values_s(self) -> tuple[float, ...]:
        """Oldest first."""
        return tuple(self._values_s)

    def add(self, value_s: float | None) -> None:
        if value_s is not None:
            self._values_s.append(float(value_s))

    def quantile(self, share: float) -> float | None:
        """The smallest measured time that this share of them did not exceed; ``None`` before there are any."""
        if not self._values_s:
            return None
        ordered = sorted(self._values_s)
        return ordered[max(0, math.ceil(share * len(ordered) - 1e-9) - 1)]


class StartupTimes:
    """The times of one operator's instances, from the request to each of three moments."""

    def __init__(self) -> None:
        self.registered_s = Durations()
        """Until the cluster had it."""
        self.first_task_s = Durations()
        """Until its first task was done."""
        self.warm_s = Durations()
        """Until a batch was no longer slower because of it."""

        self._incomplete: dict[str, Startup] = {}
        """Start-ups that are not complete yet, by instance."""

    def __len__(self) -> int:
        return len(self.registered_s)

    def add(self, startup: Startup) -> None:
        """Add a start-up; an instance that is reported again when more is known counts once."""
        before = self._incomplete.pop(startup.instance, None)
        if before is None or before.requested_s != startup.requested_s:
            before = None
            self.registered_s.add(startup.registered_after_s)
        if before is None or before.first_task_after_s is None:
            self.first_task_s.add(startup.first_task_after_s)
        self.warm_s.add(startup.warm_after_s)
        if startup.warm_after_s is None:
            self._incomplete[startup.instance] = startup
            if len(self._incomplete) > MAX_DURATIONS:
                del self._incomplete[next(iter(self._incomplete))]

    def to_json(self) -> dict[str, JSON]:
        return {
            "registered_s": list(self.registered_s.values_s),
            "first_task_s": list(self.first_task_s.values_s),
            "warm_s": list(self.warm_s.values_s),
        }

    @classmethod
    def from_json(cls, saved: Mapping[str, JSON]) -> StartupTimes:
        times = cls()
        for name in ("registered_s", "first_task_s", "warm_s"):
            setattr(times, name, Durations(float(value_s) for value_s in saved[name]))
        return times


@dataclass(frozen=True, slots=True)
class DurationQuantiles:
    """The median and the 90th percentile of durations."""

    median_s: float
    p90_s: float


@dataclass(frozen=True, slots=True)
class StartupSummary:
    """Start-up times from the request on; ``None`` where they were never observed."""

    count: int
    registered_s: DurationQuantiles | None
    first_task_s: DurationQuantiles | None
    warm_s: DurationQuantiles | None


def startup_summary(times: StartupTimes) -> StartupSummary:
    """The distribution of measured start-up times in a few numbers."""
    return StartupSummary(len(times), _spread(times.registered_s), _spread(times.first_task_s), _spread(times.warm_s))


def _spread(durations: Durations) -> DurationQuantiles | None:
    median_s, p90_s = durations.quantile(0.5), durations.quantile(0.9)
    return None if median_s is None or p90_s is None else DurationQuantiles(median_s, p90_s)


def startup_summaries(
    saved: Mapping[str, JSON] | None, observations: Iterable[Observation] = ()
) -> dict[str, StartupSummary]:
    """Return a summary per operator: of saved times, or else of those in the observations."""
    times: dict[str, StartupTimes] = defaultdict(StartupTimes)
    if saved is None:
        for observation in observations:
            for operator, startups in observation.startups.items():
                for startup in startups:
                    times[operator].add(startup)
    else:
        try:
            times.update((operator, StartupTimes.from_json(saved_times)) for operator, saved_times in saved.items())
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise JournalError(f"start-up times in the journal are damaged: {error!r}.") from error
    return {operator: startup_summary(saved_times) for operator, saved_times in times.items() if len(saved_times)}


def startup_in_words(summary: StartupSummary) -> str:
    """
    >>> startup_in_words(StartupSummary(12, DurationQuantiles(4.0, 6.0), DurationQuantiles(6.0, 8.0), None))
    'measured on 12 instances: registered 4s after the request (90 % within 6s), first task done after 6s (8s)'
    """
    stages = (("registered", summary.registered_s), ("first task done", summary.first_task_s), ("warm", summary.warm_s))
    stages_text = [_stage(name, spread, first=name == "registered") for name, spread in stages if spread is not None]
    return f"measured on {instances_in_words(summary.count)}: {', '.join(stages_text)}"


def _stage(name: str, spread: DurationQuantiles, *, first: bool) -> str:
    """Return one stage as text; the first explains the two numbers."""
    median, p90 = format_duration(spread.median_s), format_duration(spread.p90_s)
    return f"{name} {median} after the request (90 % within {p90})" if first else f"{name} after {median} ({p90})"
