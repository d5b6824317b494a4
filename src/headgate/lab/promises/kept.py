"""What runs came to, kept on disk as they end: a matrix takes hours, and one that was interrupted goes on.

One file per state of the code, in the user's cache; a run made by other code is never taken for one made by this. Each
line is a run with what was asked of it; a line that was cut off by a crash is made anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from headgate.core.types import JSON
from headgate.lab.code_state import fingerprint
from headgate.lab.promises.cells import Run
from headgate.local.jars import cache_directory

FORMAT_VERSION = 1
DECISIVE = (
    "core",
    "forecast",
    "lab/promises/cells.py",
    "lab/promises/loads.py",
    "policies",
    "runtime",
    "simulation",
    "workloads",
)
"""The code that a run depends on, in the folder of the package."""


class KeptRuns:
    """The runs of one state of the code, by what was asked of them."""

    def __init__(self, folder: Path | None = None) -> None:
        self.path = (folder or cache_directory() / "lab") / f"promises-{fingerprint(DECISIVE, FORMAT_VERSION)}.jsonl"
        self._runs = dict(self._read())

    def get(self, asked: Mapping[str, JSON]) -> list[Run] | None:
        return self._runs.get(_key(asked))

    def add(self, asked: Mapping[str, JSON], runs: Sequence[Run]) -> None:
        self._runs[_key(asked)] = list(runs)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps({"version": FORMAT_VERSION, "asked": dict(asked), "runs": [asdict(one) for one in runs]})
        with self.path.open("a", encoding="utf-8") as file:
            # Begins a line of its own also after one that was cut off.
            file.write(f"\n{line}\n" if self._is_cut_off() else f"{line}\n")

    def _is_cut_off(self) -> bool:
        return self.path.stat().st_size > 0 and not self.path.read_bytes().endswith(b"\n")

    def _read(self) -> Iterator[tuple[str, list[Run]]]:
        if not self.path.exists():
            return
        for line in self.path.read_text(encoding="utf-8").splitlines():
            try:
                saved = json.loads(line)
                yield _key(saved["asked"]), [Run(**one) for one in saved["runs"]]
            except (ValueError, KeyError, TypeError):
                continue


def _key(asked: Mapping[str, JSON]) -> str:
    return json.dumps(asked, sort_keys=True)
