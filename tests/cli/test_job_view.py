"""What a running job looks like in the terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from headgate.cli.job_view import LiveJobView
from headgate.cli.live_view import RunHeading
from headgate.core.objective import parse_objective
from headgate.core.types import Decision, Instances, Observation, Sample, Verdict


def shown(objective: str, *, terminal: bool, late_share: float = 0.02) -> str:
    """What is on the screen after an hour at 10 records per second and two executors."""
    out = io.StringIO()
    console = Console(file=out, width=140, force_terminal=terminal, color_system=None)
    view = LiveJobView(
        console, RunHeading("headgate demo", "autopilot", parse_objective(objective).within(1, 4), 240.0)
    )
    view.count("records", "600 read", "2 malformed")
    view.stage("running")
    for minute in range(61):
        at_s, arrived = 60.0 * minute, 600.0 * minute
        sample = Sample("job", at_s, arrived=arrived, late=late_share * arrived, latency_s=1.0, backlog=3.0)
        verdict = Verdict("job", 2, 2, 2, "steady", "as it should be")
        view.tick(
            Observation(at_s, {"job": sample}, {"job": Instances(2, 2, 2)}), Decision(at_s, "t", {"job": verdict})
        )
    if terminal:
        console.print(view)
    return out.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
def test_the_error_budget_is_in_view(terminal: bool) -> None:
    assert "40 % spent" in shown("latency p95 < 10s per 1h", terminal=terminal)


def test_how_fast_it_burns_is_in_view() -> None:
    assert "spent, burn 0.4 ×" in shown("latency p95 < 10s per 1h", terminal=True)


@pytest.mark.parametrize(
    ("terminal", "text"), [(True, "cost 1 24 per day at this pace"), (False, "budget 2 % missed, cost 1")]
)
def test_what_a_priced_job_costs_is_in_view(terminal: bool, text: str) -> None:
    assert text in " ".join(shown("latency p95 < 10s, price 0.5", terminal=terminal).split())
    assert "cost" not in shown("latency p95 < 10s", terminal=terminal)


def test_what_was_counted_is_in_view() -> None:
    assert "600 read" in shown("latency p95 < 10s", terminal=False)
    assert "2 malformed" in shown("latency p95 < 10s", terminal=True)
