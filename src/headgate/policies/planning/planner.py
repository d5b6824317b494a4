"""What every planner offers: it chooses sizes for the next slot, and learns from how the slot went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from headgate.core.types import JSON
from headgate.policies.planning.model import Floats

Levels = tuple[int, ...]
"""The level of each rate that a planner looks at: the application's alone, or one per operator."""
Sizes = tuple[int, ...]
"""Instances of each operator, in the order of the topology."""


@dataclass(frozen=True, slots=True)
class SlotOutcome:
    """How a slot went; what was not measured is ``None``."""

    violated: bool | None = None
    """Whether the response time violated the objective."""
    utilizations: tuple[float | None, ...] | None = None
    """How busy each operator was."""


class Planner(Protocol):
    """Plans on levels and sizes only, so that it runs the same in a policy and in a year-long evaluation."""

    @property
    def inputs(self) -> int:
        """How many rates it looks at: 1 for the application's, otherwise one per operator."""
        ...

    def choose(self, levels: Levels, sizes: Sizes) -> Sizes:
        """The sizes for the slot that begins, after a slot with these levels; at most one step per operator."""
        ...

    def learn(self, levels: Levels, sizes: Sizes, next_levels: Levels, outcome: SlotOutcome) -> None:
        """A slot that began after these levels ran at these sizes, and these levels arrived in it."""
        ...

    def visits(self, levels: Levels) -> int:
        """How often slots with these levels have been followed by another: what the estimates there rest on."""
        ...

    def to_json(self) -> dict[str, JSON]:
        """All that was learned."""
        ...

    def load(self, state: Mapping[str, JSON]) -> None:
        """Take back what :meth:`to_json` gave; raises ``ValueError`` where it does not fit."""
        ...


def position_of(sizes: Sizes, lowest: int, highest: int) -> tuple[int, ...]:
    """Sizes as indices into an array; a size outside the bounds counts as the nearest bound."""
    return tuple(min(max(size, lowest), highest) - lowest for size in sizes)


def floats_from(state: JSON, shape: tuple[int, ...]) -> Floats:
    """An array of a known shape from lists."""
    values = np.asarray(state, dtype=np.float64)
    if values.shape != shape or not np.isfinite(values).all():
        raise ValueError(f"an array of shape {values.shape} does not fit; {shape} of finite numbers is needed")
    return values
