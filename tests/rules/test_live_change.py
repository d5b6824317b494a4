"""Rules that are changed while the job runs: a valid change from the next decision on, an invalid one refused."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from headgate.core.errors import InputError
from headgate.core.objective import parse_objective
from headgate.core.types import Event
from headgate.journal.memory import MemoryJournal
from headgate.rules import Rules, policy, rule
from headgate.rules.rules_policy import RulesPolicy
from headgate.runtime.assembly import LoopSpec, open_loop
from headgate.runtime.autoscaler import Autoscaler
from headgate.simulation.engine import SimulatedEngine
from headgate.simulation.queue import QueueNetwork
from headgate.workloads import parse_workload

RULES = """\
rules:
  - name: queue too long
    scale_out: job
    by: {by}
    never_above: 9
    when: {{metric: backlog, above: {above}, for_at_least: {time}}}
"""


class Running:
    """A simulated job under rules from a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.write(by=1, above=100_000, time="30s")
        self.engine = SimulatedEngine(QueueNetwork(parse_workload("constant:10"), 5.0))
        self.journal = MemoryJournal()
        objective, rules = parse_objective("latency p95 < 10s"), Rules.from_file(path)
        spec = LoopSpec(objective=objective, policy=rules, journal=self.journal)
        self.assembled = open_loop(spec, self.engine, self.engine, engine_name="simulated")
        self.loop = self.assembled.loop

    def write(self, **values: object) -> None:
        self.write_text(RULES.format(**values))

    def write_text(self, text: str) -> None:
        # Editors write a new file and rename it, so that half a file is never read.
        edited = self.path.with_suffix(".new")
        edited.write_text(text)
        edited.replace(self.path)

    def run(self, until_s: float) -> list[int]:
        """The sizes from here on."""
        sizes = []
        while self.engine.now() < until_s:
            self.engine.advance(self.engine.now() + 5.0)
            decision = self.loop.tick()
            assert decision is not None
            sizes.append(decision.targets["job"])
        return sizes

    def events(self, kind: str) -> list[Event]:
        return [event for event in self.journal.events() if event.kind == kind]

    @property
    def rules(self) -> RulesPolicy:
        assert isinstance(self.loop.policy, RulesPolicy)
        return self.loop.policy


@pytest.fixture
def running(tmp_path: Path) -> Running:
    return Running(tmp_path / "rules.yaml")


def test_a_valid_change_takes_effect_at_the_next_decision_with_its_history(running: Running) -> None:
    assert set(running.run(200.0)) == {1}
    running.write(by=3, above=300, time="1m")
    # More than 300 have waited since 60 s: known from the history, no new period is needed.
    assert running.run(205.0) == [4]
    (event,) = running.events("policy-changed")
    assert event.at_s == 205.0
    assert event.detail == f"{running.path}: changed 'queue too long'"


def test_an_invalid_change_is_refused_with_its_errors_and_the_old_rules_stay(
    running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, "headgate")
    running.run(100.0)
    before = running.rules
    running.write(by="many", above="300 %", time="1m")
    running.run(200.0)
    assert running.rules is before
    (event,) = running.events("policy-refused")
    assert event.at_s == 105.0
    assert f"{running.path}:4:9: by: " in event.detail
    assert f"{running.path}:6:36: value 300 % does not fit backlog" in event.detail
    assert event.detail.endswith("The rules in force stay.")
    # And what is then put right is taken up.
    running.write(by=3, above=300, time="1m")
    assert running.run(205.0) == [4]


def test_rules_for_an_operator_that_is_not_there_are_refused_with_their_line(running: Running) -> None:
    running.write_text(RULES.format(by=1, above=1, time="1s").replace("scale_out: job", "scale_out: jub"))
    running.run(20.0)
    (event,) = running.events("policy-refused")
    assert ":3:16: scale_out: unknown operator 'jub', did you mean 'job'?" in event.detail


def test_a_file_that_is_gone_is_refused_once_and_taken_up_when_it_is_back(running: Running) -> None:
    running.path.unlink()
    running.run(50.0)
    (event,) = running.events("policy-refused")
    assert "cannot be read: no such file" in event.detail
    running.write(by=3, above=1, time="0s")
    assert 4 in running.run(60.0)


def test_a_file_that_only_looks_different_changes_nothing(running: Running) -> None:
    running.run(20.0)
    before = running.rules
    running.write_text("# a comment\n" + running.path.read_text())
    running.run(40.0)
    assert running.rules is before
    assert not running.events("policy-changed")


def test_a_longer_time_makes_the_history_keep_more(running: Running) -> None:
    running.write(by=1, above=1, time="10h")
    running.run(10.0)
    assert running.loop.history.retention_s >= 36_000


def test_constraints_change_with_their_file(running: Running) -> None:
    running.run(20.0)
    running.write_text(running.path.read_text() + "constraints: [{name: large, at_least: 4}]\n")
    assert running.run(25.0) == [4]
    (event,) = running.events("policy-changed")
    assert event.detail.endswith(": new 'large'")


def test_a_policy_may_be_handed_over_by_a_call(running: Running) -> None:
    autoscaler = Autoscaler(running.loop, 5.0, running.assembled)
    running.run(100.0)
    hungry = rule("hungry").scale_out("job").by(2).never_above(3).when("backlog").above(1).for_at_least(seconds=0)
    autoscaler.change_policy(Rules(policy(hungry)))
    assert running.run(105.0) == [3]
    autoscaler.change_policy("static", {"instances": 5})
    running.run(300.0)
    assert running.loop.policy.name == "static"
    assert [event.kind for event in running.events("policy-changed")] == ["policy-changed"] * 2


def test_a_policy_that_cannot_be_used_is_refused_by_the_call(running: Running) -> None:
    autoscaler = Autoscaler(running.loop, 5.0, running.assembled)
    lost = rule("lost").scale_in("nowhere").by(1).when("backlog").below(1).for_at_least(seconds=0)
    unmeasured = rule("own").scale_in("job").by(1).when("fraud").below(1).for_at_least(seconds=0)
    for unusable, message in (
        (Rules(policy(lost)), "unknown operator in rule 'lost' 'nowhere'"),
        (Rules(policy(unmeasured, metrics=["fraud"])), "unknown metric for this engine 'fraud'"),
    ):
        with pytest.raises(InputError, match=message):
            autoscaler.change_policy(unusable)
    running.run(10.0)
    assert running.loop.policy.name == "rules"
    assert len(running.events("policy-refused")) == 2
    with pytest.raises(InputError, match="without a switch of policy"):
        Autoscaler(running.loop, 5.0).change_policy("static")


def test_the_original_size_outlives_a_change(running: Running) -> None:
    running.run(20.0)
    hungry = rule("hungry").scale_out("job").by(9).never_above("x2").when("backlog").above(1).for_at_least(seconds=0)
    running.assembled.change_policy(Rules(policy(hungry)))
    assert running.run(25.0) == [2]
    running.run(200.0)
    running.assembled.change_policy(Rules(policy(hungry)))
    assert set(running.run(400.0)) == {2}
