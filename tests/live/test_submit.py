"""An unchanged PySpark program next to its autoscaler, as a user starts it."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path

from headgate.journal.writer import SqliteJournal
from headgate.local.spark.cluster import LocalCluster

PROGRAM = """
import sys, time
from pyspark.sql import SparkSession

spark = SparkSession.builder.appName("clicks").getOrCreate()
rows = spark.readStream.format("rate").option("rowsPerSecond", 20).load()

def slow(batch, number):
    batch.rdd.foreach(lambda row: time.sleep(0.1))

query = rows.writeStream.foreachBatch(slow).trigger(processingTime="2 seconds").start()
query.awaitTermination(int(sys.argv[1]))
query.stop()
spark.stop()
print("the program ended")
sys.exit(3)
"""
JOB = """
script: job.py
arguments: [40]
master: {master}
objective: latency p95 < 10s
executors: [1, 3]
journal: run.db
interval: 2s
conf: {{spark.executor.cores: 1, spark.executor.instances: 1}}
"""


def test_an_unchanged_program_is_scaled_while_it_runs(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(PROGRAM)
    with LocalCluster(slots=3) as cluster:
        (tmp_path / "job.yaml").write_text(JOB.format(master=cluster.master_url))
        command = [sys.executable, "-m", "headgate", "submit", str(tmp_path / "job.yaml")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 3, done.stderr
    assert "the program ended" in done.stdout
    assert "headgate: scaling clicks to latency p95 < 10s" in done.stderr
    with closing(SqliteJournal.read(tmp_path / "run.db")) as journal:
        assert any(max(decision.targets.values()) > 1 for decision in journal.decisions(run=1))
        assert journal.events(run=1)[-1].kind in ("stopped", "engine-gone")


def test_a_job_that_cannot_be_scaled_runs_on(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(PROGRAM)
    (tmp_path / "job.yaml").write_text(JOB.format(master="local[2]").replace("[40]", "[5]"))
    command = [sys.executable, "-m", "headgate", "submit", str(tmp_path / "job.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 3, done.stderr
    assert "headgate: the job runs unscaled: " in done.stderr
