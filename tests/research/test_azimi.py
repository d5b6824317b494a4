"""azimi's experiments: complete, repeatable, and with the figures that its candlesticks show."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.lab.scenario import find_scenario, scenarios
from headgate.research.scenarios import azimi

FIGURES = ("min", "p10", "mean", "p90", "max")


@pytest.fixture(scope="module")
def overall() -> list[dict[str, Any]]:
    return [dict(row) for row in find_scenario("azimi-9").run(lambda share: None).rows]


def test_all_nine_are_known() -> None:
    assert {f"azimi-{number}" for number in range(1, 10)} <= {found.name for found in scenarios()}


def test_the_last_one_has_seven_contenders_on_both_workloads(overall: list[dict[str, Any]]) -> None:
    for workload in ("W1", "W2"):
        assert [row["configuration"] for row in overall if row["workload"] == workload] == [
            "static 4", "static 8", "static 12", "static 24", "q-learning", "Spark dynamic resource manager",
            "online parameter optimization",
        ]  # fmt: skip


def test_every_row_has_the_figures_of_a_candlestick_in_order(overall: list[dict[str, Any]]) -> None:
    for row in overall:
        for name in ("latency_{}_s", "executors_{}"):
            figures = [row[name.format(figure)] for figure in FIGURES]
            assert figures[0] <= figures[1] <= figures[2]
            assert figures[2] <= figures[4]
            assert figures[1] <= figures[3] <= figures[4]
        assert 4 <= row["executors_min"] <= row["executors_max"] <= 24
        assert 0 <= row["violations_pct"] <= 100


def test_the_target_is_met_by_something_between_8_and_12_executors(overall: list[dict[str, Any]]) -> None:
    """As in the document: latency drops significantly from 8 to 12 executors, and hardly from 12 to 24."""
    for workload in ("W1", "W2"):
        mean_s = {row["configuration"]: row["latency_mean_s"] for row in overall if row["workload"] == workload}
        assert mean_s["static 4"] > mean_s["static 8"] > azimi.TARGET_S > mean_s["static 12"] > mean_s["static 24"]


def test_those_that_adapt_beat_eight_executors_and_need_fewer_than_24(overall: list[dict[str, Any]]) -> None:
    for workload in ("W1", "W2"):
        rows = {row["configuration"]: row for row in overall if row["workload"] == workload}
        for name in ("q-learning", "Spark dynamic resource manager", "online parameter optimization"):
            assert rows[name]["latency_mean_s"] < rows["static 8"]["latency_mean_s"]
            assert rows[name]["executors_mean"] < 20


def test_a_scenario_gives_the_same_rows_again_and_its_plots() -> None:
    first, again = (find_scenario("azimi-7").run(lambda share: None) for _ in range(2))
    assert first.rows == again.rows
    assert [plot.title for plot in first.plots][:4] == [
        "W1: latency", "W1: number of executors", "W1: latency over time", "W1: executors over time",
    ]  # fmt: skip
    assert len(first.plots) == 8
    assert any("ours" in note for note in first.notes)


def test_tuning_takes_the_fewest_violations_that_cost_no_more_than_the_bound() -> None:
    def figures(violations_pct: float, executors: float) -> list[azimi.SeededFigures]:
        return [azimi.SeededFigures(violations_pct, 0.0, executors)]

    tried = {"cheap": figures(20.0, 9.0), "good": figures(5.0, 12.0), "dear": figures(0.0, 20.0)}
    assert azimi.tuned_for(tried, 12.0) == "good"
    assert azimi.tuned_for(tried, 8.0) == "cheap"
