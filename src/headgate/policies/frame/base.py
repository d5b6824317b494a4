"""The base classes of policies, the settings of their guards, and the registry that finds policies by name.

A policy is one file at the top of ``headgate.policies``: a class that extends :class:`PolicyBase`, carries ``name``,
``summary`` and a ``Settings`` class, and is decorated with :func:`register`. The registry imports the files there when
a name is first looked up, and the contract checks run on every policy it finds. Other packages register policies by
entry points of the group ``headgate.policies``; they cannot replace a built-in name.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, Generic, Protocol, TypeVar

from pydantic import Field

from headgate.core.affordable import Affordable
from headgate.core.contracts import Guard
from headgate.core.errors import InputError, StateError, UnknownNameError
from headgate.core.guards import (
    STRATEGIES,
    AllowedSizes,
    Attainable,
    Bounds,
    GuardTimes,
    HoldWhilePending,
    HoldWhileRecovering,
    Hysteresis,
    Monotonicity,
    NeverInBlind,
    StepLimit,
    Strategy,
    StrategyKind,
    Together,
    Trusted,
    Useful,
)
from headgate.core.objective import Objective
from headgate.core.plugins import load_plugin, package_of, plugins
from headgate.core.topology import Topology
from headgate.core.types import JSON, NO_NUMBERS, Instances, Instant, Number, Proposal, Sample, Target
from headgate.core.window import DEFAULT_RETENTION_S, Window
from headgate.policies.frame.settings import NameOf, Seconds, Settings, make_settings

Gain = Annotated[float, Field(gt=0, le=1)]
Count = Annotated[int, Field(ge=1)]


class GuardSettings(Settings):
    """What stabilises a policy. Bounds come from the objective."""

    strategy: Annotated[str, NameOf(STRATEGIES)] = StrategyKind.AS_PROPOSED
    """How many instances a change is made of: as the policy proposed, or a strategy that takes only its direction.
    Strategies of your own have names too."""
    granularity: Count = 1
    """Instances per step of a strategy."""
    max_out: Count | None = None
    """Largest number of instances added by one decision."""
    max_in: Count | None = None
    """Largest number of instances removed by one decision."""
    gain_out: Gain = 1.0
    """Share of the way to go at once when growing."""
    gain_in: Gain = 1.0
    """Share of the way to go at once when shrinking."""
    out_after_out_s: Seconds = 0.0
    """Least time between a scale-out and the next scale-out."""
    out_after_in_s: Seconds = 0.0
    """Least time between a scale-in and a scale-out."""
    in_after_out_s: Seconds = 0.0
    """Least time between a scale-out and a scale-in."""
    in_after_in_s: Seconds = 0.0
    """Least time between a scale-in and the next scale-in."""
    monotonicity: bool = False
    """Forbid a scale-in when latency rose after a scale-out, and a scale-out when it fell after a scale-in."""
    pending_timeout_s: Seconds = 120.0
    """Longest hold for requested instances that have not come, or removed ones that have not gone."""
    attainable_after_s: Seconds = 100.0
    """Seconds without a further instance, or `pending_timeout_s` if that is less, after which a plan that the cluster
    does not fulfil returns to what it gives; twice as long as start-ups take if that is more. Never if 0."""
    retry_after_s: Seconds = 45.0
    """How long after that no more is requested than the cluster gave."""
    recovery_timeout_s: Seconds = 60.0
    """Longest hold for a job that has not settled after a change of size."""
    growth_waits: bool = False
    """Whether growing waits for both of these, too, as shrinking does."""
    stale_after_s: Seconds = 60.0
    """A newest reading older than this forbids scaling in."""

    def build(self, objective: Objective, topology: Topology | None = None) -> tuple[Guard, ...]:
        """Return the active guards in their fixed order (see ``core/guards.py``)."""
        topology = topology or Topology.single()
        lowest, highest = objective.min_instances, objective.max_instances
        own = {name: objective.bounds_of(name, topology) for name in topology.sizing}
        allowed = {name: sizing.allowed for name, sizing in topology.sizing.items() if sizing.allowed is not None}
        grouped = any(sizing.group is not None for sizing in topology.sizing.values())
        guards: tuple[Guard | None, ...] = (
            Bounds(lowest, highest, own, objective),
            Useful(),
            None
            if self.strategy == StrategyKind.AS_PROPOSED
            else Strategy(self.strategy, self.granularity, lowest, highest, own),
            StepLimit(self.max_out, self.max_in) if self.max_out or self.max_in else None,
            Hysteresis(self.gain_out, self.gain_in) if min(self.gain_out, self.gain_in) < 1 else None,
            AllowedSizes(allowed) if allowed else None,
            _affordable(objective, topology, allowed),
            GuardTimes(self.out_after_out_s, self.out_after_in_s, self.in_after_out_s, self.in_after_in_s)
            if any((self.out_after_out_s, self.out_after_in_s, self.in_after_out_s, self.in_after_in_s))
            else None,
            Monotonicity() if self.monotonicity else None,
            HoldWhilePending(self.pending_timeout_s, self.growth_waits) if self.pending_timeout_s else None,
            HoldWhileRecovering(self.recovery_timeout_s, self.growth_waits) if self.recovery_timeout_s else None,
            NeverInBlind(self.stale_after_s),
            Trusted(objective),
            Together() if grouped else None,
            Attainable(
                min(self.attainable_after_s, self.pending_timeout_s or math.inf), self.retry_after_s, lowest, own
            )
            if self.attainable_after_s
            else None,
        )
        return tuple(guard for guard in guards if guard is not None)


def _affordable(objective: Objective, topology: Topology, allowed: Mapping[str, tuple[int, ...]]) -> Guard | None:
    if objective.cost is None:
        return None
    smallest = {name: objective.bounds_of(name, topology)[0] for name in topology.operators}
    return Affordable(objective.cost, objective.prices(topology), smallest, allowed)


S = TypeVar("S", bound=Settings)
ENTRY_POINTS = "headgate.policies"


@dataclass(frozen=True, slots=True)
class Context:
    """What a policy is created with: the objective, the operators, and the seed of its randomness."""

    objective: Objective
    topology: Topology
    seed: int = 0


@dataclass(frozen=True, slots=True)
class StateTable:
    """Learned state as a table for display."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


class PolicyBase(ABC, Generic[S]):
    """Base class of policies that see all operators at once: settings, guards and saved state."""

    name: ClassVar[str]
    summary: ClassVar[str]
    """One line, for lists."""
    Settings: ClassVar[type[Settings]]
    guards: ClassVar[GuardSettings] = GuardSettings()
    """Default guards of this policy."""
    lookback_s: float = DEFAULT_RETENTION_S
    """How far back the policy looks; the loop retains at least that much."""
    subscriptions: frozenset[str] = frozenset()
    """Keys of the metrics that it needs in addition to the basic ones."""
    state_version: ClassVar[int] = 1
    wakes: ClassVar[bool] = False
    """Whether it can wake a job without instances; only then may the bounds begin at 0."""
    sees_graph: ClassVar[bool] = False
    """Whether it handles an end-to-end objective of several operators itself; other policies get one per operator."""

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

    def keeps(self, size: int) -> bool:
        """Return whether it keeps this size whatever it reads, so that a simulation needs no readings."""
        return False

    def guarded(self, guards: tuple[Guard, ...]) -> tuple[Guard, ...]:
        """Return the guards around this policy; a policy with guards of its own inserts them here."""
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
        """Return a snapshot as tables for display; overridden by policies whose state is best read that way."""
        return []

    def _state(self) -> dict[str, JSON]:
        """Return the learned state; policies that learn override this and ``_restore_state``."""
        return {}

    def _restore_state(self, state: Mapping[str, JSON]) -> None:
        return None


class OperatorPolicy(PolicyBase[S]):
    """A policy that sizes each operator on its own, from that operator's readings."""

    stale_after_s: ClassVar[float] = 300.0
    """Readings older than this count as missing."""

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
        """Return the target of one operator whose newest reading is ``sample``."""


def hold(instances: Instances, code: str, reason: str, numbers: Mapping[str, Number] = NO_NUMBERS) -> Target:
    """Return the target that leaves the size of an operator unchanged."""
    return Target(instances.planned, code, reason, numbers)


AnyPolicy = PolicyBase[Any]
_REGISTRY: dict[str, type[AnyPolicy]] = {}
P = TypeVar("P", bound=type[AnyPolicy])


def register(policy: P) -> P:
    """Class decorator: register a policy by its name."""
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
    """Import only the file named after a policy: others may need libraries that a driver should not load."""
    module = name.replace("-", "_")
    if module.isidentifier() and importlib.util.find_spec(f"headgate.policies.{module}") is not None:
        importlib.import_module(f"headgate.policies.{module}")


def policy_names() -> list[str]:
    """Return the names of all registered policies, sorted."""
    _discover()
    return sorted(_REGISTRY)


def brought_policies() -> dict[str, str]:
    """Return the policies from entry points of other packages, with package and version, without importing any."""
    _discover()
    own = {name for name, kind in _REGISTRY.items() if kind.__module__.startswith("headgate.")}
    return {name: package_of(entry) for name, entry in sorted(plugins(ENTRY_POINTS).items()) if name not in own}


def policy_class(name: str) -> type[AnyPolicy]:
    """Return a policy by its name, or by its place: ``FILE.py:CLASS``."""
    file, colon, class_name = name.rpartition(":")
    if colon and file.endswith(".py"):
        return _policy_of_file(file, class_name)
    if name not in _REGISTRY:
        _import_by_name(name)
    if name not in _REGISTRY:
        _discover()
    if name not in _REGISTRY and name in plugins(ENTRY_POINTS):
        register(load_plugin("policy", plugins(ENTRY_POINTS)[name], PolicyBase))
    if name not in _REGISTRY:
        raise UnknownNameError("policy", name, {*_REGISTRY, *plugins(ENTRY_POINTS)})
    return _REGISTRY[name]


@cache
def _policy_of_file(file: str, class_name: str) -> type[AnyPolicy]:
    """Return the class of a file, and register it by its own name; the file is run once."""
    place = f"policy {file}:{class_name}"
    spec = importlib.util.spec_from_file_location(f"headgate_policy_{abs(hash(file))}", file)
    if spec is None or spec.loader is None:
        raise InputError(f"{place} cannot be loaded: {file} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except FileNotFoundError as error:
        raise InputError(f"{place} cannot be loaded: there is no file {file}.") from error
    except Exception as error:  # Code of the user may raise anything.
        raise InputError(f"{place} cannot be loaded: {type(error).__name__}: {error}.") from error
    found = getattr(module, class_name, None)
    kinds = {
        name: kind
        for name, kind in vars(module).items()
        if isinstance(kind, type) and issubclass(kind, PolicyBase) and kind.__module__ == module.__name__
    }
    if found is None:
        raise UnknownNameError(f"class of {file}", class_name, kinds)
    lacking = ", ".join(lacking_of(found))
    if class_name not in kinds or lacking:
        problem = f"it has no {lacking}" if class_name in kinds else "it is not a class that extends PolicyBase"
        raise InputError(f"{place} cannot be used: {problem}.")
    kind: type[AnyPolicy] = found
    if _REGISTRY.get(kind.name, kind) is not kind:
        raise InputError(f"{place} cannot be used: it calls itself {kind.name!r}, and another policy has that name.")
    return register(kind)


def lacking_of(kind: type[Any]) -> list[str]:
    """Return what a policy's class does not have yet."""
    lacking = [name for name in ("name", "summary", "Settings") if not hasattr(kind, name)]
    return [*lacking, *sorted(getattr(kind, "__abstractmethods__", ()))]


def make_policy(name: str, context: Context, settings: Mapping[str, object] | None = None) -> AnyPolicy:
    """Make a policy by name, with settings as plain values."""
    kind = policy_class(name)
    return kind(make_settings(kind.Settings, name, settings or {}), context)


def guards_for(policy: AnyPolicy, changes: Mapping[str, object] | None = None) -> GuardSettings:
    """Return the default guards of a policy with the user's ``changes``."""
    return make_settings(GuardSettings, "guards", policy.guards.model_dump() | dict(changes or {}))


class PolicyMaker(Protocol):
    """A configured policy that does not know its job yet."""

    def make(self, context: Context) -> AnyPolicy: ...


def policy_from(policy: str | PolicyMaker, context: Context, settings: Mapping[str, object] | None = None) -> AnyPolicy:
    """Make a policy by name with settings, or from one that is configured already."""
    if isinstance(policy, str):
        return make_policy(policy, context, settings)
    if settings:
        raise InputError(f"settings {', '.join(settings)} go with the name of a policy; this one is set up already.")
    return policy.make(context)
