"""Whether there is a Java that Spark can run on."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator

from headgate.core.errors import InputError, cause_of
from headgate.local.checkup.finding import Finding, fine, wrong
from headgate.local.machine import java

OLDEST = 17
ANSWERS_WITHIN_S = 30.0
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def check_java() -> Iterator[Finding]:
    install = f"install Java {OLDEST} or newer (Debian: apt-get install default-jre-headless), or set JAVA_HOME to one"
    try:
        command = java(needed_by="Spark")
    except InputError as error:
        yield wrong("java", str(error), install)
        return
    try:
        done = subprocess.run(
            [command, "-version"], capture_output=True, text=True, timeout=ANSWERS_WITHIN_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        yield wrong("java", f"{command} cannot be run: {cause_of(error)}.", install)
        return
    told = _VERSION.search(done.stderr + done.stdout)
    if done.returncode != 0 or told is None:
        first = next(iter((done.stderr + done.stdout).strip().splitlines()), "nothing")
        yield wrong("java", f"{command} -version ended with {done.returncode} and said {first[:120]!r}.", install)
    elif int(told[1]) < OLDEST:
        home = " (by JAVA_HOME)" if os.environ.get("JAVA_HOME") else ""
        yield wrong("java", f"{command}{home} is Java {told[1]}; Spark 4 needs {OLDEST} or newer.", install)
    else:
        yield fine("java", f"Java {told[1]} at {command}.")
