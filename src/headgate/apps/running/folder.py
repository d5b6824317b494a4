"""The folder of a run: its options and beginning, the checkpoint, results, accounts, journal and report.

A run that is started again with the same folder continues; the options that determine its results must be the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from headgate.apps.contract import write_whole
from headgate.apps.running.sources import Offset
from headgate.core.errors import InputError
from headgate.core.types import JSON

FORMAT_VERSION = 1


@dataclass(frozen=True)
class Beginning:
    """The beginning of a run, the same for all its starts."""

    started_s: float
    """The start of its load in epoch seconds."""
    start_ms: int
    """The event time of the start."""
    topic: str | None = None
    begin: Offset | None = None
    """The first offsets of the topic."""


@dataclass(frozen=True)
class RunFolder:
    """All files of a run, at a path that exists on all machines of the job."""

    path: Path
    checkpoint: Path

    @classmethod
    def at(cls, path: Path, checkpoint: Path | None = None) -> RunFolder:
        path = path.absolute()
        return cls(path, path / "checkpoint" if checkpoint is None else checkpoint.absolute())

    @property
    def results(self) -> Path:
        return self.path / "results"

    @property
    def malformed(self) -> Path:
        return self.path / "malformed"

    @property
    def learned(self) -> Path:
        return self.path / "learned"

    @property
    def accounts(self) -> Path:
        return self.path / "accounts.jsonl"

    @property
    def journal(self) -> Path:
        return self.path / "journal.db"

    @property
    def report(self) -> Path:
        return self.path / "report.html"

    @property
    def driver_log(self) -> Path:
        """The log of Spark's driver."""
        return self.path / "driver.log"

    @property
    def _run(self) -> Path:
        return self.path / "run.json"

    def check(self, identity: Mapping[str, JSON]) -> Beginning | None:
        """Return the beginning of the run in this folder, or ``None``; refuse a folder that holds something else.

        ``identity`` has the options that determine the results.
        """
        before = self.begun(identity)
        if before is None:
            for place, what in ((self.path, "run"), (self.checkpoint, "checkpoint of a run")):
                if not _is_new(place):
                    raise InputError(f"{place} holds something that is no {what}; name a folder that is new or empty.")
        return before

    def begin(self, identity: Mapping[str, JSON], beginning: Callable[[], Beginning]) -> Beginning:
        """Return the beginning of the run in this folder; a new run begins now."""
        found = self.begun(identity)
        if found is None:
            found = beginning()
            content = {"version": FORMAT_VERSION, "asked": dict(identity), "beginning": asdict(found)}
            write_whole(self._run, json.dumps(content, indent=2) + "\n")
        return found

    def begun(self, identity: Mapping[str, JSON]) -> Beginning | None:
        """Return the beginning of the run in this folder, or ``None``."""
        if not self._run.exists():
            return None
        try:
            content = json.loads(self._run.read_text(encoding="utf-8"))
            before, beginning = content["asked"], Beginning(**content["beginning"])
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise InputError(f"{self._run} does not tell of a run: {error}.") from error
        for name, value in identity.items():
            if before.get(name) != value:
                raise InputError(
                    f"{self.path} holds a run with {name} {_value_text(before.get(name))}, and {_value_text(value)} is "
                    "requested; give the same to continue, or another folder to start over."
                )
        return beginning


def _is_new(place: Path) -> bool:
    """Whether a folder holds nothing but empty folders, and logs of a failed start."""
    files = (entry for entry in place.rglob("*") if not entry.is_dir() and entry.suffix != ".log")
    return not place.exists() or (place.is_dir() and next(files, None) is None)


def _value_text(value: JSON) -> str:
    return "nothing" if value is None else repr(value)
