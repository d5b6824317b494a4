"""The metrics of jobs, named by the conventions of Prometheus: base units, counters ``_total``.

Declared once: the exposition, OpenTelemetry and the table of the documentation are made of these.
"""

from __future__ import annotations

import logging
import platform
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Literal, NamedTuple

from headgate._version import __version__
from headgate.core.errors import InputError, cause_of
from headgate.core.extras import needing
from headgate.core.units import printable

if TYPE_CHECKING:
    from wsgiref.simple_server import WSGIServer

    from prometheus_client.core import Metric

    from headgate.runtime.exposition.job_figures import JobFigures

logger = logging.getLogger("headgate")

OPERATOR = ("job", "operator")
_OF_QUOTA = ("group", "resource")


@dataclass(frozen=True, slots=True)
class Family:
    """One metric with its labels."""

    name: str
    kind: Literal["counter", "gauge"]
    help: str
    labels: tuple[str, ...] = OPERATOR

    @property
    def unit(self) -> str:
        """The unit by its name in OpenTelemetry."""
        stem = self.name.removesuffix("_total")
        return {"seconds": "s", "bytes": "By", "ratio": "1"}.get(stem.rpartition("_")[2], "")


class Reading(NamedTuple):
    """The value of one metric for one set of labels."""

    family: str
    labels: tuple[str, ...]
    value: float


FAMILIES = (
    Family("headgate_build_info", "gauge", "1, with what is running in its labels", ("version", "python")),
    Family(
        "headgate_decisions_total",
        "counter",
        "decisions, one per operator: out, in or hold",
        ("job", "operator", "policy", "direction"),
    ),
    Family(
        "headgate_guard_changes_total",
        "counter",
        "decisions in which a guard altered what the policy wanted",
        ("job", "operator", "guard"),
    ),
    Family(
        "headgate_events_total",
        "counter",
        "events of the loop by kind, such as policy-failed or agent-lost",
        ("job", "kind"),
    ),
    Family(
        "headgate_instances",
        "gauge",
        "instances: planned, requested of the cluster, ready",
        ("job", "operator", "state"),
    ),
    Family("headgate_capped", "gauge", "1 while the size is the maximum and that is not enough"),
    Family(
        "headgate_limited_by_cluster", "gauge", "1 while more instances are wanted than the cluster was found to give"
    ),
    Family("headgate_size_is_stale", "gauge", "1 while the size is the last known one and nobody confirms it"),
    Family("headgate_records_arrived_total", "counter", "records that were offered, as the engine counts them"),
    Family("headgate_records_done_total", "counter", "records that the operator is through with"),
    Family("headgate_records_late_total", "counter", "records whose result came later than the objective allows"),
    Family("headgate_backlog_records", "gauge", "records that have arrived and are not done yet"),
    Family("headgate_latency_seconds", "gauge", "the longest that any record waited since the reading before"),
    Family("headgate_processing_time_seconds", "gauge", "how long the newest batch took"),
    Family("headgate_utilization_ratio", "gauge", "busy share of the instances, 0 to 1"),
    Family("headgate_reading_timestamp_seconds", "gauge", "when the newest reading was taken, since the Unix epoch"),
    Family(
        "headgate_missing_readings_total",
        "counter",
        "decisions that had to do without a reading; sample: without any of the operator",
        ("job", "operator", "metric"),
    ),
    Family("headgate_error_budget_left_ratio", "gauge", "share of the error budget that is left; below 0 it is broken"),
    Family(
        "headgate_error_budget_burn_rate",
        "gauge",
        "how many times faster than allowed the budget is spent, over a 24th and a 288th of the period",
        ("job", "operator", "window"),
    ),
    Family("headgate_cost_per_hour", "gauge", "what an hour costs at the present size, in the price's unit", ("job",)),
    Family("headgate_cost_spent", "gauge", "what was spent in the last period, in the price's unit", ("job",)),
    Family("headgate_paused", "gauge", "1 while changes of size this way are held back", ("job", "direction")),
    Family("headgate_acting", "gauge", "1 while decisions are applied, 0 while they are only recommended", ("job",)),
    Family("headgate_ticks_total", "counter", "cycles of the loop", ("job",)),
    Family("headgate_observe_failures_total", "counter", "cycles in which the engine could not be observed", ("job",)),
    Family("headgate_tick_seconds_total", "counter", "time that cycles took, from reading to journal", ("job",)),
    Family("headgate_loop_lateness_seconds", "gauge", "how long after its time the newest cycle began", ("job",)),
    Family("headgate_loop_interval_seconds", "gauge", "time between two decisions as configured", ("job",)),
    Family("headgate_last_tick_timestamp_seconds", "gauge", "when the newest cycle ended, since the epoch", ("job",)),
    Family("headgate_journal_failed", "gauge", "1 once entries are missing from the journal", ("job",)),
    Family("headgate_journal_size_bytes", "gauge", "size of the journal's file", ("job",)),
)
"""Every metric of a job, in the order of the exposition."""

SERVICE_FAMILIES = (
    Family("headgate_agent_up", "gauge", "1 while the agent of an operator reports"),
    Family("headgate_jobs", "gauge", "jobs that the service looks after", ()),
    Family("headgate_jobs_short", "gauge", "operators that get less than they want, for want of quota", ()),
    Family("headgate_jobs_waiting", "gauge", "operators that wait for their turn to change their size", ()),
    Family("headgate_quota_limit", "gauge", "what a group may have; of the whole cluster: group empty", _OF_QUOTA),
    Family("headgate_quota_used", "gauge", "what the jobs of a group have, leaving instances included", _OF_QUOTA),
    Family("headgate_file_refused", "gauge", "1 while the newest form of the service's file is not in force", ()),
)
"""Metrics of a service, in addition to those of its jobs."""

ALL_FAMILIES = (*FAMILIES, *SERVICE_FAMILIES)


LOOPBACK = "127.0.0.1"


class Exposition:
    """Exposes the figures of jobs that may come and go, and ``more`` of them; made once per process."""

    def __init__(self, more: Callable[[], Iterable[Reading]] = tuple) -> None:
        with needing("metrics for Prometheus"):
            from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

        self._jobs: dict[str, JobFigures] = {}
        self._more = more
        self._registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self._registry)
        self._registry.register(self)

    def add(self, figures: JobFigures) -> None:
        """Expose a job from now on; it replaces a job of the same name."""
        self._jobs[figures.job] = figures

    def remove(self, job: str) -> None:
        self._jobs.pop(job, None)

    def readings(self) -> Iterator[Reading]:
        """Yield the figures of all jobs."""
        yield Reading("headgate_build_info", (__version__, platform.python_version()), 1.0)
        for figures in list(self._jobs.values()):
            try:
                yield from list(figures.readings())
            except Exception:
                # The figures of the others must not be missing as well.
                logger.exception("the figures of job %s cannot be collected", figures.job)
        yield from self._more()

    def collect(self) -> Iterable[Metric]:
        """Return all metrics, for Prometheus' own library."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        made = {
            family.name: (CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily)(
                family.name, family.help, labels=family.labels
            )
            for family in ALL_FAMILIES
        }
        for reading in self.readings():
            made[reading.family].add_metric([printable(label) for label in reading.labels], reading.value)
        return [metric for metric in made.values() if metric.samples]

    def text(self, accept: str | None = None) -> tuple[bytes, str]:
        """Return the page in the requested format, and its content type."""
        from prometheus_client.exposition import choose_encoder

        encode, content_type = choose_encoder(accept or "")
        return encode(self._registry), content_type

    def serve(self, port: int) -> Page:
        """Serve the page on loopback until it is closed."""
        from prometheus_client import start_http_server

        if not 0 <= port <= 65535:
            raise InputError(f"metrics port {port} is not allowed; it must lie between 0 and 65535.")
        try:
            server, _ = start_http_server(port, LOOPBACK, self._registry)
        except OSError as error:
            raise InputError(f"metrics port {port} of {LOOPBACK} cannot be used: {cause_of(error)}.") from error
        return Page(server)


class Page:
    """The page with the figures, at ``url`` until it is closed."""

    def __init__(self, server: WSGIServer) -> None:
        self._server = server
        self.url = f"http://{LOOPBACK}:{server.server_port}/metrics"
        self._is_open = True

    def close(self) -> None:
        """Stop serving; twice is fine."""
        if self._is_open:
            self._is_open = False
            self._server.shutdown()
            self._server.server_close()

    def __enter__(self) -> Page:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
