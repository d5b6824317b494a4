"""headgate mst on a real cluster: two sizes, a model file and a plot."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.commands import headgate


def test_two_executors_sustain_more_than_one_and_both_models_are_left(tmp_path: Path) -> None:
    file, plot = tmp_path / "model.json", tmp_path / "mst.html"
    result = headgate(
        "mst", "steady-job", "--executors", "1,2", "--cost", "50ms", "--partitions", "4", "--batch", "1500ms",
        "--output", str(file), "--plot", str(plot),
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    found = json.loads(file.read_text())
    one, two = (row["throughput_per_s"] for row in found["measurements"])
    # A record keeps an executor busy for 50 ms, so none can do more than 20 per second.
    assert one <= 20 * 1.05
    assert one < two <= 40 * 1.05
    assert [model["model"] for model in found["models"]] == [1, 2]
    assert "Maximum sustainable throughput" in plot.read_text()
    assert "2 executors: " in result.stdout
