"""Who may do what: scopes, machines, other sites, limits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from headgate.service import gate
from headgate.service.config.model import AccessRules
from headgate.service.gate import COOKIE, csrf_of
from headgate.service.store.tokens import Scope
from tests.service.services import Served, served

PAUSE = "/v1/jobs/clicks/pause"
REPORTS = "/v1/jobs/clicks/operators/count/reports"


@pytest.fixture(scope="module")
def here() -> Iterator[Served]:
    with served() as found:
        yield found


@pytest.mark.parametrize(
    ("who", "reads", "changes", "reports"),
    [(None, 200, 401, 401), ("reader", 200, 403, 403), ("operator", 200, 400, 403), ("agent", 403, 403, 400)],
)
def test_each_scope_may_do_its_own(here: Served, who: str | None, reads: int, changes: int, reports: int) -> None:
    client = here.client(who)
    assert client.get("/v1/jobs").status_code == reads
    assert client.put(PAUSE, json={}).status_code == changes
    assert client.post(REPORTS, json={}).status_code == reports


@pytest.mark.parametrize(
    ("address", "headers", "base_url", "status"),
    [
        ("127.0.0.1", {}, "http://localhost:8420", 200),
        ("::1", {}, "http://[::1]:8420", 200),
        ("10.0.0.7", {}, "http://127.0.0.1", 401),
        ("127.0.0.1", {"X-Forwarded-For": "10.0.0.7"}, "http://127.0.0.1", 401),
        ("127.0.0.1", {}, "http://attacker.example", 401),
        ("127.0.0.1", {"Authorization": "Bearer wrong"}, "http://127.0.0.1", 401),
        ("127.0.0.1", {"Authorization": "Basic YTpi"}, "http://127.0.0.1", 401),
    ],
    ids=["this machine", "its IPv6", "another machine", "through a proxy", "another name", "wrong token", "no bearer"],
)
def test_reading_without_a_token_is_for_this_machine_only(
    here: Served, address: str, headers: dict[str, str], base_url: str, status: int
) -> None:
    answer = here.client(address=address, headers=headers, base_url=base_url).get("/v1/jobs")
    assert answer.status_code == status
    assert status == 200 or "token" in answer.text


def test_reading_can_be_closed() -> None:
    with served(access=AccessRules(open_reading=False)) as here:
        assert here.client().get("/v1/jobs").status_code == 401
        assert here.client("reader").get("/v1/jobs").status_code == 200
        assert here.client().get("/readyz").status_code == 503, "which everybody may ask"


def test_a_revoked_token_is_refused_within_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "SHORT_WAIT_S", 60.0)  # However busy this machine is.
    with served() as here:
        client = here.client("operator", address="10.0.0.7")
        assert client.get("/v1/jobs").status_code == 200
        here.service.store.tokens.revoke("operator")
        here.clock.advance(6.0)
        assert client.get("/v1/jobs").status_code == 401


def test_a_token_ends_when_its_time_is_over() -> None:
    with served() as here:
        here.service.store.tokens.revoke("reader")
        here.tokens["reader"] = here.service.store.tokens.make("reader", {Scope.READ}, 60.0)
        client = here.client("reader", address="10.0.0.7")
        assert client.get("/v1/jobs").status_code == 200
        here.clock.advance(61.0)
        assert client.get("/v1/jobs").status_code == 401


def test_only_digests_of_tokens_are_stored() -> None:
    with served() as here, here.service.store.transaction() as connection:
        stored = str(list(connection.exec_driver_sql("SELECT * FROM headgate_tokens")))
        assert not any(secret in stored for secret in here.tokens.values())


@pytest.mark.parametrize(
    ("origin", "csrf", "status"),
    [
        ("http://127.0.0.1", True, 200),
        ("http://127.0.0.1", False, 403),
        ("http://attacker.example", True, 403),
        ("http://127.0.0.1:9999", True, 403),
        (None, True, 403),
    ],
    ids=["own page", "without what it knows", "another site", "another port", "no origin"],
)
def test_a_browser_changes_things_from_pages_of_the_service_only(
    here: Served, origin: str | None, csrf: bool, status: int
) -> None:
    secret = here.tokens["operator"]
    headers = {"Cookie": f"{COOKIE}={secret}"}
    headers |= {"Origin": origin} if origin else {}
    headers |= {"X-CSRF-Token": csrf_of(secret)} if csrf else {}
    answer = here.client(headers=headers).put(PAUSE, json={"why": "a try"})
    assert answer.status_code == status, answer.text
    assert here.client(headers=headers).get("/v1/jobs").status_code == 200


def test_a_form_may_carry_what_only_its_page_knows_and_is_still_read(here: Served) -> None:
    secret = here.tokens["operator"]
    headers = {"Cookie": f"{COOKIE}={secret}", "Origin": "http://127.0.0.1"}
    fields = {"csrf": csrf_of(secret), "why": "a form"}
    # The interface itself takes JSON: that it complains of the form shows that it was let through, and whole.
    answer = here.client(headers=headers).post("/v1/jobs/clicks/resume", data=fields)
    assert answer.status_code == 400
    assert here.client(headers=headers).post("/v1/jobs/clicks/resume", data={"csrf": "x"}).status_code == 403


def test_too_many_requests_are_refused_for_their_caller_alone() -> None:
    with served(access=AccessRules(requests_per_s=5)) as here:
        statuses = [here.client("reader").get("/v1/service").status_code for _ in range(12)]
        assert statuses == [200] * 10 + [429] * 2
        assert here.client("operator").get("/v1/service").status_code == 200
        for operator in ("parse", "count"):
            assert [here.report(operator=operator).status_code for _ in range(10)] == [200] * 10
        here.clock.advance(1.0)
        assert here.client("reader").get("/v1/service").status_code == 200


def test_what_is_too_long_is_refused_also_when_it_does_not_say_so(here: Served) -> None:
    assert here.client("agent").post(REPORTS, content="x" * 1_000_001).status_code == 413

    async def parts() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b"x" * 100_000

    assert here.client("agent").post(REPORTS, content=parts()).status_code == 413


def test_an_unknown_address_is_refused_in_a_sentence(here: Served) -> None:
    answer = here.client().get("/v1/jobs/clicsk")
    assert (answer.status_code, answer.text) == (404, "unknown job 'clicsk', did you mean 'clicks'? Known: clicks.")
    assert here.client().get("/v2/jobs").status_code == 404
    assert here.client("operator").request("DELETE", "/v1/jobs").status_code == 405
