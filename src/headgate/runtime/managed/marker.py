"""A note beside the checkpoint of what is being changed of it, so that the next start can end or undo what a crash cut
off. It is written whole or not at all: under another name first, forced to the disk, then renamed."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from headgate.core.errors import StateError
from headgate.core.types import JSON, Instant
from headgate.engines.spark.query_plan import Plan
from headgate.runtime.managed.contracts import Pauses

FORMAT_VERSION = 1


class Phase(StrEnum):
    """How far a change has come."""

    BEGUN = "begun"
    """The checkpoint is as it was; a copy of it may be half made."""
    COPIED = "copied"
    """The copy is whole; the checkpoint may be anything between what it was and what it is to be."""
    UNDOING = "undoing"
    """The copy is to take the place of the checkpoint."""


@dataclass(frozen=True, slots=True)
class Marker:
    """A change of the number of state partitions that is under way."""

    phase: Phase
    before: int
    after: int
    began_s: Instant


class MarkerFile:
    """Keeps the marker of one checkpoint."""

    def __init__(self, checkpoint: Path) -> None:
        self.path = checkpoint.with_name(f"{checkpoint.name}.headgate-change.json")

    def read(self) -> Marker | None:
        """The change that was under way; ``None`` if none was."""
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
            raise StateError(f"{self.path} does not tell of a change: {error}.") from error

    def write(self, marker: Marker) -> None:
        write_whole(self.path, {"version": FORMAT_VERSION, **asdict(marker)})

    def clear(self) -> None:
        """Nothing is under way any more."""
        self.path.unlink(missing_ok=True)
        sync_folder(self.path.parent)


def write_whole(path: Path, body: Mapping[str, JSON]) -> None:
    """Write a file so that, whatever happens, there is the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    with draft.open("w", encoding="utf-8") as file:
        json.dump(body, file)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Force to the disk which names a folder holds."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


logger = logging.getLogger("headgate")

LEARNED_FORMAT = 1


class LearnedFile:
    """Keeps the limit of a batch that was in force last, and how long changes took."""

    def __init__(self, checkpoint: Path) -> None:
        self.path = checkpoint.with_name(f"{checkpoint.name}.headgate-learned.json")

    def read(self) -> tuple[int | None, Pauses]:
        """What is known; nothing where there is no file, or one that cannot be used, which is said."""
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
        """Keep what is known now. It is no harm to have none: a full disk is only told."""
        body = {
            "version": LEARNED_FORMAT,
            "max_records_per_batch": plan.max_records_per_batch,
            "pauses_s": {name: list(pauses.known_s(repartitions=name == "repartition")) for name in _KINDS},
        }
        try:
            write_whole(self.path, body)
        except OSError as error:
            logger.warning("what was learned of the query is not kept: %s", error)


_KINDS = ("restart", "repartition")
