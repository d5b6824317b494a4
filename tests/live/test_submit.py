"""An unchanged PySpark program next to its autoscaler, as a user starts it."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path

from headgate.journal.writer import SqliteJournal
from headgate.local.spark.cluster import LocalCluster
from tests.live.support import eventually

LONGEST_S = 240.0

PROGRAM = """
import os, sys, time
from pyspark.sql import SparkSession

spark = SparkSession.builder.appName("clicks").getOrCreate()
rows = spark.readStream.format("rate").option("rowsPerSecond", 20).load()

def slow(batch, number):
    batch.rdd.foreach(lambda row: time.sleep(0.1))

query = rows.writeStream.foreachBatch(slow).trigger(processingTime="2 seconds").start()
while not os.path.exists(sys.argv[1]):
    query.awaitTermination(1)
query.stop()
spark.stop()
print("the program ended")
sys.exit(3)
"""
JOB = """
script: job.py
arguments: [{folder}/enough]
master: {master}
objective: latency p95 < 10s
executors: [1, 3]
journal: run.db
interval: 2s
start: 1
conf: {{spark.executor.cores: 1}}
"""


def test_an_unchanged_program_is_scaled_while_it_runs_and_its_job_file_followed(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(PROGRAM)
    file, messages = tmp_path / "job.yaml", tmp_path / "messages"
    with LocalCluster(slots=3) as cluster, messages.open("w") as written:
        file.write_text(JOB.format(master=cluster.master_url, folder=tmp_path))
        command = [sys.executable, "-m", "headgate", "submit", str(file)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=written, text=True) as program:
            eventually("it scales out", lambda: has_grown(tmp_path / "run.db"), LONGEST_S)
            (tmp_path / "new.yaml").write_text(file.read_text().replace("p95 < 10s", "p90 < 20s"))
            (tmp_path / "new.yaml").replace(file)
            changed = "headgate: job.yaml has changed: objective latency p90 < 20s instead of latency p95 < 10s"
            eventually("the edit is in force", lambda: changed in messages.read_text(), LONGEST_S)
            (tmp_path / "enough").touch()
            printed, _ = program.communicate(timeout=LONGEST_S)
    assert program.returncode == 3, messages.read_text()
    assert "the program ended" in printed
    assert "headgate: scaling clicks to latency p95 < 10s" in messages.read_text()
    with closing(SqliteJournal.read(tmp_path / "run.db")) as journal:
        assert [run.objective for _, run in journal.runs("clicks")] == ["latency p95 < 10s", "latency p90 < 20s"]
        assert journal.observations(run=1)[0].instances["job"].ready <= 1
        assert journal.events(run=2)[-1].kind in ("stopped", "engine-gone")


def has_grown(path: Path) -> bool:
    if not path.exists():
        return False
    with closing(SqliteJournal.read(path)) as journal:
        return any(max(decision.targets.values()) > 1 for decision in journal.decisions())


def test_a_job_that_cannot_be_scaled_runs_on(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(PROGRAM)
    (tmp_path / "enough").touch()
    (tmp_path / "job.yaml").write_text(JOB.format(master="local[2]", folder=tmp_path))
    command = [sys.executable, "-m", "headgate", "submit", str(tmp_path / "job.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_S, check=False)
    assert done.returncode == 3, done.stderr
    assert "headgate: the job runs unscaled: " in done.stderr
