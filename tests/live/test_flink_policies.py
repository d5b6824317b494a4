"""Policies as they are on a real Flink job of three vertices, of which the middle one is too slow: each decides about
every vertex, and whatever changes at once is one restart of the job."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping

import pytest

from headgate.apps.flink.programs import SLOW_MIDDLE, SubmittedJob
from headgate.apps.flink.sources import TopicRecords
from headgate.apps.flink.submission import submit
from headgate.core.objective import parse_objective
from headgate.core.types import Decision, Event, Observation, Outcome, Verdict
from headgate.engines.flink import FlinkEngine
from headgate.local.flink import LocalFlink
from headgate.local.flink_rest import drain
from headgate.local.kafka import LocalKafka
from headgate.local.records import TopicSink
from headgate.research.flink.run import ControllerRecord, LoadFeeder, opened
from headgate.runtime.autoscaler import autoscale_engine
from headgate.runtime.loop import SystemClock
from headgate.workloads.load import Load
from tests.live.support import eventually

OBJECTIVE = parse_objective("latency p95 < 5s").within(1, 4)
SOURCE, MIDDLE, SINK = "events", "Calc", "results"
LASTS_S = 900.0
WITHIN_S = 45.0
RULES = """\
version: 1
rules:
  - {name: busy, scale_out: Calc, by: 1, never_above: 3, when: [{metric: utilization, above: 80 %, for_at_least: 4s}]}
"""
# What takes minutes otherwise; all else is as it comes.
POLICIES: Mapping[str, Mapping[str, object]] = {
    "ds2": {"warm_up_s": 5.0},
    "flink-autoscaler": {"metrics_window_s": 8.0, "stabilization_interval_s": 3.0, "catch_up_duration_s": 30.0},
    "mdp-path": {"slot_s": 5.0},
    "rl-decentralized": {"slot_s": 5.0},
    "proactive": {"check_every_s": 20.0, "idle_for_s": 10.0},
    "autopilot": {},
    "rules": {"rules": RULES},
}


@pytest.fixture(scope="module")
def slow_job(flink: LocalFlink, kafka: LocalKafka) -> Iterator[str]:
    """A job that one middle vertex is too slow for, as long as this module needs it."""
    topic, clock = "policies", SystemClock()
    kafka.create_topic(topic, partitions=4)
    job = SubmittedJob(SLOW_MIDDLE, TopicRecords(kafka.bootstrap, topic), topic, cost_ms=8.0)
    job_id = submit(job, flink.url)
    feeder = LoadFeeder(
        Load("constant:220", seconds=LASTS_S), TopicSink(kafka.bootstrap, topic), clock, clock.now(), lambda _: None
    )
    yield topic
    feeder.stop()
    drain(flink.url, job_id)


def resize(engine: FlinkEngine, sizes: Mapping[str, int]) -> None:
    """Have these sizes, and wait until all of them are at work."""
    verdicts = {name: Verdict(name, size, size, size, "test", "the test asks for it") for name, size in sizes.items()}
    assert engine.apply(Decision(0.0, "test", verdicts)).outcome in (Outcome.ACCEPTED, Outcome.UNCHANGED)
    eventually("the sizes", lambda: _ready(engine.observe()) == sizes)


def _ready(observation: Observation) -> dict[str, int]:
    return {name: instance.ready for name, instance in observation.instances.items()}


@pytest.mark.soak
@pytest.mark.timeout(240)
@pytest.mark.parametrize("policy", POLICIES)
def test_a_policy_sizes_every_vertex_and_all_of_them_at_once(policy: str, slow_job: str, flink: LocalFlink) -> None:
    clock, seen, events = SystemClock(), ControllerRecord(), list[Event]()
    engine = opened(flink.url, slow_job, OBJECTIVE, clock)
    assert engine.topology().operators == (SOURCE, MIDDLE, SINK)
    resize(engine, {SOURCE: 2, MIDDLE: 1, SINK: 1})
    engine.take_events()
    with autoscale_engine(
        engine,
        objective=OBJECTIVE,
        policy=policy,
        settings=POLICIES[policy],
        job=f"{slow_job}-{policy}",
        interval=2.0,
        clock=clock,
        watchers=[seen],
        event_watchers=[events.append],
    ):
        until_s = time.monotonic() + WITHIN_S
        while time.monotonic() < until_s and not any(event.kind == "rescaled" for event in events):
            threading.Event().wait(0.5)
    assert len(seen.decisions) >= 3
    assert all(set(decision.verdicts) == {SOURCE, MIDDLE, SINK} for decision in seen.decisions), (
        "each vertex is decided about"
    )
    changes = [decision for decision in seen.decisions if not decision.is_hold]
    rescaled = [event for event in events if event.kind == "rescaled"]
    assert changes, [decision.verdicts[MIDDLE].reason for decision in seen.decisions[-3:]]
    grown = {name for change in changes for name, verdict in change.verdicts.items() if verdict.change > 0}
    assert grown == {MIDDLE}, [verdict.reason for change in changes for verdict in change.verdicts.values()]
    assert 1 <= len(rescaled) <= len(changes), "what changes together is one restart"


@pytest.mark.soak
@pytest.mark.timeout(240)
def test_what_is_too_large_and_what_is_too_small_change_in_one_restart(slow_job: str, flink: LocalFlink) -> None:
    clock, seen, events = SystemClock(), ControllerRecord(), list[Event]()
    engine = opened(flink.url, slow_job, OBJECTIVE, clock)
    resize(engine, {SOURCE: 2, MIDDLE: 1, SINK: 2})
    engine.take_events()
    with autoscale_engine(
        engine,
        objective=OBJECTIVE,
        policy="ds2",
        settings={"warm_up_s": 5.0},
        job="joint",
        interval=2.0,
        clock=clock,
        watchers=[seen],
        event_watchers=[events.append],
    ):
        eventually("a rescale", lambda: any(event.kind == "rescaled" for event in events), WITHIN_S)
    changed = next(decision for decision in seen.decisions if not decision.is_hold)
    changes = {name for name, verdict in changed.verdicts.items() if verdict.change}
    assert changes == {SOURCE, MIDDLE, SINK}, [verdict.reason for verdict in changed.verdicts.values()]
    rescaled = next(event for event in events if event.kind == "rescaled")
    assert all(name in rescaled.detail for name in (SOURCE, MIDDLE, SINK)), rescaled.detail
