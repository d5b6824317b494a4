"""Which size costs the least: instances for a while, and the records that they make late."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from headgate.forecast.contract import FloatArray
from headgate.policies.pilot.load import BIN_S
from headgate.policies.pilot.rollout import Rolled

WINDOW_S = 30.0
"""What is decided now is paid for at least so long. What comes later can be met later: looking twice as far ahead makes
it pay for rises that it could still have waited for."""
STANDSTILLS, LONGEST_WINDOW_S = 10.0, 240.0
"""Longer by so many times what the job stands still for a change, but not beyond what can be foretold of the load."""
SPACED = 1.2
"""Changes of a job that stands still for them may use up most of what may be late. With less than half of this spacing
8 instead of 11 of 12 contests of the league were kept, on days other than its own, for 7 % fewer instances."""
HYSTERESIS = 1.5
"""By how much dearer late records are taken to be when it shrinks, so that it does not grow again at once."""
AT_ONCE = 4
"""Sizes that are rolled forward together."""


def window_s(standstill_s: float) -> float:
    """For how long what is decided now is paid for at least, where the job stands still for it.

    >>> window_s(0.0), window_s(5.0), window_s(60.0)
    (30.0, 80.0, 240.0)
    """
    return min(LONGEST_WINDOW_S, WINDOW_S + STANDSTILLS * standstill_s)


@dataclass(frozen=True, slots=True)
class Choice:
    size: int
    """The size that costs the least."""
    safe: int
    """The size that would if late records cost ``HYSTERESIS`` times as much: none below it is shrunk to."""
    due: int
    """The size that would if the job stood still for none: where that is larger, the standstill is due in any case."""


def cheapest(
    sizes: FloatArray,
    roll: Callable[[FloatArray], Rolled],
    weights: FloatArray,
    price: float,
    *,
    planned: int,
    startup_s: float,
    paid_s: float = WINDOW_S,
) -> Choice:
    """The size with the least cost, looked for from the smallest upwards: with a backlog, costs have many valleys.

    Instances are paid for ``paid_s``. More than the ``planned`` ones must pay for the time in which they only start,
    too, and for the standstill it takes; whether to shrink is worth that is another question.
    """
    best = [(math.inf, 0), (math.inf, 0), (math.inf, 0)]
    for first in range(0, len(sizes), AT_ONCE):
        some = sizes[first : first + AT_ONCE]
        # Instances alone cost more than the best so far: no larger size can be better.
        if some[0] * paid_s >= max(cost for cost, _ in best):
            break
        rolled = roll(some)
        late = (rolled.late @ weights).tolist()
        lasting = late if rolled.lasting is rolled.late else (rolled.lasting @ weights).tolist()
        for size, late_now, late_lasting in zip(some.tolist(), late, lasting, strict=True):
            # As numbers and not as arrays, which are slower for so few.
            begun_s = size * paid_s + startup_s * max(0.0, size - planned)
            costs = (
                begun_s + price * late_now,
                size * paid_s + HYSTERESIS * price * late_lasting,
                begun_s + price * late_lasting,
            )
            best = [min(one, (cost, int(size))) for one, cost in zip(best, costs, strict=True)]
    return Choice(best[0][1], best[1][1], best[2][1])


def there_and_back_s(
    stood: float, price: float, *, rate_per_s: float, allowed_share: float, standstill_s: float, planned: int
) -> float:
    """What a step down and the one that takes it back cost, in seconds of an instance.

    Both make ``stood`` records late, and let ``planned`` instances stand idle. At the least they are worth an instance
    for as long as all that may be late is used up by them: else the changes alone would break what is asked.
    """
    priced_s = price * stood + standstill_s * planned
    return 2 * max(priced_s, stood / rate_per_s / allowed_share)


def spacing_s(stood_s: float, allowed_share: float, used: float) -> float:
    """How far apart steps down must be, each of which is taken back one day, where both stop a job for a while.

    What one of them makes late is as much as arrives in ``stood_s``. The more of what may be late is ``used`` already,
    the less is left for changes.

    >>> [round(spacing_s(45.0, 0.05, used=used)) for used in (0.0, 0.5, 1.0, 2.0)]
    [0, 1080, 2160, 8640]
    """
    return SPACED * 2 * stood_s / allowed_share * max(used, used**2)


def for_the_rise(change_s: float, rises_per_s: float) -> int:
    """How many more to take at once while more are needed all the time, where a change and its way back cost so much.

    Steps of k come every k / rises_per_s and leave k / 2 idle on average; this is where the sum of both costs least.

    >>> for_the_rise(0.0, 0.01), for_the_rise(1200.0, 0.0), for_the_rise(1200.0, 1 / 300)
    (0, 0, 2)
    """
    return math.floor(math.sqrt(change_s * max(0.0, rises_per_s)) + 1e-9)


def is_worth_waking(counts: FloatArray, weights: FloatArray, price: float, *, startup_s: float, bound_s: float) -> bool:
    """Whether an idle job may be without any instance, so that the first record that comes has to wake it.

    That costs the start of an instance, and all that comes until it is there is late, unless it is there in time.
    """
    bins = max(1, math.ceil((startup_s + WINDOW_S) / BIN_S))
    come = counts[:, :bins].sum(axis=1)
    late = come if startup_s > bound_s else np.zeros_like(come)
    wakes = np.where(come >= 1, startup_s, 0.0)
    return float((wakes + price * late) @ weights) < WINDOW_S
