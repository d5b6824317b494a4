"""What a policy may look back on."""

import pytest

from headgate.core.topology import Topology
from headgate.core.types import Batch, Instances, Observation, Sample
from headgate.core.window import History
from tests.core.building import JOB, decision, history, observation


def reading(at_s: float, *, warming: bool = False) -> Sample:
    return Sample("job", at_s, latency_s=at_s, warming=warming)


def times(samples: list[Sample]) -> list[float]:
    return [sample.at_s for sample in samples]


def test_a_new_window_knows_nothing() -> None:
    window = History(JOB)
    assert window.instances("job") is None
    assert window.sample("job") is None
    assert window.sample_at("job", 100) is None
    assert window.samples("job") == []
    assert window.last_change("job") is None
    assert window.settled_since_s("job") is None
    assert window.streak("job") == 0


def test_the_newest_observation_tells_the_size() -> None:
    window = History(JOB)
    window.observe(observation(0, planned=2))
    window.observe(observation(5, planned=4, ready=3))
    assert window.instances("job") == Instances(4, 4, 3)


def test_a_reading_that_is_reported_again_counts_once() -> None:
    window = History(JOB)
    for at_s in (0, 5, 10):
        window.observe(observation(at_s, sample=reading(0 if at_s < 10 else 10)))
    assert times(window.samples("job")) == [0, 10]


def test_a_reading_older_than_the_newest_is_left_out() -> None:
    assert times(history([reading(10), reading(5), reading(15)]).samples("job")) == [10, 15]


@pytest.mark.parametrize(("since_s", "expected"), [(None, [0, 10, 20]), (10, [10, 20]), (10.5, [20]), (21, [])])
def test_readings_are_given_from_a_time_on_oldest_first(since_s: float | None, expected: list[float]) -> None:
    window = history([reading(0), reading(10), reading(20)])
    assert times(window.samples("job", since_s)) == expected


def test_readings_made_while_warming_can_be_left_out() -> None:
    window = history([reading(0), reading(10, warming=True), reading(20)])
    assert times(window.samples("job", settled=True)) == [0, 20]


@pytest.mark.parametrize(("at_s", "expected"), [(-1, None), (0, 0), (9.9, 0), (10, 10), (100, 10)])
def test_a_past_reading_is_the_one_that_was_the_newest_then(at_s: float, expected: float | None) -> None:
    sample = history([reading(0), reading(10)]).sample_at("job", at_s)
    assert (sample.at_s if sample else None) == expected


def test_what_is_older_than_the_retention_is_forgotten() -> None:
    window = History(JOB, retention_s=60)
    for at_s in range(0, 200, 10):
        window.observe(observation(at_s, sample=reading(at_s)))
        window.record(decision(at_s, 2, 2))
    assert [seen.at_s for seen in window.observations] == times(window.samples("job")) == list(range(130, 200, 10))
    assert [made.at_s for made in window.decisions] == list(range(130, 200, 10))


def test_the_newest_reading_stays_however_old_it_is() -> None:
    window = History(JOB, retention_s=60)
    window.observe(observation(0, sample=reading(0)))
    for at_s in range(10, 200, 10):
        window.observe(observation(at_s))
    assert times(window.samples("job")) == [0]


def test_the_last_changes_outlive_the_retention() -> None:
    window = History(JOB, retention_s=60)
    window.observe(observation(0))
    window.record(decision(0, 2, 4))
    for at_s in range(10, 200, 10):
        window.observe(observation(at_s, planned=4))
        window.record(decision(at_s, 4, 4))
    change = window.last_change("job")
    assert change is not None
    assert (change.at_s, change.is_scale_out) == (0, True)


def test_the_last_change_of_each_direction_is_known() -> None:
    window = History(JOB)
    for at_s, current, target in ((0, 2, 4), (10, 4, 3), (20, 3, 3)):
        window.record(decision(at_s, current, target))
    out, in_, last = window.last_scale_out("job"), window.last_scale_in("job"), window.last_change("job")
    assert out is not None
    assert in_ is not None
    assert (out.at_s, in_.at_s) == (0, 10)
    assert last == in_


@pytest.mark.parametrize(
    ("changes", "streak"),
    [
        ([], 0),
        ([1], 1),
        ([1, 2, 1], 3),
        ([1, 0, 0, 1], 2),
        ([1, 1, -1], -1),
        ([-1, -2], -2),
        ([-1, -1, 3], 1),
    ],
)
def test_changes_in_a_row_that_go_the_same_way_are_counted_and_holds_do_not_break_them(
    changes: list[int], streak: int
) -> None:
    window = History(JOB)
    for at_s, change in enumerate(changes):
        window.record(decision(at_s, 10, 10 + change))
    assert window.streak("job") == streak


@pytest.mark.parametrize(
    ("events", "settled_s"),
    [
        ("observe 2/2 at 0, observe 2/2 at 10", None),
        ("observe 2/2 at 0, decide 2→3 at 0, observe 3/2 at 10", 0),
        ("observe 2/2 at 0, decide 2→3 at 0, observe 3/2 at 10, observe 3/3 at 20, observe 3/3 at 30", 20),
        ("observe 2/2 at 0, observe 2/1 at 10, observe 2/2 at 20", 20),
        ("observe 2/2 at 0, observe 2/1 at 10, decide 2→3 at 10", 10),
    ],
)
def test_a_size_has_settled_when_neither_plan_nor_ready_instances_changed_since(
    events: str, settled_s: float | None
) -> None:
    window = History(JOB)
    for event in events.split(", "):
        kind, what, _, at_s = event.split()
        if kind == "observe":
            planned, ready = what.split("/")
            window.observe(observation(float(at_s), int(planned), int(ready)))
        else:
            current, target = what.split("→")
            window.record(decision(float(at_s), int(current), int(target)))
    assert window.settled_since_s("job") == settled_s


def test_operators_are_separate() -> None:
    window = History(Topology.of(("parse", "enrich")))
    window.observe(Observation(0, {"parse": Sample("parse", 0)}, {"parse": Instances(1, 1, 1)}))
    assert window.sample("parse") is not None
    assert window.sample("enrich") is None
    assert window.instances("enrich") is None


def test_an_operator_that_is_missing_from_an_observation_keeps_its_last_known_size() -> None:
    window = History(Topology.of(("parse", "join")))
    window.observe(Observation(0, {}, {"parse": Instances(2, 2, 2), "join": Instances(3, 3, 3)}))
    window.observe(Observation(5, {}, {"parse": Instances(2, 2, 1)}))
    window.observe(Observation(10, {}, {"parse": Instances(2, 2, 2)}))
    assert window.instances("join") == Instances(3, 3, 3, stale=True)
    assert window.instances("parse") == Instances(2, 2, 2)
    window.observe(Observation(15, {}, {"parse": Instances(2, 2, 2), "join": Instances(3, 3, 3)}))
    assert window.instances("join") == Instances(3, 3, 3)


def test_every_batch_between_two_readings_is_there_to_learn_from() -> None:
    window = History(JOB)
    for tick in range(4):
        at_s = 10.0 * tick
        batches = tuple(Batch(at_s - 3 * n, at_s - 3 * n + 2, 10 * n, warming=n == 2) for n in (3, 2, 1))
        window.observe(observation(at_s, 2, 2, Sample("job", at_s, batches=batches)))
    assert [batch.ended_s for batch in window.batches("job", 15.0)] == [16, 19, 23, 26, 29]
    assert [batch.ended_s for batch in window.batches("job", 15.0, settled=True)] == [19, 23, 29]
    assert len(window.batches("job")) == 12
