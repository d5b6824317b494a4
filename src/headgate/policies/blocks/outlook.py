"""What the load of a coming block may be, as shares of what its newest values suggest.

The level is the mean of the newest values: of as many as have told best lately what the next block is like. Where that
is the shortest of these spans, it is carried on by the trend while it rises. The two newest values of a noisy load say
next to nothing, and sizes that follow them are far too large one time and too small the next.

How far the steps of blocks have been from such a level is remembered, each error measured in square roots of how
restless the load was when it was made; quantiles of these errors, times how restless it is now, are the outlook.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from headgate.core.types import JSON
from headgate.forecast.contract import FloatArray
from headgate.forecast.quantiles import quantiles_of

POINTS = 200
_SPANS = (2, 5, 10, 20)
"""The level is the mean of so many newest values."""
_SPAN_MEMORY = 100
"""Blocks by which it is judged how well each of them tells the next; one begins at every step."""
_TREND_STEPS = 6
_RESTLESS_STEPS = 30
_MEMORY = 2000
"""Steps at which errors begin that are remembered."""
_LEAST = 30
_TINY = 1e-9
_STILL = 1e-3
"""A load that moves by less than this share per step is taken to be as restless as that: any move would surprise."""
_FURTHEST = 3.0
"""Errors beyond this factor of e³ = 20, up or down, say that a load began or ended, and no more."""
_UNKNOWN = 0.1
"""Spread of a load, as a share, of which nothing is known yet."""
_SHARES: FloatArray = (np.arange(POINTS) + 0.5) / POINTS
_WIDE: FloatArray = _UNKNOWN * np.linspace(-2.5, 2.5, POINTS)


@dataclass(frozen=True)
class Outlook:
    """Equally probable loads of the steps of a block, in ascending order."""

    level: float
    """What the newest values suggest, in records/s."""
    errors: FloatArray
    """Logarithms of the load over the level."""

    @property
    def highest(self) -> float:
        """The highest of these loads."""
        return float(np.exp(self.logarithms[-1]))

    @cached_property
    def logarithms(self) -> FloatArray:
        """Of the loads."""
        return np.asarray(np.log(self.level) + self.errors)


class BlockOutlook:
    """The outlook on a block that begins ``lead_steps`` after the newest value."""

    def __init__(self, lead_steps: int, block_steps: int) -> None:
        self._lead = lead_steps
        self._block = block_steps
        span = lead_steps + block_steps
        self._values: deque[float] = deque(maxlen=max(span, _TREND_STEPS, *_SPANS))
        # Level and restlessness of the newest steps whose block is not over yet, and the mean of each span then.
        self._origins: deque[tuple[float, float]] = deque(maxlen=span)
        self._means: deque[tuple[float, ...]] = deque(maxlen=span)
        self._span_errors: FloatArray = np.zeros(len(_SPANS))
        self._errors: FloatArray = np.zeros((_MEMORY, block_steps))
        self._count = 0
        self._restless = 0.0
        self._steps = 0

    def observe(self, value: float) -> None:
        value = max(value, _TINY)
        if self._values:
            move = abs(np.log(value / self._values[-1]))
            self._restless += (move - self._restless) / min(self._steps, _RESTLESS_STEPS)
        self._steps += 1
        self._values.append(value)
        newest_first = list(self._values)[::-1]
        self._means.append(tuple(sum(newest_first[:span]) / len(newest_first[:span]) for span in _SPANS))
        self._origins.append((self._level(), float(np.sqrt(max(self._restless, _STILL)))))
        if len(self._origins) == self._lead + self._block:
            # The value that is lead + block − 1 steps after an origin ends its block.
            level, scale = self._origins[0]
            steps = np.array(self._values)[-self._block :]
            off = np.abs(np.log(np.array(self._means[0]) / steps.mean()))
            self._span_errors = self._span_errors + (off - self._span_errors) / min(self._count + 1, _SPAN_MEMORY)
            self._errors[self._count % _MEMORY] = np.clip(np.log(steps / level), -_FURTHEST, _FURTHEST) / scale
            self._count += 1

    def now(self) -> Outlook | None:
        """As of the newest value; none before there is one."""
        if not self._origins:
            return None
        level, scale = self._origins[-1]
        if self._count < _LEAST:
            return Outlook(level, _WIDE)
        errors = scale * quantiles_of(np.sort(self._errors[: min(self._count, _MEMORY)], axis=None), _SHARES)
        return Outlook(level, np.clip(errors, -_FURTHEST, _FURTHEST))

    def _level(self) -> float:
        values = np.array(self._values)[-_TREND_STEPS:]
        best = int(np.argmin(self._span_errors)) if self._count >= _LEAST else 0
        level = self._means[-1][best]
        if best > 0 or len(values) < 3:
            return level
        offsets = np.arange(len(values)) - (len(values) - 1) / 2
        slope = float(offsets @ values) / float(offsets @ offsets)
        return level + max(0.0, slope) * (self._lead + self._block / 2)

    def snapshot(self) -> JSON:
        return [
            list(self._values),
            [list(origin) for origin in self._origins],
            self._errors[: min(self._count, _MEMORY)].tolist(),
            self._count,
            self._restless,
            self._steps,
            [list(means) for means in self._means],
            self._span_errors.tolist(),
        ]

    def restore(self, state: JSON) -> None:
        values, origins, errors, count, restless, steps, means, span_errors = state
        self._values.extend(float(value) for value in values)
        self._origins.extend((float(level), float(scale)) for level, scale in origins)
        self._errors[: len(errors)] = np.array(errors, dtype=np.float64).reshape(-1, self._block)
        self._count, self._restless, self._steps = int(count), float(restless), int(steps)
        self._means.extend(tuple(float(mean) for mean in one) for one in means)
        self._span_errors = np.array(span_errors, dtype=np.float64)
