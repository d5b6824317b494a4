"""How close the calibrated simulator comes to live runs: latency, backlog and executor-seconds for three load shapes.

A job on a local cluster is scaled by the reactive policy while its load follows a shape. The simulator is calibrated on
two runs of another shape, before and after these, and replays load and sizes of each. What the live runs came to is
taken from outside: from the files of the sink and the processes of the machine (``headgate.lab.observed_run``).
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean

import numpy as np
from benchmarks.common import Row, report

from headgate.core.course import Course
from headgate.core.objective import parse_objective
from headgate.lab.fidelity import COMPARED, Calibration, calibrate, replay, replay_course
from headgate.lab.observed_run import ObservedRun, ObservedRunPlan, observe_run
from headgate.local.spark.cluster import LocalCluster

OBJECTIVE = parse_objective("latency p95 < 5s").within(1, 2)
CALIBRATION = ("periodic:base=8,peak=26,high=35s,low=30s", 140.0)
SHOWN = (
    ("ramp", "ramp:from=8,to=28,over=90s", 120.0),
    ("sine", "sine:mean=17,amplitude=10,period=70s", 150.0),
    ("spike", "spike:base=10,peak=28,at=30s,width=45s", 120.0),
)
SEEDS = range(10)
DRAWN_EVERY_S = 1.0
UNITS = {"latency_p50_s": "s", "latency_p95_s": "s", "max_backlog": "records", "instance_seconds": "s"}


def run(cluster: LocalCluster, workload: str, seconds: float) -> ObservedRun:
    """One live run, in a session of its own."""
    spark = cluster.session("fidelity", executors=1)
    try:
        with tempfile.TemporaryDirectory() as folder:
            return observe_run(spark, ObservedRunPlan(workload, seconds, OBJECTIVE), Path(folder))
    finally:
        spark.stop()


def simulated(observed: ObservedRun, calibration: Calibration) -> Mapping[str, float]:
    """What replays of a run come to, on average over start-ups and noise."""
    replays = [replay(observed.recording, calibration, OBJECTIVE, seed=seed) for seed in SEEDS]
    return {name: fmean(getattr(replay, name) for replay in replays) for name in COMPARED}


def rows_of(shape: str, observed: ObservedRun, calibration: Calibration) -> list[Row]:
    found = simulated(observed, calibration)
    measured = {name: float(getattr(observed.measured, name)) for name in COMPARED}
    return [
        {
            "load": shape,
            "figure": name,
            "unit": UNITS[name],
            "live": measured[name],
            "simulated": found[name],
            "off by %": 100 * (found[name] / measured[name] - 1),
        }
        for name in COMPARED
    ]


def drawn(course: Course) -> dict[str, list[float]]:
    """Backlog and executors every few seconds, for a plot."""
    times_s = np.arange(0.0, course.to_s, DRAWN_EVERY_S)
    loads = course.loads()
    assert loads is not None
    # A hair apart, so that what jumps at one time has a value before and one after.
    at_s = np.column_stack([loads[:, 0], loads[:, 1] - 1e-6]).ravel()
    sizes = course.sizes[np.minimum(np.searchsorted(course.sizes[:, 1], times_s, side="right"), len(course.sizes) - 1)]
    return {
        "t": times_s.tolist(),
        "backlog": np.interp(times_s, at_s, loads[:, 2:4].ravel()).round(1).tolist(),
        "executors": sizes[:, 2].tolist(),
    }


def bench_fidelity() -> None:
    with LocalCluster(slots=4) as cluster:
        before = run(cluster, *CALIBRATION)
        shown = {shape: run(cluster, workload, seconds) for shape, workload, seconds in SHOWN}
        after = run(cluster, *CALIBRATION)
    calibration = calibrate(before.recording, after.recording)
    print(calibration)
    rows: list[Row] = []
    plots: dict[str, object] = {}
    for shape, observed in shown.items():
        print(f"{shape}: {observed.missing} missing, {observed.doubled} doubled")
        rows += rows_of(shape, observed, calibration)
        again, _ = replay_course(observed.recording, calibration, OBJECTIVE)
        plots[shape] = {"live": drawn(observed.course), "simulated": drawn(again)}
    report("fidelity", rows, series=plots)


if __name__ == "__main__":
    bench_fidelity()
