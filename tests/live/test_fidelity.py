"""The simulator, calibrated on one live run, comes to what another came to; the docs show it for three shapes."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

import pytest
from pyspark.sql import SparkSession

from headgate.core.objective import parse_objective
from headgate.engines.spark import SparkEngine
from headgate.lab.fidelity import COMPARED, calibrate, compare, replay
from headgate.lab.observed_run import ObservedRun, RunPlan, observe_run
from tests.live.support import resize

OBJECTIVE = parse_objective("latency p95 < 8s").within(1, 3)
WITHIN = 0.15


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_replay_comes_within_15_percent_of_a_live_run_that_it_was_not_calibrated_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    def observed(workload: str, seconds: float, name: str) -> ObservedRun:
        engine = SparkEngine(spark, take_over=True)
        resize(engine, 1)
        engine.close()
        return observe_run(spark, RunPlan(workload, seconds, OBJECTIVE), tmp_path / name)

    calibration = calibrate(observed("ramp:from=8,to=50,over=90s", 120.0, "ramp").recording)
    live = observed("spike:base=12,peak=45,at=30s,width=40s", 120.0, "spike")
    assert (live.missing, live.doubled) == (0, 0)
    replays = [replay(live.recording, calibration, OBJECTIVE, seed=seed) for seed in range(10)]
    off = {name: fmean(compare(live.measured, one)[name] or 0.0 for one in replays) for name in COMPARED}
    assert all(abs(share) < WITHIN for share in off.values()), off
