"""mst-0 … mst-7: size for the probability that throughput exceeds load (imai, Table III)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import Field

from headgate.core.objective import ThroughputSlo
from headgate.core.types import JSON, Number, Sample
from headgate.forecast.arma import Arma, ArmaSettings
from headgate.policies.blocks.mst_sizing import Load, MstSizer, Techniques, highest_load
from headgate.policies.blocks.policy import BlockPolicy, BlockSettings
from headgate.policies.capacity.saturation import estimated_throughput, saturated_throughput
from headgate.policies.frame.base import Context, register

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

    >>> from headgate.core.objective import parse_objective
    >>> from headgate.core.topology import Topology
    >>> from headgate.core.types import Instances, Observation, Sample
    >>> from headgate.core.window import History
    >>> from headgate.policies.frame.base import Context, make_policy
    >>> job = Topology.single()
    >>> context = Context(parse_objective("throughput >= 95%"), job)
    >>> policy = make_policy("mst-1", context, {"training": "1:99, 1:101, 2:197, 2:203, 4:396, 4:404"})
    >>> history = History(job)
    >>> sample = Sample("job", 0, input_rate_per_s=295, processed_rate_per_s=295, backlog=0)
    >>> history.observe(Observation(0, {"job": sample}, {"job": Instances(3, 3, 3)}))
    >>> target = policy.decide(0, history).targets["job"]
    >>> target.instances, target.reason
    (4, '295 records/s need 4 instances in this block')
    """

    Settings = MstSettings
    state_version = 2
    techniques: ClassVar[Techniques]

    def __init__(self, settings: MstSettings, context: Context) -> None:
        super().__init__(settings, context)
        slo = self.objective.slo
        asked = max(0.5, slo.probability) if isinstance(slo, ThroughputSlo) else _DEFAULT_PROBABILITY
        self._probability = settings.probability or asked
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
        load = self._expected(operator) or Load(rate_per_s)
        numbers: dict[str, Number] = {
            "rate_per_s": rate_per_s,
            "load_per_s": load.expected_per_s,
            "load_deviation_per_s": load.deviation_per_s,
            "probability": self._probability,
        }
        if sizer.model is not None:
            numbers |= {"mst_model": int(sizer.model.kind), "mst_deviation_per_s": sizer.model.deviation}
        return sizer.size(load), numbers

    def _expected(self, operator: str) -> Load | None:
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
            "forecasters": {name: dict(one.snapshot()) for name, one in self._forecasters.items()},
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
