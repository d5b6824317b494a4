"""Submits a job to any Flink cluster, with only Java and Flink's jars.

Two small classes are compiled first, by the compiler that Flink contains to compile SQL: a class that runs the
statements of a file, and a class that waits for each record.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import zipfile
from importlib.resources import as_file, files
from pathlib import Path
from urllib.parse import urlsplit

from headgate.apps.flink.programs import SubmittedJob
from headgate.core.errors import EngineError, InputError
from headgate.local.flink_rest import flink_response
from headgate.local.flink_settings import LOGGING, OPENS
from headgate.local.machine import QUICK_START, flink_home, java

COMPILER = "org.codehaus.commons.compiler.samples.CompilerDemo"
SUBMIT = "headgate.Submit"
WITHIN_S = 180.0
HEAP_MB = 384


def submit(job: SubmittedJob, url: str, home: Path | None = None) -> str:
    """Run a job on a cluster and return its id. ``home`` is the folder of its Flink, by default Headgate's."""
    settings = {**_address(url), "execution.target": "remote", "execution.attached": False, **job.settings()}
    flink_response(url, "overview")  # Flink's client would try for a minute to reach an absent cluster.
    needed = job.jars()
    with tempfile.TemporaryDirectory(prefix="headgate-submit-") as name:
        folder = Path(name)
        classes = compile_classes(folder, home)
        sent = [*needed, _jar(classes, folder / "headgate.jar")]
        settings["pipeline.jars"] = [path.as_uri() for path in sent]
        (folder / "config.yaml").write_text(json.dumps(settings))  # JSON is YAML.
        (folder / "log4j.properties").write_text(LOGGING)
        (folder / "job.sql").write_text(job.sql())
        logging = f"-Dlog4j.configurationFile={folder}/log4j.properties"
        path = os.pathsep.join([f"{flink_home(home)}/lib/*", str(classes), *map(str, needed)])
        command = [f"-Xmx{HEAP_MB}m", *OPENS, logging, "-cp", path, SUBMIT, str(folder), str(folder / "job.sql")]
        return _run(command, f"the job {job.name!r} was not taken by {url}").strip()


def compile_classes(folder: Path, home: Path | None = None) -> Path:
    """Compile the classes and return their folder."""
    classes = folder / "classes"
    classes.mkdir()
    jars = sorted(Path(flink_home(home), "lib").glob("*.jar"))
    with as_file(files("headgate.apps.flink").joinpath("java")) as sources:
        found = sorted(map(str, sources.glob("*.java")))
        path = os.pathsep.join(map(str, jars))
        command = ["-cp", path, COMPILER, "-d", str(classes), "-classpath", path, *found]
        _run(command, "what a job needs could not be compiled")
    return classes


def _jar(classes: Path, target: Path) -> Path:
    with zipfile.ZipFile(target, "w") as jar:
        for path in sorted(classes.rglob("*.class")):
            jar.write(path, path.relative_to(classes))
    return target


def _run(command: list[str], problem: str) -> str:
    """Return the output of a Java program; the last line of its errors explains a failure."""
    whole = [java(needed_by="Flink"), *QUICK_START, *command]
    try:
        ended = subprocess.run(whole, capture_output=True, text=True, check=False, timeout=WITHIN_S)
    except subprocess.TimeoutExpired as error:
        raise EngineError(f"{problem}: it took longer than {WITHIN_S:g} s.") from error
    if ended.returncode:
        lines = ended.stderr.strip().splitlines() or ["it printed nothing"]
        raise EngineError(f"{problem}: {lines[-1].strip().rstrip('.')}.")
    return ended.stdout


def _address(url: str) -> dict[str, object]:
    found = urlsplit(url)
    try:
        port = found.port
    except ValueError:
        port = None
    if found.scheme != "http" or not found.hostname or port is None:
        raise InputError(f"the address {url!r} of a Flink cluster is not understood; write it as http://HOST:PORT.")
    return {"rest.address": found.hostname, "rest.port": port}
