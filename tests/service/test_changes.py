"""Changes of a running job: their effect on decisions, that they are saved, and who made them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headgate.core.types import Decision
from headgate.service.service import Service
from headgate.service.store import open_store
from tests.service.services import CLICKS, Served, served

STATIC = replace(CLICKS, policy="static", settings={"instances": 3})
"""Wants three instances of each, whatever happens."""


@pytest.fixture
def here() -> Iterator[Served]:
    with served(STATIC) as found:
        for operator in ("parse", "count"):
            assert found.report(operator=operator, sample=reading(operator)).status_code == 200
        yield found


def reading(operator: str) -> dict[str, Any]:
    return {"operator": operator, "at_age_s": 0.0, "arrived": 100, "done": 100, "backlog": 0, "late": 0}


def decided(here: Served, seconds: float = 10.0) -> dict[str, int]:
    """The targets of the next decision."""
    return last_decision(here, seconds).targets


def last_decision(here: Served, seconds: float = 10.0) -> Decision:
    here.tick(seconds)
    decision = here.service.fleet.job("clicks").decision
    assert decision is not None
    return decision


def test_a_pause_holds_the_size_until_it_is_resumed(here: Served) -> None:
    operator = here.client("operator")
    answer = operator.put("/v1/jobs/clicks/pause", json={"why": "a migration"})
    assert answer.status_code == 200, answer.text
    assert answer.json()["who"] == "operator"
    decision = last_decision(here)
    assert decision.targets == {"parse": 1, "count": 1}
    assert decision.verdicts["count"].notes[-1].why == "operator has paused scaling: a migration"
    assert operator.get("/v1/jobs/clicks").json()["paused"] == {"*": "both"}
    assert len(operator.post("/v1/jobs/clicks/resume", json={"why": "done"}).json()) == 1
    assert decided(here) == {"parse": 3, "count": 3}


@pytest.mark.parametrize(("direction", "size", "wanted"), [("in", 1, 3), ("in", 4, 4), ("out", 1, 1), ("out", 4, 3)])
def test_a_pause_of_one_direction_lets_the_other_pass(direction: str, size: int, wanted: int) -> None:
    with served(replace(STATIC, guards={"recovery_timeout_s": 0, "pending_timeout_s": 0})) as here:
        sizes = {"planned": size, "requested": size, "ready": size}
        for operator in ("parse", "count"):
            here.report(operator=operator, sample=reading(operator), instances=sizes)
        body = {"direction": direction, "operator": "count", "why": "a test"}
        assert here.client("operator").put("/v1/jobs/clicks/pause", json=body).status_code == 200
        targets = decided(here, 0.0)
        assert targets["count"] == wanted
        assert targets["parse"] == 3


def test_a_pause_for_a_time_ends_by_itself_and_that_is_journalled(here: Served) -> None:
    here.client("operator").put("/v1/jobs/clicks/pause", json={"lasts": "15s", "why": "a moment"})
    assert decided(here)["count"] == 1
    assert decided(here)["count"] == 3
    events = here.client("reader").get("/v1/jobs/clicks/events").json()["events"]
    assert "the time of pause * is over" in [event["detail"] for event in events]
    assert here.client().get("/v1/jobs/clicks/changes").json() == []


def test_a_forced_size_wins_over_pauses_and_policy_for_its_time(here: Served) -> None:
    operator = here.client("operator")
    operator.put("/v1/jobs/clicks/pause", json={"why": "all stays"})
    body = {"size": 2, "lasts": "15s", "why": "a try"}
    assert operator.put("/v1/jobs/clicks/operators/count/size", json=body).status_code == 200
    assert decided(here) == {"parse": 1, "count": 2}
    assert here.report().json()["size"] == 2
    assert decided(here) == {"parse": 1, "count": 2}, "then it is paused at the size that it has"
    assert operator.get("/v1/jobs/clicks").json()["forced"] == {}


def test_recommending_only_tells_agents_nothing(here: Served) -> None:
    assert decided(here)["count"] == 3
    assert here.report().json()["size"] == 3
    here.client("operator").put("/v1/jobs/clicks/mode", json={"mode": "recommend", "why": "to look first"})
    assert here.report().json()["size"] is None
    decision = last_decision(here)
    assert (str(decision.role), decision.targets["count"]) == ("recommended", 3)
    assert here.report().json()["size"] is None
    here.client("operator").post("/v1/jobs/clicks/revert", json={"kind": "mode", "why": "it is good"})
    decided(here)
    assert here.report().json()["size"] == 3


def test_a_period_forbids_scaling_or_sets_sizes(here: Served) -> None:
    operator = here.client("operator")
    forbidding = {"forbid": "any scaling", "why": "payroll"}
    assert operator.put("/v1/jobs/clicks/periods/payroll", json=forbidding).status_code == 200
    assert decided(here)["count"] == 1
    sizes = {"operator": "count", "at_least": 4, "during": ["* * * * *"], "time_zone": "Europe/Berlin", "why": "a sale"}
    assert operator.put("/v1/jobs/clicks/periods/payroll", json=sizes).status_code == 200
    assert decided(here) == {"parse": 3, "count": 4}
    operator.post("/v1/jobs/clicks/revert", json={"kind": "period", "name": "payroll", "why": "over"})
    assert here.service.fleet.job("clicks").spec == STATIC


def test_policy_settings_bounds_and_objective_change_while_it_runs(here: Served) -> None:
    operator = here.client("operator")
    assert decided(here) == {"parse": 3, "count": 3}
    assert operator.patch("/v1/jobs/clicks/settings", json={"settings": {"instances": 2}, "why": "less"}).is_success
    assert operator.get("/v1/jobs/clicks/policy").json()["settings"]["instances"] == 2
    assert operator.put("/v1/jobs/clicks/operators/count/bounds", json={"instances": [4, 6], "why": "x"}).is_success
    decided(here)
    assert decided(here)["count"] == 4
    assert operator.put("/v1/jobs/clicks/objective", json={"objective": "latency p99 < 2s", "why": "x"}).is_success
    assert operator.get("/v1/jobs/clicks/objective").json()["operators"]["count"] == "latency p99 < 1s"
    assert operator.put("/v1/jobs/clicks/policy", json={"policy": "reactive", "why": "x"}).is_success
    assert last_decision(here).policy == "reactive"


def test_rules_change_while_it_runs(here: Served) -> None:
    rules = """\
version: 1
rules:
  - {name: empty, scale_in: count, by: 1, never_below: 1, when: {metric: backlog, below: 10, for_at_least: 0s}}
"""
    operator = here.client("operator")
    assert operator.get("/v1/jobs/clicks/rules").json() == {"rules": None}
    assert operator.put("/v1/jobs/clicks/rules", json={"rules": rules, "why": "ours"}).status_code == 200
    assert operator.get("/v1/jobs/clicks/rules").json() == {"rules": rules}
    assert last_decision(here).policy == "rules"
    bad = operator.put("/v1/jobs/clicks/rules", json={"rules": rules.replace("count", "cuont"), "why": "x"})
    assert bad.status_code == 400
    assert "rules:3:" in bad.text


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "message"),
    [
        ("put", "pause", {}, 400, "why: field required"),
        ("put", "pause", {"why": "  "}, 400, "why: string should have at least 1 character"),
        ("put", "pause", {"why": "x", "direction": "up"}, 400, "direction: input should be"),
        ("put", "pause", {"why": "x", "operator": "cuont"}, 404, "did you mean 'count'"),
        ("put", "pause", {"why": "x", "lasts": "soon"}, 400, "duration 'soon' is not understood"),
        ("put", "operators/count/size", {"why": "x", "size": 9, "lasts": "1h"}, 400, "its bounds are 1 to 4"),
        ("put", "operators/count/size", {"why": "x", "size": 2}, 400, "lasts: field required"),
        ("put", "operators/count/bounds", {"why": "x", "instances": [5, 2]}, 400, "max_instances 2 is not allowed"),
        ("put", "operators/none/bounds", {"why": "x", "instances": [1, 2]}, 404, "unknown operator 'none'"),
        ("put", "objective", {"why": "x", "objective": "fast"}, 400, "objective 'fast' is not understood"),
        ("put", "policy", {"why": "x", "policy": "autopliot"}, 400, "did you mean 'autopilot'"),
        (
            "put",
            "policy",
            {"why": "x", "policy": "static", "settings": {"instnces": 2}},
            400,
            "did you mean 'instances'",
        ),
        ("put", "policy", {"why": "x", "policy": "rules", "settings": {"file": "/etc/passwd"}}, 400, "names a file"),
        ("patch", "settings", {"why": "x", "settings": {"instances": "many"}}, 400, "is not allowed"),
        ("put", "periods/night", {"why": "x"}, 400, "says nothing"),
        ("put", "periods/night", {"why": "x", "forbid": "any scaling", "during": ["night"]}, 400, "has 1 fields"),
        ("put", "periods/night", {"why": "x", "at_least": 1, "time_zone": "Mars/X"}, 400, "time zone 'Mars/X'"),
        ("post", "revert", {"why": "x", "kind": "mode"}, 404, "unknown change 'mode'"),
    ],
)
def test_what_cannot_be_used_is_refused_and_nothing_changes(
    here: Served, method: str, path: str, body: dict[str, Any], status: int, message: str
) -> None:
    answer = here.client("operator").request(method.upper(), f"/v1/jobs/clicks/{path}", json=body)
    assert (answer.status_code, message in answer.text) == (status, True), answer.text
    assert here.service.fleet.job("clicks").changes == ()
    assert here.client("reader").get("/v1/audit").json() == {"entries": []}


def test_every_change_is_in_the_audit_log_with_who_and_why_and_no_secrets(here: Served) -> None:
    operator = here.client("operator")
    secret = here.tokens["agent"]
    operator.put("/v1/jobs/clicks/pause", json={"why": f"token {secret} leaked"})
    operator.post("/v1/jobs/clicks/resume", json={"why": "healed"})
    entries = here.client("reader").get("/v1/audit", params={"job": "clicks"}).json()["entries"]
    assert [(entry["who"], entry["what"], entry["why"]) for entry in entries] == [
        ("operator", "pause", "token hg_… leaked"),
        ("operator", "end of pause", "healed"),
    ]
    assert entries[1]["before"] == {"direction": "both"}
    assert secret not in str(here.client("reader").get("/v1/jobs/clicks/events").json())


def test_the_audit_log_is_only_added_to(here: Served) -> None:
    here.client("operator").put("/v1/jobs/clicks/pause", json={"why": "x"})
    for statement in ("DELETE FROM headgate_audit", "UPDATE headgate_audit SET who = 'somebody else'"):
        with pytest.raises(Exception, match="only added to"), here.service.store.transaction() as connection:
            connection.exec_driver_sql(statement)


def test_changes_outlive_the_service(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'headgate.db'}"
    with served(STATIC, store=url) as here:
        here.client("operator").put("/v1/jobs/clicks/pause", json={"why": "a migration"})
        config, clock = here.service.config, here.clock
    with Service(config, open_store(url, now=clock.now), clock) as service:
        assert [str(change.kind) for change in service.fleet.job("clicks").changes] == ["pause"]
        assert [entry.why for entry in service.store.audit.entries()] == ["a migration"]


def test_new_entries_are_streamed(here: Served) -> None:
    here.client("operator").put("/v1/jobs/clicks/pause", json={"why": "a look"})
    decided(here)
    text = here.client("reader").get("/v1/events", params={"since": 0, "once": True}).text
    kinds = [line.removeprefix("event: ") for line in text.splitlines() if line.startswith("event: ")]
    assert {"event", "change", "decision"} <= set(kinds)
    numbers = [int(line.removeprefix("id: ")) for line in text.splitlines() if line.startswith("id: ")]
    assert numbers == sorted(numbers)
    later = here.client("reader").get("/v1/events", params={"once": True}, headers={"Last-Event-ID": str(numbers[-1])})
    assert "event: " not in later.text


def test_a_change_cannot_have_a_file_of_the_machine_run(here: Served, tmp_path: Path) -> None:
    file, ran = tmp_path / "own.py", tmp_path / "ran"
    file.write_text(f"open({str(ran)!r}, 'w')")
    change = {"policy": f"{file}:Own", "why": "to see"}
    answer = here.client("operator").put("/v1/jobs/clicks/policy", json=change)
    assert answer.status_code == 400
    assert "unknown policy" in answer.text
    assert not ran.exists()
