"""What Spark's checkpoint of a query tells of its batches, from its files: which are done, and what each has read.

A batch is planned by a file in ``offsets`` (a line for the version, one with the watermark, and one for each source)
and done by one in ``commits``. Spark keeps those of the last hundred batches.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from headgate.apps.running.sources import Offset
from headgate.core.errors import StateError


@dataclass(frozen=True)
class Planned:
    """A batch as it was planned."""

    batch: int
    end: Offset
    watermark_ms: int
    """Of event time; 0 where there is none."""


def done_batches(checkpoint: Path) -> list[int]:
    """The batches that are done and still known, in their order."""
    return _numbers(checkpoint / "commits")


def planned(checkpoint: Path, batch: int) -> Planned | None:
    """A batch as it was planned; ``None`` if it is not known any more."""
    path = checkpoint / "offsets" / str(batch)
    try:
        _, metadata, source, *_ = path.read_text(encoding="utf-8").splitlines()
        return Planned(batch, json.loads(source), int(json.loads(metadata)["batchWatermarkMs"]))
    except FileNotFoundError:
        return None
    except (OSError, KeyError, ValueError) as error:
        raise StateError(f"{path} is not what Spark writes of a batch: {error}.") from error


def _numbers(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    return sorted(int(entry.name) for entry in folder.iterdir() if entry.name.isdigit())
