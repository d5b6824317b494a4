"""The Google trace in rouaux §5.3: its rates, its rules on a simulated job, and what its query computes."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.lab.scenario import find_scenario
from tests.traces import needs_traces


def rows(name: str) -> list[Any]:
    return list(find_scenario(name).run(lambda share: None).rows)


@needs_traces
@pytest.mark.soak
def test_the_trace_has_the_events_and_the_tasks_that_it_is_known_for() -> None:
    value = {row["what"]: row["value"] for row in rows("rouaux-5.3.1")}
    assert value["events of tasks"] == 250_601
    assert sum(share for what, share in value.items() if what.startswith("share of ")) == pytest.approx(100, abs=0.1)
    # The document has well above 100,000 running tasks at the start of the month, on some 12,000 machines.
    course = rows("rouaux-5.3.6")
    assert [row["minutes"] for row in course] == list(range(0, 181, 15))
    assert all(100_000 < row["running_tasks"] < 150_000 for row in course)
    assert all(row["median_tasks"] <= row["p75_tasks"] <= row["p90_tasks"] <= row["p95_tasks"] for row in course)


@needs_traces
def test_documented_thresholds_take_more_instances_than_ours() -> None:
    found = {(row["thresholds_pct"], row["trigger"]): row for row in rows("rouaux-5.3.5-rules")}
    for trigger in ("edge", "level"):
        assert found["10, 20", trigger]["mean_instances"] > found["20, 40", trigger]["mean_instances"]
        assert found["10, 20", trigger]["most_instances"] <= 8
