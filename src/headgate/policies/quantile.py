"""quantile: the size of a block by the whole distribution of its load and of what each size sustains (ours)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from headgate.core.types import JSON, Number, Sample
from headgate.policies.blocks.policy import BlockPolicy, BlockSettings
from headgate.policies.blocks.quantile_sizing import BlockOutlook, QuantileSizer
from headgate.policies.capacity.mst import estimated_throughput, saturated_throughput
from headgate.policies.frame.base import Context, register


class QuantileSettings(BlockSettings):
    target: Annotated[float, Field(ge=0.5, lt=1)] = 0.99
    """Share of steps in which the job shall carry what arrives."""
    miss_worth: Annotated[float, Field(gt=0)] = 8.0
    """What a missed step is worth at first, in steps of all the instances that the load needs; then it follows
    ``target``."""
    gain: Annotated[float, Field(ge=0, le=1)] = 0.002
    """How fast the worth follows: its relative change per block that missed twice the steps that are allowed."""


@register
class Quantile(BlockPolicy[QuantileSettings]):
    """Weighs the instances of each size against the steps that it is expected to miss.

    It differs from mst-7 in five ways. The load is an empirical distribution of whole blocks, not a normal one of one
    step. What a size sustains varies by a share of itself, not by as much at every size. The curve of throughput also
    learns from what was carried without saturating. A size is chosen where one more instance is no longer worth what it
    saves, instead of at a fixed probability. And when a block begins, what was decided ahead is trimmed to what the
    newest load still calls for.

    >>> from headgate.policies import Sample
    >>> from headgate.testing import last_target
    >>> reading = Sample("job", 0, input_rate_per_s=295, processed_rate_per_s=295, backlog=0)
    >>> measured = "1:99, 1:101, 2:197, 2:203, 4:396, 4:404"
    >>> target = last_target("quantile", "throughput >= 95%", 3, reading, training=measured)
    >>> target.instances, target.reason
    (4, '295 records/s need 4 instances in this block')
    """

    name = "quantile"
    summary = "Weighs instances against misses by the distributions of load and throughput."
    state_version = 3
    Settings = QuantileSettings

    def __init__(self, settings: QuantileSettings, context: Context) -> None:
        super().__init__(settings, context)
        self._sizers: dict[str, QuantileSizer] = {}
        self._outlooks: dict[str, tuple[BlockOutlook, BlockOutlook]] = {}

    @property
    def lead_steps(self) -> int:
        return self.settings.startup_steps

    def observe_load(self, operator: str, rate_per_s: float) -> None:
        for outlook in self._outlook(operator):
            outlook.observe(rate_per_s)

    def read_capacity(self, operator: str, instances: int, sample: Sample) -> None:
        offered, processed = sample.input_rate_per_s, sample.processed_rate_per_s
        if offered is None or sample.backlog is None:
            return
        sustained = saturated_throughput(sample)
        # Records that only wait for the next batch, or from an earlier time, are no sign of too many.
        if sustained is not None or not sample.backlog or (processed is not None and processed > offered):
            self._sizer(operator).read(instances, offered, sustained)
        if sustained is None and (estimated := estimated_throughput(sample)) is not None:
            self._sizer(operator).estimate(instances, estimated)

    def block_size(self, operator: str, rate_per_s: float) -> tuple[int | None, dict[str, Number]]:
        sizer, (ahead, _) = self._sizer(operator), self._outlook(operator)
        sizer.end_block()
        outlook = ahead.now()
        if outlook is None:
            return None, {}
        numbers: dict[str, Number] = {
            "rate_per_s": rate_per_s,
            "load_per_s": outlook.level,
            "highest_load_per_s": outlook.highest,
            "miss_worth": sizer.worth,
        }
        return sizer.size(outlook), numbers

    def size_at_start(self, operator: str, decided: int, rate_per_s: float) -> int:
        outlook = self._outlook(operator)[1].now()
        trimmed = None if outlook is None else self._sizer(operator).size(outlook)
        return decided if trimmed is None else min(decided, trimmed)

    def _sizer(self, operator: str) -> QuantileSizer:
        if operator not in self._sizers:
            settings = self.settings
            self._sizers[operator] = QuantileSizer(
                settings.target,
                settings.miss_worth,
                settings.gain,
                self.objective.max_instances,
                settings.training,
                settings.validation,
            )
        return self._sizers[operator]

    def _outlook(self, operator: str) -> tuple[BlockOutlook, BlockOutlook]:
        if operator not in self._outlooks:
            steps = self.settings.block_steps
            self._outlooks[operator] = (BlockOutlook(self.settings.startup_steps, steps), BlockOutlook(0, steps))
        return self._outlooks[operator]

    def _state(self) -> dict[str, JSON]:
        return {
            **super()._state(),
            "sizers": {name: sizer.snapshot() for name, sizer in self._sizers.items()},
            "outlooks": {name: [outlook.snapshot() for outlook in both] for name, both in self._outlooks.items()},
        }

    def _restore_state(self, state: Mapping[str, JSON]) -> None:
        super()._restore_state(state)
        self._sizers, self._outlooks = {}, {}
        for name, saved in state["sizers"].items():
            self._sizer(str(name)).restore(saved)
        for name, both in state["outlooks"].items():
            for outlook, saved in zip(self._outlook(str(name)), both, strict=True):
                outlook.restore(saved)
