"""Runs of all policies on all applications, spread over two processes; forecasts of a load are made once per load."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from headgate.forecast.base import FloatArray
from headgate.lab.processes import in_processes
from headgate.lab.scenario import Progress
from headgate.policies.blocks.quantile_sizing import EqualLoads
from headgate.policies.mst import ExpectedLoad, Techniques
from headgate.research.imai.applications import APPLICATIONS, WEEK_MINUTES, Application, load_shape
from headgate.research.imai.kernel import BLOCK, Measures, Sizer, Week, least_sizes, measure, run_week
from headgate.research.imai.sizers import MstRun, QuantileRun, arma_loads, outlooks

QUANTILE = "quantile"
MST_POLICIES = tuple(f"mst-{number}" for number in range(8))


@dataclass(frozen=True)
class EvaluationPlan:
    """What is to be run."""

    policies: tuple[str, ...] = (*MST_POLICIES, QUANTILE)
    applications: tuple[str, ...] = tuple(one.name for one in APPLICATIONS)
    runs: int = 5
    minutes: int = WEEK_MINUTES
    probability: float = 0.95
    """ρ of the mst policies."""
    seed: int = 0
    load: str | None = None
    """A load that all applications are given in place of their own."""
    noise: float = 1.0
    """What the deviations of all throughputs are multiplied by."""


@dataclass(frozen=True)
class Result:
    """What one run came to."""

    policy: str
    application: str
    run: int
    measures: Measures


def evaluate(plan: EvaluationPlan, progress: Progress, processes: int = 2) -> list[Result]:
    """Every policy on every application in every run, in that order whatever finished first."""
    parts = [replace(plan, applications=(name,)) for name in plan.applications]
    results: list[Result] = []
    for done, part in enumerate(_spread(parts, processes)):
        results.extend(part)
        progress((done + 1) / len(parts))
    place = {name: index for index, name in enumerate((*plan.policies, *plan.applications))}
    return sorted(results, key=lambda one: (place[one.policy], place[one.application], one.run))


def _spread(parts: Sequence[EvaluationPlan], processes: int) -> Iterator[list[Result]]:
    if processes < 2 or len(parts) < 2:
        yield from map(run_application, parts)
        return
    for _, results in in_processes(run_application, parts, processes):
        yield results


def run_application(plan: EvaluationPlan) -> list[Result]:
    """All runs of the one application of a plan."""
    (name,) = plan.applications
    bench = Bench(name, plan.minutes, load=plan.load, noise=plan.noise)
    results = []
    for run in range(plan.runs):
        trial = bench.trial(plan.seed, run)
        least = least_sizes(bench.load, bench.application.means, bench.application.deviations, trial.draws)
        for policy in plan.policies:
            week = bench.run(policy, trial, plan.probability)
            results.append(Result(policy, name, run, measure(week, least)))
    return results


@dataclass(frozen=True)
class Trial:
    """What is random in one run, the same for every policy."""

    training: tuple[tuple[int, float], ...]
    validation: tuple[tuple[int, float], ...]
    draws: FloatArray


class Bench:
    """One application with its load and the forecasts of it, each made when it is first needed."""

    def __init__(self, name: str, minutes: int = WEEK_MINUTES, *, load: str | None = None, noise: float = 1.0) -> None:
        self._index, own = next((index, one) for index, one in enumerate(APPLICATIONS) if one.name == name)
        self.application: Application = replace(own, noise=noise * own.noise)
        self.load: FloatArray = own.peak * load_shape(load or own.load)[:minutes]

    @cached_property
    def _arma(self) -> dict[int, ExpectedLoad]:
        return arma_loads(self.load)

    @cached_property
    def _outlooks(self) -> dict[tuple[int, bool], EqualLoads]:
        return outlooks(self.load)

    def trial(self, seed: int, run: int) -> Trial:
        application = self.application
        random = np.random.default_rng([seed, self._index, run])
        return Trial(
            application.measure(application.training_sizes, random),
            application.measure(application.validation_sizes, random),
            random.normal(size=-(-len(self.load) // BLOCK)),
        )

    def sizer(self, policy: str, trial: Trial, probability: float) -> Sizer:
        highest, training, validation = self.application.largest, trial.training, trial.validation
        if policy == QUANTILE:
            return QuantileRun(self._outlooks, highest, training, validation)
        techniques = Techniques.of(MST_POLICIES.index(policy))
        expected = self._arma if techniques.forecasting else {}
        return MstRun(techniques, self.load, expected, highest, training, validation, probability)

    def run(self, policy: str, trial: Trial, probability: float = 0.95) -> Week:
        application = self.application
        sizer = self.sizer(policy, trial, probability)
        return run_week(self.load, application.means, application.deviations, trial.draws, sizer)
