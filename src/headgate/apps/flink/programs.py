"""The Flink jobs by name: a file of SQL each, into which source, sink and cost are filled."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template

from pyspark.sql import DataFrame, SparkSession

from headgate.apps.comparison import ResultDifferences, compare
from headgate.apps.contract import StreamingApplication
from headgate.apps.flink.sources import FlinkSource, Results, TopicResults, connector_jars, sink_options, written
from headgate.apps.registry import find_application
from headgate.core.errors import InputError, UnknownNameError

SLOW_MIDDLE = "slow-middle"
PROGRAMS = {
    "click-fraud": "users per address, addresses per user and click-through rate in 60 s",
    "nexmark-1": "every bid with its price in euro",
    "nexmark-3": "auctions of one category by sellers of three states, a join",
    "nexmark-5": "the auctions with most bids in 10 s, every 5 s",
    SLOW_MIDDLE: "three steps that are scaled on their own, of which the middle one takes a chosen time",
}
MOST_KEY_GROUPS = 1 << 15
LONGEST_COST_MS = 10_000.0
CHECKPOINT_EVERY_S = 2


@dataclass(frozen=True)
class SubmittedJob:
    """A job as it is submitted to a cluster."""

    program: str
    source: FlinkSource
    name: str
    """Identifies the job, also after it was submitted again under another id."""
    results: Results = None
    """The sink; by default results are discarded."""
    parallelism: int = 1
    max_parallelism: int = 128
    """The number of key groups, a fixed limit on the instances of a step."""
    cost_ms: float = 0.0
    """Processing time of a record in the middle of ``slow-middle``, and in the source of ``click-fraud``."""
    savepoint: str | None = None
    """A savepoint of the same program from which the job continues."""

    def __post_init__(self) -> None:
        if self.program not in PROGRAMS:
            raise UnknownNameError("Flink application", self.program, PROGRAMS)
        if not 1 <= self.max_parallelism <= MOST_KEY_GROUPS:
            raise InputError(f"{self.max_parallelism} key groups are not possible; 1 to {MOST_KEY_GROUPS} are.")
        if not 1 <= self.parallelism <= self.max_parallelism:
            raise InputError(f"a parallelism of {self.parallelism} is not possible; 1 to {self.max_parallelism} are.")
        if not 0.0 <= self.cost_ms <= LONGEST_COST_MS:
            raise InputError(f"a cost of {self.cost_ms:g} ms is not possible; 0 to {LONGEST_COST_MS:g} are.")

    @property
    def is_chained(self) -> bool:
        """Whether steps that can share a thread do so; otherwise each has its own instances."""
        return self.program != SLOW_MIDDLE or self.is_split

    @property
    def is_split(self) -> bool:
        """Whether a job has exactly three vertices because its steps begin with different sizes.

        A topic's sink consists of two operators, which are chained only if chaining is enabled. Flink never chains
        operators of different sizes: source and sink have a single instance, the middle has more.
        """
        return self.program == SLOW_MIDDLE and isinstance(self.results, TopicResults)

    def sql(self) -> str:
        template = Template(files("headgate.apps.flink").joinpath("sql", f"{self.program}.sql").read_text())
        source, sink = dict(self.source.options()), dict(sink_options(self.results))
        if self.is_split:
            source["scan.parallelism"] = sink["sink.parallelism"] = "1"
        options = {"source": written(source), "sink": written(sink)}
        return template.substitute(options, cost_ms=repr(self.cost_ms))

    def jars(self) -> list[Path]:
        """Return the jars that Flink lacks and that are sent with the job."""
        needed = [*self.source.jars(), *(connector_jars() if isinstance(self.results, TopicResults) else [])]
        return list(dict.fromkeys(needed))

    def settings(self) -> dict[str, object]:
        """Return the settings that are added to those of the cluster."""
        return {
            "pipeline.name": self.name,
            "pipeline.max-parallelism": self.max_parallelism,
            "pipeline.operator-chaining.enabled": self.is_chained,
            "parallelism.default": max(2, self.parallelism) if self.is_split else self.parallelism,
            # A rescale continues from the newest checkpoint, and results are committed with a checkpoint.
            "execution.checkpointing.interval": f"{CHECKPOINT_EVERY_S:g}s",
            "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
            "table.local-time-zone": "UTC",
            **({} if self.savepoint is None else {"execution.state-recovery.path": self.savepoint}),
            **self.source.settings(),
        }


def check_results(spark: SparkSession, program: str, records: Path, results: Path) -> ResultDifferences:
    """Compare the results of a finished job with a batch computation over its records, which are lines of a file.

    Results that are not in a checkpoint are in files whose names begin with a dot; those do not count.
    """
    application = SLOW_MIDDLE_CHECK if program == SLOW_MIDDLE else find_application(program)
    expected = application.run(spark.read.text(str(records)))
    return compare(application, spark.read.schema(expected.schema).json(str(results)), expected)


def _numbered(events: DataFrame) -> DataFrame:
    return events.select("number", "at_ms")


SLOW_MIDDLE_CHECK = StreamingApplication(
    name=SLOW_MIDDLE,
    summary="each record, once",
    document="of our own",
    schema="number BIGINT NOT NULL, at_ms BIGINT NOT NULL",
    results=_numbered,
    keys=("number",),
)
