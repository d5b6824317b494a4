"""The benchmark of the lab in small: every arrangement gives the same rows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_threads_and_clusters_of_any_size_give_the_same_rows(tmp_path: Path) -> None:
    measured = tmp_path / "speed.json"
    command = [sys.executable, "-m", "benchmarks.bench_lab", "--quick", "--json", str(measured)]
    subprocess.run(command, check=True, cwd=ROOT, timeout=800)
    rows = json.loads(measured.read_text())["rows"]
    assert [(row["where"], row["cores"]) for row in rows] == [
        ("threads", 1),
        ("threads", 2),
        ("cluster", 1),
        ("cluster", 2),
        ("cluster", 4),
    ]
    assert {row["runs"] for row in rows} == {20}
    assert {row["rows_that_differ"] for row in rows} == {0}
    assert all(row["runs_per_s"] > 0 for row in rows)
