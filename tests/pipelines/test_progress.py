"""How far a run has come."""

from __future__ import annotations

from headgate.core.types import JSON
from headgate.pipelines.run import QUIET_S, PipelineProgress
from headgate.testing.clock import FakeClock

JOBS = ("parse", "sum")


def state(parse: dict[str, JSON], total: dict[str, JSON], distinct: int = 0) -> dict[str, JSON]:
    return {
        "joined": ["parse"],
        "observation": {"samples": {"parse": parse, "sum": total}},
        "end_to_end": {"distinct": distinct},
    }


BUSY: dict[str, JSON] = {"done": 5.0, "backlog": 3.0}
THROUGH: dict[str, JSON] = {"done": 8.0, "backlog": 0.0}
UNTOUCHED: dict[str, JSON] = {"backlog": 0.0}


def test_before_anything_is_known_nothing_is_concluded() -> None:
    progress = PipelineProgress(JOBS)
    assert progress.missing == ["parse", "sum"]
    assert not progress.is_warm()
    assert not progress.is_quiet(0.0)
    assert not progress.has_given(1)


def test_jobs_that_have_got_something_done_are_warm() -> None:
    progress = PipelineProgress(JOBS)
    progress.take(state(THROUGH, BUSY))
    assert not progress.is_warm()
    progress.take(state(THROUGH, THROUGH))
    assert progress.is_warm()
    assert progress.missing == ["sum"]


def test_a_job_that_gets_nothing_is_warm_when_no_more_comes() -> None:
    clock = FakeClock()
    progress = PipelineProgress(JOBS, clock.now)
    progress.take(state(THROUGH, UNTOUCHED))
    assert not progress.is_warm()
    clock.advance(QUIET_S)
    assert progress.is_warm()


def test_a_run_has_given_all_when_every_record_is_out_or_nothing_waits_for_a_while() -> None:
    clock = FakeClock()
    progress = PipelineProgress(JOBS, clock.now)
    progress.take(state(THROUGH, BUSY, distinct=10))
    assert progress.has_given(10)
    assert not progress.has_given(11)
    clock.advance(QUIET_S)
    progress.take(state(THROUGH, BUSY, distinct=10))
    assert not progress.has_given(11)
    progress.take(state(THROUGH, THROUGH, distinct=10))
    progress.expect_more()
    assert not progress.has_given(11)
    clock.advance(QUIET_S)
    assert progress.has_given(11)
