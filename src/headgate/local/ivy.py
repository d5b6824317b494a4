"""Downloads jars with Ivy, Spark's own resolver, whose jar comes with pyspark.

Ivy knows where Maven Central is and needs no session, only a java. As with Spark, the environment variable
``DEFAULT_ARTIFACT_REPOSITORY`` names another place to download from.
"""

from __future__ import annotations

import os
import re
import select
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from headgate.core.errors import FetchError
from headgate.local.machine import QUICK_START, java, spark_home

STALL_S = 60.0
"""A connection that is silent for so long is given up; Ivy itself would wait for ever."""

# The poms are not needed: what a jar needs is known. Without them, half of the requests are.
SETTINGS = """\
<ivysettings>
  <settings defaultResolver="central"/>
  {sums}
  <resolvers><ibiblio name="central" m2compatible="true" usepoms="false"{root}/></resolvers>
</ivysettings>
"""
NO_SUMS = '<property name="ivy.checksums" value=""/>'
MODULE = """\
<ivy-module version="2.0">
  <info organisation="headgate" module="jars"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>{dependencies}</dependencies>
</ivy-module>
"""
DEPENDENCY = "<dependency org={} name={} rev={} transitive='false' conf='default->master(*)'/>"

DOWNLOADED = "[SUCCESSFUL ]"
PROBLEMS = (
    re.compile(r"(No space left on device)"),
    re.compile(r"(Server access error at url .*)"),
    re.compile(r"(Host \S+ not found)"),
    re.compile(r"(Your proxy .*)"),
    re.compile(r"SERVER ERROR: (.*)"),
    re.compile(r"\[FAILED +\] \S+: (.*) \(\d+ms\)"),
    re.compile(r"Exception in thread \S+ (.*)"),
)


@dataclass(frozen=True)
class Jar:
    """A jar by the names Maven knows it by."""

    organisation: str
    name: str
    version: str

    @classmethod
    def parse(cls, text: str) -> Jar:
        return cls(*text.split(":"))

    @property
    def file_name(self) -> str:
        return f"{self.organisation}_{self.name}-{self.version}.jar"

    def __str__(self) -> str:
        return f"{self.organisation}:{self.name}:{self.version}"


@dataclass(frozen=True)
class Downloaded:
    """What was downloaded. Where there was no problem, jars that are missing have not been published."""

    files: Mapping[Jar, Path]
    problem: str | None


def repository() -> str | None:
    """Where jars are downloaded from; ``None`` is Maven Central."""
    return os.environ.get("DEFAULT_ARTIFACT_REPOSITORY") or None


def download(
    jars: Sequence[Jar], directory: Path, on_jar: Callable[[], None], *, published_sums: bool = True
) -> Downloaded:
    """Download jars into a folder of their own, and call ``on_jar`` for each that has come.

    ``published_sums`` has each compared with the sum that is published beside it, as Maven does; that is one request
    more for each jar.
    """
    _write_settings(jars, directory, published_sums=published_sums)
    options = ("-settings", "settings.xml", "-ivy", "ivy.xml", "-cache", str(directory))
    command = [java(needed_by="Ivy"), *QUICK_START, "-cp", _ivy(), "org.apache.ivy.Main", *options]
    said = []
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=directory
    ) as ivy:
        try:
            for line in _lines(ivy):
                said.append(line)
                if DOWNLOADED in line:
                    on_jar()
        except BaseException:
            ivy.kill()
            raise
    paths = {jar: directory / jar.organisation / jar.name / "jars" / f"{jar.name}-{jar.version}.jar" for jar in jars}
    files = {jar: path for jar, path in paths.items() if path.exists()}
    return Downloaded(files, _problem(said) if ivy.returncode else None)


def _write_settings(jars: Sequence[Jar], directory: Path, *, published_sums: bool) -> None:
    place = repository()
    root = f" root={quoteattr(place)}" if place else ""
    sums = "" if published_sums else NO_SUMS
    (directory / "settings.xml").write_text(SETTINGS.format(root=root, sums=sums))
    names = (map(quoteattr, (jar.organisation, jar.name, jar.version)) for jar in jars)
    dependencies = "".join(DEPENDENCY.format(*three) for three in names)
    (directory / "ivy.xml").write_text(MODULE.format(dependencies=dependencies))


def _ivy() -> str:
    found = sorted(Path(spark_home(), "jars").glob("ivy-*.jar"))
    if not found:
        raise FetchError(f"there is no Ivy among the jars of {spark_home()}, which is needed to download others.")
    return str(found[-1])


def _lines(process: subprocess.Popen[bytes]) -> Iterator[str]:
    """What a process prints, line by line, as long as it shows signs of life: its dots have no line ends."""
    assert process.stdout is not None
    rest = b""
    while True:
        ready, _, _ = select.select([process.stdout], [], [], STALL_S)
        if not ready:
            raise FetchError(f"the download was given up: nothing came for {STALL_S:.0f} s.")
        chunk = os.read(process.stdout.fileno(), 65536)
        *lines, rest = (rest + chunk).split(b"\n")
        yield from (line.decode(errors="replace") for line in lines)
        if not chunk:
            return


def _problem(said: Sequence[str]) -> str | None:
    """What went wrong beside jars that are not there, if anything did."""
    for pattern in PROBLEMS:
        for line in said:
            if match := pattern.search(line):
                return f"{match[1][0].lower()}{match[1][1:]}".strip().rstrip(".")
    return None
