"""How far tasks have come with what is not written yet: each says so in a small file beside the rows.

A run may take minutes and whoever watches wants to know at once how long all will take, also where tasks run on other
machines: the folder of the rows is what all of them share.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

TOLD_EVERY_S = 0.5
_NAMES = ".underway-*"
"""Names that begin with a dot are not read, by Spark either."""


class Underway:
    """What one task says; nothing that goes wrong here is worth a run."""

    def __init__(self, runs: Path) -> None:
        self._path = runs / _NAMES.replace("*", f"{os.getpid()}-{uuid4().hex[:8]}")
        self._told_s = float("-inf")

    def tell(self, whole: int, share: float) -> None:
        """So many runs are done and not written, and this share of the next."""
        if (now_s := time.monotonic()) - self._told_s >= TOLD_EVERY_S:
            self._told_s = now_s
            with suppress(OSError):
                self._path.write_text(f"{whole + share:.4f}", encoding="ascii")

    def close(self) -> None:
        """All is written."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)


def runs_underway(runs: Path) -> float:
    """How many runs the work is worth that all tasks have done and not written."""
    found = 0.0
    for path in runs.glob(_NAMES):
        with suppress(OSError, ValueError):  # It is gone, or half written, or of a machine that fails.
            found += float(path.read_text(encoding="ascii"))
    return found


def forget_underway(runs: Path) -> None:
    """What tasks have left behind that were killed."""
    for path in runs.glob(_NAMES):
        with suppress(OSError):
            path.unlink(missing_ok=True)
