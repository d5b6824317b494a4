"""Read the configuration file of a service, and give its JSON schema."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import WithJsonSchema

from headgate import documents
from headgate.core.arbiter import Pace
from headgate.core.errors import InputError, UnknownNameError
from headgate.core.objective import DEFAULT_MAX_INSTANCES, Objective, Slo, parse_objective, parse_slo
from headgate.core.plugins import DEFAULT_POLICY
from headgate.core.quota_ledger import NO_LIMIT, Quota
from headgate.core.quotas import QuotaGroup
from headgate.core.topology import Sizing
from headgate.core.units import parse_duration_s
from headgate.documents import Form, Mistake, key, nodes
from headgate.documents.values import (
    NAME,
    NAME_PATTERN,
    TEXT,
    ByName,
    Count,
    Integer,
    Name,
    NotNegative,
    Plain,
    PositiveDuration,
    Switch,
    TextIn,
    Value,
    ValueIn,
    Whole,
    bounds,
    checked,
    only_version,
)
from headgate.engines.agents.mailbox import PER_INSTANCE_METRICS
from headgate.journal.contract import Retention
from headgate.local.machine import LOOPBACK
from headgate.policies.frame.base import guards_for, policy_class
from headgate.policies.frame.settings import make_settings
from headgate.rules.model import Constraint
from headgate.rules.rules_policy import load_constraints, read_text
from headgate.runtime.loop import Mode, mode_named, refuse_duplicates, require_metrics
from headgate.runtime.prometheus import Prometheus
from headgate.service.config.model import (
    DEFAULT_INTERVAL_S,
    DEFAULT_PORT,
    DEFAULT_REQUESTS_PER_S,
    DEFAULT_STORE,
    AccessRules,
    JobSpec,
    OperatorSpec,
    ServiceConfig,
    Tls,
)

VERSION = 1
T = TypeVar("T")
RULES = "rules"
_ANY_QUERY = Prometheus("vector(1)")
_STREAM = re.compile(rf"({NAME_PATTERN})\s*->\s*({NAME_PATTERN})")


@dataclass
class _FileContext:
    """What the forms need to know about the file that is read."""

    path: Path
    groups: list[str]
    prometheus: Prometheus = _ANY_QUERY
    """A query with the address and the token of the file's Prometheus."""
    files: list[Path] = field(default_factory=list)
    """Other files that it names: rules, constraints, certificates."""

    def readable(self, text: str) -> Path:
        """Return the path of a file that this one names, relative to its folder."""
        path = self.path.parent / text
        if not path.is_file():
            raise InputError(f"found {text!r}, expected a file; there is none at {path}.")
        self.files.append(path)
        return path

    def store(self, text: str) -> str:
        """Return the URL of a database; a SQLite file is relative to the folder of this file."""
        kind, separator, rest = text.partition(":///")
        if kind == "sqlite" and separator and rest:
            return f"sqlite:///{self.path.parent.absolute() / rest}"
        if re.fullmatch(r"postgresql(\+\w+)?://\S+", text):
            return text
        # The message does not quote the URL, which may contain a password.
        raise InputError("expected sqlite:///FILE or postgresql://USER@HOST/DATABASE.")

    def group(self, name: str) -> str:
        if name not in self.groups:
            raise UnknownNameError("group", name, self.groups)
        return name


# ---------------------------------------------------------------------------------------------------- the single values


def parse_pace(text: str) -> Pace:
    """
    >>> parse_pace("20 per 10s")
    Pace(rescales=20, per_s=10.0)
    """
    match = re.fullmatch(r"(\d{1,6})\s+per\s+(\S+)", text.strip())
    if match is None:
        raise InputError(f"found {text!r}, expected a number of jobs per time, as 20 per 10s.")
    return Pace(int(match[1]), parse_duration_s(match[2]))


def parse_address(text: str, what: str = "") -> tuple[str, int]:
    """Return an address and a port; an IPv6 address is written in brackets.

    >>> parse_address("[::1]:8420")
    ('::1', 8420)
    """
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        found = f"{what} {text!r} is not usable" if what else f"found {text!r}"
        raise InputError(f"{found}, expected an address and a port, as 127.0.0.1:{DEFAULT_PORT}.")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _parse_stream(text: str) -> tuple[str, str]:
    match = _STREAM.fullmatch(text.strip())
    if match is None:
        raise InputError(f"found {text!r}, expected two operators, as parse -> sum.")
    return match[1], match[2]


def _parse_url(text: str) -> str:
    return replace(_ANY_QUERY, url=text).url


def _check_retention(given: dict[str, object]) -> None:
    make_settings(Retention, "retention", given)


ReadableFile = Annotated[Path, ValueIn(lambda text, reading: reading.readable(text), TEXT)]
TextOfFile = Annotated[str, ValueIn(lambda text, reading: read_text(reading.readable(text)), TEXT)]
PolicyName = Annotated[str, Value(lambda text: policy_class(text).name, NAME)]
StreamText = Annotated[
    tuple[str, str],
    Value(_parse_stream, {"type": "string", "pattern": f"^{NAME_PATTERN}\\s*->\\s*{NAME_PATTERN}$"}),
]
Queries = Annotated[Plain, WithJsonSchema({"type": "object", "minProperties": 1, "additionalProperties": TEXT})]


# ------------------------------------------------------------------------------------------------------------ the forms


class TlsForm(Form[Tls]):
    noun = "tls"
    synonyms: ClassVar = {"cert": "certificate", "private_key": "key"}

    certificate: ReadableFile = key("A PEM file with the certificate and its chain.", ...)
    key: ReadableFile = key("A PEM file with its private key.", ...)

    def build(self, context: _FileContext) -> Tls:
        return Tls(self.certificate, self.key)


class AccessForm(Form[AccessRules]):
    noun = "access"

    open_reading: Switch = key("Whether clients on this machine may read without a token; true where not given.", True)
    requests_per_s: Count = key(
        "How many requests per second one token, or one address without one, may make.", DEFAULT_REQUESTS_PER_S
    )
    hosts: tuple[Annotated[str, TextIn(lambda text, _: text, TEXT, "a name")], ...] = key(
        "Names by which the service may be called, in addition to those of this machine.", ()
    )

    def build(self, context: _FileContext) -> AccessRules:
        return AccessRules(self.open_reading, self.requests_per_s, self.hosts)


class ClusterForm(Form[Any]):
    noun = "cluster"
    synonyms: ClassVar = {
        "executors": "instances",
        "cpu": "cores",
        "cpus": "cores",
        "memory": "memory_gb",
        "money": "money_per_hour",
    }

    instances: Count | None = key("The most instances that its jobs may have together.")
    cores: NotNegative | None = key("The most cores.")
    memory_gb: NotNegative | None = key("The most memory, in GB.")
    money_per_hour: NotNegative | None = key("The most that its jobs may cost per hour, in the unit of the prices.")

    def build(self, context: _FileContext) -> Quota | QuotaGroup:
        return Quota(self.instances, self.cores, self.memory_gb, self.money_per_hour)


class GroupForm(ClusterForm):
    noun = "group"

    priority: Integer = key("Jobs with a larger number come first when quotas are short; 0 by default.", 0)

    def build(self, context: _FileContext) -> QuotaGroup:
        quota = Quota(self.instances, self.cores, self.memory_gb, self.money_per_hour)
        return QuotaGroup(self.node.name, quota, self.priority)


class PrometheusForm(Form[None]):
    noun = "prometheus"

    url: Annotated[str, Value(_parse_url, TEXT)] = key("Its address; http://127.0.0.1:9090 by default.", _ANY_QUERY.url)
    token_file: ReadableFile | None = key("A file with a bearer token, relative to this one.")

    def build(self, context: _FileContext) -> None:
        context.prometheus = replace(_ANY_QUERY, url=self.url, token_file=self.token_file)


class OperatorForm(Form[OperatorSpec]):
    noun = "operator"
    synonyms: ClassVar = {
        "executors": "instances",
        "bounds": "instances",
        "cost": "price",
        "cpu": "cores",
        "cpus": "cores",
        "memory": "memory_gb",
        "slo": "objective",
    }

    instances: Annotated[tuple[int, int], bounds(0, "[1, 8]")] = key(
        "The fewest and the most instances, such as [1, 8]; 1 to 10 by default.", (1, DEFAULT_MAX_INSTANCES)
    )
    price: NotNegative | None = key("Price of an instance per hour, in any unit.")
    cores: NotNegative | None = key("Cores of an instance, for quotas.")
    memory_gb: NotNegative | None = key("Memory of an instance, in GB, for quotas.")
    objective: Annotated[Slo, Value(parse_slo, TEXT)] | None = key(
        "The objective of this operator alone, such as latency p95 < 5s."
    )
    starts: Count | None = key("Its size at the start, until its agent reports one; the fewest by default.")

    def build(self, context: _FileContext) -> OperatorSpec:
        costs = (self.price, self.cores, self.memory_gb)
        fewest, most = self.instances
        Sizing(fewest, most, self.price)  # refuses impossible bounds
        return OperatorSpec(self.node.name, fewest, most, *costs, self.objective, self.starts)


def _web_address(text: str) -> str:
    if not text.startswith(("https://", "http://")):
        raise InputError(f"found {text!r}, expected an address that begins with https:// or http://.")
    return text


class ServiceJobForm(Form[JobSpec]):
    noun = "job"
    synonyms: ClassVar = {"slo": "objective", "edges": "streams", "params": "settings"}

    objective: Annotated[Objective, Value(parse_objective, TEXT)] = key(
        "The end-to-end objective, such as latency p95 < 10s.", ...
    )
    operators: Annotated[
        dict[Name, OperatorForm], ByName("at least one operator, its name as the key", empty=True, required=True)
    ] = key("The operators, by name; each has an agent.", ...)
    streams: tuple[StreamText, ...] = key("Which operator feeds which, such as parse -> sum.", ())
    policy: PolicyName | None = key(
        "The policy that decides the sizes; headgate policies lists them; autopilot by default."
    )
    settings: Plain = key("Settings of the policy.", {})
    guards: Plain = key("Settings of the guards.", {})
    rules: TextOfFile | None = key("A file of rules, relative to this one; the policy is then rules.")
    constraints: ReadableFile | None = key("A file of constraints, which hold whatever the policy decides.")
    interval: PositiveDuration = key("Time between two decisions; 10s by default.", DEFAULT_INTERVAL_S)
    report_every: PositiveDuration | None = key("How often agents report; half of interval by default.")
    group: Annotated[str, ValueIn(lambda text, reading: reading.group(text), NAME)] | None = key(
        "The group whose quotas apply; none by default."
    )
    priority: Integer | None = key("Priority of this job; that of the group by default.")
    mode: Annotated[Mode, Value(mode_named, {"enum": ["act", "recommend"]})] = key(
        "act, or recommend: decisions are made and journalled, but not applied.", Mode.ACT
    )
    shadows: tuple[PolicyName, ...] = key("Policies that decide on the same readings and never act.", ())
    metrics: Queries = key(
        "Metrics of your own by name, each a query of Prometheus; $operator stands for the operator's name. One under "
        "the name of a reading, such as backlog, replaces the reading of the agents.",
        {},
    )
    seed: Whole = key("Of the policy's randomness.", 0)
    links: dict[str, Annotated[str, Value(_web_address, TEXT)]] = key(
        "Addresses for the job's page by their names, such as runbook or Spark UI.", {}
    )

    def build(self, context: _FileContext) -> JobSpec:
        if self.rules is not None and self.policy not in (None, RULES):
            message = f"rules: found policy {self.policy} as well, expected policy rules or none."
            raise Mistake(message, "rules", at_key=True)
        settings: dict[str, object] = {**self.settings}
        policy = self.policy or DEFAULT_POLICY
        if self.rules is not None:
            policy, settings = RULES, {**settings, RULES: self.rules}
        metrics = {}
        for name, query in self.metrics.items():
            make = lambda query=query: replace(context.prometheus, query=query)  # noqa: E731
            metrics[name] = self._made(make, "metrics", prefix=f"metrics.{name}: ")
        spec = JobSpec(
            self.node.name, tuple(form.built for form in self.operators.values()), self.objective, self.streams,
            policy, settings, {**self.guards}, (), self.interval, self.report_every, self.group, self.priority,
            self.mode, self.shadows, self.seed, metrics, self.links,
        )  # fmt: skip
        return replace(spec, constraints=self._checked(spec))

    def _checked(self, spec: JobSpec) -> tuple[Constraint, ...]:
        """Check all parts together, and return the constraints."""
        topology = self._made(lambda: spec.topology, "streams", "operators", prefix="streams: ")
        constraints = self._made(lambda: load_constraints(self.constraints, topology), "constraints")
        policy = self._made(
            lambda: (spec.objective.prices(spec.topology), spec.make_policy())[1], "settings", "objective"
        )
        subscriptions = policy.subscriptions
        where = ("rules", "settings", "objective")
        self._made(lambda: require_metrics(subscriptions, spec.metrics, PER_INSTANCE_METRICS), *where)
        self._made(lambda: guards_for(policy, spec.guards), "guards")
        self._made(lambda: refuse_duplicates(spec.policy, spec.shadows), "shadows")
        self._made(spec.make_shadows, "shadows")
        return constraints

    def _made(self, make: Callable[[], T], *where: str, prefix: str = "") -> T:
        """Return what ``make`` makes; an error is reported at the first of these keys that is present."""
        try:
            return make()
        except InputError as error:
            at = next(name for name in where if name in self.node)
            raise Mistake(f"{prefix}{error}", at) from error


class ServiceFileForm(Form[ServiceConfig]):
    noun = "a service's file"
    synonyms: ClassVar = {
        "database": "store",
        "url": "store",
        "bind": "listen",
        "address": "listen",
        "port": "listen",
        "quota": "groups",
        "quotas": "groups",
        "pipelines": "jobs",
        "rate_limit": "pace",
    }
    when_empty = "expected version and jobs"

    version: Annotated[int, only_version(VERSION)] = key("The version of this format.", ...)
    store: Annotated[str, ValueIn(lambda text, reading: reading.store(text), TEXT)] | None = key(
        "The database of tokens, changes, audit and journal, such as sqlite:///headgate.db, relative to this file."
    )
    listen: Annotated[tuple[str, int], Value(parse_address, TEXT)] = key(
        "Address and port; 127.0.0.1:8420 by default.", (LOOPBACK, DEFAULT_PORT)
    )
    tls: TlsForm | None = key("The certificate to serve with; plain HTTP without it.")
    access: AccessForm | None = key("Whether reading needs a token, and how many requests are answered.")
    retention: Annotated[Plain, checked(_check_retention)] = key(
        "How long the journal retains each kind of entry, and how large it may get.", {}
    )
    groups: Annotated[dict[Name, GroupForm], ByName("at least one group, its name as the key")] = key(
        "Groups of jobs that share quotas, by name.", {}
    )
    cluster: ClusterForm | None = key("The quota of all jobs together, whatever their group.")
    pace: Annotated[Pace, Value(parse_pace, TEXT)] | None = key(
        "How many jobs may change their size at once, such as 20 per 10s; all by default."
    )
    prometheus: PrometheusForm | None = key("The Prometheus that metrics of jobs come from.")
    jobs: Annotated[dict[Name, ServiceJobForm], ByName("at least one job, its name as the key", required=True)] = key(
        "The jobs by name.", ...
    )

    def build(self, context: _FileContext) -> ServiceConfig:
        return ServiceConfig(
            tuple(form.built for form in self.jobs.values()),
            self.store or context.store(DEFAULT_STORE),
            *self.listen,
            None if self.tls is None else self.tls.built,
            AccessRules() if self.access is None else self.access.built,
            self.retention,
            tuple(form.built for form in self.groups.values()),
            context.path,
            tuple(context.files),
            NO_LIMIT if self.cluster is None else self.cluster.built,
            self.pace,
        )


def read_config(path: Path) -> ServiceConfig:
    """Return the configuration in a file; an ``InputError`` lists everything that is wrong with it."""
    document = documents.parse(documents.read_text(path), str(path))
    groups = document.root.get("groups") if isinstance(document.root, nodes.Mapping) else None
    return document.read(ServiceFileForm, _FileContext(path, list(groups) if isinstance(groups, nodes.Mapping) else []))


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of a service's file.

    >>> json_schema()["required"]
    ['version', 'jobs']
    """
    return documents.json_schema(ServiceFileForm, "A service of Headgate")
