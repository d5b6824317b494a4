"""Spark's Kafka connector: the jars to give to a session as ``spark.jars``.

pyspark comes without it, and a connector of its very version may not be published (yet); then an older one of the same
feature release is taken, or the newest that is known to work, and said so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from headgate.core.errors import FetchError
from headgate.local.jars import Jar, JarSet, fetch, fetch_published, pinned
from headgate.local.machine import spark_home

ORGANISATION = "org.apache.spark"
CONNECTOR = "spark-sql-kafka-0-10"
TOKEN_PROVIDER = "spark-token-provider-kafka-0-10"
_CORE = re.compile(r"spark-core_([\d.]+)-")


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
    """The connector for the Spark that is installed.

    Of its own version, else the newest of its feature release, else the newest that is known to work.
    """
    scala = _scala(Path(spark_home()))
    running, known = version("pyspark"), pinned("connector")
    what = f"Spark's Kafka connector {known.version}"
    fits = any(jar.name == f"{CONNECTOR}_{scala}" for jar in known.jars)
    if running == known.version and fits:
        return Connector(known.version, running, tuple(fetch(what, known.jars)), None)
    note: str | None = f"there is no connector {running}."
    try:
        for release in _releases(running):
            own = fetch_published(f"Spark's Kafka connector {release}", _jar(CONNECTOR, scala, release))
            if own is not None:
                jars = (own, *_others(running, scala, known))
                return Connector(release, running, jars, None if release == running else note)
    except FetchError as error:
        note = str(error)
    if not fits:
        raise FetchError(f"{note} None for Scala {scala} is known to work in its place.")
    return Connector(known.version, running, tuple(fetch(what, known.jars)), note)


def _releases(running: str) -> Iterator[str]:
    """Yield a release and those before it of the same feature release, newest first.

    >>> list(_releases("4.1.2"))
    ['4.1.2', '4.1.1', '4.1.0']
    """
    yield running
    line, _, patch = running.rpartition(".")
    for number in range(int(patch) - 1 if patch.isdigit() else -1, -1, -1):
        yield f"{line}.{number}"


def _jar(name: str, scala: str, release: str) -> Jar:
    return Jar(ORGANISATION, f"{name}_{scala}", release)


def _others(running: str, scala: str, known: JarSet) -> Iterator[Path]:
    """Yield the other jars that a connector of another version than the pinned one needs."""
    # Where the pinned one is for another Scala, any of the same feature release will do.
    fits = any(jar.name == f"{TOKEN_PROVIDER}_{scala}" for jar in known.jars)
    provider = None
    for release in (running,) if fits else _releases(running):
        provider = fetch_published(f"Spark's token provider {release}", _jar(TOKEN_PROVIDER, scala, release))
        if provider is not None:
            break
    if provider is not None:
        yield provider
    replaced = (CONNECTOR,) if provider is None else (CONNECTOR, TOKEN_PROVIDER)
    rest = {jar: digest for jar, digest in known.jars.items() if not jar.name.startswith(replaced)}
    yield from fetch("what Spark's Kafka connector needs", rest)


def _scala(home: Path) -> str:
    """The version of Scala that a Spark was built for, such as ``2.13``, by the name of one of its jars."""
    found = (_CORE.match(jar.name) for jar in Path(home, "jars").glob("spark-core_*.jar"))
    return next((match[1] for match in found if match), "2.13")
