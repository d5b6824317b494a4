"""The runs of a matrix that takes hours, kept on disk as they end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from headgate.core.types import JSON
from headgate.lab.code_state import fingerprint
from headgate.lab.kept_lines import KeptLines
from headgate.research.promises.cells import Run

FORMAT_VERSION = 1
DECISIVE = (
    "core",
    "forecast",
    "research/promises/cells.py",
    "research/promises/loads.py",
    "policies",
    "runtime",
    "simulation",
    "workloads",
)
"""The code that a run depends on, in the folder of the package."""


class KeptRuns:
    """The runs of one state of the code, by what was asked of them."""

    def __init__(self, folder: Path | None = None) -> None:
        self._lines = KeptLines("promises", fingerprint(DECISIVE, FORMAT_VERSION), FORMAT_VERSION, folder)
        self.path = self._lines.path

    def get(self, asked: Mapping[str, JSON]) -> list[Run] | None:
        runs = self._lines.get(asked)
        return None if runs is None else [Run(**one) for one in runs]

    def add(self, asked: Mapping[str, JSON], runs: Sequence[Run]) -> None:
        self._lines.add(asked, [asdict(one) for one in runs])
