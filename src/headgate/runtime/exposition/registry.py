"""All jobs of a process, as Prometheus wants to read them: text, or a page on loopback."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING

from headgate._version import __version__
from headgate.core.errors import InputError, cause_of
from headgate.core.extras import needing
from headgate.runtime.exposition.families import ALL_FAMILIES, Reading
from headgate.runtime.exposition.job_figures import JobFigures

if TYPE_CHECKING:
    from wsgiref.simple_server import WSGIServer

    from prometheus_client.core import Metric

LOOPBACK = "127.0.0.1"


class Exposition:
    """Gives the figures of jobs that may come and go, and ``further`` ones; made once per process."""

    def __init__(self, further: Callable[[], Iterable[Reading]] = tuple) -> None:
        with needing("metrics for Prometheus"):
            from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

        self._jobs: dict[str, JobFigures] = {}
        self._further = further
        self._registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self._registry)
        self._registry.register(self)

    def add(self, figures: JobFigures) -> None:
        """Tell of a job from now on; one of the same name takes its place."""
        self._jobs[figures.job] = figures

    def remove(self, job: str) -> None:
        self._jobs.pop(job, None)

    def readings(self) -> Iterator[Reading]:
        """The figures of all jobs."""
        yield Reading("headgate_build_info", (__version__, platform.python_version()), 1.0)
        for figures in list(self._jobs.values()):
            yield from figures.readings()
        yield from self._further()

    def collect(self) -> Iterable[Metric]:
        """What Prometheus' own library asks for."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        made = {
            family.name: (CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily)(
                family.name, family.help, labels=family.labels
            )
            for family in ALL_FAMILIES
        }
        for reading in self.readings():
            made[reading.family].add_metric(reading.labels, reading.value)
        return [one for one in made.values() if one.samples]

    def text(self, accept: str | None = None) -> tuple[bytes, str]:
        """The page in the format that was asked for, and its type."""
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
