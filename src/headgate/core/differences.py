"""Rates and shares from counters: what two readings of one operator differ by.

Engines count; what a policy wants to know are rates. Here a reading is completed from the one before it. What an engine
has said itself stays as it is, and what cannot be known stays ``None``.

>>> before = Sample("job", 0.0, arrived=1000, done=900, busy_s=50, available_s=100)
>>> after = completed(Sample("job", 10.0, arrived=1500, done=1300, busy_s=56, available_s=120), before)
>>> after.input_rate_per_s, after.backlog, after.utilization
(50.0, 200.0, 0.3)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from operator import attrgetter

from headgate.core.quick import quickly
from headgate.core.types import JSON, Batch, Sample

_OF_NO_BATCH: Mapping[str, float | None] = {
    "processed_rate_per_s": None,
    "processing_time_s": 0.0,
    "scheduling_delay_s": 0.0,
}
"""An operator that has nothing to do would be through with a batch at once."""
_FIELDS = tuple(field.name for field in fields(Sample))
_PLACES = {name: place for place, name in enumerate(_FIELDS)}
_all_of = attrgetter(*_FIELDS)
_sample = quickly(Sample)
_OF_NEWEST_BATCH = ("processed_rate_per_s", "processing_time_s", "scheduling_delay_s", "trigger_interval_s")


def completed(sample: Sample, before: Sample | None) -> Sample:
    """The reading with the rates that it and the one before it tell."""
    found: dict[str, float | None] = {}
    if sample.backlog is None and sample.arrived is not None and sample.done is not None:
        found["backlog"] = max(0.0, float(sample.arrived - sample.done))
    if before is not None and sample.at_s > before.at_s:
        elapsed_s = sample.at_s - before.at_s
        found["input_rate_per_s"] = _rate(before.arrived, sample.arrived, elapsed_s)
        found["output_rate_per_s"] = _rate(before.emitted, sample.emitted, elapsed_s)
        found["utilization"] = _utilization(sample, before)
    if sample.batches:
        found |= _of_batches(sample.batches)
    elif sample.batch_ended_s is not None and before is not None:
        # No batch has ended since: what the newest one told is still the newest that is known.
        found |= {name: getattr(before, name) for name in _OF_NEWEST_BATCH}
    made = _with(sample, found) if found else sample
    is_idle = sample.batch_ended_s is not None and not sample.batches and made.is_idle
    return _with(sample, {**found, **_OF_NO_BATCH}) if is_idle else made


def _with(sample: Sample, found: Mapping[str, float | None]) -> Sample:
    # A reading has many fields and each is completed: dataclasses.replace, which asks for one at a time, takes long.
    values: list[JSON] = list(_all_of(sample))
    changed = False
    for name, value in found.items():
        place = _PLACES[name]
        if value is not None and values[place] is None:
            values[place] = value
            changed = True
    return _sample(*values) if changed else sample


def busy_span_s(batches: Iterable[Batch]) -> float:
    """How long at least one of the batches was running: those of several queries share the slots.

    >>> busy_span_s([Batch(0, 4, 10), Batch(2, 6, 10), Batch(8, 9, 10)])
    7.0
    """
    total_s, until_s = 0.0, float("-inf")
    for batch in sorted(batches, key=lambda one: one.started_s):
        total_s += max(0.0, batch.ended_s - max(batch.started_s, until_s))
        until_s = max(until_s, batch.ended_s)
    return total_s


def _of_batches(batches: tuple[Batch, ...]) -> dict[str, float | None]:
    newest = max(batches, key=lambda batch: batch.ended_s)
    full = [batch for batch in batches if batch.records]
    busy_s = busy_span_s(full)
    return {
        "processed_rate_per_s": sum(batch.records for batch in full) / busy_s if busy_s > 0 else None,
        "processing_time_s": newest.processing_time_s,
        "scheduling_delay_s": newest.scheduling_delay_s,
        "trigger_interval_s": newest.trigger_interval_s or None,
    }


def _rate(before: float | None, after: float | None, elapsed_s: float) -> float | None:
    # A counter that went back was started anew: the difference means nothing.
    return None if before is None or after is None or after < before else float((after - before) / elapsed_s)


def _utilization(sample: Sample, before: Sample) -> float | None:
    now_s, then_s = (sample.busy_s, sample.available_s), (before.busy_s, before.available_s)
    if now_s[0] is None or now_s[1] is None or then_s[0] is None or then_s[1] is None:
        return before.utilization if sample.batch_ended_s is not None else None
    busy_s, available_s = now_s[0] - then_s[0], now_s[1] - then_s[1]
    if available_s <= 0 or busy_s < 0:
        return before.utilization  # Both grow at the end of a batch only.
    return float(min(1.0, busy_s / available_s))
