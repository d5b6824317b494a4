"""The plots of one operator: load, latency, backlog and size, with predictions and decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from headgate.core.objective import LatencySlo, Objective
from headgate.core.topology import Topology
from headgate.core.types import Decision, Instant, Observation, Role, Sample, Verdict
from headgate.core.units import format_duration
from headgate.render.figures import samples_of, violations
from headgate.render.story import AFTER, PREFIX, Item, RowKind, is_decision_on, row_of
from headgate.service.config.model import JobSpec
from headgate.service.pages.formats import latency
from headgate.service.pages.plots.axes import TimeAxis
from headgate.service.pages.plots.panel import Band, Level, Line, Mark, Panel

EXPECTED = "expected"


def panels(
    time: TimeAxis,
    observations: Sequence[Observation],
    decisions: Sequence[Decision],
    items: Sequence[Item],
    objective: Objective,
    operator: str,
) -> list[Panel]:
    """Return four plots over one time axis."""
    samples = list(samples_of(observations, operator))
    sizes = [(seen.at_s, seen.instances[operator]) for seen in observations if operator in seen.instances]
    shaded = list(violations(samples, objective.slo_of(operator)))
    acting = [
        (decision.at_s, decision.verdicts[operator])
        for decision in decisions
        if decision.role is not Role.SHADOW and operator in decision.verdicts
    ]
    slo = objective.slo_of(operator)
    levels = [Level(slo.bound_s, f"objective {format_duration(slo.bound_s)}")] if isinstance(slo, LatencySlo) else []

    def measured(name: str, unit: str, kind: str, value_of: Callable[[Sample], float | None], expected: str) -> Panel:
        points = [(sample.at_s, value_of(sample)) for sample in samples]
        bands = _bands(acting, expected)
        return Panel(name, unit, time, [Line(name.lower(), kind, points, filled=True)], bands, shaded=shaded)

    load = measured("Load", "records/s", "rate", lambda sample: sample.input_rate_per_s, "rate_per_s")
    waits = measured("Latency", "", "latency", lambda sample: sample.worst_latency_s, "latency_s")
    backlog = measured("Backlog", "records", "backlog", lambda sample: sample.backlog, "backlog")
    lines = [
        Line("ready", "ready", [(at_s, size.ready) for at_s, size in sizes], steps=True),
        Line("planned", "planned", [(at_s, size.planned) for at_s, size in sizes], steps=True),
    ]
    marks = list(_marks(items, operator))
    size = Panel("Instances", "", time, lines, marks=marks, shaded=shaded, whole=True)
    return [load, replace(waits, levels=levels, format_value=latency), backlog, size]


def end_to_end(time: TimeAxis, observations: Sequence[Observation], spec: JobSpec) -> Panel:
    """Return the plot of the latency from end to end: the sum along the path where it is longest."""
    topology, slo = spec.topology, spec.end_to_end.slo
    points = [(seen.at_s, longest_path_s(topology, seen)) for seen in observations]
    levels = [Level(slo.bound_s, f"objective {format_duration(slo.bound_s)}")] if isinstance(slo, LatencySlo) else []
    lines = [Line("end to end", "latency", points, filled=True)]
    return Panel("Latency, end to end", "", time, lines, levels=levels, format_value=latency)


def longest_path_s(topology: Topology, observation: Observation) -> float | None:
    """Return the sum of the operators' latencies along the path where it is longest; ``None`` if one is unknown."""
    until_s: dict[str, float] = {}
    for operator in topology.order:
        sample = observation.samples.get(operator)
        if sample is None or sample.worst_latency_s is None:
            return None
        before_s = max((until_s[name] for name in topology.upstream(operator)), default=0.0)
        until_s[operator] = before_s + float(sample.worst_latency_s)
    return max(until_s.values(), default=None)


def _bands(verdicts: Sequence[tuple[Instant, Verdict]], what: str) -> list[Band]:
    """Return the predictions of a quantity, each at the time it was made for."""
    found = []
    for at_s, verdict in verdicts:
        after_s, low, high = (
            verdict.numbers.get(key) for key in (AFTER, f"{PREFIX}{what}_low", f"{PREFIX}{what}_high")
        )
        if isinstance(after_s, int | float) and isinstance(low, int | float) and isinstance(high, int | float):
            found.append((at_s + after_s, float(low), float(high)))
    return [Band(EXPECTED, found)] if len(found) > 1 else []


def _marks(items: Sequence[Item], operator: str) -> Iterator[Mark]:
    for item in items:
        if not is_decision_on(item, operator):
            continue
        row = row_of(item)
        if row.kind is not RowKind.HOLD and row.size is not None:
            yield Mark(row.at_s, row.size, row.kind, row.key, f"{row.change}: {row.reason}")
