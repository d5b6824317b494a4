"""The contract of journals as checks, for the journals of this package and for yours.

    check_journal(make_journal, open_reader)

``make_journal`` gives a new and empty journal; ``open_reader`` gives a second reader of one that is being written,
where there can be one. A journal that several may write, or that thins what is old, is checked for that as well:
``open_writer`` gives a second writer to what a journal writes to, and ``with_retention`` a new journal with a
retention, by a given clock.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol, TypeAlias

from headgate.core.errors import JournalError
from headgate.core.types import (
    JSON,
    Answer,
    Decision,
    Event,
    Instances,
    Instant,
    Observation,
    Outcome,
    Receipt,
    Verdict,
)
from headgate.journal.contract import Journal, ReadableJournal
from headgate.testing.contract import ContractViolation, ensure
from headgate.testing.journal_features import (
    DECISION,
    EVENT,
    OBSERVATION,
    RECEIPT,
    RETENTION_CHECKS,
    RUN,
    WRITER_CHECKS,
    OpenWriter,
    RetentionFactory,
    ensure_equal,
    opened,
    write_one_of_each,
)

JournalFactory: TypeAlias = Callable[[], Journal]
OpenReader: TypeAlias = Callable[[Journal], ReadableJournal]


def itself(journal: Journal) -> ReadableJournal:
    """The reader of a journal that only its writer can read."""
    return journal


def check_journal(
    factory: JournalFactory,
    open_reader: OpenReader = itself,
    *,
    open_writer: OpenWriter | None = None,
    with_retention: RetentionFactory | None = None,
) -> None:
    """Run every check on a journal; those of several writers and of retention where it claims to have them."""
    for check in JOURNAL_CHECKS:
        check(factory, open_reader)
    if open_writer is not None:
        for writer_check in WRITER_CHECKS:
            writer_check(factory, open_writer)
    if with_retention is not None:
        for retention_check in RETENTION_CHECKS:
            retention_check(with_retention)


def gives_back_what_was_written(factory: JournalFactory, open_reader: OpenReader) -> None:
    """Every kind of entry comes back equal, metrics that are not known included."""
    with opened(factory) as journal:
        number = journal.begin(RUN)
        write_one_of_each(journal)
        ensure_equal("runs", journal.runs(), [(number, RUN)])
        _ensure_written(journal)
        sample = journal.observations()[0].samples["job"]
        ensure(sample.latency_s is None, f"a latency that was not known came back as {sample.latency_s!r}, not None")


def keeps_numbers_that_are_not_finite(factory: JournalFactory, open_reader: OpenReader) -> None:
    """Infinity comes back as such; not-a-number too, unless it is refused with a ``JournalError``."""
    with opened(factory) as journal:
        journal.begin(RUN)
        journal.noted(Event(1.0, "check", "infinity", {"pressure": math.inf}))
        ensure_equal("infinity", journal.events()[-1].numbers["pressure"], math.inf)
        try:
            journal.noted(Event(2.0, "check", "not a number", {"pressure": math.nan}))
        except JournalError:
            return
        number = journal.events()[-1].numbers["pressure"]
        ensure(isinstance(number, float) and math.isnan(number), f"not-a-number came back as {number!r}")


def keeps_the_order(factory: JournalFactory, open_reader: OpenReader) -> None:
    """Entries come back in the order in which they were written; a start time and a number cut them to the newest."""
    with opened(factory) as journal:
        journal.begin(RUN)
        for at_s in range(10):
            journal.observed(Observation(at_s, {}, {}))
            journal.decided(Decision(at_s, "check", {}))
            journal.received(Receipt(at_s, {}))
            journal.noted(Event(at_s, "check", "one of several"))
        for kind, read in _readers(journal).items():
            ensure_equal(f"times of {kind}", [entry.at_s for entry in read()], list(range(10)))
            ensure_equal(f"times of {kind} since 7", [entry.at_s for entry in read(since_s=7)], [7, 8, 9])
            ensure_equal(f"times of {kind} since 10", [entry.at_s for entry in read(since_s=10)], [])
        for last, since_s, expected in ((2, None, [8, 9]), (20, None, [*range(10)]), (2, 9, [9]), (0, None, [])):
            found = [decision.at_s for decision in journal.decisions(last=last, since_s=since_s)]
            ensure_equal(f"times of the last {last} decisions since {since_s}", found, expected)


def keeps_runs_apart(factory: JournalFactory, open_reader: OpenReader) -> None:
    """Runs are numbered upwards; reading is about the newest unless another is named, and an unknown one is empty."""
    with opened(factory) as journal:
        ensure_equal("runs of a new journal", journal.runs(), [])
        for kind, read in _readers(journal).items():
            ensure_equal(f"{kind} of a new journal", read(), [])
        first = journal.begin(RUN)
        write_one_of_each(journal)
        second = journal.begin(RUN)
        ensure_equal("numbers of runs", (first, second), (1, 2))
        for kind, read in _readers(journal).items():
            ensure_equal(f"{kind} of a run that has just begun", read(), [])
            ensure_equal(f"number of {kind} of the run before", len(read(run=first)), 1)
            ensure_equal(f"{kind} of a run that does not exist", read(run=second + 1), [])


def keeps_jobs_apart(factory: JournalFactory, open_reader: OpenReader) -> None:
    """Jobs are distinguished by name; each has its own runs, and one that never ran has none."""
    with opened(factory) as journal:
        ensure_equal("jobs of a new journal", journal.jobs(), [])
        ensure_equal("the newest run of a new journal", journal.newest_run(), None)
        orders, clicks = replace(RUN, job="orders"), replace(RUN, job="clicks")
        for run in (orders, clicks, orders):
            journal.begin(run)
        ensure_equal("jobs, the one that began last at the end", journal.jobs(), ["clicks", "orders"])
        ensure_equal("runs of all jobs", journal.runs(), [(1, orders), (2, clicks), (3, orders)])
        ensure_equal("runs of one job", journal.runs(job="orders"), [(1, orders), (3, orders)])
        ensure_equal("the newest run", journal.newest_run(), (3, orders))
        ensure_equal("the newest run of another job", journal.newest_run("clicks"), (2, clicks))
        ensure_equal("runs of a job that never ran", journal.runs(job="nobody"), [])
        ensure_equal("the newest run of a job that never ran", journal.newest_run("nobody"), None)
        ensure_equal("sizes of a job that never ran", journal.last_sizes("nobody"), {})


def remembers_the_last_sizes(factory: JournalFactory, open_reader: OpenReader) -> None:
    """The size an operator had last is what was planned last: seen, or decided since and not refused."""
    seen = Observation(10.0, {}, {"job": Instances(3, 2, 1)})
    grown = Decision(10.0, "check", {"job": Verdict("job", 3, 5, 5, "check", "grown")})
    cases: list[tuple[list[Observation | Decision | Receipt], dict[str, int]]] = [
        ([seen], {"job": 3}),
        ([seen, grown, _answered(Outcome.ACCEPTED)], {"job": 5}),
        ([seen, grown, _answered(Outcome.REFUSED)], {"job": 3}),
        ([seen, grown], {"job": 5}),
        ([seen, grown, Observation(20.0, {}, {"job": Instances(4, 4, 4)})], {"job": 4}),
        ([seen, Observation(20.0, {}, {"sink": Instances(2, 2, 2)})], {"job": 3, "sink": 2}),
        ([grown], {"job": 5}),
        ([], {}),
    ]
    for written, expected in cases:
        with opened(factory) as journal:
            journal.begin(replace(RUN, job="orders"))
            for entry in written:
                _write(journal, entry)
            journal.begin(replace(RUN, job="clicks"))
            journal.observed(Observation(30.0, {}, {"job": Instances(9, 9, 9)}))
            what = f"sizes after {written!r}, while another job has 9"
            ensure_equal(what, journal.last_sizes("orders"), expected)
            journal.begin(replace(RUN, job="orders"))
            ensure_equal(f"{what}, and a run has just begun", journal.last_sizes("orders"), expected)


def _answered(outcome: Outcome) -> Receipt:
    return Receipt(10.2, {"job": Answer(outcome, 5)})


def _write(journal: Journal, entry: Observation | Decision | Receipt) -> None:
    match entry:
        case Observation():
            journal.observed(entry)
        case Decision():
            journal.decided(entry)
        case Receipt():
            journal.received(entry)


def tells_when_runs_saw_something(factory: JournalFactory, open_reader: OpenReader) -> None:
    """The runs of a job that saw something since a time are listed with that time, and can be read together."""

    def seen(at_s: float) -> Observation:
        return Observation(at_s, {}, {"job": Instances(3, 2, 1)})

    with opened(factory) as journal:
        for job, times_s in {"orders": [10.0, 20.0, 30.0], "clicks": [35.0], "nothing": []}.items():
            journal.begin(replace(RUN, job=job))
            for at_s in times_s:
                journal.observed(seen(at_s))
        journal.begin(replace(RUN, job="orders"))
        journal.begin(replace(RUN, job="orders"))
        journal.observed(seen(40.0))
        spans = {1: (20.0, 30.0), 5: (40.0, 40.0)}
        ensure_equal("what runs of a job saw, and when", journal.spans("orders", 15.0), spans)
        ensure_equal("the order of runs", list(journal.spans("orders", 15.0)), [1, 5])
        ensure_equal("runs that saw nothing since", journal.spans("orders", 41.0), {})
        ensure_equal("a job that saw nothing", journal.spans("nothing", 0.0), {})
        together = journal.observations(run=[1, 4, 5], since_s=15.0)
        ensure_equal("observations of several runs", together, [seen(20.0), seen(30.0), seen(40.0)])
        ensure_equal("decisions of several runs", journal.decisions(run=[1, 5]), [])


def keeps_the_newest_state(factory: JournalFactory, open_reader: OpenReader) -> None:
    """State is stored by key, outlives its run, and the newest one wins; what is saved or loaded is a copy."""
    with opened(factory) as journal:
        journal.begin(RUN)
        ensure_equal("state that was never saved", journal.load_state("policy/check"), None)
        state: dict[str, JSON] = {"policy": "check", "version": 1, "learned": {"job": [1.5, None, "word"]}}
        journal.save_state("policy/check", {"policy": "check", "version": 1})
        journal.save_state("policy/check", state)
        journal.save_state("policy/other", {"version": 2})
        saved = {**state, "learned": {"job": [1.5, None, "word"]}}
        state["learned"]["job"].append("changed later")
        journal.begin(RUN)
        ensure_equal("the state saved last", journal.load_state("policy/check"), saved)
        loaded = journal.load_state("policy/check")
        if loaded is not None:
            loaded["learned"]["job"].clear()
        ensure_equal("the state loaded again", journal.load_state("policy/check"), saved)
        ensure_equal("the state of another key", journal.load_state("policy/other"), {"version": 2})
        journal.save_state("policy/check", state)
        ensure_equal("keys, the one saved last at the end", journal.state_keys(), ["policy/other", "policy/check"])


def can_be_read_while_it_is_written(factory: JournalFactory, open_reader: OpenReader) -> None:
    """A reader that was opened before an entry was written sees it as soon as writing it has returned."""
    with opened(factory) as journal:
        journal.begin(RUN)
        reader = open_reader(journal)
        try:
            ensure_equal("events before there are any", reader.events(), [])
            write_one_of_each(journal)
            journal.save_state("policy/check", {"version": 1})
            _ensure_written(reader)
            ensure_equal("the state saved meanwhile", reader.load_state("policy/check"), {"version": 1})
            number = journal.begin(RUN)
            ensure_equal("the newest run as the reader sees it", reader.runs()[-1], (number, RUN))
        finally:
            reader.close()


def writes_only_within_a_run(factory: JournalFactory, open_reader: OpenReader) -> None:
    """Before a run has begun there is nothing that an entry could belong to."""
    with opened(factory) as journal:
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
    keeps_jobs_apart,
    remembers_the_last_sizes,
    tells_when_runs_saw_something,
    keeps_the_newest_state,
    can_be_read_while_it_is_written,
    writes_only_within_a_run,
    closes_cleanly,
)
"""Every check, in the order in which :func:`check_journal` runs them."""


class _CheckedEntry(Protocol):
    @property
    def at_s(self) -> Instant: ...


def _ensure_written(reader: ReadableJournal) -> None:
    ensure_equal("observations", reader.observations(), [OBSERVATION])
    ensure_equal("decisions", reader.decisions(), [DECISION])
    ensure_equal("receipts", reader.receipts(), [RECEIPT])
    ensure_equal("events", reader.events(), [EVENT])


def _readers(reader: ReadableJournal) -> dict[str, Callable[..., Sequence[_CheckedEntry]]]:
    return {
        "observations": reader.observations,
        "decisions": reader.decisions,
        "receipts": reader.receipts,
        "events": reader.events,
    }


def _ensure_refused(write: Callable[[], object], what: str) -> None:
    try:
        write()
    except JournalError:
        return
    raise ContractViolation(f"{what}; it must raise JournalError")
