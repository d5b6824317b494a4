"""The live view of headgate mst: the throughput of each size while it is measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.table import Table

from headgate.cli.live_view import LiveView, sparkline
from headgate.cli.progress import TimeLeft, roughly
from headgate.lab.mst import CLUSTER_START_S

if TYPE_CHECKING:
    from headgate.lab.mst import Measurement, MstPlan


class MstView(LiveView):
    """Shows the sizes of one application after the other."""

    def __init__(self, console: Console, plans: Sequence[MstPlan], clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(console)
        self._plans = plans
        self._plan = plans[0]
        self._clock = clock
        self._left = TimeLeft(clock(), CLUSTER_START_S + _expected_s(plans))
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
        """Return the time left, at least that of the sizes not begun yet."""
        not_begun_s = self._not_done_s() - self._plan.expected_s_per_size
        return max(self._left.seconds(self._clock()) or 0.0, not_begun_s)

    def _not_done_s(self) -> float:
        """Return the expected time of the sizes left; a job that could not be measured counts as done."""
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
        result = "did not settle in time" if throughput is None else f"{throughput:,.1f} records/s"
        if throughput is not None and not measurement.settled:
            result = f"about {result}, did not settle in time"
        self._settled += 1
        self._note_done()
        self._rows[measurement.executors] = (measurement.readings, result)
        from headgate.lab.mst_measuring import executors_in_words

        self._say(f"{executors_in_words(measurement.executors)}: {result} ({len(measurement.readings)} batches)")

    def _say(self, text: str) -> None:
        if not self.console.is_terminal:
            self.console.print(text)

    def title(self) -> str:
        return f"headgate mst {self._plan.app}{self._place}"

    def sections(self) -> Iterator[RenderableType]:
        table = Table(box=None, padding=(0, 2, 0, 0))
        for heading in ("executors", "throughput by batch", "newest", ""):
            table.add_column(heading, no_wrap=True)
        for size in self._plan.sizes:
            readings, result = self._rows.get(size, ((), ""))
            newest = f"{readings[-1]:,.1f}/s" if readings else ""
            table.add_row(str(size), sparkline(list(readings), 24), newest, result)
        yield table


def _expected_s(plans: Sequence[MstPlan]) -> float:
    """Return about how long all sizes of these jobs take."""
    return sum(len(plan.sizes) * plan.expected_s_per_size for plan in plans)
