"""Apply the changes in force to the specification of a job, and to its decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import ClassVar

from headgate.core.errors import InputError, UnknownNameError
from headgate.core.objective import divided, parse_objective
from headgate.core.step import EachOperator
from headgate.core.types import JSON, Instant, Verdict
from headgate.core.units import format_duration
from headgate.core.window import Window
from headgate.policies.frame.base import policy_class, policy_names
from headgate.rules.model import ALL_OPERATORS, Constraint, Forbidden
from headgate.rules.schedule import Schedule
from headgate.runtime.assembly import LoopSpec, guards_around
from headgate.runtime.loop import mode_named
from headgate.service.config.model import JobSpec
from headgate.service.store.changes import ChangeKind, JobChange

BOTH, IN, OUT = "both", "in", "out"
DIRECTIONS = (BOTH, IN, OUT)


class Steering(EachOperator):
    """The pauses and forced sizes of a job, as a guard; ``take`` replaces all of them."""

    name: ClassVar[str] = "steered"

    def __init__(self) -> None:
        self._sizes: dict[str, JobChange] = {}
        self._pauses: dict[str, JobChange] = {}

    def take(self, changes: Iterable[JobChange]) -> None:
        in_force = tuple(changes)
        self._sizes = {change.name: change for change in in_force if change.kind is ChangeKind.SIZE}
        self._pauses = {change.name: change for change in in_force if change.kind is ChangeKind.PAUSE}

    def paused(self, operator: str, now: Instant) -> JobChange | None:
        """Return the pause in force for an operator; its own takes precedence over that of all operators."""
        for name in (operator, ALL_OPERATORS):
            found = self._pauses.get(name)
            if found is not None and found.holds_at(now):
                return found
        return None

    def forced(self, operator: str, now: Instant) -> JobChange | None:
        found = self._sizes.get(operator)
        return found if found is not None and found.holds_at(now) else None

    def limit(self, window: Window, now: Instant, verdict: Verdict) -> tuple[int, str]:
        forced = self.forced(verdict.operator, now)
        if forced is not None:
            size = int(forced.body["size"])
            return size, f"{forced.who} forces {size} instances{_remaining(forced, now)}: {forced.why}"
        paused = self.paused(verdict.operator, now)
        if paused is None or verdict.change == 0:
            return verdict.target, ""
        direction = paused.body["direction"]
        if direction == BOTH or (direction == IN) == (verdict.change < 0):
            which = "scaling" if direction == BOTH else f"scaling {direction}"
            return verdict.current, f"{paused.who} has paused {which}{_remaining(paused, now)}: {paused.why}"
        return verdict.target, ""


def _remaining(change: JobChange, now: Instant) -> str:
    return "" if change.until_s is None else f" for another {format_duration(round(change.until_s - now))}"


def changed(spec: JobSpec, changes: Iterable[JobChange]) -> JobSpec:
    """Return the specification with changes applied; a change that cannot be used is an ``InputError``."""
    for change in changes:
        spec = _APPLY[change.kind](spec, change.name, change.body)
    return spec


def loop_spec(spec: JobSpec) -> LoopSpec:
    """Return the description of a job's loop, without its journal."""
    own = {operator.name: operator.slo for operator in spec.operators if operator.slo is not None}
    return LoopSpec(
        objective=divided(spec.end_to_end, spec.topology, own, sees_graph=True),
        policy=spec.policy,
        settings=spec.settings,
        guards=spec.guards,
        constraints=spec.constraints,
        metrics=spec.metrics,
        shadows=spec.shadows,
        mode=spec.mode,
        job=spec.name,
        seed=spec.seed,
    )


def require_usable(spec: JobSpec) -> None:
    """Refuse a job that cannot run, by making all of its parts once."""
    spec.objective.prices(spec.topology)
    parts = loop_spec(spec).parts(spec.topology)
    for policy in (parts.policy, *parts.shadows):
        guards_around(policy, spec.guards, spec.constraints)


def _policy(spec: JobSpec, name: str, body: Mapping[str, JSON]) -> JobSpec:
    named = body["policy"]
    if ":" in named:  # A change comes over the network and must not run a file of this machine.
        raise UnknownNameError("policy", named, policy_names())
    policy = policy_class(named).name
    return replace(spec, policy=policy, settings=body["settings"], guards=body["guards"])


def _bounds(spec: JobSpec, name: str, body: Mapping[str, JSON]) -> JobSpec:
    fewest, most = body["instances"]
    _require_operator(spec, name)
    operators = tuple(
        replace(operator, min_instances=fewest, max_instances=most) if operator.name == name else operator
        for operator in spec.operators
    )
    return replace(spec, operators=operators)


def _objective(spec: JobSpec, name: str, body: Mapping[str, JSON]) -> JobSpec:
    return replace(spec, end_to_end=parse_objective(body["objective"]))


def _mode(spec: JobSpec, name: str, body: Mapping[str, JSON]) -> JobSpec:
    return replace(spec, mode=mode_named(body["mode"]))


def _period(spec: JobSpec, name: str, body: Mapping[str, JSON]) -> JobSpec:
    if body["operator"] != ALL_OPERATORS:
        _require_operator(spec, body["operator"])
    constraint = Constraint(
        name,
        body["operator"],
        body["at_least"],
        body["at_most"],
        None if body["forbid"] is None else _forbidden(body["forbid"]),
        tuple(Schedule(period) for period in body["during"]),
        body["time_zone"],
    )
    others = tuple(other for other in spec.constraints if other.name != name)
    return replace(spec, constraints=(*others, constraint))


def _forbidden(text: str) -> Forbidden:
    try:
        return Forbidden(text)
    except ValueError:
        raise UnknownNameError("thing to forbid", text, map(str, Forbidden)) from None


def _size(spec: JobSpec, name: str, body: Mapping[str, JSON]) -> JobSpec:
    """Check a forced size, which leaves the specification unchanged."""
    _require_operator(spec, name)
    found, size = spec.operator(name), body["size"]
    if not found.min_instances <= size <= found.max_instances:
        raise InputError(
            f"size {size} of {name!r} is not allowed; its bounds are {found.min_instances} to {found.max_instances}."
        )
    return spec


def _pause(spec: JobSpec, name: str, body: Mapping[str, JSON]) -> JobSpec:
    if name != ALL_OPERATORS:
        _require_operator(spec, name)
    if body["direction"] not in DIRECTIONS:
        raise UnknownNameError("direction", body["direction"], DIRECTIONS)
    return spec


def _require_operator(spec: JobSpec, name: str) -> None:
    if name not in spec.topology.operators:
        raise UnknownNameError("operator", name, spec.topology.operators)


_APPLY: dict[ChangeKind, Callable[[JobSpec, str, Mapping[str, JSON]], JobSpec]] = {
    ChangeKind.POLICY: _policy,
    ChangeKind.BOUNDS: _bounds,
    ChangeKind.OBJECTIVE: _objective,
    ChangeKind.MODE: _mode,
    ChangeKind.PERIOD: _period,
    ChangeKind.SIZE: _size,
    ChangeKind.PAUSE: _pause,
}
