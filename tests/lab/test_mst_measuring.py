"""How a job is measured, with a job in place of Spark that takes a given time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from headgate.core.types import Batch
from headgate.lab.mst import MstPlan
from headgate.lab.mst_measuring import MOST_TRIALS, _Bench, _first_line
from tests.lab.watching import Watched

NOTHING = cast("Any", None)


class Bench(_Bench):
    """Each executor gets through so much, and each batch takes a little longer for itself."""

    per_s = 10_000.0
    overhead_s = 0.1
    most_batches = 30
    sways = 0.0
    """By which share every second batch takes longer."""

    def _resize(self, size: int) -> None: ...

    @contextmanager
    def _running(self, size: int) -> Iterator[Any]:
        self._started += 1
        yield self.plan.rows_per_batch(size * self._per_executor)

    def _batches(self, size: int, query: Any) -> Iterator[list[Batch] | None]:
        took_s = self.overhead_s + query / (size * self.per_s)
        for number in range(self.most_batches):
            longer_s = took_s * (1 + self.sways * (number % 2))
            yield [Batch(2 * number * took_s, 2 * number * took_s + longer_s, query)]


def bench(app: str = "grep", **changes: float) -> tuple[Bench, Watched]:
    watched = Watched()
    made = Bench(MstPlan((1, 2), app=app), NOTHING, NOTHING, NOTHING, watched)
    for name, value in changes.items():
        setattr(made, name, value)
    return made, watched


@pytest.mark.parametrize("per_s", [20.0, 900.0, 2000.0, 1_000_000.0])
def test_batches_are_made_to_last_as_long_as_requested(per_s: float) -> None:
    """The overhead is 0.1 s of batches of 1 to 4 s, so at most a tenth is missing from what executors get through."""
    made, watched = bench(per_s=per_s)
    for size in (1, 2):
        found = made.measure(size)
        assert found.throughput_per_s is not None
        assert 0.9 * size * per_s <= found.throughput_per_s <= size * per_s
        assert len(found.readings) == 5, "the batches of the trial that was right count"
    assert [measurement.executors for measurement in watched.measured] == [1, 2]


def test_a_job_whose_batches_never_last_as_long_as_requested_is_measured_as_it_is() -> None:
    made, _ = bench(overhead_s=60.0)
    found = made.measure(1)
    assert (found.throughput_per_s is not None, made._started) == (True, MOST_TRIALS)


def test_a_job_that_does_not_settle_is_reported() -> None:
    made, watched = bench(most_batches=3)
    assert made.measure(1).throughput_per_s is None
    assert watched.measured[0].agreeing == ()


def test_readings_that_never_settle_are_summarised_by_their_middle() -> None:
    made, watched = bench(sways=0.2)
    steady = bench()[0].measure(1).throughput_per_s
    found = made.measure(1)
    assert (found.settled, len(found.readings)) == (False, 30)
    assert found.throughput_per_s == pytest.approx((1 + 1 / 1.2) / 2 * (steady or 0.0), rel=0.05)
    assert watched.measured == [found]


def test_what_spark_says_of_a_failure_is_reported_in_its_first_line() -> None:
    text = "Python worker failed to connect back.\n=== Streaming Query ===\nIdentifier: [id = 1]"
    assert [_first_line(error) for error in (text, "")] == [
        "Python worker failed to connect back.",
        "no reason is known",
    ]
