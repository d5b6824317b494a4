"""Results of finished runs on disk, so that a lab that takes long continues where it was interrupted.

There is one file per state of the code in the user's cache directory; results of other code are never read. Each line
is a run, as a request and its result; a line that a crash cut off is ignored and its run repeated.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic

from headgate.core.errors import cause_of
from headgate.core.types import JSON
from headgate.lab.processes import Result, Task, in_processes
from headgate.lab.run_folder import fingerprint
from headgate.lab.scenario import Progress, mark_begin
from headgate.local.jars import cache_directory

logger = logging.getLogger("headgate")
FORMAT_VERSION = 2


@dataclass
class RunCache(Generic[Task, Result]):
    """Runs of ``work``, cached under ``NAME-CODE.jsonl``; ``request`` tells tasks apart, also between processes."""

    name: str
    work: Callable[[Task], Result]
    request: Callable[[Task], Mapping[str, JSON]]
    to_json: Callable[[Result], JSON]
    from_json: Callable[[JSON], Result]
    folder: Path | None = None
    path: Path = field(init=False)
    _results: dict[str, JSON] = field(init=False)
    _is_unwritable: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        code = fingerprint(self.work.__module__, FORMAT_VERSION)
        self.path = (self.folder or cache_directory() / "lab") / f"{self.name}-{code}.jsonl"
        self._results = dict(self._read())

    def get(self, task: Task) -> Result | None:
        result = self._results.get(_key(self.request(task)))
        return None if result is None else self.from_json(result)

    def add(self, task: Task, result: Result) -> None:
        request, plain = self.request(task), self.to_json(result)
        self._results[_key(request)] = plain
        if self._is_unwritable:
            return
        try:
            self._append(json.dumps({"version": FORMAT_VERSION, "request": dict(request), "result": plain}))
        except OSError as error:
            # Only the next lab would have needed the file.
            self._is_unwritable = True
            logger.warning("runs are not cached: %s cannot be written: %s", self.path, cause_of(error))

    def run(self, tasks: Sequence[Task], progress: Progress) -> dict[Task, Result]:
        """The results of all tasks, in their order; those that are not cached run on all cores."""
        done = {task: result for task in tasks if (result := self.get(task)) is not None}
        mark_begin(progress, len(done) / len(tasks))
        missing = [task for task in tasks if task not in done]
        for number, result in in_processes(self.work, missing):
            done[missing[number]] = result
            self.add(missing[number], result)
            progress(len(done) / len(tasks))
        return {task: done[task] for task in tasks}

    def _append(self, line: str) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            # After a line that was cut off, start a new one.
            file.write(f"\n{line}\n" if self._is_cut_off() else f"{line}\n")

    def _is_cut_off(self) -> bool:
        return self.path.stat().st_size > 0 and not self.path.read_bytes().endswith(b"\n")

    def _read(self) -> Iterator[tuple[str, JSON]]:
        if not self.path.is_file():
            return
        for line in self.path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                cached = json.loads(line)
                yield _key(cached["request"]), cached["result"]
            except (ValueError, KeyError, TypeError):
                continue


def _key(request: Mapping[str, JSON]) -> str:
    return json.dumps(request, sort_keys=True)
