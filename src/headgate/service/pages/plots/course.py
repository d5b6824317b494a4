"""The plots of one operator: load, latency, backlog and size, with what was expected and what was decided."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

from headgate.core.objective import LatencySlo, Objective
from headgate.core.types import Decision, Instant, Observation, Role, Sample, Verdict
from headgate.core.units import format_duration
from headgate.journal.expectations import AFTER, PREFIX
from headgate.journal.story import Advice, Hold, Item, Resize
from headgate.lab.figures import samples_of, violations
from headgate.policies.frame.readings import plain
from headgate.service.pages.plots.axes import TimeAxis
from headgate.service.pages.plots.panel import Band, Level, Line, Mark, Panel

FORECAST = "Load that was expected"
EXPECTED = "Expected"


def panels(
    time: TimeAxis,
    observations: Sequence[Observation],
    decisions: Sequence[Decision],
    items: Sequence[Item],
    objective: Objective,
    operator: str,
) -> list[Panel]:
    """Four plots over one time axis."""
    samples = list(samples_of(observations, operator))
    sizes = [(one.at_s, one.instances[operator]) for one in observations if operator in one.instances]
    shaded = list(violations(samples, objective.slo_of(operator)))
    acting = [
        (one.at_s, one.verdicts[operator])
        for one in decisions
        if one.role is not Role.SHADOW and operator in one.verdicts
    ]
    slo = objective.slo_of(operator)
    levels = [Level(slo.bound_s, f"objective {format_duration(slo.bound_s)}")] if isinstance(slo, LatencySlo) else []

    def course(value_of: Callable[[Sample], float | None]) -> list[tuple[Instant, float | None]]:
        return [(sample.at_s, value_of(sample)) for sample in samples]

    return [
        Panel(
            "Load",
            "records/s",
            time,
            [Line("load", "rate", course(lambda sample: sample.input_rate_per_s), filled=True)],
            bands=_bands(FORECAST, acting, "rate_per_s"),
            shaded=shaded,
        ),
        Panel(
            "Latency",
            "",
            time,
            [Line("latency", "latency", course(lambda sample: sample.worst_latency_s), filled=True)],
            bands=_bands(EXPECTED, acting, "latency_s"),
            levels=levels,
            shaded=shaded,
            told=_duration,
        ),
        Panel(
            "Backlog",
            "records",
            time,
            [Line("backlog", "backlog", course(lambda sample: sample.backlog), filled=True)],
            bands=_bands(EXPECTED, acting, "backlog"),
            shaded=shaded,
        ),
        Panel(
            "Instances",
            "",
            time,
            [
                Line("ready", "ready", [(at_s, size.ready) for at_s, size in sizes], steps=True),
                Line("planned", "planned", [(at_s, size.planned) for at_s, size in sizes], steps=True),
            ],
            marks=list(_marks(items, operator)),
            shaded=shaded,
            whole=True,
        ),
    ]


def _duration(seconds: float) -> str:
    """A latency, of which nobody needs more than a tenth of a second from a plot."""
    return format_duration(round(seconds, 1) if seconds >= 1 else seconds)


def _bands(name: str, verdicts: Sequence[tuple[Instant, Verdict]], what: str) -> list[Band]:
    """What decisions expected of something, each at the time that it was expected for."""
    found = []
    for at_s, verdict in verdicts:
        after_s, low, high = (
            verdict.numbers.get(key) for key in (AFTER, f"{PREFIX}{what}_low", f"{PREFIX}{what}_high")
        )
        if isinstance(after_s, int | float) and isinstance(low, int | float) and isinstance(high, int | float):
            found.append((at_s + after_s, float(low), float(high)))
    return [Band(name, found)] if len(found) > 1 else []


def _marks(items: Sequence[Item], operator: str) -> Iterator[Mark]:
    for item in items:
        if isinstance(item, Resize | Hold | Advice) and item.verdict.operator == operator:
            kind = kind_of(item)
            if kind != "hold":
                verdict = item.verdict
                value = verdict.proposed if kind == "stopped" else verdict.target
                yield Mark(item.at_s, value, kind, key_of(item), f"{change_in_words(item)}: {verdict.reason}")


def kind_of(item: Resize | Hold | Advice) -> str:
    """``out``, ``in``, ``stopped``, ``advice``, or ``hold``: what is neither needs no marker."""
    match item:
        case Resize(verdict=verdict):
            return "out" if verdict.change > 0 else "in"
        case Advice():
            return "advice"
        case Hold():
            return "stopped" if item.is_stopped else "hold"


def change_in_words(item: Resize | Hold | Advice) -> str:
    """What became of the size."""
    verdict = item.verdict
    match item:
        case Resize():
            return f"{verdict.current} → {verdict.target}"
        case Advice():
            return f"{verdict.current}, {verdict.target} recommended"
        case Hold():
            return f"{verdict.current}, not {verdict.proposed}" if item.is_stopped else f"{verdict.current} stays"


def key_of(item: Item) -> str:
    """An id for the row of an item, the same each time that it is told."""
    operator = item.verdict.operator if isinstance(item, Resize | Hold | Advice) else type(item).__name__
    return f"d-{round(1000 * item.at_s)}-{''.join(one if one.isalnum() else '-' for one in operator)}"


def clock(at_s: Instant) -> str:
    """A time of the day.

    >>> clock(1_700_000_000.0)
    '22:13:20'
    """
    return f"{datetime.fromtimestamp(at_s, UTC):%H:%M:%S}"


def rate(per_s: float | None) -> str:
    return "–" if per_s is None else f"{plain(per_s)}/s"
