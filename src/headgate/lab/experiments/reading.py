"""From an experiment file to the model, with every mistake found in one go, each with its line and column."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

from headgate.core.errors import InputError, UnknownNameError, cause_of
from headgate.core.objective_form import objective_from, objective_to_data
from headgate.core.topology import Topology
from headgate.core.types import JSON
from headgate.lab.experiments.batch_fields import read_batches
from headgate.lab.experiments.keys import (
    BATCH_KEYS,
    FILE_KEYS,
    JOB_KEYS,
    MODELS,
    OBJECTIVE_KEYS,
    POLICY_KEYS,
    VERSION,
    WORKLOAD_KEYS,
)
from headgate.lab.experiments.model import (
    DEFAULT_INTERVAL_S,
    Experiment,
    JobPart,
    LoadPart,
    ObjectivePart,
    PolicyPart,
)
from headgate.lab.experiments.part_reader import PartReader, above_zero
from headgate.lab.experiments.run_case import micro_batch
from headgate.policies.frame.base import Context, guards_for, policy_class
from headgate.rules.fields import Fields, number_not_negative, whole_number
from headgate.rules.nodes import Node, RuleErrors, Scalar, ScalarKind
from headgate.rules.nodes import Sequence as SequenceNode
from headgate.rules.yaml_form import yaml_nodes
from headgate.runtime.model_file import SETTING as MODEL_FILE
from headgate.runtime.model_file import measured_job, policy_with_files
from headgate.runtime.service_rate import parse_service
from headgate.simulation.batch_readings import ReadingMode
from headgate.simulation.micro_batch import MicroBatch, ServiceModel
from headgate.workloads import Workload, parse_workload
from headgate.workloads.composed import end_of, ends_early, notes_of
from headgate.workloads.day_load import DayLoad
from headgate.workloads.parse import workload_files

MOST_CASES = 1_000_000
_ONE_JOB = Topology(("job",))


LeaveOut: TypeAlias = Callable[[str], bool]
"""Says of a workload's text whether it is passed over."""


def read_experiment(path: Path, leave_out: LeaveOut = lambda _: False) -> Experiment:
    """The experiment in a file; raises an ``InputError`` with everything that is wrong."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {cause_of(error)}.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}.") from error
    return _Reader(path, leave_out).experiment(yaml_nodes(text, str(path)))


class _Reader(PartReader):
    def __init__(self, path: Path, leave_out: LeaveOut) -> None:
        super().__init__(path)
        self._leave_out = leave_out
        self._named_jobs: list[tuple[Node, str]] = []

    def experiment(self, root: Node) -> Experiment:
        if isinstance(root, Scalar) and root.kind is ScalarKind.NOTHING:
            self._problem(root, "the file is empty; headgate lab new writes one to start from.")
            raise RuleErrors(self._source, self._problems)
        fields = self._fields(root, "an experiment file", FILE_KEYS)
        self._version(fields, VERSION)
        name = self._name(fields) or re.sub(r"\W+", "-", self._path.stem)
        seconds = self._positive_duration(fields, "seconds")
        interval_s = self._positive_duration(fields, "interval")
        seeds = self._seeds(fields)
        workloads = self._parts(fields, "workloads", lambda node: self._workload(node, seconds))
        objectives = self._parts(fields, "objectives", self._objective)
        jobs = self._parts(fields, "jobs", lambda node: self._job(node, objectives))
        policies = self._parts(fields, "policies", lambda node: self._policy(node, objectives))
        if not self._problems:
            self._check_named_jobs([job.name for job in jobs])
        if self._problems:
            raise RuleErrors(self._source, self._problems)
        found = Experiment(
            name, workloads, jobs, policies, objectives, seeds, interval_s or DEFAULT_INTERVAL_S, self._files
        )
        if len(found) > MOST_CASES:
            self._problem(root, f"this makes {len(found)} cases; at most {MOST_CASES} are run.")
            raise RuleErrors(self._source, self._problems)
        return found

    # ------------------------------------------------------------------------------------------------------- the parts

    def _workload(self, node: Node, usual_s: float | None) -> LoadPart | None:
        before = len(self._problems)
        fields = self._part_fields(node, "a workload", WORKLOAD_KEYS, "workload")
        text = self._value(fields, "workload", str)
        if text is not None and self._leave_out(text):
            return None
        load = self._value(fields, "workload", self._offered)
        name, scale = self._name(fields), self._value(fields, "scale", above_zero)
        seconds = self._positive_duration(fields, "seconds") or usual_s
        jobs = self._jobs_of_workload(fields)
        if load is not None and seconds is None and "seconds" not in fields:
            seconds = end_of(load)
            if seconds is None:
                self._problem(node, f"seconds is missing: {text!r} has no end; say here or for all how long a run is.")
        if len(self._problems) > before or text is None or seconds is None:
            return None
        kind = load.kind if isinstance(load, DayLoad) else None
        notes = () if load is None else (*notes_of(load), *ends_early(load, seconds))
        return LoadPart(name or text, text, seconds, 1.0 if scale is None else scale, jobs, kind, notes)

    def _jobs_of_workload(self, fields: Fields) -> tuple[str, ...] | None:
        if "jobs" not in fields:
            return None
        node = fields["jobs"][1]
        named = self._list(fields, "jobs", self._named_job)
        if isinstance(node, SequenceNode) and (not node.items or len(set(named)) < len(named)):
            self._problem(node, "jobs: found a name twice or none, expected names of jobs that differ.")
        return tuple(named)

    def _named_job(self, node: Node) -> str | None:
        """A name; whether there is such a job is known when all parts are read."""
        name = self._text(node, "jobs", "the name of a job")
        if name is not None:
            self._named_jobs.append((node, name))
        return name

    def _check_named_jobs(self, known: Sequence[str]) -> None:
        for node, name in self._named_jobs:
            if name not in known:
                self._problem(node, f"jobs: {UnknownNameError('job', name, known)}")

    def _offered(self, text: object) -> Workload:
        load = parse_workload(str(text), self._folder)
        for file in workload_files(str(text)):
            self._note_file(file)
        return load

    def _job(self, node: Node, objectives: Sequence[ObjectivePart]) -> JobPart | None:
        before = len(self._problems)
        fields = self._fields(node, "a job", JOB_KEYS)
        if fields and len(fields.keys() & {"rate", "service", "model_file"}) != 1:
            self._problem(node, "a job needs one of rate, service and model_file: say how fast an instance is.")
        rate = self._value(fields, "rate", above_zero)
        batches = self._batches(fields)
        service = self._value(fields, "service", lambda text: parse_service(str(text)))
        if isinstance(service, ServiceModel):
            rate, batches = service.rate_per_s, batches or {}
            if "startup" in fields and service.startup_s is not None:
                self._problem(fields["startup"][0], "startup: found beside startup= in service; once is enough.")
        elif (measured := service or self._value(fields, "model_file", self._in_file)) is not None:
            rate, works = measured
            batches = {**(batches or {}), "speed_up": [list(pair) for pair in works.speed_up]}
        readings = self._value(fields, "readings", _readings) or str(ReadingMode.SPARK)
        name = self._name(fields)
        startup_s, drain_s = self._duration(fields, "startup"), self._duration(fields, "drain")
        spread = self._value(fields, "startup_spread", number_not_negative)
        if len(self._problems) > before or rate is None:
            return None
        told, text = f"{'queue' if batches is None else 'micro-batch'} {rate:g}/s", None
        if isinstance(service, ServiceModel):
            told = text = service.describe()
            startup_s = startup_s if service.startup_s is None else service.startup_s
        elif service is not None:
            told = self._value(fields, "service", str) or told
        found = JobPart(name or told, rate, batches, readings, startup_s or 0.0, spread or 0.0, drain_s or 0.0, text)
        for objective in objectives:
            if self._made(node, partial(found.batches_up_to, objective.max_instances)) is None and text is not None:
                return None
        return found

    def _batches(self, fields: Fields) -> dict[str, JSON] | None:
        """The fields of the micro-batch model that are set; ``None`` for a queue."""
        model = self._value(fields, "model", _model)
        if "batches" not in fields:
            return {} if model == "micro-batch" else None
        node = fields["batches"][1]
        if model == "queue":
            self._problem(fields["batches"][0], "batches: found in a job whose model is queue, expected micro-batch.")
        inner = self._fields(node, "batches", BATCH_KEYS)
        found = read_batches(inner, self._value, self._problem)
        self._made(node, lambda: micro_batch(found), "batches")
        return found

    def _in_file(self, text: object) -> tuple[float, MicroBatch]:
        measured = measured_job(self._folder / str(text))
        self._note_file(str(text))
        return measured

    def _objective(self, node: Node) -> ObjectivePart | None:
        before = len(self._problems)
        fields = self._part_fields(node, "an objective", OBJECTIVE_KEYS, "objective")
        asked = self._value(fields, "objective", lambda text: objective_from(str(text)))
        name = self._name(fields)
        fewest = self._value(fields, "min", lambda text: whole_number(text, 0))
        most = self._value(fields, "max", lambda text: whole_number(text, 1))
        price = self._value(fields, "price", number_not_negative)
        if len(self._problems) > before or asked is None:
            return None
        told = name or str(asked)
        bounds = (asked.min_instances if fewest is None else fewest, asked.max_instances if most is None else most)
        whole = self._made(node, lambda: asked.within(*bounds).priced(price))
        return None if whole is None else ObjectivePart(told, objective_to_data(whole))

    def _policy(self, node: Node, objectives: Sequence[ObjectivePart]) -> PolicyPart | None:
        before = len(self._problems)
        fields = self._part_fields(node, "a policy", POLICY_KEYS, "policy")
        policy = self._value(fields, "policy", lambda text: policy_class(str(text)).name)
        name, start = self._name(fields), self._value(fields, "start", lambda text: whole_number(text, 0))
        settings, guards = self._plain(fields, "settings"), self._plain(fields, "guards")
        if len(self._problems) > before or policy is None:
            return None
        found = PolicyPart(name or policy, policy, settings, guards, start)
        for objective in objectives:
            if not self._fits(found, objective, node, fields):
                return None
        return found

    def _fits(self, part: PolicyPart, objective: ObjectivePart, node: Node, fields: Fields) -> bool:
        """Whether the policy can be made for an objective, with its settings, its guards and its size at the start."""
        asked = objective_from(objective.objective)
        if part.start is not None and not asked.min_instances <= part.start <= asked.max_instances:
            bounds = f"{asked.min_instances} to {asked.max_instances}"
            self._problem(
                fields["start"][1], f"start: found {part.start}, but {objective.name!r} allows {bounds} instances."
            )
            return False
        settings: dict[str, object] = {**part.settings}
        where = fields["settings"][1] if "settings" in fields else node
        if MODEL_FILE in part.settings:
            settings[MODEL_FILE] = str(self._folder / part.settings[MODEL_FILE])
        made = self._made(where, lambda: policy_with_files(part.policy, Context(asked, _ONE_JOB), settings))
        if made is None:
            return False
        if MODEL_FILE in part.settings:
            self._note_file(part.settings[MODEL_FILE])
        where = fields["guards"][1] if "guards" in fields else node
        return self._made(where, lambda: guards_for(made, part.guards)) is not None

    # ---------------------------------------------------------------------------------------------------- single values

    def _seeds(self, fields: Fields) -> tuple[int, ...]:
        if "repeats" not in fields:
            return (0,)
        node = fields["repeats"][1]
        if not isinstance(node, SequenceNode):
            count = self._scalar(node, "repeats", lambda text: whole_number(text, 1))
            return tuple(range(count or 1))
        found = [self._scalar(item, "repeats", lambda text: whole_number(text, 0)) for item in node.items]
        seeds = tuple(seed for seed in found if seed is not None)
        if not node.items or len(set(seeds)) < len(seeds):
            self._problem(node, "repeats: found a seed twice or none, expected a number, or seeds that differ.")
        return seeds


def _model(text: object) -> str:
    if str(text) not in MODELS:
        raise UnknownNameError("model", str(text), MODELS)
    return str(text)


def _readings(text: object) -> str:
    known = [str(one) for one in ReadingMode]
    if str(text) not in known:
        raise UnknownNameError("readings", str(text), known)
    return str(text)
