"""Simulated jobs that share a quota: their decisions say who gave way, and for whom."""

from __future__ import annotations

from headgate.core.arbiter import Arbiter
from headgate.core.objective import parse_objective
from headgate.core.quotas import Need, Quota, QuotaGroup
from headgate.core.types import Decision
from headgate.journal.memory import MemoryJournal
from headgate.policies.frame.base import Context
from headgate.runtime.arbitration import Arbitrated
from headgate.runtime.assembly import wire
from headgate.runtime.loop import ControlLoop, Mode
from headgate.runtime.model_file import policy_with_files
from headgate.simulation.engine import SimulatedEngine
from headgate.simulation.queue import QueueNetwork
from headgate.workloads import parse_workload

OBJECTIVE = parse_objective("latency p95 < 10s per 1h, price 0.5").within(1, 8)


def job(name: str, load: str, arbiter: Arbiter, mode: Mode = Mode.ACT) -> tuple[SimulatedEngine, ControlLoop]:
    engine = SimulatedEngine(QueueNetwork(parse_workload(load), 10.0, late_after_s=10.0))
    policy = policy_with_files("reactive", Context(OBJECTIVE, engine.topology(), 0))
    loop = wire(engine, policy, engine, engine_name="simulated", job=name, journal=MemoryJournal(), mode=mode)
    loop.shared_guards.append(Arbitrated(arbiter, name, OBJECTIVE, "g", needs={"job": Need(cores=2)}))
    return engine, loop


def run(jobs: list[tuple[SimulatedEngine, ControlLoop]], seconds: int) -> list[list[Decision]]:
    decisions: list[list[Decision]] = [[] for _ in jobs]
    for at_s in range(0, seconds, 10):
        for (engine, loop), decided in zip(jobs, decisions, strict=True):
            engine.advance(float(at_s))
            decision = loop.tick()
            assert decision is not None
            decided.append(decision)
    return decisions


def test_jobs_that_want_more_than_there_is_share_it_and_say_for_whom() -> None:
    arbiter = Arbiter([QuotaGroup("g", Quota(cores=10))])
    decided = run([job(name, "constant:45", arbiter) for name in ("one", "two")], 900)
    sizes = [[decision.targets["job"] for decision in decisions] for decisions in decided]
    assert max(map(sum, zip(*sizes, strict=True))) == 5
    notes = [decision.verdicts["job"].notes[-1] for decisions in decided for decision in decisions]
    assert all(note.guard == "quota" for note in notes)
    assert any("gives way to" in note.why and "group g may have 10 cores" in note.why for note in notes)


def test_money_is_counted_by_the_price_of_the_objective() -> None:
    arbiter = Arbiter([QuotaGroup("g", Quota(money_per_hour=1.5))])
    decided = run([job("one", "constant:45", arbiter)], 300)
    assert max(decision.targets["job"] for decision in decided[0]) == 3


def test_a_job_that_only_recommends_takes_nothing() -> None:
    arbiter = Arbiter([QuotaGroup("g", Quota(cores=4))])
    decided = run([job("one", "constant:45", arbiter, Mode.RECOMMEND)], 300)
    assert max(decision.targets["job"] for decision in decided[0]) > 2
    assert arbiter.usage() == {("g", 1): (0.0, 4)}
