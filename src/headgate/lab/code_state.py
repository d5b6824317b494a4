"""A fingerprint of the code that a result depends on, so that results of other code are not mistaken for current ones.

The code is found by following import statements from a module, statically, through all of Headgate. Policies and
forecasters are found by name at run time, where no import statement shows them, so all of theirs count always.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np

import headgate

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
