"""The form of a pipeline file, its schema, and the reading of it."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict

from headgate import documents
from headgate.core.errors import InputError, UnknownNameError
from headgate.core.objective import Objective, Slo, parse_objective, parse_slo
from headgate.core.plugins import DEFAULT_POLICY
from headgate.documents import Form, Mistake, key, nodes
from headgate.documents.form import Mistakes
from headgate.documents.values import (
    COUNT,
    DURATION,
    NAME,
    NOT_NEGATIVE,
    TEXT,
    AtLeastOne,
    ByName,
    Count,
    Duration,
    Name,
    NotNegative,
    Plain,
    PositiveDuration,
    Value,
    ValueIn,
    Whole,
    bounds,
    one_of,
    only_version,
)
from headgate.lab.own_job import functions_of
from headgate.pipelines.model import DEFAULT_INTERVAL_S, DEFAULT_PARTITIONS, DEFAULT_TRIGGER_S, Build, Job, Pipeline
from headgate.policies.frame.base import policy_class
from headgate.workloads.load import Load

VERSION = 1
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_FUNCTION = re.compile(r"(?P<module>[A-Za-z_][\w.]*):(?P<function>[A-Za-z_]\w*)")


@dataclass(frozen=True)
class _PipelineReading:
    """What is known while a file is read."""

    path: Path
    applications: Collection[str]


# ---------------------------------------------------------------------------------------------------- the single values


def _parse_topic(text: str) -> str:
    if not _TOPIC.fullmatch(text) or text in (".", ".."):
        raise InputError(f"topic {text!r} is not usable; letters, digits, '.', '_' and '-' are, 249 at most.")
    return text


def find_build(text: str, folder: Path) -> Build:
    """The function that ``module:function`` names, without running it; modules in the folder come first."""
    match = _FUNCTION.fullmatch(text)
    if match is None:
        raise InputError(f"found {text!r}, expected module:function.")
    module, function = match["module"], match["function"]
    own = folder / Path(*module.split(".")).with_suffix(".py")
    file = own if own.is_file() else _installed(module)
    if file is None:
        raise InputError(f"there is no module {module!r}: neither {own}, nor one that Python finds.")
    known = functions_of(file)
    if function not in known:
        raise UnknownNameError(f"function of {file.name}", function, known)
    return Build(module, function, own if file == own else None)


def _installed(module: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    found = None if spec is None or spec.origin is None else Path(spec.origin)
    return found if found is not None and found.suffix == ".py" else None


def _application(name: str, reading: _PipelineReading) -> str:
    return one_of("application", reading.applications)(name)


_TOPIC_SCHEMA = {"type": "string", "pattern": r"^[A-Za-z0-9._-]{1,249}$"}
Topic = Annotated[str, Value(_parse_topic, _TOPIC_SCHEMA)]
Range = Annotated[tuple[int, int], bounds(1, "[1, 4]", ordered=True)]
Application = Annotated[str, ValueIn(_application, {"type": "string"})]
Function = Annotated[
    Build,
    ValueIn(
        lambda text, reading: find_build(text, reading.path.parent),
        {"type": "string", "pattern": r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$"},
    ),
]


def _option(schema: dict[str, Any]) -> Any:
    """Marks an option of the load, which ``Load`` parses."""
    return Value(str, schema)


# ------------------------------------------------------------------------------------------------------------ the forms


class LoadForm(Form[tuple[Load, str]]):
    noun = "load"
    synonyms: ClassVar = {"output": "to", "sink": "to", "duration": "seconds", "rate": "workload", "application": "app"}

    workload: Annotated[str, _option({"type": "string"})] = key(
        "How many records come when, as headgate load has it, such as constant:20.", ...
    )
    to: Topic = key("The topic that gets the records.", ...)
    seconds: Annotated[str, _option(DURATION)] | None = key(
        "How long it lasts, such as 4m; needed where the workload has no end."
    )
    speed: Annotated[str, _option({"type": ["number", "string"]})] | None = key("How many times faster than the clock.")
    app: Annotated[str, _option({"type": "string"})] | None = key("Whose records they are; numbered where not given.")
    keys_: Annotated[str, _option(COUNT)] | None = key("How many different keys records have.", name="keys")
    skew: Annotated[str, _option(NOT_NEGATIVE)] | None = key("How unevenly keys are used; 0 for evenly.")
    seed: Annotated[str, _option({"type": "integer", "minimum": 0})] | None = key("Of the records.")

    def build(self, context: _PipelineReading) -> tuple[Load, str]:
        given = {
            name: value for name, value in self.model_dump(by_alias=True, exclude={"to"}).items() if value is not None
        }
        try:
            load = Load.from_options(given)
            if load.schedule.total < 1:
                raise InputError("it sends no record; at least one is needed.")
        except InputError as error:
            raise Mistake(f"load: {error}", "workload") from error
        return load, self.to


class JobForm(Form[Job]):
    noun = "job"
    synonyms: ClassVar = {
        "slo": "objective",
        "input": "from",
        "inputs": "from",
        "source": "from",
        "reads": "from",
        "output": "to",
        "sink": "to",
        "writes": "to",
        "instances": "executors",
        "bounds": "executors",
        "function": "build",
        "application": "app",
        "cost": "price",
        "conf": "spark",
        "config": "spark",
        "trigger_interval": "trigger",
    }
    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["app"]}, {"required": ["build"]}]})

    app: Application | None = key("One of the known applications; headgate app list shows them.")
    function: Function | None = key(
        "A function of your own, as module:function; a module next to this file is found first.", name="build"
    )
    reads: Annotated[tuple[Topic, ...], AtLeastOne("one topic", single=True)] = key(
        "The topic that it reads, or a list of them.", ..., name="from"
    )
    to: Topic = key("The topic that it writes.", ...)
    executors: Range = key("The fewest and the most executors, such as [1, 4].", (Job.min_executors, Job.max_executors))
    price: NotNegative | None = key("What an executor costs for an hour, in any unit.")
    trigger: Duration = key("Time between two batches, such as 2s; 0s for as soon as possible.", DEFAULT_TRIGGER_S)
    max_records_per_batch: Count | None = key(
        "How many records one batch takes at most; as many as get done in time where not given."
    )
    state_partitions: Range | None = key(
        "The fewest and the most partitions of its state, such as [2, 8]; it grows while it runs."
    )
    objective: Annotated[Slo, Value(parse_slo, TEXT)] | None = key(
        "The objective of this job alone, such as latency p95 < 5s."
    )
    spark: Plain = key("Settings of its Spark session.", {})

    @classmethod
    def mistakes_of_keys(cls, given: nodes.Mapping) -> Iterator[Mistake]:
        if "app" in given and "build" in given:
            yield Mistake("build: found next to app, expected one of them.", "build", at_key=True)
        elif given and not given.keys() & {"app", "build"}:
            yield Mistake(f"app or build is missing in job {given.name}: say what it runs.")

    def build(self, context: _PipelineReading) -> Job:
        if len(set(self.reads)) < len(self.reads):
            raise Mistake("from: found a topic twice, expected each once.", "from")
        if self.to in self.reads:
            message = f"to: found {self.to!r}, which the job also reads; expected another topic."
            raise Mistake(message, "to")
        return Job(
            self.node.name, self.reads, self.to, self.app, self.function, *self.executors, self.price, self.trigger,
            self.max_records_per_batch, self.state_partitions, self.objective, self.spark,
        )  # fmt: skip


class PipelineForm(Form[Pipeline]):
    noun = "a pipeline file"
    synonyms: ClassVar = {"slo": "objective", "operators": "jobs", "applications": "jobs", "stages": "jobs"}
    when_empty = "expected version, objective and jobs"

    version: Annotated[int, only_version(VERSION)] = key("The version of this format.", ...)
    name: Name | None = key("What the pipeline is called in its journal; the file's name where not given.")
    objective: Annotated[Objective, Value(parse_objective, TEXT)] = key(
        "The objective from end to end, such as latency p95 < 30s.", ...
    )
    policy: Annotated[str, Value(lambda text: policy_class(text).name, NAME)] = key(
        "The policy that decides the sizes; headgate policies lists them. autopilot where not given.", DEFAULT_POLICY
    )
    settings: Plain = key("Settings of the policy.", {})
    interval: PositiveDuration = key("Time between two decisions, such as 5s.", DEFAULT_INTERVAL_S)
    seed: Whole = key("Of the policy's randomness.", 0)
    load: LoadForm | None = key("What is sent into the first topic while the pipeline runs.")
    topics: dict[Topic, Count] = key("How many partitions topics have, by name, where it matters.", {})
    jobs: Annotated[dict[Name, JobForm], ByName("at least one job, its name as the key", required=True)] = key(
        "The jobs by name, each a Spark application with executors of its own.", ...
    )

    def build(self, context: _PipelineReading) -> Pipeline:
        jobs = tuple(form.built for form in self.jobs.values())
        load, load_to = (None, None) if self.load is None else self.load.built
        used = dict.fromkeys(name for job in jobs for name in (*job.reads, job.writes))
        used |= {} if load_to is None else {load_to: None}
        mistakes = [*_unfed(jobs, load_to)]
        for name in self.topics.keys() - used:
            message = f"topics: no job reads or writes {name!r}; those that are used: {', '.join(used)}."
            mistakes.append(Mistake(message, "topics", name, at_key=True))
        if mistakes:
            raise Mistakes(mistakes)
        pipeline = Pipeline(
            self.name or re.sub(r"\W+", "-", context.path.stem), context.path, jobs,
            dict.fromkeys(used, DEFAULT_PARTITIONS) | self.topics, self.objective, self.policy, {**self.settings},
            self.interval, load, load_to, self.seed,
        )  # fmt: skip
        try:
            topology = pipeline.topology
        except InputError as error:
            raise Mistake(f"jobs: {error}", "jobs", at_key=True) from error
        try:
            pipeline.objective.prices(topology)
            pipeline.make_policy()
        except InputError as error:
            raise Mistake(str(error), "settings" if "settings" in self.node else "objective") from error
        return pipeline


def _unfed(jobs: tuple[Job, ...], load_to: str | None) -> Iterator[Mistake]:
    """With a load, a topic that nothing writes and the load does not go to would stay empty."""
    if load_to is None:
        return
    if not any(load_to in job.reads for job in jobs):
        yield Mistake(f"to: no job reads {load_to!r}, which the load goes to.", "load", "to")
        return
    fed = {job.writes for job in jobs} | {load_to}
    reported: set[str] = set()
    for job in jobs:
        for index, name in enumerate(job.reads):
            if name not in fed | reported:
                reported.add(name)
                message = f"from: nothing writes {name!r}: neither a job nor the load, which goes to {load_to!r}."
                yield Mistake(message, "jobs", job.name, "from", index)


def read_pipeline(path: Path, applications: Collection[str]) -> Pipeline:
    """The pipeline in a file; ``applications`` are the names that ``app`` may have.

    Raises an ``InputError`` with everything that is wrong.
    """
    return documents.read(documents.read_text(path), PipelineForm, str(path), _PipelineReading(path, applications))


def json_schema() -> dict[str, Any]:
    """The JSON schema of pipeline files.

    >>> json_schema()["required"]
    ['version', 'objective', 'jobs']
    """
    return documents.json_schema(PipelineForm, "A pipeline of Headgate")
