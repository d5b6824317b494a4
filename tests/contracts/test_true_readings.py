"""On true readings the gate changes no decision, however fast the load changes: nothing is followed any later."""

from __future__ import annotations

from typing import Literal

import pytest

from headgate.core.objective import parse_objective
from headgate.core.reading_gate import GateResult, ReadingGate
from headgate.core.types import Decision, Event, Observation
from headgate.journal.memory import MemoryJournal
from headgate.policies import policy_names
from headgate.runtime import loop
from headgate.runtime.simulate import simulate
from headgate.workloads.contract import Workload
from headgate.workloads.steps import Steps

LOADS = {
    "tenfold at once": Steps([0.0, 600.0, 1200.0, 1800.0], [8.0, 80.0, 8.0]),
    "tenfold within a minute": Steps(
        [0.0, 600.0, 615.0, 630.0, 645.0, 1200.0, 1215.0, 1230.0, 1245.0, 1800.0],
        [8.0, 14.0, 25.0, 45.0, 80.0, 45.0, 25.0, 14.0, 8.0],
    ),
    "a hundredfold": Steps([0.0, 600.0, 660.0, 1200.0], [1.2, 120.0, 1.2]),
}
MODELS: tuple[tuple[Literal["queue", "micro-batch"], str], ...] = (
    ("queue", "spark"),
    ("micro-batch", "spark"),
    ("micro-batch", "kafka"),
)
QUICK = {("reactive", "queue"), ("ds2", "queue"), ("reactive", "micro-batch")}
"""Policies and models that are tried with each run of the fast tests."""
SLOW = [pytest.mark.soak, pytest.mark.timeout(1800)]


class OpenGate(ReadingGate):
    """Lets every reading pass unseen."""

    def check(self, seen: Observation) -> GateResult:
        return GateResult(seen)


def run(policy: str, load: Workload, model: Literal["queue", "micro-batch"], readings: str) -> list[Decision | Event]:
    """Return all decisions, holds too, and all events of the gate."""
    journal = MemoryJournal()
    simulate(
        policy,
        load,
        objective=parse_objective("latency p95 < 10s").within(1, 16),
        service_rate_per_s=10.0,
        model=model,
        readings=readings,
        start=2,
        startup_s=20.0,
        interval_s=5.0,
        seconds=1800.0,
        journal=journal,
    )
    return [*journal.decisions(), *(event for event in journal.events() if "reading" in event.kind)]


@pytest.mark.parametrize(
    ("policy", "model", "readings"),
    [
        pytest.param(name, model, readings, marks=[] if (name, model) in QUICK else SLOW)
        for name in policy_names()
        for model, readings in MODELS
    ],
)
def test_loads_that_jump_are_followed_as_without_the_gate(
    policy: str, model: Literal["queue", "micro-batch"], readings: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, load in LOADS.items():
        with monkeypatch.context() as patched:
            patched.setattr(loop, "ReadingGate", OpenGate)
            expected = run(policy, load, model, readings)
        assert run(policy, load, model, readings) == expected, name
