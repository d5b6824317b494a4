"""A real Spark job under a real service, which dies and comes back."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from pyspark.sql import SparkSession

import headgate
from headgate.apps.steady_job import SteadyJob
from headgate.client import Client
from headgate.engines.spark.engine import SparkEngine
from headgate.local.machine import free_ports
from headgate.service.store import open_store
from headgate.service.store.tokens import Scope
from tests.live.support import eventually, executor_processes, resize

CONFIG = """\
version: 1
store: sqlite:///{folder}/service.db
jobs:
  served:
    objective: latency p95 < 3s
    policy: reactive
    interval: 1s
    report_every: 1s
    operators: {{count: {{instances: [1, 2]}}}}
"""
FALLBACK_AFTER_S = 6.0


@contextmanager
def serving(file: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A service in a process of its own, which is killed at the end."""
    command = [sys.executable, "-m", "headgate", "serve", str(file), "--listen", f"127.0.0.1:{port}"]
    with (file.parent / "service.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "PYTHONUNBUFFERED": "1"})
        try:
            yield process
        finally:
            process.kill()
            process.wait(30)


@pytest.mark.soak
def test_a_service_scales_a_job_that_keeps_its_size_and_then_decides_itself_while_the_service_is_dead(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Its own policy may go to three executors, the service only to two: the size tells who decides."""
    file = tmp_path / "headgate.yaml"
    file.write_text(CONFIG.format(folder=tmp_path), encoding="utf-8")
    token = open_store(f"sqlite:///{tmp_path}/service.db").tokens.make("driver", {Scope.AGENT})
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    planned: list[int] = []
    job = SteadyJob(
        tmp_path, "constant:70", 120.0, cost_s=0.05, trigger_interval_s=1.0, partitions=6, max_rows_per_batch=60
    )
    before_it = SparkEngine(spark, take_over=True, drain_timeout_s=20.0)
    resize(before_it, 1)
    before_it.close()
    query = job.start(spark)
    try:
        with serving(file, port) as service:
            eventually("the service is ready", lambda: _is_ready(url))
            agent = headgate.join(
                spark,
                service=url,
                operator="count",
                token=token,
                job="served",
                fallback="reactive",
                objective="latency p95 < 3s",
                executors=(1, 3),
                fallback_after=FALLBACK_AFTER_S,
                watcher=lambda seen: planned.append(seen.instances["job"].planned),
            )
            eventually("the service scales it up", lambda: planned[-1:] == [2] and len(executor_processes()) == 2)
            with Client(url) as client:
                reported = [event["detail"] for event in client.events("served")]
            before = len(planned)
            service.kill()
        try:
            eventually("nobody answers", lambda: agent.agent.is_away)
            assert agent.is_alive
            eventually("its own policy decides", lambda: planned[-1] == 3)
            assert set(planned[before:]) == {2, 3}, "its size did not change until then"
            with serving(file, port), Client(url) as client:
                eventually("it is in again, and scaled by the service", lambda: not agent.agent.is_away)
                eventually("the service's bounds hold again", lambda: planned[-1] == 2)
                reported += [event["detail"] for event in client.events("served")]
                changes = client.decisions("served", holds=False)
        finally:
            agent.stop()
    finally:
        query.stop()
    assert any(detail.startswith("count joined at size 1") for detail in reported), reported
    assert any(detail.startswith("count joined at size 3") for detail in reported), reported
    assert any(detail.startswith("count chose size 3 itself") for detail in reported), reported
    assert any(change["verdicts"]["count"]["target"] == 2 for change in changes)


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", timeout=5.0).status_code == 200
    except httpx.TransportError:
        return False
