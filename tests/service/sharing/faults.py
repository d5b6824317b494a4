"""Services that share a PostgreSQL, killed and cut off while agents report, and checks of their journal."""

from __future__ import annotations

import itertools
import math
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from headgate.core.errors import HeadgateError
from headgate.core.types import Decision, Role
from headgate.journal.postgres import PostgresJournal
from headgate.local.machine import LOOPBACK, free_ports
from headgate.service.lease import Leader
from headgate.service.scheduler import phase_of
from headgate.service.store import open_store
from headgate.service.store.tokens import Scope
from tests.postgres import PostgresServer
from tests.service.sharing.jobs import Jobs
from tests.service.sharing.proxy import Proxy
from tests.service.sharing.spawner import ServicePlan, Spawner


@dataclass(frozen=True)
class Place:
    """Where one service runs: its port, and the networks between it and others."""

    listens: int
    agents: Proxy
    database: Proxy

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.agents.port}"


@dataclass
class Faults:
    """What was done to the services, and when."""

    kills_s: list[float] = field(default_factory=list)
    disturbed_s: list[tuple[float, float]] = field(default_factory=list)
    """When the database or the network was away, besides."""


class Sharing:
    """Some services at work for some jobs."""

    def __init__(
        self, postgres: PostgresServer, url: str, places: list[Place], spawner: Spawner, plan: ServicePlan
    ) -> None:
        self.postgres = postgres
        self.url = url
        self.places = places
        self.faults = Faults()
        self._spawner = spawner
        self._plan = plan
        self._store = open_store(url)
        self._lease = self._store.lease("test", "", 1.0)
        self.jobs = Jobs(plan.jobs, [place.url for place in places], self._store.tokens.make("agents", {Scope.AGENT}))
        self._pids = [self._start(place) for place in places]

    @property
    def interval_s(self) -> float:
        return self._plan.interval_s

    def _start(self, place: Place) -> int:
        store = self.url.replace(f":{self.postgres.port}/", f":{place.database.port}/")
        plan = ServicePlan(
            store, place.listens, place.agents.port, self._plan.jobs, self._plan.interval_s, self._plan.log
        )
        return self._spawner.start(plan)

    def close(self) -> None:
        self.jobs.stop()
        self._store.close()

    # ---------------------------------------------------------------------------------------------------- to be waited

    def leader(self) -> Leader | None:
        try:
            return self._lease.leader()
        except HeadgateError:
            return None

    def await_leader(self, after: int = 0, within_s: float = 120.0) -> Leader:
        """A leader of a later term than this."""
        until_s = time.monotonic() + within_s
        while time.monotonic() < until_s:
            leader = self.leader()
            if leader is not None and leader.token > after and leader.left_s > 0:
                return leader
            time.sleep(0.05)
        raise AssertionError(f"nobody leads after term {after}, {within_s:g} s later")

    def await_settled(self, within_s: float = 180.0) -> None:
        until_s = time.monotonic() + within_s
        while not self.jobs.settled:
            sizes = [(job.name, job.size, job.load) for job in self.jobs.all if not job.is_settled]
            assert time.monotonic() < until_s, f"not settled after {within_s:g} s: {sizes}"
            time.sleep(0.1)

    # --------------------------------------------------------------------------------------------------- to be broken

    def index_of(self, leader: Leader) -> int:
        return next(number for number, place in enumerate(self.places) if place.url == leader.url)

    def kill_leader(self) -> Leader:
        """Kill the leader with SIGKILL, start it again, and return who led."""
        leader = self.await_leader()
        number = self.index_of(leader)
        self.faults.kills_s.append(time.time())
        self._spawner.kill(self._pids[number])
        self._pids[number] = self._start(self.places[number])
        return leader

    def restart_database(self, how: signal.Signals = signal.SIGINT, away_s: float = 1.0) -> None:
        with self._disturbed():
            self.postgres.stop(how)
            time.sleep(away_s)
            self.postgres.start()

    def cut(self, proxies: list[Proxy], away_s: float) -> None:
        with self._disturbed():
            for proxy in proxies:
                proxy.cut()
            time.sleep(away_s)
            for proxy in proxies:
                proxy.restore()

    @contextmanager
    def _disturbed(self) -> Iterator[None]:
        began_s = time.time()
        yield
        self.faults.disturbed_s.append((began_s, time.time()))


@contextmanager
def sharing(
    postgres: PostgresServer, folder: Path, *, services: int, jobs: int, interval_s: float
) -> Iterator[Sharing]:
    url = postgres.new_database()
    with ExitStack() as stack:
        ports = free_ports(services)
        places = [
            Place(port, stack.enter_context(Proxy(port)), stack.enter_context(Proxy(postgres.port))) for port in ports
        ]
        spawner = stack.enter_context(Spawner())
        shared = Sharing(postgres, url, places, spawner, ServicePlan("", 0, 0, jobs, interval_s, str(folder / "log")))
        stack.callback(shared.close)
        shared.jobs.start()
        yield shared


# ------------------------------------------------------------------------------------------------------ measurements


@dataclass(frozen=True)
class Judged:
    """Measurements of a run, from the journal and the jobs."""

    decisions: int
    changes: int
    runs: int
    wrong: list[str]
    """Changes of size away from what the load needed."""
    doubled: list[str]
    """Intervals of jobs in which more than one decision was made."""
    lost: list[str]
    """Sizes that an agent received, but that no decision explains."""
    gaps_s: list[float]
    """From each kill until all jobs were decided on again, where nothing else was broken and nobody else killed."""
    restored_s: list[float]
    """From when a database or network was there again until all jobs were decided on, where nobody was killed."""
    at_most_s: float
    answers: int
    failures: int


def judged(shared: Sharing) -> Judged:
    journal = PostgresJournal.read(shared.url)
    try:
        decided = {
            job.name: sorted(
                (
                    decision
                    for number, _ in journal.runs(job.name)
                    for decision in journal.decisions(run=number)
                    if decision.role is Role.ACTING
                ),
                key=lambda decision: decision.at_s,
            )
            for job in shared.jobs.all
        }
        runs = len(journal.runs())
    finally:
        journal.close()
    memory_s = 4 * shared.interval_s
    killed = [(at_s, at_s) for at_s in shared.faults.kills_s]
    wrong = [f"{job.name} {change}" for job in shared.jobs.all for change in job.wrong_changes(memory_s)]
    return Judged(
        decisions=sum(map(len, decided.values())),
        changes=sum(len(job.changes) for job in shared.jobs.all),
        runs=runs,
        wrong=wrong,
        doubled=[text for name, found in decided.items() for text in _doubled(name, found, shared.interval_s)],
        lost=[
            text
            for job, controller in zip(shared.jobs.all, shared.jobs.controllers, strict=True)
            for text in _lost(job.name, [size for _, size in controller.received], decided[job.name])
        ],
        gaps_s=_gaps(shared.faults.kills_s, decided, [*killed, *shared.faults.disturbed_s]),
        restored_s=_gaps([ended_s for _, ended_s in shared.faults.disturbed_s], decided, killed),
        at_most_s=2 * shared.interval_s,
        answers=sum(controller.answers for controller in shared.jobs.controllers),
        failures=sum(controller.failures for controller in shared.jobs.controllers),
    )


def _doubled(job: str, decided: list[Decision], interval_s: float) -> Iterator[str]:
    phase_s = phase_of(job, interval_s)
    slots = [math.floor((decision.at_s - phase_s) / interval_s) for decision in decided]
    for (first, slot), (other, next_slot) in itertools.pairwise(zip(decided, slots, strict=True)):
        if slot == next_slot:
            yield f"{job} at {first.at_s:.3f} and {other.at_s:.3f}"


def _lost(job: str, received: list[int], decided: list[Decision]) -> Iterator[str]:
    """Yield the received sizes that are not those of decisions in the order in which they were made."""
    targets = [target for decision in decided for target in decision.targets.values()]
    at = 0
    for size in received:
        found = next((index for index in range(at, len(targets)) if targets[index] == size), None)
        if found is None:
            yield f"{job} received {size} after {at} decisions"
        else:
            at = found


def _gaps(
    moments_s: list[float], decided: dict[str, list[Decision]], others_s: list[tuple[float, float]]
) -> list[float]:
    """From each moment until every job was decided on, where nothing else happened in between."""
    gaps_s = []
    for moment_s in moments_s:
        later = {
            job: [decision.at_s for decision in found if decision.at_s > moment_s] for job, found in decided.items()
        }
        if not all(later.values()):
            continue  # The run ended before.
        next_s = max(min(times_s) for times_s in later.values())
        if not any(began_s <= next_s and ended_s > moment_s for began_s, ended_s in others_s):
            gaps_s.append(next_s - moment_s)
    return gaps_s
