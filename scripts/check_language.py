"""Checks the language of the tree: words of the glossary that must not come back, and class names used for two ideas.

    .venv/bin/python scripts/check_language.py [PATH …]

Prints each finding as FILE:LINE and exits with 1 where there are any. With paths, only what is below them is shown.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROSE = re.compile(
    r"\b(told|untold|foretold|asked|unasked|kept|heard|beside|whoever|whomever|telling|what came of it|as it was)\b",
    re.IGNORECASE,
)
"""Words that have a plain term of the field instead, wherever people read them."""
PARTS = frozenset(
    {"told", "untold", "foretold", "asked", "unasked", "kept", "heard", "beside", "whoever", "telling"}
    | {"anew", "looked", "came", "further", "blame", "ages", "news"}
)
"""Words that say too little as a part of a name."""
NAMES = frozenset({"one", "said", "goes_on"})
"""Words that say too little as a whole name."""
PERSISTED = frozenset({"asked", "foretold", "heard_s", "kept", "kept %", "kept_pct", "not kept", "told"})
"""Keys of journals, recorded results and the service's interface: renaming them would break their readers."""
NO_PROSE = re.compile(r"<!-- benchmark: [^>]*-->|`(?P<key>[^`]+)`")
"""Parts of a page that may be keys: the choice of recorded rows, and code."""
SUFFIXES = frozenset(
    {".py", ".md", ".html", ".js", ".css", ".yaml", ".yml", ".toml", ".java", ".sql", ".json", ".ipynb", ".sh"}
)
UNCHECKED = ("docs/benchmarks/", "scripts/check_language.py", "tests/docs/test_language.py", "requirements/")
"""Recorded results, and what has to name the words."""


def main(arguments: list[str]) -> int:
    """Print all findings below the given paths and return the exit code."""
    chosen = [Path(argument).resolve() for argument in arguments] or [ROOT]
    findings = [
        f"{path.relative_to(ROOT)}:{line}: {finding}"
        for path in tracked_files()
        if any(path.is_relative_to(folder) for folder in chosen)
        for line, finding in check_file(path)
    ]
    findings += [
        f"{name}: class name used {len(places)} times: {', '.join(places)}"
        for name, places in repeated_classes().items()
        if any((ROOT / place.partition(":")[0]).is_relative_to(folder) for place in places for folder in chosen)
    ]
    for finding in findings:
        print(finding)
    return 1 if findings else 0


def tracked_files() -> list[Path]:
    """Return the files of the checkout that people read."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    paths = [ROOT / name for name in listed if not name.startswith(UNCHECKED)]
    return [
        path for path in paths if path.is_file() and (path.suffix in SUFFIXES or path.name in ("Makefile", "setup"))
    ]


def check_file(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the finding of each word that should not be there."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        yield from check_python(text)
        return
    for number, line in enumerate(text.splitlines(), 1):
        prose = NO_PROSE.sub(lambda match: "" if match["key"] is None or is_persisted(match["key"]) else match[0], line)
        yield from ((number, f"word {match[0]!r}") for match in PROSE.finditer(prose))


def check_python(text: str) -> Iterator[tuple[int, str]]:
    """Yield findings in the names, comments and strings of a module.

    >>> list(check_python("told = 1  # asked for"))
    [(1, "name 'told'"), (1, "word 'asked'")]
    >>> list(check_python("row['heard_s'] = latest_s"))
    []
    """
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME and is_poor_name(token.string):
            yield token.start[0], f"name {token.string!r}"
        elif token.type in (tokenize.COMMENT, tokenize.STRING) and not is_persisted(token.string):
            for match in PROSE.finditer(token.string):
                yield token.start[0] + token.string.count("\n", 0, match.start()), f"word {match[0]!r}"


def is_poor_name(name: str) -> bool:
    """Return whether a name, or a part of it, is a word of the glossary."""
    parts = re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)
    return name in NAMES or any(part.lower() in PARTS for part in parts)


def is_persisted(literal: str) -> bool:
    """Return whether a literal is nothing but a key that recorded data has."""
    return literal.lstrip("rbfu").strip("\"'") in PERSISTED


def repeated_classes() -> dict[str, list[str]]:
    """Return the names that several classes of the package have, with where they are."""
    places = defaultdict(list)
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    return {name: found for name, found in sorted(places.items()) if len(found) > 1}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
