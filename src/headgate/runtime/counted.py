"""The course of a live run, from what its engine counted: the batches and the counters of its readings.

- Every batch has its oldest record, and every reading has the oldest that is not done yet: from its arrival on it aged
  second by second. That is enough to know how long any bound was exceeded, however rare the readings are.
- Where an engine counts late records and arrivals, their share is a difference; otherwise it follows from the batches.
- Where there are no batches, a reading stands for the time since the one before it, and so do rates and sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from headgate.core.course import Course, Rows, rows
from headgate.core.objective import ThroughputSlo
from headgate.core.spending import paid_instances
from headgate.core.types import Batch, Observation, Sample


def course_of(observations: Sequence[Observation], operator: str) -> Course:
    """Return the course of one operator from the observations of a run."""
    samples = list(_samples(observations, operator))
    known_s = [observation.at_s for observation in observations]
    batches = [batch for sample in samples for batch in sample.batches if batch.records]
    backlogs = [sample.backlog for sample in samples if sample.backlog is not None]
    last_s = known_s[-1] if known_s else 0.0
    return Course(
        samples[0].at_s if samples else last_s,
        last_s,
        waits=_known((*map(_wait_of_batch, batches), *_waits_of_readings(samples)), 4),
        results=rows((*_results(batches, samples), *_unfinished(samples)), 3),
        loads=lambda: _known(_loads(samples, last_s), 5),
        behind=_behind(samples, last_s),
        sizes=_sizes(observations, operator),
        max_backlog=max(backlogs, default=None),
        counted_late=_counted_late(samples),
    )


def _samples(observations: Iterable[Observation], operator: str) -> Iterator[Sample]:
    """The readings, each once: an engine may report the newest one again."""
    newest: Sample | None = None
    for observation in observations:
        sample = observation.samples.get(operator)
        if sample is not None and (newest is None or sample.at_s > newest.at_s):
            newest = sample
            yield sample


def _wait_of_batch(batch: Batch) -> tuple[float, ...]:
    return batch.ended_s - batch.latency_s, batch.ended_s, 0.0, batch.latency_s


def _waits_of_readings(samples: Iterable[Sample]) -> Iterator[tuple[float, ...]]:
    for sample in samples:
        if sample.latency_s is not None:
            yield sample.at_s - sample.latency_s, sample.at_s, 0.0, sample.latency_s


def _results(batches: Sequence[Batch], samples: Sequence[Sample]) -> Iterator[tuple[float, ...]]:
    for query in dict.fromkeys(batch.query for batch in batches):
        yield from _results_of_query([batch for batch in batches if batch.query == query])
    if any(sample.batch_ended_s is not None for sample in samples):
        return
    for before, sample in pairwise(samples):
        if sample.latency_s is not None:
            arrived = _difference(before.arrived, sample.arrived)
            yield sample.at_s - before.at_s if arrived is None else arrived, sample.latency_s, sample.latency_s
    if len(samples) == 1 and samples[0].latency_s is not None:
        yield 1.0, samples[0].latency_s, samples[0].latency_s


def _results_of_query(batches: Sequence[Batch]) -> Iterator[tuple[float, ...]]:
    """The newest record of a batch had arrived as it started, and is older if more waited than were admitted."""
    next_oldest_s = [*(batch.oldest_s for batch in batches[1:]), None]
    for batch, after_s in zip(batches, next_oldest_s, strict=True):
        newest_s = batch.started_s if after_s is None else min(batch.started_s, after_s)
        yield batch.records, min(batch.ended_s - newest_s, batch.latency_s), batch.latency_s


def _unfinished(samples: Sequence[Sample]) -> Iterator[tuple[float, ...]]:
    last = samples[-1] if samples else None
    if last is not None and last.batch_ended_s is not None and last.backlog and last.latency_s is not None:
        yield last.backlog, 0.0, last.latency_s


def _counted_late(samples: Sequence[Sample]) -> tuple[float, float] | None:
    """Return the late records and all records: arrivals, and the backlog of the first reading."""
    late = [_difference(before.late, after.late) for before, after in pairwise(samples)]
    arrived = [_difference(before.arrived, after.arrived) for before, after in pairwise(samples)]
    known = [(some, all_) for some, all_ in zip(late, arrived, strict=True) if some is not None and all_ is not None]
    if not known:
        return None
    total = (samples[0].backlog or 0.0) + sum(all_ for _, all_ in known)
    return min(total, sum(some for some, _ in known)), total


def _difference(before: float | None, after: float | None) -> float | None:
    # A counter that went back was restarted.
    return None if before is None or after is None or after < before else after - before


def _spans(samples: Sequence[Sample], last_s: float) -> Iterator[tuple[float, float, Sample]]:
    """Yield the span that each reading stands for: since the one before it, and the last one until the end."""
    for before, sample in pairwise(samples):
        yield before.at_s, sample.at_s, sample
    if samples and (last_s > samples[-1].at_s or len(samples) == 1):
        yield samples[-1].at_s, last_s, samples[-1]


def _loads(samples: Sequence[Sample], last_s: float) -> Iterator[tuple[float, ...]]:
    for from_s, to_s, sample in _spans(samples, last_s):
        if sample.backlog is not None and sample.input_rate_per_s is not None:
            yield from_s, to_s, sample.backlog, sample.backlog, sample.input_rate_per_s * (to_s - from_s)


def _behind(samples: Sequence[Sample], last_s: float) -> Rows | None:
    """Return the spans with less throughput than arrivals; the newest rate stands while a batch has not ended."""
    slo, fell = ThroughputSlo(), []
    processed = samples[0].processed_rate_per_s if samples else None
    for from_s, to_s, sample in _spans(samples, last_s):
        processed = processed if sample.processed_rate_per_s is None else sample.processed_rate_per_s
        fell.append((from_s, to_s, slo.violated_by(replace(sample, processed_rate_per_s=processed))))
    if all(behind is None for _, _, behind in fell):
        return None
    return rows(((from_s, to_s) for from_s, to_s, behind in fell if behind), 2)


def _known(values: Iterable[tuple[float, ...]], width: int) -> Rows | None:
    found = rows(values, width)
    return found if len(found) else None


def _sizes(observations: Sequence[Observation], operator: str) -> Rows:
    sizes = [(seen.at_s, seen.instances[operator]) for seen in observations if operator in seen.instances]
    spans = ((before_s, at_s, size) for (before_s, _), (at_s, size) in pairwise(sizes))
    found = [(from_s, to_s, size.ready, paid_instances(size)) for from_s, to_s, size in spans]
    if len(sizes) == 1:
        ((at_s, size),) = sizes
        found.append((at_s, at_s, size.ready, paid_instances(size)))
    return rows(found, 4)
