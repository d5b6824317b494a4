"""The start and the end of a session that was set up in the usual way: in a process of its own, without dynamic
allocation, other than the one that the other tests share."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from headgate.core.types import Outcome
from headgate.journal.writer import SqliteJournal
from headgate.local.spark.cluster import LocalCluster, graceful_removal

JOB = """
import json, sys, time
from pyspark.sql import SparkSession
import headgate

settings, journal = json.loads(sys.argv[1]), sys.argv[2]
builder = SparkSession.builder.appName("started as usual")
for key, value in settings.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
autoscaler = headgate.autoscale(spark, objective="latency p95 < 10s", interval=0.25, journal=journal)
store = spark.sparkContext._jsc.sc().statusStore()
until_s = time.monotonic() + 60
while store.executorList(True).size() < 1 + 3 and time.monotonic() < until_s:
    time.sleep(0.1)
time.sleep(3)
spark.stop()
autoscaler.thread.join(10)
print("ended by itself" if not autoscaler.is_alive else "still there")
"""


def test_a_hold_removes_no_executors_at_the_start_and_the_end_of_the_session_is_noticed(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    """Three executors register one after the other, for seconds after the session has started."""
    journal = tmp_path / "journal.db"
    settings = cluster.settings() | {"spark.master": cluster.master_url, "spark.cores.max": "3"}
    settings = {key: value for key, value in settings.items() if "dynamicAllocation" not in key} | graceful_removal()
    finished = subprocess.run(
        [sys.executable, "-c", JOB, json.dumps(settings), str(journal)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    with closing(SqliteJournal.read(journal)) as reader:
        sizes = [observation.instances["job"] for observation in reader.observations()]
        receipts, decisions = reader.receipts(), reader.decisions()
        events = [event.kind for event in reader.events()]
    assert finished.stdout.strip() == "ended by itself"
    assert events == ["started", "engine-gone"]
    assert all(decision.is_hold for decision in decisions)
    assert {size.planned for size in sizes} == {3}, "what the session was set up with"
    ready = [size.ready for size in sizes]
    assert ready == sorted(ready), "none was taken away"
    assert ready[-1] == 3
    assert not [receipt for receipt in receipts if receipt.outcome is not Outcome.UNCHANGED]


LOCAL_SESSION = """
from pyspark.sql import SparkSession
import headgate
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
try:
    headgate.autoscale(spark, executors=(1, 2))
except headgate.HeadgateError as error:
    print(error)
finally:
    spark.stop()
"""


def test_a_local_session_has_nothing_to_scale() -> None:
    """In a process of its own: there is only one Spark context in each."""
    done = subprocess.run([sys.executable, "-c", LOCAL_SESSION], capture_output=True, text=True, check=True)
    assert "master is 'local[1]'" in done.stdout
    assert "no executors to scale" in done.stdout
    assert "headgate cluster up" in done.stdout
