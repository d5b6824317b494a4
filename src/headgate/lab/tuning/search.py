"""Searches that propose trials in batches and receive their scores; the caller runs the trials.

The batch size does not depend on the machine, so a search takes the same course on any number of cores.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol, TypeAlias

import numpy as np

from headgate.core.errors import InputError
from headgate.lab.tuning.space import SearchDimension, Space, Value
from headgate.policies.tuning.random_search import Point, recursive_random_points


class RecursiveRandomSearch:
    """Minimises one score. Settings that contradict each other count as infinitely bad, without a trial."""

    def __init__(self, space: Space, seed: int, is_allowed: IsAllowed, trials: int) -> None:
        self.refused = 0
        self._space, self._is_allowed = space, is_allowed
        self._requested = recursive_random_points(
            len(space.dimensions), np.random.default_rng(seed), evaluations=trials, together=BATCH
        )
        self._waiting: list[Point] = list(next(self._requested, ()))
        self._costs: list[float] = []
        """Costs of this turn's points that have been run."""
        self._batch: list[bool] = []
        """Which of the last proposed points were allowed."""

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
        results = iter(scores)
        for was_allowed in self._batch:
            found = next(results) if was_allowed else None
            self._costs.append(math.inf if found is None else found[0])
        if self._waiting:
            return
        costs, self._costs = self._costs, []
        try:
            self._waiting = list(self._requested.send(costs))
        except StopIteration:
            self._waiting = []


BATCH = 8
"""Trials that run in parallel."""
SEARCHES = ("optuna", "recursive-random")
_TRIES = 50
"""The most consecutive draws of settings that contradict each other."""

Values: TypeAlias = Mapping[str, Value]
Scores: TypeAlias = tuple[float, ...]
"""Values to minimise: one, or several weighed against each other."""
IsAllowed: TypeAlias = Callable[[Values], bool]


class Search(Protocol):
    """Proposes trials and receives their scores, in turns."""

    refused: int
    """Drawn settings that contradict each other."""

    def ask(self, most: int) -> list[Values]:
        """Return at most ``most`` further trials; none when the search has ended."""
        ...

    def tell(self, scores: Sequence[Scores | None]) -> None:
        """Record the scores of the last proposed trials, in order; ``None`` for a failed trial."""
        ...


class OptunaSearch:
    """Tree-structured Parzen estimators of Optuna, for one score or several.

    It knows the default settings from the start where they lie in the space.
    """

    def __init__(self, space: Space, seed: int, is_allowed: IsAllowed, default: Scores | None, scores: int) -> None:
        optuna = require_optuna()
        self.refused = 0
        self._space, self._is_allowed = space, is_allowed
        self._ranges = {dimension.name: _distribution(optuna, dimension) for dimension in space.dimensions}
        sampler = _sampler(optuna, seed, scores)
        self._study = optuna.create_study(directions=["minimize"] * scores, sampler=sampler)
        self._requested: list[int] = []
        if default is not None and space.holds_defaults():
            known = optuna.trial.create_trial(
                params=dict(space.defaults()), distributions=self._ranges, values=list(default)
            )
            self._study.add_trial(known)

    def ask(self, most: int) -> list[Values]:
        found: list[Values] = []
        self._requested = []
        tries = 0
        while len(found) < min(BATCH, most) and tries < _TRIES:
            trial = self._study.ask(self._ranges)
            values = {
                dimension.name: _value(dimension, trial.params[dimension.name]) for dimension in self._space.dimensions
            }
            if self._is_allowed(values):
                found.append(values)
                self._requested.append(trial.number)
                tries = 0
            else:
                self._fail(trial.number)
                self.refused += 1
                tries += 1
        return found

    def tell(self, scores: Sequence[Scores | None]) -> None:
        for number, found in zip(self._requested, scores, strict=True):
            if found is None:
                self._fail(number)
            else:
                self._study.tell(number, list(found))

    def _fail(self, number: int) -> None:
        self._study.tell(number, state=require_optuna().trial.TrialState.FAIL)


def make_search(
    name: str, space: Space, *, seed: int, trials: int, is_allowed: IsAllowed, default: Scores | None, scores: int
) -> Search:
    """Return a search by name; ``default`` is the score of the default settings."""
    if name == "optuna":
        return OptunaSearch(space, seed, is_allowed, default, scores)
    if scores != 1:
        raise InputError(f"the search {name} follows one number; use --minimise cost, or --search optuna.")
    return RecursiveRandomSearch(space, seed, is_allowed, trials)


def require_optuna() -> Any:
    """Return Optuna with its log turned off; an error says how to install it."""
    try:
        optuna = import_module("optuna")
    except ImportError as error:
        raise InputError(
            "the search optuna needs the package optuna, which is not installed: pip install 'headgate[lab]', "
            "or use --search recursive-random."
        ) from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def _sampler(optuna: Any, seed: int, scores: int) -> Any:
    with warnings.catch_warnings():
        # In Optuna 4 both arguments still count as experimental.
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return optuna.samplers.TPESampler(
            seed=seed, multivariate=scores == 1, constant_liar=True, n_startup_trials=2 * BATCH
        )


def _distribution(optuna: Any, dimension: SearchDimension) -> Any:
    kinds = optuna.distributions
    if dimension.choices:
        return kinds.CategoricalDistribution(dimension.choices)
    if dimension.is_whole:
        return kinds.IntDistribution(math.ceil(dimension.low), math.floor(dimension.high), log=dimension.is_log)
    return kinds.FloatDistribution(dimension.low, dimension.high, log=dimension.is_log)


def _value(dimension: SearchDimension, found: Value) -> Value:
    return found if dimension.choices or isinstance(found, str) else dimension.near(float(found))
