"""The answers of the API, for its documentation: names, types and meanings."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

_SIZES = {"planned": 3, "requested": 3, "ready": 2, "stale": False}
_READING = {"operator": "count", "at_s": 1700000000.0, "arrived": 12000.0, "done": 11900.0, "backlog": 100.0}
_DECIDED = {"at_s": 1700000000.0, "target": 3, "code": "slo-violated", "reason": "latency 14 s is above the 10s bound"}
_OPERATOR: dict[str, Any] = {
    "name": "count",
    "joined": True,
    "heard_s": 1700000000.0,
    "instances": _SIZES,
    "bounds": [1, 8],
    "price": 0.25,
    "reading": _READING,
    "decided": _DECIDED,
}


class ApiModel(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True, extra="forbid")


class Sizes(ApiModel):
    planned: int
    """The target of the last decision."""
    requested: int
    ready: int
    """What can take work now."""
    stale: bool
    """Nothing newer is known."""


class Decided(ApiModel):
    at_s: float
    target: int
    code: str
    reason: str


class OperatorView(ApiModel):
    model_config = ConfigDict(json_schema_extra={"examples": [_OPERATOR]})
    name: str
    joined: bool
    """Whether its agent reports."""
    reported_s: float | None = Field(alias="heard_s")
    """When its agent reported last."""
    instances: Sizes | None
    bounds: list[int]
    """The fewest and the most instances."""
    price: float | None
    reading: dict[str, Any] | None
    """The newest reading, in the form of the journal; what is not known is not there."""
    decided: Decided | None
    """What was decided last."""


class JobView(ApiModel):
    name: str
    state: str
    """waiting, running, partial or lost."""
    group: str | None
    mode: str
    policy: str
    objective: str
    interval_s: float
    ticks: int
    ticked_s: float | None
    """When it was decided on last."""
    paused: dict[str, str]
    """Operators, or * for all, whose scaling is paused: both, in or out."""
    forced: dict[str, int]
    """Operators whose size is forced."""
    operators: list[OperatorView]
    streams: list[list[str]]
    shadows: list[str]


class StateView(BaseModel):
    """What was seen and decided last, in the form of the journal."""

    model_config = ConfigDict(extra="allow")
    ticks: int
    joined: list[str]
    observation: dict[str, Any] | None
    decision: dict[str, Any] | None


class ObjectiveView(ApiModel):
    objective: str = Field(examples=["latency p95 < 10s"])
    operators: dict[str, str]
    """The objective of each operator."""
    bounds: dict[str, list[int]]
    prices: dict[str, float]


class BudgetView(ApiModel):
    operators: dict[str, dict[str, Any] | None]
    """The error budget of each operator, as headgate explain shows it; null while nothing is known."""
    spending: dict[str, Any] | None


class ReadingsView(ApiModel):
    operator: str | None
    readings: list[dict[str, Any]]
    """Observations in the form of the journal, oldest first."""


class DecisionsView(ApiModel):
    decisions: list[dict[str, Any]]
    """In the form of the journal, oldest first: the policy's reason, its numbers, and what each guard did."""


class EventsView(ApiModel):
    events: list[dict[str, Any]]
    """What happened to the job, oldest first: agents that came and went, policies that changed, failures."""


class SettingView(ApiModel):
    name: str
    type: str
    default: Any
    allowed: str
    help: str


class PolicyView(ApiModel):
    name: str
    summary: str
    settings: list[SettingView]


class JobPolicyView(ApiModel):
    policy: str
    settings: dict[str, Any]
    guards: dict[str, Any]
    shadows: list[str]


class ChangeView(ApiModel):
    """A change in force: it holds in place of what the file says."""

    job: str
    kind: str
    """pause, size, mode, period, policy, bounds or objective."""
    name: str
    """Of the operator or the period; empty where there can be one of its kind only."""
    body: dict[str, Any]
    at_s: float
    until_s: float | None
    who: str
    why: str


class AuditEntry(ApiModel):
    number: int
    at_s: float
    who: str
    job: str
    """Empty where it is about the service itself."""
    what: str
    why: str
    before: Any
    after: Any


class AuditView(ApiModel):
    entries: list[AuditEntry]
    """Oldest first."""


class RulesView(ApiModel):
    rules: str | None
    """As YAML; null where another policy decides."""


class ServiceView(ApiModel):
    version: str
    started_s: float
    now_s: float
    jobs: int
    file: str | None
    file_problem: str | None
    """What is wrong with the newest form of the file; the one before is then still in force."""
    groups: list[dict[str, Any]]
    loop_late_s: float
    """How late the newest decision was."""
