"""league: policies ranked over all contests of an experiment file."""

from __future__ import annotations

from pathlib import Path

from headgate.lab.scenario import experiment_file

_FOLDER = Path(__file__).parent.parent / "league"

experiment_file(
    "league",
    "Every policy on every trace and shape with jobs of many kinds, ranked by cost where the objective is met.",
    _FOLDER / "league.yaml",
    _FOLDER / "league-quick.yaml",
)
