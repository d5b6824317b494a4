"""What a service that stands by keeps ready: all jobs, as if it had looked after them itself.

To read an hour of a job takes tens of milliseconds, too long to begin with it when a thousand jobs wait. So it is read
ahead, a few jobs at each look, and then only what is new. Who comes to lead catches up with what was written last, and
has everything: nobody can write any more who led before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from headgate.core.types import JSON, Instant
from headgate.journal.reader import AT_ONCE, Following
from headgate.runtime.recalling import Past, in_order
from headgate.service.config.model import JobSpec
from headgate.service.followed import FollowedJob
from headgate.service.store import Store

FOLLOW_EVERY_S = 1.0
"""Who knows all jobs asks so often what is new; whoever comes to lead has no more than that to catch up with."""
LOOK_S = 0.2
"""Reading ahead takes about so long at a time: who stands by must look at the lease in between."""


class WarmJobs:
    """The jobs of a store that others write, followed; to be used by one thread at a time."""

    def __init__(self, store: Store, now: Callable[[], Instant]) -> None:
        self._store = store
        self._now = now
        self._following: Following | None = None
        self._jobs: dict[str, FollowedJob] = {}
        self._is_warm = False
        self._looked_s = float("-inf")

    @property
    def is_warm(self) -> bool:
        """Whether all jobs are followed."""
        return self._is_warm

    @property
    def is_due(self) -> bool:
        """Whether it is time to look again."""
        return not self._is_warm or self._now() - self._looked_s >= FOLLOW_EVERY_S

    def look(self, specs: Sequence[JobSpec]) -> None:
        """Take in what is new, and read ahead some of the jobs that are not followed yet."""
        self._is_warm, self._looked_s = False, self._now()
        until_s = time.monotonic() + LOOK_S
        if self._following is None:
            # First, so that nothing is missed that is written while a job is read.
            self._following = self._store.following()
        while is_behind := self._take_news(self._following) >= AT_ONCE:
            if time.monotonic() >= until_s:
                break
        named = {spec.name: spec for spec in specs}
        self._jobs = {name: job for name, job in self._jobs.items() if named.get(name) == job.spec}
        journal = self._following.reader
        for spec in specs:
            if spec.name not in self._jobs:
                self._jobs[spec.name] = FollowedJob(spec, journal, self._now())
                # After one at least: a machine that is slow gets there as well.
                if time.monotonic() >= until_s:
                    break
        self._is_warm = len(self._jobs) == len(named) and not is_behind

    def catch_up(self) -> None:
        """Take in all that is left to be, as whoever has come to lead: nothing is written beside it any more."""
        while self._following is not None and self._take_news(self._following):
            pass

    def _take_news(self, following: Following) -> int:
        """Gives how much there was."""
        news = following.news()
        for one in sorted(news, key=lambda found: in_order(found.entry)):
            if (job := self._jobs.get(one.run.job)) is not None:
                job.take(one)
        return len(news)

    def states(self, names: Iterable[str]) -> Mapping[str, Mapping[str, JSON]]:
        """What some jobs have learned, read at once."""
        keys = [key for name in names if (job := self._jobs.get(name)) is not None for key in job.keys]
        return self._following.reader.load_states(keys) if self._following is not None and keys else {}

    def take(self, spec: JobSpec, states: Mapping[str, Mapping[str, JSON]]) -> Past | None:
        """What a job's loop goes on with, which is not followed from then on; ``None`` where it has to be read."""
        job = self._jobs.pop(spec.name, None)
        return job.past(self._now(), states) if job is not None and job.spec == spec else None

    def forget(self) -> None:
        """Begin anew with the next look."""
        if self._following is not None:
            self._following.close()
        self._following, self._jobs, self._is_warm = None, {}, False
