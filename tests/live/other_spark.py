"""A Kafka job on another Spark than the one that is installed: grown by a policy, shrunk by draining, and counted.

Other versions are installed once into the user's cache, each as a virtual environment that takes all else from this
one. Run as a program there, this module prints one line of JSON with what it saw.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

EXTRA = {"3.5": ("numpy==1.26.4", "pandas==2.2.3", "pyarrow==19.0.1", "setuptools")}
"""What a line of Spark needs besides, in other versions than the newest Spark."""
RATE_PER_S, RECORD_S, RECORDS = 60, 0.02, 4200
"""A record takes an executor 20 ms: 60 a second keep 1.2 of them busy, and what waits at the start another."""
ENDS_WITHIN_S = 240.0


@dataclass(frozen=True)
class Job:
    """What to run there."""

    bootstrap: str
    topic: str


def other_python(version: str) -> Path:
    """The Python of an environment with this Spark."""
    from headgate.local.jars import cache_directory

    home = cache_directory() / "sparks" / f"{version}-{sys.version_info[0]}.{sys.version_info[1]}"
    python, whole = home / "bin" / "python", home / "whole"
    if not whole.exists():
        sys.stderr.write(f"installing Spark {version} (about 400 MB) into {home}\n")
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
        wanted = [f"pyspark=={version}", *EXTRA.get(version.rpartition(".")[0], ())]
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *wanted], check=True)
        whole.touch()
    # All else is that of this environment; what was just installed comes first.
    (packages,) = home.glob("lib/python*/site-packages")
    rest = next(path for path in sys.path if path.endswith("site-packages"))
    (packages / "rest.pth").write_text(f"import site; site.addsitedir({rest!r})\n")
    return python


def run_there(version: str, job: Job) -> dict[str, object]:
    """What the job saw on another Spark."""
    command = [str(other_python(version)), "-W", "ignore", __file__, json.dumps(asdict(job))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=ENDS_WITHIN_S + 180, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def run_here(job: Job) -> dict[str, object]:
    import pyspark

    import headgate
    from headgate.engines.spark import SparkEngine
    from headgate.journal.writer import SqliteJournal
    from headgate.local.connector import find_connector

    with (
        tempfile.TemporaryDirectory(prefix="headgate-other-spark-") as folder,
        headgate.LocalCluster(slots=3) as cluster,
        cluster.session(
            "other", settings={"spark.sql.shuffle.partitions": "2", "spark.jars": find_connector().spark_jars}
        ) as spark,
    ):

        def slowly(batches):  # type: ignore[no-untyped-def] # Spark gives frames of pandas
            for batch in batches:
                time.sleep(RECORD_S * len(batch))
                yield batch

        read = {"kafka.bootstrap.servers": job.bootstrap, "subscribe": job.topic, "startingOffsets": "earliest"}
        rows = spark.readStream.format("kafka").options(**read, maxOffsetsPerTrigger="300").load()
        values = rows.selectExpr("CAST(value AS STRING) AS value").repartition(6)
        output = f"{folder}/output"
        query = (
            values.mapInPandas(slowly, values.schema)
            .writeStream.format("text")
            .option("checkpointLocation", f"{folder}/checkpoint")
            .start(output)
        )

        def written() -> int:
            return int(spark.read.text(output).count()) if any(Path(output).glob("part-*")) else 0

        journal = Path(folder, "run.db")
        with headgate.autoscale(spark, "latency p95 < 5s", executors=(1, 3), journal=str(journal), take_over=True):
            _until(lambda: not query.isActive or written() >= RECORDS)
        # Spark's own allocation was stopped then: it need not be taken over again.
        engine = SparkEngine(spark)
        drains = _drained(engine)
        arrived = written()
        query.stop()
        texts = [row.value for row in spark.read.text(output).collect()]
        with closing(SqliteJournal.read(journal)) as reader:
            observations = list(reader.observations())
            events = [event.kind for event in reader.events()]
        last = [seen.samples["job"] for seen in observations if "job" in seen.samples][-1]
        return {
            "version": pyspark.__version__,
            "python": ".".join(map(str, sys.version_info[:3])),
            "failure": str(query.exception() or ""),
            "rows": len(texts),
            "distinct": len(set(texts)),
            "at_drain": arrived,
            "arrived": last.arrived,
            "done": last.done,
            "most_ready": max(seen.instances["job"].ready for seen in observations),
            "drained_to": drains,
            "failed_readings": events.count("observe-failed"),
        }


def _drained(engine: object) -> int:
    """The executors that are left after all but one were sent away."""
    from headgate.core.types import Decision, Verdict
    from headgate.engines.spark import SparkEngine

    assert isinstance(engine, SparkEngine)

    def ready() -> int:
        return engine.observe().instances["job"].ready

    def shrunk() -> bool:
        planned = engine.planned
        engine.apply(Decision(time.time(), "test", {"job": Verdict("job", planned, 1, 1, "test", "a test")}))
        return ready() == 1

    _until(shrunk, 60.0)
    return ready()


def _until(is_so: Callable[[], bool], within_s: float = ENDS_WITHIN_S) -> None:
    until_s = time.monotonic() + within_s
    while not is_so() and time.monotonic() < until_s:
        time.sleep(1.0)


if __name__ == "__main__":
    sys.stdout.write(f"{json.dumps(run_here(Job(**json.loads(sys.argv[1]))))}\n")
