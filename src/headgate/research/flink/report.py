"""The report of a run of a Flink job: a row of figures, time series and a plot."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np

from headgate.core.objective import LatencySlo
from headgate.core.types import JSON, Decision
from headgate.render.figures import figure, key_of
from headgate.render.page import Plot
from headgate.render.story import story_of
from headgate.research.flink.measured import JobSlots, changes, seconds
from headgate.research.flink.run import FlinkResult
from headgate.workloads.parse import parse_workload

STEP_S = 2.0

NOTES = (
    "Real Flink and Kafka on this machine, each run on a cluster of its own. A record keeps a subtask of the middle "
    "step waiting for a fixed time, as if for a service elsewhere, so that subtasks add up though cores are few.",
    "A record is late if its result reached the broker of the sink later than allowed after the record was due; late "
    "records and delays come from the topics alone. Slots are those that Flink reported for the job, sampled twice a "
    "second, from the start of judging to the last result. doubled counts repeated results: after a restart Flink "
    "reads everything since the last checkpoint again, and writes to the topic at once.",
)


def row(result: FlinkResult) -> dict[str, JSON]:
    """Return the figures of a run."""
    slo, delays_s = result.run.objective.slo, result.truth.judged(result.judged_s)
    assert isinstance(slo, LatencySlo)
    late_pct = 100 * float((delays_s > slo.bound_s).mean())
    # A record without a result has an infinite delay, so interpolating between two records would give infinity or NaN.
    p50_s, p95_s, p99_s = (_finite(value) for value in np.percentile(delays_s, (50, 95, 99), method="higher").tolist())
    samples = [sample for sample in result.samples if sample.sizes]
    most = {name: max(sample.sizes.get(name, 0) for sample in samples) for name in samples[-1].sizes} if samples else {}
    return {
        "policy": result.run.policy,
        "records": len(result.truth.due_s),
        "late_pct": round(late_pct, 2),
        "kept": late_pct <= 100 - slo.percentile,
        "delay_p50_s": p50_s,
        "delay_p95_s": p95_s,
        "delay_p99_s": p99_s,
        "slot_seconds": _seconds(result, lambda sample: sample.slots),
        "subtask_seconds": _seconds(result, lambda sample: sum(sample.sizes.values())),
        "rescales": rescales(result.samples),
        "stood_still_s": round(sum(_pauses_s(result)), 1),
        "most": " / ".join(map(str, most.values())),
        "lost": result.truth.missing,
        "doubled": result.truth.doubled,
    }


def _finite(value_s: float) -> float | None:
    return round(value_s, 2) if math.isfinite(value_s) else None


def _seconds(result: FlinkResult, value_of: Callable[[JobSlots], float]) -> int:
    course = [(sample.at_s, value_of(sample)) for sample in changes(result.samples)]
    return round(seconds(course, result.judged_s, result.truth.last_s))


def rescales(samples: Sequence[JobSlots]) -> int:
    """Count the changes of sizes."""
    return sum(
        before.sizes != after.sizes for before, after in pairwise(sample for sample in changes(samples) if sample.sizes)
    )


def _pauses_s(result: FlinkResult) -> Iterator[float]:
    for event in result.events:
        pause_s = event.numbers.get("pause_s")
        if isinstance(pause_s, float):
            yield pause_s


def course(result: FlinkResult) -> dict[str, JSON]:
    """Return load, delays and sizes over time as plain data."""
    load = parse_workload(result.run.workload)
    until_s = max(result.truth.last_s - result.began_s, result.run.seconds)
    steps = [sample for sample in changes(result.samples) if sample.sizes]
    return {
        "policy": result.run.policy,
        "bound_s": result.run.objective.late_after_s,
        "load": [
            (at_s, round(load.rate_per_s(at_s), 1)) for at_s in np.arange(0.0, result.run.seconds, STEP_S).tolist()
        ],
        "delays": list(result.truth.longest(result.began_s, STEP_S)),
        "sizes": {
            name: [(round(max(0.0, sample.at_s - result.began_s), 1), sample.sizes[name]) for sample in steps]
            + [(round(until_s, 1), steps[-1].sizes[name])]
            for name in (steps[-1].sizes if steps else {})
        },
        "changes": [_change(result, decision) for decision in result.decisions if not decision.is_hold],
    }


def _change(result: FlinkResult, decision: Decision) -> dict[str, JSON]:
    changed = [verdict for verdict in decision.verdicts.values() if verdict.change]
    return {
        "at_s": round(decision.at_s - result.began_s, 1),
        "sizes": {verdict.operator: [verdict.current, verdict.target] for verdict in changed},
        "why": {verdict.operator: verdict.reason for verdict in changed},
    }


def plot(result: FlinkResult, operator: str) -> Plot:
    """Plot the readings of an operator and the decisions."""
    made = figure(
        result.observations, story_of(list(result.decisions), result.observations), result.run.objective, operator
    )
    return Plot(f"{result.run.policy}: readings of {operator}", made["data"], made["layout"], key_of(made))
