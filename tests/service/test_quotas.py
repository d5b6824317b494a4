"""Jobs of a service that share quotas and a pace: what they get, which jobs give way, and the reasons."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headgate.core.arbiter import Pace
from headgate.core.errors import InputError
from headgate.core.objective import parse_objective
from headgate.core.quota_ledger import Quota
from headgate.core.quotas import QuotaGroup
from headgate.core.types import GuardNote, Sample
from headgate.runtime.loop import Mode
from headgate.runtime.prometheus import Prometheus
from headgate.service.config import JobSpec, OperatorSpec, ServiceConfig, read_config
from headgate.service.serving import apply_config
from tests.service.services import HAS_ONE, Served, served

SMALL = (QuotaGroup("shop", Quota(instances=3)),)


def job(name: str, **changes: object) -> JobSpec:
    spec = JobSpec(
        name,
        (OperatorSpec("count", 1, 8, 0.5, cores=2.0),),
        parse_objective("latency p95 < 10s per 1h"),
        policy="reactive",
        group="shop",
    )
    return replace(spec, **changes)  # type: ignore[arg-type]


def busy(running: Served, name: str, size: int = 1, late: float = 0.0) -> GuardNote:
    """Report a job that falls behind, have it decided on, and give what its quota did."""
    now = running.clock.now()
    elapsed_s = now - running.service.started_s
    sample = Sample(
        "count",
        now,
        arrived=100.0 * elapsed_s,
        done=10.0 * elapsed_s,
        late=late * elapsed_s,
        backlog=5000.0,
        latency_s=60.0,
        input_rate_per_s=100.0,
        processed_rate_per_s=10.0 * size,
        utilization=1.0,
    )
    running.read(sample, size, name)
    decision = running.service.fleet.job(name).tick()
    assert decision is not None
    return decision.verdicts["count"].notes[-1]


def size_of(running: Served, name: str) -> int:
    decision = running.service.fleet.job(name).decision
    assert decision is not None
    return decision.targets["count"]


def test_a_group_never_has_more_than_its_quota_and_says_who_gives_way() -> None:
    with served(job("one"), job("two"), groups=(QuotaGroup("shop", Quota(cores=10.0)),)) as running:
        sizes, notes = {"one": 1, "two": 1}, []
        for _ in range(12):
            running.clock.advance(10.0)
            for name, size in list(sizes.items()):
                notes.append(busy(running, name, size, late=80.0 if name == "two" else 10.0))
                sizes[name] = size_of(running, name)
                assert sum(sizes.values()) <= 5
        assert sum(sizes.values()) == 5
        assert {note.guard for note in notes} == {"quota"}
        assert any("it gives way to two" in note.why and "group shop may have 10 cores" in note.why for note in notes)


def test_a_job_without_a_request_is_counted() -> None:
    big = (OperatorSpec("count", 1, 8, starts=6),)
    with served(job("one"), job("silent", operators=big), groups=(QuotaGroup("shop", Quota(instances=8)),)) as running:
        running.clock.advance(10.0)
        busy(running, "one")
        assert size_of(running, "one") == 2


def test_the_cluster_and_the_pace_hold_for_all() -> None:
    jobs = [job(f"job-{number}", group=None) for number in range(4)]
    with served(*jobs, cluster=Quota(instances=30), pace=Pace(2, 10.0)) as running:
        running.clock.advance(10.0)
        notes = [busy(running, spec.name) for spec in jobs]
        changed = [size_of(running, spec.name) > 1 for spec in jobs]
        assert changed == [True, True, False, False]
        assert "wait for their turn to change their size, 2 rescales per 10 s are allowed" in notes[-1].why


def test_a_file_that_changes_changes_the_quota_and_a_job_that_is_gone_leaves_its_share() -> None:
    with served(job("one"), job("two"), groups=(QuotaGroup("shop", Quota(instances=2)),)) as running:
        running.clock.advance(10.0)
        busy(running, "one")
        assert size_of(running, "one") == 1
        wanted = ServiceConfig((job("one"),), running.service.config.store, groups=SMALL)
        apply_config(running.service, wanted)
        running.clock.advance(10.0)
        busy(running, "one")
        assert size_of(running, "one") == 3


def test_a_job_that_only_recommends_takes_nothing() -> None:
    with served(job("one"), job("two", mode=Mode.RECOMMEND), groups=SMALL) as running:
        running.clock.advance(10.0)
        busy(running, "two")
        assert running.service.arbiter.usage() == {("shop", "instances"): (1.0, 3)}


# ------------------------------------------------------------------------------------------------------------ its file

FILE = """version: 1
cluster: {cores: 100, money_per_hour: 12.5}
pace: 20 per 10s
prometheus: {url: "http://127.0.0.1:9090/prom"}
groups:
  shop: {instances: 10, priority: 2}
jobs:
  clicks:
    objective: latency p95 < 10s
    group: shop
    metrics: {backlog: 'sum(kafka_lag{topic="$operator"})'}
    operators: {count: }
"""


def test_the_file_names_cluster_pace_and_queries(tmp_path: Path) -> None:
    file = tmp_path / "headgate.yaml"
    file.write_text(FILE, encoding="utf-8")
    config = read_config(file)
    assert config.cluster == Quota(cores=100, money_per_hour=12.5)
    assert config.pace == Pace(20, 10.0)
    query = Prometheus('sum(kafka_lag{topic="$operator"})', url="http://127.0.0.1:9090/prom")
    assert config.job("clicks").metrics == {"backlog": query}


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("20 per 10s", "fast", "3:7: pace: found 'fast', expected a number of jobs per time, as 20 per 10s."),
        ("20 per 10s", "0 per 10s", "pace of 0 rescales is not allowed"),
        ("http://127", "ftp://127", "is not usable; write it as http://127.0.0.1:9090."),
        ("cores: 100", "priority: 1", "cluster"),
        ("'sum(kafka_lag{topic=\"$operator\"})'", "' '", "metrics.backlog: a query of Prometheus is empty"),
    ],
)
def test_mistakes_in_it_are_reported_with_their_place(tmp_path: Path, before: str, after: str, message: str) -> None:
    file = tmp_path / "headgate.yaml"
    file.write_text(FILE.replace(before, after), encoding="utf-8")
    with pytest.raises(InputError) as refused:
        read_config(file)
    assert message in str(refused.value)


@pytest.mark.parametrize("reported", [{"planned": 1, "requested": 1, "ready": 99_000}, dict.fromkeys(HAS_ONE, 99_000)])
def test_a_job_that_reports_more_instances_than_it_may_have_takes_nothing_from_others(reported: dict[str, int]) -> None:
    groups = (QuotaGroup("shop", Quota(instances=10)),)
    with served(job("liar"), job("honest"), groups=groups) as running:
        for _ in range(4):
            assert running.report("liar", instances={**HAS_ONE, **reported}).status_code == 200
            running.service.fleet.job("liar").tick()
            busy(running, "honest")
            running.clock.advance(10.0)
        assert size_of(running, "honest") >= 2, "the other counts with what it may have, 8 of 10"
