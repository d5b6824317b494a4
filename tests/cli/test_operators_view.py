"""The lines that are printed of a job of several operators."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from headgate.cli.live_view import RunHeading
from headgate.cli.operators_view import OperatorsView
from headgate.core.objective import parse_objective
from headgate.core.types import Decision, Event, GuardNote, Verdict


@pytest.fixture
def printed() -> StringIO:
    return StringIO()


@pytest.fixture
def view(printed: StringIO) -> OperatorsView:
    heading = RunHeading("a job", "ds2", parse_objective("latency p95 < 10s"), None, "")
    return OperatorsView(Console(file=printed), heading, ("slow",), lambda: None)


def test_what_happens_again_and_again_is_printed_once(view: OperatorsView, printed: StringIO) -> None:
    for at_s, detail in enumerate(("it is gone", "it is gone", "it is gone", "it is back", "it is gone")):
        view.event(Event(float(at_s), "observe-failed", detail))
    assert [line.partition(": ")[2] for line in printed.getvalue().splitlines()] == [
        "it is gone",
        "it is back",
        "it is gone",
    ]


@pytest.mark.parametrize(
    ("proposed", "why"), [(2, "at most 1 instances"), (1, "what the policy says")], ids=["a guard's", "the policy's"]
)
def test_a_change_is_printed_with_the_reason_of_who_wants_it(
    proposed: int, why: str, view: OperatorsView, printed: StringIO
) -> None:
    note = GuardNote("bounds", proposed, 1, "at most 1 instances")
    verdict = Verdict("slow", 2, proposed, 1, "code", "what the policy says", notes=(note,))
    view.tick(None, Decision(0.0, "ds2", {"slow": verdict}))
    assert f"slow 2 → 1: {why}" in printed.getvalue()
