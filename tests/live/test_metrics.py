"""A real Spark job and a Prometheus that scrapes its metrics."""

from __future__ import annotations

from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import SparkSession

import headgate
from headgate.apps.steady_job import SteadyJob
from headgate.runtime.exposition.families import FAMILIES
from tests.live.support import eventually


def test_prometheus_reads_how_a_job_without_a_service_fares(spark: SparkSession, tmp_path: Path) -> None:
    job = SteadyJob(tmp_path, "constant:20", seconds=60.0, cost_s=0.01, trigger_interval_s=1.0, partitions=2)
    query = job.start(spark)
    try:
        with headgate.autoscale(
            spark,
            objective="latency p95 < 5s, price 0.5",
            policy="reactive",
            executors=(1, 2),
            interval=1.0,
            job="measured",
            take_over=True,
            metrics_port=0,
        ) as autoscaler:
            url = autoscaler.metrics_url
            assert url is not None
            eventually("decisions were counted", lambda: _read(url).get("headgate_decisions", 0.0) >= 2)
            eventually("a batch was counted", lambda: _read(url).get("headgate_records_done", 0.0) > 0)
            families = _read(url)
    finally:
        query.stop()
    assert families["headgate_build_info"] == 1
    assert families["headgate_paused"] == 0
    assert families["headgate_instances"] >= 1
    assert families["headgate_cost_per_hour"] >= 0.5
    # Counters are listed without their suffix; the metrics of the process are those of the client library.
    known = {family.name.removesuffix("_total") for family in FAMILIES}
    assert {name for name in families if not name.startswith(("python_", "process_"))} <= known
    assert {"headgate_loop_lateness_seconds", "headgate_error_budget_left_ratio"} <= set(families)


def _read(url: str) -> dict[str, float]:
    """The largest value of each family."""
    text = httpx.get(url, timeout=10.0).text
    found = {
        family.name: [sample.value for sample in family.samples] for family in text_string_to_metric_families(text)
    }
    return {name: max(values) for name, values in found.items() if values}
