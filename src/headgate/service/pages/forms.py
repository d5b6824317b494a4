"""The forms that change a job: each is read into a change as the service's API takes it.

A form is sent twice: once to preview the change, and again to make it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from headgate.core.errors import InputError, UnknownNameError
from headgate.core.units import format_duration
from headgate.rules.model import ALL_OPERATORS
from headgate.service.api.steering import (
    RULES,
    BoundsRequest,
    ModeRequest,
    ObjectiveRequest,
    PauseRequest,
    PeriodRequest,
    PolicyRequest,
    ResumeRequest,
    RevertRequest,
    RulesRequest,
    SettingsRequest,
    SizeRequest,
    requested_change,
)
from headgate.service.jobs import ServedJob
from headgate.service.operations import RequestedChange
from headgate.service.service import Service
from headgate.service.store.changes import ChangeKind

T = TypeVar("T", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class ProposedChange:
    """A change before it is made."""

    summary: str
    before: str
    after: str
    check: Callable[[], object]
    """Raises an ``InputError`` if the change is not possible; changes nothing."""
    carry_out: Callable[[str], object]
    """Makes the change on behalf of a user."""


def change_of(service: Service, job: ServedJob, form: str, fields: Mapping[str, str]) -> ProposedChange:
    """Return the change that a completed form describes."""
    if form not in FORMS:
        raise UnknownNameError("form", form, FORMS)
    return FORMS[form](service, job, fields)


def _parsed(model: type[T], **values: object) -> T:
    """Return the fields of a form as the API's model; empty fields count as missing."""
    try:
        return model(**{name: value for name, value in values.items() if value not in ("", None)})
    except ValidationError as error:
        first = error.errors()[0]
        where = str(first["loc"][0]) if first["loc"] else "the form"
        if first["type"] == "missing":
            raise InputError(f"{where}: nothing was filled in; it is needed.") from error
        raise InputError(f"{where} {first['input']!r} is not usable: {first['msg']}.") from error


def _put(service: Service, change: RequestedChange, summary: str, before: str, after: str) -> ProposedChange:
    operations, lasts_s = service.operations, change.lasts_s
    return ProposedChange(
        f"{summary}." if lasts_s is None else f"{summary}, for {format_duration(lasts_s)}.",
        before,
        after,
        lambda: operations.check(change),
        lambda who: operations.put(who, change),
    )


def _pause(service: Service, job: ServedJob, fields: Mapping[str, str]) -> ProposedChange:
    request = _parsed(PauseRequest, **_some(fields, "why", "direction", "operator", "lasts"))
    which = {"both": "any scaling", "in": "scaling in", "out": "scaling out"}[request.direction]
    summary = f"Pause {which} of {_named(job, request.operator)}"
    change = requested_change(job.name, ChangeKind.PAUSE, request.operator, request, "direction")
    return _put(service, change, summary, _pauses(job), f"{which} paused")


def _resume(service: Service, job: ServedJob, fields: Mapping[str, str]) -> ProposedChange:
    request = _parsed(ResumeRequest, **_some(fields, "why", "operator"))

    def check() -> None:
        if not any(change.kind is ChangeKind.PAUSE for change in job.changes):
            raise InputError(f"nothing of {job.name!r} is paused, so there is nothing to resume.")

    return ProposedChange(
        f"Resume scaling of {_named(job, request.operator)}.",
        _pauses(job),
        "scaled as decided",
        check,
        lambda who: service.operations.resume(who, job.name, request.operator, request.why),
    )


def _size(service: Service, job: ServedJob, fields: Mapping[str, str]) -> ProposedChange:
    request = _parsed(SizeRequest, **_some(fields, "why", "size", "lasts"))
    operator = fields.get("operator", "")
    instances = None if job.observation is None else job.observation.instances.get(operator)
    before = "unknown" if instances is None else f"{instances.planned} planned"
    change = requested_change(job.name, ChangeKind.SIZE, operator, request)
    return _put(service, change, f"Force {request.size} instances of {operator}", before, f"{request.size} planned")


def _mode(service: Service, job: ServedJob, fields: Mapping[str, str]) -> ProposedChange:
    request = _parsed(ModeRequest, **_some(fields, "why", "mode", "lasts"))
    words = {"act": "act on what is decided", "recommend": "only recommend, and change nothing"}
    change = requested_change(job.name, ChangeKind.MODE, "", request)
    return _put(service, change, f"Let {job.spec.policy} {words[request.mode]}", str(job.spec.mode), request.mode)


def _period(service: Service, job: ServedJob, fields: Mapping[str, str]) -> ProposedChange:
    name = fields.get("name", "").strip()
    if not name:
        raise InputError("name: nothing was filled in; a period needs one, such as office-hours.")
    during = [line.strip() for line in fields.get("during", "").splitlines() if line.strip()]
    request = _parsed(
        PeriodRequest,
        during=during,
        **_some(fields, "why", "operator", "forbid", "at_least", "at_most", "time_zone"),
    )
    parts = [
        f"no {request.forbid.removeprefix('any ')}" if request.forbid else "",
        f"at least {request.at_least}" if request.at_least else "",
        f"at most {request.at_most}" if request.at_most else "",
    ]
    limits = ", ".join(part for part in parts if part) or "nothing"
    when = " or ".join(during) or "always"
    before = next(
        (str(change.body) for change in job.changes if change.kind is ChangeKind.PERIOD and change.name == name), "none"
    )
    change = requested_change(job.name, ChangeKind.PERIOD, name, request)
    return _put(
        service,
        change,
        f"Apply {limits} to {_named(job, request.operator)} during {when} ({request.time_zone}), as {name}",
        before,
        f"{limits} during {when}",
    )


def _policy(service: Service, job: ServedJob, fields: Mapping[str, str]) -> ProposedChange:
    request = _parsed(
        PolicyRequest,
        why=fields.get("why"),
        policy=fields.get("policy"),
        settings=_lines(fields, "settings"),
        guards=_lines(fields, "guards"),
    )
    change = requested_change(job.name, ChangeKind.POLICY, "", request)
    return _put(
        service,
        change,
        f"Let {request.policy} decide",
        _policy_text(job.spec.policy, job.spec.settings),
        _policy_text(request.policy, request.settings),
    )


def _settings(service: Service, job: ServedJob, fields: Mapping[str, str]) -> ProposedChange:
    request = _parsed(
        SettingsRequest,
        why=fields.get("why"),
        settings=_lines(fields, "settings"),
        guards=_lines(fields, "guards"),
    )
    if not request.settings and not request.guards:
        raise InputError("settings: nothing was filled in; write for example scale_in_window_s = 2m.")
    spec = job.spec
    change = service.operations.of_settings(job.name, request.settings, request.guards, request.why)
    named = ", ".join(f"{name} to {value}" for name, value in {**request.settings, **request.guards}.items())
    before = _policy_text(spec.policy, {**spec.settings, **spec.guards})
    after = _policy_text(spec.policy, {**change.body["settings"], **change.body["guards"]})
    return _put(service, change, f"Set {named}", before, after)


def _bounds(service: Service, job: ServedJob, fields: Mapping[str, str]) -> ProposedChange:
    both = [fields.get("fewest", ""), fields.get("most", "")]
    request = _parsed(BoundsRequest, why=fields.get("why"), instances=both if all(both) else None)
    operator = fields.get("operator", "")
    job.require_operator(operator)
    now, (fewest, most) = job.spec.operator(operator), request.instances
    change = requested_change(job.name, ChangeKind.BOUNDS, operator, request)
    return _put(
        service,
        change,
        f"Keep {operator} between {fewest} and {most} instances",
        f"{now.min_instances} to {now.max_instances}",
        f"{fewest} to {most}",
    )


def _objective(service: Service, job: ServedJob, fields: Mapping[str, str]) -> ProposedChange:
    request = _parsed(ObjectiveRequest, **_some(fields, "why", "objective"))
    change = requested_change(job.name, ChangeKind.OBJECTIVE, "", request)
    return _put(service, change, f"Ask for {request.objective}", str(job.spec.end_to_end), request.objective)


def _rules(service: Service, job: ServedJob, fields: Mapping[str, str]) -> ProposedChange:
    request = _parsed(RulesRequest, **_some(fields, "why", "rules"))
    before = str(job.spec.settings.get(RULES, "")) if job.spec.policy == RULES else f"{job.spec.policy} decides"
    change = requested_change(job.name, ChangeKind.POLICY, "", request.as_policy)
    return _put(service, change, "Decide by these rules", before, request.rules)


def _revert(service: Service, job: ServedJob, fields: Mapping[str, str]) -> ProposedChange:
    request = _parsed(RevertRequest, **_some(fields, "why", "kind", "name"))
    kind = ChangeKind(request.kind)
    found = next((change for change in job.changes if (change.kind, change.name) == (kind, request.name)), None)

    def check() -> None:
        if found is None:
            raise InputError(f"there is no change of {kind} {request.name} in force, so none can be taken back.")

    return ProposedChange(
        f"Take back the change of {kind}{f' of {request.name}' if request.name not in ('', ALL_OPERATORS) else ''}.",
        "nothing" if found is None else str(found.body),
        "as the file says",
        check,
        lambda who: service.operations.revert(who, job.name, kind, request.name, request.why),
    )


Read = Callable[[Service, ServedJob, Mapping[str, str]], ProposedChange]
FORMS: Mapping[str, Read] = {
    "pause": _pause,
    "resume": _resume,
    "size": _size,
    "mode": _mode,
    "period": _period,
    "policy": _policy,
    "settings": _settings,
    "bounds": _bounds,
    "objective": _objective,
    "rules": _rules,
    "revert": _revert,
}
"""By the name of the form."""


def _some(fields: Mapping[str, str], *names: str) -> dict[str, object]:
    return {name: fields.get(name, "").strip() for name in names}


def _lines(fields: Mapping[str, str], name: str) -> dict[str, str]:
    """Return settings that were written one per line, such as ``scale_in_window_s = 2m``."""
    found = {}
    for line in fields.get(name, "").splitlines():
        key, separator, value = line.partition("=")
        if not line.strip():
            continue
        if not separator or not key.strip() or not value.strip():
            raise InputError(f"{name}: {line.strip()!r} is not usable; write one setting in a line, as key = value.")
        found[key.strip()] = value.strip()
    return found


def _named(job: ServedJob, operator: str) -> str:
    return f"all of {job.name}" if operator == ALL_OPERATORS else operator


def _pauses(job: ServedJob) -> str:
    paused = [change for change in job.changes if change.kind is ChangeKind.PAUSE]
    return "; ".join(f"{change.body['direction']} of {change.name} paused" for change in paused) or "scaled as decided"


def _policy_text(policy: str, settings: Mapping[str, object]) -> str:
    shown = "\n".join(f"{name} = {value}" for name, value in settings.items())
    return f"{policy}\n{shown}" if shown else policy
