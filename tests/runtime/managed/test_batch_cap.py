"""How many records a batch may take."""

from __future__ import annotations

import pytest

from headgate.core.types import Batch
from headgate.runtime.managed.batch_cap import (
    LEAST_WORK_SHARE,
    SHARE_OF_BOUND,
    SHARE_TO_LEARN,
    BatchCapModel,
    cap_for,
    learn_times,
)


def batches(times: BatchCapModel, sizes: list[tuple[float, int]], *, warming: bool = False) -> list[Batch]:
    """Batches of so many records on so many instances, that take as long as they do."""
    return [
        Batch(0.0, times.seconds(records, instances), records, instances=instances, warming=warming)
        for records, instances in sizes
    ]


TRUTH = BatchCapModel(overhead_s=0.6, instance_s_per_record=0.004)


def test_the_costs_of_a_batch_and_of_a_record_are_separated() -> None:
    learned = learn_times(batches(TRUTH, [(100, 1), (400, 1), (900, 2), (1600, 4)]))
    assert learned is not None
    assert learned.overhead_s == pytest.approx(0.6)
    assert learned.instance_s_per_record == pytest.approx(0.004)


def test_batches_of_one_size_lead_to_no_more_records_than_are_safe() -> None:
    learned = learn_times(batches(TRUTH, [(200, 1), (205, 1), (210, 1)]))
    assert learned is not None
    cap = cap_for(learned, 1, 10.0)
    # It takes less than it may, and with it the two are known.
    assert SHARE_OF_BOUND * 10.0 < TRUTH.seconds(cap, 1) < SHARE_TO_LEARN * 10.0
    both = learn_times(batches(TRUTH, [(200, 1), (205, 1), (210, 1), (cap, 1)]))
    assert both is not None
    assert TRUTH.seconds(cap_for(both, 1, 10.0), 1) <= SHARE_OF_BOUND * 10.0 + 0.01


def test_a_light_load_comes_to_a_large_limit_in_two_steps() -> None:
    light = BatchCapModel(overhead_s=1.0, instance_s_per_record=0.0002)
    learned = learn_times(batches(light, [(500, 1)] * 3))
    assert learned is not None
    second = cap_for(learned, 1, 10.0)
    assert second > 3000
    learned = learn_times([*batches(light, [(500, 1)] * 3), *batches(light, [(second, 1)] * 3)])
    assert learned is not None
    assert cap_for(learned, 1, 10.0) == pytest.approx(15_000, rel=0.01)


@pytest.mark.parametrize("warming", [True, False])
def test_batches_that_are_not_typical_do_not_count(*, warming: bool) -> None:
    times = learn_times(batches(TRUTH, [(100, 1), (200, 1), (300, 1)], warming=warming))
    assert (times is None) is warming


def test_empty_batches_tell_nothing() -> None:
    assert learn_times(batches(TRUTH, [(0, 1)] * 10)) is None


def test_instances_beyond_those_of_use_do_not_count() -> None:
    slow = batches(TRUTH, [(100, 2), (400, 2), (800, 2)])
    learned = learn_times([Batch(b.started_s, b.ended_s, b.records, instances=8) for b in slow], most_useful=2)
    assert learned is not None
    assert learned.instance_s_per_record == pytest.approx(0.004)


@pytest.mark.parametrize("instances", [1, 3, 8])
@pytest.mark.parametrize("bound_s", [4.0, 10.0, 60.0, 600.0])
def test_a_full_batch_takes_less_than_half_of_the_bound_unless_its_fixed_cost_forbids_it(
    instances: int, bound_s: float
) -> None:
    cap = cap_for(TRUTH, instances, bound_s)
    took_s = TRUTH.seconds(cap, instances)
    work_share = 1 - TRUTH.overhead_s / took_s
    assert work_share >= LEAST_WORK_SHARE - 0.01
    assert took_s <= SHARE_OF_BOUND * bound_s + 0.01 or work_share <= LEAST_WORK_SHARE + 0.01


def test_twice_the_instances_take_twice_the_records() -> None:
    assert cap_for(TRUTH, 4, 10.0) == pytest.approx(2 * cap_for(TRUTH, 2, 10.0), abs=1)


def test_batches_that_were_slow_for_reasons_of_their_own_do_not_hide_what_any_batch_costs() -> None:
    """Seen on a busy machine: by least squares all of it was the time of records, and limits became ever smaller."""
    seen = [(125, 14.3), (125, 3.0), (125, 4.3), (86, 3.3), (86, 2.4), (109, 2.4), (109, 2.2), (109, 2.2), (137, 2.4)]
    ended_s = 0.0
    batches = []
    for records, took_s in seen:
        batches.append(Batch(ended_s, ended_s + took_s, records, instances=6))
        ended_s += took_s
    times = learn_times(batches)
    assert times is not None
    assert times.is_separated
    assert times.overhead_s > 1.5
    assert cap_for(times, 6, bound_s=6.0) > 137
