"""A form: the pydantic model of one mapping of a document, which reads its keys and makes the object they describe.

A subclass declares a field for each key and turns them into a domain object in ``build``. Reader and JSON schema are
both made of the fields, so they cannot disagree. ``read`` parses a text, validates it by a form, and gives every
mistake its line and column.
"""

from __future__ import annotations

import difflib
import io
import json
import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError, core_schema
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, MarkedYAMLWarning, YAMLError, YAMLWarning
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

from headgate.core.errors import InputError, cause_of
from headgate.documents import nodes
from headgate.documents.nodes import Node, Position, Scalar, ScalarKind, described, shortened

T = TypeVar("T")
AT_KEY, AT_VALUE = "at key", "at value"
"""Types of errors whose message is complete: the position is that of the key or of the value at their location."""
UNFIT, UNEXPECTED = "unfit", "unexpected"
"""Types of errors of values: with a message of their own, or to be described by the help of the key."""
_NAMES_AND_VALUES = "expected names and values"
_STRUCTURES = {
    "tuple_type": "expected a list, each item after a dash",
    "list_type": "expected a list, each item after a dash",
    "dict_type": _NAMES_AND_VALUES,
}


def key(description: str, default: Any = None, name: str | None = None) -> Any:
    """One key of a form, optional unless the default is ``...``; ``name`` where the key is a word of Python."""
    return Field(default=default, description=description, alias=name)


class Mistake(InputError):
    """What is wrong with a value, or with a key, of a form; ``path`` leads there from the form."""

    def __init__(self, message: str, *path: str | int, at_key: bool = False) -> None:
        super().__init__(message)
        self.path = path
        self.at_key = at_key


class Mistakes(InputError):
    """Several mistakes of one form."""

    def __init__(self, mistakes: Iterable[Mistake]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__(" ".join(map(str, self.mistakes)))


class Form(BaseModel, Generic[T]):
    """Reads a mapping; see the module."""

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)
    noun: ClassVar[str]
    """What messages call the mapping: ``a rule``; the name of a named mapping is added."""
    synonyms: ClassVar[Mapping[str, str]] = {}
    """Keys of other systems, with the key that has their meaning here."""
    main: ClassVar[str] = ""
    """The key that a text instead of a mapping stands for."""
    when_empty: ClassVar[str] = ""
    """What an empty file is answered with."""

    _built: T = PrivateAttr()
    _node: nodes.Mapping = PrivateAttr()

    @property
    def built(self) -> T:
        return self._built

    @property
    def node(self) -> nodes.Mapping:
        """The mapping as written, with positions."""
        return self._node

    @classmethod
    def mistakes_of_keys(cls, given: nodes.Mapping) -> Iterable[Mistake]:
        """Mistakes in the combination of keys, found whether or not their values are right."""
        return ()

    def build(self, context: Any) -> T:
        """The object that the form describes; an ``InputError`` is reported at the form, a ``Mistake`` at its path."""
        raise NotImplementedError

    @classmethod
    def fields_by_key(cls) -> dict[str, FieldInfo]:
        return {field.alias or name: field for name, field in cls.model_fields.items()}

    @model_validator(mode="wrap")
    @classmethod
    def _read(cls, given: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo) -> Self:
        if cls.main and isinstance(given, nodes.Scalar) and given.kind is nodes.ScalarKind.TEXT:
            given = nodes.Mapping.single(cls.main, given)
        if not isinstance(given, nodes.Mapping):
            listed = ", ".join(cls.fields_by_key())
            message = f"found {described(given)}, expected {cls.noun} with keys such as {listed}."
            raise PydanticCustomError(AT_VALUE, _literal(message))
        mistakes = [_details(mistake) for mistake in cls.mistakes_of_keys(given)]
        form: Self | None = None
        try:
            form = handler(given)
        except ValidationError as error:
            explained = (cls._explained(found, given) for found in error.errors(include_url=False))
            mistakes += [details for details in explained if details is not None]
        if form is not None and not mistakes:
            mistakes = form.finish(given, info.context)
        if form is None or mistakes:
            raise ValidationError.from_exception_data(cls.__name__, mistakes)
        return form

    def finish(self, node: nodes.Mapping, context: Any) -> list[InitErrorDetails]:
        """Build the object, once all keys and values are right; gives the mistakes that this finds."""
        self._node = node
        try:
            self._built = self.build(context)
        except Mistakes as several:
            return [_details(mistake) for mistake in several.mistakes]
        except InputError as error:
            return [_details(error)]
        return []

    @classmethod
    def _explained(cls, error: ErrorDetails, given: nodes.Mapping) -> InitErrorDetails | None:
        """An error of this form or of a part of it with its whole message; ``None`` where it was reported already."""
        kind, path = error["type"], error["loc"]
        if kind in (AT_KEY, AT_VALUE):
            return _error(kind, error["msg"], path)
        name = str(path[0])
        if kind == "extra_forbidden":
            return _error(AT_KEY, cls._unknown_key(name, given), path)
        help_text = _lower_first(cls.fields_by_key()[name].description or "")
        if kind == "missing":
            if cls._is_misspelt(name, given):
                return None
            return _error(AT_VALUE, f"{name} is missing in {cls._called(given)}: {help_text}", ())
        if kind == UNFIT:
            message = error["msg"]
        else:
            expected = _STRUCTURES.get(kind, f"expected {help_text.rstrip('.')}")
            message = f"found {described(error['input'])}, {expected}."
        return _error(AT_VALUE, message if message.startswith(f"{name} ") else f"{name}: {message}", path)

    @classmethod
    def _called(cls, given: nodes.Mapping) -> str:
        return f"{cls.noun} {given.name}".rstrip()

    @classmethod
    def _unknown_key(cls, found: str, given: nodes.Mapping) -> str:
        keys = list(cls.fields_by_key())
        plain = found.strip().lower().replace("-", "_").replace(" ", "_")
        close = [plain] if plain in keys else difflib.get_close_matches(plain, keys, n=1, cutoff=0.6)
        likely = close[0] if close else cls.synonyms.get(plain)
        hint = f", did you mean {likely!r}?" if likely else ";"
        return f"unknown key {shortened(found)!r} in {cls._called(given)}{hint} expected one of {', '.join(keys)}."

    @classmethod
    def _is_misspelt(cls, missing: str, given: nodes.Mapping) -> bool:
        """Whether a key that is missing is there under another spelling, which is reported as unknown."""
        for found in given:
            text = found.lower().replace("-", "_")
            if cls.synonyms.get(text) == missing or difflib.SequenceMatcher(None, text, missing).ratio() >= 0.6:
                return True
        return False


def _details(error: InputError) -> InitErrorDetails:
    if isinstance(error, Mistake):
        return _error(AT_KEY if error.at_key else AT_VALUE, str(error), error.path)
    return _error(AT_VALUE, str(error), ())


def _error(kind: str, message: str, path: tuple[str | int, ...]) -> InitErrorDetails:
    return InitErrorDetails(type=PydanticCustomError(_literal(kind), _literal(message)), loc=path, input=None)


def _literal(text: str) -> Any:
    """Text for parameters that pydantic types as literals, so that nobody formats them; these have no fields."""
    return text


def _lower_first(text: str) -> str:
    return f"{text[:1].lower()}{text[1:]}"


class _SchemaOfForms(GenerateJsonSchema):
    """Schemas without what only Python knows: titles of classes, defaults, and ``None`` for keys that are left out."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        """Patterns of names as ``propertyNames``, which refuses all others."""
        described = super().dict_schema(schema)
        for pattern, values in described.pop("patternProperties", {}).items():
            described |= {"propertyNames": {"type": "string", "pattern": pattern}, "additionalProperties": values}
        return described

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        described = super().model_schema(schema)
        return {"required": [], **{name: value for name, value in described.items() if name not in _OF_PYTHON}}

    def normalize_name(self, name: str) -> str:
        return super().normalize_name(name).removesuffix("Form").lower()


_OF_PYTHON = ("title", "description")


def json_schema(form: type[Form[Any]], title: str) -> dict[str, Any]:
    """The JSON schema of a document, for editors that complete and check it."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        **form.model_json_schema(schema_generator=_SchemaOfForms),
    }


MOST_SHOWN = 100


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake and its position."""

    source: str
    position: Position
    message: str

    def __str__(self) -> str:
        return f"{self.source}:{self.position.line}:{self.position.column}: {self.message}"


class DocumentError(InputError):
    """Everything that is wrong with one document, in the order of the lines."""

    def __init__(self, source: str, problems: Iterable[Problem]) -> None:
        self.source = source
        self.problems = tuple(sorted(problems, key=lambda problem: problem.position))
        shown = [str(problem) for problem in self.problems[:MOST_SHOWN]]
        if len(self.problems) > MOST_SHOWN:
            shown.append(f"{source}: and {len(self.problems) - MOST_SHOWN} more.")
        head = [] if len(shown) == 1 else [f"{source} has {len(self.problems)} errors:"]
        super().__init__("\n".join([*head, *shown]))


LONGEST_TEXT = 2_000_000
"""Characters of a document; thousands of rules are shorter."""
_DEEPEST = 50
"""Levels of nesting; a rule file has five."""
_START = Position(1, 1)
_KINDS = {
    "tag:yaml.org,2002:int": ScalarKind.NUMBER,
    "tag:yaml.org,2002:float": ScalarKind.NUMBER,
    "tag:yaml.org,2002:bool": ScalarKind.BOOLEAN,
    "tag:yaml.org,2002:null": ScalarKind.NOTHING,
}
_JSON_TEXT_OR_TAB = re.compile(r'"(?:\\.|[^"\\])*"|\t')


def parse_nodes(text: str, source: str, *, is_json: bool) -> tuple[Node, list[Problem]]:
    """The root of a document and the problems of its keys; text that is not YAML (JSON) is a ``DocumentError``."""
    if len(text) > LONGEST_TEXT:
        raise _problem_at(source, _START, f"the file has {len(text)} characters; at most {LONGEST_TEXT} are read.")
    if is_json:
        text = _checked_json(text, source)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", YAMLWarning)
            root = YAML(pure=True).compose(io.StringIO(text))
    except (MarkedYAMLError, MarkedYAMLWarning) as error:
        mark = error.problem_mark or error.context_mark
        at = _START if mark is None else _position(mark)
        raise _problem_at(source, at, _syntax(error)) from error
    except (YAMLError, YAMLWarning) as error:
        raise _problem_at(source, _position_in(text, error), f"this is not YAML: {_first_line(error)}.") from error
    except RecursionError as error:
        raise _problem_at(source, _START, "this is nested too deeply.") from error
    except (ValueError, TypeError, AttributeError, IndexError, KeyError, NotImplementedError, OverflowError) as error:
        # Defects of the parser itself on input that its author did not foresee.
        raise _problem_at(source, _START, f"this is not YAML: {_first_line(error)}.") from error
    if root is None:
        return Scalar(_START, ScalarKind.NOTHING, ""), []
    converter = _Converter(source)
    return converter.node(root), converter.problems


def _checked_json(text: str, source: str) -> str:
    """JSON as YAML takes it: tabs between values become spaces, so that all columns stay."""
    try:
        json.loads(text, parse_int=str, parse_float=str, parse_constant=str)
    except json.JSONDecodeError as error:
        message = f"this is not JSON: {error.msg[:1].lower()}{error.msg[1:]}."
        raise _problem_at(source, Position(error.lineno, error.colno), message) from error
    except RecursionError as error:
        raise _problem_at(source, _START, "this is nested too deeply.") from error
    return _JSON_TEXT_OR_TAB.sub(lambda match: " " if match.group() == "\t" else match.group(), text)


class _Converter:
    """Converts each parsed node once, however many aliases point to it, so that a small file cannot grow."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._converted: dict[int, Node] = {}
        self.problems: list[Problem] = []

    def node(self, parsed: Any, depth: int = 0) -> Node:
        if id(parsed) not in self._converted:
            self._converted[id(parsed)] = self._convert(parsed, depth)
        return self._converted[id(parsed)]

    def _convert(self, parsed: Any, depth: int) -> Node:
        at = _position(parsed.start_mark)
        if depth > _DEEPEST:  # An alias to itself ends here too.
            raise _problem_at(self._source, at, "this is nested too deeply.")
        if isinstance(parsed, MappingNode):
            return self._mapping(parsed, at, depth + 1)
        if isinstance(parsed, SequenceNode):
            sequence = nodes.Sequence(at)
            sequence.extend(self.node(item, depth + 1) for item in parsed.value)
            return sequence
        assert isinstance(parsed, ScalarNode)
        return Scalar(at, _KINDS.get(str(parsed.tag), ScalarKind.TEXT), parsed.value)

    def _mapping(self, parsed: MappingNode, at: Position, depth: int) -> nodes.Mapping:
        mapping = nodes.Mapping(at)
        for parsed_key, parsed_value in parsed.value:
            key = self.node(parsed_key, depth)
            if isinstance(parsed_value, ScalarNode) and not parsed_value.value and _is_empty(parsed_value):
                # Nothing is written there; the parser would point to the next line.
                value: Node = Scalar(_position(parsed_key.end_mark), ScalarKind.NOTHING, "")
            else:
                value = self.node(parsed_value, depth)
            if not isinstance(key, Scalar):
                self._problem(key.position, f"found {described(key)} as a key, expected text.")
            elif key.text in mapping:
                line = mapping.key_positions[key.text].line
                self._problem(
                    key.position, f"{key.text}: found a second time, expected once; the first is in line {line}."
                )
            else:
                mapping[key.text] = value
                mapping.key_positions[key.text] = key.position
        return mapping

    def _problem(self, at: Position, message: str) -> None:
        self.problems.append(Problem(self._source, at, message))


def _is_empty(parsed: ScalarNode) -> bool:
    return bool(parsed.start_mark.index == parsed.end_mark.index)


def _position(mark: Any) -> Position:
    return Position(mark.line + 1, mark.column + 1)


def _syntax(error: MarkedYAMLError | MarkedYAMLWarning) -> str:
    problem = " ".join(str(error.problem or error.context or "").split())
    if "\\t" in problem or "'\t'" in problem:
        return "this is not YAML: found a tab, expected spaces for indentation."
    context = " ".join(str(error.context).split()) if error.context and error.problem else ""
    hints = {
        "mapping values are not allowed here": "; is there a ':' too much, or a text that needs quotes?",
        "could not find expected ':'": "; is a ':' missing after a key?",
        "expected <block end>": "; is the indentation the same as in the lines around it?",
        "undefined alias": '; a "*" for all operators needs quotes.',
        "while scanning an alias": '; a "*" for all operators needs quotes.',
        "but got '<stream end>'": "; is a quote or a bracket not closed?",
        "found unexpected end of stream": "; is a quote or a bracket not closed?",
    }
    message = f"this is not YAML: {problem}{f' ({context})' if context else ''}"
    hint = next((words for sign, words in hints.items() if sign in message), ".")
    return f"{message}{hint}"


def _position_in(text: str, error: YAMLError | YAMLWarning) -> Position:
    """The position of a character that is not allowed."""
    index = getattr(error, "position", None)
    if not isinstance(index, int):
        return _START
    before = text[:index]
    return Position(before.count("\n") + 1, index - (before.rfind("\n") + 1) + 1)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


def _problem_at(source: str, at: Position, message: str) -> DocumentError:
    return DocumentError(source, [Problem(source, at, message)])


@dataclass(frozen=True)
class Document:
    """A parsed document; ``source`` is what errors call it, such as the file's name."""

    source: str
    root: Node
    problems: tuple[Problem, ...]

    def read(self, form: type[Form[T]], context: object = None) -> T:
        """The object that the document describes; raises a ``DocumentError`` with everything that is wrong."""
        if isinstance(self.root, Scalar) and self.root.is_nothing:
            message = f"the file is empty; {form.when_empty}."
            raise DocumentError(self.source, [Problem(self.source, self.root.position, message)])
        problems = list(self.problems)
        made: Form[T] | None = None
        try:
            made = form.model_validate(self.root, context=context)
        except ValidationError as error:
            problems += [
                Problem(self.source, _locate(self.root, found["loc"], at_key=found["type"] == AT_KEY), found["msg"])
                for found in error.errors(include_url=False, include_input=False)
            ]
        if made is None or problems:
            raise DocumentError(self.source, problems)
        return made.built


def parse(text: str, source: str, *, is_json: bool | None = None) -> Document:
    """A document of YAML, or of JSON: by default, where the source ends in ``.json``."""
    is_json = source.lower().endswith(".json") if is_json is None else is_json
    root, problems = parse_nodes(text, source, is_json=is_json)
    return Document(source, root, tuple(problems))


def read(text: str, form: type[Form[T]], source: str, context: object = None) -> T:
    """The object that a text describes; raises a ``DocumentError`` with everything that is wrong."""
    return parse(text, source).read(form, context)


def read_text(path: Path, what: str = "") -> str:
    """The text of a file; ``what`` is what errors call it before its name."""
    named = f"{what} {path}".lstrip()
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{named} is not text in UTF-8: {error.reason} at byte {error.start}.") from error
    except (OSError, ValueError) as error:
        raise InputError(f"{named} cannot be read: {cause_of(error)}.") from error


def _locate(root: Node, path: tuple[Any, ...], *, at_key: bool) -> Position:
    """The position of the value at a path, or of its key."""
    node, of_key = root, root.position
    for part in path:
        if isinstance(node, nodes.Mapping) and part in node:
            of_key = node.key_positions[part]
            node = node[part]
        elif isinstance(node, nodes.Sequence) and isinstance(part, int):
            node = node[part]
            of_key = node.position
        # Else a single value stands for a list of one, or it is the key itself that is wrong ("[key]").
    return of_key if at_key or path[-1:] == ("[key]",) else node.position
