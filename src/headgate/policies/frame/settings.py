"""Declares settings: each once, with type, unit in the name, bounds, default and help.

Tables in the docs, ``headgate policies`` and error messages are all generated from these declarations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, get_args, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationError,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from headgate.core.errors import InputError, UnknownNameError
from headgate.core.plugins import Functions
from headgate.core.units import parse_duration_s, parse_share


def _readable(parse: Any) -> BeforeValidator:
    def validate(value: object) -> object:
        try:
            return parse(value)
        except InputError as error:
            raise ValueError(str(error)) from error

    return BeforeValidator(validate)


Seconds = Annotated[float, Field(ge=0), _readable(parse_duration_s)]
"""A duration: ``90s``, ``5m`` or a number of seconds."""

PositiveSeconds = Annotated[float, Field(gt=0), _readable(parse_duration_s)]
"""A duration that is not 0."""

Share = Annotated[float, Field(ge=0, le=1), _readable(parse_share)]
"""A share: ``5%`` or ``0.05``."""


@dataclass(frozen=True)
class NameOf:
    """Annotates a text that names a function: built in, of the program, or of another package."""

    functions: Functions[Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._known, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {**handler(schema), "enum": list(self.functions.names)}

    def _known(self, name: str) -> str:
        try:
            self.functions[name]
        except InputError as error:
            raise ValueError(str(error)) from error
        return str(name)


class Settings(BaseModel):
    """The settings of one policy or guard. Every field has a default and a description."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, use_attribute_docstrings=True)


S = TypeVar("S", bound=Settings)


def make_settings(kind: type[S], owner: str, values: Mapping[str, object]) -> S:
    """Make settings from plain values (text included), or raise an error that says in one sentence what is wrong."""
    for key in values:
        if key not in kind.model_fields:
            raise UnknownNameError(f"setting of {owner}", key, kind.model_fields)
    try:
        return kind(**values)
    except ValidationError as error:
        problem = error.errors()[0]
        message = _lower_first(problem["msg"].removeprefix("Value error, "))
        if not problem["loc"]:
            # Each value is fine on its own but not together with the others; such a message names them itself.
            raise InputError(f"{owner} settings do not go together: {message}.") from error
        name = ".".join(str(part) for part in problem["loc"])
        received = values.get(str(problem["loc"][0]), problem["input"])
        if problem["type"] != "value_error":
            message = f"allowed is {_allowed_in_words(kind, str(problem['loc'][0]))}"
        raise InputError(f"{owner} setting {name} {received!r} is not allowed: {message}.") from error


def _allowed_in_words(kind: type[Settings], name: str) -> str:
    """
    >>> class Example(Settings):
    ...     count: Annotated[int, Field(ge=1)] = 1
    >>> _allowed_in_words(Example, "count")
    'a whole number, ≥ 1'
    """
    row = next(row for row in describe_settings(kind) if row["name"] == name)
    types = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "text"}
    kinds = " or ".join(types.get(part, part) for part in row["type"].split(" or "))
    if not row["allowed"]:
        return kinds
    return f"{kinds}, {row['allowed']}" if set(row["allowed"]) & set("≥>≤<") else f"one of {row['allowed']}"


def _lower_first(message: str) -> str:
    return (message[:1].lower() + message[1:]).rstrip(".")


def describe_settings(kind: type[Settings]) -> list[dict[str, Any]]:
    """Return one row per setting: name, type, default, allowed values and help."""
    rows = []
    schema = kind.model_json_schema()
    for name, field in kind.model_fields.items():
        part = schema["properties"][name]
        rows.append(
            {
                "name": name,
                "type": _type_name(field.annotation),
                "default": part.get("default"),
                "allowed": _allowed(schema, part),
                "help": " ".join((field.description or "").split()),
            }
        )
    return rows


def _type_name(annotation: Any) -> str:
    if get_origin(annotation) is Annotated:
        return _type_name(get_args(annotation)[0])
    arguments = [argument for argument in get_args(annotation) if argument is not Ellipsis]
    if get_origin(annotation) in (list, tuple):
        return f"list of {_type_name(arguments[0])}"
    if get_origin(annotation) is dict:
        return f"{_type_name(arguments[1])} by name"
    if arguments:
        return " or ".join("none" if a is type(None) else _type_name(a) for a in arguments)
    return getattr(annotation, "__name__", str(annotation))


def _allowed(schema: dict[str, Any], part: dict[str, Any]) -> str:
    if "$ref" in part:
        part = schema["$defs"][part["$ref"].rsplit("/", 1)[-1]]
    if options := part.get("enum"):
        return ", ".join(str(option) for option in options)
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    sources = [part, *part.get("anyOf", [])]
    return " and ".join(f"{sign} {source[key]:g}" for source in sources for key, sign in signs.items() if key in source)
