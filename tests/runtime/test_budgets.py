"""Error budgets and money of a loop, in simulation as live, and after a restart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headgate.core.budget import Budget, Spending, SpendingKeeper
from headgate.core.objective import Objective, parse_objective
from headgate.journal.contract import Journal
from headgate.journal.memory import MemoryJournal
from headgate.policies.frame.base import Context, make_policy
from headgate.runtime.assembly import wire
from headgate.runtime.loop import ControlLoop
from headgate.runtime.simulate import simulate
from headgate.simulation.batch_job import MicroBatchJob
from headgate.simulation.engine import SimulatedEngine
from headgate.simulation.micro_batch import MicroBatch
from headgate.workloads import parse_workload

WORKLOAD = parse_workload("sine:mean=50,amplitude=40,period=20m")
MODEL = MicroBatch(trigger_interval_s=10.0, noise=0.1)
INTERVAL_S = 10.0
OBJECTIVE = parse_objective("latency p90 < 20s per 2h, price 0.5").within(1, 12)


class Job:
    """A simulated job whose loop can be stopped and started again."""

    def __init__(self, journal: Journal | None = None) -> None:
        self.kernel = MicroBatchJob(WORKLOAD, 10.0, MODEL, ready=2, readings="perfect", late_after_s=20.0)
        self.engine = SimulatedEngine(self.kernel, startup_s=15.0)
        self.journal = journal

    def start(self, objective: Objective = OBJECTIVE) -> ControlLoop:
        policy = make_policy("reactive", Context(objective, self.engine.topology()))
        return wire(self.engine, policy, self.engine, journal=self.journal, engine_name="simulated")

    def run(self, loop: ControlLoop, first: int, last: int) -> ControlLoop:
        for tick in range(first, last):
            self.engine.advance(tick * INTERVAL_S)
            loop.tick()
        return loop


def stand(loop: ControlLoop) -> tuple[Budget, Spending]:
    """How a job stands in the last period; the totals of a run begin with it."""
    budget, spending = loop.history.budget("job"), loop.history.spending()
    assert budget is not None
    assert spending is not None
    return replace(budget, run=None), replace(spending, run_spent=None, run_s=0.0)


def test_the_budget_of_a_simulated_run_is_that_of_what_truly_happened() -> None:
    job = Job()
    budget, spending = stand(job.run(job.start(), 0, 400))
    true_share = job.kernel.course("job").late_share(20.0)
    assert true_share is not None
    assert budget.missed_share == pytest.approx(true_share, abs=0.005)
    assert budget.missed > 0
    assert spending.spent > 0


def test_a_loop_that_was_stopped_and_started_again_has_the_budget_of_one_that_was_not() -> None:
    whole, restarted = Job(), Job(MemoryJournal())
    uninterrupted = stand(whole.run(whole.start(), 0, 300))
    loop = restarted.run(restarted.start(), 0, 150)
    loop.save_state()
    again = restarted.run(restarted.start(), 150, 300)
    assert stand(again) == uninterrupted
    spending = again.history.spending()
    assert spending is not None
    assert spending.run_s == pytest.approx(1500, abs=2 * INTERVAL_S), "what the run has cost is of the second one"


def test_a_loop_that_was_killed_loses_nothing_that_the_journal_has_seen() -> None:
    """What came after the last save is recalled."""
    whole, killed = Job(), Job(MemoryJournal())
    uninterrupted = stand(whole.run(whole.start(), 0, 300))
    killed.run(killed.start(), 0, 153)
    assert stand(killed.run(killed.start(), 153, 300)) == uninterrupted


def test_after_a_longer_break_the_budget_goes_on_without_it() -> None:
    job = Job(MemoryJournal())
    loop = job.run(job.start(), 0, 100)
    loop.save_state()
    before, _ = stand(loop)
    job.engine.advance(2000.0)
    after, _ = stand(job.run(job.start(), 200, 210))
    assert after.counted > before.counted
    assert after.covered_s == pytest.approx(before.covered_s + 90.0)


def test_another_objective_starts_another_budget_and_that_is_said() -> None:
    journal = MemoryJournal()
    job = Job(journal)
    job.run(job.start(), 0, 100).save_state()
    loop = job.start(parse_objective("latency p99 < 20s per 2h, price 0.5").within(1, 12))
    (event,) = [event for event in journal.events() if event.kind == "budget-anew"]
    assert "'latency p90 < 20s per 2h'; the objective is 'latency p99 < 20s per 2h' now" in event.detail
    job.run(loop, 100, 110)
    budget, spending = stand(loop)
    assert budget.covered_s == pytest.approx(100.0)
    assert spending.covered_s == pytest.approx(1090.0)


@pytest.mark.parametrize("workload", ["constant:70", "spike:base=10,peak=95,at=10h,width=8h"])
def test_a_run_costs_no_more_in_any_day_than_it_may_and_says_why(workload: str) -> None:
    objective = parse_objective("latency p95 < 10s, cost < 12 per day, price 0.25").within(1, 10)
    result = simulate(
        "reactive",
        parse_workload(workload),
        objective=objective,
        service_rate_per_s=10.0,
        startup_s=30.0,
        interval_s=30.0,
        seconds=1.5 * 86400,
    )
    assert result.summary.cost is not None
    purse, most = SpendingKeeper({"job": 0.25}, objective.cost), 0.0
    for observation in result.observations:
        purse.observe(observation)
        most = max(most, purse.spending(observation.at_s).spent)
    # What ten instances cost between two decisions is what it may be off by.
    assert 11.5 < most < 12 + 0.25 * 10 * 30 / 3600
    notes = [note for decision in result.decisions for note in decision.verdicts["job"].notes]
    reasons = [note.why for note in notes if note.guard == "affordable" and note.before != note.after]
    assert reasons
    assert all(why.startswith("objective and 'cost < 12 per day' cannot both be had") for why in reasons)
