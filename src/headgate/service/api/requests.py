"""Bodies of requests that change a running job, with examples."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from headgate.core.errors import InputError
from headgate.core.units import parse_duration_s

MOST_INSTANCES = 1_000_000
LONGEST_S = 366 * 86400.0

Why = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=500),
    Field(description="For those who wonder later.", examples=["a sale begins at noon"]),
]
Scalar = str | bool | int | float
Settings = Annotated[dict[str, Scalar], Field(max_length=100, examples=[{"scale_in_window_s": "2m"}])]
Count = Annotated[int, Field(ge=0, le=MOST_INSTANCES, examples=[3])]
Operator = Annotated[str, Field(max_length=63, description="One operator, or * for all of them.", examples=["*"])]


def _seconds(value: str | float) -> float:
    """How long something is to last."""
    try:
        lasts_s = parse_duration_s(value)
    except InputError as error:
        raise ValueError(str(error)) from error
    if not 0 < lasts_s <= LONGEST_S:
        raise ValueError(f"{value!r} is not allowed; more than nothing and at most a year is")
    return lasts_s


Lasts = Annotated[str | float, AfterValidator(_seconds), Field(description="Such as 30m.", examples=["30m"])]


class ChangeRequest(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)
    why: Why


class PauseRequest(ChangeRequest):
    direction: Literal["both", "in", "out"] = "both"
    """Pause scaling altogether, only scaling in, or only scaling out."""
    operator: Operator = "*"
    lasts: Lasts | None = None
    """How long; until it is resumed where not given."""


class ResumeRequest(ChangeRequest):
    operator: Operator = "*"


class SizeRequest(ChangeRequest):
    size: Count
    lasts: Lasts
    """How long the size is forced; then the policy decides again."""


class ModeRequest(ChangeRequest):
    mode: Literal["act", "recommend"]
    lasts: Lasts | None = None


class PeriodRequest(ChangeRequest):
    """What holds in a period of the week: forbidden scaling, or sizes."""

    operator: Operator = "*"
    forbid: Literal["scale in", "any scaling"] | None = None
    at_least: Annotated[int, Field(ge=1, le=MOST_INSTANCES)] | None = None
    at_most: Annotated[int, Field(ge=1, le=MOST_INSTANCES)] | None = None
    during: Annotated[list[str], Field(max_length=50, examples=[["* 8-17 * * mon-fri"]])] = []
    """In the manner of cron: minute, hour, day of the month, month, day of the week; always, where there is none."""
    time_zone: Annotated[str, Field(max_length=100, examples=["Europe/Berlin"])] = "UTC"


class PolicyRequest(ChangeRequest):
    policy: Annotated[str, Field(max_length=100, examples=["autopilot"])]
    settings: Settings = {}
    guards: Settings = {}


class SettingsRequest(ChangeRequest):
    """Only those that are named are changed."""

    settings: Settings = {}
    guards: Settings = {}


class BoundsRequest(ChangeRequest):
    instances: Annotated[list[Count], Field(min_length=2, max_length=2, examples=[[1, 8]])]
    """The fewest and the most."""


class ObjectiveRequest(ChangeRequest):
    objective: Annotated[str, Field(max_length=1000, examples=["latency p95 < 5s"])]


class RulesRequest(ChangeRequest):
    rules: Annotated[str, Field(max_length=200_000, examples=["version: 1\nrules: []\n"])]
    """A rule file, as YAML."""


class RevertRequest(ChangeRequest):
    kind: Literal["pause", "size", "mode", "period", "policy", "bounds", "objective"]
    name: Annotated[str, Field(max_length=200, examples=["count"])] = ""
    """Of the operator or the period; empty where there can be one of its kind only."""
