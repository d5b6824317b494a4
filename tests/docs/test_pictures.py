"""The pictures of runs: made by scripts from what Headgate wrote, each one file that needs no other host."""

from __future__ import annotations

import json
import re
import runpy
import shlex
from contextlib import closing
from pathlib import Path
from xml.etree import ElementTree

import pytest

from headgate.journal.writer import SqliteJournal
from tests.cli.commands import headgate
from tests.docs.blocks import ROOT, blocks
from tests.journal.entries import RUN, decision, observation

SCRIPT = ROOT / "scripts/live_view_picture.py"
DAY_SCRIPT, DAY = ROOT / "scripts/day_picture.py", ROOT / "docs/images/day.svg"
SVG = "{http://www.w3.org/2000/svg}"


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


def test_a_day_is_drawn_for_light_and_dark_pages_with_its_verdict(tmp_path: Path) -> None:
    command = "simulate --policy static --workload constant:15 --service-rate 10 --min 2 --max 3 --seconds 1d"
    drawn, result = drawn_day(f"{command} --interval 1h", tmp_path)
    whole = ElementTree.fromstring(drawn)
    assert whole.findtext(f"{SVG}desc") == " ".join(result["verdict"][name] for name in ("outcome", "cost", "fixed"))
    assert {"load", "executors", "latency", "bound", "fixed"} <= {part.get("class") for part in whole}
    assert "prefers-color-scheme: dark" in drawn
    assert re.findall(r"https?://[^\"']+", drawn) == ["http://www.w3.org/2000/svg"]
    assert len(drawn) < 20_000


def test_the_readme_gives_the_figures_of_its_picture() -> None:
    verdict = ElementTree.parse(DAY).getroot().findtext(f"{SVG}desc") or ""
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    outcome, cost, size, fixed = re.findall(
        r"met: .* allowed|[\d.]+ \(\d+ instance hours\)|is \d+|a cost of \d+", verdict
    )
    assert f"Objective {outcome}. It cost {cost}." in text
    assert f"would have met it {size} executors, at {fixed}." in text


@pytest.mark.soak
def test_the_picture_of_the_readme_is_what_its_command_gives(tmp_path: Path) -> None:
    command = next(
        typed.text
        for block in blocks()
        if block.page == "README.md"
        for typed in block.typed()
        if "headgate simulate" in typed.text
    )
    arguments = command.partition("headgate ")[2].partition(" --json")[0]
    assert drawn_day(arguments, tmp_path)[0] == DAY.read_text(encoding="utf-8")


def drawn_day(arguments: str, folder: Path) -> tuple[str, dict[str, dict[str, str]]]:
    file = folder / "day.json"
    assert headgate(*shlex.split(arguments), "--json", str(file)).exit_code == 0
    result = json.loads(file.read_text(encoding="utf-8"))
    return runpy.run_path(str(DAY_SCRIPT))["picture"](result), result
