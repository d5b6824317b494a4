"""All jobs of a service by name."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from headgate.core.errors import NotLeadingError, UnknownNameError
from headgate.service.jobs import Job


class Fleet:
    """Safe to use from any thread. Of a job that is not there ``is_coming`` says whether it will be."""

    def __init__(self, is_coming: Callable[[str], bool] = lambda name: False) -> None:
        self._is_coming = is_coming
        self._lock = threading.Lock()
        self._jobs: dict[str, Job] = {}

    def __iter__(self) -> Iterator[Job]:
        return iter(tuple(self._jobs.values()))

    def __len__(self) -> int:
        return len(self._jobs)

    def add(self, job: Job) -> None:
        with self._lock:
            self._jobs = {**self._jobs, job.name: job}

    def remove(self, name: str) -> Job | None:
        with self._lock:
            removed = self._jobs.get(name)
            self._jobs = {known: job for known, job in self._jobs.items() if known != name}
            return removed

    def job(self, name: str) -> Job:
        """A job by its name; without it an ``UnknownNameError``, or a ``NotLeadingError`` if it will be there."""
        found = self._jobs.get(name)
        if found is None and self._is_coming(name):
            raise NotLeadingError(f"job {name!r} is being taken over from another service; ask again in a moment.")
        if found is None:
            raise UnknownNameError("job", name, self._jobs)
        return found
