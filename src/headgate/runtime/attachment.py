"""Attaches an autoscaler to a program that knows nothing of it, and follows the edits of its job file."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from headgate.core.errors import HeadgateError, InputError
from headgate.core.types import JSON, Severity
from headgate.runtime.assembly import signature
from headgate.runtime.autoscaler import Autoscaler, autoscale
from headgate.runtime.interrupts import raise_if_interrupted
from headgate.runtime.job_file import JobFile, read_job_file

logger = logging.getLogger("headgate")

CHECKED_EVERY_S = 2.0
AT_THE_START = ("script", "arguments", "master", "conf")
"""What a running program cannot change."""
AT_THE_START_OPTIONS = ("job", "journal", "metrics_port")

Open = Callable[[Any, JobFile, Mapping[str, JSON] | None], Autoscaler]


def open_on_spark(stream: Any, job: JobFile, state: Mapping[str, JSON] | None) -> Autoscaler:
    """Scale a Spark job, with what its policy has learned before, if anything."""
    options: dict[str, Any] = {"state": state, **job.options}
    return autoscale(stream, job.objective, job.policy, **options)


class Attachment:
    """Attaches an autoscaler to the first stream of each application of a program.

    An edit of the job file takes effect while the program runs: the autoscaler is opened anew on the same stream, and
    continues with what was learned, at the size that the job has. With a journal it also continues error budgets.

    Args:
        path: The job file.
        job: What it says now.
        say: Prints a message for the user.
        open_autoscaler: Opens an autoscaler on a stream.
    """

    def __init__(
        self, path: Path, job: JobFile, say: Callable[[str], None], open_autoscaler: Open = open_on_spark
    ) -> None:
        self._path = path
        self._job = job
        self._say = say
        self._open = open_autoscaler
        self._running: Autoscaler | None = None
        self._stream: Any = None
        self._signature = signature(path)
        self._lock = threading.RLock()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def __call__(self, stream: Any) -> None:
        """Scale the application of a stream that has started, unless it is scaled already."""
        with self._lock:
            if self._running is not None and self._running.is_alive:
                return
            self._stream = stream
            if not self._start():
                return
            running = self._running
            assert running is not None
            self._say(f"headgate: scaling {running.loop.job} to {self._job.objective}")
            if self._thread is None:
                self._thread = threading.Thread(target=self._follow, name="headgate-job-file", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """Stop scaling; the job keeps its size."""
        self._stopped.set()
        with self._lock:
            if self._running is not None:
                self._running.stop()

    def check(self) -> None:
        """Put an edit of the job file in force, or refuse it in one sentence."""
        with self._lock:
            found = signature(self._path)
            # An editor, or Kubernetes with a ConfigMap, removes the file for a moment while it writes the new one.
            if found is None or found == self._signature or self._stopped.is_set():
                return
            self._signature = found
            try:
                wanted = read_job_file(self._path)
            except InputError as error:
                self._refuse(str(error))
                return
            wanted, postponed = self._in_force(wanted)
            changed = list(_changed(self._job, wanted))
            if postponed:
                self._report(f"{', '.join(postponed)} of {self._path.name} take effect when the program starts again")
            if changed:
                self._put_in_force(wanted, f"{self._path.name} has changed: {'; '.join(changed)}")

    def _in_force(self, wanted: JobFile) -> tuple[JobFile, list[str]]:
        """Return what of a file can apply now, and the names of what cannot."""
        job = self._job
        options = {name: job.options.get(name) for name in AT_THE_START_OPTIONS}
        postponed = [name for name in AT_THE_START if getattr(wanted, name) != getattr(job, name)]
        postponed += [name for name, value in options.items() if wanted.options.get(name) != value]
        now = {name: value for name, value in {**wanted.options, **options}.items() if value is not None}
        unchanged = {name: getattr(job, name) for name in AT_THE_START}
        return replace(wanted, options=now, **unchanged), postponed

    def _put_in_force(self, wanted: JobFile, text: str) -> None:
        before, running = self._job, self._running
        if running is None or not running.is_alive:
            self._job = wanted  # The next stream is scaled by it.
            return
        running.stop()
        learned = running.loop.policy.snapshot()
        self._job = wanted
        if not self._start(learned if wanted.policy == before.policy else None, "the edit cannot be used"):
            self._job = before
            if not self._start(learned):
                return
            text = f"{self._path.name} has changed, but cannot be used: it is scaled as before"
        self._report(text)

    def _start(self, learned: Mapping[str, JSON] | None = None, why_not: str = "the job runs unscaled") -> bool:
        try:
            self._running = self._open(self._stream, self._job, learned)
        except HeadgateError as error:  # The job must not depend on the autoscaler.
            self._say(f"headgate: {why_not}: {error}")
            return False
        return True

    def _refuse(self, error: str) -> None:
        self._say(f"headgate: the edit of {self._path.name} is refused, and what was in force stays: {error}")
        if self._running is not None:
            self._running.loop.note("job-file-refused", error, severity=Severity.WARNING)

    def _report(self, text: str) -> None:
        self._say(f"headgate: {text}")
        if self._running is not None:
            self._running.loop.note("job-file-changed", text)

    def _follow(self) -> None:
        while not self._stopped.wait(CHECKED_EVERY_S):
            try:
                self.check()
            except Exception as error:
                raise_if_interrupted(error)
                logger.exception("the job file could not be followed; what was in force stays")


def _changed(before: JobFile, after: JobFile) -> Iterator[str]:
    """Describe what differs between two job files."""
    old, new = before.objective, after.objective
    if str(old) != str(new):
        yield f"objective {new} instead of {old}"
    bounds = [(job.min_instances, job.max_instances) for job in (old, new)]
    if bounds[0] != bounds[1]:
        yield f"executors {list(bounds[1])} instead of {list(bounds[0])}"
    if before.policy != after.policy:
        yield f"policy {after.policy if isinstance(after.policy, str) else 'rules'}"
    for name in sorted({*before.options, *after.options}):
        if before.options.get(name) != after.options.get(name):
            yield f"{name} {after.options.get(name, 'as by default')}"
