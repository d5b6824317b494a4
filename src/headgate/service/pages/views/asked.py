"""What is asked of a job at this moment: what its file says, and what was changed since."""

from __future__ import annotations

from headgate.core.objective import Objective
from headgate.service.jobs import Job


def objective_of(job: Job) -> Objective:
    """What its policy goes by."""
    found = job.loop.policy.objective  # type: ignore[attr-defined]  # all policies of a service are made by name
    assert isinstance(found, Objective)
    return found
