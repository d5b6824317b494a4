"""A JSON schema of the service's file, made of the same keys as the reader, so that editors complete and check it."""

from __future__ import annotations

from typing import Any

from headgate.rules.schema import object_schema
from headgate.service.config.keys import ACCESS_KEYS, FILE_KEYS, GROUP_KEYS, JOB_KEYS, OPERATOR_KEYS, TLS_KEYS


def json_schema() -> dict[str, Any]:
    """The schema, as plain data.

    >>> json_schema()["required"]
    ['version', 'jobs']
    """
    parts = {"tls": TLS_KEYS, "access": ACCESS_KEYS, "group": GROUP_KEYS, "job": JOB_KEYS, "operator": OPERATOR_KEYS}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A service of Headgate",
        **object_schema(FILE_KEYS),
        "$defs": {name: object_schema(keys) for name, keys in parts.items()},
    }
