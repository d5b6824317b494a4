"""What the load would have cost somebody who knew it: the least that keeps every record in time.

At each moment there are as many instances as a batch needs that takes half the bound: a record that just misses one
waits for it, and then for its own. They are asked for early enough to be ready, are paid for from then on, and are kept
where letting them go and starting them again would cost as much. Nothing else is known better: sizes are whole, batches
have their overhead. It is not the cheapest that one could think of, as it makes no use of the records that may be late.
"""

from __future__ import annotations

import numpy as np

from headgate.forecast.contract import FloatArray
from headgate.lab.promises.loads import SERVICE_RATE_PER_S, STEP_S, Load


def clairvoyant_sizes(
    load: Load, *, bound_s: float, overhead_s: float, startup_s: float, bounds: tuple[int, int]
) -> FloatArray:
    """The instances that are paid for, one value per ``STEP_S``."""
    batch_s = bound_s / 2
    spare = max(0.1, 1 - overhead_s / batch_s)
    span = max(1, round(batch_s / STEP_S))
    rates = np.convolve(load.rates_per_s, np.full(span, 1 / span), mode="same")
    needed = np.clip(np.ceil(rates / SERVICE_RATE_PER_S / spare - 1e-9), *bounds)
    # Ready when it is needed, so paid for that much earlier; and that closes gaps that are too short to pay off.
    early = round(startup_s / STEP_S)
    return _largest_ahead(needed, early)


def _largest_ahead(values: FloatArray, steps: int) -> FloatArray:
    """At each place the largest of it and the ``steps`` that follow."""
    padded = np.concatenate([values, np.full(steps, values[-1])])
    return np.asarray(np.lib.stride_tricks.sliding_window_view(padded, steps + 1).max(axis=1))
