"""When more state partitions pay."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headgate.engines.spark.query_plan import StageWork
from headgate.runtime.managed.advisor import Strain, worthwhile

HELD_BACK = Strain(partitions=2, slots=4, most_slots=8, work=StageWork(2, 8.0, 8, 2.0), busy_share=0.9, pressure=1.5)


def test_a_query_that_is_held_back_under_pressure_gets_as_many_as_all_instances_can_use() -> None:
    growth = worthwhile(HELD_BACK, most_partitions=64, pause_s=10.0)
    assert growth is not None
    assert growth.partitions == 8


@pytest.mark.parametrize(
    ("why", "changed", "pause_s", "most"),
    [
        ("there are enough", {"partitions": 8, "work": StageWork(8, 8.0, 8, 2.0)}, 10.0, 64),
        ("no more are allowed", {}, 10.0, 2),
        ("the pause costs more", {}, 400.0, 64),
        ("little of the work keeps state", {"work": StageWork(2, 0.1, 8, 9.9)}, 10.0, 64),
        ("it is idle most of the time", {"busy_share": 0.01}, 10.0, 64),
        ("its slots suffice, and nothing presses", {"slots": 2, "pressure": 0.1}, 10.0, 64),
        ("nothing is known of the objective", {"slots": 2, "pressure": None}, 10.0, 64),
    ],
)
def test_nothing_is_changed_where(why: str, changed: dict[str, object], pause_s: float, most: int) -> None:
    strain = replace(HELD_BACK, **changed)  # type: ignore[arg-type]  # a table of what differs
    assert worthwhile(strain, most, pause_s) is None, why


def test_slots_that_stand_idle_are_enough_of_a_reason_where_nothing_presses() -> None:
    growth = worthwhile(replace(HELD_BACK, pressure=0.2), most_partitions=64, pause_s=10.0)
    assert growth is not None
    assert growth.partitions == 4


def test_the_longer_the_pause_the_more_must_be_gained() -> None:
    longest = {
        state_s: max(
            pause
            for pause in range(1, 400)
            if worthwhile(replace(HELD_BACK, work=StageWork(2, state_s, 8, 2.0)), 64, float(pause))
        )
        for state_s in (1.0, 4.0, 16.0)
    }
    assert longest[1.0] < longest[4.0] < longest[16.0]
