"""What was learned of a managed query is there for the next driver."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.engines.spark.query_plan import Plan
from headgate.runtime.managed.contracts import GUESSED_REPARTITION_S, Pauses
from headgate.runtime.managed.recovery import LearnedFile


def test_the_limit_and_the_pauses_are_known_again(tmp_path: Path) -> None:
    pauses = Pauses()
    pauses.add(4.0, repartitions=True)
    pauses.add(1.5, repartitions=False)
    LearnedFile(tmp_path / "checkpoint").write(Plan(700, 8), pauses)
    cap, known = LearnedFile(tmp_path / "checkpoint").read()
    assert cap == 700
    assert (known.expected_s(repartitions=True), known.expected_s(repartitions=False)) == (4.0, 1.5)


@pytest.mark.parametrize("text", [None, "{", "[]", '{"version": 9}', '{"version": 1}'])
def test_a_file_that_cannot_be_used_is_as_good_as_none(tmp_path: Path, text: str | None) -> None:
    file = LearnedFile(tmp_path / "checkpoint")
    if text is not None:
        file.path.write_text(text, encoding="utf-8")
    cap, known = file.read()
    assert cap is None
    assert known.expected_s(repartitions=True) == GUESSED_REPARTITION_S


def test_where_it_cannot_be_written_nothing_else_is_harmed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    LearnedFile(tmp_path / "file" / "checkpoint").write(Plan(700, 8), Pauses())
    assert "is not saved" in caplog.text
