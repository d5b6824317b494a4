"""A job as its file says, with what was asked for since in its place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from headgate.core.errors import InputError, UnknownNameError
from headgate.core.objective import divided, parse_objective
from headgate.core.types import JSON
from headgate.policies.frame.base import policy_class
from headgate.rules.model import ALL_OPERATORS, Constraint, Forbidden
from headgate.rules.schedule import Schedule
from headgate.runtime.assembly import LoopSpec, guards_around
from headgate.runtime.mode import mode_named
from headgate.service.config.model import JobSpec
from headgate.service.steering import DIRECTIONS
from headgate.service.store.changes import Change, ChangeKind


def changed(spec: JobSpec, changes: Iterable[Change]) -> JobSpec:
    """The job with changes in force; one that cannot be used is an ``InputError``."""
    for change in changes:
        spec = _CHANGED[change.kind](spec, change.name, change.body)
    return spec


def loop_spec(spec: JobSpec) -> LoopSpec:
    """The loop of a job, apart from its journal."""
    own = {operator.name: operator.slo for operator in spec.operators if operator.slo is not None}
    return LoopSpec(
        objective=divided(spec.asked, spec.topology, own, sees_graph=True),
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
    """Refuse a job that could not be run: everything is made once, to see that it can be."""
    spec.objective.prices(spec.topology)
    parts = loop_spec(spec).parts(spec.topology)
    for policy in (parts.policy, *parts.shadows):
        guards_around(policy, spec.guards, spec.constraints)


def _policy(spec: JobSpec, name: str, body: Mapping[str, JSON]) -> JobSpec:
    policy = policy_class(body["policy"]).name
    return replace(spec, policy=policy, settings=body["settings"], guards=body["guards"])


def _bounds(spec: JobSpec, name: str, body: Mapping[str, JSON]) -> JobSpec:
    fewest, most = body["instances"]
    _require_operator(spec, name)
    operators = tuple(
        replace(one, min_instances=fewest, max_instances=most) if one.name == name else one for one in spec.operators
    )
    return replace(spec, operators=operators)


def _objective(spec: JobSpec, name: str, body: Mapping[str, JSON]) -> JobSpec:
    return replace(spec, asked=parse_objective(body["objective"]))


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
        tuple(Schedule(one) for one in body["during"]),
        body["time_zone"],
    )
    others = tuple(one for one in spec.constraints if one.name != name)
    return replace(spec, constraints=(*others, constraint))


def _forbidden(text: str) -> Forbidden:
    try:
        return Forbidden(text)
    except ValueError:
        raise UnknownNameError("thing to forbid", text, map(str, Forbidden)) from None


def _size(spec: JobSpec, name: str, body: Mapping[str, JSON]) -> JobSpec:
    """A forced size leaves the job as it is; it must be possible."""
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


_CHANGED: dict[ChangeKind, Callable[[JobSpec, str, Mapping[str, JSON]], JobSpec]] = {
    ChangeKind.POLICY: _policy,
    ChangeKind.BOUNDS: _bounds,
    ChangeKind.OBJECTIVE: _objective,
    ChangeKind.MODE: _mode,
    ChangeKind.PERIOD: _period,
    ChangeKind.SIZE: _size,
    ChangeKind.PAUSE: _pause,
}
