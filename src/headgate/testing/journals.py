"""The contract of journals as checks, for the journals of this package and for yours.

    check_journal(make_journal, open_reader)

``make_journal`` gives a new and empty journal; ``open_reader`` gives a second reader of one that is being written,
where there can be one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol, TypeAlias

from headgate.core.errors import JournalError
from headgate.core.types import (
    JSON,
    Answer,
    Decision,
    Event,
    GuardNote,
    Instances,
    Instant,
    Observation,
    Outcome,
    Receipt,
    Run,
    Sample,
    Verdict,
)
from headgate.journal.contract import Journal
from headgate.testing.contract import ContractViolation, ensure


class Reader(Protocol):
    """The reading half of a journal."""

    def load_state(self, key: str) -> Mapping[str, JSON] | None: ...

    def runs(self) -> list[tuple[int, Run]]: ...

    def observations(self, *, run: int | None = None, since_s: Instant | None = None) -> list[Observation]: ...

    def decisions(
        self, *, run: int | None = None, since_s: Instant | None = None, last: int | None = None
    ) -> list[Decision]: ...

    def receipts(self, *, run: int | None = None, since_s: Instant | None = None) -> list[Receipt]: ...

    def events(self, *, run: int | None = None, since_s: Instant | None = None) -> list[Event]: ...

    def close(self) -> None: ...


JournalFactory: TypeAlias = Callable[[], Journal]
OpenReader: TypeAlias = Callable[[Journal], Reader]


def itself(journal: Journal) -> Reader:
    """The reader of a journal that only its writer can read."""
    return journal


def check_journal(factory: JournalFactory, open_reader: OpenReader = itself) -> None:
    """Run every check on a journal."""
    for check in JOURNAL_CHECKS:
        check(factory, open_reader)


def gives_back_what_was_written(factory: JournalFactory, open_reader: OpenReader) -> None:
    """Every kind of entry comes back equal, metrics that are not known included."""
    with _opened(factory) as journal:
        number = journal.begin(RUN)
        _write(journal)
        _ensure_equal("runs", journal.runs(), [(number, RUN)])
        _ensure_written(journal)
        sample = journal.observations()[0].samples["job"]
        ensure(sample.latency_s is None, f"a latency that was not known came back as {sample.latency_s!r}, not None")


def keeps_numbers_that_are_not_finite(factory: JournalFactory, open_reader: OpenReader) -> None:
    """Infinity comes back as such; not-a-number too, unless it is refused with a ``JournalError``."""
    with _opened(factory) as journal:
        journal.begin(RUN)
        journal.noted(Event(1.0, "check", "infinity", {"pressure": math.inf}))
        _ensure_equal("infinity", journal.events()[-1].numbers["pressure"], math.inf)
        try:
            journal.noted(Event(2.0, "check", "not a number", {"pressure": math.nan}))
        except JournalError:
            return
        number = journal.events()[-1].numbers["pressure"]
        ensure(isinstance(number, float) and math.isnan(number), f"not-a-number came back as {number!r}")


def keeps_the_order(factory: JournalFactory, open_reader: OpenReader) -> None:
    """Entries come back in the order in which they were written; a start time and a number cut them to the newest."""
    with _opened(factory) as journal:
        journal.begin(RUN)
        for at_s in range(10):
            journal.observed(Observation(at_s, {}, {}))
            journal.decided(Decision(at_s, "check", {}))
            journal.received(Receipt(at_s, {}))
            journal.noted(Event(at_s, "check", "one of several"))
        for kind, read in _readers(journal).items():
            _ensure_equal(f"times of {kind}", [entry.at_s for entry in read()], list(range(10)))
            _ensure_equal(f"times of {kind} since 7", [entry.at_s for entry in read(since_s=7)], [7, 8, 9])
            _ensure_equal(f"times of {kind} since 10", [entry.at_s for entry in read(since_s=10)], [])
        for last, since_s, expected in ((2, None, [8, 9]), (20, None, [*range(10)]), (2, 9, [9]), (0, None, [])):
            found = [decision.at_s for decision in journal.decisions(last=last, since_s=since_s)]
            _ensure_equal(f"times of the last {last} decisions since {since_s}", found, expected)


def keeps_runs_apart(factory: JournalFactory, open_reader: OpenReader) -> None:
    """Runs are numbered upwards; reading is about the newest unless another is named, and an unknown one is empty."""
    with _opened(factory) as journal:
        _ensure_equal("runs of a new journal", journal.runs(), [])
        for kind, read in _readers(journal).items():
            _ensure_equal(f"{kind} of a new journal", read(), [])
        first = journal.begin(RUN)
        _write(journal)
        second = journal.begin(RUN)
        _ensure_equal("numbers of runs", (first, second), (1, 2))
        for kind, read in _readers(journal).items():
            _ensure_equal(f"{kind} of a run that has just begun", read(), [])
            _ensure_equal(f"number of {kind} of the run before", len(read(run=first)), 1)
            _ensure_equal(f"{kind} of a run that does not exist", read(run=second + 1), [])


def keeps_the_newest_state(factory: JournalFactory, open_reader: OpenReader) -> None:
    """State is kept by key, outlives its run, and the newest one wins; what is saved or loaded is a copy."""
    with _opened(factory) as journal:
        journal.begin(RUN)
        _ensure_equal("state that was never saved", journal.load_state("policy/check"), None)
        state: dict[str, JSON] = {"policy": "check", "version": 1, "learned": {"job": [1.5, None, "word"]}}
        journal.save_state("policy/check", {"policy": "check", "version": 1})
        journal.save_state("policy/check", state)
        journal.save_state("policy/other", {"version": 2})
        saved = {**state, "learned": {"job": [1.5, None, "word"]}}
        state["learned"]["job"].append("changed later")
        journal.begin(RUN)
        _ensure_equal("the state saved last", journal.load_state("policy/check"), saved)
        loaded = journal.load_state("policy/check")
        if loaded is not None:
            loaded["learned"]["job"].clear()
        _ensure_equal("the state loaded again", journal.load_state("policy/check"), saved)
        _ensure_equal("the state of another key", journal.load_state("policy/other"), {"version": 2})


def can_be_read_while_it_is_written(factory: JournalFactory, open_reader: OpenReader) -> None:
    """A reader that was opened before an entry was written sees it as soon as writing it has returned."""
    with _opened(factory) as journal:
        journal.begin(RUN)
        reader = open_reader(journal)
        try:
            _ensure_equal("events before there are any", reader.events(), [])
            _write(journal)
            journal.save_state("policy/check", {"version": 1})
            _ensure_written(reader)
            _ensure_equal("the state saved meanwhile", reader.load_state("policy/check"), {"version": 1})
            number = journal.begin(RUN)
            _ensure_equal("the newest run as the reader sees it", reader.runs()[-1], (number, RUN))
        finally:
            reader.close()


def writes_only_within_a_run(factory: JournalFactory, open_reader: OpenReader) -> None:
    """Before a run has begun there is nothing that an entry could belong to."""
    with _opened(factory) as journal:
        _ensure_refused(lambda: journal.noted(EVENT), "an entry was written before a run had begun")


def closes_cleanly(factory: JournalFactory, open_reader: OpenReader) -> None:
    """Closing twice is fine; writing afterwards raises ``JournalError``."""
    journal = factory()
    journal.begin(RUN)
    journal.close()
    journal.close()
    _ensure_refused(lambda: journal.noted(EVENT), "a closed journal took an entry")
    _ensure_refused(lambda: journal.save_state("policy/check", {}), "a closed journal took a state")
    _ensure_refused(lambda: journal.begin(RUN), "a closed journal began a run")


JOURNAL_CHECKS: tuple[Callable[[JournalFactory, OpenReader], None], ...] = (
    gives_back_what_was_written,
    keeps_numbers_that_are_not_finite,
    keeps_the_order,
    keeps_runs_apart,
    keeps_the_newest_state,
    can_be_read_while_it_is_written,
    writes_only_within_a_run,
    closes_cleanly,
)
"""Every check, in the order in which :func:`check_journal` runs them."""

RUN = Run(5.0, "check", {"instances": None, "limits": [1, 2.5]}, "latency p95 < 10s", "check", ("job", "sink"), seed=7)
OBSERVATION = Observation(
    10.0,
    {
        "job": Sample("job", 9.5, input_rate_per_s=12.25, backlog=0.0, warming=True),
        "sink": Sample("sink", 10.0, latency_s=0.1, metrics={"heap": 0.75, "files": None}),
    },
    {"job": Instances(3, 2, 1), "sink": Instances(1, 1, 1)},
)
DECISION = Decision(
    10.0,
    "check",
    {
        "job": Verdict(
            "job",
            3,
            9,
            8,
            "slo-violated",
            "latency 12 s is over the 10 s bound – ±½",
            {"rate_per_s": 410.5, "needed": 9, "mode": "exploration", "latency_s": None},
            (GuardNote("bounds", 9, 8, "at most 8 instances"), GuardNote("blind", 8, 8)),
        ),
        "sink": Verdict("sink", 1, 1, 1, "steady", "nothing to do"),
    },
)
RECEIPT = Receipt(
    10.5,
    {
        "job": Answer(Outcome.REFUSED, 3, "the cluster is full"),
        "sink": Answer(Outcome.DELIVERED, 1),
    },
)
EVENT = Event(11.0, "observe-failed", "no answer", {"seconds": 2.5, "attempt": 3, "host": None})


class _Timed(Protocol):
    @property
    def at_s(self) -> Instant: ...


@contextmanager
def _opened(factory: JournalFactory) -> Iterator[Journal]:
    journal = factory()
    try:
        yield journal
    finally:
        journal.close()


def _write(journal: Journal) -> None:
    """One entry of each kind."""
    journal.observed(OBSERVATION)
    journal.decided(DECISION)
    journal.received(RECEIPT)
    journal.noted(EVENT)


def _ensure_written(reader: Reader) -> None:
    _ensure_equal("observations", reader.observations(), [OBSERVATION])
    _ensure_equal("decisions", reader.decisions(), [DECISION])
    _ensure_equal("receipts", reader.receipts(), [RECEIPT])
    _ensure_equal("events", reader.events(), [EVENT])


def _readers(reader: Reader) -> dict[str, Callable[..., Sequence[_Timed]]]:
    return {
        "observations": reader.observations,
        "decisions": reader.decisions,
        "receipts": reader.receipts,
        "events": reader.events,
    }


def _ensure_equal(what: str, found: object, expected: object) -> None:
    ensure(found == expected, f"{what} should have been {expected!r}; they were {found!r}")


def _ensure_refused(write: Callable[[], object], what: str) -> None:
    try:
        write()
    except JournalError:
        return
    raise ContractViolation(f"{what}; it must raise JournalError")
