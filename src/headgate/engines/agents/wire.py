"""The messages between an agent and its controller, as JSON. Version 1.

An agent reports: its sizes, its newest reading, the batches, start-ups and events of which it does not know yet that
they have arrived, and the result of the last size it received. The reply is the size wanted from now on: desired
state, no command, so that a message that is lost costs nothing.

Clocks may differ: times travel as ages at the time of sending (``at_age_s`` for ``at_s``), and become times on the
receiver's clock. Unknown fields are ignored; required ones must be there. Numbers are finite: a sender leaves out what
it does not know, and a message with any other number is refused.

Of several services one leads; an agent or a client asks each in turn until it has found that one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from headgate.core.errors import InputError, JournalError
from headgate.core.reading_gate import MOST_INSTANCES
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
_AGE_OF = {name: name.removesuffix("_s") + "_age_s" for name in _MOMENTS}
_BACK = {age: name for name, age in _AGE_OF.items()}
_NAMED_BY_USERS = ("metrics", "numbers")
_HIGHEST = 1e300
"""Larger numbers overflow in sums and differences."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Report:
    """What one agent reports; times are on the clock of the process that holds it."""

    agent: str
    """One life of an agent; a driver that was started again has another."""
    instances: Instances
    sample: Sample | None = None
    """With the batches that ended since the last report that has surely arrived."""
    first_batch: int = 0
    """How many batches this agent has reported before the first of these."""
    startups: tuple[Startup, ...] = ()
    first_startup: int = 0
    events: tuple[Event, ...] = ()
    """What happened to the job: that its query was started again, or its plan changed."""
    first_event: int = 0
    extra_metrics: Annotated[tuple[str, ...], Field(validation_alias="further_metrics")] = ()
    """Metrics that can be subscribed to."""
    last_size: Annotated[int | None, Field(validation_alias="told")] = None
    """The size that the agent received last."""
    answer: Answer | None = None
    """The result of that size."""
    own: int | None = None
    """The size that the agent chose itself while the controller did not answer; ``None`` where it did not."""
    leaving: bool = False
    """Whether this is the agent's last report, because it stops."""
    replaces: str | None = None
    """The former agent, whose process this one knows to be gone; only who knows its name takes its place at once."""


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
    """Encode a report that is sent at ``now`` on the sender's clock."""
    body: dict[str, JSON] = {
        "version": VERSION,
        "agent": report.agent,
        "instances": asdict(report.instances),
        "first_batch": report.first_batch,
        "first_startup": report.first_startup,
        "startups": [_aged(asdict(item), now) for item in report.startups],
        "first_event": report.first_event,
        "events": [_aged(event_to_dict(item), now) for item in report.events],
        "further_metrics": list(report.extra_metrics),
        "told": report.last_size,
    }
    if report.sample is not None:
        body["sample"] = _aged(sample_to_dict(report.sample), now)
    if report.answer is not None:
        body["answer"] = {**asdict(report.answer), "outcome": str(report.answer.outcome)}
    if report.own is not None:
        body["own"] = report.own
    if report.leaving:
        body["leaving"] = True
    if report.replaces is not None:
        body["replaces"] = report.replaces
    return to_json(_finite(body))


def report_from_text(text: str, now: Instant) -> Report:
    """Decode a report that arrives at ``now`` on the receiver's clock; ``InputError`` where it is malformed."""
    body = message_body(text, "a report")
    if isinstance(body.get("sample"), Mapping):
        body["sample"] = timed(body["sample"], now)
    for key in ("startups", "events"):
        if isinstance(body.get(key), list):
            body[key] = [timed(item, now) for item in body[key]]
    report = checked(_REPORT, body, "a report")
    check_sizes(report.instances)
    return report


def reply_to_text(reply: Reply) -> str:
    return to_json({"version": VERSION, **asdict(reply)})


def reply_from_text(text: str) -> Reply:
    """Decode a reply; ``InputError`` where it is malformed."""
    return checked(_REPLY, message_body(text, "a reply"), "a reply")


_REPORT = TypeAdapter(Report)
_REPLY = TypeAdapter(Reply)


def message_body(text: str, what: str) -> dict[str, Any]:
    """Return the content of a message after checking its version."""
    if len(text) > LONGEST_TEXT:
        raise InputError(f"{what} has {len(text)} characters; at most {LONGEST_TEXT} are read.")
    try:
        body = from_json(text)
        problem = _unusable_number(body)
    except JournalError as error:
        raise InputError(f"{what} is not JSON: {error}") from error
    except RecursionError:
        raise InputError(f"{what} is nested too deeply.") from None
    if problem:
        raise InputError(f"{what} is not usable: {problem}; a finite number is needed.")
    if not isinstance(body, dict):
        raise InputError(f"{what} is {type(body).__name__}; an object is needed.")
    version = body.pop("version", None)
    if version != VERSION:
        raise InputError(f"{what} is of version {version!r}; version {VERSION} is spoken here.")
    return body


def checked(adapter: TypeAdapter[T], body: dict[str, Any], what: str) -> T:
    """Validate a message; ``InputError`` names the first field that is wrong."""
    try:
        return adapter.validate_python(body)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{what} is not usable: {where}: {first['msg'].lower()}, found {first['input']!r}.") from error


def _unusable_number(value: JSON, where: str = "") -> str:
    """Return the first number that is not finite, with its place; empty where all are."""
    if isinstance(value, Mapping):
        parts = value.items()
    elif isinstance(value, list):
        parts = enumerate(value)  # type: ignore[assignment]  # places instead of keys
    else:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return f"{where} is {value!s:.40}" if is_number and not -_HIGHEST < value < _HIGHEST else ""
    return next((found for key, part in parts if (found := _unusable_number(part, f"{where}.{key}".lstrip(".")))), "")


def _finite(value: JSON) -> JSON:
    """Replace numbers that are not finite by ``None``: nothing is known there."""
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def check_sizes(instances: Instances) -> None:
    """Refuse sizes that no job has."""
    for count in (instances.planned, instances.requested, instances.ready):
        if not 0 <= count <= MOST_INSTANCES:
            raise InputError(f"{count} instances are not possible; 0 to {MOST_INSTANCES:,} are.")


def _aged(value: JSON, now: Instant) -> JSON:
    """Replace times by ages at ``now``."""
    if isinstance(value, Mapping):
        return {
            _AGE_OF.get(key, key): (
                item if key in _NAMED_BY_USERS or item is None else now - item if key in _AGE_OF else _aged(item, now)
            )
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_aged(item, now) for item in value]
    return value


def timed(value: JSON, now: Instant) -> JSON:
    """Replace ages by times, given the time of arrival."""
    if isinstance(value, Mapping):
        return {
            _BACK.get(key, key): (
                item
                if key in _NAMED_BY_USERS
                else now - item
                if key in _BACK and isinstance(item, int | float)
                else timed(item, now)
            )
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [timed(item, now) for item in value]
    return value


def service_urls(service: str | Sequence[str]) -> tuple[str, ...]:
    """The addresses, from a sequence or from one text with commas.

    >>> service_urls("http://one:8420/, http://two:8420")
    ('http://one:8420', 'http://two:8420')
    """
    given = service.split(",") if isinstance(service, str) else service
    urls = tuple(dict.fromkeys(url.strip().rstrip("/") for url in given if url.strip()))
    if not urls or not all(url.startswith(("http://", "https://")) for url in urls):
        raise InputError(f"service {service!r} is not usable; an address such as http://127.0.0.1:8420 is needed.")
    return urls


class Turn:
    """Each address once, beginning with the first; ``leads`` has one come next.

    >>> turn = Turn(("http://one", "http://two", "http://three"))
    >>> [next(turn), turn.leads("http://three"), next(turn), next(turn)]
    ['http://one', None, 'http://three', 'http://two']
    """

    def __init__(self, urls: Sequence[str], first: str = "") -> None:
        self._left = [first, *(url for url in urls if url != first)] if first else list(urls)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        if not self._left:
            raise StopIteration
        return self._left.pop(0)

    def leads(self, url: str) -> None:
        """A service names this one as the leader; an address that was not configured is not contacted.

        A token would go there.
        """
        if url in self._left:
            self._left.remove(url)
            self._left.insert(0, url)
