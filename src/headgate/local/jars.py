"""The jars of servers and connectors: fetched once into the user's cache, checked each time before they are used.

Which ones, and their sums, is written in ``jars.toml``. A file that is damaged or half there is fetched again; of two
processes that need the same, one fetches and the other waits.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import select
import shutil
import stat
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from xml.sax.saxutils import quoteattr

from headgate.core.errors import FetchError, not_written
from headgate.local.machine import QUICK_START, java, spark_home

STALL_S = 60.0
"""A connection that is silent for so long is given up; Ivy itself would wait for ever."""

# The poms are not needed: what a jar needs is known. Without them, half of the requests are.
IVY_SETTINGS = """\
<ivysettings>
  <settings defaultResolver="central"/>
  {sums}
  <resolvers><ibiblio name="central" m2compatible="true" usepoms="false"{root}/></resolvers>
</ivysettings>
"""
NO_SUMS = '<property name="ivy.checksums" value=""/>'
IVY_MODULE = """\
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

    ``published_sums`` compares each with the sum that is published with it, as Maven does; that is one request
    more for each jar.
    """
    _write_settings(jars, directory, published_sums=published_sums)
    options = ("-settings", "settings.xml", "-ivy", "ivy.xml", "-cache", str(directory))
    command = [java(needed_by="Ivy"), *QUICK_START, "-cp", _ivy(), "org.apache.ivy.Main", *options]
    output = []
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=directory
    ) as ivy:
        try:
            for line in _lines(ivy):
                output.append(line)
                if DOWNLOADED in line:
                    on_jar()
        except BaseException:
            ivy.kill()
            raise
    paths = {jar: directory / jar.organisation / jar.name / "jars" / f"{jar.name}-{jar.version}.jar" for jar in jars}
    files = {jar: path for jar, path in paths.items() if path.exists()}
    return Downloaded(files, _problem(output) if ivy.returncode else None)


def _write_settings(jars: Sequence[Jar], directory: Path, *, published_sums: bool) -> None:
    place = repository()
    root = f" root={quoteattr(place)}" if place else ""
    sums = "" if published_sums else NO_SUMS
    (directory / "settings.xml").write_text(IVY_SETTINGS.format(root=root, sums=sums))
    names = (map(quoteattr, (jar.organisation, jar.name, jar.version)) for jar in jars)
    dependencies = "".join(DEPENDENCY.format(*three) for three in names)
    (directory / "ivy.xml").write_text(IVY_MODULE.format(dependencies=dependencies))


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


def _problem(output: Sequence[str]) -> str | None:
    """Return the error, if any, other than jars that do not exist."""
    for pattern in PROBLEMS:
        for line in output:
            if match := pattern.search(line):
                return f"{match[1][0].lower()}{match[1][1:]}".strip().rstrip(".")
    return None


ATTEMPTS = 2
ASK_AGAIN_S = 24 * 3600.0
"""How long a jar that was not published counts as such."""
WORKSHOP = "fetching-"


@dataclass(frozen=True)
class JarSet:
    """Jars that belong together, each with its SHA-256."""

    version: str
    jars: Mapping[Jar, str]


@cache
def pinned(name: str) -> JarSet:
    """A set by its name in ``jars.toml``."""
    section = tomllib.loads(files("headgate.local").joinpath("jars.toml").read_text())[name]
    return JarSet(section["version"], {Jar.parse(jar): digest for jar, digest in section["jars"].items()})


def cache_directory() -> Path:
    """Return the folder of fetched files: ``HEADGATE_CACHE``, or ``headgate`` in the user's cache folder."""
    if chosen := os.environ.get("HEADGATE_CACHE"):
        return Path(chosen).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "headgate")


def _own_directory() -> Path:
    """Return the folder of fetched jars; a ``FetchError`` if other users may write there.

    They could put a jar there, with a sum that fits it, or replace one between its check and its use.
    """
    directory = cache_directory() / "jars"
    try:
        found = directory.stat()
    except OSError:
        return directory  # It is made when something is fetched; an obstacle is reported then.
    may_write = stat.S_IWOTH if found.st_gid == os.getgid() else stat.S_IWOTH | stat.S_IWGRP
    if found.st_uid not in (0, os.geteuid()) or found.st_mode & may_write:
        raise FetchError(
            f"jars in {directory} are not used, because other users may write there: make it yours alone (chmod go-w), "
            "or have HEADGATE_CACHE name another folder."
        )
    return directory


def fetch(what: str, wanted: Mapping[Jar, str]) -> list[Path]:
    """The files of jars with known sums; those that are not in the cache, or damaged there, are fetched first."""
    directory = _own_directory()
    if _missing(wanted, directory):
        with workshop(what, directory) as folder:
            attempt, problem = 0, None
            # Checked again: another process may have fetched them meanwhile.
            while missing := _missing(wanted, directory):
                if attempt == ATTEMPTS:
                    raise FetchError(f"{what} cannot be fetched: {problem}.")
                problem = _fetch_some(what, {jar: wanted[jar] for jar in missing}, folder / str(attempt))
                attempt += 1
    return [directory / jar.file_name for jar in wanted]


def _fetch_some(what: str, wanted: Mapping[Jar, str], folder: Path) -> str | None:
    """Fetch jars and keep those that come whole; gives what was wrong with the rest, if anything was."""
    got = _download(what, list(wanted), folder, published_sums=False)
    problems = [got.problem] if got.problem else []
    for jar, digest in wanted.items():
        if jar not in got.files:
            problems.append(f"there is no {jar} in {repository() or 'Maven Central'}")
        elif (found := _digest(got.files[jar])) != digest:
            problems.append(f"{jar} came with the SHA-256 {found}, not {digest}")
        else:
            got.files[jar].replace(folder.parents[1] / jar.file_name)
    return problems[0] if problems else None


def fetch_published(what: str, jar: Jar) -> Path | None:
    """The file of a jar whose sum is not known here; ``None`` if it has not been published.

    When it comes, the sum published with it is checked; from then on, the one that it had.
    """
    directory = _own_directory()
    path = directory / jar.file_name
    digest, absent = path.with_suffix(".sha256"), path.with_suffix(".absent")
    if digest.exists() and _digest(path) == digest.read_text():
        return path
    if absent.exists() and time.time() - absent.stat().st_mtime < ASK_AGAIN_S:
        return None
    with workshop(what, directory) as folder:
        got = _download(what, [jar], folder / "0", published_sums=True)
        if jar in got.files:
            digest.write_text(str(_digest(got.files[jar])))
            return got.files[jar].replace(path)
        if got.problem:
            raise FetchError(f"{what} cannot be fetched: {got.problem}.")
        absent.touch()
        return None


def _missing(wanted: Mapping[Jar, str], directory: Path) -> list[Jar]:
    return [jar for jar, digest in wanted.items() if _digest(directory / jar.file_name) != digest]


def _digest(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:  # Missing or unreadable: it is fetched, and an obstacle is reported then.
        return None


# ----------------------------------------------------------------------------------------------------------- fetching


@contextlib.contextmanager
def workshop(what: str, directory: Path) -> Iterator[Path]:
    """Give a folder to fetch into, from which complete files are moved to ``directory``; one process at a time."""
    try:
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        with (directory / "lock").open("a") as lock:
            _lock(lock.fileno(), what)
            for left in directory.glob(f"{WORKSHOP}*"):  # By one that was killed.
                shutil.rmtree(left, ignore_errors=True)
            with tempfile.TemporaryDirectory(prefix=WORKSHOP, dir=directory, ignore_cleanup_errors=True) as folder:
                yield Path(folder)
    except OSError as error:
        remedy = "; HEADGATE_CACHE names another folder"
        raise not_written(f"{what} cannot be stored in {directory}", error, remedy) from error


def _lock(descriptor: int, what: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.stderr.write(f"waiting for another process that is fetching {what}\n")
        fcntl.flock(descriptor, fcntl.LOCK_EX)


def _download(what: str, jars: Sequence[Jar], folder: Path, *, published_sums: bool) -> Downloaded:
    folder.mkdir()
    with _progress(f"fetching {what}", len(jars)) as on_jar:
        return download(jars, folder, on_jar, published_sums=published_sums)


@contextlib.contextmanager
def _progress(what: str, count: int) -> Iterator[Callable[[], None]]:
    """A line on standard error that counts where there is somebody to watch it, and is written once where not."""
    watched = sys.stderr.isatty()
    total = f"{count} jar{'' if count == 1 else 's'}"
    done = 0

    def show(end: str) -> None:
        sys.stderr.write(f"\r{what}: {done} of {total}{end}")
        sys.stderr.flush()

    def on_jar() -> None:
        nonlocal done
        done += 1
        if watched:
            show("")

    if watched:
        show("")
    else:
        sys.stderr.write(f"{what}: {total}\n")
    try:
        yield on_jar
    finally:
        if watched:
            show("\n")
