"""Of several services one leads, whatever breaks: no decision is lost, doubled or wrong, and the next comes soon."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest

from tests.postgres import PostgresServer
from tests.service.sharing.faults import Judged, Sharing, judged, sharing


def ensure_nothing_went_wrong(found: Judged) -> None:
    assert found.wrong == []
    assert found.doubled == []
    assert found.lost == []


def shake(shared: Sharing, kills: int, seed: int = 1) -> None:
    """Kill the leader at any moment, again and again."""
    numbers = random.Random(seed)
    for _ in range(kills):
        term = shared.await_leader().token
        time.sleep(numbers.uniform(0, 2 * shared.interval_s))
        shared.kill_leader()
        shared.await_leader(after=term)


def test_another_service_leads_on_when_the_leader_is_killed_cut_off_or_without_its_database(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    with sharing(postgres, tmp_path, services=2, jobs=4, interval_s=3.0) as shared:
        shared.await_settled()
        shake(shared, kills=2)
        for job in shared.jobs.all:
            job.set_load(2 * job.load)
        shared.await_settled()
        shared.restart_database(signal.SIGQUIT)
        leader = shared.await_leader()
        place = shared.places[shared.index_of(leader)]
        shared.cut([place.database], away_s=5.0)
        shared.await_leader(after=leader.token)
        for job in shared.jobs.all:
            job.set_load(job.load / 2)
        shared.await_settled()
        found = judged(shared)
    ensure_nothing_went_wrong(found)
    assert found.runs >= 4 * 4
    assert found.changes >= 3 * 4


@pytest.mark.soak
@pytest.mark.timeout(5400)
def test_a_hundred_kills_under_the_load_of_fifty_agents(postgres: PostgresServer, tmp_path: Path) -> None:
    numbers = random.Random(7)
    with sharing(postgres, tmp_path, services=3, jobs=50, interval_s=5.0) as shared:
        shared.await_settled()
        for turn in range(10):
            shake(shared, kills=10, seed=turn)
            job = numbers.choice(shared.jobs.all)
            job.set_load(min(8.0, 1.7 * job.load))
            place = numbers.choice(shared.places)
            if turn % 3 == 0:
                shared.restart_database(numbers.choice([signal.SIGINT, signal.SIGQUIT]), away_s=numbers.uniform(0, 8))
            elif turn % 3 == 1:
                shared.cut([place.database], away_s=numbers.uniform(1, 12))
            else:
                shared.cut([place.agents], away_s=numbers.uniform(1, 12))
        shared.await_settled()
        found = judged(shared)
        (tmp_path / "judged").write_text(repr(found))
    ensure_nothing_went_wrong(found)
    assert len(shared.faults.kills_s) == 100
    assert max(found.gaps_s) <= found.at_most_s, sorted(found.gaps_s)
