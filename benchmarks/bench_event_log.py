"""What reading an event log of a gigabyte costs: time, and the memory of the process; the log is made first.

It is that of a job with 64 tasks to a batch, whose ends are as long as those of Spark 4.3 (4.8 kB). Packed, it is much
smaller; what counts is what Spark wrote.
"""

from __future__ import annotations

import resource
import tempfile
import time
from pathlib import Path

import pyarrow as pa
from benchmarks.common import report

from headgate.engines.spark.event_log import read_event_log
from headgate.engines.spark.event_log_files import find_event_logs
from headgate.lab.assess import AssessmentTerms, assess_logged_job
from tests.engines.spark.event_logs import LoggedRun, text_of

GIGABYTE = 1_000_000_000
TASK_BYTES = 4600
EXECUTORS = 64


def bench_event_log(size: int = GIGABYTE) -> None:
    # A log of this length has a batch every 5 s, with the end of a task on each executor.
    batches = size / (EXECUTORS * (TASK_BYTES + 150) + 1200)
    run = LoggedRun(
        seconds=5.0 * batches,
        rate_per_s=1.5,
        load_at_s=60.0,
        noise=0.2,
        tasks=EXECUTORS,
        padding=TASK_BYTES,
        executors=tuple((str(number), 0.0, 30.0, None) for number in range(EXECUTORS)),
    )
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for packed in ("plain", "zstd"):
            path = Path(folder, packed)
            written = _write(path, run, packed)
            (log,) = find_event_logs(path)
            began_s, began_cpu_s = time.perf_counter(), time.process_time()
            job = read_event_log(log)
            read_s, read_cpu_s = time.perf_counter() - began_s, time.process_time() - began_cpu_s
            rows.append(
                {
                    "log": packed,
                    "written, MB": round(written / 1e6),
                    "file, MB": round(path.stat().st_size / 1e6),
                    "batches": job.batches,
                    "read, s": round(read_s, 1),
                    "read, CPU s": round(read_cpu_s, 1),
                    "peak memory, MB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000),
                }
            )
        began_s = time.perf_counter()
        assess_logged_job(job, AssessmentTerms(draws=1))
        assessed_s = time.perf_counter() - began_s
    report("event-log", rows, assessed_s=round(assessed_s, 1))


def _write(path: Path, run: LoggedRun, packed: str) -> int:
    """Write a log piece by piece and return its length before packing."""
    written = 0
    sink = pa.OSFile(str(path), "wb") if packed == "plain" else pa.CompressedOutputStream(str(path), packed)
    with sink as file:
        for event in run.lines():
            line = text_of([event])
            file.write(line)
            written += len(line)
    return written


if __name__ == "__main__":
    bench_event_log()
