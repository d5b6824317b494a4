"""The published runs of Flink, the model calibrated to them, and the simulated job."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from headgate.core.errors import InputError
from headgate.research.demeter.calibration import JobModel, calibrate
from headgate.research.demeter.job import ModelledFlinkJob
from headgate.research.demeter.measured_runs import MeasuredRun, read_runs, restarts_of
from headgate.research.demeter.simulated_runs import SimulatedRun, SimulationTask, replay_sizes, run_policy, tasks_of
from headgate.research.scenarios.demeter import rows_of, run_cache
from tests.traces import needs_traces

HEAD = "app,contender,repeat,t_s,throughput_per_s,latency_ms,latency_max_ms,cpu_load,task_managers,consumer_lag"


def measured(sizes: list[float], latency_ms: list[float], contender: str = "reactive") -> MeasuredRun:
    t_s = np.linspace(0.0, 10.0 * (len(sizes) - 1), len(sizes))
    flat = np.full(len(sizes), 100.0)
    late = np.array(latency_ms)
    return MeasuredRun("ADS", contender, 1, t_s, flat, late, 2 * late, flat / 400, np.array(sizes))


def model(rate_per_s: float = 300.0, steps: int = 120) -> JobModel:
    """A model of TaskManagers with 100 records per second each and a pause of 20 s."""
    pauses = {"fixed": 30.0, "reactive": 20.0, "operator": 60.0}
    return JobModel(
        "ADS", 1.0, 0.0, 100.0, 1.0, 1.0, 0.1, 200.0, 0.0, pauses, pauses, np.zeros(steps), np.full(steps, rate_per_s)
    )


def write(folder: Path, lines: list[str]) -> None:
    (folder / "demeter-runs").mkdir()
    with gzip.open(folder / "demeter-runs" / "runs-10s.csv.gz", "wt") as file:
        file.write("\n".join(lines) + "\n")


def test_a_file_with_more_repeats_and_missing_values_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, [HEAD, "ADS,baseline,3,0,10,900,950,0.2,24,5", "ADS,baseline,3,10,,,,,24,"])
    monkeypatch.setenv("HEADGATE_TRACES", str(tmp_path))
    (run,) = read_runs()
    assert (run.repeat, run.mean_size, run.late_share) == (3, 24.0, 0.0)
    assert np.isnan(run.latency_ms[1])
    with pytest.raises(InputError, match="no run of ADS by baseline in repeat 1"):
        calibrate("ADS", [run])


@pytest.mark.parametrize("lines", [["app,contender"], [HEAD, "ADS,baseline,x,0,1,1,1,1,1,1"], [HEAD, "ADS,baseline"]])
def test_another_table_is_refused_in_a_sentence(
    lines: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, lines)
    monkeypatch.setenv("HEADGATE_TRACES", str(tmp_path))
    with pytest.raises(InputError, match=r"runs-10s\.csv\.gz"):
        read_runs()


def test_a_missing_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_TRACES", str(tmp_path))
    with pytest.raises(InputError, match="cannot be read"):
        read_runs()


def test_changes_of_the_size_that_are_close_together_are_one_restart() -> None:
    sizes = [8.0] * 10 + [9.0, 10.0] + [10.0] * 30
    (restart,) = restarts_of(measured(sizes, [1000.0] * 11 + [15000.0, 12000.0] + [1000.0] * 29))
    assert (restart.from_s, restart.until_s, restart.before, restart.after, restart.is_failure) == (
        100.0,
        110.0,
        8,
        10,
        False,
    )
    assert (restart.oldest_s, restart.late_s) == (30.0, 20.0)


def test_every_rescale_stops_the_job_again() -> None:
    job = ModelledFlinkJob(model(), "reactive", 6)
    job.advance(100.0)
    job.resize("job", 8)
    job.advance(110.0)
    job.resize("job", 9)
    job.advance(129.0)
    before = job.samples()["job"].done
    job.advance(160.0)
    assert job.standstills == [(100.0, 120.0), (110.0, 130.0)]
    assert before == pytest.approx(300 * 98, abs=700)
    assert job.samples()["job"].done == pytest.approx(300 * 159, abs=700)


def test_cpu_is_an_idle_share_plus_work() -> None:
    job = ModelledFlinkJob(model(), "fixed", 6)
    loads = []
    for at_s in range(15, 121, 15):
        job.advance(at_s)
        loads.append(job.cpu_load("job"))
    assert loads[-1] == pytest.approx(0.1 + 300 / 6 / 200, abs=0.02)


def test_standing_still_is_not_late_but_what_comes_out_afterwards_is() -> None:
    steady = replay_sizes(measured([6.0] * 120, [1000.0] * 120), model(), "reactive")
    restarted = replay_sizes(measured([6.0] * 60 + [7.0] * 60, [1000.0] * 120), model(), "reactive")
    assert (steady.late_share, steady.rescales) == (0.0, 0)
    assert 0 < restarted.late_share < 30 / 1200
    assert restarted.mean_size == pytest.approx(6.5, abs=0.1)


def test_simulated_and_measured_runs_have_rows_of_their_own() -> None:
    ran = run_policy("hpa", model(), "reactive", settings={"metric": "cpu_load", "target": 0.35})
    # 300 / 200 for the work and an idle tenth each: six are at 0.35.
    assert 5 <= ran.sizes[-1] <= 8
    run = measured([6.0] * 20, [1000.0] * 20)
    rows = rows_of([run], {SimulationTask("ADS", "reactive", "contender"): ran})
    assert [(row["what"], row["who"]) for row in rows] == [("measured", "reactive"), ("simulated", "reactive")]


def test_finished_runs_are_cached_for_their_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headgate.research.demeter.measured_runs.curve", lambda app: np.arange(3.0))
    run, task = measured([6.0] * 20, [1000.0] * 20), SimulationTask("ADS", "autopilot", "policy")
    ran = SimulatedRun(6.1 / 3, 0.01, 0.02, 7, (6.0, 6.25))
    run_cache([run], tmp_path).add(task, ran)
    again = run_cache([run], tmp_path)
    assert again.get(task) == ran
    assert again.get(SimulationTask("ADS", "autopilot", "policy", percentile=98.0)) is None
    assert run_cache([measured([7.0] * 20, [1000.0] * 20)], tmp_path).get(task) is None


@needs_traces
def test_the_model_of_the_published_runs_is_plausible() -> None:
    runs = read_runs()
    made = calibrate("ADS", runs)
    assert made.factor == pytest.approx(3.0, rel=0.02), "three generators make the load"
    assert 10 < made.pause_s["reactive"] < made.failure_s["fixed"] < made.pause_s["operator"] < 90
    assert made.capacity(24) > made.rates_per_s.max()
    assert len({task.app for task in tasks_of(runs)}) == 2
