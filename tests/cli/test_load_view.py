"""The view of a load: redrawn on a terminal, lines elsewhere."""

from __future__ import annotations

import io

import numpy as np
from rich.console import Console

from headgate.cli.live_view import shown
from headgate.cli.load_view import LoadView
from headgate.workloads.replay import Answers, ReplayProgress, SendLateness


def standing(elapsed_s: float, *, failed: int = 0, paced: bool = True) -> ReplayProgress:
    lateness = SendLateness() if paced else None
    if lateness is not None:
        lateness.sent(elapsed_s, np.array([elapsed_s - 0.004]))
    answers = Answers(round(900 * elapsed_s) - failed, failed, {"Message size too large": failed} if failed else {})
    return ReplayProgress(elapsed_s, round(1000 * elapsed_s), round(950 * elapsed_s), answers, lateness)


def printed(view: LoadView, console: Console, *standings: ReplayProgress) -> str:
    for standing in standings:
        view.standing(standing)
    if console.is_terminal:
        console.print(view)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_without_a_terminal_a_line_is_printed_every_ten_seconds() -> None:
    console = Console(file=io.StringIO(), width=120)
    with shown(LoadView(console, "a load", total=60_000, lasting_s=60.0)) as view:
        lines = printed(view, console, *(standing(at_s / 4) for at_s in range(1, 100))).splitlines()
    assert lines == [
        "   +10s  sent 9,500 of 10,000 due, 9,000 acknowledged, late by p50 4 ms, p99 4 ms, max 4 ms",
        "   +20s  sent 19,000 of 20,000 due, 18,000 acknowledged, late by p50 4 ms, p99 4 ms, max 4 ms",
    ]


def test_on_a_terminal_it_shows_what_is_due_sent_answered_and_late() -> None:
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None)
    view = LoadView(console, "a load", total=60_000, lasting_s=60.0)
    shown = printed(view, console, standing(10.0), standing(20.0, failed=3))
    for part in ("1,000 records/s", "950 records/s", "19,000 of 60,000", "1,000 not answered yet", "max 4 ms"):
        assert part in shown
    assert "Message size too large" in shown
    assert "20s of 60s · Ctrl-C stops" in shown


def test_as_fast_as_accepted_nothing_is_due_and_nothing_late() -> None:
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None)
    view = LoadView(console, "a load", total=60_000, lasting_s=None)
    assert "starting" in printed(view, console)
    shown = printed(view, console, standing(10.0, paced=False))
    assert "late" not in shown
    assert "records/s" in shown
