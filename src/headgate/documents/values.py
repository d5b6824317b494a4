"""The values of documents: what may stand there, how it is read, and what the JSON schema says of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias, TypeVar

from pydantic import AfterValidator, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationError, ValidationInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, core_schema

from headgate.core.errors import InputError, UnknownNameError
from headgate.core.units import parse_date_s, parse_duration_s
from headgate.documents import nodes
from headgate.documents.form import AT_VALUE, UNEXPECTED, UNFIT, Mistake
from headgate.documents.nodes import Scalar, ScalarKind, described

T = TypeVar("T")
Schema: TypeAlias = Mapping[str, Any]
NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}"
NAME: Schema = {"type": "string", "pattern": f"^{NAME_PATTERN}$"}
COUNT: Schema = {"type": "integer", "minimum": 1}
NOT_NEGATIVE: Schema = {"type": "number", "minimum": 0}
TEXT: Schema = {"type": "string", "minLength": 1}
DURATION: Schema = {
    "type": ["string", "number"],
    "pattern": r"^\s*(\d+(\.\d+)?|\.\d+)\s*(ms|s|m|h|d)?\s*$",
    "minimum": 0,
}
PLAIN: Schema = {"type": ["string", "number", "boolean"]}


@dataclass(frozen=True, eq=False)
class Value:
    """Marks a value made of a text or a number by ``parse``, which raises an ``InputError``."""

    parse: Callable[[str], object]
    schema: Schema

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_info_plain_validator_function(self._validate)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return dict(self.schema)

    def _validate(self, node: object, info: ValidationInfo) -> object:
        try:
            return self.made(node, info.context)
        except InputError as error:
            raise _located(error, UNFIT) from error

    def made(self, node: object, context: Any) -> object:
        return self.parsed(self.text(node), context)

    def text(self, node: object) -> str:
        if isinstance(node, str):  # a key
            return node
        if not isinstance(node, Scalar) or node.kind in (ScalarKind.NOTHING, ScalarKind.BOOLEAN):
            raise PydanticCustomError(UNEXPECTED, UNEXPECTED)
        return node.text

    def parsed(self, text: str, context: Any) -> object:
        return self.parse(text)


@dataclass(frozen=True, eq=False)
class ValueIn(Value):
    """The same where ``parse`` needs the context of the reading."""

    parse: Callable[[str, Any], object]  # type: ignore[assignment]

    def parsed(self, text: str, context: Any) -> object:
        return self.parse(text, context)


@dataclass(frozen=True, eq=False)
class TextIn(ValueIn):
    """Marks a value that must be text: a number needs quotes. ``parse`` needs the context of the reading."""

    expected: str = "text"

    def text(self, node: object) -> str:
        if isinstance(node, Scalar) and node.kind is ScalarKind.TEXT:
            return node.text
        quoted = "; put it in quotes" if isinstance(node, Scalar) and not node.is_nothing else ""
        raise InputError(f"found {described(node)}, expected {self.expected}{quoted}.")


@dataclass(frozen=True, eq=False)
class AnyPlain(Value):
    """Marks a plain value, a boolean too, taken as text."""

    def text(self, node: object) -> str:
        if isinstance(node, Scalar) and not node.is_nothing:
            return node.text
        raise InputError(f"found {described(node)}, expected a plain value.")


@dataclass(frozen=True, eq=False)
class AtLeastOne:
    """Marks a list that may not be empty; where ``single`` is set, one item may stand for a list of one."""

    expected: str
    single: bool = False

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._listed, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        listed = {**handler(schema), "minItems": 1}
        return {"oneOf": [listed["items"], listed]} if self.single else listed

    def _listed(self, node: object) -> object:
        if isinstance(node, nodes.Sequence):
            if not node:
                raise PydanticCustomError(UNFIT, _literal(f"found an empty list, expected at least {self.expected}."))
            return node
        return (node,) if self.single else node


class OrText:
    """Marks a form for which a text may stand: that of its main key. The form itself reads it."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"oneOf": [{"type": "string"}, handler(schema)]}


@dataclass(frozen=True, eq=False)
class ByName:
    """Marks forms under names of the user's own; ``empty`` forms may be left out after the name."""

    expected: str
    empty: bool = False
    required: bool = False
    """Whether the schema says that there is at least one."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._named, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        named = handler(schema)
        if self.empty:
            named["additionalProperties"] = {"anyOf": [named["additionalProperties"], {"type": "null"}]}
        return {**named, **({"minProperties": 1} if self.required else {})}

    def _named(self, node: object) -> object:
        if not isinstance(node, nodes.Mapping) or not node:
            message = f"found {described(node)}, expected {self.expected}."
            raise PydanticCustomError(UNFIT, _literal(message))
        return {name: self._with_name(name, value) for name, value in node.items()}

    def _with_name(self, name: str, value: nodes.Node) -> nodes.Node:
        if isinstance(value, Scalar) and value.is_nothing and self.empty:
            value = nodes.Mapping(value.position)
        return value.named(name) if isinstance(value, nodes.Mapping) else value


def checked(check: Callable[[Any], object]) -> AfterValidator:
    """Marks a value that ``check`` may refuse by an ``InputError``, reported without the name of the key."""

    def validate(value: T) -> T:
        try:
            check(value)
        except InputError as error:
            raise _located(error, AT_VALUE) from error
        return value

    return AfterValidator(validate)


def _located(error: InputError, kind: str) -> Exception:
    """The error as pydantic takes it, with the path that a ``Mistake`` has."""
    details = InitErrorDetails(
        type=PydanticCustomError(_literal(kind), _literal(str(error))),
        loc=error.path if isinstance(error, Mistake) else (),
        input=None,
    )
    return ValidationError.from_exception_data("value", [details])


def whole_number(least: int, what: str = "a whole number") -> Callable[[str], int]:
    """A parser of whole numbers from a smallest one on."""

    def parse(text: str) -> int:
        if not text.isdecimal() or len(text) > 9 or int(text) < least:
            raise InputError(f"found {text!r}, expected {what} of at least {least}.")
        return int(text)

    return parse


def parse_not_negative(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise InputError(f"found {text!r}, expected a number that is not negative.")
    return number


def one_of(kind: str, known: Collection[str]) -> Callable[[str], str]:
    """A parser of names of which there are only these."""

    def parse(text: str) -> str:
        if text not in known:
            raise UnknownNameError(kind, text, known)
        return text

    return parse


def _switch(node: object) -> bool:
    if isinstance(node, Scalar) and node.kind is ScalarKind.BOOLEAN:
        return node.text.lower() in ("true", "yes", "on")
    raise InputError(f"found {described(node)}, expected true or false.")


def bounds(least: int, example: str, *, ordered: bool = False) -> NodeValue:
    """Marks the fewest and the most of something, as in ``example``."""
    items = {"type": "integer", "minimum": least}

    def parse(node: object) -> tuple[int, int]:
        if not isinstance(node, nodes.Sequence) or len(node) != 2:
            raise InputError(f"found {described(node)}, expected the fewest and the most, as {example}.")
        found = []
        for index, item in enumerate(node):
            if not isinstance(item, Scalar):
                raise Mistake(f"found {described(item)}, expected a whole number of at least {least}.", index)
            try:
                found.append(whole_number(least)(item.text))
            except InputError as error:
                raise Mistake(str(error), index) from error
        fewest, most = found
        if ordered and fewest > most:
            raise InputError(f"found {fewest} as the fewest and {most} as the most, expected no fewer.")
        return fewest, most

    return NodeValue(parse, {"type": "array", "minItems": 2, "maxItems": 2, "items": items})


@dataclass(frozen=True, eq=False)
class NodeValue(Value):
    """Marks a value made of the node as written."""

    parse: Callable[[object], object]

    def made(self, node: object, context: Any) -> object:
        return self.parse(node)


def only_version(number: int) -> NodeValue:
    """Marks the version of a format, of which there is only one."""

    def parse(node: object) -> int:
        if isinstance(node, Scalar) and (node.kind, node.text) == (ScalarKind.NUMBER, str(number)):
            return number
        raise InputError(f"found {described(node)}, expected {number}, the only version there is.")

    return NodeValue(parse, {"const": number})


def _above_zero(text: str) -> float:
    seconds = parse_duration_s(text)
    if seconds == 0:
        raise InputError("found 0 s, expected a time above 0.")
    return seconds


def parse_name(text: str) -> str:
    """A name that may stand in a path or an address."""
    if not re.fullmatch(NAME_PATTERN, text):
        raise InputError(f"{text!r} is not usable as a name; letters, digits, - and _ are, 63 at most.")
    return text


def parse_integer(text: str) -> int:
    if not re.fullmatch(r"-?\d{1,6}", text):
        raise InputError(f"found {text!r}, expected a whole number.")
    return int(text)


Count: TypeAlias = Annotated[int, Value(whole_number(1), COUNT)]
Whole: TypeAlias = Annotated[int, Value(whole_number(0), {"type": "integer", "minimum": 0})]
NotNegative: TypeAlias = Annotated[float, Value(parse_not_negative, NOT_NEGATIVE)]
Duration: TypeAlias = Annotated[float, Value(parse_duration_s, DURATION)]
"""In seconds."""
PositiveDuration: TypeAlias = Annotated[float, Value(_above_zero, DURATION)]
Date: TypeAlias = Annotated[float, Value(parse_date_s, {"type": "string"})]
"""In seconds since the Unix epoch."""
Integer: TypeAlias = Annotated[int, Value(parse_integer, {"type": "integer"})]
Name: TypeAlias = Annotated[str, Value(parse_name, NAME)]
Switch: TypeAlias = Annotated[bool, NodeValue(_switch, {"type": "boolean"})]
Plain: TypeAlias = dict[str, Annotated[str, AnyPlain(str, PLAIN)]]
"""Plain values by name, as text."""


def _literal(text: str) -> Any:
    return text
