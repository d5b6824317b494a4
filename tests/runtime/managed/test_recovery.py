"""A change of the state partitions that is cut off anywhere is ended or undone by the next start."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from headgate.core.errors import EngineError, StateError
from headgate.engines.spark.managed_query import PARTITIONS_KEY, Checkpoint
from headgate.runtime.managed.recovery import Aside, Marker, MarkerFile, Phase, Repartitioning


class Killed(BaseException):
    """The process ends here, and nothing after it is run."""


class Spark:
    """Writes into a checkpoint what Spark does when it repartitions, as far as it is let."""

    def __init__(self, checkpoint: Path) -> None:
        self.checkpoint = checkpoint
        self.dies_after: int | None = None
        """Steps of a repartitioning after which the process is killed."""
        self.refuses = False

    def run_batch(self, batch: int, partitions: int) -> None:
        self._write(f"offsets/{batch}", _plan(partitions))
        for partition in range(partitions):
            self._write(f"state/0/{partition}/{batch + 1}.zip", f"{partition} of {partitions}")
        self._write(f"commits/{batch}", "v1\n{}")

    def repartition(self, partitions: int) -> None:
        known = Checkpoint(self.checkpoint)
        committed = known.last_committed
        assert committed is not None
        if known.is_settled:
            assert known.state_partitions != partitions
            self._step(0, lambda: self._write(f"offsets/{committed + 1}", _plan(partitions)))
        else:
            assert known.half_repartitioned == partitions
        if self.refuses:
            raise EngineError("this operator's state cannot be repartitioned.")
        for partition in range(partitions):
            name = f"state/0/{partition}/{committed + 2}.zip"
            self._step(partition + 1, partial(self._write, name, f"{partition} of {partitions}"))
        self._step(partitions + 1, lambda: self._write(f"commits/{committed + 1}", "v1\n{}"))

    def _step(self, number: int, act: Callable[[], None]) -> None:
        act()
        if self.dies_after == number:
            raise Killed

    def _write(self, name: str, text: str) -> None:
        file = self.checkpoint / name
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_name(f".{file.name}.tmp")
        draft.write_text(text, encoding="utf-8")
        draft.replace(file)


def _plan(partitions: int) -> str:
    return f'v1\n{json.dumps({"conf": {PARTITIONS_KEY: str(partitions)}})}\n{{"records": 5}}'


@pytest.fixture
def spark(tmp_path: Path) -> Spark:
    found = Spark(tmp_path / "checkpoint")
    for batch in range(3):
        found.run_batch(batch, 2)
    return found


def process(spark: Spark) -> Repartitioning:
    """What a new process has: only what is on the disk."""
    folder = spark.checkpoint
    return Repartitioning(Checkpoint(folder), MarkerFile(folder), Aside(folder), spark.repartition)


def contents(folder: Path) -> dict[str, str]:
    return {str(file.relative_to(folder)): file.read_text() for file in folder.rglob("*") if file.is_file()}


def assert_nothing_left(spark: Spark) -> None:
    assert [each.name for each in spark.checkpoint.parent.iterdir()] == ["checkpoint"]


@pytest.mark.parametrize("dies_after", range(6))
def test_a_kill_within_sparks_part_is_ended_by_the_next_start(spark: Spark, dies_after: int) -> None:
    spark.dies_after = dies_after
    with pytest.raises(Killed):
        process(spark).change(4, now=0.0)
    spark.dies_after = None
    recovered = process(spark).recover()
    assert "4 state partitions" in recovered
    assert Checkpoint(spark.checkpoint).state_partitions == 4
    assert Checkpoint(spark.checkpoint).is_settled
    assert_nothing_left(spark)
    assert process(spark).recover() == ""


@pytest.mark.parametrize("write", range(3))
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_kill_around_each_note_loses_nothing(
    spark: Spark, monkeypatch: pytest.MonkeyPatch, write: int, moment: str
) -> None:
    steps = 0
    real_write, real_clear = MarkerFile.write, MarkerFile.clear

    def dying(real: Callable[[], None]) -> None:
        nonlocal steps
        steps += 1
        if steps - 1 == write and moment == "before":
            raise Killed
        real()
        if steps - 1 == write:
            raise Killed

    monkeypatch.setattr(MarkerFile, "write", lambda self, marker: dying(lambda: real_write(self, marker)))
    monkeypatch.setattr(MarkerFile, "clear", lambda self: dying(lambda: real_clear(self)))
    with pytest.raises(Killed):
        process(spark).change(4, now=0.0)
    monkeypatch.undo()
    process(spark).recover()
    known = Checkpoint(spark.checkpoint)
    assert known.is_settled
    assert known.state_partitions == (4 if write == 2 else 2)
    assert_nothing_left(spark)


def test_what_spark_refuses_leaves_the_checkpoint_as_it_was(spark: Spark) -> None:
    before = contents(spark.checkpoint)
    spark.refuses = True
    with pytest.raises(EngineError, match="cannot be repartitioned"):
        process(spark).change(4, now=0.0)
    assert contents(spark.checkpoint) == before
    assert_nothing_left(spark)


def test_what_was_cut_off_and_is_then_refused_is_undone(spark: Spark) -> None:
    before = contents(spark.checkpoint)
    spark.dies_after = 1
    with pytest.raises(Killed):
        process(spark).change(4, now=0.0)
    spark.dies_after, spark.refuses = None, True
    assert "undone" in process(spark).recover()
    assert contents(spark.checkpoint) == before
    assert_nothing_left(spark)


@pytest.mark.parametrize("renames", range(3))
def test_a_kill_while_it_is_undone_is_undone_again(spark: Spark, monkeypatch: pytest.MonkeyPatch, renames: int) -> None:
    before = contents(spark.checkpoint)
    spark.refuses = True
    done = 0
    real = Path.rename

    def rename(self: Path, target: Path) -> Path:
        nonlocal done
        if done == renames:
            raise Killed
        done += 1
        return real(self, target)

    monkeypatch.setattr(Path, "rename", rename)
    if renames < 2:
        with pytest.raises(Killed):
            process(spark).change(4, now=0.0)
    else:
        with pytest.raises(EngineError):
            process(spark).change(4, now=0.0)
    monkeypatch.undo()
    process(spark).recover()
    assert contents(spark.checkpoint) == before
    assert_nothing_left(spark)


def test_a_query_with_a_batch_left_half_done_is_not_touched(spark: Spark) -> None:
    (spark.checkpoint / "commits" / "2").unlink()
    before = contents(spark.checkpoint)
    with pytest.raises(EngineError, match="between two batches"):
        process(spark).change(4, now=0.0)
    assert process(spark).recover() == ""
    assert contents(spark.checkpoint) == before


def test_a_new_checkpoint_has_nothing_to_recover(tmp_path: Path) -> None:
    assert process(Spark(tmp_path / "none")).recover() == ""


def test_a_note_of_another_version_is_refused_with_its_version(tmp_path: Path) -> None:
    notes = MarkerFile(tmp_path / "checkpoint")
    notes.write(Marker(Phase.BEGUN, 2, 8, 5.0))
    assert notes.read() == Marker(Phase.BEGUN, 2, 8, 5.0)
    notes.path.write_text(notes.path.read_text().replace('"version": 1', '"version": 9'))
    with pytest.raises(StateError, match="version 9"):
        notes.read()
    notes.path.write_text("{")
    with pytest.raises(StateError, match="cannot be read"):
        notes.read()
