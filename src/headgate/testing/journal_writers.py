"""Checks for journals that several may write at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import TypeAlias

from headgate.core.types import Event
from headgate.journal.contract import Journal
from headgate.testing.contract import ensure
from headgate.testing.journal_entries import RUN, ensure_equal, opened, write_one_of_each

OpenWriter: TypeAlias = Callable[[Journal], Journal]
"""Gives a second writer to what a journal writes to."""

_WRITERS = 4
_ENTRIES = 25


def writers_keep_to_their_runs(factory: Callable[[], Journal], open_writer: OpenWriter) -> None:
    """What a writer writes belongs to the run it began itself, whoever began one since."""
    with opened(factory) as one, closing(open_writer(one)) as other:
        numbers = one.begin(replace(RUN, job="orders")), other.begin(replace(RUN, job="clicks"))
        one.noted(Event(1.0, "check", "of the first"))
        other.noted(Event(2.0, "check", "of the second"))
        one.noted(Event(3.0, "check", "of the first again"))
        for reader in (one, other):
            told = [[event.at_s for event in reader.events(run=number)] for number in numbers]
            ensure_equal("events of the two runs", told, [[1.0, 3.0], [2.0]])


def a_second_writer_needs_its_own_run(factory: Callable[[], Journal], open_writer: OpenWriter) -> None:
    """A writer that has begun no run does not fall into that of another."""
    with opened(factory) as one, closing(open_writer(one)) as other:
        one.begin(RUN)
        try:
            write_one_of_each(other)
        except Exception:  # noqa: BLE001 - how it is refused is another check
            told = one.events(), one.decisions()
            ensure_equal("entries of the first writer", told, ([], []))
            return
        ensure(False, "a writer without a run wrote into that of another; it must raise JournalError")


def state_is_shared(factory: Callable[[], Journal], open_writer: OpenWriter) -> None:
    """What one writer has saved the other can load."""
    with opened(factory) as one, closing(open_writer(one)) as other:
        one.save_state("check", {"version": 1})
        ensure_equal("state saved by another writer", other.load_state("check"), {"version": 1})


def writers_wait_for_each_other(factory: Callable[[], Journal], open_writer: OpenWriter) -> None:
    """Several that write at the same moment lose nothing and mix nothing up."""
    failures: list[BaseException] = []

    def write(journal: Journal, job: str) -> None:
        try:
            journal.begin(replace(RUN, job=job))
            for at_s in range(_ENTRIES):
                journal.noted(Event(at_s, "check", job))
        except BaseException as error:  # noqa: BLE001 - told by the check, in its own thread
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
