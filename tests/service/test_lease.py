"""One service leads at a time, whatever happens to it and whatever its clock shows."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, Engine, StaticPool, create_engine, event, func, select
from sqlalchemy.exc import DBAPIError

from headgate.core.errors import DeposedError
from headgate.journal.postgres import IDLE_WITHIN_S, postgres_engine
from headgate.service.lease import Lease, Term, database_now, fence, make_lease_table
from headgate.testing import FakeClock

LASTS_S = 4.0


class Services:
    """Several services on one database in memory, whose clock the test sets, and each with a clock of its own."""

    def __init__(self, count: int) -> None:
        self.clock = FakeClock(1e9)
        self.jump_s = 0.0
        """How far the clock of the database has jumped."""
        self.engine = create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
        event.listen(self.engine, "connect", self._set_clock)
        make_lease_table(self.engine)
        self.skews_s = [137.0 * number for number in range(count)]
        self.leases = [
            Lease(
                self.engine.begin,
                f"service-{number}",
                f"http://127.0.0.1:{number}",
                database_now=func.headgate_now(),
                lasts_s=LASTS_S,
                now=lambda skew_s=skew_s: self.clock.now() + skew_s,  # type: ignore[misc]  # a value of its own for each
            )
            for number, skew_s in enumerate(self.skews_s)
        ]
        self.terms: list[Term | None] = [None] * count

    def _set_clock(self, connection: object, record: object) -> None:
        connection.create_function("headgate_now", 0, lambda: self.clock.now() + self.jump_s)  # type: ignore[attr-defined]  # sqlite3's own

    def holds(self, number: int) -> bool:
        term = self.terms[number]
        return term is not None and term.holds(self.clock.now() + self.skews_s[number])

    def may_write(self, number: int) -> bool:
        term = self.terms[number]
        if term is None:
            return False
        try:
            with self.engine.begin() as connection:
                fence(term.token)(connection)
        except DeposedError:
            return False
        return True


@pytest.fixture
def two() -> Iterator[Services]:
    services = Services(2)
    yield services
    services.engine.dispose()


def test_a_second_service_gets_the_lease_only_after_it_has_expired(two: Services) -> None:
    first, second = two.leases
    two.terms[0] = first.acquire()
    assert two.terms[0] is not None
    assert two.terms[0].token == 1
    assert second.acquire() is None
    two.clock.advance(LASTS_S - 0.1)
    assert second.acquire() is None
    two.clock.advance(0.1)
    two.terms[1] = second.acquire()
    assert two.terms[1] is not None
    assert two.terms[1].token == 2
    assert not two.may_write(0)
    assert two.may_write(1)


def test_a_renewed_lease_continues_with_its_token(two: Services) -> None:
    first, second = two.leases
    term = first.acquire()
    for _ in range(5):
        assert term is not None
        two.clock.advance(LASTS_S / 2)
        term = first.renew(term)
        assert second.acquire() is None
    assert term is not None
    assert term.token == 1


def test_a_late_leader_goes_on_if_nobody_led_since_and_not_otherwise(two: Services) -> None:
    first, second = two.leases
    term = first.acquire()
    assert term is not None
    two.clock.advance(10 * LASTS_S)
    assert first.renew(term) is not None
    two.clock.advance(10 * LASTS_S)
    assert second.acquire() is None, "it cannot know yet that the leader is gone"
    two.clock.advance(LASTS_S)
    assert second.acquire() is not None
    assert first.renew(term) is None


@pytest.mark.parametrize("jump_s", [-3600.0, 3600.0])
def test_a_clock_of_the_database_that_jumps_neither_keeps_others_from_leading_nor_lets_two_lead(
    two: Services, jump_s: float
) -> None:
    first, second = two.leases
    two.terms[0] = first.acquire()
    for _ in range(4):
        assert second.acquire() is None
        two.clock.advance(LASTS_S / 4)
        two.terms[0] = first.renew(two.terms[0])  # type: ignore[arg-type]  # it has one
    two.jump_s = jump_s
    assert second.acquire() is None, "the leader is there"
    two.clock.advance(LASTS_S / 4)
    two.terms[0] = first.renew(two.terms[0])  # type: ignore[arg-type]  # as above
    assert two.holds(0)
    assert second.acquire() is None
    two.clock.advance(LASTS_S)
    two.terms[1] = second.acquire()
    assert two.terms[1] is not None
    assert (two.holds(0), two.holds(1), two.may_write(0)) == (False, True, False)


def test_a_service_that_has_just_started_leaves_a_released_lease_to_others_for_a_moment(two: Services) -> None:
    first, second = two.leases
    term = first.acquire()
    assert term is not None
    first.release(term)
    assert second.acquire(LASTS_S / 2) is None
    two.clock.advance(LASTS_S / 2)
    assert second.acquire(LASTS_S / 2) is not None


def test_a_lease_that_is_let_go_can_be_taken_at_once(two: Services) -> None:
    first, second = two.leases
    term = first.acquire()
    assert term is not None
    first.release(term)
    assert second.acquire() is not None
    first.release(term)
    assert first.acquire() is None, "letting go of what another holds changes nothing"


def test_the_leader_is_known_to_others(two: Services) -> None:
    first, second = two.leases
    assert second.leader() is None
    first.acquire()
    two.clock.advance(1.0)
    leader = second.leader()
    assert leader is not None
    assert (leader.token, leader.holder, leader.url) == (1, "service-0", "http://127.0.0.1:0")
    assert leader.left_s == pytest.approx(LASTS_S - 1)


ACTIONS = st.tuples(
    st.sampled_from(["acquire", "renew", "release", "die", "jump forward", "jump back"]),
    st.integers(0, 2),
    st.sampled_from([0.0, 0.5, 1.0, 3.0, 4.0]),
)


@given(st.lists(ACTIONS, max_size=40))
def test_whatever_happens_one_leads_at_most_and_only_the_last_may_write(actions: list[tuple[str, int, float]]) -> None:
    services = Services(3)
    newest = 0
    try:
        for action, number, pause_s in actions:
            lease, term = services.leases[number], services.terms[number]
            if action == "acquire":
                services.terms[number] = lease.acquire() or term
            elif action == "renew" and term is not None:
                services.terms[number] = lease.renew(term)
            elif action == "release" and term is not None:
                lease.release(term)
                services.terms[number] = None
            elif action.startswith("jump"):
                services.jump_s += 500.0 if action == "jump forward" else -500.0
            elif action == "die":
                services.terms[number] = None
            newest = max([newest, *(term.token for term in services.terms if term is not None)])
            assert sum(services.holds(index) for index in range(3)) <= 1
            writers = [index for index in range(3) if services.may_write(index)]
            assert len(writers) <= 1
            assert all(services.terms[index].token == newest for index in writers)  # type: ignore[union-attr]  # they have one
            assert set(writers) >= {index for index in range(3) if services.holds(index)}, "who leads can write"
            services.clock.advance(pause_s)
    finally:
        services.engine.dispose()


# ------------------------------------------------------------------------------------------------------ on PostgreSQL

CONTENDER = """
import sys, time
from sqlalchemy import text
from headgate.journal.postgres import postgres_engine
from headgate.core.errors import DeposedError
from headgate.service.lease import Lease, database_now, fence
engine = postgres_engine(sys.argv[1])
lease = Lease(engine.begin, sys.argv[2], "", database_now=database_now(engine), lasts_s=0.3)
token = 0
while token < 6:
    term = lease.acquire()
    if term is None:
        time.sleep(0.01)
        continue
    token = term.token
    # It is never renewed: it goes on writing until it is refused.
    try:
        while token < 6:
            with engine.begin() as connection:
                fence(token)(connection)
                connection.execute(text("INSERT INTO writes (token, holder) VALUES (:token, :holder)"),
                                   {"token": token, "holder": sys.argv[2]})
            time.sleep(0.005)
    except DeposedError:
        pass
"""


@contextmanager
def opened(url: str) -> Iterator[Engine]:
    engine = postgres_engine(url)
    try:
        make_lease_table(engine)
        yield engine
    finally:
        engine.dispose()


def test_processes_that_never_let_go_write_one_after_the_other(database_url: str) -> None:
    with opened(database_url) as engine:
        with engine.begin() as connection:
            connection.exec_driver_sql("CREATE TABLE writes (id bigserial, token bigint, holder text)")
        contenders = [
            subprocess.Popen([sys.executable, "-c", CONTENDER, database_url, name], cwd=Path(__file__).parents[2])
            for name in ("one", "other")
        ]
        assert [contender.wait(timeout=120) for contender in contenders] == [0, 0]
        with engine.begin() as connection:
            rows = [tuple(row) for row in connection.exec_driver_sql("SELECT token, holder FROM writes ORDER BY id")]
    assert [token for token, _ in rows] == sorted(token for token, _ in rows), "a write of a deposed leader came late"
    assert len({token for token, _ in rows}) == len(set(rows)), "two wrote under one token"
    assert {holder for _, holder in rows} == {"one", "other"}


def test_taking_the_lease_waits_for_a_write_that_passed_the_fence(database_url: str) -> None:
    with opened(database_url) as engine:
        first = Lease(engine.begin, "first", "", database_now=database_now(engine), lasts_s=0.0)
        second = Lease(within(engine, wait_s=0.3), "second", "", database_now=database_now(engine), lasts_s=0.0)
        term = first.acquire()
        assert term is not None
        with engine.begin() as connection:
            fence(term.token)(connection)
            with pytest.raises(Exception, match="lock timeout"):
                second.acquire()
        assert second.acquire() is not None
        with pytest.raises(DeposedError, match="token 1"), engine.begin() as connection:
            fence(term.token)(connection)


def test_a_leader_that_is_cut_off_within_a_write_does_not_keep_others_from_leading(database_url: str) -> None:
    with opened(database_url) as engine, opened(database_url) as other:
        term = Lease(engine.begin, "first", "", database_now=database_now(engine), lasts_s=0.0).acquire()
        assert term is not None
        with engine.connect() as cut_off:
            fence(term.token)(cut_off)
            requested_s = time.monotonic()
            second = Lease(within(other, wait_s=60), "second", "", database_now=database_now(other), lasts_s=0.0)
            assert second.acquire() is not None
            assert time.monotonic() - requested_s >= IDLE_WITHIN_S / 2, (
                "it waited for the write, until that was given up"
            )
            with pytest.raises(DBAPIError):
                cut_off.execute(select(1))


def within(engine: Engine, wait_s: float) -> Callable[[], AbstractContextManager[Connection]]:
    @contextmanager
    def transaction() -> Iterator[Connection]:
        with engine.begin() as connection:
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{round(1000 * wait_s)}ms'")
            yield connection

    return transaction


def test_the_clock_of_postgres_is_read(database_url: str) -> None:
    with opened(database_url) as engine:
        lease = Lease(engine.begin, "one", "", database_now=database_now(engine))
        with engine.begin() as connection:
            shown_s = connection.execute(select(func.extract("epoch", func.clock_timestamp()))).scalar_one()
        assert lease.database_time_s() == pytest.approx(float(shown_s), abs=5)
