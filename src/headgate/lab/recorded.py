"""What the readings of a run tell of the job that was run: the recording that a simulator is calibrated to."""

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
"""What waited when a run was first looked at comes within this time."""
_LEFT_BEHIND_S = 0.5
"""A record that is older than the batch before it, by more than this, was left behind by that batch."""
_SAME_MOMENT_S = 2.0
_WAITED_S = 0.05
"""A batch that started so long after the end of the one before it had waited for its trigger."""
_OFTEN = 3
_ALIKE = 0.02


def recording_of(
    observations: Sequence[Observation], decisions: Sequence[Decision], objective: Objective, operator: str = "job"
) -> Recording:
    """A run as its observations and decisions tell it, from the first reading of a job that has instances on.

    What nobody wrote down is found from the readings: the trigger interval, the tasks of a batch, and how many records
    one may have. A run that tells too little of its load is an ``InputError``.
    """
    observations = from_first_reading(observations, operator)
    samples = [seen.samples[operator] for seen in observations if operator in seen.samples]
    record = RunRecord(objective, operator)
    for observation in observations:
        record(observation, None)
    acting = [decision for decision in decisions if decision.role is Role.ACTING]
    for decision in acting:
        # One that was made as the run was first looked at may seem to be a moment older.
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
        seen_within_s=max(SEEN_WITHIN_S, looked_every_s(observations)),
        trigger_interval_s=interval_s,
        partitions=max((sample.useful_instances or 0 for sample in samples), default=0) or None,
        max_records_per_batch=most_records(batches),
    )
    if not acting:
        # Somebody else scaled the job, or nobody wrote down who did.
        return replace(found, sizes=_planned(observations, operator, record.start_s - lead_s))
    planned = observations[0].instances[operator].planned
    # Some may have been asked for already.
    return found if planned == found.start else replace(found, sizes=[(lead_s, planned), *found.sizes])


def _planned(observations: Sequence[Observation], operator: str, from_s: float) -> list[tuple[float, int]]:
    """When which size was planned, as far as the observations tell."""
    sizes = [(seen.at_s - from_s, seen.instances[operator].planned) for seen in observations]
    return [sizes[0], *(after for before, after in pairwise(sizes) if before[1] != after[1])]


def looked_every_s(observations: Sequence[Observation]) -> float:
    """How often was looked, in the median: a journal may have been thinned."""
    times_s = [seen.at_s for seen in observations]
    spans_s = [after_s - before_s for before_s, after_s in pairwise(times_s) if after_s > before_s]
    return median_high(spans_s) if spans_s else 0.0


def from_first_reading(observations: Sequence[Observation], operator: str) -> Sequence[Observation]:
    """The observations without those at the beginning that tell nothing, or of a job without instances."""
    first = next((place for place, seen in enumerate(observations) if _tells(seen, operator)), len(observations))
    return observations[first:]


def _tells(observation: Observation, operator: str) -> bool:
    size = observation.instances.get(operator)
    return operator in observation.samples and size is not None and size.ready > 0


def recorded_load(samples: Sequence[Sample], lead_s: float = 0.0) -> Steps:
    """What arrived between the readings of a run, in seconds from the first of them, and what waited then.

    With a ``lead_s`` that is when the first reading was taken: what waited came before it.
    """
    # What came while nobody knew what did is spread over that time.
    known = [(sample.at_s, sample.arrived) for sample in samples if sample.arrived is not None]
    start_s = (samples[0].at_s if samples else 0.0) - lead_s
    times_s, rates = [known[0][0] - start_s if known else lead_s], []
    for (before_s, before), (after_s, after) in pairwise(known):
        if after_s > before_s:
            times_s.append(after_s - start_s)
            # A counter that went back was started anew.
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
    """How long it is from the trigger before a time to that time, as the starts of batches tell.

    >>> round(until_trigger_s([Batch(100.3 + 2 * n, 101.0 + 2 * n, 5) for n in range(9)], 105.0, 2.0), 6)
    0.7
    """
    on_time = [after.started_s for before, after in pairwise(batches) if after.started_s - before.ended_s > _WAITED_S]
    if not interval_s or not on_time:
        return 0.0
    # As angles, for a phase has no end: the mean of just before and just after a trigger is the trigger.
    angles = 2 * np.pi * (from_s - np.array(on_time)) / interval_s
    return float(np.angle(np.exp(1j * angles).mean()) / (2 * np.pi) * interval_s) % interval_s


def most_records(batches: Sequence[Batch]) -> float | None:
    """How many records a batch may have, where batches were seen to leave some behind; ``None`` where none did.

    >>> left = [Batch(10 * n, 10 * n + 9, 120, oldest_s=10 * n - 30 if n > 1 else None) for n in range(8)]
    >>> most_records(left), most_records(left[:2])
    (120, None)
    """
    full = [
        before.records
        for before, after in pairwise(one for one in batches if one.records)
        if after.oldest_s is not None and after.oldest_s < before.started_s - _LEFT_BEHIND_S
    ]
    most = max(full, default=0.0)
    alike = [records for records in full if records >= (1 - _ALIKE) * most]
    return most if len(alike) >= max(_OFTEN, len(full) / 2) else None
