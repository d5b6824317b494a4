"""GET /metrics: the figures of all jobs, for those who may read."""

from __future__ import annotations

from dataclasses import replace

from prometheus_client.parser import text_string_to_metric_families

from headgate.core.quota_ledger import Quota
from headgate.core.quotas import QuotaGroup
from headgate.core.types import Sample
from headgate.runtime.exposition.families import ALL_FAMILIES
from headgate.runtime.prometheus import Prometheus
from tests.http_receiver import HttpReceiver
from tests.runtime.test_prometheus import vector
from tests.service.services import CLICKS, Served, served


def figures(running: Served) -> dict[tuple[str, tuple[str, ...]], float]:
    answer = running.client().get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    found = text_string_to_metric_families(answer.text)
    order = {family.name: family.labels for family in ALL_FAMILIES}
    return {
        (sample.name, tuple(sample.labels[label] for label in order.get(sample.name, sample.labels))): sample.value
        for family in found
        for sample in family.samples
    }


def test_jobs_agents_quotas_and_pauses_are_exposed() -> None:
    spec = replace(CLICKS, group="shop")
    with served(spec, groups=(QuotaGroup("shop", Quota(instances=20)),)) as running:
        running.report()
        running.clock.advance(20.0)
        running.service.scheduler.step()
        pause = {"direction": "in", "why": "a sale"}
        assert running.client("operator").put("/v1/jobs/clicks/pause", json=pause).status_code == 200
        found = figures(running)
    assert found["headgate_ticks_total", ("clicks",)] == 1
    assert found["headgate_agent_up", ("clicks", "count")] == 0
    assert found["headgate_jobs", ()] == 1
    assert found["headgate_quota_limit", ("shop", "instances")] == 20
    assert found["headgate_quota_used", ("shop", "instances")] == 2
    assert found["headgate_paused", ("clicks", "in")] == 1
    assert found["headgate_paused", ("clicks", "out")] == 0
    assert found["headgate_loop_interval_seconds", ("clicks",)] == spec.interval_s
    assert found["headgate_events_total", ("clicks", "agent-joined")] == 1
    known = {family.name for family in ALL_FAMILIES}
    assert {name for name, _ in found if name.startswith("headgate_")} <= known


def test_counts_go_on_when_a_job_is_given_another_loop() -> None:
    with served() as running:
        running.clock.advance(20.0)
        running.service.scheduler.step()
        objective = {"objective": "latency p95 < 20s", "why": "enough"}
        assert running.client("operator").put("/v1/jobs/clicks/objective", json=objective).status_code == 200
        running.clock.advance(20.0)
        running.service.scheduler.step()
        found = figures(running)
        decisions = [value for (name, labels), value in found.items() if name == "headgate_decisions_total"]
        assert (found["headgate_ticks_total", ("clicks",)], sum(decisions)) == (2, 4)
        running.service.release("clicks", "gone")
        assert not [name for name, _ in figures(running) if name == "headgate_ticks_total"]


def test_who_asks_from_elsewhere_needs_a_token() -> None:
    with served() as running:
        assert running.client(address="10.0.0.7").get("/metrics").status_code == 401
        assert running.client("agent", address="10.0.0.7").get("/metrics").status_code == 403
        assert running.client("reader", address="10.0.0.7").get("/metrics").status_code == 200


def test_a_query_of_prometheus_stands_in_for_a_reading() -> None:
    with HttpReceiver(lambda *_: (200, vector(1234.0))) as prometheus:
        spec = replace(CLICKS, metrics={"backlog": Prometheus("lag", url=prometheus.url)})
        with served(spec) as running:
            running.clock.advance(10.0)
            running.read(Sample("count", running.clock.now(), backlog=1.0))
            running.tick()
            seen = running.service.fleet.job("clicks").observation
            assert seen is not None
            assert seen.samples["count"].backlog == 1234.0
