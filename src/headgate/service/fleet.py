"""All jobs of a service by name."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from headgate.core.errors import UnknownNameError
from headgate.service.jobs import Job


class Fleet:
    """Safe to use from any thread."""

    def __init__(self) -> None:
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
        """A job by its name; one that is not there is an ``UnknownNameError``."""
        found = self._jobs.get(name)
        if found is None:
            raise UnknownNameError("job", name, self._jobs)
        return found
