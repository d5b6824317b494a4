"""How one job without a service is told of: a page for Prometheus, OpenTelemetry by its variables, both or neither."""

from __future__ import annotations

import contextlib
from pathlib import Path

from headgate.journal.contract import Journal
from headgate.runtime.exposition.job_figures import JobFigures
from headgate.runtime.exposition.open_telemetry import Telemetry, open_telemetry
from headgate.runtime.loop import ControlLoop


class Telling:
    """Everybody who is told of the cycles of one loop, until it is closed."""

    def __init__(self) -> None:
        self.url: str | None = None
        """Of the page for Prometheus."""
        self._figures: JobFigures | None = None
        self._telemetry: Telemetry | None = None
        self._open = contextlib.ExitStack()

    def watch(self, loop: ControlLoop, interval_s: float, journal: Path | None, port: int | None) -> None:
        """Tell of a loop to everybody who asked for it."""
        telemetry = open_telemetry()
        if port is None and telemetry is None:
            return
        figures = self._figures = JobFigures(loop.job, lambda: interval_s, journal=journal)
        figures.attach(loop)
        if port is not None:
            from headgate.runtime.exposition.registry import Exposition

            exposition = Exposition()
            exposition.add(figures)
            page = self._open.enter_context(exposition.serve(port))
            self.url = page.url
        if telemetry is not None:
            telemetry.begin(figures.readings)
            self._telemetry = telemetry
            self._open.callback(telemetry.close)

    def ticked(self, due_s: float, began_s: float, ended_s: float) -> None:
        if self._figures is None:
            return
        self._figures.ticked(due_s, began_s, ended_s)
        if self._telemetry is not None:
            self._telemetry.ticked(self._figures.job, began_s, ended_s, self._figures.decision)

    def close(self) -> None:
        """Tell nobody any more; twice is fine."""
        self._open.close()


def tell_of(loop: ControlLoop, interval_s: float, journal: Journal | None, port: int | None) -> Telling:
    """A job told of on a port, and as the variables of OpenTelemetry say."""
    telling = Telling()
    path = getattr(journal, "path", None)
    telling.watch(loop, interval_s, path if isinstance(path, Path) else None, port)
    return telling
