"""The policies of Table III as the kernel drives them; forecasts of a load are made once and shared by all runs."""

from __future__ import annotations

import numpy as np

from headgate.forecast.arma_fit import fit_arma, select_order
from headgate.forecast.base import FloatArray, Forecast
from headgate.policies.blocks.quantile_sizing import BlockOutlook, EqualLoads, QuantileSizer
from headgate.policies.capacity.mst import Measured
from headgate.policies.mst import ExpectedLoad, MstSizer, Techniques, highest_load
from headgate.policies.quantile import QuantileSettings
from headgate.research.imai.kernel import BLOCK, STARTUP

WINDOW = 100


def arma_loads(load: FloatArray) -> dict[int, ExpectedLoad]:
    """The highest load of each block that ARMA expects, by the minute at which the block is decided."""
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
    """One of mst-0 … mst-7 in one run."""

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
    """The outlooks on each block, by the minute they are made and whether the block begins then."""
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
    """The policy ``quantile`` in one run."""

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
