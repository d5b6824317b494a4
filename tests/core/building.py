"""Short ways to the values that the tests of core and policies are about. The operator is always ``job``."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.core.objective import Objective, parse_objective
from headgate.core.topology import Topology
from headgate.core.types import Decision, Instances, Observation, Sample, Target, Verdict
from headgate.core.window import History
from headgate.policies import Context, make_policy
from headgate.policies.frame.base import AnyPolicy

JOB = Topology.single()


def sizes(planned: int, ready: int | None = None) -> Instances:
    return Instances(planned, planned, planned if ready is None else ready)


def observation(at_s: float, planned: int = 2, ready: int | None = None, sample: Sample | None = None) -> Observation:
    return Observation(at_s, {} if sample is None else {"job": sample}, {"job": sizes(planned, ready)})


def history(readings: Iterable[Sample], planned: int = 2, ready: int | None = None) -> History:
    """A history that was observed whenever a reading was made, always at one size."""
    made = History(JOB)
    for reading in readings:
        made.observe(observation(reading.at_s, planned, ready, reading))
    return made


def decision(at_s: float, current: int, target: int) -> Decision:
    return Decision(at_s, "test", {"job": Verdict("job", current, target, target, "test", "a test")})


def policy(name: str, objective: str | Objective = "latency < 10s", /, **settings: object) -> AnyPolicy:
    goal = parse_objective(objective) if isinstance(objective, str) else objective
    return make_policy(name, Context(goal, JOB), settings)


def propose(chosen: AnyPolicy, seen: History, now: float | None = None) -> Target:
    """What a policy wants for the job, by default at the time of the newest observation."""
    return chosen.decide(seen.observations[-1].at_s if now is None else now, seen).targets["job"]
