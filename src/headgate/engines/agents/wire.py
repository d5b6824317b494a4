"""What an agent and its controller say to each other, as JSON. Version 1.

An agent reports: its sizes, its newest reading, the batches, start-ups and events of which it does not know yet that
they have arrived, and what became of the size it was told last. The answer is what is wanted of it from now on: desired
state, no command, so that a message that is lost costs nothing.

Nobody's clock is believed: moments travel as ages at the time of sending (``at_age_s`` for ``at_s``), and become times
on the receiver's clock. What a reader does not know it does not look at; what it needs must be there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from headgate.core.errors import InputError, JournalError
from headgate.core.types import JSON, Answer, Event, Instances, Instant, Sample, Startup
from headgate.journal.codec import event_to_dict, from_json, sample_to_dict, to_json

VERSION = 1
NOT_LEADING = 421
"""The status with which a service answers that shares its jobs with another one, which leads."""
LEADER_HEADER = "Headgate-Leader"
"""The header in which it says where that one is, if it knows."""
LONGEST_TEXT = 1_000_000
"""Characters of a message; a report has some hundred."""
_MOMENTS = ("at_s", "batch_ended_s", "started_s", "ended_s", "oldest_s", "requested_s")
_AGES = {name: name.removesuffix("_s") + "_age_s" for name in _MOMENTS}
_BACK = {age: name for name, age in _AGES.items()}
_NAMED_BY_USERS = ("metrics", "numbers")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Report:
    """What one agent says; times are on the clock of whoever holds it."""

    agent: str
    """One life of an agent; a driver that was started again has another."""
    instances: Instances
    sample: Sample | None = None
    """With the batches that ended since the last report that has surely arrived."""
    first_batch: int = 0
    """How many batches this agent has told of before the first of these."""
    startups: tuple[Startup, ...] = ()
    first_startup: int = 0
    events: tuple[Event, ...] = ()
    """What happened to the job: that its query was started again, or its plan changed."""
    first_event: int = 0
    further_metrics: tuple[str, ...] = ()
    """What could be subscribed to."""
    told: int | None = None
    """The size that it was told last."""
    answer: Answer | None = None
    """What became of that."""
    own: int | None = None
    """The size that it chose itself since nobody answered; ``None`` where it did not."""
    leaving: bool = False
    """It is the last report of this agent, which was told to stop."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What is wanted of an agent."""

    size: int | None = None
    """Instances; ``None`` while nobody has decided: it keeps what it has."""
    subscriptions: tuple[str, ...] = ()
    """The metrics to report beyond the basic ones, and no others."""
    report_every_s: float = 1.0
    term: int = 0
    """Rises with every change of who leads; what comes from an earlier term is to be ignored."""


def report_to_text(report: Report, now: Instant) -> str:
    """A report as it is sent at a time on the sender's clock."""
    body: dict[str, JSON] = {
        "version": VERSION,
        "agent": report.agent,
        "instances": asdict(report.instances),
        "first_batch": report.first_batch,
        "first_startup": report.first_startup,
        "startups": [_aged(asdict(one), now) for one in report.startups],
        "first_event": report.first_event,
        "events": [_aged(event_to_dict(one), now) for one in report.events],
        "further_metrics": list(report.further_metrics),
        "told": report.told,
    }
    if report.sample is not None:
        body["sample"] = _aged(sample_to_dict(report.sample), now)
    if report.answer is not None:
        body["answer"] = {**asdict(report.answer), "outcome": str(report.answer.outcome)}
    if report.own is not None:
        body["own"] = report.own
    if report.leaving:
        body["leaving"] = True
    return to_json(body)


def report_from_text(text: str, now: Instant) -> Report:
    """A report that came at a time on the receiver's clock; ``InputError`` where it is not one."""
    body = message_body(text, "a report")
    if isinstance(body.get("sample"), Mapping):
        body["sample"] = timed(body["sample"], now)
    for told in ("startups", "events"):
        if isinstance(body.get(told), list):
            body[told] = [timed(one, now) for one in body[told]]
    return checked(_REPORT, body, "a report")


def reply_to_text(reply: Reply) -> str:
    return to_json({"version": VERSION, **asdict(reply)})


def reply_from_text(text: str) -> Reply:
    """A reply; ``InputError`` where it is not one."""
    return checked(_REPLY, message_body(text, "a reply"), "a reply")


_REPORT = TypeAdapter(Report)
_REPLY = TypeAdapter(Reply)


def message_body(text: str, what: str) -> dict[str, Any]:
    """What a message holds, whose version is seen to."""
    if len(text) > LONGEST_TEXT:
        raise InputError(f"{what} has {len(text)} characters; at most {LONGEST_TEXT} are read.")
    try:
        body = from_json(text)
    except JournalError as error:
        raise InputError(f"{what} is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise InputError(f"{what} is {type(body).__name__}; an object is needed.")
    version = body.pop("version", None)
    if version != VERSION:
        raise InputError(f"{what} is of version {version!r}; version {VERSION} is spoken here.")
    return body


def checked(adapter: TypeAdapter[T], body: dict[str, Any], what: str) -> T:
    """What it says, if it does."""
    try:
        return adapter.validate_python(body)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{what} is not usable: {where}: {first['msg'].lower()}, found {first['input']!r}.") from error


def _aged(value: JSON, now: Instant) -> JSON:
    """The same with ages in place of moments."""
    if isinstance(value, Mapping):
        return {
            _AGES.get(key, key): (
                one if key in _NAMED_BY_USERS or one is None else now - one if key in _AGES else _aged(one, now)
            )
            for key, one in value.items()
        }
    if isinstance(value, list | tuple):
        return [_aged(one, now) for one in value]
    return value


def timed(value: JSON, now: Instant) -> JSON:
    """The same with moments in place of ages."""
    if isinstance(value, Mapping):
        return {
            _BACK.get(key, key): (
                one
                if key in _NAMED_BY_USERS
                else now - one
                if key in _BACK and isinstance(one, int | float)
                else timed(one, now)
            )
            for key, one in value.items()
        }
    if isinstance(value, list | tuple):
        return [timed(one, now) for one in value]
    return value
