"""The client against a service that runs, over a socket, on a clock that the test sets."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

import headgate
from headgate.client import Client
from headgate.core.errors import InputError, ServiceAwayError
from headgate.service.serving import ApiServer
from tests.service.services import Served, served


@pytest.fixture(scope="module")
def here() -> Iterator[Served]:
    with served() as found:
        yield found


@pytest.fixture(scope="module")
def url(here: Served) -> Iterator[str]:
    with ApiServer(here.app) as server:
        yield server.url


@pytest.fixture
def client(here: Served, url: str) -> Iterator[Client]:
    with Client(url, here.tokens["operator"]) as client:
        yield client


def test_it_reads_all_there_is(here: Served, client: Client) -> None:
    here.report(sample={"operator": "count", "at_age_s": 0.0, "arrived": 10, "done": 10, "backlog": 0})
    here.tick(10.0)
    assert client.service()["jobs"] == 1
    assert [job["name"] for job in client.jobs()] == ["clicks"]
    assert client.job("clicks")["state"] == "partial"
    assert [operator["name"] for operator in client.operators("clicks")] == ["parse", "count"]
    assert client.readings("clicks", operator="count")[-1]["samples"]["count"]["arrived"] == 10
    assert client.decisions("clicks")[-1]["policy"] == "reactive"
    assert client.decisions("clicks", holds=False) == []
    assert "agent-joined" in [event["kind"] for event in client.events("clicks")]
    assert client.policy("clicks")["policy"] == "reactive"
    assert "autopilot" in [policy["name"] for policy in client.policies()]
    assert client.objective("clicks")["objective"] == "latency p95 < 10s"
    assert client.budget("clicks")["spending"]["per_hour"] > 0
    assert client.rules("clicks") is None


def test_it_changes_all_there_is_to_change(client: Client) -> None:
    client.pause("clicks", why="a try", direction="in", lasts="1h")
    assert [change["kind"] for change in client.changes("clicks")] == ["pause"]
    assert len(client.resume("clicks", why="tried")) == 1
    client.force_size("clicks", "count", 2, lasts=60, why="a try")
    client.set_mode("clicks", "recommend", why="a try")
    client.set_period("clicks", "night", forbid="scale in", during=["* 22-5 * * *"], why="a try")
    client.set_policy("clicks", "static", settings={"instances": 2}, why="a try")
    client.set_settings("clicks", settings={"instances": 3}, why="a try")
    client.set_bounds("clicks", "count", 1, 6, why="a try")
    client.set_objective("clicks", "latency p99 < 2s", why="a try")
    client.set_rules("clicks", "version: 1\nconstraints: [{name: few, at_most: 2}]\n", why="a try")
    for change in client.changes("clicks"):
        client.revert("clicks", change["kind"], change["name"], why="tried")
    assert client.changes("clicks") == []
    assert {entry["why"] for entry in client.audit("clicks")} == {"a try", "tried"}


def test_it_releases_an_agent_for_another(here: Served, client: Client) -> None:
    assert here.report().status_code == 200
    assert here.report(agent="new").status_code == 503
    assert client.release("clicks", "count", why="its machine hangs")["what"] == "agent of count"
    assert here.report(agent="new").status_code == 200
    assert here.report().status_code == 409, "the former one is not used any longer"
    with pytest.raises(InputError, match="unknown operator 'cuont', did you mean 'count'"):
        client.release("clicks", "cuont", why="a slip")


def test_it_hears_of_what_is_new(here: Served, client: Client) -> None:
    entries = client.listen("clicks", since=0)
    assert next(entries)[0] == "event"
    assert next(data for kind, data in entries if kind == "decision")["job"] == "clicks"
    timer = threading.Timer(0.2, lambda: here.client("operator").put("/v1/jobs/clicks/pause", json={"why": "now"}))
    timer.start()
    assert any(kind == "change" and data["change"]["why"] == "now" for kind, data in entries)
    timer.join()
    client.resume("clicks", why="received")


def test_what_is_refused_is_a_sentence(url: str, client: Client) -> None:
    with pytest.raises(InputError, match="unknown job 'clicsk', did you mean 'clicks'"):
        client.job("clicsk")
    with Client(url, "wrong") as stranger, pytest.raises(InputError, match="a valid token is needed"):
        stranger.jobs()
    with Client(url) as nobody:
        assert nobody.jobs()
        with pytest.raises(InputError, match="a valid token of scope operate is needed"):
            nobody.pause("clicks", why="x")
    with Client("http://127.0.0.1:9") as away, pytest.raises(ServiceAwayError, match="does not answer"):
        away.jobs()
    with pytest.raises(InputError, match="service 'localhost' is not usable"):
        Client("localhost")


def test_it_is_found_by_its_short_name() -> None:
    assert headgate.Client is Client
