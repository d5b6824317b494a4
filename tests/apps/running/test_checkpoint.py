"""What Spark's checkpoint tells of batches."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.apps.running.accounts import Planned, done_batches, planned
from headgate.core.errors import StateError


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_it_tells_which_batches_are_done_and_what_each_read(tmp_path: Path) -> None:
    write(tmp_path / "offsets/7", 'v1\n{"batchWatermarkMs":5000,"conf":{}}\n{"orders":{"0":12}}\n')
    write(tmp_path / "commits/7", "v1\n{}")
    write(tmp_path / "commits/10", "v1\n{}")
    write(tmp_path / "commits/.7.crc", "")
    assert done_batches(tmp_path) == [7, 10]
    assert planned(tmp_path, 7) == Planned(7, {"orders": {"0": 12}}, 5000)
    assert planned(tmp_path, 6) is None


def test_before_the_first_batch_none_is_done(tmp_path: Path) -> None:
    assert done_batches(tmp_path) == []


def test_what_is_not_of_spark_is_reported(tmp_path: Path) -> None:
    write(tmp_path / "offsets/0", "v1\n")
    with pytest.raises(StateError, match="offsets/0 is not what Spark writes of a batch"):
        planned(tmp_path, 0)
