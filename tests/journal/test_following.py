"""Following a journal that others write: all that is new, once, in whatever order it is committed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from sqlalchemy import insert, select

from headgate.core.types import Answer, Decision, Instances, Observation, Outcome, Receipt, Run, Verdict
from headgate.journal import database
from headgate.journal.database import JournalFollower
from headgate.journal.postgres import PostgresDatabase, PostgresJournal

RUN = Run(0.0, "check", {}, "latency p95 < 10s", "agents", ("job",), job="orders")


@pytest.fixture
def journal(database_url: str) -> Iterator[PostgresJournal]:
    with closing(PostgresJournal(database_url)) as opened:
        opened.begin(RUN)
        yield opened


def seen(at_s: float) -> Observation:
    return Observation(at_s, {}, {"job": Instances(2, 2, 2)})


def times_s(following: JournalFollower) -> list[float]:
    return [entry.entry.at_s for entry in following.new_entries()]


def test_new_entries_are_returned_once_with_their_run(journal: PostgresJournal) -> None:
    journal.observed(seen(1.0))
    following = JournalFollower(journal)
    assert following.new_entries() == []
    decision = Decision(2.0, "check", {"job": Verdict("job", 2, 3, 3, "check", "grown")})
    receipt = Receipt(2.1, {"job": Answer(Outcome.ACCEPTED, 3)})
    journal.observed(seen(2.0))
    journal.decided(decision)
    journal.received(receipt)
    found = following.new_entries()
    assert [entry.entry for entry in found] == [seen(2.0), decision, receipt]
    assert {(entry.number, entry.run.job) for entry in found} == {(1, "orders")}
    assert following.new_entries() == []


def test_what_is_committed_after_something_newer_is_not_missed(journal: PostgresJournal, database_url: str) -> None:
    following = JournalFollower(journal)
    journal.observed(seen(1.0))
    assert times_s(following) == [1.0]
    copied = select(*(column for column in database.observations.c if column.name != "id"))
    postgres = PostgresDatabase(database_url)
    with postgres.engine.connect() as other:
        (row,) = other.execute(copied)
        other.execute(insert(database.observations).values(row._mapping))
        journal.observed(seen(3.0))
        assert times_s(following) == [3.0]
        other.commit()
    assert times_s(following) == [1.0], "the copy, whose number is the lower one"
    assert following.new_entries() == []
    postgres.engine.dispose()
