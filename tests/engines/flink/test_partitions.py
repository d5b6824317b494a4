"""A source gets no more instances than its topic has partitions: further ones read nothing, and hold up event time."""

from __future__ import annotations

from headgate.core.types import Decision
from headgate.engines.flink import FlinkEngine
from headgate.testing.clock import FakeClock
from tests.engines.flink.recorded_jobs import observe_recorded
from tests.engines.flink.small_job import COUNT, SLOW, SOURCE, SmallJob, played_by
from tests.engines.flink.stand_in import standing_in
from tests.engines.flink.test_policies import QUICK, run


def test_what_a_source_is_recorded_to_tell_of_its_partitions_is_counted() -> None:
    """Two instances read four partitions."""
    with standing_in() as stand_in:
        engine, seen = observe_recorded(stand_in, "partitions", "fast")
    last = seen[-1].samples
    assert engine.topology().operators == ("events", "Calc", "results")
    assert {name: sample.useful_instances for name, sample in last.items()} == {
        "events": 4,
        "Calc": None,
        "results": None,
    }


def test_partitions_that_are_added_are_found_and_none_is_forgotten() -> None:
    clock = FakeClock(1_000_000.0)
    job = SmallJob(clock)
    found = []
    with standing_in() as stand_in:
        engine = FlinkEngine(played_by(job, stand_in), clock.now, sleep=lambda seconds: None)
        # It has not registered all of them at first, and not yet again when it was started anew.
        for partitions, after_s in ((0, 0), (1, 2), (2, 2), (2, 30), (5, 31), (1, 31)):
            job.partitions = partitions
            clock.advance(after_s)
            found.append(engine.observe().samples["clicks"].useful_instances)
    assert found == [None, 1, 2, 2, 5, 5]


def slow_source(policy: str, partitions: int) -> tuple[SmallJob, list[Decision]]:
    def make_slow(job: SmallJob) -> None:
        job.per_s = {SOURCE: 15.0, SLOW: 1000.0, COUNT: 1000.0}
        job.partitions = partitions

    return run(policy, prepare=make_slow, settings=QUICK.get(policy))


def test_a_slow_source_grows_to_its_partitions_and_says_why_not_beyond() -> None:
    """100/s for a source that gets through 15/s: seven would be needed, of which six are allowed."""
    for policy in ("ds2", "autopilot", "flink-autoscaler"):
        job, decided = slow_source(policy, partitions=4)
        assert job.sizes[SOURCE] == 4, policy
        reasons = [decision.verdicts["clicks"] for decision in decided]
        assert any("more than 4 instances" in f"{reason.reason} {reason.notes}" for reason in reasons), policy


def test_a_source_that_tells_of_no_partitions_grows_as_it_has_to() -> None:
    job, _ = slow_source("ds2", partitions=0)
    assert job.sizes[SOURCE] == 6
