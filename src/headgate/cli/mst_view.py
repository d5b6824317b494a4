"""What headgate mst shows while it measures."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headgate.cli.time_left import TimeLeft, roughly
from headgate.lab.mst import CLUSTER_START_S

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from headgate.lab.mst import Measurement, MstPlan


class MstView:
    """What is measured, line by line; on a terminal it is redrawn."""

    def __init__(self, console: Console, plans: Sequence[MstPlan], clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._plans = plans
        self._plan = plans[0]
        self._clock = clock
        self._left = TimeLeft(clock(), CLUSTER_START_S + _expected_s(plans))
        self._stage = ""
        self._rows: dict[int, tuple[Sequence[float], str]] = {}
        self._settled = 0

    def begin(self, plan: MstPlan) -> MstView:
        if plan is not self._plan or not self._stage:
            self._plan, self._rows, self._settled = plan, {}, 0
            self._note_done()
            self._say(f"{plan.app}{self._place}")
        return self

    @property
    def _place(self) -> str:
        count = len(self._plans)
        place = f" ({self._plans.index(self._plan) + 1} of {count})" if count > 1 else ""
        return f"{place}, about {roughly(self._left_s())} left"

    def _left_s(self) -> float:
        """At least what the sizes take that were not begun yet, however long this one takes."""
        not_begun_s = self._not_done_s() - self._plan.expected_s_per_size
        return max(self._left.seconds(self._clock()) or 0.0, not_begun_s)

    def _not_done_s(self) -> float:
        """What is expected of the sizes left; a job that could not be measured counts as done."""
        later = self._plans[self._plans.index(self._plan) :]
        return _expected_s(later) - self._settled * self._plan.expected_s_per_size

    def _note_done(self) -> None:
        not_done_s = self._not_done_s()
        if not_done_s < _expected_s(self._plans):
            self._left.done(1 - not_done_s / (CLUSTER_START_S + _expected_s(self._plans)), self._clock())

    def stage(self, text: str) -> None:
        self._stage = text
        self._say(text)

    def reading(self, executors: int, readings: Sequence[float]) -> None:
        self._rows[executors] = (tuple(readings), "settling")

    def settled(self, measurement: Measurement) -> None:
        throughput = measurement.throughput_per_s
        told = "did not settle in time" if throughput is None else f"{throughput:,.1f} records/s"
        if throughput is not None and not measurement.settled:
            told = f"about {told}, did not settle in time"
        self._settled += 1
        self._note_done()
        self._rows[measurement.executors] = (measurement.readings, told)
        from headgate.lab.mst_measuring import executors_in_words

        self._say(f"{executors_in_words(measurement.executors)}: {told} ({len(measurement.readings)} batches)")

    def _say(self, text: str) -> None:
        if not self._console.is_terminal:
            self._console.print(text)

    def __rich__(self) -> Table:
        from rich.table import Table

        from headgate.cli.sparklines import sparkline

        title = f"headgate mst {self._plan.app}{self._place}"
        table = Table(title=title, caption=self._stage, box=None, padding=(0, 2, 0, 0))
        for heading in ("executors", "throughput by batch", "newest", ""):
            table.add_column(heading, no_wrap=True)
        for size in self._plan.sizes:
            readings, told = self._rows.get(size, ((), ""))
            newest = f"{readings[-1]:,.1f}/s" if readings else ""
            table.add_row(str(size), sparkline(list(readings), 24), newest, told)
        return table


def _expected_s(plans: Sequence[MstPlan]) -> float:
    """About how long all sizes of some jobs take."""
    return sum(len(plan.sizes) * plan.expected_s_per_size for plan in plans)


@contextmanager
def mst_view(console: Console, plans: Sequence[MstPlan]) -> Iterator[MstView]:
    view = MstView(console, plans)
    if not console.is_terminal:
        yield view
        return
    from rich.live import Live

    with Live(view, console=console, refresh_per_second=4, transient=True):
        yield view
