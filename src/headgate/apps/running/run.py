"""A run of an application from start to end: broker, cluster, load, query and accounts."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from headgate._version import __version__
from headgate.apps.comparison import BATCH, ResultDifferences, compare
from headgate.apps.contract import StreamingApplication
from headgate.apps.running.accounts import Accounts, Bookkeeper, Totals
from headgate.apps.running.feeder import TopicFeeder
from headgate.apps.running.folder import Beginning
from headgate.apps.running.plan import ApplicationRunPlan
from headgate.apps.running.query import ApplicationQuery, Broker, find_broker, have_topic, reached
from headgate.apps.running.results import ResultFiles, ResultSink, ResultTopic
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


def check_run(
    spark: SparkSession, application: StreamingApplication, source: RunSource, files: ResultFiles, accounts: Accounts
) -> ResultDifferences:
    """Compare the results of a run with a single batch computation over its records."""
    totals = accounts.totals()
    end = totals.end or source.begin
    raw = source.table(spark, source.begin, end)
    if application.learn is None:
        expected = application.run(raw)
        written = _written(spark, files, expected, accounts)
        return compare(application, written, expected, closed_until_ms=totals.watermark_ms)
    # Next to the results, where all machines of the job can write.
    with TemporaryDirectory(prefix=".check-", dir=files.folder.parent) as folder:
        expected = _learned(spark, application, source, accounts, Path(folder))
        return compare(application, _written(spark, files, expected, accounts), expected)


def _written(spark: SparkSession, files: ResultFiles, expected: DataFrame, accounts: Accounts) -> DataFrame:
    """Return the results of completed batches; those of an interrupted batch do not count."""
    done = [account.batch for account in accounts.all()]
    return files.read(spark, expected.schema).where(f.col(BATCH) <= max(done, default=-1))


def _learned(
    spark: SparkSession, application: StreamingApplication, source: RunSource, accounts: Accounts, folder: Path
) -> DataFrame:
    """Return the results of learning the same batches again: what is learned depends on where batches end."""
    again = ResultFiles(folder / "results")
    schema = application.run(source.table(spark, source.begin, source.begin)).schema
    for account in accounts.all():
        rows = application.run(source.table(spark, account.start, account.end))

        def write(results: DataFrame, batch: int = account.batch) -> None:
            nonlocal schema
            schema = results.schema
            again.write(results, batch)

        application.write_batch(rows, account.batch, folder=folder / "learned", write=write)
    return again.read(spark, schema)


logger = logging.getLogger("headgate")

LOOK_EVERY_S = 0.5


class RunView:
    """Receives the progress of a run; this base ignores it."""

    def stage(self, text: str) -> None:
        """Called with a description of each stage."""

    def records(self, totals: Totals, load: ReplayProgress | None) -> None:
        """Called with the counts of records so far."""

    def event(self, event: Event) -> None:
        """Called with starts, failures and changes of the query."""

    @property
    def watcher(self) -> Watcher:
        """A watcher of observations and decisions."""
        return lambda observation, decision: None


@dataclass(frozen=True)
class RunResult:
    """The results of a run, over all its starts."""

    plan: ApplicationRunPlan
    record: RunRecord
    """Covers this start only."""
    available: int | None
    """Records that are due from an embedded source, or in the topic; ``None`` if its broker does not answer."""
    totals: Totals
    load: ReplayProgress | None
    """The final progress of a load into a topic."""
    differences: ResultDifferences | None
    """Differences from the batch computation, if it was requested."""
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
            **plan.identity,
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
            "check": found and {"is_exact": found.is_exact, **asdict(found)},
        }


def run_application(plan: ApplicationRunPlan, view: RunView) -> RunResult:
    """Run an application until its load is over and processed, and account for every record."""
    broker = find_broker(plan, view.stage) if plan.source == "kafka" or plan.output_topic else None
    topic = _topic(plan, broker)
    output = _output_topic(plan, broker)
    record = RunRecord(plan.objective)
    with ExitStack() as stack:
        interruption = stack.enter_context(Interruption().watched())
        spark = stack.enter_context(_session(plan, interruption, view))
        # The load begins when the job can read it.
        beginning = plan.folder.begin(plan.identity, lambda: _beginning(broker, topic))
        source = _source(plan, broker, beginning)
        feeder = _feeder(plan, broker, beginning)
        files = ResultFiles(plan.folder.results, plan.form)
        results = ResultSink(files, output)
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
            raise KeyboardInterrupt  # The driver has ended, so nothing can be counted or compared.
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
    spark: SparkSession, plan: ApplicationRunPlan, source: RunSource, files: ResultFiles, books: Bookkeeper
) -> ResultDifferences:
    try:
        return check_run(spark, plan.application, source, files, books.accounts)
    except PySparkException as error:
        raise EngineError(f"the results cannot be compared: {str(error).splitlines()[0]}") from error


def _topic(plan: ApplicationRunPlan, broker: Broker | None) -> str | None:
    """Return the topic of the source, created if needed; ``None`` for an embedded source."""
    if plan.source == "embedded" or broker is None:
        return None
    before = plan.folder.begun(plan.identity)
    own = f"{plan.application.name}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    topic = (before and before.topic) or plan.topic or own
    have_topic(plan, broker.bootstrap, topic)
    return topic


def _beginning(broker: Broker | None, topic: str | None) -> Beginning:
    """Return the beginning of a new run."""
    now_s = time.time()
    begin = None if broker is None or topic is None else reached(broker.bootstrap, topic)[0]
    return Beginning(now_s, round(1000 * now_s), topic, begin)


def _source(plan: ApplicationRunPlan, broker: Broker | None, beginning: Beginning) -> RunSource:
    if broker is not None and beginning.topic is not None and beginning.begin is not None:
        return TopicSource(broker.bootstrap, beginning.topic, beginning.begin)
    assert plan.load is not None
    return EmbeddedSource(plan.load, beginning.started_s, beginning.start_ms, plan.partitions)


def _feeder(plan: ApplicationRunPlan, broker: Broker | None, beginning: Beginning) -> TopicFeeder | None:
    if plan.source == "embedded" or plan.load is None or broker is None or beginning.topic is None:
        return None
    return TopicFeeder(plan.load, broker.bootstrap, beginning.topic, beginning)


def _output_topic(plan: ApplicationRunPlan, broker: Broker | None) -> ResultTopic | None:
    if plan.output_topic is None or broker is None:
        return None
    if plan.output_topic not in topics(broker.bootstrap):
        create_topic(broker.bootstrap, plan.output_topic, plan.partitions)
    return ResultTopic(broker.bootstrap, plan.output_topic)


# ------------------------------------------------------------------------------------------------------------- session


@contextmanager
def _session(plan: ApplicationRunPlan, interruption: Interruption, view: RunView) -> Iterator[SparkSession]:
    """Open a session on the given cluster, or on a local cluster for this run."""
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
    plan: ApplicationRunPlan,
    view: RunView,
    record: RunRecord,
    interruption: Interruption,
) -> ManagedRun:
    """Start the query, which is scaled, and restarted after failures."""
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
    plan: ApplicationRunPlan,
    source: RunSource,
    books: Bookkeeper,
    feeder: TopicFeeder | None,
    running: ManagedRun,
    view: RunView,
) -> None:
    """Wait until the load is over and all of its records were read.

    Without a load, wait until the requested time is over and all records that had arrived by then were read.
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


def _available(plan: ApplicationRunPlan, source: RunSource) -> int | None:
    """Return the total number of records; ``None`` if the broker does not answer."""
    if isinstance(source, TopicSource):
        try:
            _, end = reached(source.bootstrap, source.topic)
        except HeadgateError as error:
            logger.warning("how many records there are is not known: %s", error)
            return None
        return records_between(source.begin, end)
    assert plan.load is not None
    return plan.load.schedule.total
