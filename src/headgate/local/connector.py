"""Spark's Kafka connector: the jars to give to a session as ``spark.jars``.

pyspark comes without it, and a connector of its very version may not be published (yet); then the newest that is known
to work is taken, and said so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from headgate.core.errors import FetchError
from headgate.local.jars import Jar, JarSet, fetch, fetch_published, pinned
from headgate.local.machine import spark_home

ORGANISATION = "org.apache.spark"
CONNECTOR = "spark-sql-kafka-0-10_2.13"
TOKEN_PROVIDER = "spark-token-provider-kafka-0-10_2.13"


@dataclass(frozen=True)
class Connector:
    """The chosen connector, and why it was chosen."""

    version: str
    spark_version: str
    jars: tuple[Path, ...]
    note: str | None
    """Why it is not that of the running Spark; ``None`` if it is."""

    @property
    def spark_jars(self) -> str:
        """The value for ``spark.jars``."""
        return ",".join(map(str, self.jars))


def find_connector() -> Connector:
    """The connector for the Spark that is installed: of its own version, else the newest that is known to work."""
    spark_home()  # Which says what to do if there is none.
    running, known = version("pyspark"), pinned("connector")
    what = f"Spark's Kafka connector {known.version}"
    if running == known.version:
        return Connector(known.version, running, tuple(fetch(what, known.jars)), None)
    try:
        own = fetch_published(f"Spark's Kafka connector {running}", Jar(ORGANISATION, CONNECTOR, running))
    except FetchError as error:
        own, note = None, str(error)
    else:
        note = f"there is no connector {running}."
    if own is None:
        return Connector(known.version, running, tuple(fetch(what, known.jars)), note)
    return Connector(running, running, (own, *_others(running, known)), None)


def _others(running: str, known: JarSet) -> Iterator[Path]:
    """Yield the other jars that a connector of another version than the pinned one needs."""
    provider = fetch_published(f"Spark's token provider {running}", Jar(ORGANISATION, TOKEN_PROVIDER, running))
    if provider is not None:
        yield provider
    replaced = {CONNECTOR} if provider is None else {CONNECTOR, TOKEN_PROVIDER}
    rest = {jar: digest for jar, digest in known.jars.items() if jar.name not in replaced}
    yield from fetch("what Spark's Kafka connector needs", rest)
