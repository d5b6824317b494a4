"""What a reading shows of what instances can carry: all of it only while they are given more than that."""

from __future__ import annotations

from headgate.core.types import Sample


def saturated_throughput(sample: Sample) -> float | None:
    """Records per second that the ready instances carried at most, or ``None`` where they were not saturated.

    Saturated means that records wait and more arrive than are processed. Readings made while instances came or went
    tell of no size in particular.

    >>> saturated_throughput(Sample("job", 0, input_rate_per_s=120, processed_rate_per_s=100, backlog=40))
    100
    >>> saturated_throughput(Sample("job", 0, input_rate_per_s=80, processed_rate_per_s=100, backlog=40)) is None
    True
    """
    offered, processed = sample.input_rate_per_s, sample.processed_rate_per_s
    if sample.warming or offered is None or not processed or not sample.backlog:
        return None
    return processed if offered >= processed else None


def estimated_throughput(sample: Sample) -> float | None:
    """Records per second that all instances together could carry, by how busy they were: the more cautious guess.

    >>> estimated_throughput(Sample("job", 0, input_rate_per_s=50, utilization=0.25))
    200.0
    """
    guesses = []
    # Batches that follow each other without a pause take as long as they have: only a trigger shows idle time.
    if sample.trigger_interval_s and sample.processed_rate_per_s:
        guesses.append(float(sample.processed_rate_per_s))
    if sample.utilization and sample.input_rate_per_s:
        guesses.append(float(sample.input_rate_per_s / sample.utilization))
    return min(guesses, default=None)
