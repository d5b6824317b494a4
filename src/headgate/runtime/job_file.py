"""Job files: a Spark job as it is, and how it is to be scaled; ``headgate submit`` runs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

from headgate import documents
from headgate.core.errors import InputError
from headgate.core.objective import Objective, objective_from
from headgate.core.plugins import DEFAULT_POLICY
from headgate.documents import Form, Mistake, key, nodes
from headgate.documents.form import Mistakes
from headgate.documents.values import (
    TEXT,
    Count,
    Duration,
    NodeValue,
    NotNegative,
    Plain,
    PositiveDuration,
    Switch,
    TextIn,
    Value,
    Whole,
    bounds,
    only_version,
)
from headgate.local.spark.cluster import graceful_removal, starting_size
from headgate.policies.frame.base import GuardSettings, PolicyMaker
from headgate.policies.frame.settings import make_settings
from headgate.rules.rules_policy import Rules
from headgate.runtime.assembly import preview_policy
from headgate.runtime.loop import mode_named

VERSION = 1


@dataclass(frozen=True)
class JobFile:
    """A job with what ``autoscale`` is to do for it."""

    script: Path
    arguments: Sequence[str]
    master: str | None
    conf: Mapping[str, str]
    objective: Objective
    policy: str | PolicyMaker
    options: Mapping[str, object] = field(default_factory=dict)
    """Keywords of ``autoscale``."""


def _path(text: str, folder: Path) -> Path:
    """A path, from the folder of the document."""
    return folder / text


def _file(text: str, folder: Path) -> Path:
    path = folder / text
    if not path.is_file():
        raise InputError(f"there is no file {path}.")
    return path


class JobFileForm(Form[JobFile]):
    noun = "a job file"
    synonyms: ClassVar = {"file": "script", "args": "arguments", "name": "job", "slo": "objective", "guard": "guards"}
    when_empty = "expected script: and objective:, such as latency p95 < 10s"

    version: Annotated[int, only_version(VERSION)] = key("The version of this format.", VERSION)
    script: Annotated[Path, TextIn(_file, TEXT)] = key("The PySpark program, from the folder of this file.", ...)
    arguments: list[Annotated[str, Value(str, {"type": ["string", "number"]})]] = key("What is passed to it.", [])
    master: Annotated[str | None, Value(str, TEXT)] = key("The cluster, unless the program or spark-submit names it.")
    conf: Plain = key("Settings of Spark, unless the program sets them itself.", {})
    job: Annotated[str | None, Value(str, TEXT)] = key("Its name in the journal; the application's name by default.")
    objective: Annotated[Any, NodeValue(nodes.plain, {"type": ["string", "object"]})] = key(
        "What is to be met, such as latency p95 < 10s.", ...
    )
    executors: Annotated[tuple[int, int] | None, bounds(1, "[1, 8]", ordered=True)] = key(
        "The fewest and the most executors."
    )
    start: Count | None = key(
        "How many executors it begins with; by default what the cluster gives, on a standalone one all that there are."
    )
    price: NotNegative | None = key("What an executor costs for an hour.")
    policy: Annotated[str | None, Value(str, TEXT)] = key("Who decides; headgate policies lists them.")
    settings: Plain = key("Settings of the policy.", {})
    guards: Plain = key("Settings of the guards.", {})
    rules: Annotated[Path | None, TextIn(_file, TEXT)] = key(
        "A rule file that decides instead; its edits are followed."
    )
    constraints: Annotated[Path | None, TextIn(_file, TEXT)] = key("A rule file of constraints, for any policy.")
    queries: list[Annotated[str, Value(str, TEXT)]] = key("The names of the queries that count; all by default.", [])
    interval: PositiveDuration = key("Time between decisions.", 5.0)
    journal: Annotated[Path | None, TextIn(_path, TEXT)] = key("Keeps what was seen, decided and learned.")
    mode: Annotated[str, Value(lambda text: str(mode_named(text)), {"enum": ["act", "recommend"]})] = key(
        "act, or recommend: everything is decided, and nothing is changed.", "act"
    )
    take_over: Switch = key("Stop Spark's own dynamic allocation instead of refusing it.", False)
    drain_timeout: Duration = key("How long an executor may take to leave.", 30.0)
    metrics_port: Whole | None = key("A port where Prometheus can read how the job fares.")

    def build(self, context: object) -> JobFile:
        try:
            objective = objective_from(self.objective).priced(self.price)
        except InputError as error:
            raise Mistakes([Mistake(str(error), "objective")]) from error
        if self.executors is not None:
            objective = objective.within(*self.executors)
        mistakes = []
        if self.start is not None and objective.clamp(self.start) != self.start:
            bounds_text = f"{max(1, objective.min_instances)} to {objective.max_instances}"
            mistakes.append(Mistake(f"found {self.start} executors; {bounds_text} are allowed.", "start"))
        if self.rules is not None and (self.policy is not None or self.settings):
            mistakes.append(Mistake("rules and policy do not go together; one of them decides.", "rules"))
        policy: str | PolicyMaker = self.policy or DEFAULT_POLICY
        try:
            policy = policy if self.rules is None else Rules.from_file(self.rules)
            preview_policy(policy, objective, self.settings)
        except InputError as error:
            at = "rules" if self.rules is not None else "policy" if self.policy is not None else "objective"
            mistakes.append(Mistake(str(error), at))
        try:
            make_settings(GuardSettings, "guards", self.guards)
        except InputError as error:
            mistakes.append(Mistake(str(error), "guards"))
        if mistakes:
            raise Mistakes(mistakes)
        options: dict[str, object] = {
            "job": self.job,
            "settings": self.settings or None,
            "guards": self.guards or None,
            "constraints": self.constraints,
            "queries": self.queries or None,
            "interval": self.interval,
            "journal": self.journal,
            "mode": self.mode,
            # Spark's own allocation starts the job at its size, and must not act after that.
            "take_over": self.take_over or self.start is not None,
            "drain_timeout": self.drain_timeout,
            "metrics_port": self.metrics_port,
        }
        given = {name: value for name, value in options.items() if value is not None}
        conf = self.conf if self.start is None else starting_size(self.start) | graceful_removal() | self.conf
        return JobFile(self.script, self.arguments, self.master, conf, objective, policy, given)


def read_job_file(path: Path) -> JobFile:
    """Return the job in a file; an ``InputError`` reports everything that is wrong with it."""
    return documents.read(documents.read_text(path, "job file"), JobFileForm, str(path), path.parent)


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of job files."""
    return documents.json_schema(JobFileForm, "headgate job file")
