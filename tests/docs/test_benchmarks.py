"""Benchmarks are not run by the tests, but what they take from Headgate must be there."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

BENCHMARKS = sorted(path.stem for path in (Path(__file__).parents[2] / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_finds_what_it_measures(name: str) -> None:
    importlib.import_module(f"benchmarks.{name}")
