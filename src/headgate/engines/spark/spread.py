"""Batch work spread over Spark: texts are rows, a task works on a few of them, and what it keeps is Parquet.

Nothing here knows what the work is; ``headgate.lab`` spreads the cases of experiments by it.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import SparkSession

from headgate.core.errors import EngineError
from headgate.local.machine import LOOPBACK, QUICK_START
from headgate.local.spark.cluster import plain_session

Work: TypeAlias = Callable[[Iterable[str]], int]
"""Is given the texts of a task, where the task runs, and says how many it has done. It must be found by its name."""

_HOME = Path(__file__).parents[3]
"""Where the package is."""
POLL_S = 0.2
TASKS_PER_CORE = 8
"""So that a core which is done early finds more to do."""
MOST_PER_TASK = 50
CLUSTER_CORES = 16
"""Executors come after the session: at its begin, it does not know how many cores a cluster has."""
_TRACEBACK = "Traceback (most recent call last):"


@contextmanager
def batch_session(master: str, name: str, log: Path) -> Iterator[SparkSession]:
    """A session for one command, quiet and light; it ends with the block."""
    session = plain_session(master, name, _settings(master), log)
    try:
        yield session
    finally:
        session.stop()


def _settings(master: str) -> dict[str, str]:
    chosen = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "1",
        # Workers of another process find the package where this one has it.
        "spark.executorEnv.PYTHONPATH": os.pathsep.join([str(_HOME), *_own_path()]),
    }
    if is_on_this_machine(master):
        chosen |= {
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            "spark.driver.extraJavaOptions": " ".join(QUICK_START),
            "spark.executor.extraJavaOptions": " ".join(QUICK_START),
        }
    return chosen


def is_on_this_machine(master: str) -> bool:
    """Whether nobody on another machine needs to reach the driver.

    >>> [is_on_this_machine(url) for url in ("local[2]", "spark://127.0.0.1:7077", "spark://lab:7077", "yarn")]
    [True, True, False, False]
    """
    return master.startswith(("local", f"spark://{LOOPBACK}:"))


def _own_path() -> list[str]:
    return [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]


def tasks_for(count: int, cores: int) -> int:
    """How many tasks so many texts make.

    >>> tasks_for(3, 2), tasks_for(160, 2), tasks_for(10_000, 2)
    (3, 16, 200)
    """
    return min(count, max(cores * TASKS_PER_CORE, math.ceil(count / MOST_PER_TASK)))


def spread(
    session: SparkSession,
    texts: Sequence[str],
    work: Work,
    *,
    watch: Callable[[], None],
    tasks: int | None = None,
) -> int:
    """Have all texts worked on, and say how many were; ``watch`` is called now and then meanwhile.

    An interrupt, or an error of ``watch``, cancels what has not been done yet.
    """
    context = session.sparkContext
    cores = context.defaultParallelism
    if not str(context.master).startswith("local"):
        cores = max(cores, CLUSTER_CORES)
    count = tasks or tasks_for(len(texts), cores)

    def on_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        done = work(text for batch in batches for text in batch.column(0).to_pylist())
        yield pa.RecordBatch.from_pydict({"done": pa.array([done], pa.int64())})

    def run() -> int:
        frame = session.createDataFrame(pa.table({"text": pa.array(list(texts), pa.string())}))
        rows = frame.repartition(count).mapInArrow(on_batches, "done long").collect()
        return sum(row.done for row in rows)

    with ThreadPoolExecutor(1, thread_name_prefix="spread") as pool:
        job = pool.submit(run)
        try:
            while wait([job], timeout=POLL_S).not_done:
                watch()
        except BaseException:
            context.cancelAllJobs()
            raise
        try:
            return job.result()
        except Exception as error:
            raise EngineError(f"Spark could not carry it out: {cause(str(error)) or type(error).__name__}") from error


def sql_rows(session: SparkSession, parquet: Path, table: str, query: str, order: str) -> list[dict[str, Any]]:
    """The rows of a query over a folder of Parquet files, which it knows as ``table``.

    All rows pass one task in their order: sums of the same numbers are then the same to the last digit.
    """
    frame = session.read.parquet(str(parquet)).coalesce(1).dropDuplicates([order])
    frame.sortWithinPartitions(order).createOrReplaceTempView(table)
    return [row.asDict() for row in session.sql(query).collect()]


def versions() -> dict[str, str]:
    """What runs the work, for those who want to know later."""
    import pyspark

    return {"python": sys.version.split()[0], "pyspark": pyspark.__version__, "pyarrow": pa.__version__}


def cause(message: str) -> str:
    """What went wrong, of all that Spark tells: the error of the Python worker where there is one.

    >>> cause(f"Job aborted:\\n{_TRACEBACK}\\n  File ...\\nheadgate.core.errors.InputError: no such load.\\n\\tat java")
    'no such load.'
    """
    lines = [line for line in message.splitlines() if line.strip()]
    begin = next((place for place, line in enumerate(lines) if _TRACEBACK in line), None)
    if begin is None:
        return lines[0].strip() if lines else ""
    error = next((line for line in lines[begin + 1 :] if not line[0].isspace()), lines[0])
    if "No module named 'headgate" in error:
        return "a worker has no Headgate; on a cluster, all workers must have it installed."
    return error.partition(": ")[2] if error.startswith("headgate.") else error
