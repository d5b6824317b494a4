"""From a service's file to the model, with every mistake found in one go, each with its line and column."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from headgate.core.arbiter import Pace
from headgate.core.errors import InputError, cause_of
from headgate.core.quota_ledger import NO_LIMIT
from headgate.core.quota_ledger import Quota as ClusterQuota
from headgate.core.units import parse_duration_s
from headgate.journal.retention import Retention
from headgate.local.machine import LOOPBACK
from headgate.policies.frame.settings import make_settings
from headgate.rules.fields import Fields, number_not_negative, whole_number
from headgate.rules.nodes import Node, RuleErrors, Scalar, ScalarKind, described
from headgate.rules.yaml_form import yaml_nodes
from headgate.runtime.prometheus import Prometheus
from headgate.service.config.job_reading import ANY_QUERY, JobReading, integer
from headgate.service.config.keys import (
    ACCESS_KEYS,
    CLUSTER_KEYS,
    FILE_KEYS,
    GROUP_KEYS,
    PROMETHEUS_KEYS,
    TLS_KEYS,
    VERSION,
)
from headgate.service.config.model import (
    DEFAULT_PORT,
    DEFAULT_REQUESTS_PER_S,
    DEFAULT_STORE,
    AccessRules,
    JobSpec,
    Quota,
    ServiceConfig,
    Tls,
)


def read_config(path: Path) -> ServiceConfig:
    """The configuration in a file; raises an ``InputError`` with everything that is wrong."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {cause_of(error)}.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}.") from error
    return _Reader(path).config(yaml_nodes(text, str(path)))


class _Reader(JobReading):
    def config(self, root: Node) -> ServiceConfig:
        if isinstance(root, Scalar) and root.kind is ScalarKind.NOTHING:
            self._problem(root, "the file is empty; expected version and jobs.")
            raise RuleErrors(self._source, self._problems)
        fields = self._fields(root, "a service's file", FILE_KEYS)
        self._version(fields, VERSION)
        groups = self._groups(fields)
        self._prometheus = self._prometheus_of(fields)
        jobs = self._jobs(fields, [group.name for group in groups])
        host, port = self._value(fields, "listen", parse_address) or (LOOPBACK, DEFAULT_PORT)
        store = self._value(fields, "store", lambda text: self._store(str(text))) or self._store(DEFAULT_STORE)
        tls, access = self._tls(fields), self._access(fields)
        cluster, pace = self._cluster(fields), self._value(fields, "pace", parse_pace)
        retention: dict[str, object] = {**self._plain(fields, "retention")}
        if "retention" in fields:
            self._made(fields["retention"][1], lambda: make_settings(Retention, "retention", retention))
        if self._problems:
            raise RuleErrors(self._source, self._problems)
        return ServiceConfig(
            jobs, store, host, port, tls, access, retention, groups, self._path, tuple(self._further_files),
            cluster=cluster, pace=pace,
        )  # fmt: skip

    def _store(self, text: str) -> str:
        """A file of SQLite is seen from the folder of this one."""
        kind, separator, rest = text.partition(":///")
        if kind == "sqlite" and separator and rest:
            return f"sqlite:///{self._path.parent.absolute() / rest}"
        if re.fullmatch(r"postgresql(\+\w+)?://\S+", text):
            return text
        # Not what was found: there may be a password in it.
        raise InputError("expected sqlite:///FILE or postgresql://USER@HOST/DATABASE.")

    def _tls(self, fields: Fields) -> Tls | None:
        if "tls" not in fields:
            return None
        inner = self._fields(fields["tls"][1], "tls", TLS_KEYS)
        certificate, key = (self._value(inner, name, self._readable) for name in TLS_KEYS)
        return None if certificate is None or key is None else Tls(certificate, key)

    def _access(self, fields: Fields) -> AccessRules:
        if "access" not in fields:
            return AccessRules()
        inner = self._fields(fields["access"][1], "access", ACCESS_KEYS)
        rate = self._value(inner, "requests_per_s", lambda text: whole_number(text, 1))
        hosts = self._list(inner, "hosts", lambda node: self._text(node, "hosts", "a name"))
        is_open = self._flag(inner, "open_reading")
        return AccessRules(is_open is not False, rate or DEFAULT_REQUESTS_PER_S, tuple(hosts))

    def _flag(self, fields: Fields, key: str) -> bool | None:
        if key not in fields:
            return None
        node = fields[key][1]
        if isinstance(node, Scalar) and node.kind is ScalarKind.BOOLEAN:
            return node.text.lower() in ("true", "yes", "on")
        self._problem(node, f"{key}: found {described(node)}, expected true or false.")
        return None

    def _groups(self, fields: Fields) -> tuple[Quota, ...]:
        return tuple(self._by_name(fields, "groups", self._group).values())

    def _group(self, name: str, node: Node) -> Quota | None:
        fields = self._fields(node, f"group {name}", GROUP_KEYS)
        return Quota(
            name,
            self._value(fields, "instances", lambda text: whole_number(text, 1)),
            self._value(fields, "cores", number_not_negative),
            self._value(fields, "memory_gb", number_not_negative),
            self._value(fields, "money_per_hour", number_not_negative),
            self._value(fields, "priority", integer) or 0,
        )

    def _cluster(self, fields: Fields) -> ClusterQuota:
        if "cluster" not in fields:
            return NO_LIMIT
        inner = self._fields(fields["cluster"][1], "cluster", CLUSTER_KEYS)
        return ClusterQuota(
            self._value(inner, "instances", lambda text: whole_number(text, 1)),
            self._value(inner, "cores", number_not_negative),
            self._value(inner, "memory_gb", number_not_negative),
            self._value(inner, "money_per_hour", number_not_negative),
        )

    def _prometheus_of(self, fields: Fields) -> Prometheus:
        """A query that stands for all of this Prometheus."""
        if "prometheus" not in fields:
            return ANY_QUERY
        inner = self._fields(fields["prometheus"][1], "prometheus", PROMETHEUS_KEYS)
        url = self._value(inner, "url", lambda text: replace(ANY_QUERY, url=str(text)).url)
        return replace(ANY_QUERY, url=url or ANY_QUERY.url, token_file=self._value(inner, "token_file", self._readable))

    def _jobs(self, fields: Fields, groups: list[str]) -> tuple[JobSpec, ...]:
        return tuple(self._by_name(fields, "jobs", lambda name, node: self._job(name, node, groups)).values())


def parse_pace(text: object) -> Pace:
    """
    >>> parse_pace("20 per 10s")
    Pace(rescales=20, per_s=10.0)
    """
    match = re.fullmatch(r"(\d{1,6})\s+per\s+(\S+)", str(text).strip())
    if match is None:
        raise InputError(f"found {text!r}, expected a number of jobs per time, as 20 per 10s.")
    return Pace(int(match[1]), parse_duration_s(match[2]))


def parse_address(text: object, what: str = "") -> tuple[str, int]:
    """An address and a port; of IPv6 the address stands in brackets.

    >>> parse_address("[::1]:8420")
    ('::1', 8420)
    """
    host, _, port = str(text).rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        found = f"{what} {text!r} is not usable" if what else f"found {text!r}"
        raise InputError(f"{found}, expected an address and a port, as 127.0.0.1:{DEFAULT_PORT}.")
    return host.removeprefix("[").removesuffix("]"), int(port)
