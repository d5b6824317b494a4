"""What this machine offers: a java, the Spark and the Flink that pip installed, free ports."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
from importlib.util import find_spec
from pathlib import Path

from headgate.core.errors import InputError, cause_of
from headgate.core.extras import MissingExtraError

LOOPBACK = "127.0.0.1"
QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""JVMs that live for minutes: without the second compiler one takes about half the CPU time to start."""


def spark_home() -> str:
    """The folder of the installed pyspark package, which is a whole Spark distribution."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise MissingExtraError("Spark", "pyspark")
    return str(Path(spec.origin).parent)


def flink_home(chosen: Path | None = None) -> str:
    """The folder of a Flink, which has its jars: the one that is chosen, or else the one that pip installed.

    The Python part of Flink need not be there.
    """
    if chosen is not None:
        if not any(Path(chosen, "lib").glob("flink-dist-*.jar")):
            raise InputError(f"there is no Flink in {chosen}; a folder is needed whose lib has a flink-dist-….jar.")
        return str(Path(chosen).absolute())
    spec = find_spec("pyflink")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        if Path(folder, "lib").is_dir():
            return folder
    raise MissingExtraError("Flink", "apache_flink_libraries")


def java(*, needed_by: str) -> str:
    """The java to run a server with."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if found is None:
        where = f"in JAVA_HOME {home!r}" if home else "on the PATH"
        raise InputError(f"no java was found {where}; {needed_by} needs Java 17 or newer: install it or set JAVA_HOME.")
    return found


MOST_SLOTS = 1000
"""Executors beyond this no machine holds."""


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on, all different."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for unbound in sockets:
            unbound.bind((LOOPBACK, 0))
        return [bound.getsockname()[1] for bound in sockets]


def problem_with_port(port: int) -> str | None:
    """Why no server could listen on this port of the loopback interface; ``None`` if one could."""
    with socket.socket() as probe:
        # As servers do: a port that was just given up can be taken again.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            return cause_of(error)
        return None
