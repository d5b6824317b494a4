"""Checks of Python, the packages, Java and Spark."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path

from headgate._version import __version__
from headgate.core.errors import HeadgateError, InputError, cause_of
from headgate.local.checkup.finding import Finding, note_finding, ok_finding, problem_finding
from headgate.local.machine import java, spark_home

OLDEST_PYTHON = (3, 11)
_NEED = re.compile(r"^(?P<name>[\w.-]+)(?:\[[^\]]*\])?\s*(?P<range>[^;]*?)\s*(?:;\s*(?P<marker>.+))?$")
_EXTRA = re.compile(r"extra == ['\"]([\w.-]+)['\"]")
_BOUND = re.compile(r"(>=|<=|<|>|==|!=|~=)\s*([\w.]+)")
_NOT_FOR_USERS = frozenset({"dev", "docs"})


def check_versions(
    python: Sequence[int] = sys.version_info[:3],
    needs: Sequence[str] | None = None,
    version_of: Callable[[str], str | None] | None = None,
) -> Iterator[Finding]:
    running = ".".join(map(str, python))
    if tuple(python[:2]) < OLDEST_PYTHON:
        oldest = ".".join(map(str, OLDEST_PYTHON))
        yield problem_finding(
            "python", f"Python {running} is too old; {oldest} or newer is needed.", f"use Python {oldest}"
        )
    else:
        yield ok_finding("python", f"Python {running} at {sys.executable}.")
    yield from _packages(_declared() if needs is None else needs, version_of or _installed)


def _packages(needs: Sequence[str], version_of: Callable[[str], str | None]) -> Iterator[Finding]:
    missing: dict[str, list[str]] = {}
    outside = False
    for need in needs:
        found = _NEED.match(need)
        if found is None or found["name"] == "headgate":
            continue
        extra = _EXTRA.search(found["marker"] or "")
        if extra is not None and extra[1] in _NOT_FOR_USERS:
            continue
        version = version_of(found["name"])
        if version is None and extra is None:
            remedy = "pip install --upgrade headgate"
            yield problem_finding("packages", f"{found['name']} is not installed, and Headgate needs it.", remedy)
            outside = True
        elif version is None and extra is not None:
            missing.setdefault(extra[1], []).append(found["name"])
        elif version is not None and not within(version, found["range"]):
            wanted = f"{found['name']}{found['range'].replace(' ', '')}"
            yield problem_finding(
                "packages",
                f"{found['name']} {version} is installed; Headgate needs {wanted}.",
                f"pip install '{wanted}'",
            )
            outside = True
    for extra_name, names in sorted(missing.items()):
        text = f"extra {extra_name} is not complete, for want of {', '.join(sorted(names))}."
        yield note_finding("packages", text, f"if you need it: pip install 'headgate[{extra_name}]'")
    if not outside:
        yield ok_finding("packages", f"Headgate {__version__} has the packages that it needs.")


def within(version: str, wanted: str) -> bool:
    """Whether a version lies in a range of bounds.

    >>> within("2.10.1", ">=2.9,<3"), within("3.0", ">=2.9,<3"), within("2.9rc1", ">=2.9"), within("1", "")
    (True, False, True, True)
    """
    mine = _parts(version)
    for sign, bound in _BOUND.findall(wanted):
        other = _parts(bound)
        length = max(len(mine), len(other))
        left, right = (parts + (0,) * (length - len(parts)) for parts in (mine, other))
        met = {">=": left >= right, ">": left > right, "<": left < right, "<=": left <= right, "==": left == right}
        if not met.get(sign, True):
            return False
    return True


def _parts(version: str) -> tuple[int, ...]:
    release = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in release[0].split(".")) if release else ()


def _declared() -> Sequence[str]:
    return metadata.requires("headgate") or ()


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


OLDEST_JAVA = 17
JAVA_ANSWERS_WITHIN_S = 30.0
_JAVA_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def check_java() -> Iterator[Finding]:
    install = (
        f"install Java {OLDEST_JAVA} or newer (Debian: apt-get install default-jre-headless), or set JAVA_HOME to one"
    )
    try:
        command = java(needed_by="Spark")
    except InputError as error:
        yield problem_finding("java", str(error), install)
        return
    try:
        done = subprocess.run(
            [command, "-version"], capture_output=True, text=True, timeout=JAVA_ANSWERS_WITHIN_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        yield problem_finding("java", f"{command} cannot be run: {cause_of(error)}.", install)
        return
    version = _JAVA_VERSION.search(done.stderr + done.stdout)
    if done.returncode != 0 or version is None:
        first = next(iter((done.stderr + done.stdout).strip().splitlines()), "nothing")
        yield problem_finding(
            "java", f"{command} -version ended with {done.returncode} and said {first[:120]!r}.", install
        )
    elif int(version[1]) < OLDEST_JAVA:
        home = " (by JAVA_HOME)" if os.environ.get("JAVA_HOME") else ""
        yield problem_finding(
            "java", f"{command}{home} is Java {version[1]}; Spark 4 needs {OLDEST_JAVA} or newer.", install
        )
    else:
        yield ok_finding("java", f"Java {version[1]} at {command}.")


SUPPORTED = ">=3.5,<5"


def check_spark(
    environment: Mapping[str, str] = os.environ, address_of: Callable[[str], str] = socket.gethostbyname
) -> Iterator[Finding]:
    try:
        home, version = spark_home(), metadata.version("pyspark")
    except (HeadgateError, metadata.PackageNotFoundError):
        yield note_finding("spark", "Spark is not installed.", "if jobs are to run here: pip install 'headgate[spark]'")
        return
    if not within(version, SUPPORTED):
        remedy = "pip install 'headgate[spark]'"
        yield problem_finding("spark", f"pyspark {version} is installed; Headgate works with {SUPPORTED}.", remedy)
    else:
        yield ok_finding("spark", f"pyspark {version} at {home}.")
    yield from _other_spark(environment.get("SPARK_HOME"), version)
    yield from _python_of_workers(environment.get("PYSPARK_PYTHON"))
    if not environment.get("SPARK_LOCAL_IP"):
        yield from _host_name(address_of)


def _other_spark(home: str | None, version: str) -> Iterator[Finding]:
    """A Spark that is on the machine already wins over the one that came with pyspark."""
    if not home:
        return
    release = Path(home, "RELEASE")
    other = re.search(r"Spark (\S+)", release.read_text(errors="replace")) if release.is_file() else None
    if not Path(home).is_dir():
        yield problem_finding("spark", f"SPARK_HOME is {home}, which is not a folder.", "unset SPARK_HOME")
    elif other is not None and other[1] != version:
        text = f"SPARK_HOME is {home} with Spark {other[1]}, and pyspark is {version}; the two do not go together."
        yield problem_finding("spark", text, "unset SPARK_HOME, or install the pyspark of that version")


def _python_of_workers(command: str | None) -> Iterator[Finding]:
    """Workers with another Python than the driver's cannot run its functions."""
    if not command:
        return
    found = shutil.which(command)
    if found is None:
        yield problem_finding(
            "spark", f"PYSPARK_PYTHON is {command}, which cannot be found.", f"set it to {sys.executable}"
        )
        return
    try:
        arguments = [found, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        theirs = subprocess.run(arguments, capture_output=True, text=True, timeout=30, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        yield problem_finding(
            "spark", f"PYSPARK_PYTHON {found} cannot be run: {cause_of(error)}.", f"set it to {sys.executable}"
        )
        return
    mine = "{}.{}".format(*sys.version_info)
    if theirs != mine:
        text = f"PYSPARK_PYTHON is Python {theirs}, the driver runs {mine}; workers must have the same."
        yield problem_finding("spark", text, f"set PYSPARK_PYTHON to {sys.executable}")


def _host_name(address_of: Callable[[str], str]) -> Iterator[Finding]:
    name = socket.gethostname()
    try:
        address_of(name)
    except OSError:
        text = f"this machine is called {name!r}, and nobody knows its address; a driver would not start."
        yield problem_finding("spark", text, f"add '127.0.1.1 {name}' to /etc/hosts, or set SPARK_LOCAL_IP=127.0.0.1")
