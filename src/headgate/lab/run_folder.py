"""The folder of a lab run or a tuning: a manifest of what runs in it by which code, the rows of runs, Spark's log.

A fingerprint of the code that a result depends on tells results of other code from current ones. The code is found by
following import statements from a module, statically, through all of Headgate. Policies and forecasters are found by
name at run time, where no import statement shows them, so all of theirs count always.
"""

from __future__ import annotations

import ast
import hashlib
import json
import platform
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import ClassVar

import numpy as np

import headgate
from headgate._version import __version__
from headgate.core.errors import InputError
from headgate.core.types import JSON
from headgate.render.page import write_file

MANIFEST = "manifest.json"
FORMAT_VERSION = 1
TUNING = "tuning"
"""The ``kind`` in the manifest of a tuning; that of a lab run has none."""


class ResultFolder:
    """A folder that the same command with the same ``--out`` continues; another one is refused."""

    kind: ClassVar[str | None] = None
    subject: ClassVar[str] = "experiment"
    """The key of the manifest that says what runs, and its name in messages."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.runs = path / "runs"
        self.log = path / "spark.log"

    def manifest(self) -> Mapping[str, JSON]:
        """The manifest; a folder of another kind or format is an error."""
        file = self.path / MANIFEST
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(
                f"{self.path} is no folder of a lab run: it has no {MANIFEST}; headgate lab run FILE --out makes one."
            ) from error
        except ValueError as error:
            raise InputError(f"{file} is no JSON: {error}.") from error
        kind, version = (found.get("kind"), found.get("version")) if isinstance(found, dict) else (None, None)
        if kind != self.kind:
            raise InputError(
                f"{self.path} is of headgate lab tune, not of headgate lab run; look at its tuned.json."
                if kind == TUNING
                else f"{self.path} is not of headgate lab tune; give another --out."
            )
        if version != FORMAT_VERSION:
            raise InputError(f"{self.path} has version {version!r} of the format; {FORMAT_VERSION} can be read.")
        assert isinstance(found, dict)
        return found

    def resume_or_create(
        self, code: str, subject: Mapping[str, JSON], details: Mapping[str, JSON], versions: Mapping[str, str]
    ) -> bool:
        """Return whether the folder has runs of the same subject by the same code; create it where there is none."""
        plain = json.loads(json.dumps(subject))
        if (self.path / MANIFEST).is_file():
            self._refuse_other(code, plain)
            return True
        if self.path.is_dir() and any(self.path.iterdir()):
            raise InputError(f"{self.path} has other files in it; a folder of its own is needed (--out).")
        self.runs.mkdir(parents=True, exist_ok=True)
        written = {
            "version": FORMAT_VERSION,
            **({} if self.kind is None else {"kind": self.kind}),
            "code": code,
            self.subject: plain,
            **details,
            "began": datetime.now(UTC).isoformat(timespec="seconds"),
            "headgate": __version__,
            "versions": {"python": platform.python_version(), "numpy": np.__version__, **versions},
        }
        write_file(self.path / MANIFEST, json.dumps(written, indent=2) + "\n")
        return False

    def _refuse_other(self, code: str, subject: Mapping[str, JSON]) -> None:
        manifest = self.manifest()
        problems = []
        if manifest.get("code") != code:
            problems.append(f"it was made by other code ({manifest.get('code')}; this is {code})")
        before = manifest.get(self.subject)
        if before != subject:
            before = before if isinstance(before, Mapping) else {}
            differ = [name for name in subject if before.get(name) != subject[name]]
            noun = self.kind or self.subject
            problems.append(f"it is of another {noun} (other {', '.join(differ)})")
        if problems:
            raise InputError(
                f"{self.path} cannot be continued: {' and '.join(problems)}. Give another --out, or remove the folder."
            )


FOUND_BY_NAME = ("policies", "forecast")
_HOME = Path(headgate.__file__).parent


@cache
def fingerprint(module: str, format_version: int = 1) -> str:
    """The state of the code by which this process runs ``module``: loaded code stays when files change."""
    digest = hashlib.sha256(f"{format_version} {np.__version__}".encode())
    for path in sorted(code_of(module)):
        digest.update(path.relative_to(_HOME).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def code_of(module: str) -> set[Path]:
    """The files of Headgate that a module can import, directly or not, and those that are found by name."""
    waiting = [module, *(_module_of(path) for folder in FOUND_BY_NAME for path in (_HOME / folder).glob("*.py"))]
    seen, files = set(waiting), set()
    while waiting:
        name = waiting.pop()
        path = _file_of(name)
        if path is None:
            continue
        files.add(path)
        # Importing a module runs the packages around it first.
        found = {name.rpartition(".")[0], *_imported(ast.parse(path.read_bytes()))} - seen
        seen |= found
        waiting += found
    return files


def _module_of(path: Path) -> str:
    return ".".join(("headgate", *path.relative_to(_HOME).with_suffix("").parts))


def _file_of(name: str) -> Path | None:
    """The file of a module of Headgate; ``None`` for other packages and for names inside a module."""
    package, *parts = name.split(".")
    if package != "headgate":
        return None
    files = (_HOME.joinpath(*parts, "__init__.py"), _HOME.joinpath(*parts).with_suffix(".py"))
    return next((path for path in files if path.is_file()), None)


def _imported(node: ast.AST) -> Iterator[str]:
    """The names that a module imports anywhere but for type checkers."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module is not None:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
    is_typing_only = isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    for child in node.orelse if is_typing_only and isinstance(node, ast.If) else ast.iter_child_nodes(node):
        yield from _imported(child)
