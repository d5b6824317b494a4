"""A cache and a repository of their own for tests that fetch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.local.repository import Repository


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache; gives the folder where the jars will lie."""
    monkeypatch.setenv("HEADGATE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "jars"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """An empty repository that is used instead of Maven Central."""
    empty = Repository(tmp_path / "repository")
    empty.replace_maven_central(monkeypatch)
    return empty
