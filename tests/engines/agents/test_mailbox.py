"""Agents as an engine: the contract, and what happens when messages, agents or the controller are lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headgate.core.contracts import Engine
from headgate.core.errors import ControllerAwayError, EngineError, SupersededError, UnknownNameError
from headgate.core.topology import Sizing, Topology
from headgate.core.types import Answer, Decision, Instances, Outcome, Verdict
from headgate.engines.agents import AgentsEngine, Report
from headgate.engines.agents.mailbox import LOST_AFTER_S, MOST_FORMER
from headgate.testing.clock import FakeClock
from headgate.testing.engines import ENGINE_CHECKS, EngineFactory, Settle
from tests.engines.agents.inprocess import STARTUP_S, Cluster

CHAIN = Topology.of(("parse", "enrich"), ("enrich", "sum"))
CLUSTERS: dict[int, Cluster] = {}


def decision(targets: dict[str, int]) -> Decision:
    return Decision(0.0, "test", {name: Verdict(name, 1, size, size, "t", "asked") for name, size in targets.items()})


@pytest.mark.parametrize("skew_s", [0.0, 7200.0], ids=["same clock", "clock two hours ahead"])
@pytest.mark.parametrize("check", ENGINE_CHECKS, ids=lambda check: check.__name__)
def test_agents_together_are_an_engine(check: Callable[[EngineFactory, Settle], None], skew_s: float) -> None:
    def make() -> Engine:
        cluster = Cluster(CHAIN, skew_s)
        CLUSTERS[id(cluster.mailbox)] = cluster
        return cluster.mailbox

    def settle(engine: Engine) -> None:
        CLUSTERS[id(engine)].pass_time(20 * STARTUP_S)

    check(make, settle)


def test_each_operator_receives_its_own_size() -> None:
    cluster = Cluster(CHAIN)
    receipt = cluster.mailbox.apply(decision({"parse": 2, "enrich": 4, "sum": 1}))
    assert {name: answer.outcome for name, answer in receipt.answers.items()} == {
        "parse": Outcome.DELIVERED,
        "enrich": Outcome.DELIVERED,
        "sum": Outcome.UNCHANGED,
    }
    cluster.pass_time(60)
    assert {name: size.ready for name, size in cluster.sizes().items()} == {"parse": 2, "enrich": 4, "sum": 1}


def test_a_job_whose_agent_loses_the_controller_keeps_its_size_and_joins_again() -> None:
    cluster = Cluster(CHAIN)
    cluster.mailbox.apply(decision({"enrich": 3}))
    cluster.pass_time(60)
    cluster.links["enrich"].is_cut = True
    cluster.mailbox.apply(decision({"enrich": 1}))
    cluster.pass_time(60)
    away = cluster.agents["enrich"].is_away
    assert away
    assert cluster.jobs["enrich"].observe().instances["job"] == Instances(3, 3, 3)
    assert cluster.sizes()["enrich"].stale
    cluster.links["enrich"].is_cut = False
    cluster.pass_time(60)
    assert not cluster.agents["enrich"].is_away
    assert cluster.sizes()["enrich"] == Instances(1, 1, 1)
    assert [event.kind for event in cluster.mailbox.take_events()][-2:] == ["agent-lost", "agent-back"]


def test_an_agent_that_is_not_answered_asks_less_often() -> None:
    cluster = Cluster(CHAIN)
    agent = cluster.agents["parse"]
    cluster.links["parse"].is_cut = True
    waits = []
    for _ in range(5):
        cluster.pass_time(1)
        waits.append(agent.wait_s)
    assert waits == [2, 4, 8, 10, 10]


def test_a_batch_is_counted_once_though_its_message_or_the_answer_was_lost() -> None:
    cluster = Cluster(Topology.single("parse"), workload="constant:4")
    cluster.mailbox.observe()
    link, batches = cluster.links["parse"], []
    for step in range(30):
        link.is_cut, link.loses_answers = step % 7 == 2, step % 5 == 3
        cluster.pass_time(5)
        sample = cluster.mailbox.observe().samples.get("parse")
        batches += [] if sample is None else list(sample.batches)
    link.is_cut = link.loses_answers = False
    cluster.pass_time(1)
    sample = cluster.mailbox.observe().samples["parse"]
    batches += list(sample.batches)
    ended_s = [batch.ended_s for batch in batches]
    assert ended_s == sorted(set(ended_s))
    assert sum(batch.records for batch in batches) == pytest.approx(
        (sample.done or 0.0), abs=max(batch.records for batch in batches)
    )
    assert len(batches) >= 10


def test_a_driver_that_was_started_again_is_brought_to_the_size_that_was_decided() -> None:
    cluster = Cluster(CHAIN)
    cluster.mailbox.apply(decision({"enrich": 3}))
    cluster.pass_time(60)
    cluster.start("enrich")
    cluster.pass_time(60)
    assert cluster.sizes()["enrich"] == Instances(3, 3, 3)
    assert any("was started again" in event.detail for event in cluster.mailbox.take_events())


def test_counters_go_on_when_a_driver_was_started_again() -> None:
    cluster = Cluster(Topology.single("parse"), workload="constant:4")
    counted = []
    for step in range(8):
        cluster.pass_time(10)
        sample = cluster.mailbox.observe().samples["parse"]
        counted.append((sample.arrived or 0.0, sample.done or 0.0))
        if step == 3:
            cluster.mailbox.release("parse")
            cluster.start("parse")
    assert counted == sorted(counted)
    assert counted[-1][0] == pytest.approx(4 * 80, rel=0.15)


def test_an_agent_whose_place_was_taken_is_sent_away() -> None:
    cluster = Cluster(Topology.single("parse"))
    former = cluster.agents["parse"]
    cluster.start("parse")
    cluster.pass_time(60)
    with pytest.raises(SupersededError, match="another agent has joined as 'parse'"):
        former.tick()


def report_of(agent: str, **fields: Any) -> Report:
    return Report(agent, Instances(1, 1, 1), **fields)


def test_an_agent_that_reports_keeps_its_place_until_it_leaves_is_silent_or_is_released() -> None:
    clock = FakeClock(1000.0)
    mailbox = AgentsEngine(Topology.single("parse"), now=clock.now)
    mailbox.report("parse", report_of("first"))
    with pytest.raises(ControllerAwayError, match="another agent reports for 'parse'"):
        mailbox.report("parse", report_of("second"))
    mailbox.report("parse", report_of("first"))
    clock.advance(LOST_AFTER_S + 1)
    mailbox.report("parse", report_of("second"))
    with pytest.raises(SupersededError):
        mailbox.report("parse", report_of("first"))
    mailbox.report("parse", report_of("second", leaving=True))
    mailbox.report("parse", report_of("third"))
    mailbox.release("parse")
    mailbox.report("parse", report_of("third"))
    mailbox.report("parse", report_of("fourth"))
    with pytest.raises(ControllerAwayError):
        mailbox.report("parse", report_of("fifth"))


def test_many_agents_that_come_and_go_take_a_bounded_memory() -> None:
    mailbox = AgentsEngine(Topology.single("parse"))
    for number in range(3 * MOST_FORMER):
        mailbox.report("parse", report_of(str(number), leaving=True))
    assert len(mailbox._members["parse"].former) == MOST_FORMER


def test_a_new_controller_begins_with_the_sizes_that_agents_have() -> None:
    cluster = Cluster(CHAIN)
    cluster.mailbox.apply(decision({"enrich": 3}))
    cluster.pass_time(60)
    restarted = AgentsEngine(CHAIN, now=cluster.clock.now)
    for link in cluster.links.values():
        link.mailbox = restarted
    cluster.tick()
    assert restarted.observe().instances["enrich"] == Instances(3, 3, 3)
    assert restarted.joined == set(CHAIN.operators)
    cluster.pass_time(60)
    assert cluster.jobs["enrich"].observe().instances["job"].ready == 3


def test_a_hold_before_agents_have_joined_brings_nobody_to_a_size_that_was_only_assumed() -> None:
    cluster = Cluster(CHAIN)
    cluster.mailbox.apply(decision({"enrich": 3}))
    cluster.pass_time(60)
    cluster.with_new_controller()
    assumed = {name: size.planned for name, size in cluster.sizes().items()}
    receipt = cluster.mailbox.apply(decision(assumed))
    assert receipt.outcome is Outcome.UNCHANGED
    cluster.pass_time(60)
    assert cluster.sizes()["enrich"] == Instances(3, 3, 3)


def test_a_hold_that_was_decided_while_an_agent_joined_does_not_bring_it_to_the_size_that_was_assumed() -> None:
    mailbox = AgentsEngine(Topology.single("parse"), now=FakeClock().now)
    assumed = mailbox.observe().instances["parse"].planned
    mailbox.report("parse", Report("a", Instances(2, 2, 2)))
    receipt = mailbox.apply(decision({"parse": assumed}))
    assert receipt.answers["parse"] == Answer(Outcome.UNCHANGED, 2)
    assert mailbox.report("parse", Report("a", Instances(2, 2, 2))).size is None


def test_an_operator_that_has_not_joined_yet_is_stale_and_has_nothing_ready() -> None:
    mailbox = AgentsEngine(CHAIN, starts={"enrich": 2}, now=FakeClock().now)
    seen = mailbox.observe()
    assert seen.instances["enrich"] == Instances(2, 2, 0, stale=True)
    assert not seen.samples
    assert not mailbox.joined


def test_what_an_agent_could_not_do_is_the_answer_and_the_plan_is_what_it_has() -> None:
    mailbox = AgentsEngine(Topology.single("parse"), now=FakeClock().now)
    has_one = Instances(1, 1, 1)
    mailbox.report("parse", Report("a", has_one))
    mailbox.apply(decision({"parse": 3}))
    assert mailbox.report("parse", Report("a", has_one)).size == 3
    failed = Answer(Outcome.FAILED, 1, "no room in the cluster.")
    mailbox.report("parse", Report("a", has_one, last_size=3, answer=failed))
    receipt = mailbox.apply(decision({"parse": 3}))
    assert receipt.answers["parse"] == Answer(Outcome.FAILED, 1, "no room in the cluster.")
    assert mailbox.observe().instances["parse"].planned == 1


def test_agents_are_queried_only_for_metrics_with_a_subscriber() -> None:
    mailbox = AgentsEngine(Topology.single("parse"), now=FakeClock().now)
    assert mailbox.report("parse", Report("a", Instances(1, 1, 1))).subscriptions == ()
    mailbox.subscribe(["memory_share:max"])
    assert mailbox.report("parse", Report("a", Instances(1, 1, 1))).subscriptions == ("memory_share:max",)


def test_a_size_beyond_what_is_possible_is_refused_whole() -> None:
    topology = Topology(("parse", "sum"), sizing={"parse": Sizing(max_instances=3)})
    mailbox = AgentsEngine(topology, now=FakeClock().now)
    assert mailbox.apply(decision({"sum": 2, "parse": 4})).outcome is Outcome.REFUSED
    assert mailbox.observe().instances["sum"].planned == 1


def test_a_strange_operator_and_a_closed_controller_say_so() -> None:
    mailbox = AgentsEngine(CHAIN, now=FakeClock().now)
    with pytest.raises(UnknownNameError, match="unknown operator 'enrch', did you mean 'enrich'"):
        mailbox.report("enrch", Report("a", Instances(1, 1, 1)))
    mailbox.close()
    with pytest.raises(EngineError, match="closed"):
        mailbox.report("enrich", Report("a", Instances(1, 1, 1)))
