"""Operators and the streams between them: a directed graph without cycles, with at least one source.

>>> Topology.of(("source", "enrich"), ("enrich", "sink")).order
('source', 'enrich', 'sink')
"""

from __future__ import annotations

from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter

from headgate.core.errors import InputError


@dataclass(frozen=True, slots=True)
class Topology:
    operators: tuple[str, ...]
    streams: tuple[tuple[str, str], ...] = ()
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
