"""A client that knows several services uses the leader, and the pages of the others link to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest

from headgate.client import Client
from headgate.core.errors import ServiceAwayError
from headgate.local.machine import LOOPBACK, free_ports
from tests.cli.commands import headgate
from tests.service.several import SECRET, Services

HTML = {"Accept": "text/html"}


@pytest.fixture
def two() -> Iterator[Services]:
    with ExitStack() as stack:
        yield Services(stack, 2)


def test_the_leader_is_used_and_found_again_when_it_changes(two: Services) -> None:
    with Client(two.urls, SECRET) as client:
        for leader in (1, 0, 1):
            two.let_lead(leader)
            client.pause("clicks", why=f"by {leader}")
            assert client.url == two.urls[leader]
            paused = [[change.why for change in service.fleet.job("clicks").changes] for service in two.all]
            assert paused[leader] == [f"by {leader}"]
            assert next(client.listen("clicks", since=0))[0] == "event"


def test_one_that_cannot_be_reached_is_passed_over(two: Services) -> None:
    (nobody,) = free_ports(1)
    two.let_lead(1)
    with Client(f"http://{LOOPBACK}:{nobody},{','.join(two.urls)}", SECRET) as client:
        assert [job["name"] for job in client.jobs()] == ["clicks"]
    with Client(f"http://{LOOPBACK}:{nobody}") as client, pytest.raises(ServiceAwayError, match="does not answer"):
        client.jobs()


def test_a_standby_that_is_named_alone_says_where_the_leader_is(two: Services) -> None:
    standby, leader = two.urls
    two.let_lead(1)
    message = f"{standby}: this service stands by; {leader} leads. Name that one, too: {standby},{leader}."
    with Client(standby, SECRET) as client, pytest.raises(ServiceAwayError) as away:
        client.jobs()
    assert message in str(away.value)
    refused = headgate("status", "--service", standby)
    assert (refused.exit_code, leader in refused.stderr) == (1, True)
    assert "clicks" in headgate("status", "--service", f"{standby},{leader}").stdout
    two.let_lead(None)
    with Client(two.urls, SECRET) as client, pytest.raises(ServiceAwayError, match="another one leads"):
        client.jobs()


def test_a_page_of_one_that_stands_by_leads_to_the_same_page_of_the_leader(two: Services) -> None:
    two.let_lead(1)
    for path in ("/", "/jobs/clicks?span=1h"):
        page = httpx.get(f"{two.urls[0]}{path}", headers=HTML)
        assert page.status_code == 503
        assert "This service stands by" in page.text
        assert f'href="{two.urls[1]}{path}"' in page.text
        assert page.headers["Refresh"] == "5", "it may come to lead in a moment"
    assert httpx.get(f"{two.urls[0]}/live", headers={"Accept": "text/event-stream"}).status_code == 421
    two.let_lead(None)
    page = httpx.get(f"{two.urls[0]}/", headers=HTML)
    assert "It stands by; another one leads, or soon will." in page.text
    assert "Go to the leader" not in page.text
