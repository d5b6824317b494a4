"""Whether files can be written where they must be, and run where Spark unpacks its libraries."""

from __future__ import annotations

import os
import resource
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from headgate.core.errors import cause_of
from headgate.local.checkup.finding import Finding, fine, odd, wrong
from headgate.local.jars import cache_directory

LEAST_FREE_BYTES = 1_000_000_000
LEAST_FILES = 1024


def check_permissions(
    temporary: Path | None = None, cache: Path | None = None, secrets: Sequence[Path] = ()
) -> Iterator[Finding]:
    """``secrets`` are files that only their owner should be able to read."""
    folder = Path(tempfile.gettempdir()) if temporary is None else temporary
    problems = [*_temporary(folder), *_cache(cache or cache_directory()), *_limits(), *map(_secret, secrets)]
    found = [problem for problem in problems if problem is not None]
    yield from found or [fine("permissions", f"{folder} and the cache can be written; limits suffice.")]


def _temporary(folder: Path) -> Iterator[Finding]:
    remedy = "set TMPDIR to a folder that can be written and run from"
    try:
        with tempfile.TemporaryDirectory(dir=folder) as inside:
            script = Path(inside, "run")
            script.write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
            script.chmod(script.stat().st_mode | stat.S_IXUSR)
            subprocess.run([str(script)], check=True, timeout=30)
    except PermissionError as error:
        if Path(str(error.filename)).name == "run":
            text = f"nothing may be run from {folder} (noexec); Spark's libraries are unpacked there."
            yield wrong("permissions", text, remedy)
        else:
            yield wrong("permissions", f"{folder} cannot be written: {cause_of(error)}.", remedy)
    except (OSError, subprocess.SubprocessError) as error:
        yield wrong("permissions", f"{folder} cannot be used for temporary files: {cause_of(error)}.", remedy)
    else:
        free = shutil.disk_usage(folder).free
        if free < LEAST_FREE_BYTES:
            yield odd("permissions", f"{folder} has {free / 1e9:.1f} GB left.", "make room, or set TMPDIR elsewhere")


def _cache(folder: Path) -> Iterator[Finding]:
    standing = next(one for one in (folder, *folder.parents) if one.exists())
    if not os.access(standing, os.W_OK | os.X_OK):
        text = f"the cache {folder} cannot be written; jars for Kafka cannot be kept."
        yield odd("permissions", text, "set HEADGATE_CACHE to a folder of your own")


def _limits() -> Iterator[Finding]:
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files < LEAST_FILES:
        text = f"a process may open {files} files; a driver and a service need {LEAST_FILES}."
        yield odd("permissions", text, f"ulimit -n {LEAST_FILES}")


def _secret(path: Path) -> Finding | None:
    try:
        mode = path.stat().st_mode
    except OSError as error:
        return wrong("permissions", f"{path} cannot be read: {cause_of(error)}.", "look at its path and its owner")
    if mode & (stat.S_IRGRP | stat.S_IROTH):
        told = f"{path} holds a secret, and others may read it ({stat.S_IMODE(mode):04o})."
        return odd("permissions", told, f"chmod 600 {path}")
    return None
