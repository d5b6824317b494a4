"""Experiments on real Spark: the same rows however they are cut and wherever, and what was stopped goes on.

A session of its own: a process has one at a time, and these use local threads, in processes as users start.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headgate.lab.experiments.results import LabFolder, count_rows, read_parts
from headgate.lab.experiments.summary import groups_by_arrow, read_summary
from headgate.local.spark.cluster import LocalCluster

EXPERIMENT = """\
version: 1
name: live
workloads: ["constant:15 | noise 20%"]
jobs: [{rate: 10, startup: 5s, startup_spread: 0.5}]
policies: [hpa, threshold, {policy: static, start: 2}]
objectives: [latency p95 < 10s]
repeats: 3
seconds: 2m
"""
RUN = """\
import sys
from pathlib import Path
from headgate.lab.experiments.results import LabFolder
from headgate.lab.experiments.document import read_experiment
from headgate.lab.experiments.results import ExperimentPlan, run_experiment
file, out, master, tasks = sys.argv[1:]
experiment, home = read_experiment(Path(file)), Path(file).parent
run_experiment(ExperimentPlan(experiment, home, LabFolder(Path(out)), master, int(tasks)), lambda _: None)
"""


def start(file: Path, out: Path, master: str, tasks: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", RUN, str(file), str(out), master, str(tasks)])


@pytest.mark.soak
def test_rows_are_the_same_however_cut_and_what_was_killed_continues(tmp_path: Path, cluster: LocalCluster) -> None:
    file = tmp_path / "live.yaml"
    file.write_text(EXPERIMENT)
    whole, cut, elsewhere = (LabFolder(tmp_path / name) for name in ("whole", "cut", "elsewhere"))
    stopped = start(file, cut.path, "local[1]", 9)
    while stopped.poll() is None and count_rows(cut.runs) < 2:
        time.sleep(0.05)
    os.kill(stopped.pid, signal.SIGKILL)
    stopped.wait()
    parts = {path: path.stat().st_mtime_ns for path in cut.runs.glob("part-*")}
    assert parts
    assert not cut.summary.exists()
    at_once = [
        start(file, cut.path, "local[1]", 2),
        start(file, whole.path, "local[2]", 5),
        start(file, elsewhere.path, cluster.master_url, 3),
    ]
    assert [process.wait(timeout=120) for process in at_once] == [0, 0, 0]
    assert {path: path.stat().st_mtime_ns for path in parts} == parts
    rows = read_parts(whole.runs)
    assert rows.num_rows == 9
    assert rows.column("error").null_count == 9
    for other in (cut, elsewhere):
        assert read_parts(other.runs).equals(rows)
        assert read_summary(other.summary) == read_summary(whole.summary)
    for ours, theirs in zip(read_summary(whole.summary), groups_by_arrow(rows), strict=True):
        assert (ours.labels, ours.runs, ours.met) == (theirs.labels, theirs.runs, theirs.met)
        for name, found in ours.figures.items():
            again = theirs.figures[name]
            assert (found is None) == (again is None)
            if found is not None and again is not None:
                assert abs(found.mean - again.mean) <= 1e-9 * max(1.0, abs(again.mean))
