"""How long new instances of a job took to be of use, as its journal tells it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from headgate.core.errors import JournalError
from headgate.core.startup import Spread, StartupSummary, StartupTimes, startup_summary
from headgate.core.types import JSON, Observation
from headgate.core.units import format_duration, instances_in_words


def startup_summaries(
    saved: Mapping[str, JSON] | None, observations: Iterable[Observation] = ()
) -> dict[str, StartupSummary]:
    """A summary for each operator: of the times that were saved as learned, or else of those in some observations."""
    times: dict[str, StartupTimes] = defaultdict(StartupTimes)
    if saved is None:
        for observation in observations:
            for operator, startups in observation.startups.items():
                for startup in startups:
                    times[operator].add(startup)
    else:
        try:
            times.update((operator, StartupTimes.from_json(one)) for operator, one in saved.items())
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise JournalError(f"start-up times in the journal are damaged: {error!r}.") from error
    return {operator: startup_summary(one) for operator, one in times.items() if len(one)}


def startup_in_words(summary: StartupSummary) -> str:
    """
    >>> startup_in_words(StartupSummary(12, Spread(4.0, 6.0), Spread(6.0, 8.0), None))
    'measured on 12 instances: registered 4s after the request (90 % within 6s), first task done after 6s (8s)'
    """
    stages = (("registered", summary.registered_s), ("first task done", summary.first_task_s), ("warm", summary.warm_s))
    told = [_stage(name, spread, first=name == "registered") for name, spread in stages if spread is not None]
    return f"measured on {instances_in_words(summary.count)}: {', '.join(told)}"


def _stage(name: str, spread: Spread, *, first: bool) -> str:
    """The first one says what the two numbers are."""
    median, p90 = format_duration(spread.median_s), format_duration(spread.p90_s)
    return f"{name} {median} after the request (90 % within {p90})" if first else f"{name} after {median} ({p90})"
