"""Runs of all policies on all applications in two processes; all runs of a load share its forecasts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from headgate.forecast.arma_fit import fit_arma, select_order
from headgate.forecast.base import FloatArray, Forecast
from headgate.lab.processes import in_processes
from headgate.lab.scenario import Progress
from headgate.policies.blocks.quantile_sizing import BlockOutlook, EqualLoads, QuantileSizer
from headgate.policies.capacity.mst import Measured
from headgate.policies.mst import ExpectedLoad, MstSizer, Techniques, highest_load
from headgate.policies.quantile import QuantileSettings
from headgate.research.imai.applications import QUERIES, WEEK_MINUTES, StreamQuery, load_shape
from headgate.research.imai.kernel import BLOCK, STARTUP, Sizer, Week, WeekMeasures, least_sizes, measure, run_week

WINDOW = 100


def arma_loads(load: FloatArray) -> dict[int, ExpectedLoad]:
    """Return the highest load of each block that ARMA predicts, by the minute at which the block is decided."""
    loads: dict[int, ExpectedLoad] = {}
    if len(load) < WINDOW:
        return loads
    order = select_order(load[:WINDOW])
    for minute in range(BLOCK - STARTUP, len(load), BLOCK):
        if minute + 1 < WINDOW:
            continue
        values = load[minute + 1 - WINDOW : minute + 1]
        means, variances = fit_arma(values, order).forecast(values, STARTUP + BLOCK - 1)
        loads[minute] = highest_load(Forecast.normal(means, np.sqrt(variances)), STARTUP)
    return loads


class MstRun:
    """A policy of mst-0 … mst-7 in a run."""

    def __init__(
        self,
        techniques: Techniques,
        load: FloatArray,
        expected: dict[int, ExpectedLoad],
        highest: int,
        training: tuple[Measured, ...],
        validation: tuple[Measured, ...],
        probability: float = 0.95,
    ) -> None:
        self.lead = STARTUP if techniques.forecasting else 0
        self._load = load
        self._expected = expected
        self._sizer = MstSizer(techniques, probability, highest, training, validation)

    def read(self, instances: int, load: float, sustained: float | None) -> None:
        if sustained is not None:
            self._sizer.learn(instances, sustained)

    def decide(self, minute: int) -> int | None:
        self._sizer.end_block()
        return self._sizer.size(self._expected.get(minute) or ExpectedLoad(float(self._load[minute])))

    def begin(self, minute: int, decided: int) -> int:
        return decided


def outlooks(load: FloatArray) -> dict[tuple[int, bool], EqualLoads]:
    """Return the outlooks on each block, by the minute they are made and whether the block begins then."""
    ahead, starting = BlockOutlook(STARTUP, BLOCK), BlockOutlook(0, BLOCK)
    made = {}
    for minute, value in enumerate(load):
        ahead.observe(float(value))
        starting.observe(float(value))
        for outlook, begins in ((ahead, False), (starting, True)):
            due = minute == 0 or (minute + (0 if begins else STARTUP)) % BLOCK == 0
            if due and (now := outlook.now()) is not None:
                made[minute, begins] = now
    return made


class QuantileRun:
    """The policy ``quantile`` in a run."""

    lead = STARTUP

    def __init__(
        self,
        expected: dict[tuple[int, bool], EqualLoads],
        highest: int,
        training: tuple[Measured, ...],
        validation: tuple[Measured, ...],
        settings: QuantileSettings | None = None,
    ) -> None:
        settings = settings or QuantileSettings()
        self._expected = expected
        self._sizer = QuantileSizer(settings.target, settings.miss_worth, settings.gain, highest, training, validation)

    def read(self, instances: int, load: float, sustained: float | None) -> None:
        self._sizer.read(instances, load, sustained)

    def decide(self, minute: int) -> int | None:
        self._sizer.end_block()
        return self._sizer.size(self._expected[minute, False])

    def begin(self, minute: int, decided: int) -> int:
        trimmed = self._sizer.size(self._expected[minute, True])
        return decided if trimmed is None else min(decided, trimmed)


QUANTILE = "quantile"
MST_POLICIES = tuple(f"mst-{number}" for number in range(8))


@dataclass(frozen=True)
class EvaluationPlan:
    """Policies, applications and runs of an evaluation."""

    policies: tuple[str, ...] = (*MST_POLICIES, QUANTILE)
    applications: tuple[str, ...] = tuple(query.name for query in QUERIES)
    runs: int = 5
    minutes: int = WEEK_MINUTES
    probability: float = 0.95
    """ρ of the mst policies."""
    seed: int = 0
    load: str | None = None
    """A load that replaces those of all applications."""
    noise: float = 1.0
    """A factor on the deviations of all throughputs."""
    trained_once: bool = True
    """Whether all runs of an application share its training samples, as in the document."""


@dataclass(frozen=True)
class Result:
    """The measures of a run."""

    policy: str
    application: str
    run: int
    measures: WeekMeasures


def evaluate(plan: EvaluationPlan, progress: Progress, processes: int = 2) -> list[Result]:
    """Run every policy on every application; the order of the results does not depend on which finishes first."""
    parts = [replace(plan, applications=(name,)) for name in plan.applications]
    results: list[Result] = []
    for done, part in enumerate(_spread(parts, processes)):
        results.extend(part)
        progress((done + 1) / len(parts))
    place = {name: index for index, name in enumerate((*plan.policies, *plan.applications))}
    return sorted(results, key=lambda result: (place[result.policy], place[result.application], result.run))


def _spread(parts: Sequence[EvaluationPlan], processes: int) -> Iterator[list[Result]]:
    if processes < 2 or len(parts) < 2:
        yield from map(run_application, parts)
        return
    for _, results in in_processes(run_application, parts, processes):
        yield results


def run_application(plan: EvaluationPlan) -> list[Result]:
    """Run the only application of a plan."""
    (name,) = plan.applications
    bench = Bench(name, plan.minutes, load=plan.load, noise=plan.noise, trained_once=plan.trained_once)
    results = []
    for run in range(plan.runs):
        trial = bench.trial(plan.seed, run)
        least = least_sizes(bench.load, bench.application.means, bench.application.deviations, trial.draws)
        for policy in plan.policies:
            week = bench.run(policy, trial, plan.probability)
            results.append(Result(policy, name, run, measure(week, least)))
    return results


@dataclass(frozen=True)
class WeekDraws:
    """The random numbers of a run, the same for every policy."""

    training: tuple[tuple[int, float], ...]
    validation: tuple[tuple[int, float], ...]
    draws: FloatArray


class Bench:
    """An application with its load and the forecasts of it, which are computed when first needed."""

    def __init__(
        self,
        name: str,
        minutes: int = WEEK_MINUTES,
        *,
        load: str | None = None,
        noise: float = 1.0,
        trained_once: bool = True,
    ) -> None:
        self._trained_once = trained_once
        self._index, own = next((index, query) for index, query in enumerate(QUERIES) if query.name == name)
        self.application: StreamQuery = replace(own, noise=noise * own.noise)
        self.load: FloatArray = own.peak * load_shape(load or own.load)[:minutes]

    @cached_property
    def _arma(self) -> dict[int, ExpectedLoad]:
        return arma_loads(self.load)

    @cached_property
    def _outlooks(self) -> dict[tuple[int, bool], EqualLoads]:
        return outlooks(self.load)

    def trial(self, seed: int, run: int) -> WeekDraws:
        application = self.application
        random = np.random.default_rng([seed, self._index, run])
        training = application.measure(application.training_sizes, random)
        validation = application.measure(application.validation_sizes, random)
        draws = random.normal(size=-(-len(self.load) // BLOCK))
        if run and self._trained_once:
            first = self.trial(seed, 0)
            training, validation = first.training, first.validation
        return WeekDraws(training, validation, draws)

    def sizer(self, policy: str, trial: WeekDraws, probability: float) -> Sizer:
        highest, training, validation = self.application.largest, trial.training, trial.validation
        if policy == QUANTILE:
            return QuantileRun(self._outlooks, highest, training, validation)
        techniques = Techniques.of(MST_POLICIES.index(policy))
        expected = self._arma if techniques.forecasting else {}
        return MstRun(techniques, self.load, expected, highest, training, validation, probability)

    def run(self, policy: str, trial: WeekDraws, probability: float = 0.95) -> Week:
        application = self.application
        sizer = self.sizer(policy, trial, probability)
        return run_week(self.load, application.means, application.deviations, trial.draws, sizer)
