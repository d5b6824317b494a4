"""Whether a model still tells the truth: abrupt and gradual change of what it was off by.

Abrupt change (giannakopoulos §3.3.2) is a residual beyond a threshold. Gradual change, which the document leaves open,
is found by the Page–Hinkley test of *river*: residuals that stay small, but have come to lie elsewhere than they did.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from headgate.core.extras import needing
from headgate.core.types import JSON


class _Test(Protocol):
    """What is used of a drift detector of river, which has no types."""

    @property
    def drift_detected(self) -> bool: ...

    def update(self, x: float) -> None: ...


CONFIRMATIONS = 2
"""So many residuals in a row must be beyond the threshold: a single odd reading is an accident."""
_MEMORY = 1000
"""The test is made anew from the last so many residuals once there are twice as many, so that its state stays small."""
_LEAST_SCALE = 0.1
"""A model that is nearly exact is not thrown away for being off by less than this share of the bound."""

_SLACK = 0.5
"""Errors of the model that residuals may lie off by for ever."""
_BELIEF = 100
"""How many residuals of 0 the belief in a new model is worth."""


class ChangeDetector:
    """Takes in one residual after the other (measured less predicted pressure) and says when the model has had its day.

    ``scale`` is the error that the model was found to have when it was made; gradual change is measured by it. The
    whole state is the list of residuals: going through them again gives the same test.

    >>> detector = ChangeDetector(abrupt_threshold=0.8, gradual_threshold=30.0, scale=0.05)
    >>> [detector.update(residual) for residual in (0.1, -0.1, 1.2, 1.3)]
    [None, None, None, 'abrupt']
    """

    def __init__(self, abrupt_threshold: float, gradual_threshold: float, scale: float) -> None:
        self._abrupt_threshold = abrupt_threshold
        self._gradual_threshold = gradual_threshold
        self._scale = max(scale, _LEAST_SCALE)
        self._residuals: list[float] = []
        self._beyond = 0
        self._test = self._fresh_test()

    @property
    def last(self) -> float | None:
        """The newest residual."""
        return self._residuals[-1] if self._residuals else None

    def update(self, residual: float) -> str | None:
        """``"abrupt"`` or ``"gradual"`` when this residual shows a change, else ``None``."""
        self._beyond = self._beyond + 1 if abs(residual) > self._abrupt_threshold else 0
        self._residuals.append(residual)
        self._test.update(self._standard(residual))
        if self._beyond >= CONFIRMATIONS:
            return "abrupt"
        if self._test.drift_detected:
            return "gradual"
        if len(self._residuals) >= 2 * _MEMORY:
            self._go_through(self._residuals[-_MEMORY:])
        return None

    def snapshot(self) -> dict[str, JSON]:
        return {"residuals": list(self._residuals), "beyond": self._beyond}

    def restore(self, state: Mapping[str, JSON]) -> None:
        self._beyond = int(state["beyond"])
        self._go_through([float(residual) for residual in state["residuals"]])

    def _go_through(self, residuals: list[float]) -> None:
        self._residuals = list(residuals)
        self._test = self._fresh_test()
        for residual in residuals:
            self._test.update(self._standard(residual))

    def _standard(self, residual: float) -> float:
        # One wild reading must not pass for a drift.
        limit = self._abrupt_threshold
        return max(-limit, min(limit, residual)) / self._scale

    def _fresh_test(self) -> _Test:
        with needing("change detection"):
            from river.drift import PageHinkley
        test: _Test = PageHinkley(
            min_instances=1, delta=_SLACK, threshold=self._gradual_threshold, alpha=1.0, mode="both"
        )
        # The test compares with the mean so far; a model that is believed is off by nothing.
        for _ in range(_BELIEF):
            test.update(0.0)
        return test
