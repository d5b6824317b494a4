"""mst-0 … mst-7: size for the probability that throughput exceeds load (imai, Table III)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from headgate.core.objective import ThroughputSlo
from headgate.core.types import JSON, Number, Sample
from headgate.forecast.arma import Arma, ArmaSettings
from headgate.forecast.base import FloatArray, Forecast
from headgate.policies.blocks.policy import BlockPolicy, BlockSettings
from headgate.policies.capacity.mst import (
    Measured,
    MstKind,
    MstModel,
    MstSamples,
    estimated_throughput,
    saturated_throughput,
    select_model,
)
from headgate.policies.frame.base import Context, register


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
class ExpectedLoad:
    """A load in records/s that is to be carried, and the deviation of what is expected of it."""

    expected_per_s: float
    deviation_per_s: float = 0.0


def highest_load(forecast: Forecast, lead_steps: int) -> ExpectedLoad:
    """The step of the block with the highest load by eq. 14, mean plus two deviations.

    The first step of the block is ``lead_steps`` after the newest value.

    >>> flat = Forecast.normal(np.array([10.0, 11.0, 12.0]), np.array([1.0, 2.0, 1.0]))
    >>> highest_load(flat, lead_steps=2)
    ExpectedLoad(expected_per_s=11.0, deviation_per_s=2.0)
    """
    mean, deviation = forecast.mean[lead_steps - 1 :], forecast.deviation[lead_steps - 1 :]
    highest = int(np.argmax(mean + 2 * deviation))
    return ExpectedLoad(float(mean[highest]), float(deviation[highest]))


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
        self._probability = probability
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

    def size(self, load: ExpectedLoad) -> int | None:
        """Return the least size whose throughput exceeds the load with the required probability, or the best size."""
        if self._model is None:
            return None
        margin = self._model.margin(self._probability) if self.techniques.uncertainty else 0.0
        needed = load.expected_per_s + math.hypot(margin, self._score * load.deviation_per_s)
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
    return samples.with_uncertainty(MstKind.QUADRATIC, (0.0, samples.mean(size) / size, 0.0), coefficients=1)


_DEFAULT_PROBABILITY = 0.95


class MstSettings(BlockSettings):
    probability: Annotated[float, Field(ge=0.5, lt=1)] | None = None
    """How probable it must be that throughput exceeds load (the document's ρ); without it, that of a throughput
    objective, or 0.95."""
    window: Annotated[int, Field(ge=20)] = 100
    """Newest steps that the ARMA model is fitted to."""


class Mst(BlockPolicy[MstSettings]):
    """Learns the maximum sustainable throughput of each size and takes the least size that is enough for a block.

    UA counts on less than the expected throughput, by its uncertainty (eq. 8); OL takes saturated readings into the
    model; ARMA sizes for the highest forecast load of the block with its uncertainty (eqs. 18, 21) and decides
    ``startup_steps`` before the block. Without ARMA the size is decided when a block begins, by the newest load, and
    until the ARMA model has its first ``window`` of steps it is the newest load too, ahead of the block.

    The backlog plays no part, as in the document: a size that carries more than arrives works it off.

    >>> from headgate.policies import Sample
    >>> from headgate.testing import last_target
    >>> reading = Sample("job", 0, input_rate_per_s=295, processed_rate_per_s=295, backlog=0)
    >>> measured = "1:99, 1:101, 2:197, 2:203, 4:396, 4:404"
    >>> target = last_target("mst-1", "throughput >= 95%", 3, reading, training=measured)
    >>> target.instances, target.reason
    (4, '295 records/s need 4 instances in this block')
    """

    Settings = MstSettings
    state_version = 3
    techniques: ClassVar[Techniques]

    def __init__(self, settings: MstSettings, context: Context) -> None:
        super().__init__(settings, context)
        slo = self.objective.slo
        required = max(0.5, slo.probability) if isinstance(slo, ThroughputSlo) else _DEFAULT_PROBABILITY
        self._probability = settings.probability or required
        self._sizers: dict[str, MstSizer] = {}
        self._forecasters: dict[str, Arma] = {}

    @property
    def lead_steps(self) -> int:
        return self.settings.startup_steps if self.techniques.forecasting else 0

    def observe_load(self, operator: str, rate_per_s: float) -> None:
        if self.techniques.forecasting:
            self._forecaster(operator).observe(rate_per_s)

    def read_capacity(self, operator: str, instances: int, sample: Sample) -> None:
        throughput, estimated = saturated_throughput(sample), estimated_throughput(sample)
        if throughput is not None:
            self._sizer(operator).learn(instances, throughput)
        elif estimated is not None:
            self._sizer(operator).estimate(instances, estimated)

    def block_size(self, operator: str, rate_per_s: float) -> tuple[int | None, dict[str, Number]]:
        sizer = self._sizer(operator)
        sizer.end_block()
        load = self._expected(operator) or ExpectedLoad(rate_per_s)
        numbers: dict[str, Number] = {
            "rate_per_s": rate_per_s,
            "load_per_s": load.expected_per_s,
            "load_deviation_per_s": load.deviation_per_s,
            "probability": self._probability,
        }
        if sizer.model is not None:
            numbers |= {"mst_model": int(sizer.model.kind), "mst_deviation_per_s": sizer.model.deviation}
        return sizer.size(load), numbers

    def _expected(self, operator: str) -> ExpectedLoad | None:
        if not self.techniques.forecasting:
            return None
        first = max(1, self.settings.startup_steps)
        forecast = self._forecaster(operator).forecast(first + self.settings.block_steps - 1)
        return None if forecast is None else highest_load(forecast, first)

    def _sizer(self, operator: str) -> MstSizer:
        if operator not in self._sizers:
            self._sizers[operator] = MstSizer(
                self.techniques,
                self._probability,
                self.objective.max_instances,
                self.settings.training,
                self.settings.validation,
            )
        return self._sizers[operator]

    def _forecaster(self, operator: str) -> Arma:
        return self._forecasters.setdefault(operator, Arma(ArmaSettings(window=self.settings.window)))

    def _state(self) -> dict[str, JSON]:
        return {
            **super()._state(),
            "sizers": {name: sizer.snapshot() for name, sizer in self._sizers.items()},
            "forecasters": {name: dict(forecaster.snapshot()) for name, forecaster in self._forecasters.items()},
        }

    def _restore_state(self, state: Mapping[str, JSON]) -> None:
        super()._restore_state(state)
        self._sizers, self._forecasters = {}, {}
        for name, saved in state["sizers"].items():
            self._sizer(str(name)).restore(saved)
        for name, saved in state["forecasters"].items():
            self._forecaster(str(name)).restore(saved)


def _variant(number: int) -> type[Mst]:
    parts = Techniques.of(number)
    used = [
        word
        for word, on in (
            ("its uncertainty", parts.uncertainty),
            ("online learning", parts.learning),
            ("ARMA forecasts", parts.forecasting),
        )
        if on
    ]

    class Variant(Mst):
        name = f"mst-{number}"
        summary = "Sizes by a model of the sustainable throughput" + (
            f", with {', '.join(used)}." if used else " alone."
        )
        techniques = parts

    Variant.__doc__ = Mst.__doc__
    Variant.__name__ = Variant.__qualname__ = f"Mst{number}"
    return register(Variant)


VARIANTS = tuple(_variant(number) for number in range(8))
"""All combinations of the three techniques, by the document's numbers."""
