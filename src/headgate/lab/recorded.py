"""Build the recording that a simulator is calibrated to from the readings of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median_high

import numpy as np

from headgate.core.errors import InputError
from headgate.core.objective import Objective
from headgate.core.types import Batch, Decision, Observation, Role, Sample
from headgate.lab.batch_times import SEEN_WITHIN_S
from headgate.lab.fidelity import Recording
from headgate.runtime.summary import RunRecord
from headgate.workloads.steps import Steps

_AT_ONCE_S = 0.01
"""The backlog at the first reading arrives within this time in the simulation."""
_LEFT_BEHIND_S = 0.5
"""A record older than the previous batch by more than this was left over by that batch."""
_SAME_MOMENT_S = 2.0
_WAITED_S = 0.05
"""A batch that started this long after the end of the previous one waited for its trigger."""
_OFTEN = 3
_ALIKE = 0.02


def recording_of(
    observations: Sequence[Observation], decisions: Sequence[Decision], objective: Objective, operator: str = "job"
) -> Recording:
    """Return a run as a recording, from the first reading of a job that has instances.

    The trigger interval, the tasks of a batch and the limit of its records are inferred from the readings. A run with
    too few readings of its load raises an ``InputError``.
    """
    observations = from_first_reading(observations, operator)
    samples = [seen.samples[operator] for seen in observations if operator in seen.samples]
    record = RunRecord(objective, operator)
    for observation in observations:
        record(observation, None)
    acting = [decision for decision in decisions if decision.role is Role.ACTING]
    for decision in acting:
        # The timestamp of a decision at the first reading may be slightly older than the reading.
        if decision.at_s >= record.start_s - _SAME_MOMENT_S:
            record(None, replace(decision, at_s=max(decision.at_s, record.start_s)))
    batches = [batch for sample in samples for batch in sample.batches]
    interval_s = max((batch.trigger_interval_s for batch in batches), default=0.0)
    lead_s = until_trigger_s(batches, record.start_s, interval_s)
    observations = [seen for seen in observations if operator in seen.instances]
    found = Recording.of(
        record,
        recorded_load(samples, lead_s),
        lead_s=lead_s,
        seen_within_s=max(SEEN_WITHIN_S, reading_interval_s(observations)),
        trigger_interval_s=interval_s,
        partitions=max((sample.useful_instances or 0 for sample in samples), default=0) or None,
        max_records_per_batch=most_records(batches),
    )
    if not acting:
        # Something else scaled the job.
        return replace(found, sizes=_planned(observations, operator, record.start_s - lead_s))
    planned = observations[0].instances[operator].planned
    # Some may have been requested already.
    return found if planned == found.start else replace(found, sizes=[(lead_s, planned), *found.sizes])


def _planned(observations: Sequence[Observation], operator: str, from_s: float) -> list[tuple[float, int]]:
    """Return the planned sizes in the observations, each with its time."""
    sizes = [(seen.at_s - from_s, seen.instances[operator].planned) for seen in observations]
    return [sizes[0], *(after for before, after in pairwise(sizes) if before[1] != after[1])]


def reading_interval_s(observations: Sequence[Observation]) -> float:
    """Return the median time between readings, because a journal may have been thinned."""
    times_s = [seen.at_s for seen in observations]
    spans_s = [after_s - before_s for before_s, after_s in pairwise(times_s) if after_s > before_s]
    return median_high(spans_s) if spans_s else 0.0


def from_first_reading(observations: Sequence[Observation], operator: str) -> Sequence[Observation]:
    """Return the observations from the first one with a sample and ready instances."""
    first = next((place for place, seen in enumerate(observations) if _has_reading(seen, operator)), len(observations))
    return observations[first:]


def _has_reading(observation: Observation, operator: str) -> bool:
    size = observation.instances.get(operator)
    return operator in observation.samples and size is not None and size.ready > 0


def recorded_load(samples: Sequence[Sample], lead_s: float = 0.0) -> Steps:
    """Return the arrivals between readings, and the backlog at the first one, as a load.

    The first reading is at ``lead_s``, and the backlog arrives before it.
    """
    # Arrivals between two known counts are spread evenly.
    known = [(sample.at_s, sample.arrived) for sample in samples if sample.arrived is not None]
    start_s = (samples[0].at_s if samples else 0.0) - lead_s
    times_s, rates = [known[0][0] - start_s if known else lead_s], []
    for (before_s, before), (after_s, after) in pairwise(known):
        if after_s > before_s:
            times_s.append(after_s - start_s)
            # A counter that decreased was reset.
            rates.append(max(0.0, float(after - before)) / (after_s - before_s))
    if not any(rates):
        raise InputError(f"{len(samples)} readings do not tell what arrived; two with a count are needed.")
    waited = samples[0].backlog or 0.0
    if times_s[0] > 0:
        rates.insert(0, waited / times_s[0])
        times_s.insert(0, 0.0)
    elif waited:
        at_once_s = min(_AT_ONCE_S, times_s[1] / 2)
        times_s.insert(1, at_once_s)
        rates.insert(0, rates[0] + waited / at_once_s)
    return Steps(times_s, rates, "recorded load")


def until_trigger_s(batches: Sequence[Batch], from_s: float, interval_s: float) -> float:
    """Return the time since the last trigger before ``from_s``, inferred from the starts of batches.

    >>> round(until_trigger_s([Batch(100.3 + 2 * n, 101.0 + 2 * n, 5) for n in range(9)], 105.0, 2.0), 6)
    0.7
    """
    on_time = [after.started_s for before, after in pairwise(batches) if after.started_s - before.ended_s > _WAITED_S]
    if not interval_s or not on_time:
        return 0.0
    # Averaged as angles: the mean of times just before and just after a trigger is the trigger.
    angles = 2 * np.pi * (from_s - np.array(on_time)) / interval_s
    return float(np.angle(np.exp(1j * angles).mean()) / (2 * np.pi) * interval_s) % interval_s


def most_records(batches: Sequence[Batch]) -> float | None:
    """Return the limit of records per batch, where batches left records over; ``None`` where none did.

    >>> left = [Batch(10 * n, 10 * n + 9, 120, oldest_s=10 * n - 30 if n > 1 else None) for n in range(8)]
    >>> most_records(left), most_records(left[:2])
    (120, None)
    """
    full = [
        before.records
        for before, after in pairwise(batch for batch in batches if batch.records)
        if after.oldest_s is not None and after.oldest_s < before.started_s - _LEFT_BEHIND_S
    ]
    most = max(full, default=0.0)
    alike = [records for records in full if records >= (1 - _ALIKE) * most]
    return most if len(alike) >= max(_OFTEN, len(full) / 2) else None
