"""The most records that a running query's next batches may take, changed while it runs.

Spark asks each source for its limit once, when the query starts, and keeps the limits in an immutable map beside the
sources. Each batch looks into that map when it is planned. Another map in its place is all that changes: the source
itself, which is not safe to touch from another thread, is left alone, and what a batch takes is logged as before.
"""

from __future__ import annotations

import json
from typing import Any

from py4j.protocol import Py4JError

_OF_PYTHON = "PythonStreamingSourceReadLimit"
_ROWS, _ALL = "ReadMaxRows", "ReadAllAvailable"


def set_read_limit(jvm: Any, execution: Any, records: int) -> bool:
    """Let the next batch take so many records from each source; whether that was possible, for all of them."""
    try:
        limits = execution.uniqueSources()
        sources = execution.sources()
        changed = limits
        for index in range(sources.size()):
            source = sources.apply(index)
            limit = _limit_like(jvm, limits.apply(source), records)
            if limit is None:
                return False
            changed = changed.updated(source, limit)
        getattr(execution, "uniqueSources_$eq")(changed)
    except (Py4JError, TypeError):
        return False  # This version of Spark keeps them elsewhere, or the query has ended.
    return True


def _limit_like(jvm: Any, current: Any, records: int) -> Any:
    """A limit of the same kind as the source has; ``None`` for a source that is not limited by records."""
    kind = str(current.getClass().getSimpleName())
    if kind == _OF_PYTHON:
        if json.loads(current.json())["_type"] not in (_ROWS, _ALL):
            return None
        wanted = json.dumps({"max_rows": records, "_type": _ROWS})
        return getattr(jvm, str(current.getClass().getName()))(wanted)
    if kind in (_ROWS, _ALL):
        return jvm.org.apache.spark.sql.connector.read.streaming.ReadLimit.maxRows(records)
    return None
