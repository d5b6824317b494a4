"""Alert rules and dashboard: checked by promtool, and every query against a real Prometheus that reads a real page."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headgate.core.errors import EngineError
from headgate.runtime.exposition.families import Exposition
from headgate.runtime.prometheus import Prometheus
from tests.prometheus_server import ROOT, RULES, PrometheusServer, needs_prometheus
from tests.runtime.exposition.reported_job import ReportedJob

pytestmark = needs_prometheus
DASHBOARD = ROOT / "deploy" / "grafana" / "headgate.json"
ALERT_TESTS = Path(__file__).with_name("alerts.yml")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusServer]:
    folder = tmp_path_factory.mktemp("prometheus")
    job, exposition = ReportedJob(folder), Exposition()
    exposition.add(job.figures)
    job.step(60)
    job.engine.reporting = False
    job.step()
    job.loop.note("policy-changed", "made up")
    with exposition.serve(0) as page, PrometheusServer(folder, page.url.split("/")[2]) as started:
        started.wait_for("count_over_time(headgate_ticks_total[1m]) >= 2")
        yield started
    job.close()


def queries() -> list[str]:
    board = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    found = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    found += [entry["expr"] for entry in board["annotations"]["list"]]
    variables = {"$job": ".*", "$__rate_interval": "1m", "$datasource": ""}
    for name, meaning in variables.items():
        found = [query.replace(name, meaning) for query in found]
    return found


def alert_rules(server: PrometheusServer) -> list[Any]:
    groups = server.ask("rules")["groups"]
    return [rule for group in groups for rule in group["rules"]]


def test_promtool_finds_nothing_wrong_with_config_and_rules() -> None:
    config = ROOT / "deploy" / "prometheus" / "prometheus.yml"
    for command in (["check", "rules", str(RULES)], ["check", "config", str(config)]):
        done = subprocess.run(["promtool", *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_fires_when_it_should_and_not_before() -> None:
    done = subprocess.run(["promtool", "test", "rules", str(ALERT_TESTS)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    named = set(re.findall(r"alertname: (\w+)", ALERT_TESTS.read_text(encoding="utf-8")))
    assert named == set(re.findall(r"alert: (\w+)", RULES.read_text(encoding="utf-8")))


def test_every_alert_is_evaluated_without_an_error(server: PrometheusServer) -> None:
    server.wait_for("prometheus_build_info or vector(1)")
    rules = alert_rules(server)
    assert len(rules) == RULES.read_text(encoding="utf-8").count("- alert:")
    assert [rule["name"] for rule in rules if rule.get("lastError")] == []


@pytest.mark.parametrize("query", queries())
def test_every_query_of_the_dashboard_gives_something(query: str, server: PrometheusServer) -> None:
    if "increase(headgate_decisions_total" in query:
        assert server.query(query) == []  # Nothing has changed its size since it is looked at.
    else:
        assert server.wait_for(query)


def test_the_variable_of_the_dashboard_finds_the_jobs(server: PrometheusServer) -> None:
    assert {entry["metric"]["job"] for entry in server.query("headgate_ticks_total")} == {"clicks"}


def test_a_query_is_a_metric_of_a_job(server: PrometheusServer) -> None:
    planned = Prometheus('headgate_instances{operator="$operator", state="planned"}', url=server.url)
    assert planned("job") == [3.0]
    assert planned("nobody") is None
    states = Prometheus('headgate_instances{operator="$operator"}', url=f"{server.url}/")
    assert states("job") == [3.0, 3.0, 3.0]
    assert Prometheus("scalar(vector(0.5))", url=server.url)("job") == [0.5]
    assert Prometheus("vector(0) / 0", url=server.url)("job") is None


def test_refusals_by_prometheus_are_quoted(server: PrometheusServer) -> None:
    with pytest.raises(EngineError, match=r"Prometheus refused 'sum\(': .*parse error"):
        Prometheus("sum(", url=server.url)("job")
    with pytest.raises(EngineError, match="not a number; query for a scalar or an instant vector"):
        Prometheus("headgate_ticks_total[1m]", url=server.url)("job")
