"""Changing the number of state partitions of a stopped query, so that a crash at any point loses and doubles nothing.

Spark repartitions by a batch of its own that reads nothing; cut off, it can be run again to the same number and must be
before the query can go on. Where it cannot be run at all, the checkpoint as it was takes its place again.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from headgate.core.errors import EngineError
from headgate.core.types import Instant
from headgate.runtime.managed.marker import Marker, MarkerFile, Phase, sync_folder


class Aside:
    """The copy of one checkpoint."""

    def __init__(self, checkpoint: Path) -> None:
        self._checkpoint = checkpoint
        self.copy = checkpoint.with_name(f"{checkpoint.name}.headgate-before")
        self._failed = checkpoint.with_name(f"{checkpoint.name}.headgate-failed")

    def make(self) -> None:
        self.drop()
        shutil.copytree(self._checkpoint, self.copy, copy_function=os.link)
        sync_folder(self.copy.parent)

    def put_back(self) -> None:
        """Let the copy be the checkpoint. It may be done again after having been cut off anywhere."""
        if self.copy.exists():
            shutil.rmtree(self._failed, ignore_errors=True)
            if self._checkpoint.exists():
                self._checkpoint.rename(self._failed)
            self.copy.rename(self._checkpoint)
            sync_folder(self._checkpoint.parent)
        shutil.rmtree(self._failed, ignore_errors=True)

    def drop(self) -> None:
        shutil.rmtree(self.copy, ignore_errors=True)


class CheckpointState(Protocol):
    """What a checkpoint says of itself."""

    @property
    def is_settled(self) -> bool: ...
    @property
    def state_partitions(self) -> int | None: ...
    @property
    def half_repartitioned(self) -> int | None: ...


class Repartitioning:
    """Changes one checkpoint. ``repartition`` is Spark's part of it."""

    def __init__(
        self, checkpoint: CheckpointState, marker: MarkerFile, aside: Aside, repartition: Callable[[int], None]
    ) -> None:
        self._checkpoint = checkpoint
        self._marker = marker
        self._aside = aside
        self._repartition = repartition

    @property
    def partitions(self) -> int | None:
        """How many state partitions there are; ``None`` before the first batch."""
        return self._checkpoint.state_partitions

    def change(self, after: int, now: Instant) -> None:
        """Spread the state over so many partitions. If that fails, the checkpoint is as it was, and the error told."""
        before = self._checkpoint.state_partitions
        if before is None or not self._checkpoint.is_settled:
            raise EngineError("the query was not stopped between two batches; its state stays as it is.")
        marker = Marker(Phase.BEGUN, before, after, now)
        self._marker.write(marker)
        self._aside.make()
        self._marker.write(Marker(Phase.COPIED, before, after, now))
        try:
            self._repartition(after)
        except Exception:
            self._undo(marker)
            raise
        self._marker.clear()
        self._aside.drop()

    def recover(self) -> str:
        """End or undo what an earlier process left half done; gives what was done, or nothing."""
        marker = self._marker.read()
        if marker is not None and marker.phase is Phase.UNDOING:
            return self._undo(marker)
        half = self._checkpoint.half_repartitioned
        text = ""
        if half is not None:
            try:
                self._repartition(half)
                text = f"a change to {half} state partitions that was cut off has been ended"
            except EngineError:
                if marker is None or marker.phase is not Phase.COPIED:
                    raise
                return self._undo(marker)
        elif marker is not None:
            now = self._checkpoint.state_partitions
            did = "had been made" if now == marker.after else "had not begun"
            text = f"a change from {marker.before} to {marker.after} state partitions that was cut off {did}"
        if marker is not None:
            self._marker.clear()
        self._aside.drop()
        return text

    def _undo(self, marker: Marker) -> str:
        self._marker.write(Marker(Phase.UNDOING, marker.before, marker.after, marker.began_s))
        self._aside.put_back()
        self._marker.clear()
        return f"a change from {marker.before} to {marker.after} state partitions failed and was undone"
