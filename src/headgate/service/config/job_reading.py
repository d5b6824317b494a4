"""The part of a service's file that is about one job."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from headgate.core.errors import InputError, UnknownNameError
from headgate.core.objective import DEFAULT_MAX_INSTANCES, parse_objective
from headgate.core.plugins import DEFAULT_POLICY
from headgate.core.slo import parse_slo
from headgate.engines.agents.mailbox import PER_INSTANCE_METRICS
from headgate.policies.frame.base import AnyPolicy, guards_for, policy_class
from headgate.rules.fields import FieldReader, Fields, number_not_negative, whole_number
from headgate.rules.model import Constraint
from headgate.rules.nodes import Mapping, Node, Scalar, ScalarKind, Sequence, described
from headgate.rules.rules_policy import load_constraints, read_text
from headgate.runtime.metrics import require_metrics
from headgate.runtime.mode import Mode, mode_named
from headgate.runtime.prometheus import Prometheus
from headgate.runtime.shadows import refuse_duplicates
from headgate.service.config.keys import (
    ACCESS_KEYS,
    FILE_KEYS,
    GROUP_KEYS,
    JOB_KEYS,
    MEANT,
    NAME_PATTERN,
    OPERATOR_KEYS,
    PROMETHEUS_KEYS,
    TLS_KEYS,
)
from headgate.service.config.model import DEFAULT_INTERVAL_S, JobSpec, OperatorSpec

T = TypeVar("T")
RULES = "rules"
ANY_QUERY = Prometheus("vector(1)")
_STREAM = re.compile(rf"({NAME_PATTERN})\s*->\s*({NAME_PATTERN})")


class JobReading(FieldReader):
    """Reads jobs; the file around them is read in ``reading.py``."""

    def __init__(self, path: Path) -> None:
        known = (FILE_KEYS, TLS_KEYS, ACCESS_KEYS, GROUP_KEYS, PROMETHEUS_KEYS, JOB_KEYS, OPERATOR_KEYS)
        super().__init__(str(path), MEANT, known)
        self._path = path
        self._prometheus = ANY_QUERY
        """Where metrics of jobs come from."""
        self._further_files: list[Path] = []

    def _by_name(self, fields: Fields, key: str, read: Callable[[str, Node], T | None]) -> dict[str, T]:
        """What stands under a key by name, each read by itself."""
        if key not in fields:
            return {}
        node = fields[key][1]
        if not isinstance(node, Mapping) or not node.entries:
            expected = f"at least one {key.removesuffix('s')}, its name as the key"
            self._problem(node, f"{key}: found {described(node)}, expected {expected}.")
            return {}
        found: dict[str, T] = {}
        for name_node, value in node.entries:
            name = self._scalar(name_node, key, named)
            if name is None:
                continue
            if name in found:
                self._problem(name_node, f"{name}: found a second time, expected a name of its own.")
            elif (made := read(name, value)) is not None:
                found[name] = made
        return found

    def _readable(self, text: object) -> Path:
        """A file that is named, seen from the folder of this one."""
        path = self._path.parent / str(text)
        if not path.is_file():
            raise InputError(f"found {str(text)!r}, expected a file; there is none at {path}.")
        self._further_files.append(path)
        return path

    def _job(self, name: str, node: Node, groups: list[str]) -> JobSpec | None:
        before = len(self._problems)
        fields = self._fields(node, f"job {name}", JOB_KEYS)
        asked = self._value(fields, "objective", lambda text: parse_objective(str(text)))
        operators = tuple(self._by_name(fields, "operators", self._operator).values())
        streams = tuple(self._list(fields, "streams", self._stream))
        group = self._value(fields, "group", lambda text: _known("group", str(text), groups))
        interval_s, every_s = self._duration(fields, "interval"), self._duration(fields, "report_every")
        for key, given_s in (("interval", interval_s), ("report_every", every_s)):
            if given_s == 0:
                self._problem(fields[key][1], f"{key}: found 0 s, expected a time above 0.")
        priority = self._value(fields, "priority", integer)
        mode = self._value(fields, "mode", lambda text: mode_named(str(text))) or Mode.ACT
        seed = self._value(fields, "seed", lambda text: whole_number(text, 0)) or 0
        shadows = tuple(self._list(fields, "shadows", lambda one: self._scalar(one, "shadows", _policy)))
        guards: dict[str, object] = {**self._plain(fields, "guards")}
        policy, settings = self._policy(fields)
        if len(self._problems) > before or asked is None:
            return None
        spec = JobSpec(
            name, operators, asked, streams, policy, settings, guards, (), interval_s or DEFAULT_INTERVAL_S, every_s,
            group, priority, mode, shadows, seed, self._metrics(fields),
        )  # fmt: skip
        return self._whole(spec, fields)

    def _metrics(self, fields: Fields) -> dict[str, Prometheus]:
        """A query of Prometheus for each metric of the user's own."""
        if "metrics" not in fields:
            return {}
        queries = self._plain(fields, "metrics")
        node = fields["metrics"][1]
        made = {
            name: self._made(node, partial(replace, self._prometheus, query=str(query)), f"metrics.{name}")
            for name, query in queries.items()
        }
        return {name: source for name, source in made.items() if source is not None}

    def _whole(self, spec: JobSpec, fields: Fields) -> JobSpec | None:
        """What can only be seen with all parts together: the graph, constraints, and whether policies can be made."""
        where = fields["streams"][1] if "streams" in fields else fields["operators"][1]
        if self._made(where, lambda: spec.topology, "streams") is None:
            return None
        constraints = self._constraints(fields, spec)
        where = fields["settings"][1] if "settings" in fields else fields["objective"][1]
        made = self._made(where, lambda: (spec.objective.prices(spec.topology), spec.make_policy()))
        if made is None or constraints is None:
            return None
        where = fields["rules"][1] if "rules" in fields else where
        self._made(where, lambda: require_metrics(made[1].subscriptions, spec.metrics, PER_INSTANCE_METRICS))
        if "guards" in fields:
            self._made(fields["guards"][1], lambda: guards_for(made[1], spec.guards))
        if spec.shadows:
            node = fields["shadows"][1]
            self._made(node, lambda: _shadows_of(spec))
        return replace(spec, constraints=constraints)

    def _constraints(self, fields: Fields, spec: JobSpec) -> tuple[Constraint, ...] | None:
        if "constraints" not in fields:
            return ()
        path = self._value(fields, "constraints", self._readable)
        if path is None:
            return None
        return self._made(fields["constraints"][1], lambda: load_constraints(path, spec.topology))

    def _policy(self, fields: Fields) -> tuple[str, dict[str, object]]:
        settings: dict[str, object] = {**self._plain(fields, "settings")}
        policy = self._value(fields, "policy", _policy)
        if RULES not in fields:
            return policy or DEFAULT_POLICY, settings
        if policy not in (None, RULES):
            self._problem(fields["rules"][0], f"rules: found policy {policy} beside it, expected policy rules or none.")
        text = self._value(fields, RULES, lambda given: read_text(self._readable(given)))
        return RULES, settings if text is None else {**settings, RULES: text}

    def _operator(self, name: str, node: Node) -> OperatorSpec | None:
        if isinstance(node, Scalar) and node.kind is ScalarKind.NOTHING:
            return OperatorSpec(name)
        before = len(self._problems)
        fields = self._fields(node, f"operator {name}", OPERATOR_KEYS)
        fewest, most = self._bounds(fields) or (1, DEFAULT_MAX_INSTANCES)
        spec = OperatorSpec(
            name,
            fewest,
            most,
            self._value(fields, "price", number_not_negative),
            self._value(fields, "cores", number_not_negative),
            self._value(fields, "memory_gb", number_not_negative),
            self._value(fields, "objective", lambda text: parse_slo(str(text))),
            self._value(fields, "starts", lambda text: whole_number(text, 1)),
        )
        if len(self._problems) == before and self._made(node, lambda: spec.sizing) is None:
            return None
        return spec

    def _bounds(self, fields: Fields) -> tuple[int, int] | None:
        if "instances" not in fields:
            return None
        node = fields["instances"][1]
        if not isinstance(node, Sequence) or len(node.items) != 2:
            self._problem(node, f"instances: found {described(node)}, expected the fewest and the most, as [1, 8].")
            return None
        found = [self._scalar(item, "instances", lambda text: whole_number(text, 0)) for item in node.items]
        fewest, most = found
        return None if fewest is None or most is None else (fewest, most)

    def _stream(self, node: Node) -> tuple[str, str] | None:
        def parsed(text: object) -> tuple[str, str]:
            match = _STREAM.fullmatch(str(text).strip())
            if match is None:
                raise InputError(f"found {text!r}, expected two operators, as parse -> sum.")
            return match[1], match[2]

        return self._scalar(node, "streams", parsed)


def named(text: object) -> str:
    """The name of a job, an operator or a group, which may stand in a path."""
    if not re.fullmatch(NAME_PATTERN, str(text)):
        raise InputError(f"{text!r} is not usable as a name; letters, digits, - and _ are, 63 at most.")
    return str(text)


def integer(text: object) -> int:
    if not re.fullmatch(r"-?\d{1,6}", str(text)):
        raise InputError(f"found {text!r}, expected a whole number.")
    return int(str(text))


def _shadows_of(spec: JobSpec) -> list[AnyPolicy]:
    refuse_duplicates(spec.policy, spec.shadows)
    return spec.make_shadows()


def _known(kind: str, name: str, known: list[str]) -> str:
    if name not in known:
        raise UnknownNameError(kind, name, known)
    return name


def _policy(text: object) -> str:
    return policy_class(str(text)).name
