"""The moving picture of a run: made from a journal, in one file that asks nobody for anything."""

from __future__ import annotations

import re
import runpy
from contextlib import closing
from pathlib import Path
from xml.etree import ElementTree

from headgate.journal.sqlite import SqliteJournal
from tests.cli.commands import headgate
from tests.journal.entries import RUN, decision, observation

SCRIPT = Path(__file__).parents[2] / "scripts/live_view_picture.py"


def test_a_run_is_played_from_its_journal(tmp_path: Path) -> None:
    journal = tmp_path / "run.db"
    command = (
        "simulate --policy reactive --workload spike:base=10,peak=70,at=60s,width=60s --service-rate 10 --seconds 5m"
    )
    assert headgate(*command.split(), "--journal", str(journal)).exit_code == 0
    drawn = runpy.run_path(str(SCRIPT))["picture"](journal)
    whole = ElementTree.fromstring(drawn)
    frames = [part for part in whole if part.get("class") == "frame"]
    assert len(frames) == 30
    assert re.findall(r"https?://[^\"']+", drawn) == ["http://www.w3.org/2000/svg"]
    texts = ["".join(frame.itertext()).replace("\xa0", " ") for frame in frames]
    assert "10 records/s" in texts[1]
    assert "→" not in texts[1]
    assert "→" in texts[-1]


def test_a_live_decision_is_shown_with_the_reading_that_it_is_made_of(tmp_path: Path) -> None:
    """Live, the reading is complete a moment after the tick whose time the decision has."""
    journal = tmp_path / "run.db"
    with closing(SqliteJournal(journal)) as writer:
        writer.begin(RUN)
        for at_s in range(0, 40, 2):
            writer.observed(observation(at_s + 0.25))
            writer.decided(decision(at_s, target=2 if at_s > 20 else 1))
    assert "→" in runpy.run_path(str(SCRIPT))["picture"](journal)
