"""From a pipeline file to the model, with every mistake found in one go, each with its line and column."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from headgate.core.errors import InputError, UnknownNameError, cause_of
from headgate.core.objective import parse_objective
from headgate.core.plugins import DEFAULT_POLICY
from headgate.core.slo import Slo, parse_slo
from headgate.pipelines.functions import find_build
from headgate.pipelines.keys import FILE_KEYS, JOB_KEYS, LOAD_KEYS, MEANT, VERSION
from headgate.pipelines.model import DEFAULT_INTERVAL_S, DEFAULT_PARTITIONS, DEFAULT_TRIGGER_S, Build, Job, Pipeline
from headgate.policies.frame.base import policy_class
from headgate.rules.fields import FieldReader, Fields, number_not_negative, whole_number
from headgate.rules.nodes import Mapping, Node, RuleErrors, Scalar, ScalarKind, Sequence, described
from headgate.rules.yaml_form import yaml_nodes
from headgate.workloads.load import Load

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


def read_pipeline(path: Path, applications: Collection[str]) -> Pipeline:
    """The pipeline in a file; ``applications`` are the names that ``app`` may have.

    Raises an ``InputError`` with everything that is wrong.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {cause_of(error)}.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}.") from error
    return _Reader(path, applications).pipeline(yaml_nodes(text, str(path)))


class _Reader(FieldReader):
    def __init__(self, path: Path, applications: Collection[str]) -> None:
        super().__init__(str(path), MEANT, (FILE_KEYS, JOB_KEYS, LOAD_KEYS))
        self._path = path
        self._applications = applications
        self._topic_nodes: dict[str, Node] = {}

    def pipeline(self, root: Node) -> Pipeline:
        if isinstance(root, Scalar) and root.kind is ScalarKind.NOTHING:
            self._problem(root, "the file is empty; expected version, objective and jobs.")
            raise RuleErrors(self._source, self._problems)
        fields = self._fields(root, "a pipeline file", FILE_KEYS)
        self._version(fields, VERSION)
        jobs = self._jobs(fields)
        load, load_to = self._load(fields)
        objective = self._value(fields, "objective", lambda text: parse_objective(str(text)))
        policy = self._value(fields, "policy", lambda text: policy_class(str(text)).name) or DEFAULT_POLICY
        settings: dict[str, object] = {**self._plain(fields, "settings")}
        interval_s = self._duration(fields, "interval")
        seed = self._value(fields, "seed", lambda text: whole_number(text, 0)) or 0
        topics = self._topics(fields, jobs, load_to)
        name = self._value(fields, "name", lambda text: _named("name", text)) or re.sub(r"\W+", "-", self._path.stem)
        if interval_s == 0:
            self._problem(fields["interval"][1], "interval: found 0 s, expected a time above 0.")
        if self._problems or objective is None:
            raise RuleErrors(self._source, self._problems)
        made = self._made(
            root,
            lambda: Pipeline(
                name,
                self._path,
                jobs,
                topics,
                objective,
                policy,
                settings,
                interval_s or DEFAULT_INTERVAL_S,
                load,
                load_to,
                seed,
            ),
        )
        if made is not None:
            self._checkwhole_number(made, fields, root)
        if made is None or self._problems:
            raise RuleErrors(self._source, self._problems)
        return made

    def _checkwhole_number(self, pipeline: Pipeline, fields: Fields, root: Node) -> None:
        """What can only be seen with all parts together: the graph, and whether the policy can be made."""
        if self._made(fields["jobs"][0], lambda: pipeline.topology, "jobs") is None:
            return
        where = fields["settings"][1] if "settings" in fields else fields["objective"][1]
        self._made(where, lambda: (pipeline.objective.prices(pipeline.topology), pipeline.make_policy()))

    # ------------------------------------------------------------------------------------------------------- the jobs

    def _jobs(self, fields: Fields) -> tuple[Job, ...]:
        if "jobs" not in fields:
            return ()
        node = fields["jobs"][1]
        if not isinstance(node, Mapping) or not node.entries:
            self._problem(node, f"jobs: found {described(node)}, expected at least one job, its name as the key.")
            return ()
        found: dict[str, Job] = {}
        for key, value in node.entries:
            name = self._scalar(key, "a job", lambda text: _named("a job", text))
            if name is None:
                continue
            if name in found:
                self._problem(key, f"{name}: found a second time, expected a name of its own.")
            elif (job := self._job(name, value)) is not None:
                found[name] = job
        return tuple(found.values())

    def _job(self, name: str, node: Node) -> Job | None:
        before = len(self._problems)
        fields = self._fields(node, f"job {name}", JOB_KEYS)
        app = self._value(fields, "app", self._app)
        build = self._value(fields, "build", self._build)
        if "app" in fields and "build" in fields:
            self._problem(fields["build"][0], "build: found app beside it, expected one of them.")
        elif fields and "app" not in fields and "build" not in fields:
            self._problem(node, f"app or build is missing in job {name}: say what it runs.")
        reads, writes = self._read_topics(fields), self._topic_in(fields, "to")
        executors, state = self._range(fields, "executors"), self._range(fields, "state_partitions")
        fewest, most = executors or (Job.min_executors, Job.max_executors)
        price = self._value(fields, "price", number_not_negative)
        trigger_s = self._duration(fields, "trigger")
        most_records = self._value(fields, "max_records_per_batch", lambda text: whole_number(text, 1))
        slo: Slo | None = self._value(fields, "objective", lambda text: parse_slo(str(text)))
        spark = self._plain(fields, "spark")
        if writes is not None and writes in reads:
            self._problem(fields["to"][1], f"to: found {writes!r}, which the job also reads; expected another topic.")
        if len(self._problems) > before or writes is None:
            return None
        return Job(
            name, reads, writes, app, build, fewest, most, price,
            DEFAULT_TRIGGER_S if trigger_s is None else trigger_s, most_records, state, slo, spark,
        )  # fmt: skip

    def _app(self, text: object) -> str:
        if str(text) not in self._applications:
            raise UnknownNameError("application", str(text), self._applications)
        return str(text)

    def _build(self, text: object) -> Build:
        return find_build(str(text), self._path.parent)

    def _range(self, fields: Fields, key: str) -> tuple[int, int] | None:
        """The fewest and the most of something."""
        if key not in fields:
            return None
        node = fields[key][1]
        items = node.items if isinstance(node, Sequence) else ()
        if len(items) != 2:
            self._problem(node, f"{key}: found {described(node)}, expected the fewest and the most, as [1, 4].")
            return None
        fewest, most = (self._scalar(item, key, lambda text: whole_number(text, 1)) for item in items)
        if fewest is None or most is None:
            return None
        if fewest > most:
            self._problem(node, f"{key}: found {fewest} as the fewest and {most} as the most, expected no fewer.")
        return fewest, most

    # ------------------------------------------------------------------------------------------------------- the rest

    def _read_topics(self, fields: Fields) -> tuple[str, ...]:
        if "from" not in fields:
            return ()
        node = fields["from"][1]
        if not isinstance(node, Sequence):
            found = self._topic_in(fields, "from")
            return () if found is None else (found,)
        if not node.items:
            self._problem(node, "from: found an empty list, expected at least one topic.")
        names = [self._topic(item, "from") for item in node.items]
        if len(set(names)) < len(names):
            self._problem(node, "from: found a topic twice, expected each once.")
        return tuple(name for name in names if name is not None)

    def _topic_in(self, fields: Fields, key: str) -> str | None:
        return self._topic(fields[key][1], key) if key in fields else None

    def _topic(self, node: Node, key: str) -> str | None:
        name = self._scalar(node, key, _topic)
        if name is not None:
            self._topic_nodes.setdefault(name, node)
        return name

    def _topics(self, fields: Fields, jobs: tuple[Job, ...], load_to: str | None) -> dict[str, int]:
        used = dict.fromkeys(name for job in jobs for name in (*job.reads, job.writes))
        if load_to is not None:
            used.setdefault(load_to)
        if not self._problems:
            self._refuse_unfed(jobs, load_to)
        partitions = dict.fromkeys(used, DEFAULT_PARTITIONS)
        if "topics" not in fields:
            return partitions
        node = fields["topics"][1]
        if not isinstance(node, Mapping):
            self._problem(node, f"topics: found {described(node)}, expected names with their number of partitions.")
            return partitions
        for key, value in node.entries:
            name = self._scalar(key, "topics", _topic)
            count = self._scalar(value, "topics", lambda text: whole_number(text, 1))
            if name is not None and name not in used and not self._problems:
                listed = ", ".join(used)
                self._problem(key, f"topics: no job reads or writes {name!r}; those that are used: {listed}.")
            elif name is not None and count is not None:
                partitions[name] = count
        return partitions

    def _refuse_unfed(self, jobs: tuple[Job, ...], load_to: str | None) -> None:
        """With a load, what nobody writes and the load does not go to would stay empty."""
        if load_to is None:
            return
        if not any(load_to in job.reads for job in jobs):
            self._problem(self._topic_nodes[load_to], f"to: no job reads {load_to!r}, which the load goes to.")
            return
        fed = {job.writes for job in jobs} | {load_to}
        for name in dict.fromkeys(name for job in jobs for name in job.reads if name not in fed):
            why = f"from: nothing writes {name!r}: neither a job nor the load, which goes to {load_to!r}."
            self._problem(self._topic_nodes[name], why)

    def _load(self, fields: Fields) -> tuple[Load | None, str | None]:
        if "load" not in fields:
            return None, None
        node = fields["load"][1]
        inner = self._fields(node, "load", LOAD_KEYS)
        to = self._topic_in(inner, "to")
        options: dict[str, str] = {}
        for key in inner.keys() - {"to"}:
            value = self._value(inner, key, str)
            if value is not None:
                options[key] = value
        if "workload" not in options:
            return None, to
        load = self._made(inner["workload"][1], lambda: _checked_load(options), "load")
        return load, to


def _checked_load(options: dict[str, str]) -> Load:
    load = Load.from_options(options)
    if load.schedule.total < 1:
        raise InputError("no record comes of it; at least one is needed.")
    return load


def _named(what: str, text: object) -> str:
    if not _NAME.fullmatch(str(text)):
        raise InputError(f"{what} {text!r} is not usable; letters, digits, - and _ are, 63 at most.")
    return str(text)


def _topic(text: object) -> str:
    if not _TOPIC.fullmatch(str(text)) or str(text) in (".", ".."):
        raise InputError(f"topic {text!r} is not usable; letters, digits, '.', '_' and '-' are, 249 at most.")
    return str(text)
