"""A user's job: a Python file with a function that builds its query, as for ``headgate.run``.

def build(spark, plan):
    events = spark.readStream.format("kafka").options(**plan.source_options, …).load()
    return events.groupBy("key").count().writeStream.format("noop").outputMode("update")
"""

from __future__ import annotations

import ast
import importlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.core.errors import EngineError, InputError, UnknownNameError
from headgate.engines.spark.query_plan import Plan

if TYPE_CHECKING:
    from headgate.engines.spark import SparkSession
    from headgate.engines.spark.managed_query import Build, StreamingQuery

SUFFIX = ".py"
DEFAULT_FUNCTION = "build"


@dataclass(frozen=True)
class OwnJob:
    """The location of the function."""

    file: Path
    function: str = DEFAULT_FUNCTION

    @property
    def name(self) -> str:
        return self.file.stem

    @property
    def names_kafka(self) -> bool:
        """Whether its file mentions Kafka, for which Spark needs a connector."""
        return "kafka" in self.file.read_text(encoding="utf-8", errors="replace").lower()

    def start(self, spark: SparkSession, plan: Plan, checkpoint: Path) -> StreamingQuery:
        """Start the query; exceptions of the function become an ``EngineError``."""
        from headgate.engines.spark.managed_query import ManagedQuery

        managed = ManagedQuery(spark, self._build(spark), checkpoint)
        try:
            managed.start(plan)
        except InputError:
            raise
        except Exception as error:  # Code of the user may raise anything.
            raise EngineError(f"{self} could not be started: {type(error).__name__}: {error}.") from error
        assert managed.query is not None
        return managed.query

    def _build(self, spark: SparkSession) -> Build:
        # Executors have to find the file's functions as well.
        spark.sparkContext.addPyFile(str(self.file.resolve()))
        folder = str(self.file.resolve().parent)
        if folder not in sys.path:
            sys.path.insert(0, folder)
        try:
            found: Build = getattr(importlib.import_module(self.name), self.function)
        except Exception as error:
            raise InputError(f"{self.file} cannot be imported: {type(error).__name__}: {error}.") from error
        return found

    def __str__(self) -> str:
        return f"{self.file}:{self.function}"


def find_own_job(text: str) -> OwnJob | None:
    """Return the job named by ``FILE.py`` or ``FILE.py:FUNCTION``; ``None`` for any other text.

    >>> find_own_job("steady-job") is None
    True
    """
    named, _, function = text.partition(f"{SUFFIX}:") if f"{SUFFIX}:" in text else (text, "", DEFAULT_FUNCTION)
    if not text.endswith(SUFFIX) and named == text:
        return None
    job = OwnJob(Path(named.removesuffix(SUFFIX) + SUFFIX), function)
    if not job.file.is_file():
        raise InputError(f"there is no file {job.file}; give a Python file with a function that builds the query.")
    if not job.name.isidentifier():
        raise InputError(f"{job.file} cannot be imported; its name must be one of a Python module, such as my_job.py.")
    known = functions_of(job.file)
    if function not in known:
        raise UnknownNameError(f"function of {job.file}", function, known)
    return job


def functions_of(file: Path) -> set[str]:
    """Return the functions that a file defines, without running it."""
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError) as error:
        raise InputError(f"{file} cannot be used: {error}.") from error
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
