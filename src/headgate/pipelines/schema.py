"""A JSON schema of pipeline files, made of the same keys as the reader, so that editors complete and check them."""

from __future__ import annotations

from typing import Any

from headgate.pipelines.keys import FILE_KEYS, JOB_KEYS, LOAD_KEYS
from headgate.rules.schema import object_schema


def json_schema() -> dict[str, Any]:
    """The schema, as plain data.

    >>> json_schema()["required"]
    ['version', 'objective', 'jobs']
    """
    job = object_schema(JOB_KEYS) | {"oneOf": [{"required": ["app"]}, {"required": ["build"]}]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A pipeline of Headgate",
        **object_schema(FILE_KEYS),
        "$defs": {"job": job, "load": object_schema(LOAD_KEYS)},
    }
