"""The time left is shown from the first second, and estimates are marked as such."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from rich.console import Console

from headgate.cli import common
from headgate.cli.progress import TimeLeft, progress_bar
from headgate.lab.experiments.results import SPARK_START_S, expected_s
from headgate.lab.scenario import mark_begin, scenarios
from headgate.lab.tuning.on_spark import expected_s as expected_of_tuning
from tests.cli.commands import REACTIVE, SIMULATE, headgate
from tests.lab.experiments.matrices import SMALL
from tests.lab.tuning.tables import plan_for

AT_ONCE = {
    "fleet-small",
    *(f"imai-fig-{number}" for number in (5, 6, 10)),
    *(f"azimi-{number}" for number in range(1, 10)),
    *(f"rouaux-5.2.{number}" for number in range(2, 8)),
    "rouaux-5.3.1",
}
"""Scenarios whose first part is done within a second."""


@pytest.mark.parametrize(
    ("expected_s", "done_before", "message"),
    [(300.0, 0.0, "left about 5m"), (360.0, 0.5, "left about 3m"), (None, 0.0, "left –")],
)
def test_a_bar_tells_what_is_expected_before_anything_is_done(
    expected_s: float | None, done_before: float, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = io.StringIO()
    console = Console(file=out, width=100, force_terminal=True, no_color=True)
    monkeypatch.setattr(common, "make_console", lambda **_: console)
    with progress_bar("working", after_s=0.0, expected_s=expected_s) as progress:
        mark_begin(progress, done_before)
        give_up_s = time.monotonic() + 60
        while message not in out.getvalue():  # It is drawn by a thread of its own, some times a second.
            assert time.monotonic() < give_up_s, out.getvalue()
            time.sleep(0.01)


def test_what_was_expected_gives_way_to_how_it_goes() -> None:
    left = TimeLeft(0.0, expected_s=100.0)
    left.done(0.5, 10.0)
    assert left.in_words(10.0) == "10s"


def test_what_takes_longer_than_was_expected_is_never_said_to_be_over() -> None:
    left = TimeLeft(0.0, expected_s=600.0)
    assert [left.in_words(at_s) for at_s in (0.0, 300.0, 599.0, 3600.0)] == [
        "about 10m",
        "about 5m",
        "about 60s",
        "about 60s",
    ]


def test_work_done_before_is_not_expected_again_however_late_it_is_reported() -> None:
    left = TimeLeft(0.0, expected_s=600.0)
    left.done(0.0, 3.0)
    left.begin(0.5, 9.0)
    assert left.in_words(9.0) == "about 5m"
    left.done(0.6, 39.0)
    assert left.seconds(39.0) == pytest.approx(120.0)


def test_every_scenario_is_expected_to_take_some_time_or_tells_at_once() -> None:
    assert {scenario.name for scenario in scenarios() if scenario.takes_s is None} == AT_ONCE


def test_what_is_expected_of_an_experiment_grows_with_its_runs() -> None:
    longer = replace(SMALL, workloads=tuple(replace(load, seconds=100 * load.seconds) for load in SMALL.workloads))
    short_s, long_s, spread_s = (
        expected_s(experiment, cores) - SPARK_START_S for experiment, cores in ((SMALL, 2), (longer, 2), (longer, 8))
    )
    assert long_s == pytest.approx(100 * short_s)
    assert spread_s == pytest.approx(long_s / 4)


def test_what_is_expected_of_a_tuning_grows_with_its_trials() -> None:
    few, many = (expected_of_tuning(plan_for(trials=trials), 2) - SPARK_START_S for trials in (10, 100))
    assert 5 * few < many < 10 * few


def test_the_fixed_sizes_of_a_report_show_their_progress(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: dict[str, list[float]] = {}

    @contextmanager
    def recorded(description: str, **others: object) -> Iterator[Callable[[float], None]]:
        yield reported.setdefault(description, []).append

    monkeypatch.setattr("headgate.cli.simulate.progress_bar", recorded)
    report = tmp_path_factory.mktemp("report") / "run.html"
    assert headgate(*SIMULATE, *REACTIVE, "--max", "3", "--report", str(report)).exit_code == 0
    assert reported["Comparing with fixed sizes"] == [1 / 3, 2 / 3, 1]


def test_without_a_terminal_a_line_now_and_then_says_how_far_the_work_is(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("headgate.cli.progress.PROGRESS_LINE_EVERY_S", 0.001)
    printed = ""
    with progress_bar("working", counted=8) as progress:
        progress(0.25)
        while "25%" not in printed:
            printed += capfd.readouterr().err
    assert "working: 25%, 2 of 8 runs, left " in printed
