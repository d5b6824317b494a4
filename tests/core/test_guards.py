"""Each guard by itself: a table of what it does to a target."""

from __future__ import annotations

import pytest

from headgate.core.contracts import Guard
from headgate.core.errors import InputError
from headgate.core.guards import (
    AllowedSizes,
    Attainable,
    Bounds,
    GuardTimes,
    HoldWhilePending,
    HoldWhileRecovering,
    Hysteresis,
    Monotonicity,
    NeverInBlind,
    StepLimit,
    Strategy,
    StrategyKind,
    Together,
    Trusted,
    Useful,
    is_limited_by_cluster,
)
from headgate.core.objective import parse_objective
from headgate.core.topology import Sizing, Topology
from headgate.core.types import Decision, GuardNote, Instances, Observation, Sample, Startup, Verdict
from headgate.core.window import History
from tests.core.building import JOB, decision, history, observation


def guarded(guard: Guard, current: int, target: int, window: History | None = None, now: float = 0) -> tuple[int, str]:
    """The target that a guard leaves, and what it says about it."""
    seen = window or history([Sample("job", now)], planned=current)
    verdict = guard(seen, decision(now, current, target)).verdicts["job"]
    (note,) = verdict.notes
    assert note == GuardNote(note.guard, target, verdict.target, note.why)
    assert note.why or verdict.target == target, "a guard that changes a target says why"
    return verdict.target, note.why


def changed(*changes: tuple[float, int, int]) -> History:
    """A window with a fresh reading in which the size was changed before: (time, from, to)."""
    window = history([Sample("job", 1000)], planned=changes[-1][2])
    for at_s, current, target in changes:
        window.record(decision(at_s, current, target))
    return window


@pytest.mark.parametrize(
    ("target", "left", "why"),
    [
        (0, 2, "at least 2 instances"),
        (2, 2, ""),
        (5, 5, ""),
        (8, 8, ""),
        (9, 8, "at most 8 instances"),
        (-3, 2, "at least 2 instances"),
    ],
)
def test_bounds_are_never_left(target: int, left: int, why: str) -> None:
    assert guarded(Bounds(2, 8), 4, target) == (left, why)


@pytest.mark.parametrize(("current", "target", "left"), [(12, 12, 8), (12, 15, 8), (1, 1, 2), (1, 0, 2)])
def test_a_size_outside_the_bounds_comes_back(current: int, target: int, left: int) -> None:
    assert guarded(Bounds(2, 8), current, target)[0] == left


@pytest.mark.parametrize(
    ("max_out", "max_in", "target", "left"),
    [
        (None, None, 20, 20),
        (2, None, 20, 7),
        (2, None, 6, 6),
        (2, None, 1, 1),
        (None, 1, 1, 4),
        (None, 1, 20, 20),
        (None, 1, 4, 4),
    ],
)
def test_a_step_is_limited_per_direction(max_out: int | None, max_in: int | None, target: int, left: int) -> None:
    assert guarded(StepLimit(max_out, max_in), 5, target)[0] == left


@pytest.mark.parametrize(
    ("current", "target", "gain_out", "gain_in", "left"),
    [
        (1, 11, 0.9, 1.0, 10),
        (10, 20, 0.9, 0.4, 19),
        (10, 0, 0.9, 0.4, 6),
        (10, 7, 1.0, 0.4, 8),
        (10, 11, 0.1, 1.0, 11),
        (10, 9, 1.0, 0.1, 9),
        (10, 10, 0.5, 0.5, 10),
        (10, 15, 1.0, 1.0, 15),
    ],
)
def test_gains_go_part_of_the_way_and_still_make_a_change_of_one(
    current: int, target: int, gain_out: float, gain_in: float, left: int
) -> None:
    assert guarded(Hysteresis(gain_out, gain_in), current, target)[0] == left


@pytest.mark.parametrize("gain", [0, -0.5, 1.1, float("nan")])
def test_a_gain_that_would_do_nothing_or_too_much_is_refused(gain: float) -> None:
    with pytest.raises(InputError, match="gain"):
        Hysteresis(gain_out=gain)
    with pytest.raises(InputError, match="gain"):
        Hysteresis(gain_in=gain)


@pytest.mark.parametrize(
    ("kind", "streak", "target", "left"),
    [
        ("as-proposed", 3, 9, 9),
        ("static", 3, 9, 7),
        ("static", 3, 1, 3),
        ("static", 3, 5, 5),
        ("linear", 0, 9, 7),
        ("linear", 1, 6, 9),
        ("linear", 2, 6, 13),
        ("linear", 3, 6, 17),
        ("linear", -1, 6, 7),
        ("linear", -2, 1, 1),
        ("queue-aware", 0, 4, 3),
    ],
)
def test_a_strategy_takes_only_the_direction_from_the_policy(kind: str, streak: int, target: int, left: int) -> None:
    """At granularity 2 and a size of 5; the bounds are 1 and 20."""
    window = changed(*((float(i), 5, 5 + (1 if streak > 0 else -1)) for i in range(abs(streak)))) if streak else None
    assert guarded(Strategy(StrategyKind(kind), 2, 1, 20), 5, target, window)[0] == left


@pytest.mark.parametrize(
    ("delay_s", "interval_s", "added"),
    [(0, 10, 1), (5, 10, 1), (25, 10, 3), (100, 10, 10), (None, 10, 1), (25, None, 1), (25, 0, 1)],
)
def test_the_queue_aware_strategy_adds_one_per_waiting_batch(
    delay_s: float | None, interval_s: float | None, added: int
) -> None:
    sample = Sample("job", 0, scheduling_delay_s=delay_s, trigger_interval_s=interval_s)
    guard = Strategy(StrategyKind.QUEUE_AWARE, 1, 1, 20)
    assert guarded(guard, 5, 6, history([sample], planned=5))[0] == 5 + added


@pytest.mark.parametrize(("current", "target", "left"), [(5, 6, 6), (5, 4, 4), (6, 5, 4)])
def test_a_strategy_stays_within_the_bounds(current: int, target: int, left: int) -> None:
    assert guarded(Strategy(StrategyKind.STATIC, 10, 4, 6), current, target)[0] == left


TIMES = GuardTimes(out_after_out_s=10, out_after_in_s=20, in_after_out_s=30, in_after_in_s=40)


@pytest.mark.parametrize(
    ("last", "direction", "age_s", "passes"),
    [
        ("out", "out", 9, False),
        ("out", "out", 10, True),
        ("in", "out", 19, False),
        ("in", "out", 20, True),
        ("out", "in", 29, False),
        ("out", "in", 30, True),
        ("in", "in", 39, False),
        ("in", "in", 40, True),
        ("none", "out", 0, True),
        ("none", "in", 0, True),
    ],
)
def test_guard_times_hold_per_direction_of_both_changes(last: str, direction: str, age_s: float, passes: bool) -> None:
    window = {
        "out": lambda: changed((100, 4, 5)),
        "in": lambda: changed((100, 6, 5)),
        "none": lambda: history([Sample("job", 100)], planned=5),
    }[last]()
    target = 6 if direction == "out" else 4
    left, why = guarded(TIMES, 5, target, window, now=100 + age_s)
    assert left == (target if passes else 5)
    assert bool(why) is not passes


def test_the_older_change_can_be_the_one_that_holds() -> None:
    window = changed((100, 4, 5), (105, 5, 4))
    held, why = guarded(GuardTimes(out_after_out_s=60, out_after_in_s=1), 4, 5, window, now=120)
    assert (held, why) == (4, "scaled out 20s ago, guard time 60s")


@pytest.mark.parametrize(
    ("last_change", "before_s", "after_s", "change", "passes"),
    [
        (+1, 5, 9, -1, False),
        (+1, 5, 5, -1, True),
        (+1, 5, 2, -1, True),
        (+1, 5, 9, +1, True),
        (-1, 5, 2, +1, False),
        (-1, 5, 5, +1, True),
        (-1, 5, 9, +1, True),
        (-1, 5, 2, -1, True),
        (0, 5, 9, -1, True),
        (+1, None, 9, -1, True),
        (+1, 5, None, -1, True),
    ],
)
def test_what_made_latency_worse_is_not_answered_with_less(
    last_change: int, before_s: float | None, after_s: float | None, change: int, passes: bool
) -> None:
    window = History(JOB)
    window.observe(observation(0, 5, sample=Sample("job", 0, latency_s=before_s)))
    window.record(decision(0, 5, 5 + last_change))
    current = 5 + last_change
    window.observe(observation(10, current, sample=Sample("job", 10, latency_s=after_s)))
    left, _ = guarded(Monotonicity(), current, current + change, window, now=10)
    assert left == (current + change if passes else current)


def test_monotonicity_goes_by_batches_and_not_by_the_moment_within_one() -> None:
    def reading(at_s: float, latency_s: float, processing_time_s: float) -> Sample:
        delay_s = 0.0
        return Sample("job", at_s, latency_s=latency_s, processing_time_s=processing_time_s, scheduling_delay_s=delay_s)

    window = History(JOB)
    window.observe(observation(0, 5, sample=reading(0, 1.0, 8.0)))
    window.record(decision(0, 5, 6))
    # A batch is about to end, so that its records have waited long; but it is faster than those before.
    window.observe(observation(10, 6, sample=reading(10, 9.0, 6.0)))
    assert guarded(Monotonicity(), 6, 5, window, now=10) == (5, "")


def test_without_an_earlier_decision_monotonicity_lets_everything_pass() -> None:
    assert guarded(Monotonicity(), 5, 4) == (4, "")


@pytest.mark.parametrize("growth_waits", [False, True])
@pytest.mark.parametrize(
    ("planned", "ready", "age_s", "target", "left"),
    [
        (4, 2, 10, 6, 4),
        (4, 2, 10, 1, 4),
        (2, 4, 10, 6, 2),
        (4, 4, 10, 6, 6),
        (4, 2, 10, 4, 4),
        (4, 2, 60, 6, 6),
        (4, 2, 60, 1, 1),
        (4, 2, None, 6, 6),
    ],
)
def test_a_change_under_way_is_waited_for_but_not_for_ever(
    planned: int, ready: int, age_s: float | None, target: int, left: int, growth_waits: bool
) -> None:
    """Growth is held only where that is configured."""
    window = history([Sample("job", 100)], planned, ready)
    if age_s is not None:
        window.record(decision(100 - age_s, 3, planned))
    found, _ = guarded(HoldWhilePending(60, growth_waits), planned, target, window, now=100)
    assert found == (target if target > planned and not growth_waits else left)


def test_a_wait_that_was_given_up_is_noted() -> None:
    window = history([Sample("job", 100)], 4, 2)
    assert guarded(HoldWhilePending(60), 4, 3, window, now=100) == (
        3,
        "2 of 4 planned instances are ready, not waiting longer than 60s",
    )


@pytest.mark.parametrize(
    ("changed_s", "reading_s", "warming", "now", "passes"),
    [
        (None, 100, False, 100, True),
        (100, 90, False, 110, False),
        (100, 100, False, 110, False),
        (100, 105, False, 110, True),
        (100, 105, True, 110, False),
        (100, 90, False, 160, True),
        (100, 105, True, 160, True),
    ],
)
def test_by_readings_from_before_a_change_or_of_warm_up_nothing_is_removed(
    changed_s: float | None, reading_s: float, warming: bool, now: float, passes: bool
) -> None:
    """Nor added, where that is configured."""
    window = history([Sample("job", reading_s, warming=warming)], planned=5)
    if changed_s is not None:
        window.record(decision(changed_s, 4, 5))
    assert guarded(HoldWhileRecovering(60), 5, 4, window, now)[0] == (4 if passes else 5)
    assert guarded(HoldWhileRecovering(60), 5, 6, window, now) == (6, "")
    assert guarded(HoldWhileRecovering(60, growth_waits=True), 5, 6, window, now)[0] == (6 if passes else 5)


@pytest.mark.parametrize(("age_s", "left"), [(10, 5), (60, 4)])
def test_a_start_counts_as_a_change(age_s: float, left: int) -> None:
    window = History(JOB)
    window.observe(observation(0, 5))
    window.observe(observation(5, 5, sample=Sample("job", 5, warming=True)))
    assert guarded(HoldWhileRecovering(60), 5, 4, window, now=age_s)[0] == left


def test_readings_from_before_an_instance_joined_or_left_no_longer_count() -> None:
    window = History(JOB)
    window.observe(observation(0, 5, 5, Sample("job", 0)))
    window.observe(observation(300, 5, 4, Sample("job", 299)))
    assert guarded(HoldWhileRecovering(60), 5, 3, window, now=300)[0] == 5
    window.observe(observation(310, 5, 4, Sample("job", 309)))
    assert guarded(HoldWhileRecovering(60), 5, 3, window, now=310)[0] == 3


@pytest.mark.parametrize(
    ("age_s", "interval_s", "target", "left"),
    [
        (30, None, 3, 3),
        (60, None, 3, 3),
        (61, None, 3, 5),
        (61, None, 7, 7),
        (61, None, 5, 5),
        (100, 60, 3, 3),
        (121, 60, 3, 5),
        (None, None, 3, 5),
        (None, None, 7, 7),
    ],
)
def test_nothing_is_scaled_in_blind(age_s: float | None, interval_s: float | None, target: int, left: int) -> None:
    window = History(JOB)
    sample = None if age_s is None else Sample("job", 1000 - age_s, trigger_interval_s=interval_s)
    window.observe(observation(1000, 5, sample=sample))
    assert guarded(NeverInBlind(60), 5, target, window, now=1000)[0] == left


def test_one_hold_in_between_does_not_switch_monotonicity_off() -> None:
    window = History(JOB)
    window.observe(observation(0, 4, 4, Sample("job", 0, latency_s=5)))
    window.record(decision(0, 4, 6))
    window.observe(observation(10, 6, 6, Sample("job", 10, latency_s=9)))
    window.record(decision(10, 6, 6))
    assert guarded(Monotonicity(), 6, 5, window, now=10)[0] == 6


@pytest.mark.parametrize(
    ("useful", "skew", "target", "left"),
    [(None, None, 9, 9), (8, None, 9, 8), (8, None, 8, 8), (2, 3.5, 9, 4), (2, None, 3, 3), (8, None, 1, 1)],
)
def test_no_instance_is_added_that_could_find_nothing_to_do(
    useful: int | None, skew: float | None, target: int, left: int
) -> None:
    window = history([Sample("job", 0, useful_instances=useful, skew=skew)], planned=4)
    found, why = guarded(Useful(), 4, target, window)
    assert found == left
    assert ("fullest partition holds 3.5 × the mean" in why) is (skew is not None)


@pytest.mark.parametrize(
    ("current", "target", "left"), [(4, 5, 8), (4, 9, 8), (4, 3, 4), (4, 2, 2), (8, 3, 4), (4, 4, 4), (3, 3, 3)]
)
def test_only_possible_sizes_are_requested(current: int, target: int, left: int) -> None:
    assert guarded(AllowedSizes({"job": (1, 2, 4, 8)}), current, target)[0] == left


def test_an_operator_may_have_bounds_of_its_own() -> None:
    assert guarded(Bounds(1, 10, {"job": (2, 3)}), 3, 9)[0] == 3
    assert guarded(Bounds(1, 10, {"other": (2, 3)}), 3, 9)[0] == 9


def test_executors_that_keep_coming_and_going_do_not_hold_the_job_for_ever() -> None:
    window = History(JOB)
    for tick in range(30):
        at_s = 10.0 * tick
        ready = 4 if tick % 2 else 5
        window.observe(observation(at_s, 5, ready, Sample("job", at_s, warming=True)))
        found, _ = guarded(HoldWhileRecovering(60), 5, 3, window, now=at_s)
        assert found == (5 if at_s < 70 else 3)


def test_after_a_quiet_time_the_wait_for_a_lost_instance_starts_over() -> None:
    window = History(JOB)
    for at_s, ready in ((0, 5), (10, 4), (20, 5), (100, 5), (300, 4), (310, 4)):
        window.observe(observation(at_s, 5, ready, Sample("job", at_s, warming=True)))
    assert guarded(HoldWhileRecovering(60), 5, 3, window, now=310)[0] == 5


def test_without_knowing_the_size_nothing_is_scaled_in() -> None:
    window = History(JOB)
    window.observe(observation(0, 5, 5, Sample("job", 0)))
    window.observe(Observation(5, {"job": Sample("job", 5)}, {}))
    assert window.instances("job") == Instances(5, 5, 5, stale=True)
    found, why = guarded(NeverInBlind(60), 5, 4, window, now=5)
    assert (found, "not known" in why) == (5, True)
    assert guarded(NeverInBlind(60), 5, 6, window, now=5)[0] == 6


def test_a_reading_is_as_old_as_the_offsets_it_uses() -> None:
    window = history([Sample("job", 100, age_s=90)], planned=5)
    assert guarded(NeverInBlind(60), 5, 4, window, now=100)[0] == 5


ATTAINABLE = Attainable(120, 600)


def short(given: int, until_s: float) -> History:
    """A window in which 12 were requested at 0 s and ``given`` were delivered."""
    window = History(JOB)
    window.observe(observation(0, 5, 5, Sample("job", 0)))
    window.record(decision(0, 5, 12))
    for at_s in range(10, int(until_s) + 1, 10):
        window.observe(observation(at_s, 12, min(given, 5 + at_s // 20), Sample("job", at_s)))
    return window


@pytest.mark.parametrize(
    ("until_s", "target", "left"), [(60, 12, 12), (150, 12, 12), (200, 12, 7), (200, 14, 7), (200, 6, 6), (200, 7, 7)]
)
def test_a_plan_that_the_cluster_does_not_fulfil_comes_back_to_what_it_gives(
    until_s: float, target: int, left: int
) -> None:
    found, why = guarded(ATTAINABLE, 12, target, short(7, until_s), now=until_s)
    assert found == left
    assert ("the cluster gave 7 of 12" in why) is (left != target)


def test_the_reason_that_the_cluster_gives_is_in_the_note_and_the_state_is_limited_by_it() -> None:
    window = short(7, 200)
    window.observe(Observation(210, {"job": Sample("job", 210)}, {"job": Instances(12, 12, 7, missing_why="no image")}))
    found = ATTAINABLE(window, decision(210, 12, 12)).verdicts["job"]
    assert "of 12 planned instances and no more for 2m 50s (no image): back" in found.notes[-1].why
    assert is_limited_by_cluster(found)
    assert not is_limited_by_cluster(ATTAINABLE(short(7, 60), decision(60, 12, 12)).verdicts["job"])


def test_more_is_requested_only_after_a_while_from_a_cluster_that_gave_less() -> None:
    window = short(7, 200)
    window.record(ATTAINABLE(window, decision(200, 12, 12)))
    window.observe(observation(210, 7, 7, Sample("job", 210)))
    found, why = guarded(ATTAINABLE, 7, 9, window, now=500)
    assert (found, why) == (7, "the cluster gave no more than 7 5m ago; asking again in 5m")
    assert guarded(ATTAINABLE, 7, 9, window, now=800)[0] == 9
    assert guarded(ATTAINABLE, 7, 6, window, now=500)[0] == 6


def test_a_cluster_that_is_slow_but_gives_is_waited_for() -> None:
    """Each instance that joins restarts the wait."""
    window = History(JOB)
    window.observe(observation(0, 5, 5, Sample("job", 0)))
    window.record(decision(0, 5, 12))
    for at_s in range(100, 700, 100):
        window.observe(observation(at_s, 12, 5 + at_s // 100, Sample("job", at_s)))
        assert guarded(ATTAINABLE, 12, 12, window, now=at_s)[0] == 12


FULL_S, FREED_S, CYCLE_S = 30.0, 1000.0, 5.0


def planned_and_ready(register_s: float, until_s: float, *, known: bool) -> list[tuple[float, int, int]]:
    """A policy that wants 4 instances at all times, on a cluster that has room for 2 from 30 s to 1000 s."""
    guard, window = Attainable(100, 45), History(JOB)
    planned, ready, requested_s = 2, 2, 0.0
    first = (Startup("first", -register_s, register_s),) if known else ()
    window.observe(Observation(0, {}, {"job": Instances(2, 2, 2)}, {"job": first} if first else {}))
    found = []
    for at_s in map(float, range(int(FULL_S), int(until_s), int(CYCLE_S))):
        room = 2 if at_s < FREED_S else 4
        if ready < min(planned, room) and at_s - max(requested_s, FREED_S) >= register_s:
            ready = min(planned, room)
        window.observe(Observation(at_s, {"job": Sample("job", at_s)}, {"job": Instances(planned, planned, ready)}))
        made = guard(window, decision(at_s, planned, 4))
        window.record(made)
        if made.targets["job"] > planned:
            requested_s = at_s
        planned = made.targets["job"]
        found.append((at_s, planned, ready))
    return found


@pytest.mark.parametrize(("register_s", "known"), [(5.0, True), (8.0, True), (8.0, False)])
def test_a_plan_comes_back_within_two_minutes_and_grows_within_one_once_the_cluster_has_room(
    register_s: float, known: bool
) -> None:
    seen = planned_and_ready(register_s, 1200, known=known)
    first_back_s = next(at_s for at_s, planned, _ in seen if at_s > FULL_S and planned == 2)
    assert first_back_s - FULL_S <= 120
    later = [planned for at_s, planned, _ in seen if first_back_s <= at_s < FREED_S]
    assert 4 in later, "it is requested again"
    assert not known or later.count(2) > later.count(4), "for most of the time the plan is what there is"
    grown_s = next(at_s for at_s, _, ready in seen if ready == 4)
    assert grown_s - FREED_S <= 60


@pytest.mark.parametrize(
    ("map_target", "join_target", "left"),
    [
        (2, 4, {"map": 4, "join": 4}),  # join wanted less and was stopped: map waits for it
        (6, 4, {"map": 6, "join": 4}),  # growing does not wait
        (4, 2, {"map": 4, "join": 2}),  # map never wanted to change
    ],
)
def test_operators_that_are_rescaled_together_shrink_together(
    map_target: int, join_target: int, left: dict[str, int]
) -> None:
    group = {name: Sizing(group="flink") for name in ("map", "join")}
    window = History(Topology(("map", "join"), (("map", "join"),), group))
    window.observe(Observation(0, {}, {"map": Instances(4, 4, 4), "join": Instances(4, 4, 4)}))
    verdicts = {
        "map": Verdict("map", 4, map_target, map_target, "test", "a test"),
        "join": Verdict("join", 4, 2, join_target, "test", "a test"),
    }
    assert Together()(window, Decision(0, "test", verdicts)).targets == left


TRUSTED = Trusted(parse_objective("latency p95 < 10s"))


def loaded(
    size: int, *, rate_per_s: float, latency_s: float = 1.0, backlog_per_s: float = 0.0, until_s: float = 300.0
) -> History:
    """A window of a job whose instances process 100 records/s each and that falls behind by ``backlog_per_s``."""
    made = History(JOB)
    for tick in range(int(until_s / 5) + 1):
        at_s = 5.0 * tick
        done = (rate_per_s - backlog_per_s) * at_s
        sample = Sample(
            "job",
            at_s,
            arrived=rate_per_s * at_s,
            done=done,
            busy_s=done / 100,
            available_s=size * at_s,
            backlog=backlog_per_s * at_s,
            latency_s=latency_s,
        )
        made.observe(observation(at_s, size, sample=sample))
    return made


@pytest.mark.parametrize(
    ("window", "current", "target", "left", "why"),
    [
        (loaded(8, rate_per_s=100), 8, 1, 1, ""),
        (loaded(8, rate_per_s=700), 8, 7, 7, ""),
        (loaded(8, rate_per_s=700), 8, 2, 2, ""),
        (loaded(8, rate_per_s=700), 8, 1, 6, "the load keeps 7 instances busy: towards 1 in steps"),
        (loaded(8, rate_per_s=1000, latency_s=20, backlog_per_s=200), 8, 7, 8, "has grown for 60s, so no scale-in"),
        (loaded(8, rate_per_s=1000, latency_s=5, backlog_per_s=200), 8, 7, 7, ""),
        (loaded(8, rate_per_s=800, latency_s=20), 8, 7, 7, ""),
        (loaded(8, rate_per_s=1000, latency_s=20, backlog_per_s=200), 8, 9, 9, ""),
        (loaded(8, rate_per_s=1000, latency_s=20, backlog_per_s=200, until_s=30), 8, 7, 7, ""),
    ],
)
def test_nothing_shrinks_against_what_the_load_shows(
    window: History, current: int, target: int, left: int, why: str
) -> None:
    now = window.observations[-1].at_s
    found = guarded(TRUSTED, current, target, window, now)
    assert found[0] == left
    assert found[1].endswith(why)
    assert bool(found[1]) == bool(why)


def test_steps_towards_a_far_smaller_size_are_a_minute_apart() -> None:
    window = loaded(8, rate_per_s=700)
    window.record(decision(270.0, 9, 8))
    assert guarded(TRUSTED, 8, 1, window, 300.0) == (8, "the load keeps 7 instances busy, and a step was made 30s ago")
    assert guarded(TRUSTED, 8, 1, window, 331.0)[0] == 6


def test_nothing_shrinks_shortly_after_a_reading_that_was_refused_in_part() -> None:
    window = loaded(8, rate_per_s=100)
    window.observe(observation(305.0, 8), {"job"})
    assert guarded(TRUSTED, 8, 2, window, 315.0) == (8, "a reading 10s ago was refused in part, so no scale-in")
    assert guarded(TRUSTED, 8, 2, window, 335.0)[0] == 2


@pytest.mark.parametrize("guard", ["bounds", "constraint-bounds", "affordable"])
def test_limits_that_the_user_set_hold_whatever_the_load(guard: str) -> None:
    window = loaded(8, rate_per_s=1000, latency_s=20, backlog_per_s=200)
    verdict = Verdict("job", 8, 9, 5, "test", "a test", notes=(GuardNote(guard, 9, 5, "at most 5"),))
    assert TRUSTED(window, Decision(300.0, "test", {"job": verdict})).targets == {"job": 5}


def test_a_hold_of_an_overloaded_job_is_not_called_steady() -> None:
    hold = Decision(300.0, "test", {"job": Verdict("job", 8, 8, 8, "steady", "all is well")})
    overloaded = loaded(8, rate_per_s=1000, latency_s=20, backlog_per_s=200)
    verdict = TRUSTED.without_steady(overloaded, hold).verdicts["job"]
    assert (verdict.code, verdict.target) == ("overloaded", 8)
    assert verdict.reason == "all is well; but the objective is missed, and the backlog has grown for 60s"
    assert TRUSTED.without_steady(loaded(8, rate_per_s=700), hold) is hold
