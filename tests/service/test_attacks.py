"""The service under attack: no token, report, connection or stored entry of one keeps it from serving the others."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import pytest

from headgate.core.errors import InputError, JournalError
from headgate.core.types import Instances, Observation, Run, Sample
from headgate.service import gate
from headgate.service.config import ServiceConfig
from headgate.service.config.model import AccessRules
from headgate.service.gate import COOKIE, LOADS_APART_S, REPORTS_PATH, csrf_of
from headgate.service.jobs import ENGINE
from headgate.service.service import Service
from headgate.service.standby import Standby
from headgate.service.store import open_store
from headgate.service.store import store as store_module
from headgate.service.store.tokens import Scope
from headgate.testing.clock import FakeClock
from tests.service.services import CLICKS, START_S, Served, served

REPORTS = "/v1/jobs/clicks/operators/count/reports"
PAUSE = "/v1/jobs/clicks/pause"

# ------------------------------------------------------------------------------------------------------------ rights

OPEN, READ, OPERATE, AGENT = "open", "read", "operate", "agent"
NEEDS = {
    "GET /": READ,
    "GET /audit": READ,
    "GET /healthz": OPEN,
    "GET /jobs/{name}": READ,
    "GET /jobs/{name}/change": READ,
    "GET /jobs/{name}/history": READ,
    "GET /live": READ,
    "GET /login": OPEN,
    "GET /metrics": READ,
    "GET /openapi.json": READ,
    "GET /readyz": OPEN,
    "GET /static/{name}": OPEN,
    "GET /v1/audit": READ,
    "GET /v1/events": READ,
    "GET /v1/jobs": READ,
    "GET /v1/jobs/{job}": READ,
    "GET /v1/jobs/{job}/budget": READ,
    "GET /v1/jobs/{job}/changes": READ,
    "GET /v1/jobs/{job}/decisions": READ,
    "GET /v1/jobs/{job}/events": READ,
    "GET /v1/jobs/{job}/objective": READ,
    "GET /v1/jobs/{job}/operators": READ,
    "GET /v1/jobs/{job}/operators/{operator}": READ,
    "GET /v1/jobs/{job}/policy": READ,
    "GET /v1/jobs/{job}/readings": READ,
    "GET /v1/jobs/{job}/rules": READ,
    "GET /v1/jobs/{job}/state": READ,
    "GET /v1/policies": READ,
    "GET /v1/service": READ,
    "HEAD /openapi.json": READ,
    "PATCH /v1/jobs/{job}/settings": OPERATE,
    "POST /v1/jobs/{job}/operators/{operator}/release": OPERATE,
    "POST /jobs/{name}/change": OPERATE,
    "POST /login": OPEN,
    "POST /logout": OPEN,
    f"POST {REPORTS_PATH}": AGENT,
    "POST /v1/jobs/{job}/resume": OPERATE,
    "POST /v1/jobs/{job}/revert": OPERATE,
    "PUT /v1/jobs/{job}/mode": OPERATE,
    "PUT /v1/jobs/{job}/objective": OPERATE,
    "PUT /v1/jobs/{job}/operators/{operator}/bounds": OPERATE,
    "PUT /v1/jobs/{job}/operators/{operator}/size": OPERATE,
    "PUT /v1/jobs/{job}/pause": OPERATE,
    "PUT /v1/jobs/{job}/periods/{period}": OPERATE,
    "PUT /v1/jobs/{job}/policy": OPERATE,
    "PUT /v1/jobs/{job}/rules": OPERATE,
}
"""What each route needs: every new route is listed here."""
MAY = {
    "nobody": {OPEN},
    "wrong": {OPEN},
    "expired": {OPEN},
    "reader": {OPEN, READ},
    "operator": {OPEN, READ, OPERATE},
    "agent": {OPEN, AGENT},
    "bound": {OPEN, AGENT},
    "bound further": {OPEN, AGENT},
    "of another job": {OPEN},
    "of another operator": {OPEN},
}


def routes(here: Served) -> dict[str, tuple[str, str]]:
    """Every method and path that the service answers, with names filled in that look like other routes."""
    names = {"{job}": "clicks", "{name}": "clicks", "{operator}": "count", "{period}": "reports"}
    found = {}
    for route in here.app.state.routes:
        for method in route.methods:
            path = template = route.path
            for name, value in names.items():
                path = path.replace(name, value)
            found[f"{method} {template}"] = (method, path)
    return found


def test_every_route_lets_in_the_tokens_that_it_needs_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "LOADS_APART_S", 0.0)
    with served(access=AccessRules(open_reading=False, requests_per_s=100_000)) as here:
        make = here.service.store.tokens.make
        agent = {Scope.AGENT}
        here.tokens |= {
            "bound": make("bound", agent, job="clicks"),
            "bound further": make("bound-further", agent, job="clicks", operator="count"),
            "of another job": make("other-job", agent, job="others"),
            "of another operator": make("other-operator", agent, job="clicks", operator="parse"),
            "expired": make("expired", {Scope.OPERATE}, 1.0),
            "wrong": "hg_wrong",
        }
        here.clock.advance(10.0)
        found = routes(here)
        assert sorted(found) == sorted(NEEDS)

        async def wrongly_answered() -> list[tuple[str, str, int]]:
            wrong = []
            transport = httpx.ASGITransport(here.app, client=("10.0.0.7", 50000))
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
                for (named, (method, path)), (who, may) in product(found.items(), MAY.items()):
                    if method == "GET" and path in ("/live", "/v1/events") and READ in may:
                        continue  # A stream that has no end.
                    headers = {} if who == "nobody" else {"Authorization": f"Bearer {here.tokens[who]}"}
                    answer = await client.request(method, path, json={}, headers=headers)
                    # The sign-in page answers 401 itself: the form has no token in it.
                    is_let_in = answer.status_code not in (401, 403) or path == "/login"
                    if is_let_in != (NEEDS[named] in may):
                        wrong.append((named, who, answer.status_code))
            return wrong

        assert not asyncio.run(wrongly_answered())


def test_a_token_of_a_job_is_made_for_reports_alone() -> None:
    with served() as here:
        make = here.service.store.tokens.make
        with pytest.raises(InputError, match="can have the scope agent only"):
            make("ana", {Scope.AGENT, Scope.READ}, job="clicks")
        with pytest.raises(InputError, match="without its job"):
            make("ana", {Scope.AGENT}, operator="count")
        with pytest.raises(InputError, match="is no name"):
            make("ana", {Scope.AGENT}, job="clicks/../others")


def test_a_store_of_the_version_before_keeps_its_tokens(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/service.db"
    store = open_store(url)
    secret = store.tokens.make("drivers", {Scope.AGENT})
    with store.transaction() as connection:
        for column in ("job", "operator"):
            connection.exec_driver_sql(f"ALTER TABLE headgate_tokens DROP COLUMN {column}")
        connection.exec_driver_sql("UPDATE headgate_service SET value = '1'")
    store.close()
    with Service(ServiceConfig((CLICKS,), url), open_store(url), FakeClock(START_S)) as service:
        here = Served(service, FakeClock(START_S))
        here.tokens["drivers"] = secret
        assert here.client("drivers").post(REPORTS, json={}).status_code == 400, "let in, and nothing was reported"


# ------------------------------------------------------------------------------------------------- tokens and floods


def test_a_token_that_was_just_made_is_known_and_wrong_ones_are_not_remembered() -> None:
    with served(access=AccessRules(requests_per_s=100_000)) as here:
        reads = _count_reads(here)
        began_s = time.monotonic()
        for number in range(20):
            assert here.client(headers={"Authorization": f"Bearer {number}"}).get("/v1/jobs").status_code == 401
        most = 2 + (time.monotonic() - began_s) / LOADS_APART_S
        assert len(reads) <= most, "they are looked up together"
        long = {"Authorization": f"Bearer {'x' * 60_000}"}
        before = len(reads)
        assert here.client(headers=long).get("/v1/jobs").status_code == 401
        assert len(reads) == before
        here.tokens["new"] = here.service.store.tokens.make("new", {Scope.READ})
        assert here.client("new", address="10.0.0.7").get("/v1/jobs").status_code == 200


def _count_reads(here: Served) -> list[float]:
    reads: list[float] = []
    tokens = here.service.store.tokens
    inner = tokens.by_digest

    def counted() -> Any:
        reads.append(time.monotonic())
        return inner()

    tokens.by_digest = counted  # type: ignore[method-assign]
    return reads


def test_a_flood_without_a_token_leaves_probes_and_agents_answered() -> None:
    with served(access=AccessRules(requests_per_s=1)) as here:
        assert here.report().status_code == 200
        statuses = [here.client().get("/v1/jobs").status_code for _ in range(4)]
        assert statuses == [200, 200, 429, 429]
        assert here.client(headers={"Authorization": "Bearer wrong"}).get("/v1/jobs").status_code == 401
        assert {here.client().get("/readyz").status_code for _ in range(5)} == {503}, "nothing steps it"
        assert {here.client().get("/healthz").text for _ in range(5)} == {"nothing steps the jobs."}
        assert here.report().status_code == 200


LOCKED_S = 60.0


def test_a_token_table_that_is_locked_stops_only_tokens_that_are_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WAIT_S", "SHORT_WAIT_S"):
        monkeypatch.setattr(gate, name, 0.5)
    with served(access=AccessRules(requests_per_s=100_000)) as here:
        assert here.report().status_code == 200
        inner = here.service.store.tokens.by_digest

        let_go = threading.Event()

        def locked() -> Any:
            let_go.wait(LOCKED_S)
            return inner()

        here.service.store.tokens.by_digest = locked  # type: ignore[method-assign]
        here.clock.advance(60.0)
        began_s = time.monotonic()
        assert [here.report().status_code for _ in range(20)] == [200] * 20
        assert time.monotonic() - began_s < LOCKED_S, "they do not wait for it"
        assert here.client(headers={"Authorization": "Bearer new"}).get("/v1/jobs").status_code == 503
        let_go.set()


def test_a_lock_on_a_table_is_not_waited_for_without_end(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "ANSWER_WITHIN_S", 1)
    store = open_store(database_url)
    try:
        with store._engine.connect() as locking:
            locking.exec_driver_sql("LOCK TABLE headgate.headgate_tokens IN ACCESS EXCLUSIVE MODE")
            began_s = time.monotonic()
            with pytest.raises(JournalError, match="statement timeout"):
                store.tokens.all()
            assert time.monotonic() - began_s < 4.0
    finally:
        store.close()


def test_a_token_table_that_cannot_be_read_stops_only_tokens_that_are_not_known() -> None:
    with served() as here:
        assert here.report().status_code == 200

        def away() -> Any:
            raise JournalError("the store is away.")

        here.service.store.tokens.by_digest = away  # type: ignore[method-assign]
        here.clock.advance(60.0)
        assert here.report().status_code == 200
        assert here.client(headers={"Authorization": "Bearer new"}).get("/v1/jobs").status_code == 503


def test_signing_out_must_be_done_on_a_page_of_the_service() -> None:
    with served() as here:
        cookie = {"Cookie": f"{COOKIE}={here.tokens['operator']}"}
        foreign = here.client(headers={**cookie, "Origin": "http://attacker.example"})
        assert foreign.post("/logout").status_code == 403
        assert here.client(headers={**cookie, "Origin": "http://127.0.0.1"}).post("/logout").status_code == 303


# ---------------------------------------------------------------------------------------------------- stored entries


def bad_observation(at_s: float) -> Observation:
    """An entry that an earlier version let in."""
    sizes = Instances(2, 2, 2)
    return Observation(at_s, {"count": Sample("count", math.nan, arrived=1.0)}, {"count": sizes, "parse": sizes})


def test_one_stored_reading_that_cannot_be_used_keeps_no_service_from_starting(tmp_path: Path) -> None:
    url, clock = f"sqlite:///{tmp_path}/service.db", FakeClock(START_S)
    store = open_store(url, now=clock.now)
    journal = store.journal_of("clicks")
    journal.begin(Run(START_S, "reactive", {}, "", ENGINE, CLICKS.topology.operators, job="clicks"))
    for number in range(5):
        journal.observed(bad_observation(START_S + number))
    store.close()
    clock.advance(10.0)
    with Service(ServiceConfig((CLICKS, replace(CLICKS, name="others")), url), open_store(url), clock) as service:
        assert service.fleet.job("clicks").tick() is not None
        assert service.fleet.job("others").tick() is not None


def test_a_job_that_cannot_be_taken_on_is_left_out_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock(START_S)
    store = open_store("sqlite://", now=clock.now)
    inner, is_broken = store.journal_of, True

    def journal_of(job: str) -> Any:
        if job == "clicks" and is_broken:
            raise ZeroDivisionError("a defect")
        return inner(job)

    store.journal_of = journal_of  # type: ignore[method-assign]
    with Service(ServiceConfig((CLICKS, replace(CLICKS, name="others"))), store, clock) as service:
        assert [job.name for job in service.fleet] == ["others"]
        assert "job clicks cannot be taken on" in caplog.text
        is_broken = False
        clock.advance(61.0)
        service.scheduler.step()
        assert {job.name for job in service.fleet} == {"clicks", "others"}


def test_a_change_that_cannot_be_put_in_force_is_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    with served() as here:
        job = here.service.fleet.job("clicks")

        def broken(past: object = None) -> Any:
            raise ValueError("a defect")

        monkeypatch.setattr(job, "_open", broken)
        with pytest.raises(ValueError, match="a defect"):
            here.client("operator").put(
                "/v1/jobs/clicks/operators/count/bounds", json={"instances": [2, 3], "why": "a try"}
            )
        assert here.service.store.changes.of("clicks") == ()
        assert here.service.store.audit.entries() == []
        assert (job.changes, job.spec.operator("count").max_instances) == ((), 4)
        assert job.engine.topology().sizing_of("count").max_instances == 4


def test_a_change_that_cannot_be_stored_is_not_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    with served() as here:
        job = here.service.fleet.job("clicks")

        @contextmanager
        def failing() -> Any:
            with inner() as connection:
                yield connection
                raise JournalError("the store is away.")

        inner = here.service.store.transaction
        monkeypatch.setattr(here.service.store, "transaction", failing)
        answer = here.client("operator").put(
            "/v1/jobs/clicks/operators/count/bounds", json={"instances": [2, 3], "why": "a try"}
        )
        assert answer.status_code == 503
        assert (job.changes, job.spec.operator("count").max_instances) == ((), 4)


# ------------------------------------------------------------------------------------------------- threads that go on


def test_a_standby_goes_on_after_an_error_that_nobody_foresaw(caplog: pytest.LogCaptureFixture) -> None:
    with served() as here:
        standby = Standby(_Broken(), here.service)  # type: ignore[arg-type]  # it only ever fails
        standby.step()
        standby.step()
        assert standby.problem == "a defect"
        assert len([line for line in caplog.records if line.levelno == logging.WARNING]) == 1, "it is said once"


def test_probes_say_when_nobody_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    # This test steps it, not a thread.
    monkeypatch.setattr(Standby, "is_alive", True)
    clock = FakeClock(1000.0)
    standby = Standby(_Broken(), _Failing(), clock.now)  # type: ignore[arg-type]  # as far as they are used
    with served() as here:
        here.service.standby = standby

        here.service.scheduler.start()
        try:
            standby.step()
            clock.advance(600.0)
            health = here.client().get("/healthz")
            assert (health.status_code, health.text) == (200, "ok, but nobody can lead: a defect")
            standby.problem = ""
            health = here.client().get("/healthz")
            assert health.status_code == 503
            assert health.text == "nobody has led for 600 s, although the store can be reached."
        finally:
            here.service.standby = None


class _Failing:
    is_warm = True


class _Broken:
    lasts_s = 4.0

    def acquire(self, ended_s: float) -> None:
        raise ZeroDivisionError("a defect")


def test_the_scheduler_goes_on_after_a_listener_failed() -> None:
    with served() as here:

        def broken(*seen: object) -> None:
            raise ZeroDivisionError("a defect")

        here.service.scheduler.ticked.append(broken)
        here.clock.advance(10.0)
        assert here.service.scheduler.step() == 1


# ---------------------------------------------------------------------------------------- requests that nobody expects


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"a":' * 20_000,
        '{"version": 1, "agent": "a", "sample": ' + '{"a": ' * 400 + "1" + "}" * 401,
        '{"version": 1, "agent": {"$float": [1]}}',
        '{"version": 1, "agent": {"$float": "x"}}',
        '{"version": 1, "agent": "a", "instances": {"planned": 1e400, "requested": 1, "ready": 1}}',
    ],
    ids=["lists", "objects", "a nested sample", "a list as a number", "a text as a number", "a large number"],
)
def test_nested_and_strange_messages_are_refused_in_a_sentence(text: str) -> None:
    with served() as here:
        answer = here.client("agent").post(REPORTS, content=text)
        assert (answer.status_code, answer.headers["content-type"].partition(";")[0]) == (400, "text/plain")
        put = here.client("operator").put(PAUSE, content=text, headers={"Content-Type": "application/json"})
        assert put.status_code == 400


def test_what_cannot_be_encoded_is_not_quoted_in_an_error() -> None:
    strange = r'"\ud800\u001b[2J"'
    with served() as here:
        for text in (
            f'{{"version": {{{strange}: 1e400}}}}',
            f'{{"version": {strange}}}',
            f'{{"version": "{"x" * 99_000}"}}',
        ):
            answer = here.client("agent").post(REPORTS, content=text)
            assert (answer.status_code, "\x1b" in answer.text, len(answer.text) < 21_000) == (400, False, True)
        headers = {"Content-Type": "application/json"}
        answer = here.client("operator").put(PAUSE, content=f'{{{strange}: 1, "why": "x"}}', headers=headers)
        assert answer.status_code == 400


@pytest.mark.parametrize("number", ["9" * 19, "9" * 5000, "x" * 60_000, "-1", "\xb2"])
def test_the_number_of_the_last_event_may_be_anything(number: str) -> None:
    with served() as here:
        headers = {b"Last-Event-ID": number.encode("latin-1")}
        answer = here.client().get("/v1/events?once=true", headers=headers)
        assert answer.status_code in (200, 400)


def test_large_rules_are_parsed_while_others_make_their_changes() -> None:
    rule = {"scale_in": "count", "by": 1, "when": {"metric": "backlog", "below": 1, "for_at_least": "1s"}}
    rules = json.dumps({"rules": [{"name": f"r{number}", **rule} for number in range(500)]})
    assert len(rules) < 200_000
    with served() as here:
        operations = here.service.operations
        inner, was_locked = operations.check, []

        def check(requested: Any) -> None:
            was_locked.append(operations._lock.locked())
            inner(requested)

        operations.check = check  # type: ignore[method-assign]
        put = here.client("operator").put
        assert put("/v1/jobs/clicks/rules", json={"rules": rules, "why": "many"}).status_code == 200
        assert was_locked == [False], "they are parsed first"
        began_s = time.process_time()
        assert put("/v1/jobs/clicks/rules", json={"rules": rules, "why": "again"}).status_code == 200
        assert time.process_time() - began_s < 5.0


def test_what_a_page_must_know_differs_for_each_token() -> None:
    assert csrf_of("one") != csrf_of("other")


# ------------------------------------------------------------------------------------------------ what agents report


def event(kind: str = "query-restarted", detail: str = "", **numbers: Any) -> dict[str, Any]:
    return {"at_age_s": 0.1, "kind": kind, "detail": detail, **({"numbers": numbers} if numbers else {})}


def test_events_of_one_agent_do_not_delay_the_decisions_on_other_jobs() -> None:
    with served(CLICKS, replace(CLICKS, name="others")) as here:
        first = 0
        for _ in range(3):
            events = [event(detail=str(number)) for number in range(13_000)]
            assert here.report(first_event=first, events=events).status_code == 200
            first += len(events)
            here.clock.advance(1.0)
        began_s = time.process_time()
        here.clock.advance(10.0)
        assert here.service.scheduler.step() == 2
        assert time.process_time() - began_s < 2.0
        journal = here.service.fleet.job("clicks").journal
        noted = [found for found in journal.events() if found.kind in ("query-restarted", "events-left-out")]
        assert 100 <= len(noted) <= 200
        left_out = "count: 12901 events of the agent were left out: it reports too many"
        assert left_out in {found.detail for found in noted}
        assert here.report(first_event=first, events=[event(detail="the next")]).status_code == 200
        here.tick(10.0)
        assert journal.events()[-1].detail == "count: the next", "they are numbered as before"


def test_kinds_of_events_and_their_texts_leave_the_metrics_readable() -> None:
    with served() as here:
        kinds = [f"kind-{number}" for number in range(90)]
        strange = ["\ud800", "a\x1b[2J", "x" * 10_000, "\n", '"']
        assert here.report(events=[event(kind) for kind in (*strange, *kinds)]).status_code == 200
        here.tick(20.0)
        page = here.client().get("/metrics")
        assert page.status_code == 200
        series = [line for line in page.text.splitlines() if line.startswith("headgate_events_total{")]
        assert len(series) <= 51
        assert max(map(len, series)) < 200
        assert 'kind="other"' in page.text


def test_a_job_whose_figures_cannot_be_collected_leaves_those_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    with served(CLICKS, replace(CLICKS, name="others")) as here:

        def broken() -> Any:
            raise ZeroDivisionError("a defect")

        monkeypatch.setattr(here.service.figures.of_job("clicks"), "readings", broken)
        page = here.client().get("/metrics")
        assert page.status_code == 200
        assert 'headgate_acting{job="others"}' in page.text


def test_texts_of_agents_lose_escape_sequences_and_tokens() -> None:
    with served() as here:
        secret = here.tokens["operator"]
        detail = f"\x1b]0;a title\x07\x1b[2J cleared \ud800, {secret} at postgresql://ana:s3cret@db/x"
        assert here.report(events=[event("\x1b[31mred", detail, value=secret)]).status_code == 200
        here.tick(10.0)
        noted = here.service.fleet.job("clicks").journal.events()
        texts = "".join(f"{found.kind}{found.detail}{dict(found.numbers)}" for found in noted)
        assert "cleared" in texts
        assert not any(part in texts for part in ("\x1b", "\x07", "\ud800", secret, "s3cret"))


@pytest.mark.parametrize(
    "fields",
    [
        {"agent": "x" * 900_000},
        {"agent": "a\nb"},
        {"agent": ""},
        {"further_metrics": [f"m{number}" for number in range(201)]},
        {"sample": {"operator": "count", "at_age_s": 1.0, "metrics": {f"m{number}": 1.0 for number in range(201)}}},
    ],
    ids=["a long id", "two lines", "no id", "many metrics", "many values"],
)
def test_what_no_agent_needs_is_refused(fields: dict[str, Any]) -> None:
    with served() as here:
        answer = here.report(**fields)
        assert (answer.status_code, len(answer.text) < 200) == (400, True)


def test_an_operator_lets_another_agent_join() -> None:
    with served() as here:
        assert here.report(agent="first").status_code == 200
        assert here.report(agent="second").status_code == 503
        path = "/v1/jobs/clicks/operators/count/release"
        answer = here.client("operator").post(path, json={"why": "the machine of the first hangs"})
        assert answer.json()["what"] == "agent of count"
        assert here.report(agent="second").status_code == 200
        assert here.report(agent="first").status_code == 409
        assert here.service.store.audit.entries()[-1].why == "the machine of the first hangs"
        assert here.client("operator").post(path.replace("count", "cuont"), json={"why": "x"}).status_code == 404
