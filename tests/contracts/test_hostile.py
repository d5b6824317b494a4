"""No wrong reading shrinks a job that needs its size; the checks find a policy that is fooled."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from headgate.core.types import JSON, Instances, Instant, Sample, Target
from headgate.core.window import Window
from headgate.policies import policy_names
from headgate.policies.frame.base import OperatorPolicy, hold
from headgate.policies.frame.settings import Settings
from headgate.runtime.loop import FALLBACK_AFTER_TICKS
from headgate.testing import ContractViolation, check_hostile_readings
from headgate.testing.hostile import HOSTILE_LOADS, HOSTILE_STREAMS, HostileLoad, hostile_outcome
from headgate.testing.policies import factory_of

STREAMS = {stream.name: stream for stream in HOSTILE_STREAMS}
QUICK = HostileLoad("quick", "constant:65", hostile_s=400.0, end_s=700.0)
MAIN = ("autopilot", "reactive", "hpa", "ds2", "flink-autoscaler", "rules")
"""Policies that must not be fooled by any single sample."""
LEARNING = ("q-learning", "value-iteration", "rl-centralized", "rl-decentralized")
"""Policies that learn by trial what to do: what they do next depends on what they did before."""
CHOSEN = [
    *("once: done x1000", "once: at_s 300 s ahead", "once: at_s -1e300", "once: busy_s -1e-6", "once: age_s nan"),
    *("repeated: latency_s nan", "alternating: done x10", "out of order", "reset: all counters"),
]


@pytest.mark.parametrize("name", ["reactive", "hpa", "ds2"])
def test_wrong_readings_do_not_shrink_a_job(name: str) -> None:
    check_hostile_readings(name, [STREAMS[stream] for stream in CHOSEN], [QUICK])


def test_wrong_readings_make_a_policy_that_learns_no_worse_than_holding() -> None:
    check_hostile_readings(
        "q-learning", [STREAMS[stream] for stream in (*CHOSEN, "frozen", "old")], [QUICK], learns=True
    )


class Fooled(OperatorPolicy[Settings]):
    """Goes to one instance, or fails, once it has seen a reading without a latency."""

    name = "fooled"
    summary = "For tests."
    Settings = Settings
    fails = False
    is_fooled = False

    def size(self, now: Instant, window: Window, operator: str, instances: Instances, sample: Sample) -> Target:
        if sample.latency_s is None and self.fails:
            raise ValueError("no latency")
        self.is_fooled |= sample.latency_s is None
        return Target(1, "fooled", "it believes it") if self.is_fooled else hold(instances, "steady", "all is well")

    def _state(self) -> dict[str, JSON]:
        return {"is_fooled": self.is_fooled}

    def _restore_state(self, state: Mapping[str, JSON]) -> None:
        self.is_fooled = bool(state["is_fooled"])


class Failing(Fooled):
    """Fails for as long as the latency is missing."""

    name = "failing"
    fails = True


@pytest.mark.parametrize(
    ("policy", "stream", "message"),
    [
        (Fooled, "once: latency_s nan", "scaled in .* times below what the load needs"),
        (Fooled, "repeated: latency_s nan", "stayed below what the load needs"),
        (Failing, "repeated: latency_s nan", "failed at 12 ticks in a row; fewer than 3 are allowed"),
    ],
)
def test_a_policy_that_is_fooled_is_found(policy: type[Fooled], stream: str, message: str) -> None:
    with pytest.raises(ContractViolation, match=message):
        check_hostile_readings(policy, [STREAMS[stream]], [QUICK])


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("load", HOSTILE_LOADS, ids=lambda load: load.name)
@pytest.mark.parametrize("name", MAIN)
def test_no_single_sample_shrinks_a_job_under_a_policy_for_production(name: str, load: HostileLoad) -> None:
    check_hostile_readings(name, HOSTILE_STREAMS, [load])


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("load", HOSTILE_LOADS, ids=lambda load: load.name)
@pytest.mark.parametrize("name", LEARNING)
def test_no_stream_makes_a_policy_that_learns_worse_than_holding(name: str, load: HostileLoad) -> None:
    check_hostile_readings(name, HOSTILE_STREAMS, [load], learns=True)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", policy_names())
def test_no_stream_has_a_policy_fail_for_long(name: str) -> None:
    factory = factory_of(name)
    lasting = [stream for stream in HOSTILE_STREAMS if not stream.is_single]
    failed = {stream.name: hostile_outcome(factory, stream, HOSTILE_LOADS[0]).failed_ticks for stream in lasting}
    assert max(failed.values()) < FALLBACK_AFTER_TICKS, failed
