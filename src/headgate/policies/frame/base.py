"""What all policies share, and the registry that finds them by name.

A policy is one file at the top of ``headgate.policies``: a class that extends :class:`PolicyBase`, carries ``name``,
``summary`` and a ``Settings`` class, and is decorated with :func:`register`. The files there are searched when a name
is first asked for, so a new one is all it takes; the contract checks then run on it by themselves. Other packages bring
theirs by entry points of the group ``headgate.policies``; a name that is taken here stays what it is.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from headgate.core.contracts import Guard
from headgate.core.errors import InputError, StateError, UnknownNameError
from headgate.core.objective import Objective
from headgate.core.plugins import load_plugin, package_of, plugins
from headgate.core.topology import Topology
from headgate.core.types import JSON, NO_NUMBERS, Instances, Instant, Number, Proposal, Sample, Target
from headgate.core.window import DEFAULT_RETENTION_S, Window
from headgate.policies.frame.settings import Settings, make_settings
from headgate.policies.frame.stabilisers import GuardSettings

S = TypeVar("S", bound=Settings)
ENTRY_POINTS = "headgate.policies"


@dataclass(frozen=True, slots=True)
class Context:
    """What a policy is told when it is made: what is asked for, of which operators, and the seed of its randomness."""

    objective: Objective
    topology: Topology
    seed: int = 0


@dataclass(frozen=True, slots=True)
class StateTable:
    """Learned state as a table for people."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


class PolicyBase(ABC, Generic[S]):
    """The frame of a policy: settings, saved state, and the hold of those that lack data."""

    name: ClassVar[str]
    summary: ClassVar[str]
    """One line, for lists."""
    Settings: ClassVar[type[Settings]]
    guards: ClassVar[GuardSettings] = GuardSettings()
    """The guards that suit this policy where the user sets no others."""
    lookback_s: float = DEFAULT_RETENTION_S
    """How far back the policy looks; the loop keeps at least that much."""
    subscriptions: frozenset[str] = frozenset()
    """Keys of the metrics it needs beyond the basic ones."""
    state_version: ClassVar[int] = 1
    wakes: ClassVar[bool] = False
    """Whether it can wake a job that has no instance: only then may the bounds begin at 0."""
    sees_graph: ClassVar[bool] = False
    """Whether an objective from end to end of several operators is its own business; others are given one for each."""

    def __init__(self, settings: S, context: Context) -> None:
        if context.objective.min_instances < 1 and not self.wakes:
            raise InputError(
                f"min_instances 0 is not allowed with policy {self.name!r}, which cannot wake a job without instances; "
                "it must be at least 1."
            )
        self.settings = settings
        self.objective = context.objective
        self.topology = context.topology
        self.seed = context.seed

    @abstractmethod
    def decide(self, now: Instant, window: Window) -> Proposal: ...

    def guarded(self, guards: tuple[Guard, ...]) -> tuple[Guard, ...]:
        """The guards around this policy; one that brings guards of its own puts them in their places."""
        return guards

    def snapshot(self) -> Mapping[str, JSON]:
        return {"policy": self.name, "version": self.state_version, **self._state()}

    def restore(self, state: Mapping[str, JSON]) -> None:
        expected = (self.name, self.state_version)
        received = (state.get("policy"), state.get("version"))
        if received != expected:
            raise StateError(
                f"saved state is of policy {received[0]!r} version {received[1]!r}; "
                f"{expected[0]!r} version {expected[1]!r} is needed."
            )
        try:
            self._restore_state(state)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise StateError(f"saved state of policy {self.name!r} is damaged: {error!r}.") from error

    @classmethod
    def state_tables(cls, state: Mapping[str, JSON]) -> list[StateTable]:
        """A snapshot as tables for people; policies whose state is best read so override this."""
        return []

    def _state(self) -> dict[str, JSON]:
        """The learned state beyond name and version; policies that learn override both of these."""
        return {}

    def _restore_state(self, state: Mapping[str, JSON]) -> None:
        return None


class OperatorPolicy(PolicyBase[S]):
    """A policy that sizes each operator on its own, from that operator's readings."""

    stale_after_s: ClassVar[float] = 300.0
    """A newest reading older than this counts as none."""

    def decide(self, now: Instant, window: Window) -> Proposal:
        targets = {}
        for operator in window.operators:
            instances = window.instances(operator)
            if instances is None:
                continue
            sample = window.sample(operator)
            if sample is None or now - sample.at_s > self.stale_after_s:
                targets[operator] = Target(instances.planned, "no-data", "no fresh reading of the job: holding")
            else:
                targets[operator] = self.size(now, window, operator, instances, sample)
        return Proposal(targets)

    @abstractmethod
    def size(self, now: Instant, window: Window, operator: str, instances: Instances, sample: Sample) -> Target:
        """The size wanted for one operator whose newest reading is ``sample``."""


def hold(instances: Instances, code: str, reason: str, numbers: Mapping[str, Number] = NO_NUMBERS) -> Target:
    """The target that leaves an operator as it is."""
    return Target(instances.planned, code, reason, numbers)


AnyPolicy = PolicyBase[Any]
_REGISTRY: dict[str, type[AnyPolicy]] = {}
P = TypeVar("P", bound=type[AnyPolicy])


def register(policy: P) -> P:
    """Class decorator: makes a policy known by its name."""
    if policy.name in _REGISTRY and _REGISTRY[policy.name] is not policy:
        raise ValueError(f"two policies are called {policy.name!r}")
    _REGISTRY[policy.name] = policy
    return policy


@cache
def _discover() -> None:
    import headgate.policies as package

    for module in pkgutil.iter_modules(package.__path__):
        if not module.ispkg:  # folders hold what policies share
            importlib.import_module(f"{package.__name__}.{module.name}")


def _import_by_name(name: str) -> None:
    """Import only the file that is named after a policy: others may bring libraries that a driver need not load."""
    module = name.replace("-", "_")
    if module.isidentifier() and importlib.util.find_spec(f"headgate.policies.{module}") is not None:
        importlib.import_module(f"headgate.policies.{module}")


def policy_names() -> list[str]:
    """Every policy of this package, and those that are registered by others, sorted."""
    _discover()
    return sorted(_REGISTRY)


def brought_policies() -> dict[str, str]:
    """The policies that other packages bring by entry points, with the package and its version; none is imported."""
    _discover()
    own = {name for name, kind in _REGISTRY.items() if kind.__module__.startswith("headgate.")}
    return {name: package_of(entry) for name, entry in sorted(plugins(ENTRY_POINTS).items()) if name not in own}


def policy_class(name: str) -> type[AnyPolicy]:
    if name not in _REGISTRY:
        _import_by_name(name)
    if name not in _REGISTRY:
        _discover()
    if name not in _REGISTRY and name in plugins(ENTRY_POINTS):
        register(load_plugin("policy", plugins(ENTRY_POINTS)[name], PolicyBase))
    if name not in _REGISTRY:
        raise UnknownNameError("policy", name, {*_REGISTRY, *plugins(ENTRY_POINTS)})
    return _REGISTRY[name]


def make_policy(name: str, context: Context, settings: Mapping[str, object] | None = None) -> AnyPolicy:
    """A policy by name, with settings as plain values."""
    kind = policy_class(name)
    return kind(make_settings(kind.Settings, name, settings or {}), context)


def guards_for(policy: AnyPolicy, changes: Mapping[str, object] | None = None) -> GuardSettings:
    """The guards that suit a policy, with what the user set instead, as plain values."""
    return make_settings(GuardSettings, "guards", policy.guards.model_dump() | dict(changes or {}))


class PolicyMaker(Protocol):
    """A policy that is set up but does not know its job yet."""

    def make(self, context: Context) -> AnyPolicy: ...


def policy_from(policy: str | PolicyMaker, context: Context, settings: Mapping[str, object] | None = None) -> AnyPolicy:
    """A policy by name with settings, or one that is set up already."""
    if isinstance(policy, str):
        return make_policy(policy, context, settings)
    if settings:
        raise InputError(f"settings {', '.join(settings)} go with the name of a policy; this one is set up already.")
    return policy.make(context)
