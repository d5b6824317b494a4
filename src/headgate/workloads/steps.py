"""A rate that changes at given times and stays in between: what a recorded trace is."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise

from headgate.core.errors import InputError
from headgate.workloads.shapes import require_length, require_rate


class Steps:
    """Rates between given times; nothing arrives before the first time and from the last one on.

    ``times_s`` are the bounds of the steps, so there is one more of them than there are ``rates``.

    >>> trace = Steps([0.0, 60.0, 120.0], [10.0, 30.0])
    >>> trace.rate_per_s(60.0), trace.arrivals(30.0, 90.0), trace.arrivals(0.0, 1e9)
    (30.0, 1200.0, 2400.0)
    """

    def __init__(
        self, times_s: Sequence[float], rates: Sequence[float], described: str = "steps", *, notes: tuple[str, ...] = ()
    ) -> None:
        if len(times_s) != len(rates) + 1 or not rates:
            raise InputError(f"{len(times_s)} times do not bound {len(rates)} steps; one time more is needed.")
        for before_s, after_s in pairwise(times_s):
            if not before_s < after_s < math.inf:
                raise InputError(f"time {after_s} after {before_s} is not allowed; times must be finite and increase.")
        for rate in rates:
            require_rate("rate", rate, math.inf)  # What was recorded in no time at all has almost no end.
        self._times_s = list(times_s)
        self._rates = list(rates)
        widths_s = (after_s - before_s for before_s, after_s in pairwise(times_s))
        counts = (rate * width_s for rate, width_s in zip(rates, widths_s, strict=True))
        self._totals = list(accumulate(counts, initial=0.0))
        self._described = described
        self.notes = notes
        """What was done to a recording to make it this load."""

    def __len__(self) -> int:
        return len(self._rates)

    @property
    def end_s(self) -> float:
        """Where the last step ends."""
        return self._times_s[-1]

    def rate_per_s(self, at_s: float) -> float:
        step = bisect_right(self._times_s, at_s) - 1
        return self._rates[step] if 0 <= step < len(self._rates) else 0.0

    def arrivals(self, from_s: float, to_s: float) -> float:
        return self._until(to_s) - self._until(from_s)

    def _until(self, at_s: float) -> float:
        step = bisect_right(self._times_s, at_s) - 1
        if step < 0:
            return 0.0
        if step >= len(self._rates):
            return self._totals[-1]
        return self._totals[step] + self._rates[step] * (at_s - self._times_s[step])

    def next_turn_s(self, at_s: float) -> float:
        step = bisect_right(self._times_s, at_s)
        return self._times_s[step] if step < len(self._times_s) else math.inf

    def describe(self) -> str:
        return self._described

    def scaled(self, factor: float) -> Steps:
        """So many times as much."""
        return Steps(self._times_s, [factor * rate for rate in self._rates], self._described, notes=self.notes)

    def resampled(self, step_s: float) -> Steps:
        """The same records in steps of one length; the last may be shorter.

        >>> Steps([0.0, 30.0, 90.0], [10.0, 40.0]).resampled(60.0).rate_per_s(0.0)
        25.0
        """
        require_length("step", step_s)
        first_s = self._times_s[0]
        count = max(1, math.ceil(round((self.end_s - first_s) / step_s, 9)))
        bounds_s = [*(first_s + number * step_s for number in range(count)), self.end_s]
        rates = [max(0.0, self.arrivals(low_s, high_s)) / (high_s - low_s) for low_s, high_s in pairwise(bounds_s)]
        return Steps(bounds_s, rates, self._described, notes=self.notes)

    def described_as(self, described: str, notes: tuple[str, ...]) -> Steps:
        """The same under another description."""
        return Steps(self._times_s, self._rates, described, notes=notes)
