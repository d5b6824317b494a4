"""What fixed sizes would have come to under the load of a job, for its page.

Simulating them takes seconds, so it is done on a thread of its own, for a job at most every ten minutes, and a page
shows the newest result there is.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass

from headgate.core.errors import HeadgateError
from headgate.core.objective import DAY_S
from headgate.core.types import Instant
from headgate.lab.what_if import fixed_sizes_of
from headgate.render.verdict import FixedSizes
from headgate.service.jobs import ServedJob
from headgate.service.pages.views.details import objective_of

logger = logging.getLogger("headgate")

RENEWED_S = 600.0
MOST_OBSERVATIONS = 20_000
"""Of a job that decides more often, less than a day is simulated."""
NOT_YET = FixedSizes(missing="they are being simulated.")


@dataclass(slots=True)
class _Entry:
    begun_s: Instant
    found: FixedSizes = NOT_YET
    thread: threading.Thread | None = None


class FixedSizesOfJobs:
    """Holds the newest result for each job whose page was requested."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self._lock = threading.Lock()

    def of(self, job: ServedJob) -> FixedSizes:
        """Return the newest result, and begin another one where it is old."""
        now_s = job.clock.now()
        with self._lock:
            entry = self._entries.get(job.name)
            if entry is not None and (now_s - entry.begun_s < RENEWED_S or _is_running(entry)):
                return entry.found
            entry = _Entry(now_s, NOT_YET if entry is None else entry.found)
            entry.thread = threading.Thread(
                target=self._simulate, args=(job, entry), name="headgate-fixed-sizes", daemon=True
            )
            self._entries[job.name] = entry
            entry.thread.start()
            return entry.found

    def wait(self) -> None:
        """Wait until nothing is being simulated."""
        with self._lock:
            threads = [entry.thread for entry in self._entries.values() if entry.thread is not None]
        for thread in threads:
            thread.join()

    def _simulate(self, job: ServedJob, entry: _Entry) -> None:
        since_s = entry.begun_s - min(DAY_S, MOST_OBSERVATIONS * job.spec.interval_s)
        try:
            runs = [number for number, _ in job.journal.runs(job.name)]
            observations = job.journal.observations(run=runs[-1], since_s=since_s) if runs else []
            decisions = job.journal.decisions(run=runs[-1], since_s=since_s) if runs else []
            objective = objective_of(job)
            if len(job.operators) == 1:
                only = job.spec.operators[0]
                objective = objective.within(only.min_instances, only.max_instances).priced(only.price)
            found = fixed_sizes_of(observations, decisions, objective, job.operators)
        except HeadgateError as error:
            found = FixedSizes(missing=str(error))
        except Exception:
            logger.exception("the fixed sizes of job %s could not be simulated", job.name)
            found = FixedSizes(missing="the simulation failed; the log says why.")
        with self._lock:
            entry.found = found


def _is_running(entry: _Entry) -> bool:
    return entry.thread is not None and entry.thread.is_alive()
