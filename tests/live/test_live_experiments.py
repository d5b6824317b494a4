"""The documents' experiments on real Spark: a short one of their kind, and the applications' throughput.

Each has a process of its own: a process has one session at a time, and these end theirs.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from headgate.core.objective import parse_objective
from headgate.lab.mst import MstPlan
from headgate.lab.mst_measuring import measure_all
from headgate.lab.scenario import find_scenario, write_scenario_report
from headgate.research.scenarios.live import LiveRun, outcome, play
from tests.lab.watching import Watched

RULES = """\
version: 1
rules:
  - {name: busy, scale_out: job, by: 1, never_above: 2, when: [{metric: input_rate, above: 100, for_at_least: 4s}]}
  - {name: idle, scale_in: job, by: 1, never_below: 1, when: [{metric: input_rate, below: 60, for_at_least: 4s}]}
"""


def alone(work: Callable[[Path], None], folder: Path) -> None:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        pool.submit(work, folder).result()


@pytest.mark.soak
def test_an_application_follows_its_load_and_its_results_are_exact(tmp_path: Path) -> None:
    alone(_follow, tmp_path)


def _follow(folder: Path) -> None:
    live = LiveRun(
        application="click-fraud",
        policy="rules",
        settings={"rules": RULES},
        workload="periodic:base=20,peak=200,high=20s,low=20s",
        seconds=60.0,
        objective=parse_objective("latency p95 < 10s").within(1, 2),
        record_cost_s=0.004,
    )
    reported: list[float] = []
    (lived,) = play([live], reported.append)
    found = outcome([lived], ("A note.",))
    (row,) = found.rows
    assert row["exact"] is True
    assert (row["records"], row["most_executors"]) == (4800, 2)
    assert row["changes"] >= 2
    assert reported == sorted(reported)
    assert reported[-1] == 1.0
    report = folder / "live.html"
    scenario = find_scenario("giannakopoulos-live")
    write_scenario_report(report, scenario.name, scenario.summary, found)
    assert "rules on click-fraud" in report.read_text()


@pytest.mark.soak
def test_applications_with_and_without_state_are_measured_on_one_cluster(tmp_path: Path) -> None:
    alone(_measure, tmp_path)


def _measure(_: Path) -> None:
    watched = Watched()
    plans = [MstPlan((1, 2), app=name, partitions=4) for name in ("grep", "nexmark-11")]
    for found, plan in zip(measure_all(plans, lambda _: watched), plans, strict=True):
        assert not isinstance(found, Exception), found
        assert found.plan is plan
        assert all(
            measurement.throughput_per_s is None or measurement.throughput_per_s > 1000
            for measurement in found.measurements
        )
    assert [span.executors for span in watched.measured] == [1, 2, 1, 2]
