"""What policies that size a job for a block of time at once have in common (imai §II-C).

A block is ``block_steps`` long and begins at a whole multiple of its length. Instances take ``startup_steps`` to start,
so a size is decided that long before its block: additional instances are requested at once and are ready when the block
begins, superfluous ones are removed when it begins.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Self, TypeVar

from pydantic import BeforeValidator, Field, model_validator

from headgate.core.types import JSON, Instances, Instant, Number, Sample, Target
from headgate.core.units import plain
from headgate.core.window import Window
from headgate.forecast.base import EvenGrid
from headgate.policies.frame.base import Context, OperatorPolicy, hold
from headgate.policies.frame.settings import Seconds, Settings


def _measured(value: object) -> object:
    """Measurements as text: ``1:95, 2:190, 4:370``."""
    if not isinstance(value, str):
        return value
    pairs = [part.partition(":")[::2] for part in value.replace(";", ",").split(",") if part.strip()]
    return tuple((instances.strip(), throughput.strip()) for instances, throughput in pairs)


Measurements = Annotated[
    tuple[tuple[Annotated[int, Field(ge=1)], Annotated[float, Field(gt=0)]], ...], BeforeValidator(_measured)
]
"""Pairs of a number of instances and the records/s they sustained at most."""

MOST_STEPS = 10_000
"""The errors of forecasts are stored for every step of a block."""


class BlockSettings(Settings):
    step_s: Annotated[Seconds, Field(gt=0)] = 60.0
    """Length of a step: the load of a step is one value of the series that is forecast."""
    block_steps: Annotated[int, Field(ge=1, le=MOST_STEPS)] = 10
    """Steps for which a size stays the same (the document's S)."""
    startup_steps: Annotated[int, Field(ge=0, le=MOST_STEPS)] = 2
    """Steps that an instance takes to start (the document's U)."""
    training: Measurements = ()
    """What was measured offline, as pairs of instances and records/s, ``1:95, 2:190``; without it, the first saturated
    reading takes its place, and until then an estimate by how busy instances are."""
    validation: Measurements = ()
    """Measurements that decide between the two models of the throughput."""
    model_file: str | None = None
    """A file that ``headgate mst --save FILE`` has written: it says what ``training`` and ``validation`` would say."""

    @model_validator(mode="after")
    def _file_was_read(self) -> Self:
        if self.model_file is not None and not self.training:
            raise ValueError(f"model_file {self.model_file} was not read; policies of a running loop have it read")
        return self


B = TypeVar("B", bound=BlockSettings)


class BlockState:
    """What is known of one operator between decisions."""

    def __init__(self, step_s: float) -> None:
        self.grid = EvenGrid(step_s)
        self.read_s = -math.inf
        self.block: int | None = None
        """The block that was decided last."""
        self.started: int | None = None
        """The block whose start was seen last."""
        self.target: int | None = None
        self.numbers: dict[str, Number] = {}

    def to_json(self) -> JSON:
        read_s = None if math.isinf(self.read_s) else self.read_s
        return [self.grid.snapshot(), read_s, self.block, self.started, self.target, self.numbers.copy()]

    def restore(self, state: JSON) -> None:
        grid, read_s, self.block, self.started, self.target, numbers = state
        self.grid.restore(grid)
        self.read_s = -math.inf if read_s is None else float(read_s)
        self.numbers = dict(numbers)


class BlockPolicy(OperatorPolicy[B]):
    """Feeds an even series of loads and the readings of capacity to a policy, and asks it for a size once per block."""

    def __init__(self, settings: B, context: Context) -> None:
        super().__init__(settings, context)
        self._blocks: dict[str, BlockState] = {}

    @property
    @abstractmethod
    def lead_steps(self) -> int:
        """Steps before a block at which its size is decided."""

    @abstractmethod
    def observe_load(self, operator: str, rate_per_s: float) -> None:
        """Take in the load of the next step."""

    @abstractmethod
    def read_capacity(self, operator: str, instances: int, sample: Sample) -> None:
        """Take in a reading made at a settled size."""

    @abstractmethod
    def block_size(self, operator: str, rate_per_s: float) -> tuple[int | None, dict[str, Number]]:
        """The size of the coming block and the numbers behind it; no size as long as no capacity is known."""

    def size_at_start(self, operator: str, decided: int, rate_per_s: float) -> int:
        """The size when the block begins: it may be less than was decided, for what was seen since."""
        return decided

    def size(self, now: Instant, window: Window, operator: str, instances: Instances, sample: Sample) -> Target:
        rate = sample.input_rate_per_s
        if rate is None:
            return hold(instances, "no-data", "the rate of arrivals is not known: holding")
        state = self._blocks.setdefault(operator, BlockState(self.settings.step_s))
        self._read(window, operator, instances, sample, rate, state)
        length_s = self.settings.block_steps * self.settings.step_s
        block = _number(now + self.lead_steps * self.settings.step_s, length_s)
        if block != state.block:
            state.block = block
            state.target, state.numbers = self.block_size(operator, rate)
        if state.target is None:
            return hold(instances, "no-model", "what instances can carry is not known yet; the next block may know")
        begun = now >= block * length_s - 1e-9 * length_s
        if begun and state.started != block:
            state.started = block
            state.target = self.size_at_start(operator, state.target, rate)
        return _target(instances, state.target, begun, state.numbers)

    def _read(
        self, window: Window, operator: str, instances: Instances, sample: Sample, rate: float, state: BlockState
    ) -> None:
        """The loop may look more often than there are readings, and one must not count twice."""
        if sample.at_s <= state.read_s:
            return
        state.read_s = sample.at_s
        for value in state.grid.add(sample.at_s, rate):
            self.observe_load(operator, value)
        settled_s = window.settled_since_s(operator)
        if instances.ready >= 1 and not sample.warming and (settled_s is None or sample.measured_s > settled_s):
            self.read_capacity(operator, instances.ready, sample)

    def _state(self) -> dict[str, JSON]:
        return {"blocks": {name: state.to_json() for name, state in self._blocks.items()}}

    def _restore_state(self, state: Mapping[str, JSON]) -> None:
        self._blocks = {}
        for name, saved in state["blocks"].items():
            self._blocks[str(name)] = BlockState(self.settings.step_s)
            self._blocks[str(name)].restore(saved)


def _number(at_s: Instant, length_s: float) -> int:
    return math.floor(at_s / length_s + 1e-9)


def _target(instances: Instances, size: int, begun: bool, numbers: Mapping[str, Number]) -> Target:
    reason = f"{plain(float(numbers.get('load_per_s') or 0))} records/s need {size} instance{'' if size == 1 else 's'}"
    if size > instances.planned:
        return Target(
            size, "block-needs-more", f"{reason} in this block" if begun else f"{reason} in the next block", numbers
        )
    if size == instances.planned:
        return hold(instances, "steady", reason, numbers)
    if begun:
        return Target(size, "block-needs-fewer", f"{reason} in this block", numbers)
    return hold(instances, "waiting", f"{reason} in the next block; the rest stays until it begins", numbers)
