"""A service leads while it holds the lease, continues if no other has led since, and otherwise releases its jobs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import StaticPool, create_engine, event, func

from headgate.core.errors import DeposedError, JournalError
from headgate.service.lease import Lease, make_lease_table
from headgate.service.standby import Standby
from headgate.testing import FakeClock

LASTS_S = 4.0


class Led:
    """A service that records its actions; taking on its jobs may be held up, or fail."""

    def __init__(self) -> None:
        self.actions: list[str] = []
        self.may_finish = threading.Event()
        self.may_finish.set()
        self.fails_with: Exception | None = None
        self.is_warm = True
        self.looks = 0

    def stand_by(self) -> None:
        self.looks += 1

    def lead(self, token: int, may_continue: Callable[[], bool]) -> None:
        while may_continue() and not self.may_finish.wait(0.001):
            pass
        if self.fails_with is not None:
            raise self.fails_with
        self.actions.append(f"leads {token}" if may_continue() else f"gives up {token}")

    def step_down(self) -> None:
        self.actions.append("steps down")


class Rivals:
    """Two services over one lease, on clocks that the test sets."""

    def __init__(self) -> None:
        self.clock = FakeClock(1000.0)
        self.is_away = False
        self.engine = create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
        event.listen(
            self.engine, "connect", lambda made, record: made.create_function("headgate_now", 0, self.clock.now)
        )
        make_lease_table(self.engine)
        self.led = [Led(), Led()]
        self.standbys = [Standby(self._lease(number), led, self.clock.now) for number, led in enumerate(self.led)]

    def _lease(self, number: int) -> Lease:
        def transaction() -> object:
            if self.is_away:
                raise JournalError("the database is away.")
            return self.engine.begin()

        return Lease(
            transaction,  # type: ignore[arg-type]  # it gives what begin does, or raises
            f"service-{number}",
            f"http://127.0.0.1:{number}",
            database_now=func.headgate_now(),
            lasts_s=LASTS_S,
            now=self.clock.now,
        )

    def pass_time(self, seconds: float, *steps: int) -> None:
        """Let time pass, in which these look at the lease, one after the other."""
        self.clock.advance(seconds)
        for number in steps:
            self.standbys[number].step()

    def leads(self, number: int) -> bool:
        return self.standbys[number].leads

    def await_leading(self, number: int) -> None:
        until_s = time.monotonic() + 60
        while not self.standbys[number].is_complete:
            assert time.monotonic() < until_s, "it does not lead"
            time.sleep(0.001)


@pytest.fixture
def rivals() -> Iterator[Rivals]:
    two = Rivals()
    yield two
    for standby in two.standbys:
        standby.stop()
    two.engine.dispose()


def test_the_first_leads_and_the_other_knows_where_it_is(rivals: Rivals) -> None:
    rivals.pass_time(0, 0, 1)
    rivals.await_leading(0)
    first, other = rivals.standbys
    assert (first.token, first.leader_url) == (1, "")
    assert not other.leads
    assert other.leader_url == "http://127.0.0.1:0"


def test_a_leader_that_is_gone_is_followed_when_its_lease_has_ended(rivals: Rivals) -> None:
    rivals.pass_time(0, 0, 1)
    rivals.pass_time(LASTS_S - 0.1, 1)
    assert rivals.led[1].actions == []
    rivals.pass_time(0.1, 1)
    rivals.await_leading(1)
    assert not rivals.leads(0), "by its own clock, though it has not looked since"
    rivals.pass_time(0, 0)
    assert rivals.led[0].actions == ["leads 1", "steps down"]
    assert rivals.led[1].actions == ["leads 2"]


def test_without_its_database_a_leader_stops_in_time_and_goes_on_afterwards(rivals: Rivals) -> None:
    rivals.pass_time(0, 0)
    rivals.await_leading(0)
    rivals.is_away = True
    rivals.pass_time(LASTS_S - 0.1, 0, 1)
    assert rivals.leads(0)
    rivals.pass_time(0.1, 0, 1)
    assert not rivals.leads(0)
    assert "away" in rivals.standbys[0].problem
    rivals.is_away = False
    rivals.pass_time(0, 0)
    assert rivals.leads(0)
    assert rivals.standbys[0].problem == ""
    assert rivals.led[0].actions == ["leads 1"], "its jobs are unchanged"


def test_it_leads_while_it_takes_on_jobs_and_gives_up_when_it_is_deposed_meanwhile(rivals: Rivals) -> None:
    rivals.led[0].may_finish.clear()
    rivals.pass_time(0, 0, 1)
    assert rivals.standbys[0].token == 1
    assert rivals.leads(0)
    assert not rivals.standbys[0].is_complete
    rivals.pass_time(LASTS_S, 1)
    rivals.await_leading(1)
    rivals.pass_time(0, 0)
    assert rivals.led[0].actions == ["gives up 1", "steps down"]
    assert not rivals.leads(0)


@pytest.mark.parametrize("error", [RuntimeError("a defect"), DeposedError("another service leads.")])
def test_who_cannot_take_on_the_jobs_does_not_keep_others_from_leading(rivals: Rivals, error: Exception) -> None:
    rivals.led[0].fails_with = error
    rivals.pass_time(0, 0, 1)
    thread = rivals.standbys[0]._taking_on
    assert thread is not None
    thread.join()
    if isinstance(error, RuntimeError):
        rivals.pass_time(1, 0, 1)
    else:
        rivals.pass_time(LASTS_S, 1)
    rivals.await_leading(1)
    assert not rivals.leads(0)


def test_who_has_just_been_started_leaves_it_to_one_that_has_followed(rivals: Rivals) -> None:
    rivals.pass_time(0, 0, 1)
    assert (rivals.led[0].looks, rivals.led[1].looks) == (0, 1)
    rivals.led[1].is_warm = False
    rivals.pass_time(LASTS_S, 1)
    assert not rivals.leads(1), "another may know the jobs"
    rivals.pass_time(LASTS_S / 2, 1)
    rivals.await_leading(1)


def test_a_leader_that_stops_lets_another_lead_at_once(rivals: Rivals) -> None:
    rivals.pass_time(0, 0)
    rivals.await_leading(0)
    rivals.standbys[0].stop()
    rivals.pass_time(0, 1)
    rivals.await_leading(1)
