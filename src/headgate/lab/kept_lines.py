"""What runs came to, kept on disk as they end: a lab that takes long and was interrupted goes on.

One file per state of the code, in the user's cache; a run made by other code is never taken for one made by this. Each
line is a run with what was asked of it; a line that was cut off by a crash is made anew.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path

from headgate.core.errors import cause_of
from headgate.core.types import JSON
from headgate.local.jars import cache_directory

logger = logging.getLogger("headgate")


class KeptLines:
    """What came of one state of the code, by what was asked, in a file ``NAME-STATE.jsonl``."""

    def __init__(self, name: str, state: str, format_version: int, folder: Path | None = None) -> None:
        self.path = (folder or cache_directory() / "lab") / f"{name}-{state}.jsonl"
        self._version = format_version
        self._found = dict(self._read())
        self._is_unwritable = False

    def get(self, asked: Mapping[str, JSON]) -> JSON | None:
        return self._found.get(_key(asked))

    def add(self, asked: Mapping[str, JSON], runs: JSON) -> None:
        self._found[_key(asked)] = runs
        if self._is_unwritable:
            return
        try:
            self._append(json.dumps({"version": self._version, "asked": dict(asked), "runs": runs}))
        except OSError as error:
            # They cost time and no figure: those of this lab are known without the file.
            self._is_unwritable = True
            logger.warning("runs are not kept for another time: %s cannot be written: %s", self.path, cause_of(error))

    def _append(self, line: str) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            # Begins a line of its own also after one that was cut off.
            file.write(f"\n{line}\n" if self._is_cut_off() else f"{line}\n")

    def _is_cut_off(self) -> bool:
        return self.path.stat().st_size > 0 and not self.path.read_bytes().endswith(b"\n")

    def _read(self) -> Iterator[tuple[str, JSON]]:
        if not self.path.is_file():
            return
        for line in self.path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                saved = json.loads(line)
                yield _key(saved["asked"]), saved["runs"]
            except (ValueError, KeyError, TypeError):
                continue


def _key(asked: Mapping[str, JSON]) -> str:
    return json.dumps(asked, sort_keys=True)
