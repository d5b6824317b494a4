"""Runs a PySpark program as it is, and reports when it starts a stream."""

from __future__ import annotations

import functools
import os
import runpy
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

UNDER_SPARK_SUBMIT = "PYSPARK_GATEWAY_PORT"
"""Set by spark-submit, which has started the driver's JVM already."""
SUBMIT_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
SHELL = "pyspark-shell"
"""Ends the arguments of a program that Python starts itself."""


def is_under_spark_submit() -> bool:
    return UNDER_SPARK_SUBMIT in os.environ


def run_program(
    script: Path,
    arguments: Sequence[str],
    on_stream: Callable[[Any], None],
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
) -> None:
    """Run a program in this process as ``python SCRIPT`` does.

    ``on_stream`` is called with the session of a streaming query that has started, or with a ``StreamingContext``.
    ``master`` and ``conf`` apply unless the program sets them, and not under spark-submit, which has its own.
    """
    if not is_under_spark_submit():
        given = [*(["--master", master] if master is not None else [])]
        for name, value in (conf or {}).items():
            given += ["--conf", f"{name}={value}"]
        before = os.environ.get(SUBMIT_ARGUMENTS, "pyspark-shell").removesuffix("pyspark-shell").strip()
        os.environ[SUBMIT_ARGUMENTS] = " ".join(
            [*([before] if before else []), *map(shlex.quote, given), "pyspark-shell"]
        )
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(script.resolve().parent))
    with _reported(on_stream):
        runpy.run_path(str(script), run_name="__main__")


@contextmanager
def _reported(on_stream: Callable[[Any], None]) -> Iterator[None]:
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.streaming import StreamingContext

    def session_of(writer: Any, query: Any) -> Any:
        return writer._df.sparkSession

    undone = [
        _after(DataStreamWriter, "start", lambda writer, query: on_stream(session_of(writer, query))),
        _after(DataStreamWriter, "toTable", lambda writer, query: on_stream(session_of(writer, query))),
        _after(StreamingContext, "start", lambda context, nothing: on_stream(context)),
    ]
    try:
        yield
    finally:
        for undo in undone:
            undo()


def _after(kind: type[Any], name: str, call: Callable[[Any, Any], None]) -> Callable[[], None]:
    """Call a function after each call of a method; return what takes that back."""
    method = getattr(kind, name)

    @functools.wraps(method)
    def wrapper(self: Any, *arguments: Any, **named: Any) -> Any:
        result = method(self, *arguments, **named)
        call(self, result)
        return result

    setattr(kind, name, wrapper)
    return lambda: setattr(kind, name, method)
