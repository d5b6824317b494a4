"""The simulator, calibrated on one live run, comes to what another came to.

The size stays here, so that any machine will do: how much a new executor slows a job for how long depends on what else
the machine has to do. ``benchmarks/bench_fidelity.py`` measures jobs that are scaled.
"""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

import pytest
from pyspark.sql import SparkSession

from headgate.core.objective import parse_objective
from headgate.engines.spark import SparkEngine
from headgate.lab.fidelity import COMPARED, calibrate, compare, replay
from headgate.lab.observed_run import ObservedRun, ObservedRunPlan, observe_run
from tests.live.support import resize

OBJECTIVE = parse_objective("latency p95 < 5s").within(2, 2)
WITHIN = 0.15


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_replay_comes_within_15_percent_of_a_live_run_that_it_was_not_calibrated_on(
    spark: SparkSession, engine: SparkEngine, tmp_path: Path
) -> None:
    resize(engine, 2)
    engine.close()

    def observed(name: str, workload: str, seconds: float) -> ObservedRun:
        plan = ObservedRunPlan(workload, seconds, OBJECTIVE, policy="static", settings={"instances": 2})
        return observe_run(spark, plan, tmp_path / name)

    calibration = calibrate(observed("ramp", "ramp:from=6,to=45,over=60s", 70.0).recording)
    # Two executors get through less than 40 records/s: the spike makes a queue that lasts.
    live = observed("spike", "spike:base=12,peak=60,at=20s,width=20s", 80.0)
    assert (live.missing, live.doubled) == (0, 0)
    assert (live.measured.max_backlog or 0) > 400
    replays = [replay(live.recording, calibration, OBJECTIVE, seed=seed) for seed in range(10)]
    off = {name: fmean(compare(live.measured, simulated)[name] or 0.0 for simulated in replays) for name in COMPARED}
    assert all(abs(share) < WITHIN for share in off.values()), off
