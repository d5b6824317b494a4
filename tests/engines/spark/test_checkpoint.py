"""What a checkpoint folder says of its query, by files as Spark writes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headgate.core.errors import StateError
from headgate.engines.spark.managed_query import PARTITIONS_KEY, Checkpoint, local_path


def checkpoint(folder: Path, planned: list[int], committed: int) -> Checkpoint:
    """One whose batches were planned with so many state partitions each, and of which so many were committed."""
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True)
    for batch, partitions in enumerate(planned):
        metadata = json.dumps({"batchWatermarkMs": 0, "conf": {PARTITIONS_KEY: str(partitions)}})
        (folder / "offsets" / str(batch)).write_text(f'v1\n{metadata}\n{{"records": 7}}')
        (folder / "offsets" / f".{batch}.crc").touch()
    for batch in range(committed):
        (folder / "commits" / str(batch)).write_text("v1\n{}")
        (folder / "commits" / f".{batch}.crc").touch()
    return Checkpoint(folder)


@pytest.mark.parametrize(
    ("planned", "committed", "settled", "partitions", "half"),
    [
        ([], 0, True, None, None),
        ([2], 0, False, 2, None),
        ([2, 2], 2, True, 2, None),
        ([2, 2], 1, False, 2, None),
        ([2, 2, 8], 2, False, 8, 8),
        ([2, 2, 8], 3, True, 8, None),
        ([2, 2, 8, 8], 3, False, 8, None),
        ([2] * 11 + [8], 11, False, 8, 8),
    ],
    ids=[
        "new",
        "first batch runs",
        "between batches",
        "a batch runs",
        "half repartitioned",
        "repartitioned",
        "a batch runs after it",
        "numbers are compared as numbers",
    ],
)
def test_the_logs_tell_where_a_query_stands(
    tmp_path: Path, planned: list[int], committed: int, settled: bool, partitions: int | None, half: int | None
) -> None:
    found = checkpoint(tmp_path / "checkpoint", planned, committed)
    assert (found.is_settled, found.state_partitions, found.half_repartitioned) == (settled, partitions, half)


def test_a_checkpoint_that_is_not_there_is_a_new_one(tmp_path: Path) -> None:
    found = Checkpoint(tmp_path / "none")
    assert (found.is_settled, found.state_partitions, found.half_repartitioned) == (True, None, None)


@pytest.mark.parametrize("text", ["", "v1", "v1\nnonsense\n{}", 'v1\n{"conf": []}\n{}'])
def test_a_log_that_spark_did_not_write_is_refused_by_its_name(tmp_path: Path, text: str) -> None:
    found = checkpoint(tmp_path / "checkpoint", [2], 1)
    (found.path / "offsets" / "0").write_text(text)
    with pytest.raises(StateError, match="offsets/0"):
        assert found.state_partitions


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("/data/checkpoint", "/data/checkpoint"),
        ("relative/place", "relative/place"),
        ("file:///data/a%20b", "/data/a b"),
        ("file:/data/checkpoint", "/data/checkpoint"),
        (Path("/data/100%"), "/data/100%"),
        ("s3a://bucket/checkpoint", None),
        ("hdfs://name/checkpoint", None),
    ],
)
def test_only_places_on_this_machine_are_folders(given: str | Path, found: str | None) -> None:
    assert local_path(given) == (None if found is None else Path(found))
