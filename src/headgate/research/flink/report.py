"""The report of a run of a Flink job: a row of figures, its course over time, and a plot."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np

from headgate.core.slo import LatencySlo
from headgate.core.types import JSON, Decision
from headgate.render.figures import KEY, figure
from headgate.render.plots import Plot
from headgate.render.story import story_of
from headgate.research.flink.measured import JobSlots, changes, seconds
from headgate.research.flink.run import FlinkRan
from headgate.workloads.parse import parse_workload

DRAWN_S = 2.0

NOTES = (
    "Real Flink and Kafka on this machine, each run on a cluster of its own. A record keeps a subtask of the middle "
    "step waiting for a fixed time, as if for a service elsewhere, so that subtasks add up though cores are few.",
    "A record is late whose result the broker of the sink got later than allowed after the record was due; that and "
    "the delays come from the topics alone. Slots are those that Flink said the job had, looked at twice a second, "
    "from when it is judged to the last result. doubled are results that came twice: after a restart Flink reads "
    "again what came since the last checkpoint, and writes to a topic at once.",
)


def row(ran: FlinkRan) -> dict[str, JSON]:
    """The figures of one run."""
    slo, delays_s = ran.run.objective.slo, ran.truth.judged(ran.judged_s)
    assert isinstance(slo, LatencySlo)
    late_pct = 100 * float((delays_s > slo.bound_s).mean())
    # Not between two records, of which one may have no result: its delay has no end, and nothing lies before that.
    p50_s, p95_s, p99_s = (_finite(value) for value in np.percentile(delays_s, (50, 95, 99), method="higher").tolist())
    had = [one for one in ran.had if one.sizes]
    most = {name: max(one.sizes.get(name, 0) for one in had) for name in had[-1].sizes} if had else {}
    return {
        "policy": ran.run.policy,
        "records": len(ran.truth.due_s),
        "late_pct": round(late_pct, 2),
        "kept": late_pct <= 100 - slo.percentile,
        "delay_p50_s": p50_s,
        "delay_p95_s": p95_s,
        "delay_p99_s": p99_s,
        "slot_seconds": _seconds(ran, lambda one: one.slots),
        "subtask_seconds": _seconds(ran, lambda one: sum(one.sizes.values())),
        "rescales": rescales(ran.had),
        "stood_still_s": round(sum(_pauses_s(ran)), 1),
        "most": " / ".join(map(str, most.values())),
        "lost": ran.truth.missing,
        "doubled": ran.truth.doubled,
    }


def _finite(value_s: float) -> float | None:
    return round(value_s, 2) if math.isfinite(value_s) else None


def _seconds(ran: FlinkRan, value_of: Callable[[JobSlots], float]) -> int:
    course = [(one.at_s, value_of(one)) for one in changes(ran.had)]
    return round(seconds(course, ran.judged_s, ran.truth.last_s))


def rescales(had: Sequence[JobSlots]) -> int:
    """How often the job was given other sizes."""
    return sum(before.sizes != after.sizes for before, after in pairwise(one for one in changes(had) if one.sizes))


def grew(had: Sequence[JobSlots]) -> dict[str, int]:
    """By how many subtasks each operator grew at most over what it began with."""
    sizes = [one.sizes for one in had if one.sizes]
    return {name: max(one[name] for one in sizes) - first for name, first in sizes[0].items()} if sizes else {}


def _pauses_s(ran: FlinkRan) -> Iterator[float]:
    for event in ran.events:
        pause_s = event.numbers.get("pause_s")
        if isinstance(pause_s, float):
            yield pause_s


def course(ran: FlinkRan) -> dict[str, JSON]:
    """Load, delays and sizes over time, for those who draw it themselves."""
    slo, load = ran.run.objective.slo, parse_workload(ran.run.workload)
    until_s = max(ran.truth.last_s - ran.began_s, ran.run.seconds)
    steps = [one for one in changes(ran.had) if one.sizes]
    return {
        "policy": ran.run.policy,
        "bound_s": slo.bound_s if isinstance(slo, LatencySlo) else None,
        "load": [(at_s, round(load.rate_per_s(at_s), 1)) for at_s in np.arange(0.0, ran.run.seconds, DRAWN_S).tolist()],
        "delays": list(ran.truth.longest(ran.began_s, DRAWN_S)),
        "sizes": {
            name: [(round(max(0.0, one.at_s - ran.began_s), 1), one.sizes[name]) for one in steps]
            + [(round(until_s, 1), steps[-1].sizes[name])]
            for name in (steps[-1].sizes if steps else {})
        },
        "changes": [_change(ran, decision) for decision in ran.decisions if not decision.is_hold],
    }


def _change(ran: FlinkRan, decision: Decision) -> dict[str, JSON]:
    changed = [verdict for verdict in decision.verdicts.values() if verdict.change]
    return {
        "at_s": round(decision.at_s - ran.began_s, 1),
        "sizes": {verdict.operator: [verdict.current, verdict.target] for verdict in changed},
        "why": {verdict.operator: verdict.reason for verdict in changed},
    }


def plot(ran: FlinkRan, operator: str) -> Plot:
    """What Headgate read of one operator, and what it decided."""
    made = figure(ran.observations, story_of(list(ran.decisions), ran.observations), ran.run.objective, operator)
    return Plot(f"{ran.run.policy}: {operator}, as it was read", made["data"], made["layout"], KEY)
