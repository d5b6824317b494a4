"""OpenTelemetry by its variables, against a receiver that reads what is sent as the protocol has it."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from headgate.runtime.exposition import open_telemetry as module
from headgate.runtime.exposition.job_figures import JobExposure, expose
from tests.http_receiver import HttpReceiver
from tests.runtime.exposition.reported_job import ReportedJob


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ENDPOINT", "TRACES_ENDPOINT", "METRICS_ENDPOINT", "PROTOCOL", "TRACES_PROTOCOL", "METRICS_PROTOCOL"):
        monkeypatch.delenv(f"OTEL_EXPORTER_OTLP_{name}", raising=False)
    for name in ("OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER", "OTEL_SERVICE_NAME"):
        monkeypatch.delenv(name, raising=False)


def run_exposed(folder: Path, steps: int) -> None:
    """Run a job for some cycles, exposed as the variables say."""
    job = ReportedJob(folder)
    exposure = expose(job.loop, 10.0, job.journal, None)
    for cycle in range(steps):
        job.step()
        exposure.ticked(10.0 * cycle, 10.0 * cycle + 1, 10.0 * cycle + 2)
    exposure.close()
    job.close()


def test_spans_and_figures_reach_a_collector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with HttpReceiver() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=streams")
        monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
        run_exposed(tmp_path, 20)
    traces = [
        ExportTraceServiceRequest.FromString(body) for path, body, _ in collector.received if path == "/v1/traces"
    ]
    spans = [span for request in traces for rs in request.resource_spans for ss in rs.scope_spans for span in ss.spans]
    assert [span.name for span in spans] == ["headgate.cycle"] * 20
    assert (spans[3].start_time_unix_nano, spans[3].end_time_unix_nano) == (31_000_000_000, 32_000_000_000)
    verdict = {attribute.key: attribute.value for attribute in spans[3].events[0].attributes}
    assert verdict["operator"].string_value == "job"
    assert verdict["target"].int_value == 3
    figures = [body for path, body, _ in collector.received if path == "/v1/metrics"]
    parts = [part for body in figures for part in ExportMetricsServiceRequest.FromString(body).resource_metrics]
    resource = {attribute.key: attribute.value.string_value for attribute in parts[0].resource.attributes}
    assert (resource["service.name"], resource["deployment.environment"]) == ("headgate", "test")
    metrics = {metric.name: metric for part in parts for scope in part.scope_metrics for metric in scope.metrics}
    assert metrics["headgate_ticks_total"].sum.is_monotonic
    assert metrics["headgate_ticks_total"].sum.data_points[0].as_double == 20
    assert metrics["headgate_latency_seconds"].unit == "s"
    assert all(headers["x-team"] == "streams" for _, _, headers in collector.received)


@pytest.mark.parametrize(
    ("variables", "paths"),
    [
        ({}, {"/v1/traces", "/v1/metrics"}),
        ({"OTEL_TRACES_EXPORTER": "none"}, {"/v1/metrics"}),
        ({"OTEL_METRICS_EXPORTER": "none"}, {"/v1/traces"}),
        ({"OTEL_SDK_DISABLED": "true"}, set()),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, set()),
        ({"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"}, {"/v1/metrics"}),
    ],
)
def test_the_variables_say_what_is_sent(
    variables: dict[str, str], paths: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with HttpReceiver() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        run_exposed(tmp_path, 2)
    assert {path for path, _, _ in collector.received} == paths


def test_without_variables_nothing_is_sent_and_nothing_is_watched(tmp_path: Path) -> None:
    job = ReportedJob(tmp_path)
    watchers = len(job.loop.watchers)
    exposure = expose(job.loop, 10.0, job.journal, None)
    assert isinstance(exposure, JobExposure)
    assert (exposure.url, len(job.loop.watchers)) == (None, watchers)
    exposure.close()
    job.close()


def test_without_the_sdk_it_is_said_what_to_install(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Absent:
        def __init__(self, **wanted: bool) -> None:
            raise ModuleNotFoundError(name="opentelemetry.sdk")

    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(module, "Telemetry", Absent)
    with caplog.at_level(logging.WARNING):
        assert module.open_telemetry() is None
    assert "pip install 'headgate[otel]'" in caplog.text
