"""What an event log of real Spark says is what the journal of the same run says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from headgate.core.objective import parse_objective
from headgate.engines.spark.event_log import LoggedJob, read_event_log
from headgate.engines.spark.event_log_files import find_event_logs
from headgate.journal.writer import SqliteJournal
from headgate.lab.what_if import RecordedJob
from headgate.local.spark.cluster import LocalCluster

CHILD = Path(__file__).with_name("logged_job.py")
OBJECTIVE = parse_objective("latency p95 < 5s").within(1, 6)
WITHIN = 0.10


def logged(cluster: LocalCluster, folder: Path, codec: str, workload: str, seconds: float) -> LoggedJob:
    """Run the job in a process of its own and read its log."""
    (folder / "settings.json").write_text(json.dumps(cluster.settings(2)))
    subprocess.run(
        [sys.executable, str(CHILD), cluster.master_url, str(folder), workload, str(seconds)],
        check=True,
        env=os.environ | {"CODEC": codec},
        timeout=400,
    )
    (log,) = find_event_logs(folder / "logs")
    return read_event_log(log, late_after_s=5.0)


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_load_capacity_and_late_records_of_a_log_are_within_10_percent_of_those_of_the_journal(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    # Two executors get through less than 40 records/s, so that a good share of the records is late.
    job = logged(cluster, tmp_path, "zstd", "ramp:from=6,to=55,over=70s", 80.0)
    with closing(SqliteJournal.read(tmp_path / "run.db")) as journal:
        newest = journal.newest_run()
        assert newest is not None
        observations, decisions = journal.observations(run=newest[0]), journal.decisions(run=newest[0])
    by_log = RecordedJob.of(job.observations, [], OBJECTIVE)
    by_journal = RecordedJob.of(observations, decisions, OBJECTIVE)
    compared = {}
    for name, recorded in (("log", by_log), ("journal", by_journal)):
        measured, times = recorded.measured(OBJECTIVE, OBJECTIVE), recorded.calibration.times
        compared[name] = {
            "records": recorded.recording.load.arrivals(0.0, recorded.recording.seconds),
            "late_pct": measured.late_records_pct,
            "batch_of_20_s": times.expected_s(20.0, 2),
            "batch_of_200_s": times.expected_s(200.0, 2),
        }
    print(compared)  # noqa: T201 - the figures of the report
    assert compared["log"] == {key: pytest.approx(value, rel=WITHIN) for key, value in compared["journal"].items()}
    assert job.startups_from == "requests"
    assert job.left_out == []


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("codec", ["plain", "lz4", "snappy"])
def test_logs_are_read_however_spark_packs_them(cluster: LocalCluster, tmp_path: Path, codec: str) -> None:
    job = logged(cluster, tmp_path, codec, "constant:20", 8.0)
    assert job.left_out == []
    assert job.observations[-1].samples["job"].done == 160.0
