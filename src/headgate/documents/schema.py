"""The JSON schema of a form, for editors that complete and check documents."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from headgate.documents.form import Form


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
    """The schema of a document as plain data."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        **form.model_json_schema(schema_generator=_SchemaOfForms),
    }
