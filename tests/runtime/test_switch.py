"""Another policy for a job that runs: its own guards, what the user set, and what was learned before if it fits."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pytest

from headgate.core.errors import InputError
from headgate.core.objective import parse_objective
from headgate.journal.memory import MemoryJournal
from headgate.runtime.assembly import LoopSpec, open_loop
from headgate.simulation.engine import SimulatedEngine
from headgate.simulation.queue import QueueNetwork
from headgate.workloads import parse_workload

OBJECTIVE = parse_objective("latency p95 < 10s")


class Running:
    """A simulated job whose policy can be changed."""

    def __init__(self, policy: str, guards: Mapping[str, object] | None = None) -> None:
        self.engine = SimulatedEngine(QueueNetwork(parse_workload("constant:10"), 5.0))
        self.journal = MemoryJournal()
        spec = LoopSpec(objective=OBJECTIVE, policy=policy, guards=guards, journal=self.journal)
        self.assembled = open_loop(spec, self.engine, self.engine, engine_name="simulated")
        self.loop = self.assembled.loop

    def tick(self) -> None:
        self.engine.advance(self.engine.now() + 5.0)
        assert self.loop.tick() is not None

    def details(self, kind: str) -> list[str]:
        return [event.detail for event in self.journal.events() if event.kind == kind]


@pytest.mark.parametrize("guards", [{}, {"max_out": 2, "pending_timeout_s": "5m"}], ids=["no guards set", "guards set"])
@pytest.mark.parametrize(("first", "then"), [("spark-dra", "reactive"), ("reactive", "spark-dra")])
def test_a_changed_policy_has_the_guards_it_would_have_had_from_the_start(
    first: str, then: str, guards: dict[str, object]
) -> None:
    running, expected = Running(first, guards), Running(then, guards)
    assert running.loop.guards != expected.loop.guards
    running.assembled.change_policy(then)
    running.tick()
    assert running.loop.guards == expected.loop.guards


def test_a_policy_that_cannot_be_made_is_refused_and_the_one_in_force_stays() -> None:
    running = Running("reactive")
    before = running.loop.policy
    with pytest.raises(InputError, match="headroom"):
        running.assembled.change_policy("reactive", {"headroom": 7})
    running.tick()
    assert running.loop.policy is before
    assert "The policy in force stays." in running.details("policy-refused")[0]


def test_what_was_learned_with_settings_that_no_longer_fit_is_refused_and_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.ERROR, "headgate")
    running = Running("q-learning")
    for _ in range(30):
        running.tick()
    running.assembled.change_policy("q-learning", {"latency_granularity_s": 3})
    running.tick()
    (detail,) = running.details("state-refused")
    assert detail.endswith("Policy q-learning starts without it.")
