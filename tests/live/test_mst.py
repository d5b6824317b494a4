"""headgate mst on a real cluster, by its command: two sizes, a model file and a plot."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.soak
def test_two_executors_sustain_more_than_one_and_both_models_are_left(tmp_path: Path) -> None:
    file, plot = tmp_path / "model.json", tmp_path / "mst.html"
    measure = ["mst", "steady-job", "--executors", "1,2", "--cost", "100ms", "--partitions", "4", "--batch", "2s"]
    finished = subprocess.run(
        [sys.executable, "-m", "headgate", *measure, "--save", str(file), "--plot", str(plot)],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    found = json.loads(file.read_text())
    single, double = (row["throughput_per_s"] for row in found["measurements"])
    # A record keeps an executor busy for 100 ms, so none can do more than 10 per second.
    assert single <= 10
    assert single < double <= 20
    assert [model["model"] for model in found["models"]] == [1, 2]
    assert "maximum sustainable throughput" in plot.read_text()
    assert "2 executors: " in finished.stdout
