"""Small experiments and rows for the tests."""

from __future__ import annotations

from pathlib import Path

from headgate.lab.experiments.results import LabFolder, write_part
from headgate.lab.experiments.run_case import (
    FIGURES,
    Case,
    ExperimentMatrix,
    JobPart,
    LoadPart,
    ObjectivePart,
    PolicyPart,
    Row,
)

OBJECTIVE = {"slo": "latency p95 < 10s", "per": "1d", "by": "records", "price": 0.5, "instances": [1, 8]}
SMALL = ExperimentMatrix(
    "small",
    (LoadPart("steady", "constant:15", 120.0), LoadPart("noisy", "constant:15 | noise 20%", 120.0)),
    (JobPart("queue", 10.0, startup_s=5.0, startup_spread=0.5),),
    (PolicyPart("hpa", "hpa"), PolicyPart("fixed", "static", start=2)),
    (ObjectivePart("p95 < 10s", OBJECTIVE),),
    seeds=(0, 1, 2),
)


def first_case() -> Case:
    return next(SMALL.cases())


def row(place: int, policy: str, hours: float | None, *, met: bool = True, error: str | None = None) -> Row:
    """The row of a case of which little is known."""
    labels: Row = {"workload": "steady", "job": "queue", "objective": "p95 < 10s", "policy": policy}
    figures = dict.fromkeys(FIGURES) | {"instance_hours": hours, "late_records_pct": None if hours is None else 1.0}
    judged = met if error is None else None
    return {"place": place, "key": f"{place:020}", **labels, "seed": place, "kept": judged, "error": error, **figures}


def lab_folder(path: Path, rows: list[Row], experiment: ExperimentMatrix = SMALL) -> LabFolder:
    """A folder as a lab run leaves it that was stopped before its end."""
    folder = LabFolder(path)
    folder.begin(experiment, {})
    write_part(folder.runs, rows)
    return folder
