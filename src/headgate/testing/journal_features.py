"""Checks of journals with several writers or a retention, and the entries that all checks of journals write."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from typing import TypeAlias

from headgate.core.types import (
    Answer,
    Decision,
    Event,
    GuardNote,
    Instances,
    Instant,
    Observation,
    Outcome,
    PricedSize,
    Receipt,
    Role,
    Run,
    Sample,
    Verdict,
)
from headgate.journal.contract import HOUR_S, MINUTE_S, Journal, Retention
from headgate.testing.contract import ensure

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
            (PricedSize(8, 240.0, 31.5, 0.12, 0.4), PricedSize(9, 270.0, 0.0, 0.0, 0.05)),
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


@contextmanager
def opened(factory: Callable[[], Journal]) -> Iterator[Journal]:
    journal = factory()
    try:
        yield journal
    finally:
        journal.close()


def write_one_of_each(journal: Journal) -> None:
    """One entry of each kind."""
    journal.observed(OBSERVATION)
    journal.decided(DECISION)
    journal.received(RECEIPT)
    journal.noted(EVENT)


def ensure_equal(what: str, found: object, expected: object) -> None:
    ensure(found == expected, f"{what} should have been {expected!r}; they were {found!r}")


OpenWriter: TypeAlias = Callable[[Journal], Journal]
"""Gives a second writer to what a journal writes to."""

_WRITERS = 4
_ENTRIES = 25


def writers_keep_to_their_runs(factory: Callable[[], Journal], open_writer: OpenWriter) -> None:
    """Entries belong to the run that their writer began, even if another writer has begun one since."""
    with opened(factory) as first, closing(open_writer(first)) as second:
        numbers = first.begin(replace(RUN, job="orders")), second.begin(replace(RUN, job="clicks"))
        first.noted(Event(1.0, "check", "of the first"))
        second.noted(Event(2.0, "check", "of the second"))
        first.noted(Event(3.0, "check", "of the first again"))
        for reader in (first, second):
            found = [[event.at_s for event in reader.events(run=number)] for number in numbers]
            ensure_equal("events of the two runs", found, [[1.0, 3.0], [2.0]])


def a_second_writer_needs_its_own_run(factory: Callable[[], Journal], open_writer: OpenWriter) -> None:
    """A writer that has begun no run does not fall into that of another."""
    with opened(factory) as first, closing(open_writer(first)) as second:
        first.begin(RUN)
        try:
            write_one_of_each(second)
        except Exception:  # noqa: BLE001 - how it is refused is another check
            found = first.events(), first.decisions()
            ensure_equal("entries of the first writer", found, ([], []))
            return
        ensure(False, "a writer without a run wrote into that of another; it must raise JournalError")


def state_is_shared(factory: Callable[[], Journal], open_writer: OpenWriter) -> None:
    """What one writer has saved the other can load."""
    with opened(factory) as first, closing(open_writer(first)) as second:
        first.save_state("check", {"version": 1})
        ensure_equal("state saved by another writer", second.load_state("check"), {"version": 1})


def writers_wait_for_each_other(factory: Callable[[], Journal], open_writer: OpenWriter) -> None:
    """Several that write at the same moment lose nothing and mix nothing up."""
    failures: list[BaseException] = []

    def write(journal: Journal, job: str) -> None:
        try:
            journal.begin(replace(RUN, job=job))
            for at_s in range(_ENTRIES):
                journal.noted(Event(at_s, "check", job))
        except BaseException as error:  # noqa: BLE001 - reported by the check, in its own thread
            failures.append(error)

    with ExitStack() as stack:
        first = stack.enter_context(opened(factory))
        others = [stack.enter_context(closing(open_writer(first))) for _ in range(_WRITERS - 1)]
        writers = {f"job-{number}": journal for number, journal in enumerate([first, *others])}
        threads = [threading.Thread(target=write, args=(journal, job)) for job, journal in writers.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        ensure(not failures, f"a writer failed while others wrote: {failures}")
        expected = [(float(at_s), job) for job in sorted(writers) for at_s in range(_ENTRIES)]
        found = [
            (event.at_s, event.detail)
            for job in sorted(first.jobs())
            for number, _ in first.runs(job=job)
            for event in first.events(run=number)
        ]
        ensure_equal("events of all writers", found, expected)


WRITER_CHECKS: tuple[Callable[[Callable[[], Journal], OpenWriter], None], ...] = (
    writers_keep_to_their_runs,
    a_second_writer_needs_its_own_run,
    state_is_shared,
    writers_wait_for_each_other,
)
"""Every check of journals with several writers."""


RetentionFactory: TypeAlias = Callable[[Retention, Callable[[], float]], Journal]
"""Returns a new and empty journal with a retention, by a clock of its own."""

_TICK_S = 20.0
_END_S = 6 * HOUR_S
_CHANGE_EVERY_S = 1500.0
_RATE_PER_S = 12.5
_RETENTION = Retention(full_detail_s=600.0, minutes_s=2 * HOUR_S)


def keeps_young_entries_whole(factory: RetentionFactory) -> None:
    """Everything that is younger than the full detail is there."""
    with _filled(factory, _RETENTION) as journal:
        young_s = _END_S - _RETENTION.full_detail_s
        expected = [tick * _TICK_S for tick in range(int(young_s / _TICK_S), int(_END_S / _TICK_S))]
        for kind, entries in (("observations", journal.observations()), ("decisions", _acting(journal))):
            found = [entry.at_s for entry in entries if entry.at_s >= young_s]
            ensure_equal(f"times of young {kind}", found, expected)


def leaves_one_a_minute_then_one_an_hour(factory: RetentionFactory) -> None:
    """Of older entries that repeat each other the newest of each minute is left, and of still older ones of each hour.

    A stretch is thinned as a whole, so it may take as long as the stretch before that is done.
    """
    with _filled(factory, _RETENTION) as journal:
        old_s = _END_S - _RETENTION.minutes_s - 2 * HOUR_S
        minutes_s = _END_S - _RETENTION.minutes_s, _END_S - _RETENTION.full_detail_s - 2 * MINUTE_S
        for kind, entries in (
            ("observations", [seen.at_s for seen in journal.observations() if not _is_new(seen.at_s)]),
            ("holds", [decision.at_s for decision in _acting(journal) if not _is_new(decision.at_s)]),
            (
                "shadow decisions",
                [
                    decision.at_s
                    for decision in journal.decisions()
                    if decision.role is Role.SHADOW and decision.at_s > 0
                ],
            ),
        ):
            for unit, span_s, first_s, end_s in (("hour", HOUR_S, 0.0, old_s), ("minute", MINUTE_S, *minutes_s)):
                found = [at_s for at_s in entries if first_s <= at_s < end_s]
                newest = [at_s + span_s - _TICK_S for at_s in _range(first_s, end_s, span_s)]
                ensure_equal(f"times of {kind} of which one an {unit} is to be left", found, newest)


def differences_stay_right(factory: RetentionFactory) -> None:
    """Counters of what is left are those that were written: what two readings differ by does not depend on others."""
    with _filled(factory, _RETENTION) as journal:
        for seen in journal.observations():
            ensure_equal(f"records until {seen.at_s:g} s", seen.samples["job"].arrived, _RATE_PER_S * seen.at_s)


def keeps_what_is_new(factory: RetentionFactory) -> None:
    """Changes of size, what became of them, and events stay, however old."""
    with _filled(factory, _RETENTION) as journal:
        changes = _range(_CHANGE_EVERY_S, _END_S, _CHANGE_EVERY_S)
        ensure_equal(
            "times of changes", [decision.at_s for decision in _acting(journal) if not decision.is_hold], changes
        )
        ensure_equal("times of receipts", [receipt.at_s for receipt in journal.receipts()], changes)
        ensure_equal("times of events", [event.at_s for event in journal.events()], changes)
        seen = {seen.at_s: seen.instances["job"].planned for seen in journal.observations()}
        for at_s in changes:
            ensure(at_s + _TICK_S in seen, f"the first observation of the new size after {at_s:g} s is gone")


def tells_where_it_was_thinned(factory: RetentionFactory) -> None:
    """A reader can know which entries stand for more than themselves."""
    with _filled(factory, _RETENTION, _RETENTION.full_detail_s) as journal:
        ensure(not journal.thinned(), f"a young run is said to be thinned: {journal.thinned()}")
    with _filled(factory, _RETENTION) as journal:
        thinned = journal.thinned()
        for unit, until_s, age_s in (
            ("minutes", thinned.minutes_until_s, _RETENTION.full_detail_s + 2 * MINUTE_S),
            ("hours", thinned.hours_until_s, _RETENTION.minutes_s + 2 * HOUR_S),
        ):
            known = until_s is not None and _END_S - age_s <= until_s <= _END_S
            ensure(known, f"{unit} are said to reach until {until_s}; they reach until {_END_S - age_s:g} s or later")


def removes_what_is_too_old(factory: RetentionFactory) -> None:
    """With an end to its hours a journal keeps nothing older than that, and forgets runs of which nothing is left."""
    retention = Retention(full_detail_s=600.0, minutes_s=HOUR_S, hours_s=2 * HOUR_S)
    with _filled(factory, retention) as journal:
        oldest_s = _END_S - 2 * HOUR_S - 2 * HOUR_S
        times_s = [seen.at_s for seen in journal.observations()] + [decision.at_s for decision in journal.decisions()]
        times_s += [receipt.at_s for receipt in journal.receipts()] + [event.at_s for event in journal.events()]
        too_old = [at_s for at_s in times_s if at_s < oldest_s]
        ensure_equal(f"times of entries from before {oldest_s:g} s", too_old, [])


RETENTION_CHECKS: tuple[Callable[[RetentionFactory], None], ...] = (
    keeps_young_entries_whole,
    leaves_one_a_minute_then_one_an_hour,
    differences_stay_right,
    keeps_what_is_new,
    tells_where_it_was_thinned,
    removes_what_is_too_old,
)
"""Every check of journals with a retention."""


@contextmanager
def _filled(factory: RetentionFactory, retention: Retention, end_s: float = _END_S) -> Iterator[Journal]:
    """A journal of a job that was observed and decided on every few seconds, by a wall clock that runs as its own."""
    now_s = 0.0
    journal = factory(retention, lambda: 1e9 + now_s)
    try:
        journal.begin(RUN)
        size = 1
        for tick in range(int(end_s / _TICK_S)):
            now_s = tick * _TICK_S
            sample = Sample("job", now_s, arrived=_RATE_PER_S * now_s)
            journal.observed(Observation(now_s, {"job": sample}, {"job": Instances(size, size, size)}))
            target = (3 if size == 1 else 1) if _is_change(now_s) else size
            journal.decided(_decision(now_s, size, target))
            # A shadow wants another size for ever, and never gets it.
            journal.decided(_decision(now_s, size, size + 1 + tick % 2, Role.SHADOW))
            if target != size:
                journal.received(Receipt(now_s, {"job": Answer(Outcome.ACCEPTED, target)}))
                journal.noted(Event(now_s, "check", f"changed at {now_s:g} s"))
            size = target
        yield journal
    finally:
        journal.close()


def _decision(at_s: Instant, current: int, target: int, role: Role = Role.ACTING) -> Decision:
    verdict = Verdict("job", current, target, target, "check", f"at {at_s:g} s")
    return Decision(at_s, "check", {"job": verdict}, role)


def _is_change(at_s: Instant) -> bool:
    return at_s > 0 and at_s % _CHANGE_EVERY_S == 0


def _is_new(at_s: Instant) -> bool:
    """Whether something new was said at a time: a change was decided, or a size was seen for the first time."""
    return at_s == 0 or _is_change(at_s) or _is_change(at_s - _TICK_S)


def _acting(journal: Journal) -> list[Decision]:
    return [decision for decision in journal.decisions() if decision.role is Role.ACTING]


def _range(first_s: float, end_s: float, step_s: float) -> list[float]:
    return [first_s + step_s * number for number in range(math.ceil((end_s - first_s) / step_s))]
