"""The ways through the code that docs/how-it-works.md lists are those that data takes."""

from __future__ import annotations

import pytest
from scripts.trace_walk import PAGE, WALKS, files_of


@pytest.mark.parametrize("walk", WALKS)
def test_a_walk_passes_the_files_that_are_listed(walk: str) -> None:
    assert sorted(WALKS[walk]()) == sorted(files_of(PAGE.read_text(encoding="utf-8"), walk))
