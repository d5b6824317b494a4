"""What failures of queries are, by what Spark says of them."""

from __future__ import annotations

import pytest

from headgate.runtime.managed.failures import LONGEST, classify_failure

WRAPPED = "[STREAM_FAILED] Query [id = 1, runId = 2] ended with exception: {} SQLSTATE: XXKST\n\tat org.apache.spark"


@pytest.mark.parametrize(
    ("message", "why", "can_heal"),
    [
        (
            "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: This server does not host this topic",
            "the topic does not exist",
            False,
        ),
        ("[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column `usr` cannot be resolved", "the query is not valid", False),
        (
            "[STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA] Streaming stateful operator name does not match",
            "the state in the checkpoint does not fit the query",
            False,
        ),
        (
            "assertion failed: There are [2] sources in the checkpoint offsets and now there are [1] sources",
            "the checkpoint does not fit the query",
            False,
        ),
        ("java.io.IOException: No space left on device", "the disk is full", True),
        (
            "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment",
            "the broker does not answer",
            True,
        ),
        (
            "Job aborted due to stage failure: ExecutorLostFailure (executor 3 exited) Reason: worker lost",
            "a batch failed",
            True,
        ),
        (
            "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log. Multiple streaming jobs detected for 7.",
            "another run uses the checkpoint",
            False,
        ),
        ("java.util.concurrent.TimeoutException: Futures timed out after [300 seconds]", "it failed", True),
        ("java.util.ConcurrentModificationException: KafkaConsumer is not safe for", "it failed", True),
        ("ValueError: something nobody has seen before", "it failed", True),
    ],
)
def test_sparks_message_decides_whether_a_restart_can_heal_it(message: str, why: str, *, can_heal: bool) -> None:
    failure = classify_failure(WRAPPED.format(message))
    assert (failure.why, failure.can_heal) == (why, can_heal)
    assert message[:40] in str(failure)


def test_a_full_disk_counts_though_the_job_was_aborted_by_it() -> None:
    assert classify_failure(
        "SparkException: Job aborted\nCaused by: java.io.IOException: No space left on device"
    ).can_heal
    assert classify_failure("Job aborted\nCaused by: No space left on device").why == "the disk is full"


def test_only_the_line_that_tells_is_given_and_not_too_much_of_it() -> None:
    failure = classify_failure(f"a first line\n  {'x' * 1000}\n")
    assert failure.message == "a first line"
    assert len(classify_failure("x" * 1000).message) == LONGEST + 1


CREATED = (
    "AnalysisException: [PYTHON_DATA_SOURCE_ERROR] Failed to create instance: Traceback (most recent call last):\n"
)


def test_the_last_line_of_a_traceback_is_reported() -> None:
    failure = classify_failure(CREATED + '  File "a.py", line 3, in make\nValueError: no such key\n')
    assert str(failure) == "the query is not valid (ValueError: no such key)"


def test_another_python_in_spark_is_reported_with_what_to_do() -> None:
    failure = classify_failure(CREATED + "ModuleNotFoundError: No module named 'headgate'\n")
    assert "PYSPARK_PYTHON" in str(failure)
    assert "No module named 'headgate'" in str(failure)
    assert not failure.can_heal
