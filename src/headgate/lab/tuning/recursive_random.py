"""Recursive random search over a space of settings, asked and told in batches (azimi §6.1; Ye and Kalyanaraman, 2003).

The search itself is the one by which ``online-parameter-optimization`` finds its thresholds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from headgate.lab.tuning.searching import BATCH, IsAllowed, Scores, Values
from headgate.lab.tuning.space import Space
from headgate.policies.tuning.random_search import Point, recursive_random_points


class RecursiveRandomSearch:
    """Follows one score. Settings that do not go together count as endlessly bad, and take no trial to be found so."""

    def __init__(self, space: Space, seed: int, is_allowed: IsAllowed, trials: int) -> None:
        self.refused = 0
        self._space, self._is_allowed = space, is_allowed
        self._asked = recursive_random_points(
            len(space.dimensions), np.random.default_rng(seed), evaluations=trials, together=BATCH
        )
        self._waiting: list[Point] = list(next(self._asked, ()))
        self._costs: list[float] = []
        """Of the points of this turn that came before those that are waiting."""
        self._batch: list[bool] = []
        """Which of the points asked for last were allowed."""

    def ask(self, most: int) -> list[Values]:
        found: list[Values] = []
        while self._waiting and not found:
            found = self._next(min(BATCH, most))
            if not found:
                self.tell([])
        return found

    def _next(self, most: int) -> list[Values]:
        found: list[Values] = []
        self._batch = []
        while self._waiting and len(found) < most:
            values = self._space.at([float(place) for place in self._waiting.pop(0)])
            self._batch.append(self._is_allowed(values))
            if self._batch[-1]:
                found.append(values)
            else:
                self.refused += 1
        return found

    def tell(self, scores: Sequence[Scores | None]) -> None:
        told = iter(scores)
        for was_allowed in self._batch:
            found = next(told) if was_allowed else None
            self._costs.append(math.inf if found is None else found[0])
        if self._waiting:
            return
        costs, self._costs = self._costs, []
        try:
            self._waiting = list(self._asked.send(costs))
        except StopIteration:
            self._waiting = []
