"""``headgate.explain`` returns as data what ``headgate explain`` prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import headgate
from headgate.core.errors import InputError
from headgate.core.types import Event, Severity
from headgate.journal.writer import SqliteJournal
from headgate.render.story import Repeated, RowKind, row_of
from tests.cli.commands import headgate as command
from tests.journal.entries import RUN, decision, event, observation


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    path = tmp_path / "run.sqlite"
    writer = SqliteJournal(path)
    writer.begin(RUN)
    for second in range(0, 30, 10):
        writer.observed(observation(second, 1))
        writer.decided(decision(second))
    writer.decided(decision(30, 1, 3))
    writer.noted(event(40, "observe-failed"))
    writer.close()
    return path


def test_the_explanation_has_the_story_in_rows(journal: Path) -> None:
    explanation = headgate.explain(journal)
    assert [(row.kind, row.change) for row in explanation.rows] == [
        (RowKind.HOLD, "hold 1"),
        (RowKind.OUT, "1 → 3"),
        (RowKind.EVENT, "observe-failed"),
    ]
    assert "1 → 3" in str(explanation)


def test_its_json_is_that_of_the_command(journal: Path) -> None:
    printed = json.loads(command("explain", str(journal), "--json").stdout)
    assert json.loads(json.dumps(headgate.explain(journal).to_json())) == printed


def test_shadows_are_compared_only_on_request(journal: Path) -> None:
    assert headgate.explain(journal).shadows is None
    assert headgate.explain(journal, shadows=True).shadows == {}


def test_a_run_that_is_not_there_is_an_input_error(journal: Path) -> None:
    with pytest.raises(InputError, match="has no run 7; it has 1"):
        headgate.explain(journal, run=7)


@pytest.mark.parametrize(
    ("severity", "kind"),
    [(Severity.INFO, RowKind.EVENT), (Severity.WARNING, RowKind.WARNING), (Severity.ERROR, RowKind.FAILED)],
)
def test_an_event_is_shown_by_its_severity_and_not_by_its_name(severity: Severity, kind: RowKind) -> None:
    happened = Event(5.0, "anything-failed", "details", severity=severity)
    assert row_of(happened).kind is kind
    repeated = row_of(Repeated(5.0, 65.0, 3, happened))
    assert (repeated.kind, repeated.repetition(), repeated.repetition(is_thinned=True)) == (
        kind,
        "3 times in 60s",
        "for 60s",
    )


def test_a_long_run_is_judged_as_a_whole_and_says_where_fixed_sizes_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "run.db")
    run = "simulate --policy static --workload constant:15 --service-rate 10 --max 3 --seconds 1h --interval 30s"
    assert command(*run.split(), "--journal", path).exit_code == 0
    short = json.loads(command("explain", path, "--json").stdout)["verdict"]
    monkeypatch.setattr("headgate.render.explanation.MOST_SIMULATED", 50)
    long = json.loads(command("explain", path, "--last", "1", "--json").stdout)["verdict"]
    assert short["fixed"].startswith("The cheapest fixed size that would have met it is 2 instances")
    missing = f"Fixed sizes are not known: the run is long; headgate report {path} --html run.html simulates them."
    assert long["fixed"] == missing
    assert [long[name] for name in ("outcome", "cost", "limit")] == [
        short[name] for name in ("outcome", "cost", "limit")
    ]
    monkeypatch.setattr("headgate.render.explanation.MOST_JUDGED", 50)
    longest = json.loads(command("explain", path, "--last", "1", "--json").stdout)["verdict"]
    assert [longest[name] for name in ("outcome", "fixed", "limit")] == [short["outcome"], missing, ""]
