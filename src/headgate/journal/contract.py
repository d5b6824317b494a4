"""What a journal must offer. Whatever is written here can be read while it is being written."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from typing import Annotated, Protocol, TypeAlias

from pydantic import Field, model_validator

from headgate.core.contracts import Policy
from headgate.core.types import JSON, Decision, Event, Instant, Observation, Outcome, Receipt, Role, Run
from headgate.core.units import format_duration
from headgate.policies.frame.settings import PositiveSeconds, Seconds, Settings, make_settings

Runs: TypeAlias = int | Collection[int] | None
"""The number of a run, those of several that are read as one, or ``None`` for the newest of all."""


class ReadableJournal(Protocol):
    """The reading half of a journal: runs of jobs, and what was seen, decided, done and learned in them.

    Entries are those of the newest run of all, unless another run is named by its number. They come oldest first,
    those at or after ``since_s`` where that is set, and only the ``last`` few where that is.
    """

    def jobs(self) -> list[str]:
        """The names of the jobs that have a run here, the one that began a run last at the end."""
        ...

    def runs(self, job: str | None = None) -> list[tuple[int, Run]]:
        """The runs by number, of all jobs or of one."""
        ...

    def newest_run(self, job: str | None = None) -> tuple[int, Run] | None:
        """The run that began last, of all jobs or of one."""
        ...

    def last_sizes(self, job: str) -> dict[str, int]:
        """The planned size that each operator of a job's newest run had last, as far as it is known."""
        ...

    def spans(self, job: str, since_s: Instant) -> dict[int, tuple[Instant, Instant]]:
        """When the first and the last observation at or after a time were made, by run of a job, oldest run first.

        Runs that saw nothing in that time are left out.
        """
        ...

    def observations(self, *, run: Runs = None, since_s: Instant | None = None) -> list[Observation]: ...

    def decisions(
        self, *, run: Runs = None, since_s: Instant | None = None, last: int | None = None
    ) -> list[Decision]: ...

    def receipts(self, *, run: int | None = None, since_s: Instant | None = None) -> list[Receipt]: ...

    def events(self, *, run: int | None = None, since_s: Instant | None = None) -> list[Event]: ...

    def thinned(self, *, run: int | None = None) -> Thinned:
        """Where entries of a run are no longer all there, because they are old."""
        ...

    def load_state(self, key: str) -> Mapping[str, JSON] | None: ...

    def state_keys(self) -> list[str]:
        """The keys that there is state under, the one saved last at the end."""
        ...

    def close(self) -> None: ...


class Journal(ReadableJournal, Protocol):
    """The memory of control loops. One object is one writer: what it writes belongs to the run that it began last.

    Several writers may share what they write to; each keeps to its own run.
    """

    def begin(self, run: Run) -> int:
        """Start a new run and give its number; runs are numbered from 1."""
        ...

    def observed(self, observation: Observation) -> None: ...

    def decided(self, decision: Decision) -> None: ...

    def received(self, receipt: Receipt) -> None: ...

    def noted(self, event: Event) -> None: ...

    def save_state(self, key: str, state: Mapping[str, JSON]) -> None:
        """Keep learned state under a key; state outlives the run and the newest one wins."""
        ...


MINUTE_S = 60.0
HOUR_S = 3600.0


class Retention(Settings):
    """What a journal keeps for how long, and how large its file may get."""

    full_detail_s: Seconds = 2 * 86400.0
    """How long every entry is retained; then one a minute of those that repeat the one before them."""
    minutes_s: Seconds = 14 * 86400.0
    """The age up to which one entry a minute is retained, then one an hour."""
    hours_s: PositiveSeconds | None = None
    """Whatever is older than this is removed, changes and events too; none: it stays while there is room."""
    max_file_mb: Annotated[float, Field(ge=16)] = 64.0
    """What the file, with its log, stays below (1 MB = 1,000,000 bytes). When the above would come to more, detail is
    given up earlier, and the oldest entries go once there is nothing else left to give up."""

    @model_validator(mode="after")
    def _check_order(self) -> Retention:
        limits = {"full_detail_s": self.full_detail_s, "minutes_s": self.minutes_s, "hours_s": self.hours_s}
        named = [(name, age_s) for name, age_s in limits.items() if age_s is not None]
        for (name, age_s), (next_name, next_age_s) in pairwise(named):
            if next_age_s < age_s:
                texts = f"{next_name} {format_duration(next_age_s)}", f"{name} {format_duration(age_s)}"
                raise ValueError(f"{texts[0]} is less than {texts[1]}; it must be at least that")
        return self


def retention_from(given: Retention | Mapping[str, object] | None) -> Retention:
    """Retention from plain values, such as ``{"full_detail_s": "12h"}``; the defaults where nothing is given."""
    return given if isinstance(given, Retention) else make_settings(Retention, "retention", given or {})


class Detail(IntEnum):
    """What an entry stands for."""

    FULL = 0
    """Itself: it repeats the one before it, and is still young."""
    MINUTE = 1
    """All those of its minute that repeated each other."""
    HOUR = 2
    """The same of its hour."""
    LASTING = 3
    """Itself for good: it says something new."""


@dataclass(frozen=True, slots=True)
class Thinned:
    """Up to when a run's entries are only one a minute, or one an hour; ``None``: nowhere.

    >>> Thinned(minutes_until_s=120.0, hours_until_s=60.0).until_s
    120.0
    """

    minutes_until_s: Instant | None = None
    hours_until_s: Instant | None = None

    @property
    def until_s(self) -> Instant | None:
        """Entries after this one are all there."""
        known = [at_s for at_s in (self.minutes_until_s, self.hours_until_s) if at_s is not None]
        return max(known, default=None)

    def __bool__(self) -> bool:
        return self.until_s is not None


CLOCKS_AGREE_S = 0.05
"""The loop and the engine may each have their own clock, so an answer can seem a little older than its question."""

_LAST = 50
"""Newest decisions to look at: shadows decide as well as the acting policy."""


def last_sizes(
    journal: ReadableJournal, job: str, newest_first: Callable[[int], Generator[Observation]]
) -> dict[str, int]:
    """The newest known planned size of each operator; ``newest_first`` gives the observations of a run backwards."""
    runs = journal.runs(job=job)
    wanted = list(runs[-1][1].operators) if runs else []
    sizes: dict[str, int] = {}
    for number, _ in reversed(runs):
        missing = [operator for operator in wanted if operator not in sizes]
        if not missing:
            break
        decisions = [decision for decision in journal.decisions(run=number, last=_LAST) if decision.role is Role.ACTING]
        decision = decisions[-1] if decisions else None
        since_s = None if decision is None else decision.at_s - CLOCKS_AGREE_S
        receipts = journal.receipts(run=number, since_s=since_s) if decision is not None else []
        with closing(newest_first(number)) as observations:
            seen = _seen(missing, observations)
        for operator in missing:
            size = size_after(operator, seen.get(operator), decision, receipts)
            if size is not None:
                sizes[operator] = size
    return {operator: sizes[operator] for operator in wanted if operator in sizes}


def _seen(operators: Sequence[str], newest_first: Iterable[Observation]) -> dict[str, int]:
    found: dict[str, int] = {}
    for observation in newest_first:
        for operator in operators:
            if operator in observation.instances:
                found.setdefault(operator, observation.instances[operator].planned)
        if len(found) == len(operators):
            break
    return found


def size_after(operator: str, seen: int | None, decision: Decision | None, receipts: Sequence[Receipt]) -> int | None:
    """The size that was seen last, unless the last decision is newer and was taken; ``receipts`` came after it."""
    verdict = None if decision is None else decision.verdicts.get(operator)
    # A decision starts from the size that was seen just before it; another size was seen after it.
    if verdict is None or (seen is not None and seen != verdict.current):
        return seen
    answers = [receipt.answers[operator] for receipt in receipts if operator in receipt.answers]
    outcome = answers[-1].outcome if answers else Outcome.UNCHANGED
    return verdict.target if outcome.is_taken else verdict.current


def state_key(job: str, operators: Sequence[str], policy: Policy) -> str:
    """Return the key under which journals store what a policy with its settings has learned of a job."""
    settings = getattr(policy, "settings", None)
    chosen = json.dumps(settings.model_dump(mode="json") if settings is not None else {}, sort_keys=True)
    digest = hashlib.sha256(chosen.encode()).hexdigest()[:12]
    return f"job/{job}/operators/{','.join(operators)}/policy/{policy.name}/settings/{digest}"


def startup_key(job: str) -> str:
    """Return the key under which journals store how long new instances of a job's operators take to be useful."""
    return f"job/{job}/startup"


def budget_key(job: str) -> str:
    """Return the key under which journals store the error budgets of a job and its cost."""
    return f"job/{job}/budget"
