"""What can be wrong with the arguments of ``headgate.run`` is said before anything is started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import headgate
from headgate.core.errors import HeadgateError


class NoSession:
    """Fails any test that uses it."""

    @property
    def sparkContext(self) -> Any:  # noqa: N802 - Spark's name
        raise AssertionError("the session was touched")


def no_build(spark: object, plan: headgate.Plan) -> Any:
    raise AssertionError("the query was built")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"partitions": (0, 8)}, r"\(0, 8\)"),
        ({"partitions": (8, 2)}, r"\(8, 2\)"),
        ({"partitions": 8}, "partitions 8"),
        ({"partitions": (2, 8), "checkpoint": "s3a://bucket/place"}, "s3a://bucket/place"),
        ({"objective": "latency p95 < soon"}, "soon"),
        ({"executors": (3,)}, r"\(3,\)"),
        ({"max_records_per_batch": 0}, "max_records_per_batch 0"),
        ({"max_records_per_batch": "many"}, "many"),
        ({"mode": "dream"}, "dream"),
        ({"change_rest": "ages"}, "ages"),
        ({"scale": False, "journal": "run.db"}, "journal"),
    ],
)
def test_unusable_arguments_are_refused_with_the_value_received(
    wrong: dict[str, Any], message: str, tmp_path: Path
) -> None:
    arguments: dict[str, Any] = {"checkpoint": tmp_path / "checkpoint", "spark": NoSession()} | wrong
    with pytest.raises(HeadgateError, match=message):
        headgate.run(no_build, **arguments)
    assert list(tmp_path.iterdir()) == []
