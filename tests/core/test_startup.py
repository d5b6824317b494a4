"""Start-up times are measured and saved."""

import json

from headgate.core.types import Startup
from headgate.core.window import MAX_DURATIONS, Durations, StartupTimes


def test_a_quantile_is_a_time_that_was_measured() -> None:
    times = Durations([9.0, 1.0, 5.0, 3.0])
    assert [times.quantile(share) for share in (0.0, 0.25, 0.5, 0.9, 1.0)] == [1, 1, 3, 9, 9]
    assert Durations().quantile(0.5) is None


def test_only_the_newest_count() -> None:
    times = Durations([100.0] * MAX_DURATIONS)
    for _ in range(MAX_DURATIONS):
        times.add(1.0)
    assert times.quantile(1.0) == 1


def test_an_instance_that_is_reported_again_counts_once() -> None:
    times = StartupTimes()
    times.add(Startup("1", 0.0, 4.0))
    times.add(Startup("1", 0.0, 4.0, 6.0))
    times.add(Startup("1", 0.0, 4.0, 6.0, 11.0))
    assert times.to_json() == {"registered_s": [4.0], "first_task_s": [6.0], "warm_s": [11.0]}
    times.add(Startup("1", 50.0, 5.0))
    assert times.registered_s.values_s == (4.0, 5.0), "another run has other instances by the same name"


def test_what_was_not_seen_is_left_out_and_all_of_it_can_be_saved() -> None:
    times = StartupTimes()
    times.add(Startup("1", 0.0, 4.0, 6.0, 11.0))
    times.add(Startup("2", 0.0, 5.0))
    assert (len(times), len(times.first_task_s), len(times.warm_s)) == (2, 1, 1)
    again = StartupTimes.from_json(json.loads(json.dumps(times.to_json())))
    assert again.to_json() == times.to_json()
