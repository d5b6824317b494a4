"""One loop over all jobs of a pipeline, whose agents are in this process, on a clock that the test sets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headgate.core.objective import parse_objective
from headgate.core.types import Decision
from headgate.journal.memory import MemoryJournal
from headgate.pipelines.controller import pipeline_job
from headgate.pipelines.meter import Meter
from headgate.pipelines.model import Job, Pipeline
from headgate.runtime.loop import ControlLoop
from tests.engines.agents.inprocess import Cluster

JOBS = (
    Job("parse", ("raw",), "parsed", app="grep", max_executors=5),
    Job("enrich", ("parsed",), "enriched", app="grep", max_executors=5),
    Job("sum", ("enriched",), "sums", app="grep", max_executors=5),
)
CHAIN = Pipeline("chain", Path("chain.yaml"), JOBS, {}, parse_objective("latency p95 < 30s"), "autopilot")


def controlled(pipeline: Pipeline, cluster: Cluster, journal: MemoryJournal) -> ControlLoop:
    return pipeline_job(pipeline, Meter(30.0), cluster.clock, journal, cluster.mailbox).loop


@pytest.mark.parametrize("policy", ["autopilot", "mdp-path", "rl-centralized", "hpa"])
def test_every_policy_sizes_all_jobs_of_a_pipeline_from_one_loop(policy: str) -> None:
    cluster = Cluster(CHAIN.topology)
    loop, decisions = controlled(CHAIN.with_policy(policy), cluster, MemoryJournal()), list[Decision]()
    for _ in range(60):
        decided = loop.tick()
        assert decided is not None
        decisions.append(decided)
        cluster.pass_time(10)
    assert {name for decision in decisions for name in decision.verdicts} == {"parse", "enrich", "sum"}
    assert not any(verdict.code == "policy-failed" for decision in decisions for verdict in decision.verdicts.values())
    # Twice what one instance gets through arrives at each of them.
    assert all(size.ready >= 2 for size in cluster.sizes().values())


def test_joining_losing_and_coming_back_are_in_the_one_journal() -> None:
    cluster, journal = Cluster(CHAIN.topology), MemoryJournal()
    loop = controlled(CHAIN.with_policy("static"), cluster, journal)
    loop.tick()
    cluster.links["sum"].is_cut = True
    cluster.pass_time(30)
    loop.tick()
    cluster.links["sum"].is_cut = False
    cluster.pass_time(10)
    loop.tick()
    loop.tick()
    reported = [
        (event.kind, event.detail.split(" ")[0]) for event in journal.events() if event.kind.startswith("agent-")
    ]
    assert reported == [
        ("agent-joined", "parse"),
        ("agent-joined", "enrich"),
        ("agent-joined", "sum"),
        ("agent-lost", "sum"),
        ("agent-back", "sum"),
    ]


def test_a_controller_that_was_started_again_continues_with_the_sizes_of_the_jobs() -> None:
    cluster, journal = Cluster(CHAIN.topology), MemoryJournal()
    loop = controlled(CHAIN, cluster, journal)
    for _ in range(60):
        loop.tick()
        cluster.pass_time(10)
    before = {name: size.planned for name, size in cluster.sizes().items()}
    assert max(before.values()) > 1
    restarted = cluster.with_new_controller()
    loop = controlled(CHAIN, restarted, journal)
    restarted.tick()
    decided = loop.tick()
    assert decided is not None
    assert {name: verdict.current for name, verdict in decided.verdicts.items()} == before
    assert all(verdict.target >= verdict.current for verdict in decided.verdicts.values())


def test_a_job_whose_agent_is_lost_is_never_scaled_in() -> None:
    cluster = Cluster(CHAIN.topology)
    loop = controlled(replace(CHAIN, settings={"scale_in_window_s": 10}), cluster, MemoryJournal())
    for _ in range(40):
        loop.tick()
        cluster.pass_time(10)
    grown = cluster.sizes()["enrich"].planned
    assert grown > 1
    cluster.links["enrich"].is_cut = True
    for _ in range(40):
        decided = loop.tick()
        assert decided is not None
        assert decided.verdicts["enrich"].target >= grown
        cluster.pass_time(10)
