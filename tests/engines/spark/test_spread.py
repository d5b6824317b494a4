"""Batch work spread over Spark, as far as no Spark is needed to see it."""

from __future__ import annotations

import pytest

from headgate.engines.spark.spread import cause, is_on_this_machine, tasks_for

WORKER = """\
Job aborted: Task 0 in stage 1.0 failed 4 times: org.apache.spark.PythonException: Traceback (most recent call last):
  File "/home/ann/spread.py", line 92, in on_batches
    done = work(text)
{}

\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:581)
Driver stacktrace:
"""


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("", ""),
        ("\nJob 0 cancelled\n\tat org.apache", "Job 0 cancelled"),
        (WORKER.format("ValueError: no"), "ValueError: no"),
        (WORKER.format("headgate.core.errors.EngineError: other: code."), "other: code."),
        (
            WORKER.format("ModuleNotFoundError: No module named 'headgate'"),
            "a worker has no Headgate; on a cluster, all workers must have it installed.",
        ),
    ],
)
def test_the_cause_is_what_the_worker_died_of(output: str, expected: str) -> None:
    assert cause(output) == expected


@pytest.mark.parametrize(
    ("master", "expected"),
    [("local[2]", True), ("spark://127.0.0.1:7077", True), ("spark://lab:7077", False), ("yarn", False)],
)
def test_only_drivers_of_this_machine_alone_hide_on_loopback(master: str, expected: bool) -> None:
    assert is_on_this_machine(master) is expected


@pytest.mark.parametrize(("count", "cores", "tasks"), [(3, 2, 3), (160, 2, 16), (10_000, 2, 200), (300, 16, 128)])
def test_tasks_are_small_enough_for_every_core(count: int, cores: int, tasks: int) -> None:
    assert tasks_for(count, cores) == tasks
