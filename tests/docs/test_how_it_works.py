"""The page that leads through the code names the folders and files that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from scripts.trace_walk import PACKAGE, PAGE, files_of

TEXT = PAGE.read_text(encoding="utf-8")
MOST = {"reading": 32, "experiment": 33, "report": 31}
"""How many files a reader has to open at most."""


def folders_in(table: str) -> set[str]:
    """Return the folders in the first column of a table below a heading."""
    part = TEXT.partition(f"{table}\n")[2].partition("\n#")[0]
    rows = re.findall(r"^\| (`.+?) \|", part, re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)} - {"policies"} | {"policies"} & set(
        re.findall(r"^\| .*?`(policies)`, ", part, re.MULTILINE)
    )


@pytest.mark.parametrize(
    ("table", "folder"), [("## Folders", PACKAGE), ("### Folders of policies", PACKAGE / "policies")], ids=str
)
def test_its_tables_name_every_folder(table: str, folder: Path) -> None:
    assert folders_in(table) == {path.parent.name for path in folder.glob("*/__init__.py")}


@pytest.mark.parametrize("walk", MOST)
def test_the_files_of_a_walk_exist_and_are_few(walk: str) -> None:
    files = files_of(TEXT, walk)
    assert [file for file in files if not (PACKAGE / file).is_file()] == []
    assert len(set(files)) == len(files) <= MOST[walk]


def test_the_files_that_it_names_exist() -> None:
    named = set(
        re.findall(r"`((?:core|runtime|engines|journal|render|cli|lab|agent|service|simulation)/[\w/]+\.py)`", TEXT)
    )
    assert named
    assert [file for file in named if not (PACKAGE / file).is_file()] == []
