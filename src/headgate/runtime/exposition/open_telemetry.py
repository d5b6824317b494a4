"""OpenTelemetry by its standard variables: a span for each cycle of a loop, and the figures that Prometheus gets.

Nothing is sent unless ``OTEL_EXPORTER_OTLP_ENDPOINT``, or that of traces or metrics, says where to. The SDK itself
reads headers, intervals, timeouts and attributes from its own variables. What goes over the wire is OTLP in protobuf by
HTTP.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from headgate._version import __version__
from headgate.core.types import Decision
from headgate.runtime.exposition.families import ALL_FAMILIES, Family, Reading

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions
    from opentelemetry.metrics import Observation as Measured

logger = logging.getLogger("headgate")
_NS = 1_000_000_000
_PROTOCOL = "http/protobuf"


class Telemetry:
    """Sends spans and figures of the loops of this process to a collector until it is closed."""

    def __init__(self, *, traces: bool, metrics: bool) -> None:
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider

        named = "OTEL_SERVICE_NAME" in os.environ or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
        resource = Resource.create({} if named else {"service.name": "headgate"})
        self._traces = TracerProvider(resource=resource) if traces else None
        if self._traces is not None:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.trace.export import BatchSpanProcessor

            self._traces.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        readers = []
        if metrics:
            from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
            from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

            readers.append(PeriodicExportingMetricReader(OTLPMetricExporter()))
        self._metrics = MeterProvider(metric_readers=readers, resource=resource) if readers else None

    def begin(self, readings: Callable[[], Iterable[Reading]]) -> None:
        """Send these figures whenever it is time to."""
        if self._metrics is None:
            return
        meter = self._metrics.get_meter("headgate", __version__)
        for family in ALL_FAMILIES:
            make = meter.create_observable_counter if family.kind == "counter" else meter.create_observable_gauge
            make(family.name, [_measured(family, readings)], family.unit, family.help)

    def ticked(self, job: str, began_s: float, ended_s: float, decision: Decision | None) -> None:
        """Send a span for a cycle, with what was decided for each operator as its events."""
        if self._traces is None:
            return
        tracer = self._traces.get_tracer("headgate", __version__)
        span = tracer.start_span("headgate.cycle", start_time=int(began_s * _NS), attributes={"headgate.job": job})
        if decision is None:
            span.set_attribute("headgate.observed", value=False)
        for name, verdict in decision.verdicts.items() if decision else ():
            fields: dict[str, str | int] = {
                "operator": name,
                "policy": decision.policy if decision else "",
                "current": verdict.current,
                "proposed": verdict.proposed,
                "target": verdict.target,
                "code": verdict.code,
                "reason": verdict.reason,
            }
            span.add_event("headgate.verdict", fields, int(ended_s * _NS))
        span.end(int(ended_s * _NS))

    def close(self) -> None:
        """Send what is left."""
        if self._traces is not None:
            self._traces.shutdown()
        if self._metrics is not None:
            self._metrics.shutdown()


def _measured(
    family: Family, readings: Callable[[], Iterable[Reading]]
) -> Callable[[CallbackOptions], Iterator[Measured]]:
    from opentelemetry.metrics import Observation as Measured

    def measure(options: CallbackOptions) -> Iterator[Measured]:
        for reading in readings():
            if reading.family == family.name:
                yield Measured(reading.value, dict(zip(family.labels, reading.labels, strict=True)))

    return measure


def open_telemetry() -> Telemetry | None:
    """Return what the variables configure, or ``None`` if that is nothing, or (logged) not installed."""
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    traces, metrics = _wanted("TRACES"), _wanted("METRICS")
    if not (traces or metrics):
        return None
    try:
        return Telemetry(traces=traces, metrics=metrics)
    except ModuleNotFoundError as error:
        logger.warning(
            "OTEL_ variables ask for telemetry, which goes on without: %s is missing, pip install 'headgate[otel]'.",
            (error.name or "").partition(".")[0],
        )
        return None


def _wanted(signal: str) -> bool:
    """Whether the variables name a place to which this signal is to be sent."""
    if os.environ.get(f"OTEL_{signal}_EXPORTER", "otlp").strip().lower() != "otlp":
        return False
    names = (f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    if not any(os.environ.get(name) for name in names):
        return False
    general = os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", _PROTOCOL)
    protocol = os.environ.get(f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL", general)
    if protocol != _PROTOCOL:
        logger.warning("OTLP by %s is not supported, only %s; %s are not sent.", protocol, _PROTOCOL, signal.lower())
        return False
    return True
