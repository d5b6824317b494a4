"""What runs of the long tests proved, as rows that pages of the documentation are made from."""

from __future__ import annotations

import datetime
import json
import platform
from pathlib import Path
from typing import Any

import pyspark

from tests.live.cluster_job import RunningJob

ROOT = Path(__file__).parents[2]


def note_run(name: str, key: tuple[str, ...], row: dict[str, object]) -> None:
    """Add a row to the results of a name, in place of an older one with the same values in the columns of ``key``.

    Rows of other runs stay as they are, also those that were only taken over into the documentation.
    """
    file = ROOT / "artifacts" / "benchmarks" / f"{name}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    taken = ROOT / "docs" / "benchmarks" / f"{name}.json"
    known = next((path for path in (file, taken) if path.exists()), None)
    rows: list[dict[str, Any]] = [] if known is None else json.loads(known.read_text())["rows"]
    row = {**row, "on": datetime.datetime.now(datetime.UTC).date().isoformat()}
    left = [other for other in rows if any(other[column] != row[column] for column in key)]
    left = sorted([*left, row], key=lambda entry: [str(entry[column]) for column in key])
    made = {"name": name, "python": platform.python_version(), "machine": platform.machine(), "rows": left}
    file.write_text(json.dumps(made, indent=2) + "\n")


def finish_and_note(job: RunningJob, cluster: str, course: str) -> dict[str, Any]:
    """Let a job finish, and note what was run, provided that its sink has each record once."""
    found = job.finish()
    assert found["is_exact"], found
    sizes = job.sizes
    row = {
        "cluster": cluster,
        "spark": pyspark.__version__,
        "course": course,
        "most executors": max(size.ready for size in sizes),
        "at the end": sizes[-1].ready,
        "sent": found["expected"],
        "written": found["records"],
        "twice": found["records"] - found["distinct"],
    }
    note_run("clusters", ("cluster", "spark", "course"), row)
    return found
