"""A JSON schema of experiment files, made of the same keys as the reader, so that editors complete and check them."""

from __future__ import annotations

from typing import Any

from headgate.lab.experiments.keys import BATCH_KEYS, FILE_KEYS, JOB_KEYS, OBJECTIVE_KEYS, POLICY_KEYS, WORKLOAD_KEYS
from headgate.rules.schema import object_schema


def json_schema() -> dict[str, Any]:
    """The schema, as plain data.

    >>> json_schema()["required"]
    ['version', 'workloads', 'jobs', 'policies', 'objectives']
    """
    job = object_schema(JOB_KEYS) | {"oneOf": [{"required": ["rate"]}, {"required": ["model_file"]}]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "An experiment of Headgate",
        **object_schema(FILE_KEYS),
        "$defs": {
            "workload": object_schema(WORKLOAD_KEYS),
            "job": job,
            "batches": object_schema(BATCH_KEYS),
            "policy": object_schema(POLICY_KEYS),
            "objective": object_schema(OBJECTIVE_KEYS),
        },
    }
