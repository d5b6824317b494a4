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
        """Return the wanted size of each operator; a policy that lacks data proposes the planned size and says so."""
        ...

    def snapshot(self) -> Mapping[str, JSON]:
        """Return the complete learned state: a policy restored from it continues identically."""
        ...

    def restore(self, state: Mapping[str, JSON]) -> None: ...


@runtime_checkable
class ReportsEvents(Protocol):
    """A policy that has events to journal in addition to its decisions, such as a switch of mode."""

    def take_events(self) -> Sequence[Event]:
        """Return the events since the last call; each is returned once."""
        ...


Guard: TypeAlias = Callable[[Window, Decision], Decision]
"""Changes a proposed decision and leaves a note in every verdict."""


class Engine(Protocol):
    """What runs the operators. Synchronous and safe to call from any thread."""

    def topology(self) -> Topology: ...

    def observe(self) -> Observation:
        """Return the newest readings and sizes; raises ``EngineError`` when they are not available."""
        ...

    def apply(self, decision: Decision) -> Receipt:
        """Bring the operators to the decided sizes. Desired state, not a command: applying it twice changes nothing."""
        ...

    def close(self) -> None:
        """Release the engine and leave the job running at its size; calling it twice is fine."""
        ...


@runtime_checkable
class Subscribable(Protocol):
    """An engine that can measure more than the basic metrics, when they are subscribed to."""

    @property
    def extra_metrics(self) -> Collection[str]:
        """The names of the metrics that it can collect."""
        ...

    def subscribe(self, keys: Collection[str]) -> None:
        """Collect these metrics from now on and no others; keys are those of ``core/metrics.py``."""
        ...
