"""Operators and the streams between them: a directed graph without cycles, with at least one source.

>>> Topology.of(("source", "enrich"), ("enrich", "sink")).order
('source', 'enrich', 'sink')
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from types import MappingProxyType

from headgate.core.errors import InputError


@dataclass(frozen=True, slots=True)
class Sizing:
    """What sizes one operator can have, and what they cost; ``None`` leaves it to the objective."""

    min_instances: int | None = None
    max_instances: int | None = None
    price_per_instance_hour: float | None = None
    allowed: tuple[int, ...] | None = None
    """The only sizes that are possible, such as the divisors of a number of partitions; ``None``: any."""
    group: str | None = None
    """Operators of one group are rescaled together, as the vertices of a Flink job are: one restart for all."""

    def __post_init__(self) -> None:
        if self.min_instances is not None and self.min_instances < 0:
            raise InputError(f"min_instances {self.min_instances} is not allowed; it must not be negative.")
        if self.max_instances is not None and self.max_instances < max(1, self.min_instances or 0):
            raise InputError(
                f"max_instances {self.max_instances} is not allowed; it must be at least "
                f"{max(1, self.min_instances or 0)}."
            )
        if self.allowed is not None and (not self.allowed or list(self.allowed) != sorted(set(self.allowed))):
            raise InputError(f"allowed sizes {self.allowed} are not usable; they must be given once each, rising.")


ANY_SIZE = Sizing()
_NO_SIZING: Mapping[str, Sizing] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Topology:
    operators: tuple[str, ...]
    streams: tuple[tuple[str, str], ...] = ()
    sizing: Mapping[str, Sizing] = field(default_factory=lambda: _NO_SIZING)
    """What sizes operators can have, where they differ from what the objective says."""
    order: tuple[str, ...] = field(init=False, compare=False)
    """The operators, each after all those that feed it."""

    def __post_init__(self) -> None:
        if not self.operators:
            raise InputError("a topology has no operators; at least one is needed.")
        if len(set(self.operators)) != len(self.operators):
            raise InputError(f"a topology names an operator twice: {', '.join(self.operators)}.")
        for stream in self.streams:
            for end in stream:
                if end not in self.operators:
                    raise InputError(
                        f"stream {stream[0]} -> {stream[1]} names {end!r}, which is not an operator; "
                        f"allowed: {', '.join(self.operators)}."
                    )
        for name in self.sizing:
            if name not in self.operators:
                raise InputError(
                    f"sizes are given for {name!r}, which is not an operator; allowed: {', '.join(self.operators)}."
                )
        try:
            order = tuple(TopologicalSorter({name: self.upstream(name) for name in self.operators}).static_order())
        except CycleError as error:
            raise InputError(f"a topology must not have cycles; found {' -> '.join(error.args[1])}.") from error
        object.__setattr__(self, "order", order)

    @classmethod
    def single(cls, operator: str = "job") -> Topology:
        return cls((operator,))

    @classmethod
    def of(cls, *streams: tuple[str, str]) -> Topology:
        """The topology made of these streams; operators in the order in which they are first named."""
        return cls(tuple(dict.fromkeys(end for stream in streams for end in stream)), tuple(streams))

    @property
    def sources(self) -> tuple[str, ...]:
        """The operators that nothing feeds."""
        return tuple(name for name in self.operators if not self.upstream(name))

    def upstream(self, operator: str) -> tuple[str, ...]:
        return tuple(source for source, target in self.streams if target == operator)

    def downstream(self, operator: str) -> tuple[str, ...]:
        return tuple(target for source, target in self.streams if source == operator)

    def sizing_of(self, operator: str) -> Sizing:
        return self.sizing.get(operator, ANY_SIZE)

    def rescaled_with(self, operator: str) -> tuple[str, ...]:
        """The operators that are rescaled whenever this one is, itself included."""
        group = self.sizing_of(operator).group
        if group is None:
            return (operator,)
        return tuple(name for name in self.operators if self.sizing_of(name).group == group)
