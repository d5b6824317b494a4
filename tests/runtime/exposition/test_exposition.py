"""What a job tells Prometheus: by the conventions, and nothing that is not known."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from headgate._version import __version__
from headgate.core.errors import InputError
from headgate.runtime.exposition.families import ALL_FAMILIES, FAMILIES, Exposition
from tests.runtime.exposition.reported_job import INTERVAL_S, ReportedJob

Figures = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture
def job(tmp_path: Path) -> Iterator[ReportedJob]:
    job = ReportedJob(tmp_path)
    yield job
    job.close()


def figures_of(exposition: Exposition) -> Figures:
    page, content_type = exposition.text()
    assert content_type.startswith("text/plain")
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page.decode())
        for sample in family.samples
    }


def value(found: Figures, name: str, **labels: str) -> float:
    return found[name, tuple(sorted(labels.items()))]


@pytest.mark.parametrize("family", ALL_FAMILIES, ids=lambda family: family.name)
def test_names_follow_the_conventions(family: object) -> None:
    name, kind, text = family.name, family.kind, family.help  # type: ignore[attr-defined]
    assert re.fullmatch(r"headgate_[a-z0-9_]+", name)
    assert name.endswith("_total") == (kind == "counter")
    assert not re.search(r"_(ms|milliseconds|minutes|kb|mb|percent)(_|$)", name)
    assert text
    assert text[0].islower() or text[0] == "1"


def test_a_job_with_all_features_exposes_every_family(job: ReportedJob) -> None:
    job.step(60)
    job.engine.reporting = False
    job.step()
    job.loop.note("policy-failed", "made up")
    job.engine.close()
    job.step()
    exposition = Exposition()
    exposition.add(job.figures)
    names = {name for name, _ in figures_of(exposition)}
    assert {family.name for family in FAMILIES} <= names
    assert "process_resident_memory_bytes" in names


def test_decisions_sizes_budget_and_money_are_those_of_the_job(job: ReportedJob) -> None:
    job.step(60)
    exposition = Exposition()
    exposition.add(job.figures)
    found = figures_of(exposition)
    of_job, of_operator = {"job": "clicks"}, {"job": "clicks", "operator": "job"}
    decisions = sum(value for (name, _), value in found.items() if name == "headgate_decisions_total")
    assert decisions == value(found, "headgate_ticks_total", **of_job) == 60
    assert value(found, "headgate_instances", state="ready", **of_operator) == 3
    assert value(found, "headgate_capped", **of_operator) == 1, "45/s need five, and three are allowed"
    assert value(found, "headgate_error_budget_left_ratio", **of_operator) < 0
    assert value(found, "headgate_cost_per_hour", **of_job) == 1.5
    assert value(found, "headgate_loop_lateness_seconds", **of_job) == 0.5
    assert value(found, "headgate_loop_interval_seconds", **of_job) == INTERVAL_S
    assert value(found, "headgate_tick_seconds_total", **of_job) == pytest.approx(60 * 0.25)
    assert value(found, "headgate_guard_changes_total", guard="bounds", **of_operator) > 0
    assert value(found, "headgate_paused", direction="in", **of_job) == 0
    assert found["headgate_build_info", tuple(sorted(_build().items()))] == 1


def _build() -> dict[str, str]:
    import platform

    return {"version": __version__, "python": platform.python_version()}


def test_a_reading_that_is_missing_is_counted_and_not_exposed_as_zero(job: ReportedJob) -> None:
    exposition = Exposition()
    exposition.add(job.figures)
    job.engine.reporting = False
    job.step(3)
    found = figures_of(exposition)
    assert value(found, "headgate_missing_readings_total", job="clicks", operator="job", metric="sample") == 3
    assert not [name for name, _ in found if name in ("headgate_backlog_records", "headgate_latency_seconds")]


def test_a_removed_job_is_no_longer_exposed(job: ReportedJob) -> None:
    exposition = Exposition()
    exposition.add(job.figures)
    job.step()
    assert any(name.startswith("headgate_ticks") for name, _ in figures_of(exposition))
    exposition.remove("clicks")
    assert not any(name.startswith("headgate_ticks") for name, _ in figures_of(exposition))


def test_the_page_is_on_loopback_and_gone_when_it_is_closed(job: ReportedJob) -> None:
    job.step()
    exposition = Exposition()
    exposition.add(job.figures)
    with exposition.serve(0) as page:
        assert page.url.startswith("http://127.0.0.1:")
        with urlopen(page.url, timeout=5) as answer:
            assert b'headgate_ticks_total{job="clicks"} 1.0' in answer.read()
        port = int(page.url.split(":")[2].split("/")[0])
        with pytest.raises(InputError, match=rf"metrics port {port} of 127\.0\.0\.1 cannot be used: address already"):
            exposition.serve(port)
    with pytest.raises(OSError, match="refused"):
        urlopen(page.url, timeout=5)


def test_a_port_that_cannot_be_is_refused() -> None:
    with pytest.raises(InputError, match="metrics port 70000 is not allowed"):
        Exposition().serve(70000)
