"""The forms by which a job is changed: what each asks for, as the interface of the service takes it.

A form is sent twice: once to see what would become of it, and again to have it done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from headgate.core.errors import InputError, UnknownNameError
from headgate.core.types import JSON
from headgate.core.units import format_duration
from headgate.rules.model import ALL_OPERATORS
from headgate.service.api.steering import (
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
)
from headgate.service.jobs import ServedJob
from headgate.service.service import Service
from headgate.service.store.changes import ChangeKind

T = TypeVar("T", bound=BaseModel)
RULES = "rules"


@dataclass(frozen=True, slots=True)
class Wish:
    """A change that somebody asks for."""

    told: str
    """In a sentence."""
    before: str
    after: str
    check: Callable[[], object]
    """Raises an ``InputError`` where it cannot be done; changes nothing."""
    carry_out: Callable[[str], object]
    """Does it, in the name of somebody."""


def wish_of(service: Service, job: ServedJob, form: str, fields: Mapping[str, str]) -> Wish:
    """What a form that was filled in asks for."""
    if form not in FORMS:
        raise UnknownNameError("form", form, FORMS)
    return FORMS[form](service, job, fields)


def _asked(model: type[T], **values: object) -> T:
    """What was asked for; fields that were left empty are as if they were not there."""
    try:
        return model(**{name: value for name, value in values.items() if value not in ("", None)})
    except ValidationError as error:
        first = error.errors()[0]
        where = str(first["loc"][0]) if first["loc"] else "the form"
        if first["type"] == "missing":
            raise InputError(f"{where}: nothing was filled in; it is needed.") from error
        raise InputError(f"{where} {first['input']!r} is not usable: {first['msg']}.") from error


def _put(  # noqa: PLR0913 - the parts of a change, and how it is told
    service: Service,
    job: ServedJob,
    kind: ChangeKind,
    name: str,
    body: Mapping[str, JSON],
    why: str,
    *,
    told: str,
    before: str,
    after: str,
    lasts: str | float | None = None,
) -> Wish:
    operations, lasts_s = service.operations, None if lasts is None else float(lasts)
    if lasts_s is not None:
        told = f"{told}, for {format_duration(lasts_s)}"
    return Wish(
        f"{told}.",
        before,
        after,
        lambda: operations.check("", job.name, kind, name, body, why, lasts_s),
        lambda who: operations.put(who, job.name, kind, name, body, why, lasts_s),
    )


def _pause(service: Service, job: ServedJob, fields: Mapping[str, str]) -> Wish:
    asked = _asked(PauseRequest, **_some(fields, "why", "direction", "operator", "lasts"))
    which = {"both": "any scaling", "in": "scaling in", "out": "scaling out"}[asked.direction]
    told = f"Pause {which} of {_named(job, asked.operator)}"
    before = _pauses(job)
    return _put(
        service, job, ChangeKind.PAUSE, asked.operator, {"direction": asked.direction}, asked.why,
        told=told, before=before, after=f"{which} paused", lasts=asked.lasts,
    )  # fmt: skip


def _resume(service: Service, job: ServedJob, fields: Mapping[str, str]) -> Wish:
    asked = _asked(ResumeRequest, **_some(fields, "why", "operator"))

    def check() -> None:
        if not any(one.kind is ChangeKind.PAUSE for one in job.changes):
            raise InputError(f"nothing of {job.name!r} is paused, so there is nothing to resume.")

    return Wish(
        f"Resume scaling of {_named(job, asked.operator)}.",
        _pauses(job),
        "scaled as decided",
        check,
        lambda who: service.operations.resume(who, job.name, asked.operator, asked.why),
    )


def _size(service: Service, job: ServedJob, fields: Mapping[str, str]) -> Wish:
    asked = _asked(SizeRequest, **_some(fields, "why", "size", "lasts"))
    operator = fields.get("operator", "")
    instances = None if job.observation is None else job.observation.instances.get(operator)
    before = "unknown" if instances is None else f"{instances.planned} planned"
    return _put(
        service, job, ChangeKind.SIZE, operator, {"size": asked.size}, asked.why,
        told=f"Force {asked.size} instances of {operator}", before=before, after=f"{asked.size} planned",
        lasts=asked.lasts,
    )  # fmt: skip


def _mode(service: Service, job: ServedJob, fields: Mapping[str, str]) -> Wish:
    asked = _asked(ModeRequest, **_some(fields, "why", "mode", "lasts"))
    words = {"act": "act on what is decided", "recommend": "only recommend, and change nothing"}
    return _put(
        service, job, ChangeKind.MODE, "", {"mode": asked.mode}, asked.why,
        told=f"Let {job.spec.policy} {words[asked.mode]}", before=str(job.spec.mode), after=asked.mode,
        lasts=asked.lasts,
    )  # fmt: skip


def _period(service: Service, job: ServedJob, fields: Mapping[str, str]) -> Wish:
    name = fields.get("name", "").strip()
    if not name:
        raise InputError("name: nothing was filled in; a period needs one, such as office-hours.")
    during = [line.strip() for line in fields.get("during", "").splitlines() if line.strip()]
    asked = _asked(
        PeriodRequest,
        during=during,
        **_some(fields, "why", "operator", "forbid", "at_least", "at_most", "time_zone"),
    )
    body = asked.model_dump(exclude={"why"})
    parts = [
        f"no {asked.forbid.removeprefix('any ')}" if asked.forbid else "",
        f"at least {asked.at_least}" if asked.at_least else "",
        f"at most {asked.at_most}" if asked.at_most else "",
    ]
    said = ", ".join(part for part in parts if part) or "nothing"
    when = " or ".join(during) or "always"
    before = next((str(one.body) for one in job.changes if one.kind is ChangeKind.PERIOD and one.name == name), "none")
    return _put(
        service, job, ChangeKind.PERIOD, name, body, asked.why,
        told=f"Have {said} hold for {_named(job, asked.operator)} during {when} ({asked.time_zone}), as {name}",
        before=before, after=f"{said} during {when}",
    )  # fmt: skip


def _policy(service: Service, job: ServedJob, fields: Mapping[str, str]) -> Wish:
    asked = _asked(
        PolicyRequest,
        why=fields.get("why"),
        policy=fields.get("policy"),
        settings=_lines(fields, "settings"),
        guards=_lines(fields, "guards"),
    )
    body = {"policy": asked.policy, "settings": asked.settings, "guards": asked.guards}
    return _put(
        service, job, ChangeKind.POLICY, "", body, asked.why,
        told=f"Let {asked.policy} decide", before=_policy_text(job.spec.policy, job.spec.settings),
        after=_policy_text(asked.policy, asked.settings),
    )  # fmt: skip


def _settings(service: Service, job: ServedJob, fields: Mapping[str, str]) -> Wish:
    asked = _asked(
        SettingsRequest,
        why=fields.get("why"),
        settings=_lines(fields, "settings"),
        guards=_lines(fields, "guards"),
    )
    if not asked.settings and not asked.guards:
        raise InputError("settings: nothing was filled in; write for example scale_in_window_s = 2m.")
    spec, operations = job.spec, service.operations
    settings, guards = {**spec.settings, **asked.settings}, {**spec.guards, **asked.guards}
    body = {"policy": spec.policy, "settings": settings, "guards": guards}
    return Wish(
        f"Set {', '.join(f'{name} to {value}' for name, value in {**asked.settings, **asked.guards}.items())}.",
        _policy_text(spec.policy, {**spec.settings, **spec.guards}),
        _policy_text(spec.policy, {**settings, **guards}),
        lambda: operations.check("", job.name, ChangeKind.POLICY, "", body, asked.why),
        lambda who: operations.settings(who, job.name, asked.settings, asked.guards, asked.why),
    )


def _bounds(service: Service, job: ServedJob, fields: Mapping[str, str]) -> Wish:
    both = [fields.get("fewest", ""), fields.get("most", "")]
    asked = _asked(BoundsRequest, why=fields.get("why"), instances=both if all(both) else None)
    operator = fields.get("operator", "")
    job.require_operator(operator)
    now, (fewest, most) = job.spec.operator(operator), asked.instances
    return _put(
        service, job, ChangeKind.BOUNDS, operator, {"instances": asked.instances}, asked.why,
        told=f"Keep {operator} between {fewest} and {most} instances",
        before=f"{now.min_instances} to {now.max_instances}", after=f"{fewest} to {most}",
    )  # fmt: skip


def _objective(service: Service, job: ServedJob, fields: Mapping[str, str]) -> Wish:
    asked = _asked(ObjectiveRequest, **_some(fields, "why", "objective"))
    return _put(
        service, job, ChangeKind.OBJECTIVE, "", {"objective": asked.objective}, asked.why,
        told=f"Ask for {asked.objective}", before=str(job.spec.end_to_end), after=asked.objective,
    )  # fmt: skip


def _rules(service: Service, job: ServedJob, fields: Mapping[str, str]) -> Wish:
    asked = _asked(RulesRequest, **_some(fields, "why", "rules"))
    body = {"policy": RULES, "settings": {RULES: asked.rules}, "guards": {}}
    before = str(job.spec.settings.get(RULES, "")) if job.spec.policy == RULES else f"{job.spec.policy} decides"
    return _put(
        service, job, ChangeKind.POLICY, "", body, asked.why,
        told="Decide by these rules", before=before, after=asked.rules,
    )  # fmt: skip


def _revert(service: Service, job: ServedJob, fields: Mapping[str, str]) -> Wish:
    asked = _asked(RevertRequest, **_some(fields, "why", "kind", "name"))
    kind = ChangeKind(asked.kind)
    found = next((one for one in job.changes if (one.kind, one.name) == (kind, asked.name)), None)

    def check() -> None:
        if found is None:
            raise InputError(f"there is no change of {kind} {asked.name} in force, so none can be taken back.")

    return Wish(
        f"Take back the change of {kind}{f' of {asked.name}' if asked.name not in ('', ALL_OPERATORS) else ''}.",
        "nothing" if found is None else str(found.body),
        "as the file says",
        check,
        lambda who: service.operations.revert(who, job.name, kind, asked.name, asked.why),
    )


Read = Callable[[Service, ServedJob, Mapping[str, str]], Wish]
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
"""What can be asked for, by the name of the form."""


def _some(fields: Mapping[str, str], *names: str) -> dict[str, object]:
    return {name: fields.get(name, "").strip() for name in names}


def _lines(fields: Mapping[str, str], name: str) -> dict[str, str]:
    """Settings as they are written, one in a line: ``scale_in_window_s = 2m``."""
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
    paused = [one for one in job.changes if one.kind is ChangeKind.PAUSE]
    return "; ".join(f"{one.body['direction']} of {one.name} paused" for one in paused) or "scaled as decided"


def _policy_text(policy: str, settings: Mapping[str, object]) -> str:
    shown = "\n".join(f"{name} = {value}" for name, value in settings.items())
    return f"{policy}\n{shown}" if shown else policy
