"""How fast and how punctual ``headgate load`` is: its process on one core, the broker on the others.

As fast as accepted, for small records and for those of every application; then 50,000 records a second for a minute,
where the question is how late they were and how much of the core it took. The rates are of records that the broker has
acknowledged.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import psutil
from benchmarks.common import Row, reference_s, report

import headgate.apps.payloads  # noqa: F401 - registers the payloads of all applications
from headgate.local.kafka import LocalKafka
from headgate.workloads.payloads import DEFAULT, payload_names

RECORDS = 2_000_000
PARTITIONS = 4
PACED_PER_S = 50_000
PACED_S = 60
STEPS = 1_000_000
"""Of the reference loop."""


def load(kafka: LocalKafka, workload: str, *options: str) -> tuple[dict[str, Any], float]:
    """What a load on the first core says at its end, and the CPU seconds that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder, "load.json")
        where = ("--to", "kafka:load", "--bootstrap", kafka.bootstrap, "--json", str(result))
        command = [sys.executable, "-m", "headgate", "load", workload, *options, *where]
        subprocess.run(
            command, check=True, stdout=subprocess.DEVNULL, preexec_fn=lambda: os.sched_setaffinity(0, {_cores()[0]})
        )
        summary: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert summary["acknowledged"] == summary["due"]
    return summary, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _cores() -> list[int]:
    return sorted(os.sched_getaffinity(0))


def _to_the_other_cores() -> None:
    """Leave the first core to the load, if there are several; the broker has threads already."""
    others = set(_cores()[1:])
    for process in psutil.Process().children(recursive=True):
        for thread in process.threads() if others else []:
            os.sched_setaffinity(thread.id, others)


def bench_load() -> None:
    rows: list[Row] = []
    step_s = reference_s() / STEPS
    with LocalKafka() as kafka:
        kafka.create_topic("load", PARTITIONS)
        _to_the_other_cores()
        _rate_per_s(kafka, DEFAULT, RECORDS // 4)  # The broker warms up.
        best = max(_rate_per_s(kafka, DEFAULT, RECORDS) for _ in range(3))
        rows.append({"what": f"{DEFAULT}, as fast as accepted", "unit": "records/s", "value": round(best)})
        rows.append({"what": "a record, in steps of a plain loop", "unit": "steps", "value": 1 / best / step_s})
        for name in payload_names():
            if name != DEFAULT:
                rate = round(_rate_per_s(kafka, name, RECORDS // 4))
                rows.append({"what": f"{name}, as fast as accepted", "unit": "records/s", "value": rate})
        paced, cpu_s = load(kafka, f"constant:{PACED_PER_S}", "--seconds", f"{PACED_S}s", "--skew", "1")
    error = paced["schedule_error"]
    what = f"at {PACED_PER_S:,}/s for a minute"
    rows += [
        {"what": f"{what}: sent in another second than due", "unit": "%", "value": 100 * error["share"]},
        {"what": f"{what}: late (median)", "unit": "ms", "value": 1000 * error["p50_s"]},
        {"what": f"{what}: late (99 % are less)", "unit": "ms", "value": 1000 * error["p99_s"]},
        {"what": f"{what}: late (at most)", "unit": "ms", "value": 1000 * error["max_s"]},
        {"what": f"{what}: share of a core", "unit": "%", "value": 100 * cpu_s / PACED_S},
    ]
    report("load", rows)


def _rate_per_s(kafka: LocalKafka, name: str, records: int) -> float:
    options = ("--app", name, "--seconds", "1s", "--speed", "max", "--skew", "1")
    summary, _ = load(kafka, f"constant:{records}", *options)
    return float(summary["rate_per_s"])


if __name__ == "__main__":
    bench_load()
