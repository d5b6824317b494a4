"""Curves that never fall: what is known about pressure before anything is measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from headgate.core.types import JSON

FloatArray: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Curve:
    """Straight lines between knots that never fall; level beyond them."""

    at: tuple[float, ...]
    values: tuple[float, ...]

    @property
    def left(self) -> float:
        return self.at[0]

    @property
    def right(self) -> float:
        return self.at[-1]

    def __call__(self, at: FloatArray) -> FloatArray:
        value: FloatArray = np.interp(at, self.at, self.values)
        return value

    @classmethod
    def monotone(cls, at: FloatArray, values: FloatArray, weights: FloatArray) -> Curve:
        """The never-falling curve nearest to some values, by weighted least squares.

        >>> Curve.monotone(np.array([0.0, 1.0, 2.0]), np.array([0.1, 0.5, 0.3]), np.ones(3)).values
        (0.1, 0.4, 0.4)
        """
        from scipy.optimize import isotonic_regression

        fitted = isotonic_regression(values, weights=weights).x
        return cls(tuple(float(one) for one in at), tuple(float(one) for one in fitted))

    @classmethod
    def through(cls, at: FloatArray, values: FloatArray, knots: int) -> Curve:
        """The never-falling curve through scattered points, averaged into at most so many knots of equal count."""
        order = np.argsort(at, kind="stable")
        parts = [part for part in np.array_split(order, min(knots, len(order))) if len(part)]
        means = np.array([at[part].mean() for part in parts])
        # The ends count as they are: how far the readings reach must not shrink by averaging.
        means[0], means[-1] = at[order[0]], at[order[-1]]
        counts = np.array([float(len(part)) for part in parts])
        return cls.monotone(means, np.array([float(values[part].mean()) for part in parts]), counts)

    def to_json(self) -> dict[str, JSON]:
        return {"at": list(self.at), "values": list(self.values)}

    @classmethod
    def from_json(cls, state: Mapping[str, JSON]) -> Curve:
        return cls(tuple(float(one) for one in state["at"]), tuple(float(one) for one in state["values"]))
