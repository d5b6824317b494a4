"""Engines of other packages: what runs operators that Headgate does not know, found by name.

A package says in its ``pyproject.toml`` which engine it brings:

    [project.entry-points."headgate.engines"]
    half-cluster = "my_package.engine:HalfCluster"
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from headgate.core.errors import UnknownNameError
from headgate.core.plugins import load_plugin, package_of, plugins
from headgate.core.topology import Topology
from headgate.core.types import Decision, Instant, Observation, Receipt

ENTRY_POINTS = "headgate.engines"
OWN = {"flink": "headgate.engines.flink.engine:FlinkEngine"}
"""Those that come with Headgate, with where they are: none is imported before somebody asks for it."""


class EngineBase(ABC):
    """The frame of an engine that is opened by name; ``headgate.testing.check_engine`` checks what it promises.

    Args:
        target: Which job it is to scale, in the engine's own words: an address, a name.
        now: The clock of the loop; readings carry its times.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    """One line, for lists."""

    def __init__(self, target: str, now: Callable[[], Instant]) -> None:
        self.target = target
        self.now = now

    @abstractmethod
    def topology(self) -> Topology:
        """The operators that are scaled, and the streams between them."""

    @abstractmethod
    def observe(self) -> Observation:
        """The newest readings and sizes; raises ``EngineError`` when they cannot be had."""

    @abstractmethod
    def apply(self, decision: Decision) -> Receipt:
        """Bring the operators to the decided sizes; applying it twice changes nothing."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the job, which goes on at its size; calling it twice is fine."""


def own_engines() -> tuple[str, ...]:
    """The engines of this package that are opened by name."""
    return tuple(OWN)


def brought_engines() -> dict[str, str]:
    """The engines that other packages bring, with the package and its version; none is imported."""
    return {name: package_of(entry) for name, entry in sorted(plugins(ENTRY_POINTS).items()) if name not in OWN}


def engine_class(name: str) -> type[EngineBase]:
    if name in OWN:
        module, _, kind = OWN[name].partition(":")
        own: type[EngineBase] = getattr(importlib.import_module(module), kind)
        return own
    found = plugins(ENTRY_POINTS)
    if name not in found:
        raise UnknownNameError("engine", name, {*OWN, *found})
    return load_plugin("engine", found[name], EngineBase)
