"""The autoscaler with a real job: it scales by itself, it can go away, and it can be killed."""

from __future__ import annotations

import ctypes
import threading
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import headgate
from headgate.apps.steady_job import SteadyJob
from headgate.core.types import Decision, Role
from headgate.journal.contract import budget_key, startup_key
from headgate.journal.writer import SqliteJournal
from tests.live.support import eventually, executor_processes


def kill_thread(thread: threading.Thread) -> None:
    """End a thread from outside, as nothing in Python means to."""
    assert thread.ident is not None
    raised = ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit))
    assert raised == 1
    thread.join(30)


@pytest.mark.soak  # test_exactness.py has jobs that grow and shrink with their load, and test_demo.py why one did.
def test_it_follows_the_load_up_and_down_and_tells_why(spark: SparkSession, tmp_path: Path) -> None:
    job = SteadyJob(
        tmp_path,
        workload="spike:base=10,peak=90,at=4s,width=10s",
        seconds=30.0,
        cost_s=0.025,
        trigger_interval_s=1.0,
        partitions=6,
        max_rows_per_batch=120,
    )
    journal = tmp_path / "journal.db"
    sizes: list[int] = []
    query = job.start(spark)
    try:
        with headgate.autoscale(
            spark,
            objective="latency p95 < 4s",
            policy="reactive",
            executors=(1, 3),
            settings={"idle_for_s": 4.0, "drain_within_s": 15.0},
            interval=1.0,
            journal=journal,
            job="follows",
            take_over=True,
        ) as autoscaler:
            autoscaler.watch(lambda seen, _: sizes.append(seen.instances["job"].ready) if seen else None)
            eventually("a scale-out", lambda: max(sizes, default=0) >= 2)
            most = len(executor_processes())
            eventually("a scale-in", lambda: sizes[-1] < max(sizes))
            query.processAllAvailable()
    finally:
        query.stop()
    assert most >= 2
    assert job.check(spark).is_exact
    with closing(SqliteJournal.read(journal)) as reader:
        changes = [decision.verdicts["job"] for decision in reader.decisions() if not decision.is_hold]
        kinds = [event.kind for event in reader.events()]
        reported = (startup for seen in reader.observations() for startup in seen.startups.get("job", ()))
        # Each is reported when it has registered, and again when all is known.
        startups = list({startup.instance: startup for startup in reported}.values())
        learned = reader.load_state(startup_key("follows"))
    assert startups, "how long a new executor took to be of use"
    for entry in startups:
        assert 0 < entry.registered_after_s <= (entry.first_task_after_s or entry.registered_after_s) < 60
    assert learned is not None
    assert learned["job"]["registered_s"] == pytest.approx([startup.registered_after_s for startup in startups])
    assert {"slo-violated", "idle"} <= {verdict.code for verdict in changes}
    assert all(verdict.reason and verdict.numbers and verdict.notes for verdict in changes)
    assert kinds[0] == "started"
    assert kinds[-1] == "stopped"


@pytest.mark.soak
def test_one_that_recommends_changes_nothing_next_to_one_that_acts_and_both_keep_the_budget(
    spark: SparkSession, tmp_path: Path
) -> None:
    job = SteadyJob(tmp_path, "constant:60", seconds=40.0, cost_s=0.05, trigger_interval_s=1.0, partitions=4)
    journal = tmp_path / "journal.db"
    seen: list[Decision] = []
    query = job.start(spark)
    try:
        with headgate.autoscale(
            spark,
            objective="latency p95 < 4s, price 0.5",
            policy="reactive",
            executors=(1, 3),
            interval=1.0,
            journal=journal,
            shadows=["hpa"],
            mode="recommend",
        ) as autoscaler:
            autoscaler.watch(lambda _, decided: seen.append(decided) if decided else None)
            before = executor_processes().keys()
            eventually("a recommendation", lambda: any(not decided.is_hold for decided in seen))
            with headgate.autoscale(spark, policy="static", executors=(1, 3), interval=1.0, take_over=True):
                eventually("ten more decisions", lambda: len(seen) > 10)
            budget, spending = autoscaler.loop.history.budget("job"), autoscaler.loop.history.spending()
            assert executor_processes().keys() == before
    finally:
        query.stop()
    assert {decided.role for decided in seen} == {Role.RECOMMENDED}
    assert budget is not None
    assert budget.missed > 0
    assert spending is not None
    assert spending.spent > 0
    with closing(SqliteJournal.read(journal)) as reader:
        assert {decision.role for decision in reader.decisions()} == {Role.RECOMMENDED, Role.SHADOW}
        assert reader.receipts() == []
        saved = reader.load_state(budget_key(reader.runs()[0][1].job))
    assert saved is not None
    assert saved["budgets"]["job"]["buckets"]


@pytest.mark.soak
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_killed_autoscaler_leaves_the_job_running_at_its_size(spark: SparkSession, tmp_path: Path) -> None:
    job = SteadyJob(tmp_path, "constant:40", seconds=15.0, cost_s=0.01, trigger_interval_s=1.0, partitions=4)
    query = job.start(spark)
    try:
        autoscaler = headgate.autoscale(
            spark, policy="static", settings={"instances": 2}, executors=(1, 2), interval=0.5, take_over=True
        )
        eventually("two executors", lambda: len(executor_processes()) == 2)
        kill_thread(autoscaler.thread)
        assert not autoscaler.is_alive
        # Spark itself keeps the size, also when an executor dies now.
        victim = min(executor_processes())
        executor_processes()[victim].kill()
        eventually("a replacement", lambda: victim not in executor_processes() and len(executor_processes()) == 2)
        query.processAllAvailable()
        assert query.isActive
    finally:
        query.stop()
    output = job.check(spark)
    assert output.is_exact
    assert output.records == 15 * 40
    autoscaler.stop()
