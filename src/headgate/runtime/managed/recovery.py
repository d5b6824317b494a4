"""Change the number of state partitions of a stopped query, so that a crash at any point loses and doubles nothing.

Spark repartitions by a batch of its own that reads nothing. If it is interrupted, it can be run again for the same
number, and must be before the query can continue. If it cannot be run at all, the old checkpoint is restored.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from headgate.core.errors import EngineError, StateError
from headgate.core.types import JSON, Instant
from headgate.engines.spark.query_plan import Plan
from headgate.runtime.managed.contracts import Pauses

FORMAT_VERSION = 1


class Phase(StrEnum):
    """How far a change has come."""

    BEGUN = "begun"
    """The checkpoint is unchanged; a copy of it may be incomplete."""
    COPIED = "copied"
    """The copy is complete; the checkpoint may be in any state between the old and the new one."""
    UNDOING = "undoing"
    """The copy is to replace the checkpoint."""


@dataclass(frozen=True, slots=True)
class Marker:
    """A change of the number of state partitions that is under way."""

    phase: Phase
    before: int
    after: int
    began_s: Instant


class MarkerFile:
    """The file with the marker of one checkpoint."""

    def __init__(self, checkpoint: Path) -> None:
        self.path = checkpoint.with_name(f"{checkpoint.name}.headgate-change.json")

    def read(self) -> Marker | None:
        """Return the change that was under way, if there was one."""
        try:
            body = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise StateError(f"{self.path} cannot be read: {error}.") from error
        try:
            if body["version"] != FORMAT_VERSION:
                raise StateError(f"{self.path} has version {body['version']}; this Headgate reads {FORMAT_VERSION}.")
            return Marker(Phase(body["phase"]), int(body["before"]), int(body["after"]), float(body["began_s"]))
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(f"{self.path} does not describe a change: {error}.") from error

    def write(self, marker: Marker) -> None:
        write_whole(self.path, {"version": FORMAT_VERSION, **asdict(marker)})

    def clear(self) -> None:
        """Record that no change is under way."""
        self.path.unlink(missing_ok=True)
        sync_folder(self.path.parent)


def write_whole(path: Path, body: Mapping[str, JSON]) -> None:
    """Write a file so that after a crash there is either the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    with draft.open("w", encoding="utf-8") as file:
        json.dump(body, file)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Write the entries of a folder to the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


logger = logging.getLogger("headgate")

LEARNED_FORMAT = 1


class LearnedFile:
    """The file with the last limit of a batch, and how long changes took."""

    def __init__(self, checkpoint: Path) -> None:
        self.path = checkpoint.with_name(f"{checkpoint.name}.headgate-learned.json")

    def read(self) -> tuple[int | None, Pauses]:
        """Return what is known; nothing if there is no file, or (logged) one that cannot be used."""
        try:
            body = json.loads(self.path.read_text(encoding="utf-8"))
            if body["version"] != LEARNED_FORMAT:
                raise ValueError(f"it has version {body['version']}, not {LEARNED_FORMAT}")
            cap = body["max_records_per_batch"]
            known = {name == "repartition": [float(each) for each in body["pauses_s"][name]] for name in _KINDS}
            return (None if cap is None else max(1, int(cap))), Pauses(known)
        except FileNotFoundError:
            return None, Pauses()
        except (OSError, ValueError, KeyError, TypeError) as error:
            logger.warning("%s is not used: %s", self.path, error)
            return None, Pauses()

    def write(self, plan: Plan, pauses: Pauses) -> None:
        """Save what is known now. The file is not essential: a full disk is only logged."""
        body = {
            "version": LEARNED_FORMAT,
            "max_records_per_batch": plan.max_records_per_batch,
            "pauses_s": {name: list(pauses.known_s(repartitions=name == "repartition")) for name in _KINDS},
        }
        try:
            write_whole(self.path, body)
        except OSError as error:
            logger.warning("what was learned of the query is not saved: %s", error)


_KINDS = ("restart", "repartition")


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
        """Replace the checkpoint by the copy. An interrupted call may be repeated."""
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
    """The state of a checkpoint."""

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
        """Spread the state over so many partitions. On failure the checkpoint is unchanged and the error is raised."""
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
        """Complete or undo an interrupted change of an earlier process; return what was done, or an empty string."""
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
