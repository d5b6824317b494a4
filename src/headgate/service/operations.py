"""Changes of a running job: checked, saved with author and reason in one transaction, put in force, and published."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from headgate.core.errors import InputError, UnknownNameError
from headgate.core.types import JSON
from headgate.documents.values import NAME_PATTERN
from headgate.journal.codec import to_json
from headgate.rules.model import ALL_OPERATORS
from headgate.runtime.model_file import SETTING as MODEL_FILE
from headgate.service.applied_changes import changed, require_usable
from headgate.service.jobs import ServedJob
from headgate.service.store.changes import AuditRecord, ChangeKind, JobChange
from headgate.service.store.tokens import redacted, without_secrets

if TYPE_CHECKING:
    from headgate.service.service import Service

FILE_SETTINGS = ("file", MODEL_FILE)
"""Settings of policies that name files."""


@dataclass(frozen=True, slots=True)
class RequestedChange:
    """A change of a job, to be made in place of one of the same kind and name."""

    job: str
    kind: ChangeKind
    name: str
    body: Mapping[str, JSON]
    why: str
    lasts_s: float | None = None


class Operations:
    """The operations of users on the jobs of a service; one at a time."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._lock = threading.Lock()

    def put(self, who: str, requested: RequestedChange) -> JobChange:
        """Put a change in force."""
        # Outside of the lock first: rules of thousands of lines take seconds to parse, and are then remembered.
        self.check(requested)
        with self._lock:
            job = self._service.fleet.job(requested.job)
            change, in_force = self._prepared(job, who, requested)
            before = _change_of(job, change.kind, change.name)
            self._save(job, change, before, in_force)
            return change

    def check(self, requested: RequestedChange) -> None:
        """Refuse what ``put`` would refuse, and change nothing."""
        self._prepared(self._service.fleet.job(requested.job), "", requested)

    def _prepared(
        self, job: ServedJob, who: str, requested: RequestedChange
    ) -> tuple[JobChange, tuple[JobChange, ...]]:
        """Return a change that can be made, and all that are in force with it."""
        kind, name, body, why = requested.kind, requested.name, dict(requested.body), requested.why
        now_s = self._service.clock.now()
        _refuse_files(body.get("settings", {}))
        _require_storable(why, to_json(body))
        if kind is ChangeKind.PERIOD and not re.fullmatch(NAME_PATTERN, name):
            raise InputError(
                f"period name {name[:80]!r} is not allowed; up to 63 letters, digits, - and _ are, the first of them "
                "a letter or a digit."
            )
        until_s = None if requested.lasts_s is None else now_s + requested.lasts_s
        change = JobChange(job.name, kind, name, without_secrets(body), now_s, who, redacted(why), until_s)
        in_force = (*(other for other in job.changes if (other.kind, other.name) != (kind, name)), change)
        require_usable(changed(job.requested, in_force))
        return change, in_force

    def of_settings(
        self, job: str, settings: Mapping[str, JSON], guards: Mapping[str, JSON], why: str
    ) -> RequestedChange:
        """Return a change of settings of the policy and the guards in force; those that are not named stay."""
        spec = self._service.fleet.job(job).spec
        body = {
            "policy": spec.policy,
            "settings": {**spec.settings, **settings},
            "guards": {**spec.guards, **guards},
        }
        return RequestedChange(job, ChangeKind.POLICY, "", body, why)

    def revert(self, who: str, job: str, kind: ChangeKind, name: str, why: str) -> JobChange:
        """Take a change back, so that the file applies again, and return it."""
        with self._lock:
            found = self._service.fleet.job(job)
            before = _change_of(found, kind, name)
            if before is None:
                raise UnknownNameError(
                    "change", f"{kind} {name}".strip(), [_called(change) for change in found.changes]
                )
            left = tuple(change for change in found.changes if change is not before)
            self._drop(found, who, (before,), left, why)
            return before

    def resume(self, who: str, job: str, operator: str, why: str) -> tuple[JobChange, ...]:
        """End the pause of an operator, or all pauses, and return those that were ended."""
        with self._lock:
            found = self._service.fleet.job(job)
            if operator != ALL_OPERATORS:
                found.require_operator(operator)
            ended = tuple(
                change
                for change in found.changes
                if change.kind is ChangeKind.PAUSE and operator in (ALL_OPERATORS, change.name)
            )
            self._drop(found, who, ended, tuple(change for change in found.changes if change not in ended), why)
            return ended

    def release(self, who: str, job: str, operator: str, why: str) -> AuditRecord:
        """Let another agent take the place of an operator's present one."""
        _require_storable(why)
        with self._lock:
            found = self._service.fleet.job(job)
            found.require_operator(operator)
            what = f"agent of {operator}"
            entry = self._service.store.audit.add(who, job, what, redacted(why), None, {"released": True})
            found.engine.release(operator)
            self._publish(entry)
            return entry

    def _save(
        self, job: ServedJob, change: JobChange, before: JobChange | None, in_force: tuple[JobChange, ...]
    ) -> None:
        store = self._service.store
        after = {**change.body, "until_s": change.until_s}
        with self._steered(job, in_force, f"{change.who} changed {_called(change)}: {change.why}") as connection:
            store.changes.put_with(connection, change)
            entry = store.audit.add_with(
                connection,
                change.who,
                job.name,
                _called(change),
                change.why,
                None if before is None else before.body,
                after,
            )
        self._publish(entry)

    @contextmanager
    def _steered(self, job: ServedJob, in_force: tuple[JobChange, ...], text: str) -> Iterator[Connection]:
        """One transaction, and the changes put in force with it: both are done, or neither is."""
        before = job.changes
        try:
            with self._service.store.transaction() as connection:
                yield connection
                if in_force != before:
                    job.steer(in_force, text)
        except BaseException:
            if job.changes != before:
                job.steer(before, "the change before could not be saved, and was taken back")
            raise

    def _drop(
        self, job: ServedJob, who: str, ended: tuple[JobChange, ...], left: tuple[JobChange, ...], why: str
    ) -> None:
        _require_storable(why)
        store, reason = self._service.store, redacted(why)
        entries = []
        text = f"{who} ended {', '.join(_called(change) for change in ended)}: {reason}"
        with self._steered(job, left, text) as connection:
            for change in ended:
                store.changes.remove_with(connection, change.job, change.kind, change.name)
                entry = store.audit.add_with(
                    connection, who, job.name, f"end of {_called(change)}", reason, change.body, None
                )
                entries.append(entry)
        for entry in entries:
            self._publish(entry)

    def _publish(self, entry: AuditRecord) -> None:
        data = {"number": entry.number, "who": entry.who, "what": entry.what, "why": entry.why, "after": entry.after}
        self._service.hub.publish(entry.at_s, "change", entry.job, data)


def _change_of(job: ServedJob, kind: ChangeKind, name: str) -> JobChange | None:
    return next((change for change in job.changes if (change.kind, change.name) == (kind, name)), None)


def _refuse_files(settings: Mapping[str, JSON]) -> None:
    """Prevent users from reading files of this machine through a setting."""
    for name in FILE_SETTINGS:
        if name in settings:
            raise InputError(
                f"setting {name!r} names a file of the service's machine; only the service's own file may."
            )


def _require_storable(*texts: str) -> None:
    """Refuse NUL, the only character that PostgreSQL cannot store; JSON writes it as an escape."""
    if any("\x00" in text or "\\u0000" in text for text in texts):
        raise InputError("a text with a NUL character cannot be stored; write it without.")


def _called(change: JobChange) -> str:
    """
    >>> _called(JobChange("clicks", ChangeKind.SIZE, "count", {}, 0.0, "ana", "a test"))
    'size of count'
    """
    return str(change.kind) if change.name in ("", ALL_OPERATORS) else f"{change.kind} of {change.name}"
