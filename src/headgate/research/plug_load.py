"""Smart plugs that report their consumption: a load whose cost depends on the number of devices, not only of messages.

Like the DEBS 2014 data (azimi §5.1), a batch has messages of a number of distinct devices. Each device needs a new
prediction, which sorts the window of its last measurements, so 500 messages of 500 devices are much more work than
2,000 messages of 5. The data itself is not used: rates and devices follow a profile with seeded noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headgate.workloads.steps import Steps

RECORDS_PER_COMPARISON = 1e-3
"""The cost of a comparison in a sort, in records' worth of work."""


@dataclass(frozen=True, slots=True)
class PlugLoad:
    """Messages that arrive, and their work."""

    messages: Steps
    """Records per second."""
    work: Steps
    """Records' worth of work per second: the messages themselves, and a sort for every device in a batch."""


def sort_work(window: int) -> float:
    """Return the records' worth of work to sort a window of this many measurements.

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
    """Interpolate a load from a profile of (minute, messages per second, distinct devices per batch).

    - ``window``: measurements per device that are sorted; ``batch_s``: the length of a batch
    - ``noise``: standard deviation of the logarithm of messages and devices, independent and autocorrelated

    >>> load = plug_load([(0, 50, 500), (1, 50, 500)], window=1650, noise=0)
    >>> round(load.messages.arrivals(0, 10)), round(load.work.arrivals(0, 10))
    (500, 9317)
    """
    minutes, rates, devices = (np.array(column, dtype=float) for column in zip(*profile, strict=True))
    edges_s = np.arange(0.0, minutes[-1] * 60 + batch_s / 2, batch_s)
    middles = (edges_s[:-1] + batch_s / 2) / 60
    random = np.random.default_rng(seed)
    messages = np.interp(middles, minutes, rates) * _wandering(random, len(middles), noise)
    devices_seen = np.interp(middles, minutes, devices) * _wandering(random, len(middles), noise)
    # A batch has at most as many devices as messages.
    distinct = np.minimum(np.round(devices_seen), messages * batch_s)
    work = messages + distinct * sort_work(window) / batch_s
    times_s = edges_s.tolist()
    return PlugLoad(
        Steps(times_s, messages.tolist(), f"plugs: messages, seed {seed}"),
        Steps(times_s, work.tolist(), f"plugs: work, seed {seed}"),
    )


def _wandering(random: np.random.Generator, count: int, noise: float) -> NDArray[np.float64]:
    """Return autocorrelated factors around 1."""
    memory = 0.8
    steps = random.normal(0.0, noise * math.sqrt(1 - memory * memory), count)
    wandering = np.empty(count)
    level = 0.0
    for index, step in enumerate(steps):
        level = memory * level + step
        wandering[index] = level
    return np.exp(wandering)
