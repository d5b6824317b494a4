"""What holds for all guards together, whatever they are set to and whatever happened before."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from headgate.core.affordable import Affordable
from headgate.core.contracts import Guard
from headgate.core.guards import Attainable, HoldWhilePending, HoldWhileRecovering, StrategyKind
from headgate.core.objective import CostLimit, LatencySlo, Objective
from headgate.core.types import Decision, Sample
from headgate.core.window import History
from headgate.policies.frame.base import GuardSettings
from tests.core.building import JOB, decision, observation

seconds = st.sampled_from([0.0, 30.0, 60.0, 600.0])
gains = st.floats(0.01, 1.0)
counts = st.integers(1, 5)
metrics = st.none() | st.floats(0, 100)


@st.composite
def situations(draw: st.DrawFn) -> tuple[Objective, History, Decision]:
    """Bounds, a past and an unguarded decision, with a current size within the bounds."""
    lowest = draw(st.integers(1, 10))
    highest = draw(st.integers(lowest, 20))
    cost = draw(st.none() | st.sampled_from([1.0, 100.0, 1000.0]).map(CostLimit))
    objective = Objective(LatencySlo(10), lowest, highest, price_per_instance_hour=1.0, cost=cost)
    window = History(JOB, objective=objective)
    sizes = st.integers(lowest, highest)
    current = draw(sizes)
    for index in range(draw(st.integers(0, 4))):
        at_s = 20.0 * index
        sample = Sample(
            "job",
            at_s - draw(st.sampled_from([0.0, 5.0])),
            latency_s=draw(metrics),
            scheduling_delay_s=draw(metrics),
            trigger_interval_s=draw(st.sampled_from([None, 10.0])),
            warming=draw(st.booleans()),
        )
        ready = draw(st.integers(0, 20))
        window.observe(observation(at_s, current, ready, sample if draw(st.booleans()) else None))
        following = draw(sizes)
        window.record(decision(at_s, current, following))
        current = following
    now = 20.0 * len(window.observations) + draw(seconds)
    window.observe(observation(now, current, draw(st.integers(0, 20))))
    return objective, window, decision(now, current, draw(st.integers(-5, 40)))


settings = st.builds(
    GuardSettings,
    strategy=st.sampled_from(StrategyKind),
    granularity=counts,
    max_out=st.none() | counts,
    max_in=st.none() | counts,
    gain_out=gains,
    gain_in=gains,
    out_after_out_s=seconds,
    out_after_in_s=seconds,
    in_after_out_s=seconds,
    in_after_in_s=seconds,
    monotonicity=st.booleans(),
    pending_timeout_s=seconds,
    recovery_timeout_s=seconds,
    growth_waits=st.booleans(),
    stale_after_s=seconds,
)


def that_never_bring_back(guards: tuple[Guard, ...]) -> list[Guard]:
    """The guards but for those that bring back a plan which the cluster does not fulfil, or which cannot be paid."""
    return [guard for guard in guards if not isinstance(guard, Attainable | Affordable)]


def run(guards: tuple[Guard, ...], window: History, made: Decision) -> Decision:
    for guard in guards:
        made = guard(window, made)
    return made


@given(settings, situations())
def test_all_guards_together_end_within_the_bounds(
    chosen: GuardSettings, situation: tuple[Objective, History, Decision]
) -> None:
    objective, window, made = situation
    target = run(chosen.build(objective), window, made).targets["job"]
    assert objective.min_instances <= target <= objective.max_instances


@given(settings, situations())
def test_no_guard_turns_a_change_around(chosen: GuardSettings, situation: tuple[Objective, History, Decision]) -> None:
    objective, window, made = situation
    for guard in that_never_bring_back(chosen.build(objective)):
        following = guard(window, made)
        before, after = made.verdicts["job"].change, following.verdicts["job"].change
        assert before * after >= 0
        assert before != 0 or after == 0
        made = following


@given(settings, situations())
def test_growth_waits_for_instances_or_readings_only_where_that_is_configured(
    chosen: GuardSettings, situation: tuple[Objective, History, Decision]
) -> None:
    objective, window, made = situation
    for guard in chosen.model_copy(update={"growth_waits": False}).build(objective):
        following = guard(window, made)
        if made.verdicts["job"].change > 0 and isinstance(guard, HoldWhilePending | HoldWhileRecovering):
            assert following.targets == made.targets
        made = following


@given(settings, situations())
def test_without_a_strategy_no_guard_enlarges_a_change(
    chosen: GuardSettings, situation: tuple[Objective, History, Decision]
) -> None:
    objective, window, made = situation
    plain = chosen.model_copy(update={"strategy": StrategyKind.AS_PROPOSED})
    for guard in that_never_bring_back(plain.build(objective)):
        following = guard(window, made)
        assert abs(following.verdicts["job"].change) <= abs(made.verdicts["job"].change)
        made = following


@given(settings, situations())
def test_the_notes_tell_the_whole_way_from_proposal_to_target(
    chosen: GuardSettings, situation: tuple[Objective, History, Decision]
) -> None:
    objective, window, made = situation
    guards = chosen.build(objective)
    verdict = run(guards, window, made).verdicts["job"]
    assert len(verdict.notes) == len(guards)
    assert verdict.notes[0].before == verdict.proposed
    assert verdict.notes[-1].after == verdict.target
    assert all(first.after == second.before for first, second in pairwise(verdict.notes))
    assert all(note.why for note in verdict.notes if note.before != note.after)


@given(settings, situations())
def test_the_same_situation_is_always_decided_alike(
    chosen: GuardSettings, situation: tuple[Objective, History, Decision]
) -> None:
    objective, window, made = situation
    assert run(chosen.build(objective), window, made) == run(chosen.build(objective), window, made)


@given(settings, situations())
def test_money_only_lowers_a_target_and_never_below_the_smallest_size(
    chosen: GuardSettings, situation: tuple[Objective, History, Decision]
) -> None:
    objective, window, made = situation
    for guard in chosen.build(objective):
        following = guard(window, made)
        if isinstance(guard, Affordable):
            assert following.targets["job"] <= max(made.targets["job"], objective.min_instances)
            assert following.targets["job"] >= min(made.targets["job"], objective.min_instances)
        made = following
