"""The one reader of YAML and JSON documents: forms declare the keys, and every mistake has its line and column."""

from headgate.documents.form import (
    Document,
    DocumentError,
    Form,
    Mistake,
    Problem,
    json_schema,
    key,
    parse,
    read,
    read_text,
)
from headgate.documents.nodes import Position

__all__ = [
    "Document",
    "DocumentError",
    "Form",
    "Mistake",
    "Position",
    "Problem",
    "json_schema",
    "key",
    "parse",
    "read",
    "read_text",
]
