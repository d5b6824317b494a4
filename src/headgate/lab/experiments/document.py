"""Read experiment files: their forms and their JSON schema."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias

from pydantic import ConfigDict, WithJsonSchema, create_model

from headgate import documents
from headgate.core.errors import InputError, UnknownNameError
from headgate.core.objective import Objective, objective_from, objective_to_data
from headgate.core.topology import Topology
from headgate.core.types import JSON
from headgate.core.units import parse_duration_s
from headgate.documents import Form, Mistake, Position, key, nodes
from headgate.documents.form import Mistakes
from headgate.documents.nodes import Scalar, ScalarKind, described
from headgate.documents.values import (
    COUNT,
    DURATION,
    AtLeastOne,
    Count,
    Date,
    Duration,
    NodeValue,
    NotNegative,
    OrText,
    Plain,
    PositiveDuration,
    Switch,
    TextIn,
    Value,
    ValueIn,
    Whole,
    one_of,
    only_version,
    parse_not_negative,
    whole_number,
)
from headgate.lab.experiments.run_case import (
    DEFAULT_INTERVAL_S,
    ExperimentMatrix,
    JobPart,
    LoadPart,
    ObjectivePart,
    PolicyPart,
    micro_batch,
)
from headgate.policies.frame.base import Context, guards_for, policy_class
from headgate.runtime.model_file import SETTING as MODEL_FILE
from headgate.runtime.model_file import measured_job, parse_service, policy_with_files
from headgate.simulation.batch_readings import ReadingMode
from headgate.simulation.micro_batch import MicroBatch, ServiceModel
from headgate.workloads import Workload, parse_workload
from headgate.workloads.composed import end_of, ends_early, notes_of
from headgate.workloads.day_load import DayLoad
from headgate.workloads.parse import workload_files

VERSION = 1
MODELS = ("queue", "micro-batch")
MOST_CASES = 1_000_000
_ONE_JOB = Topology(("job",))
_LONGEST_NAME = 60
_NAME = {"type": "string", "minLength": 1, "maxLength": _LONGEST_NAME}
_STRING = {"type": "string"}
_PAIRS = {"type": "array", "items": {"type": "array", "minItems": 2, "maxItems": 2, "items": {"type": "number"}}}

LeaveOut: TypeAlias = Callable[[str], bool]
"""Whether to pass over a workload, by its text."""


@dataclass
class ExperimentContext:
    """State while a file is read."""

    path: Path
    leave_out: LeaveOut
    seconds: float | None = None
    """The default length of a run."""
    objectives: list[ObjectivePart] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    """Files read, each with a hash of its content."""
    positions: dict[tuple[str, str], Position] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        return self.path.parent

    def note_file(self, name: str) -> None:
        self.files[name] = content_hash(self.folder / name)

    def refuse_second(self, part: str, name: str, node: nodes.Mapping) -> None:
        """Refuse a name that is in use, because tables identify parts by name."""
        first = self.positions.setdefault((part, name), node.position)
        if first != node.position:
            where = f"the first is in line {first.line}"
            raise InputError(f"{part}: {name!r} is there twice; give this one a name, {where}.")


def content_hash(path: Path) -> str:
    """Return a hash of a file, or of a folder of Parquet parts."""
    found = hashlib.sha256()
    for part in sorted(path.rglob("*.parquet")) if path.is_dir() else [path]:
        found.update(part.read_bytes())
    return found.hexdigest()[:16]


# ---------------------------------------------------------------------------------------------------- the single values


def _parse_name(node: object) -> str:
    if not isinstance(node, Scalar) or not node.text.strip() or len(node.text) > _LONGEST_NAME:
        raise InputError(f"found {described(node)}, expected a text of at most {_LONGEST_NAME} characters.")
    return node.text.strip()


def _parse_positive(text: str) -> float:
    number = parse_not_negative(text)
    if number == 0:
        raise InputError(f"found {text!r}, expected a number above 0.")
    return number


def _parse_seconds(text: str, reading: ExperimentContext) -> float:
    reading.seconds = parse_duration_s(text)
    if reading.seconds == 0:
        raise InputError("found 0 s, expected a time above 0.")
    return reading.seconds


def _parse_seeds(node: object) -> tuple[int, ...]:
    if isinstance(node, Scalar):
        return tuple(range(whole_number(1)(node.text)))
    if not isinstance(node, nodes.Sequence):
        raise InputError(f"found {described(node)}, expected how often each case is run, or seeds.")
    seeds = [whole_number(0)(item.text if isinstance(item, Scalar) else described(item)) for item in node]
    if not seeds or len(set(seeds)) < len(seeds):
        raise InputError("found a seed twice or none, expected a number, or seeds that differ.")
    return tuple(seeds)


def _parse_load(text: str, reading: ExperimentContext) -> tuple[str, Workload | None]:
    """Return a workload's text with the workload, or with ``None`` where it is left out."""
    if reading.leave_out(text):
        return text, None
    load = parse_workload(text, reading.folder)
    for file in workload_files(text):
        reading.note_file(file)
    return text, load


def _parse_model_file(text: str, reading: ExperimentContext) -> tuple[float, MicroBatch]:
    measured = measured_job(reading.folder / text)
    reading.note_file(text)
    return measured


def _parse_pairs(node: object) -> list[list[float]]:
    rows = node if isinstance(node, nodes.Sequence) else ()
    pairs = [_numbers(row) for row in rows]
    if not rows or any(len(pair) != 2 for pair in pairs):
        raise InputError(f"found {described(node)}, expected pairs of numbers, as [[1, 1], [4, 3.2]].")
    return pairs


def _numbers(node: nodes.Node) -> list[float]:
    items = node if isinstance(node, nodes.Sequence) else ()
    texts = [item.text for item in items if isinstance(item, Scalar) and item.kind is ScalarKind.NUMBER]
    return [float(text) for text in texts] if len(texts) == len(items) else []


def _parse_speed_up(node: object) -> list[list[float]]:
    return [[int(count), times] for count, times in _parse_pairs(node)]


Name = Annotated[str, NodeValue(_parse_name, _NAME)]
Positive = Annotated[float, Value(_parse_positive, {"type": "number", "exclusiveMinimum": 0})]
NameOfJob = Annotated[str, TextIn(lambda text, _: text, _NAME, "the name of a job")]
NamesOfJobs = Annotated[
    tuple[NameOfJob, ...], WithJsonSchema({"type": "array", "minItems": 1, "uniqueItems": True, "items": _NAME})
]


# ------------------------------------------------------------------------------------------------------------ the forms


class WorkloadForm(Form[LoadPart | None]):
    noun = "a workload"
    synonyms: ClassVar = {"load": "workload", "duration": "seconds", "label": "name", "factor": "scale"}
    main = "workload"

    workload: Annotated[tuple[str, Any], ValueIn(_parse_load, _STRING)] = key(
        "What arrives, as headgate simulate has it, such as constant:20 or csv:load.csv * 3.", ...
    )
    name: Name | None = key("Its name in tables; its text where not given.")
    seconds: PositiveDuration | None = key("How long a run with it is, such as 2h.")
    scale: Positive = key("How many times as much arrives.", 1.0)
    jobs: NamesOfJobs | None = key("The names of the jobs it is run with; all of them where not given.")

    def build(self, context: ExperimentContext) -> LoadPart | None:
        text, load = self.workload
        if load is None:
            return None
        if self.jobs is not None and (not self.jobs or len(set(self.jobs)) < len(self.jobs)):
            raise Mistake("jobs: found a name twice or none, expected names of jobs that differ.", "jobs")
        seconds = self.seconds or context.seconds or end_of(load)
        if seconds is None:
            raise InputError(f"seconds is missing: {text!r} has no end; say here or for all how long a run is.")
        name = self.name or text
        context.refuse_second("workloads", name, self.node)
        kind = load.kind if isinstance(load, DayLoad) else None
        notes = (*notes_of(load), *ends_early(load, seconds))
        return LoadPart(name, text, seconds, self.scale, self.jobs, kind, notes)


class ExperimentObjectiveForm(Form[ObjectivePart]):
    noun = "an objective"
    synonyms: ClassVar = {
        "slo": "objective",
        "goal": "objective",
        "label": "name",
        "cost": "price",
        "min_instances": "min",
        "max_instances": "max",
    }
    main = "objective"

    objective: Annotated[Objective, Value(objective_from, _STRING)] = key(
        "The objective, such as latency p95 < 10s.", ...
    )
    name: Name | None = key("Its name in tables; its text where not given.")
    min: Whole | None = key("Never fewer instances.")
    max: Count | None = key("Never more instances.")
    price: NotNegative | None = key("What an instance costs for an hour.")

    def build(self, context: ExperimentContext) -> ObjectivePart:
        name = self.name or str(self.objective)
        fewest = self.objective.min_instances if self.min is None else self.min
        most = self.objective.max_instances if self.max is None else self.max
        part = ObjectivePart(name, objective_to_data(self.objective.within(fewest, most).priced(self.price)))
        context.refuse_second("objectives", name, self.node)
        context.objectives.append(part)
        return part


class _BatchesForm(Form[dict[str, JSON]]):
    noun = "batches"

    def build(self, context: ExperimentContext) -> dict[str, JSON]:
        """Return the fields that are set as plain data: durations in seconds, pairs as lists."""
        found: dict[str, JSON] = {name: getattr(self, name) for name in self.node}
        try:
            micro_batch(found)
        except InputError as error:
            raise InputError(f"batches: {error}") from error
        return found


def _batch_keys() -> Iterator[tuple[str, Any]]:
    """Yield a key for each field of the micro-batch model."""
    for of_model in fields(MicroBatch):
        name, default = of_model.name, of_model.default
        if default is MISSING:
            continue
        kind: Any = NotNegative
        if name.endswith("_s"):
            kind = Duration
        elif isinstance(default, tuple):
            parse = _parse_speed_up if name == "speed_up" else _parse_pairs
            kind = Annotated[Any, NodeValue(parse, _PAIRS)]
        elif isinstance(default, bool):
            kind = Switch
        elif name in ("cores", "partitions", "cold_batches"):
            kind = Whole
        usual = "its default where not given" if default in (None, ()) else f"{default} where not given"
        yield name, (kind, key(f"{name} of the micro-batch model; {usual}."))


if TYPE_CHECKING:
    BatchesForm: TypeAlias = _BatchesForm
else:
    BatchesForm = create_model("BatchesForm", __base__=_BatchesForm, **dict(_batch_keys()))


class ExperimentJobForm(Form[JobPart]):
    noun = "a job"
    synonyms: ClassVar = {
        "label": "name",
        "rate_per_s": "rate",
        "service_rate": "rate",
        "micro_batch": "batches",
        "startup_s": "startup",
        "drain_s": "drain",
    }
    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": [name]} for name in ("rate", "service", "model_file")]}
    )

    name: Name | None = key("Its name in tables.")
    rate: Positive | None = key("Records per second that one instance processes.")
    model_file: Annotated[tuple[float, MicroBatch], ValueIn(_parse_model_file, _STRING)] | None = key(
        "A model file of headgate mst, which says the rate and how several add up."
    )
    service: Annotated[Any, Value(parse_service, _STRING)] = key(
        "A service model, by which several instances may add up to less, such as saturating:rate=50,contention=0.05, "
        "or a measured application, such as nexmark-5."
    )
    model: Annotated[str, Value(one_of("model", MODELS), {"enum": list(MODELS)})] | None = key(
        "How the job works: queue or micro-batch."
    )
    batches: BatchesForm | None = key("How micro-batches behave.")
    readings: Annotated[
        str, Value(one_of("readings", [str(kind) for kind in ReadingMode]), {"enum": ["spark", "kafka", "perfect"]})
    ] = key("What is seen of micro-batches: spark, kafka or perfect.", str(ReadingMode.SPARK))
    startup: Duration = key("Time until a new instance can work, such as 30s.", 0.0)
    startup_spread: NotNegative = key("How much start-up times differ: the deviation of their logarithm.", 0.0)
    drain: Duration = key("Time until an instance that has nothing more to do is gone.", 0.0)

    @classmethod
    def mistakes_of_keys(cls, given: nodes.Mapping) -> Iterator[Mistake]:
        if given and len(given.keys() & {"rate", "service", "model_file"}) != 1:
            yield Mistake("a job needs one of rate, service and model_file: say how fast an instance is.")
        model = given.get("model")
        if "batches" in given and isinstance(model, Scalar) and model.text == "queue":
            message = "batches: found in a job whose model is queue, expected micro-batch."
            yield Mistake(message, "batches", at_key=True)

    def build(self, context: ExperimentContext) -> JobPart:
        batches = None if self.batches is None else self.batches.built
        if batches is None and self.model == "micro-batch":
            batches = {}
        startup_s, text = self.startup, None
        if isinstance(self.service, ServiceModel):
            batches, rate = batches or {}, self.service.rate_per_s
            name = text = self.service.describe()
            if self.service.startup_s is not None:
                if "startup" in self.node:
                    message = "startup: found in service as well (startup=); once is enough."
                    raise Mistake(message, "startup", at_key=True)
                startup_s = self.service.startup_s
        else:
            measured = self.service or self.model_file
            if measured is None:
                assert self.rate is not None
                rate = self.rate
            else:
                rate, works = measured
                batches = {**(batches or {}), "speed_up": [list(pair) for pair in works.speed_up]}
            name = f"{'queue' if batches is None else 'micro-batch'} {rate:g}/s"
            if isinstance(written := self.node.get("service"), Scalar):
                name = written.text
        name = self.name or name
        part = JobPart(name, rate, batches, self.readings, startup_s, self.startup_spread, self.drain, text)
        for objective in context.objectives:
            part.batches_up_to(objective.max_instances)
        context.refuse_second("jobs", name, self.node)
        return part


class PolicyForm(Form[PolicyPart]):
    noun = "a policy"
    synonyms: ClassVar = {"label": "name", "params": "settings"}
    main = "policy"

    policy: Annotated[str, Value(lambda text: policy_class(text).name, _STRING)] = key(
        "Which policy; headgate policies lists them.", ...
    )
    name: Name | None = key("Its name in tables; the policy's own name where not given.")
    settings: Plain = key("Settings of the policy.", {})
    guards: Plain = key("Settings of the guards.", {})
    start: Annotated[int, Value(whole_number(0), COUNT)] | None = key(
        "Instances at the start; the fewest allowed where not given."
    )

    def build(self, context: ExperimentContext) -> PolicyPart:
        part = PolicyPart(self.name or self.policy, self.policy, self.settings, self.guards, self.start)
        for objective in context.objectives:
            self._require_fit(objective, context)
        context.refuse_second("policies", part.name, self.node)
        return part

    def _require_fit(self, part: ObjectivePart, context: ExperimentContext) -> None:
        """Refuse settings, guards or a first size that do not fit an objective."""
        objective = objective_from(part.objective)
        if self.start is not None and not objective.min_instances <= self.start <= objective.max_instances:
            bounds = f"{objective.min_instances} to {objective.max_instances}"
            raise Mistake(f"start: found {self.start}, but {part.name!r} allows {bounds} instances.", "start")
        settings: dict[str, object] = {**self.settings}
        if MODEL_FILE in settings:
            settings[MODEL_FILE] = str(context.folder / self.settings[MODEL_FILE])
        try:
            policy = policy_with_files(self.policy, Context(objective, _ONE_JOB), settings)
        except InputError as error:
            raise Mistake(str(error), *self._at("settings")) from error
        if MODEL_FILE in settings:
            context.note_file(self.settings[MODEL_FILE])
        try:
            guards_for(policy, self.guards)
        except InputError as error:
            raise Mistake(str(error), *self._at("guards")) from error

    def _at(self, name: str) -> tuple[str, ...]:
        return (name,) if name in self.node else ()


class ExperimentForm(Form[ExperimentMatrix]):
    noun = "an experiment file"
    synonyms: ClassVar = {
        "slos": "objectives",
        "service_models": "jobs",
        "services": "jobs",
        "loads": "workloads",
        "duration": "seconds",
        "label": "name",
        "seeds": "repeats",
        "runs": "repeats",
    }
    when_empty = "headgate lab new writes one to start from"

    version: Annotated[int, only_version(VERSION)] = key("The version of this format.", ...)
    name: Name | None = key("What the experiment is called; the file's name where not given.")
    seconds: Annotated[float, ValueIn(_parse_seconds, DURATION)] | None = key(
        "How long a run is, such as 2h; needed where a workload has no end."
    )
    workloads: Annotated[tuple[Annotated[WorkloadForm, OrText()], ...], AtLeastOne("one")] = key(
        "What arrives: a list of workloads.", ...
    )
    # Before jobs and policies, which must fit them.
    objectives: Annotated[tuple[Annotated[ExperimentObjectiveForm, OrText()], ...], AtLeastOne("one")] = key(
        "What must be met: a list of objectives.", ...
    )
    jobs: Annotated[tuple[ExperimentJobForm, ...], AtLeastOne("one")] = key(
        "How fast the job is: a list of service models.", ...
    )
    policies: Annotated[tuple[Annotated[PolicyForm, OrText()], ...], AtLeastOne("one")] = key(
        "What decides the sizes: a list of policies.", ...
    )
    repeats: Annotated[
        tuple[int, ...],
        NodeValue(
            _parse_seeds,
            {
                "oneOf": [
                    COUNT,
                    {"type": "array", "minItems": 1, "uniqueItems": True, "items": {"type": "integer", "minimum": 0}},
                ]
            },
        ),
    ] = key("How often each case is run, such as 5; or the seeds, as [0, 7, 8]. Once where not given.", (0,))
    interval: PositiveDuration = key(
        "Time between two decisions, such as 5s, which it is where not given.", DEFAULT_INTERVAL_S
    )
    starts_at: Date = key("The date at which runs begin, such as 2026-11-20 06:00, for what goes by the calendar.", 0.0)

    def build(self, context: ExperimentContext) -> ExperimentMatrix:
        jobs = tuple(form.built for form in self.jobs)
        known = [job.name for job in jobs]
        unknown = [
            Mistake(f"jobs: {UnknownNameError('job', name, known)}", "workloads", index, "jobs", place)
            for index, form in enumerate(self.workloads)
            for place, name in enumerate(form.jobs or ())
            if name not in known
        ]
        if unknown:
            raise Mistakes(unknown)
        experiment = ExperimentMatrix(
            self.name or re.sub(r"\W+", "-", context.path.stem),
            tuple(load for form in self.workloads if (load := form.built) is not None),
            jobs,
            tuple(form.built for form in self.policies),
            tuple(form.built for form in self.objectives),
            self.repeats,
            self.interval,
            context.files,
            self.starts_at,
        )
        if len(experiment) > MOST_CASES:
            raise InputError(f"this makes {len(experiment)} cases; at most {MOST_CASES} are run.")
        return experiment


def read_experiment(path: Path, leave_out: LeaveOut = lambda _: False) -> ExperimentMatrix:
    """Return the experiment in a file; raise an ``InputError`` with all mistakes."""
    return parse_experiment(documents.read_text(path), path, leave_out)


def parse_experiment(text: str, path: Path, leave_out: LeaveOut = lambda _: False) -> ExperimentMatrix:
    """Return the experiment in the text of a file; ``path`` names it in messages, and its folder has other files."""
    return documents.read(text, ExperimentForm, str(path), ExperimentContext(path, leave_out))


def json_schema() -> dict[str, Any]:
    """The JSON schema of experiment files.

    >>> sorted(json_schema()["required"])
    ['jobs', 'objectives', 'policies', 'version', 'workloads']
    """
    return documents.json_schema(ExperimentForm, "An experiment of Headgate")
