"""How many instances a load needs when capacity, load or both are known with uncertainty (imai §III, eqs. 4–21)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from headgate.core.types import JSON
from headgate.forecast.contract import FloatArray, Forecast
from headgate.policies.capacity.mst import Measured, MstKind, MstModel, MstSamples, select_model


@dataclass(frozen=True, slots=True)
class Techniques:
    """Which of the three techniques a policy of Table III uses."""

    uncertainty: bool
    """UA: count on less than the expected throughput."""
    learning: bool
    """OL: take saturated readings into the model."""
    forecasting: bool
    """ARMA: size for the highest forecast load of the block rather than for the newest one."""

    @classmethod
    def of(cls, number: int) -> Techniques:
        """Those of policy 0 to 7.

        >>> Techniques.of(5)
        Techniques(uncertainty=True, learning=False, forecasting=True)
        """
        return cls(bool(number & 1), bool(number & 2), bool(number & 4))


@dataclass(frozen=True, slots=True)
class Load:
    """A load in records/s that is to be carried, and the deviation of what is expected of it."""

    expected_per_s: float
    deviation_per_s: float = 0.0


def highest_load(forecast: Forecast, lead_steps: int) -> Load:
    """The step of the block with the highest load by eq. 14, mean plus two deviations.

    The first step of the block is ``lead_steps`` after the newest value.

    >>> flat = Forecast.normal(np.array([10.0, 11.0, 12.0]), np.array([1.0, 2.0, 1.0]))
    >>> highest_load(flat, lead_steps=2)
    Load(expected_per_s=11.0, deviation_per_s=2.0)
    """
    mean, deviation = forecast.mean[lead_steps - 1 :], forecast.deviation[lead_steps - 1 :]
    highest = int(np.argmax(mean + 2 * deviation))
    return Load(float(mean[highest]), float(deviation[highest]))


class MstSizer:
    """The capacity model of one operator, and the least size by it.

    Without training samples the first saturated reading stands in for them: throughput is then taken to be
    proportional to the size until two sizes were seen. Until there is one, it is estimated from how busy instances are,
    or a job that begins too large would never be saturated, and never be made smaller.
    """

    def __init__(
        self,
        techniques: Techniques,
        probability: float,
        highest: int,
        training: Iterable[Measured] = (),
        validation: Iterable[Measured] = (),
    ) -> None:
        self.techniques = techniques
        self._score = NormalDist().inv_cdf(probability)
        self._sizes: FloatArray = np.arange(1.0, highest + 1.0)
        self._samples = MstSamples(training)
        # The kind that was selected offline stays; without offline samples it is selected anew with each fit.
        self._kind = select_model(self._samples, MstSamples(validation)).kind if len(self._samples.sizes) > 1 else None
        # Readings of one block at one size share its conditions: their mean is one sample.
        self._block: dict[int, tuple[float, int]] = {}
        self._estimates: dict[int, tuple[float, int]] = {}
        self._model: MstModel | None = None
        self._throughputs: FloatArray = np.zeros(highest)
        self._fit()

    @property
    def model(self) -> MstModel | None:
        return self._model

    def learn(self, instances: int, throughput_per_s: float) -> None:
        """Take in a saturated reading; it counts from the next block on."""
        if self.techniques.learning or not self._samples.sizes:
            total, count = self._block.get(instances, (0.0, 0))
            self._block[instances] = (total + throughput_per_s, count + 1)

    def estimate(self, instances: int, throughput_per_s: float) -> None:
        """Take in what instances that are not saturated might carry; it counts until something was measured."""
        if not self._samples.sizes:
            total, count = self._estimates.get(instances, (0.0, 0))
            self._estimates[instances] = (total + throughput_per_s, count + 1)

    def end_block(self) -> None:
        """Bring the model up to date with what was read since the last block."""
        for instances, (total, count) in self._block.items():
            self._samples.add(instances, total / count)
        if self._block:
            self._fit()
        elif self._estimates and not self._samples.sizes:
            each = [total / count / instances for instances, (total, count) in self._estimates.items()]
            self._use(_proportional(MstSamples([(1, min(each))])))
        self._block.clear()
        self._estimates.clear()

    def size(self, load: Load) -> int | None:
        """The least size whose throughput exceeds the load with the asked probability, or that carries most of all."""
        if self._model is None:
            return None
        needed = load.expected_per_s + self._score * math.hypot(
            self._model.deviation if self.techniques.uncertainty else 0.0, load.deviation_per_s
        )
        enough = self._throughputs > needed
        return int(np.argmax(enough) if enough.any() else np.argmax(self._throughputs)) + 1

    def _fit(self) -> None:
        sizes = self._samples.sizes
        if not sizes:
            return
        if len(sizes) < 2:
            self._use(_proportional(self._samples))
        elif self._kind is None:
            self._use(select_model(self._samples))
        else:
            self._use(self._samples.fit(self._kind))

    def _use(self, model: MstModel) -> None:
        self._model = model
        self._throughputs = model.throughput(self._sizes)

    def snapshot(self) -> JSON:
        model = None if self._model is None else self._model.to_json()
        return [self._samples.to_json(), _rows(self._block), model, _rows(self._estimates)]

    def restore(self, state: JSON) -> None:
        samples, block, model, estimates = state
        self._samples = MstSamples.from_json(samples)
        self._block, self._estimates = _sums(block), _sums(estimates)
        self._model = None
        if model is not None:
            self._use(MstModel.from_json(model))


def _rows(sums: dict[int, tuple[float, int]]) -> JSON:
    return [[size, total, count] for size, (total, count) in sums.items()]


def _sums(rows: JSON) -> dict[int, tuple[float, int]]:
    return {int(size): (float(total), int(count)) for size, total, count in rows}


def _proportional(samples: MstSamples) -> MstModel:
    """A line through the origin, for samples of a single size."""
    (size,) = samples.sizes
    shape = MstModel(MstKind.QUADRATIC, (0.0, samples.mean(size) / size, 0.0), 0.0)
    return MstModel(shape.kind, shape.weights, samples.error(shape))
