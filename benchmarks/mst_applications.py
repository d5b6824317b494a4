"""What every application sustains at most on 1, 2 and 4 executors of this machine: ``headgate mst --all``, in parts.

    python -m benchmarks.mst_applications [MOST]

measures the next so many applications, all that are missing where nothing is said, and reports all there are. One takes
about two minutes, so this is no part of ``make bench``. Model files lie in ``artifacts/benchmarks/mst``; delete one to
measure its application anew.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence

from benchmarks.common import RESULTS, Row, report

from headgate.core.errors import HeadgateError
from headgate.core.types import JSON
from headgate.lab.mst import Measurement, MstPlan, measurable
from headgate.lab.mst_measuring import measure_all

MODELS = RESULTS / "mst"
SIZES = (1, 2, 4)
PARTITIONS = 4


class Told:
    """A line for each size that has settled."""

    def __init__(self, app: str) -> None:
        self._app = app

    def stage(self, text: str) -> None: ...

    def reading(self, executors: int, readings: Sequence[float]) -> None: ...

    def settled(self, measurement: Measurement) -> None:
        per_s = measurement.throughput_per_s
        told = "did not settle" if per_s is None else f"{per_s:,.0f} records/s"
        print(f"{self._app}, {measurement.executors} executors: {told}", flush=True)


def measure(most: int | None = None) -> None:
    """Measure what is missing, and report all there is."""
    MODELS.mkdir(parents=True, exist_ok=True)
    apps = [name for name in measurable() if not (MODELS / f"{name}.json").exists()][:most]
    plans = [MstPlan(SIZES, app=name, partitions=PARTITIONS, timeout_s=60.0) for name in apps]
    for plan, found in zip(plans, measure_all(plans, lambda plan: Told(plan.app)) if plans else (), strict=True):
        if isinstance(found, HeadgateError):
            print(f"{plan.app} was not measured: {found}", flush=True)
            continue
        (MODELS / f"{plan.app}.json").write_text(json.dumps(found.to_json(), indent=2) + "\n", encoding="utf-8")
    models = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(MODELS.glob("*.json"))}
    rows = [row(name, model) for name, model in models.items()]
    report("mst", rows, cores=os.cpu_count(), curves={name: curve(model) for name, model in models.items()})


def row(name: str, model: dict[str, JSON]) -> Row:
    """What was measured of one application, and how much more several executors sustain."""
    per_s = {one["executors"]: one["throughput_per_s"] for one in model["measurements"]}
    found: dict[str, str | float | int] = {"application": name}
    for size in SIZES:
        found[f"{size} executors, records/s"] = "did not settle" if per_s[size] is None else round(per_s[size])
    for size in SIZES[1:]:
        both = per_s[1] is not None and per_s[size] is not None
        found[f"{size} over 1"] = round(per_s[size] / per_s[1], 2) if both else ""
    found["model"] = model["selected"]
    return found


def curve(model: dict[str, JSON]) -> dict[str, JSON]:
    """The chosen model, and the batches that agreed."""
    return {
        "curve": [[one["executors"], one["throughput_per_s"]] for one in model["curve"]],
        "measured": [[one["executors"], value] for one in model["measurements"] for value in one["agreeing_per_s"]],
    }


if __name__ == "__main__":
    measure(int(sys.argv[1]) if len(sys.argv) > 1 else None)
