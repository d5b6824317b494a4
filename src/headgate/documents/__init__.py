"""The one reader of YAML and JSON documents: forms declare the keys, and every mistake has its line and column."""

from headgate.documents.form import Form, Mistake, json_schema, key
from headgate.documents.nodes import Position
from headgate.documents.reader import Document, DocumentError, Problem, parse, read, read_text

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
