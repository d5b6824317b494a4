"""A form: the pydantic model of one mapping of a document, which reads its keys and makes the object they describe.

A subclass declares a field for each key and turns them into a domain object in ``build``. Reader and JSON schema are
both made of the fields, so they cannot disagree.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
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

from headgate.core.errors import InputError
from headgate.documents import nodes
from headgate.documents.nodes import described, shortened

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
