"""A driver of its own that writes an event log and a journal: ``python logged_job.py MASTER FOLDER WORKLOAD SECONDS``.

The event log is packed by ``$CODEC``; the settings of the session are in ``settings.json`` in the folder.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

from headgate.apps.steady_job import SteadyJob
from headgate.core.objective import parse_objective
from headgate.local.spark.cluster import open_session
from headgate.runtime.autoscaler import autoscale

LEAD_S = 6.0


def main(master: str, folder: Path, workload: str, seconds: float) -> None:
    settings = json.loads((folder / "settings.json").read_text())
    logs = folder / "logs"
    logs.mkdir()
    codec = os.environ["CODEC"]
    settings |= {"spark.eventLog.enabled": "true", "spark.eventLog.dir": str(logs)}
    settings |= {"spark.eventLog.compress": str(codec != "plain").lower(), "spark.eventLog.rolling.enabled": "false"}
    settings |= {} if codec == "plain" else {"spark.eventLog.compression.codec": codec}
    spark = open_session(master, "logged", settings)
    objective = parse_objective("latency p95 < 5s").within(1, 6)
    job = SteadyJob(folder / "job", workload, seconds, 0.05, trigger_interval_s=2.0, partitions=6)
    try:
        job.warm_up(spark)
        with autoscale(
            spark, objective, "static", settings={"instances": 2}, interval=1.0, take_over=True,
            journal=str(folder / "run.db"),
        ):  # fmt: skip
            query = replace(job, load_starts_s=time.time() + LEAD_S).start(spark)
            time.sleep(LEAD_S + seconds)
            query.processAllAvailable()
            time.sleep(3.0)  # One more reading with all of it.
            query.stop()
    finally:
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], float(sys.argv[4]))
