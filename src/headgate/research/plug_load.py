"""Smart plugs that report what they consume: load whose weight depends on who speaks, not only on how much is said.

Like the DEBS 2014 data (azimi §5.1): a batch has messages of a number of distinct devices. Every device in it has its
prediction made anew, which sorts the window of its last measurements. So 500 messages of 500 devices are much more work
than 2,000 messages of 5. The data itself is not used here: rates and devices follow a profile, with seeded noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headgate.workloads.steps import Steps

RECORDS_PER_COMPARISON = 1e-3
"""What one comparison of a sort costs, in records' worth of work."""


@dataclass(frozen=True, slots=True)
class PlugLoad:
    """What arrives, and what it takes."""

    messages: Steps
    """Records per second."""
    work: Steps
    """Records' worth of work per second: the messages themselves, and a sort for every device in a batch."""


def sort_work(window: int) -> float:
    """Records' worth of work to sort a window of so many measurements.

    >>> round(sort_work(1650), 1)
    17.6
    """
    return window * math.log2(window) * RECORDS_PER_COMPARISON


def plug_load(
    profile: Sequence[tuple[float, float, float]],
    *,
    window: int,
    batch_s: float = 10.0,
    noise: float = 0.08,
    seed: int = 0,
) -> PlugLoad:
    """A load along a profile of (minute, messages per second, distinct devices per batch), straight in between.

    - ``window``: measurements per device that are sorted; ``batch_s``: the length of a batch
    - ``noise``: standard deviation of the logarithm of messages and devices, each on its own and slow to fade

    >>> load = plug_load([(0, 50, 500), (1, 50, 500)], window=1650, noise=0)
    >>> round(load.messages.arrivals(0, 10)), round(load.work.arrivals(0, 10))
    (500, 9317)
    """
    minutes, rates, devices = (np.array(column, dtype=float) for column in zip(*profile, strict=True))
    edges_s = np.arange(0.0, minutes[-1] * 60 + batch_s / 2, batch_s)
    middles = (edges_s[:-1] + batch_s / 2) / 60
    random = np.random.default_rng(seed)
    messages = np.interp(middles, minutes, rates) * _wandering(random, len(middles), noise)
    spoken = np.interp(middles, minutes, devices) * _wandering(random, len(middles), noise)
    # No more devices than messages can speak in a batch.
    distinct = np.minimum(np.round(spoken), messages * batch_s)
    work = messages + distinct * sort_work(window) / batch_s
    times_s = edges_s.tolist()
    return PlugLoad(
        Steps(times_s, messages.tolist(), f"plugs: messages, seed {seed}"),
        Steps(times_s, work.tolist(), f"plugs: work, seed {seed}"),
    )


def _wandering(random: np.random.Generator, count: int, noise: float) -> NDArray[np.float64]:
    """Factors around 1 that stay where they are for a while."""
    kept = 0.8
    steps = random.normal(0.0, noise * math.sqrt(1 - kept * kept), count)
    wandering = np.empty(count)
    level = 0.0
    for index, step in enumerate(steps):
        level = kept * level + step
        wandering[index] = level
    return np.exp(wandering)
