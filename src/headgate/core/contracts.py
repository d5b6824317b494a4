"""The seams: what a policy, a guard and an engine must offer. Checks for each ship in ``headgate.testing``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

from headgate.core.topology import Topology
from headgate.core.types import JSON, Decision, Event, Instant, Observation, Proposal, Receipt
from headgate.core.window import Window


class Policy(Protocol):
    """Decides sizes. Pure but for its own learned state: no clock, no I/O, no unseeded randomness."""

    @property
    def name(self) -> str: ...

    def decide(self, now: Instant, window: Window) -> Proposal:
        """The size wanted for each operator; a policy that lacks data proposes the planned size and says so."""
        ...

    def snapshot(self) -> Mapping[str, JSON]:
        """The learned state, complete: a policy restored from it goes on identically."""
        ...

    def restore(self, state: Mapping[str, JSON]) -> None: ...


@runtime_checkable
class ReportsEvents(Protocol):
    """A policy that has something to journal beside its decisions, such as a switch of mode."""

    def take_events(self) -> Sequence[Event]:
        """What happened since this was last asked; each event is given once."""
        ...


Guard: TypeAlias = Callable[[Window, Decision], Decision]
"""Changes what a policy proposed, and leaves a note of what it did in every verdict."""


class Engine(Protocol):
    """What runs the operators. Synchronous and safe to call from any thread."""

    def topology(self) -> Topology: ...

    def observe(self) -> Observation:
        """The newest readings and sizes; raises ``EngineError`` when they cannot be had."""
        ...

    def apply(self, decision: Decision) -> Receipt:
        """Bring the operators to the decided sizes. Desired state, not a command: applying it twice changes nothing."""
        ...

    def close(self) -> None:
        """Let go of the engine and leave the job running at its size; calling it twice is fine."""
        ...


@runtime_checkable
class Subscribable(Protocol):
    """An engine that can measure more than the basic metrics; it does so only for those who ask."""

    @property
    def extra_metrics(self) -> Collection[str]:
        """The names of what it could collect."""
        ...

    def subscribe(self, keys: Collection[str]) -> None:
        """Collect these from now on and no others; keys are those of ``core/metrics.py``."""
        ...
