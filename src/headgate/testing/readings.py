"""What the readings of any engine must keep to, as checks of a row of observations; ``engines.py`` collects it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from headgate.core.types import Batch, Observation, Sample
from headgate.testing.contract import ensure

NOW_S = 1.0
"""What a reading says is the state of now: it may be older than its observation by no more than this."""
COUNTERS = ("arrived", "given", "done", "emitted", "late", "busy_s", "available_s", "paused_s")
GAUGES = ("age_s", "backlog", "latency_s", "running_s")
COUNTED_WITHIN = 0.01
"""By what share the records of batches may differ from what was counted as done: rows are not always offsets."""
_ROUNDING = 1e-6


def check_readings(observations: Sequence[Observation], operator: str) -> None:
    """Run every check on the observations of one engine, oldest first, of an operator that has been at work."""
    for check in READING_CHECKS:
        check(observations, operator)


def readings_are_of_now(observations: Sequence[Observation], operator: str) -> None:
    """Time goes on; a reading is of the moment of its observation, and what it rests on that is older has an age."""
    for before, after in pairwise(observations):
        ensure(after.at_s >= before.at_s, f"an observation of {after.at_s} came after one of {before.at_s}")
    for observation, sample in _readings(observations, operator):
        behind_s = observation.at_s - sample.at_s
        ensure(
            0 <= behind_s <= NOW_S,
            f"a reading of {operator} is {behind_s:g} s older than its observation; it should say what is now, and "
            "tell the age of what that rests on",
        )
        for name in GAUGES:
            value = getattr(sample, name)
            ensure(value is None or value >= 0, f"{name} of {operator} was {value}; it cannot be negative")
        ended_s = sample.batch_ended_s
        ensure(
            ended_s is None or ended_s <= sample.at_s + _ROUNDING,
            f"a batch of {operator} that ends at {ended_s} was told at {sample.at_s}",
        )


def counters_never_go_back(observations: Sequence[Observation], operator: str) -> None:
    """Whatever happens to the size, what was counted stays counted."""
    samples = [sample for _, sample in _readings(observations, operator)]
    known = 0
    for name in COUNTERS:
        values = [value for sample in samples if (value := getattr(sample, name)) is not None]
        known += len(values) > 1
        for before, after in pairwise(values):
            ensure(after >= before - _ROUNDING, f"the counter {name} of {operator} went back from {before} to {after}")
    ensure(known > 0, f"none of {', '.join(COUNTERS)} of {operator} was ever known")


def every_batch_is_told_once(observations: Sequence[Observation], operator: str) -> None:
    """In the order in which they ended, none again, and all: together they are what was done meanwhile."""
    samples = [sample for _, sample in _readings(observations, operator)]
    newest: dict[str, Batch] = {}
    for sample in samples:
        for batch in sample.batches:
            before = newest.get(batch.query)
            ensure(
                before is None or batch.started_s >= before.ended_s - _ROUNDING,
                f"a batch of {operator} from {batch.started_s} on was told after one until {before and before.ended_s}",
            )
            ensure(
                batch.started_s <= batch.ended_s <= sample.at_s + _ROUNDING,
                f"a batch of {operator} from {batch.started_s} to {batch.ended_s} was told at {sample.at_s}",
            )
            newest[batch.query] = batch
    if newest:
        _ensure_complete(samples, operator)


def _ensure_complete(samples: Sequence[Sample], operator: str) -> None:
    counted = [sample for sample in samples if sample.done is not None]
    if len(counted) < 2:
        return
    first, last = counted[0], counted[-1]
    batches = [batch for sample in counted[1:] for batch in sample.batches]
    told, done = sum(batch.records for batch in batches), (last.done or 0.0) - (first.done or 0.0)
    # What is done of a batch that runs is counted before it is told.
    is_between = first.running_s is None and last.running_s is None
    # Where none has been told yet, it may be all that waited or came.
    came = (first.backlog or 0.0) + (last.arrived or 0.0) - (first.arrived or 0.0)
    open_records = 0.0 if is_between else max((batch.records for batch in batches), default=came)
    ensure(
        abs(told - done) <= open_records + COUNTED_WITHIN * max(told, done) + _ROUNDING,
        f"the batches of {operator} had {told:g} records, and {done:g} were counted as done meanwhile",
    )


def sizes_stay_within_the_plans(observations: Sequence[Observation], operator: str) -> None:
    """No size is below 0, and there are never more instances ready than any plan so far wanted."""
    most = 0
    for observation in observations:
        instances = observation.instances[operator]
        lowest = min(instances.planned, instances.requested, instances.ready)
        ensure(lowest >= 0, f"sizes of {operator} cannot be {instances}; none may be negative")
        most = max(most, instances.planned)
        ensure(instances.ready <= most, f"{instances.ready} of {operator} were ready; no plan wanted more than {most}")


READING_CHECKS: tuple[Callable[[Sequence[Observation], str], None], ...] = (
    readings_are_of_now,
    counters_never_go_back,
    every_batch_is_told_once,
    sizes_stay_within_the_plans,
)


def _readings(observations: Sequence[Observation], operator: str) -> Iterator[tuple[Observation, Sample]]:
    """Each with its observation. Asked twice at one moment, an engine may give the same reading again."""
    newest_s = -math.inf
    for observation in observations:
        sample = observation.samples.get(operator)
        if sample is not None and sample.at_s != newest_s:
            newest_s = sample.at_s
            yield observation, sample
