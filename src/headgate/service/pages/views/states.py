"""The states of a job and its operators, each as a word, a sign and a colour."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headgate.core.guards import is_capped
from headgate.core.objective import Objective
from headgate.core.types import Instances, Sample
from headgate.service.jobs import ServedJob
from headgate.service.store.changes import ChangeKind, JobChange


def objective_of(job: ServedJob) -> Objective:
    """Return the objective of the job's policy."""
    found = job.loop.policy.objective  # type: ignore[attr-defined]  # all policies of a service are made by name
    assert isinstance(found, Objective)
    return found


@dataclass(frozen=True, slots=True)
class Badge:
    kind: str
    """The class that gives it its colour."""
    sign: str
    """Distinguishes it without colours."""
    word: str
    more: str = ""


WAITING = Badge("waiting", "…", "waits for its agent", "no agent has reported yet")
LOST = Badge("lost", "?", "agent lost", "an agent does not report; its size is left unchanged")
LATE = Badge("late", "✕", "objective violated", "by the newest reading")
CAPPED = Badge("late", "⤒", "capped at the maximum", "the objective is violated, and no more instances are allowed")
GROWING = Badge("scaling", "▲", "scaling out", "more instances are planned than are ready")
SHRINKING = Badge("scaling", "▼", "scaling in", "fewer instances are planned than are ready")
STEADY = Badge("steady", "●", "steady")
RECOMMENDING = Badge("recommending", "◇", "recommends only", "what is decided is not carried out")
_GRAVITY = (STEADY, SHRINKING, GROWING, WAITING, LATE, CAPPED, LOST)
_WORRYING = frozenset({WAITING, LATE, CAPPED, LOST})


def operator_state(
    objective: Objective,
    operator: str,
    instances: Instances | None,
    sample: Sample | None,
    *,
    is_joined: bool,
    is_at_limit: bool = False,
) -> Badge:
    """Return the state of one operator."""
    if sample is None and not is_joined:
        return WAITING
    if not is_joined:
        return LOST
    if sample is not None and objective.slo_of(operator).violated_by(sample):
        return CAPPED if is_at_limit else LATE
    if instances is not None and instances.pending:
        return GROWING if instances.pending > 0 else SHRINKING
    return STEADY


def operator_states(job: ServedJob) -> dict[str, Badge]:
    """Return the state of each operator of a job."""
    decided = {} if job.decision is None else job.decision.verdicts
    seen, joined, objective = job.observation, job.engine.joined, objective_of(job)
    return {
        name: operator_state(
            objective,
            name,
            None if seen is None else seen.instances.get(name),
            None if seen is None else seen.samples.get(name),
            is_joined=name in joined,
            is_at_limit=name in decided and is_capped(decided[name]),
        )
        for name in job.operators
    }


def job_badges(states: Iterable[Badge], changes: Sequence[JobChange], *, recommends: bool) -> list[Badge]:
    """Return the worst state of a job's operators, and the overrides in force."""
    found = [max(states, key=_GRAVITY.index)]
    found += [badge for change in changes if (badge := _change_badge(change)) is not None]
    return [*found, RECOMMENDING] if recommends else found


def gravity(badges: Sequence[Badge]) -> int:
    """Return how urgently a job needs attention; 0: not at all."""
    return _GRAVITY.index(badges[0]) if badges[0] in _WORRYING else 0


def _change_badge(change: JobChange) -> Badge | None:
    if change.kind is ChangeKind.PAUSE:
        return Badge("paused", "❚❚", "paused", change.why)
    if change.kind is ChangeKind.SIZE:
        return Badge("forced", "⚑", "size forced", change.why)
    return None
