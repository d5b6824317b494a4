"""A repository of jars in a folder, to fetch from without a network."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from headgate.local.jars import Jar


class Repository:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def publish(self, text: str, content: bytes, *, sha1: str | None = None) -> tuple[Jar, str]:
        """Publish a jar with its SHA-1, or another; gives it with its SHA-256."""
        jar = Jar.parse(text)
        path = self.path(jar)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.with_suffix(".jar.sha1").write_text(sha1 or hashlib.sha1(content).hexdigest())
        return jar, hashlib.sha256(content).hexdigest()

    def path(self, jar: Jar) -> Path:
        return self.folder.joinpath(
            *jar.organisation.split("."), jar.name, jar.version, f"{jar.name}-{jar.version}.jar"
        )

    def replace_maven_central(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Have it used instead of Maven Central."""
        monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", self.folder.as_uri())
