"""The micro-batch model: a Structured Streaming job with a processing-time trigger.

- A batch starts at a multiple of the trigger interval, or as soon as the one before it is done if that took longer. It
  takes what has arrived by then, up to a limit. When nothing has arrived no batch runs, and the idle trigger is told as
  an empty one: nothing waits, nothing is late.
- It takes a fixed overhead, then its records are served by the slots of the instances that are ready. With
  ``partitions`` they are that many equal tasks, which run in waves; a change of size counts for those that have not
  started, and an instance that leaves finishes the one it has. Otherwise they are divided anew at every change.
- The results of a batch are there when it ends; what is done of it before shows in the backlog only.
- The first batches after an instance joined are slower (cold), and so is its first task, whose batch it holds up. Every
  change of size may cost a pause.
- With ``skew``, a share of the records of a batch has one key and is one piece of work for one slot: that slot starts
  with it, and the batch takes at least as long.
- Where ``work`` is given, records need not all be the same: it says how many records' worth of service arrives.
- As in Spark Streaming (DStreams), every trigger interval may make a batch of its own, however many wait already.
- Noise multiplies a batch's service time by a lognormal factor of mean 1, drawn from a seed as the batch starts.

Records are a fluid, as in the queue model: a batch may have a fraction of one. The job itself is in ``batch_job.py``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from headgate.core.errors import InputError


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """How the batches of a job behave, beside the service rate of an instance."""

    trigger_interval_s: float = 5.0
    overhead_s: float = 0.25
    """What a batch takes however few its records are."""
    max_records_per_batch: float | None = None
    """How many records are admitted to one batch; without it, all that wait."""
    cores: int = 1
    """Slots of an instance; together they serve at the instance's service rate."""
    partitions: int | None = None
    """Tasks that a batch is cut into, each done by one slot; without it, work is divided among all slots there are."""
    task_overhead_s: float = 0.0
    """What a task takes however few its records are."""
    skew: float = 0.0
    """The share of the records that have one key, so that one slot must do them all: a batch never takes less than that
    share of what a single slot would take for all, and more than ``1 / skew`` slots are of no use. Where a batch is cut
    into tasks, the largest has that share, or ``1 / partitions`` if that is more, and the others are equal."""
    cold_factor: float = 1.0
    """By how much the service time of a cold batch is longer."""
    cold_batches: int = 1
    """How many batches are cold after an instance joined."""
    cold_task_s: float = 0.0
    """How much longer the first task of a new slot takes, beyond that; where a batch is cut into tasks. It holds up the
    batch it belongs to, also one that was running when the instance joined."""
    rescale_pause_s: float = 0.0
    """How long the job stands still when instances join or leave."""
    noise: float = 0.0
    """The standard deviation of the logarithm of a batch's service time."""
    work_factor: tuple[tuple[float, float], ...] = ()
    """By how much records are heavier over time, as pairs of seconds and factor with straight lines between them; two
    pairs at one time are a jump. Without it, always by 1."""
    off_s: tuple[tuple[float, float], ...] = ()
    """By how much batches take longer, or shorter where it is below 0, than all else says: pairs of a time and seconds,
    each taken up by the first batch that starts then or later. What a recorded job's batches were off by, for reasons
    that have nothing to do with its size."""
    speed_up: tuple[tuple[int, float], ...] = ()
    """How many times as much as one instance several get through, as pairs of instances and factor with straight lines
    between them; beyond the last pair no more. Without it, as many times as there are instances. A batch goes by the
    instances it starts with."""
    batch_per_interval: bool = False
    """Whether each trigger interval makes its own batch, which then waits for its turn (DStreams). Otherwise a batch
    takes all that waits when it starts (Structured Streaming)."""

    def __post_init__(self) -> None:
        allowed = (
            ("trigger_interval_s", 0 < self.trigger_interval_s < math.inf, "finite and above 0"),
            ("overhead_s", 0 <= self.overhead_s < math.inf, "finite and not negative"),
            ("max_records_per_batch", self.max_records_per_batch is None or self.max_records_per_batch > 0, "above 0"),
            ("cores", self.cores >= 1, "at least 1"),
            ("partitions", self.partitions is None or self.partitions >= 1, "at least 1"),
            ("task_overhead_s", 0 <= self.task_overhead_s < math.inf, "finite and not negative"),
            ("skew", 0 <= self.skew <= 1, "between 0 and 1"),
            ("cold_factor", 1 <= self.cold_factor < math.inf, "finite and at least 1"),
            ("cold_batches", self.cold_batches >= 0, "not negative"),
            ("cold_task_s", 0 <= self.cold_task_s < math.inf, "finite and not negative"),
            ("rescale_pause_s", 0 <= self.rescale_pause_s < math.inf, "finite and not negative"),
            ("noise", 0 <= self.noise < math.inf, "finite and not negative"),
            ("work_factor", _is_course(self.work_factor), "pairs of times that do not fall and finite factors above 0"),
            ("off_s", _is_off(self.off_s), "pairs of times that do not fall and finite seconds"),
            (
                "speed_up",
                _is_speed_up(self.speed_up),
                "rising instances from 1 on and finite factors above 0",
            ),
            (
                "batch_per_interval",
                not (self.batch_per_interval and self.max_records_per_batch),
                "false where max_records_per_batch is set",
            ),
        )
        for name, is_allowed, rule in allowed:
            if not is_allowed:
                raise InputError(f"{name} {getattr(self, name)} is not allowed; it must be {rule}.")

    @property
    def largest_share(self) -> float:
        """The share of a batch that is one piece of work because of the skew; 0 where there is none that matters."""
        return self.skew if self.skew * (self.partitions or math.inf) > 1 else 0.0

    def efficiency(self, instances: int) -> float:
        """What one of several instances gets through, over what a single one does."""
        if not self.speed_up or instances <= 1:
            return 1.0
        counts, factors = zip(*self.speed_up, strict=True)
        return float(np.interp(instances, counts, factors) / (factors[0] * instances))


def _is_speed_up(pairs: tuple[tuple[int, float], ...]) -> bool:
    counts = [count for count, _ in pairs]
    rises = all(before < after for before, after in pairwise(counts))
    return not pairs or (counts[0] == 1 and rises and all(0 < factor < math.inf for _, factor in pairs))


def _is_off(pairs: tuple[tuple[float, float], ...]) -> bool:
    times_s = [at_s for at_s, _ in pairs]
    return times_s == sorted(times_s) and all(math.isfinite(seconds) for _, seconds in pairs)


def _is_course(pairs: tuple[tuple[float, float], ...]) -> bool:
    times_s = [at_s for at_s, _ in pairs]
    return times_s == sorted(times_s) and all(0 < factor < math.inf for _, factor in pairs)
