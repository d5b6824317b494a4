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
    """A job as it is handed to a cluster."""

    program: str
    source: FlinkSource
    name: str
    """The name by which the job is found, also after it was submitted again under another id."""
    results: Results = None
    """Where the results go; they are let go where nothing is said."""
    parallelism: int = 1
    max_parallelism: int = 128
    """How many key groups there are: no step can have more instances, ever."""
    cost_ms: float = 0.0
    """What a record takes in the middle of ``slow-middle``, and where ``click-fraud`` reads it."""
    savepoint: str | None = None
    """The savepoint of a job of the same program from which this one continues."""

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
        """Whether steps that can share a thread do; otherwise each has its own instances."""
        return self.program != SLOW_MIDDLE or self.is_split

    @property
    def is_split(self) -> bool:
        """Whether a job has exactly three vertices because its steps begin with different sizes.

        What writes a topic is two operators. They stay together only where chains are allowed, and Flink makes no chain
        of operators that have different sizes: source and sink have one instance, the middle one more than that.
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
        """What Flink does not bring, and is sent along."""
        needed = [*self.source.jars(), *(connector_jars() if isinstance(self.results, TopicResults) else [])]
        return list(dict.fromkeys(needed))

    def settings(self) -> dict[str, object]:
        """In addition to those of the cluster."""
        return {
            "pipeline.name": self.name,
            "pipeline.max-parallelism": self.max_parallelism,
            "pipeline.operator-chaining.enabled": self.is_chained,
            "parallelism.default": max(2, self.parallelism) if self.is_split else self.parallelism,
            # To rescale is to go on from the newest checkpoint, and results are there when one has them.
            "execution.checkpointing.interval": f"{CHECKPOINT_EVERY_S:g}s",
            "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
            "table.local-time-zone": "UTC",
            **({} if self.savepoint is None else {"execution.state-recovery.path": self.savepoint}),
            **self.source.settings(),
        }


def check_results(spark: SparkSession, program: str, records: Path, results: Path) -> ResultDifferences:
    """Compare the results of a job that has ended with those of a batch over its records, one on each line of a file.

    What a job has begun to write, and no checkpoint has, is in files whose names begin with a dot: those do not count.
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
