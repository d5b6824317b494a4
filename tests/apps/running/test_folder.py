"""The folder of a run: it begins once, goes on with what it began with, and is of one run only."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.apps.running.folder import Beginning, RunFolder
from headgate.core.errors import InputError

REQUEST = {"application": "grep", "source": "kafka", "load": {"workload": "constant:10"}}
BEGUN = Beginning(1_700_000_000.25, 1_700_000_000_250, "grep-1", {"grep-1": {"0": 0}})


def never() -> Beginning:
    raise AssertionError("it has begun before")


def test_a_run_begins_once_and_continues_with_what_it_began_with(tmp_path: Path) -> None:
    folder = RunFolder.at(tmp_path / "run")
    assert folder.check(REQUEST) is None
    assert folder.begin(REQUEST, lambda: BEGUN) == BEGUN
    assert RunFolder.at(tmp_path / "run").begin(REQUEST, never) == BEGUN


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"application": "page-view"}, "a run with application 'grep', and 'page-view' is requested; give the same"),
        ({"load": None}, "a run with load {'workload': 'constant:10'}, and nothing is requested"),
        ({"topic": "views"}, "a run with topic nothing, and 'views' is requested"),
    ],
)
def test_a_run_cannot_continue_as_another(tmp_path: Path, other: dict[str, object], message: str) -> None:
    folder = RunFolder.at(tmp_path)
    folder.begin(REQUEST, lambda: BEGUN)
    with pytest.raises(InputError, match=message):
        folder.check(REQUEST | other)


def test_what_is_not_requested_for_again_stays_as_it_was(tmp_path: Path) -> None:
    folder = RunFolder.at(tmp_path)
    folder.begin(REQUEST | {"topic": "views"}, lambda: BEGUN)
    assert folder.check(REQUEST) == BEGUN


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(InputError, match="holds something that is no run; name a folder that is new or empty"):
        RunFolder.at(tmp_path).check(REQUEST)
    with pytest.raises(InputError, match="holds something that is no checkpoint of a run"):
        RunFolder.at(tmp_path / "new", checkpoint=tmp_path).check(REQUEST)


def test_a_damaged_run_is_reported(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(InputError, match=r"run\.json does not tell of a run"):
        RunFolder.at(tmp_path).check(REQUEST)
