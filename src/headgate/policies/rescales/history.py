"""The last rescales of an operator with the true rates before them, to judge whether they brought the expected gain.

Source: the autoscaler of Flink's Kubernetes operator (``JobVertexScaler``, ``AutoScalerUtils``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from headgate.core.types import JSON, Instant
from headgate.core.window import SizeChange


@dataclass(frozen=True, slots=True)
class Rescale:
    """A change of size, with the total true rate before it."""

    at_s: Instant
    before: int
    after: int
    true_per_s: float

    @property
    def expected_gain_per_s(self) -> float:
        """The gain if the rate had grown in proportion to the size."""
        return self.true_per_s * (self.after / self.before - 1)

    def effect(self, true_per_s: float) -> float | None:
        """Return the share of the expected gain that was reached; ``None`` if none was expected."""
        gain = self.expected_gain_per_s
        return (true_per_s - self.true_per_s) / gain if gain > 0 else None


class RescaleHistory:
    """The newest rescales of one operator."""

    def __init__(self, rescales: Sequence[Rescale] = ()) -> None:
        self._rescales = list(rescales)
        self._proposed: tuple[Instant, float] | None = None

    @property
    def newest(self) -> Rescale | None:
        return self._rescales[-1] if self._rescales else None

    def propose(self, at_s: Instant, true_per_s: float) -> None:
        """Remember the rate behind a proposal; whether it is carried out is known later."""
        self._proposed = at_s, true_per_s

    def follow(self, now: Instant, change: SizeChange | None, *, most: int, for_s: float) -> bool:
        """Record a proposal that was carried out, drop old rescales, and return whether there is a new one."""
        # State saved on another clock may lie in the future.
        self._rescales = [rescale for rescale in self._rescales if now - for_s <= rescale.at_s <= now]
        if self._proposed is None or change is None or change.at_s != self._proposed[0]:
            return False
        verdict, (at_s, true_per_s) = change.verdict, self._proposed
        self._proposed = None
        if verdict.current >= 1:
            self._rescales.append(Rescale(at_s, verdict.current, verdict.target, true_per_s))
        self._rescales = self._rescales[-most:]
        return True

    def scalability(self, least_observations: int, least: float) -> float:
        """Return the share of its expected rate that an additional instance brings, from ``least`` to 1.

        Fitted by least squares: observed rates against size times the rate per instance at the smallest size.
        """
        if len(self._rescales) < least_observations:
            return 1.0
        # Of several at the smallest size, the newest.
        smallest = min(reversed(self._rescales), key=lambda rescale: rescale.before)
        baseline_per_s = smallest.true_per_s / smallest.before
        squares = math.fsum(rescale.before * rescale.before for rescale in self._rescales)
        products = math.fsum(rescale.before * rescale.true_per_s for rescale in self._rescales)
        if not baseline_per_s > 0:
            return 1.0
        share = max(least, min(1.0, products / (squares * baseline_per_s)))
        return math.ceil(round(100 * share, 9)) / 100

    def to_json(self) -> JSON:
        rescales = [[rescale.at_s, rescale.before, rescale.after, rescale.true_per_s] for rescale in self._rescales]
        return [rescales, None if self._proposed is None else list(self._proposed)]

    @classmethod
    def from_json(cls, saved: JSON) -> RescaleHistory:
        rescales, proposed = saved
        made = cls(
            [
                Rescale(float(at_s), int(before), int(after), float(true_per_s))
                for at_s, before, after, true_per_s in rescales
            ]
        )
        made._proposed = None if proposed is None else (float(proposed[0]), float(proposed[1]))
        return made
