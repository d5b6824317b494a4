"""When a reading shows what instances can carry: only while they are given more than that."""

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
