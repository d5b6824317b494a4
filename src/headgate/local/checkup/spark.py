"""Whether Spark can be started here, as far as that can be told without starting it."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from pathlib import Path

from headgate.core.errors import HeadgateError, cause_of
from headgate.local.checkup.finding import Finding, fine, odd, wrong
from headgate.local.checkup.versions import within
from headgate.local.machine import spark_home

SUPPORTED = ">=4.2,<5"


def check_spark(
    environment: Mapping[str, str] = os.environ, address_of: Callable[[str], str] = socket.gethostbyname
) -> Iterator[Finding]:
    try:
        home, version = spark_home(), metadata.version("pyspark")
    except (HeadgateError, metadata.PackageNotFoundError):
        yield odd("spark", "Spark is not installed.", "if jobs are to run here: pip install 'headgate[spark]'")
        return
    if not within(version, SUPPORTED):
        remedy = "pip install 'headgate[spark]'"
        yield wrong("spark", f"pyspark {version} is installed; Headgate works with {SUPPORTED}.", remedy)
    else:
        yield fine("spark", f"pyspark {version} at {home}.")
    yield from _other_spark(environment.get("SPARK_HOME"), version)
    yield from _python_of_workers(environment.get("PYSPARK_PYTHON"))
    if not environment.get("SPARK_LOCAL_IP"):
        yield from _host_name(address_of)


def _other_spark(home: str | None, version: str) -> Iterator[Finding]:
    """A Spark that is on the machine already wins over the one that came with pyspark."""
    if not home:
        return
    release = Path(home, "RELEASE")
    told = re.search(r"Spark (\S+)", release.read_text(errors="replace")) if release.is_file() else None
    if not Path(home).is_dir():
        yield wrong("spark", f"SPARK_HOME is {home}, which is not a folder.", "unset SPARK_HOME")
    elif told is not None and told[1] != version:
        text = f"SPARK_HOME is {home} with Spark {told[1]}, and pyspark is {version}; the two do not go together."
        yield wrong("spark", text, "unset SPARK_HOME, or install the pyspark of that version")


def _python_of_workers(command: str | None) -> Iterator[Finding]:
    """Workers with another Python than the driver's cannot run its functions."""
    if not command:
        return
    found = shutil.which(command)
    if found is None:
        yield wrong("spark", f"PYSPARK_PYTHON is {command}, which cannot be found.", f"set it to {sys.executable}")
        return
    try:
        asked = [found, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        theirs = subprocess.run(asked, capture_output=True, text=True, timeout=30, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        yield wrong("spark", f"PYSPARK_PYTHON {found} cannot be run: {cause_of(error)}.", f"set it to {sys.executable}")
        return
    mine = "{}.{}".format(*sys.version_info)
    if theirs != mine:
        text = f"PYSPARK_PYTHON is Python {theirs}, the driver runs {mine}; workers must have the same."
        yield wrong("spark", text, f"set PYSPARK_PYTHON to {sys.executable}")


def _host_name(address_of: Callable[[str], str]) -> Iterator[Finding]:
    name = socket.gethostname()
    try:
        address_of(name)
    except OSError:
        text = f"this machine is called {name!r}, and nobody knows its address; a driver would not start."
        yield wrong("spark", text, f"add '127.0.1.1 {name}' to /etc/hosts, or set SPARK_LOCAL_IP=127.0.0.1")
