"""A tuning on real Spark: the same result on one thread and on two, and again from what is there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headgate.runtime.settings_file import read_settings

TUNE = (
    *("lab", "tune", "--policy", "threshold", "--workload", "constant:15 | noise 20%", "--seconds", "10m"),
    *("--service-rate", "10", "--startup", "5s", "--parts", "2", "--seeds", "2", "--trials", "9"),
    *("--search", "recursive-random", "--json"),
)


def tuned(out: Path, master: str) -> str:
    command = [sys.executable, "-m", "headgate", *TUNE, "--out", str(out), "--master", master]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=200).stdout


@pytest.mark.soak
def test_a_tuning_comes_to_the_same_however_it_is_spread(tmp_path: Path) -> None:
    first_folder, second_folder = tmp_path / "one", tmp_path / "two"
    first = tuned(first_folder, "local[1]")
    assert tuned(second_folder, "local[2]") == first
    parts = {path: path.stat().st_mtime_ns for path in (first_folder / "runs").glob("part-*")}
    assert tuned(first_folder, "local[2]") == first
    assert {path: path.stat().st_mtime_ns for path in (first_folder / "runs").glob("part-*")} == parts
    assert read_settings(first_folder / "settings.yaml").policy == "threshold"
