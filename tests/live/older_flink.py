"""Flink 1.20, the last of its line, which most clusters are of: fetched once into the user's cache, and checked.

pip gets the package by its name and sum, from wherever it gets packages, and installs nothing: of what it brings only
the jars are needed, which need no Python.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from headgate.apps.flink.sources import TopicRecords
from headgate.local.jars import Jar, cache_directory, fetch

PACKAGE, VERSION = "apache-flink-libraries", "1.20.5"
DIGEST = "e6aee62ea1a1fe7b32e28894ad079f3f1a50a372a4caac3df52405267f4228c8"
JARS = "deps"
"""The folder of the package that is a Flink."""
# Kafka's connector of 1.19 is for 1.20, too; the one of the Flink that the extra brings is not.
CONNECTOR = {
    Jar.parse(
        "org.apache.flink:flink-sql-connector-kafka:3.2.0-1.19"
    ): "c3eda3cd295c1cdfb1dcbae4e0fd318d82e2dd6f073328e30cd79f1d9a990775"
}


def older_home() -> Path:
    """The folder of the older Flink."""
    home = cache_directory() / "flink" / VERSION
    if not home.exists():
        home.parent.mkdir(parents=True, exist_ok=True)
        sys.stderr.write(f"fetching Flink {VERSION} (232 MB) into {home}\n")
        with TemporaryDirectory(prefix="fetching-", dir=home.parent) as name:
            # A folder that is there is whole: it is made elsewhere, and then moved.
            _unpacked(_downloaded(Path(name))).rename(home)
    return home


def _downloaded(folder: Path) -> Path:
    wanted = folder / "wanted.txt"
    wanted.write_text(f"{PACKAGE}=={VERSION} --hash=sha256:{DIGEST}\n")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", PACKAGE]
    subprocess.run([*command, "--require-hashes", "--dest", str(folder), "--requirement", str(wanted)], check=True)
    (package,) = folder.glob("*.tar.gz")
    return package


def _unpacked(package: Path) -> Path:
    with tarfile.open(package) as archive:
        archive.extractall(package.parent, filter="data")
    (home,) = package.parent.glob(f"*/{JARS}")
    return home


@dataclass(frozen=True)
class OlderTopicRecords(TopicRecords):
    """A topic, read by the connector of the older Flink."""

    def jars(self) -> list[Path]:
        return fetch("Flink's older Kafka connector", CONNECTOR)
