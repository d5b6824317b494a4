"""A run of an application from start to end: broker, cluster, load and query, looked after and accounted for."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlsplit

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headgate._version import __version__
from headgate.apps.comparison import Differences
from headgate.apps.running.accounts import Totals
from headgate.apps.running.bookkeeper import Bookkeeper
from headgate.apps.running.check import check_run
from headgate.apps.running.feeder import Feeder
from headgate.apps.running.folder import Beginning
from headgate.apps.running.kafka_source import Broker, find_broker, have_topic, reached
from headgate.apps.running.plan import RunPlan
from headgate.apps.running.query import ApplicationQuery
from headgate.apps.running.results import ResultFiles, Results, ResultTopic
from headgate.apps.running.sources import EmbeddedSource, RunSource, TopicSource, records_between
from headgate.core.errors import EngineError, HeadgateError
from headgate.core.types import JSON, Event
from headgate.local.connector import find_connector
from headgate.local.machine import LOOPBACK
from headgate.local.spark.cluster import LocalCluster, graceful_removal, local_settings, open_session, starting_size
from headgate.local.spark.interruption import Interruption
from headgate.local.topics import create_topic, topics
from headgate.runtime.loop import Watcher
from headgate.runtime.managed.run import ManagedRun
from headgate.runtime.managed.run import run as run_managed
from headgate.runtime.summary import RunRecord
from headgate.workloads.replay import ReplayProgress

logger = logging.getLogger("headgate")

LOOK_EVERY_S = 0.5


class RunView:
    """Who is shown a run; this one looks away."""

    def stage(self, text: str) -> None:
        """What is going on now."""

    def records(self, totals: Totals, load: ReplayProgress | None) -> None:
        """What became of the records so far."""

    def event(self, event: Event) -> None:
        """What happened to the query: a start, a failure, a change."""

    @property
    def watcher(self) -> Watcher:
        """Who is shown what is observed and decided."""
        return lambda observation, decision: None


@dataclass(frozen=True)
class RunResult:
    """What a run came to, over all its starts."""

    plan: RunPlan
    record: RunRecord
    """Of this start alone."""
    available: int | None
    """Records that there are: due from an embedded source, or in the topic; ``None`` if its broker did not say."""
    totals: Totals
    load: ReplayProgress | None
    """What a load into a topic came to."""
    differences: Differences | None
    """From the batch computation, if it was asked for."""
    broker: Broker | None
    topic: str | None

    def to_json(self) -> dict[str, JSON]:
        plan, totals, found = self.plan, self.totals, self.differences
        run = {
            "engine": "spark",
            "headgate": __version__,
            "policy": plan.policy,
            "settings": dict(plan.settings),
            "objective": str(plan.objective),
            "folder": str(plan.folder.path),
            "topic": self.topic,
            **plan.asked,
        }
        return self.record.to_json(run) | {
            "records": {
                "available": self.available,
                "read": totals.read,
                "malformed": totals.malformed,
                "late": totals.late,
                "batches": totals.batches,
                "batches_with_unknown_late": totals.unknown_late,
            },
            "load": self.load
            and {
                "due": self.load.due,
                "sent": self.load.sent,
                "acknowledged": self.load.answers.acknowledged,
                "failed": self.load.answers.failed,
                "unanswered": self.load.unanswered,
            },
            "check": found
            and {
                "is_exact": found.is_exact,
                "missing": found.missing,
                "unexpected": found.unexpected,
                "doubled": found.doubled,
                "wrong": found.wrong,
                "expected": found.expected,
            },
        }


def run_application(plan: RunPlan, view: RunView) -> RunResult:
    """Run an application until its load is over and worked off, and say what became of every record."""
    broker = find_broker(plan, view.stage) if plan.source == "kafka" or plan.output_topic else None
    topic = _topic(plan, broker)
    output = _output_topic(plan, broker)
    record = RunRecord(plan.objective)
    with ExitStack() as stack:
        interruption = stack.enter_context(Interruption().watched())
        spark = stack.enter_context(_session(plan, interruption, view))
        # The load of a run begins when its job can read it.
        beginning = plan.folder.begin(plan.asked, lambda: _beginning(broker, topic))
        source = _source(plan, broker, beginning)
        feeder = _feeder(plan, broker, beginning)
        files = ResultFiles(plan.folder.results, plan.form)
        results = Results(files, output)
        books = Bookkeeper(spark, plan.application, source, plan.folder)
        books.start()
        query = ApplicationQuery(
            plan.application, source, results, plan.folder, plan.trigger_interval_s, plan.record_cost_s
        )
        with _managed(spark, query, plan, view, record, interruption) as running:
            if feeder is not None:
                feeder.start()
                stack.callback(feeder.stop)
            view.stage("running")
            try:
                _wait(plan, source, books, feeder, running, view)
            finally:
                view.stage("stopping the query")
                running.stop()
                books.close()
        if interruption.happened:
            raise KeyboardInterrupt  # Its driver is gone: there is nobody left to ask.
        available = _available(plan, source)
        differences = None
        if plan.check:
            view.stage("comparing with the batch computation over the same records")
            differences = _checked(spark, plan, source, files, books)
        view.stage("stopping the job")
    return RunResult(
        plan=plan,
        record=record,
        available=available,
        totals=books.accounts.totals(),
        load=None if feeder is None else feeder.standing,
        differences=differences,
        broker=broker,
        topic=topic,
    )


def _checked(
    spark: SparkSession, plan: RunPlan, source: RunSource, files: ResultFiles, books: Bookkeeper
) -> Differences:
    try:
        return check_run(spark, plan.application, source, files, books.accounts)
    except PySparkException as error:
        raise EngineError(f"the results cannot be compared: {str(error).splitlines()[0]}") from error


def _topic(plan: RunPlan, broker: Broker | None) -> str | None:
    """The topic that is read, which is there; ``None`` if none is."""
    if plan.source == "embedded" or broker is None:
        return None
    before = plan.folder.begun(plan.asked)
    own = f"{plan.application.name}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    topic = (before and before.topic) or plan.topic or own
    have_topic(plan, broker.bootstrap, topic)
    return topic


def _beginning(broker: Broker | None, topic: str | None) -> Beginning:
    """How a run begins that has not begun before."""
    now_s = time.time()
    begin = None if broker is None or topic is None else reached(broker.bootstrap, topic)[0]
    return Beginning(now_s, round(1000 * now_s), topic, begin)


def _source(plan: RunPlan, broker: Broker | None, beginning: Beginning) -> RunSource:
    if broker is not None and beginning.topic is not None and beginning.begin is not None:
        return TopicSource(broker.bootstrap, beginning.topic, beginning.begin)
    assert plan.load is not None
    return EmbeddedSource(plan.load, beginning.started_s, beginning.start_ms, plan.partitions)


def _feeder(plan: RunPlan, broker: Broker | None, beginning: Beginning) -> Feeder | None:
    if plan.source == "embedded" or plan.load is None or broker is None or beginning.topic is None:
        return None
    return Feeder(plan.load, broker.bootstrap, beginning.topic, beginning)


def _output_topic(plan: RunPlan, broker: Broker | None) -> ResultTopic | None:
    if plan.output_topic is None or broker is None:
        return None
    if plan.output_topic not in topics(broker.bootstrap):
        create_topic(broker.bootstrap, plan.output_topic, plan.partitions)
    return ResultTopic(broker.bootstrap, plan.output_topic)


# ------------------------------------------------------------------------------------------------------------- session


@contextmanager
def _session(plan: RunPlan, interruption: Interruption, view: RunView) -> Iterator[SparkSession]:
    """A session on the cluster that was named, or on one that is there for this run."""
    fewest = max(1, plan.objective.min_instances)
    settings = {"spark.sql.shuffle.partitions": str(plan.state_partitions[0])}
    if plan.source == "kafka" or plan.output_topic is not None:
        settings["spark.jars"] = find_connector().spark_jars
    with ExitStack() as stack:
        if plan.master is None:
            view.stage("starting a Spark cluster on this machine")
            master = stack.enter_context(LocalCluster(slots=plan.objective.max_instances)).master_url
        else:
            master = plan.master
        here = urlsplit(master).hostname in (LOOPBACK, "localhost")
        settings |= local_settings(fewest) if here else starting_size(fewest) | graceful_removal()
        view.stage("starting the job's driver and its first executor")
        spark = open_session(master, f"headgate {plan.application.name}", settings, plan.folder.driver_log)
        with interruption.ends(spark):
            yield spark


def _managed(
    spark: SparkSession,
    query: ApplicationQuery,
    plan: RunPlan,
    view: RunView,
    record: RunRecord,
    interruption: Interruption,
) -> ManagedRun:
    """The query, kept running and scaled."""
    running = run_managed(
        query,
        checkpoint=plan.folder.checkpoint,
        objective=plan.objective,
        spark=spark,
        policy=plan.policy,
        partitions=plan.state_partitions if plan.application.stateful else None,
        on_event=view.event,
        is_ending=lambda: interruption.happened,
        settings=plan.settings,
        guards=plan.guards,
        interval=plan.interval_s,
        journal=plan.folder.journal,
        job=plan.application.name,
        take_over=True,
    )
    assert running.autoscaler is not None
    for watcher in (record, view.watcher):
        running.autoscaler.watch(watcher)
    return running


# ------------------------------------------------------------------------------------------------------------- waiting


def _wait(
    plan: RunPlan,
    source: RunSource,
    books: Bookkeeper,
    feeder: Feeder | None,
    running: ManagedRun,
    view: RunView,
) -> None:
    """Until the load is over and every record of it was read.

    Without a load, until the time that was asked for is over and what was there by then was read.
    """
    until_s = None if plan.seconds is None else time.monotonic() + plan.seconds
    wanted: int | None = None
    while not running.wait(LOOK_EVERY_S):
        totals = books.accounts.totals()
        view.records(totals, None if feeder is None else feeder.standing)
        if plan.load is None:
            if until_s is None or time.monotonic() < until_s:
                continue
            wanted = _available(plan, source) if wanted is None else wanted
            if wanted is None or totals.read >= wanted:
                return
        elif feeder is None or feeder.is_done:
            available = _available(plan, source)
            if available is not None and totals.read >= available:
                return


def _available(plan: RunPlan, source: RunSource) -> int | None:
    """Records that there are in all; ``None`` if the broker does not say."""
    if isinstance(source, TopicSource):
        try:
            _, end = reached(source.bootstrap, source.topic)
        except HeadgateError as error:
            logger.warning("how many records there are is not known: %s", error)
            return None
        return records_between(source.begin, end)
    assert plan.load is not None
    return plan.load.schedule.total
