"""The fenced blocks of the documentation, and the commands in them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "benchmarks").glob("*.md")),
]
BLOCK = re.compile(r"^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^ *```$", re.DOTALL | re.MULTILINE)
MADE = re.compile(r"<!-- output: [^>]+ -->\n.*?<!-- /output -->", re.DOTALL)
COMMENT = re.compile(r"\s+#\s.*$")
INNER = re.compile(r"\$\(([^)]*)\)")
"""A command whose output another takes."""
VARIABLES = re.compile(r"^([A-Z_]+=\S+ )+")
LEFT_OUT = "…"


@dataclass(frozen=True)
class Block:
    page: str
    number: int
    """From 1, among those of its page that are in the same language."""
    language: str
    text: str
    is_made: bool
    """Whether ``scripts/make_docs.py`` fills it in."""

    @property
    def name(self) -> str:
        return f"{self.page} {self.language or 'output'} {self.number}"

    def commands(self) -> Iterator[list[str]]:
        """What is typed, word by word; commands inside of others by themselves, without what redirects output."""
        joined = re.sub(r"\\\n\s*", " ", self.text)
        for line in joined.splitlines():
            if self.language == "console" and not line.startswith("$ "):
                continue
            typed = COMMENT.sub("", line.removeprefix("$ ").strip())
            for inner in INNER.findall(typed):
                yield shlex.split(inner)
            words = shlex.split(VARIABLES.sub("", INNER.sub("given", typed).split(" > ")[0]))
            if words and words[0] != "eval":
                yield words


def blocks() -> list[Block]:
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        made = [range(*match.span()) for match in MADE.finditer(text)]
        counts: dict[str, int] = {}
        for match in BLOCK.finditer(text):
            language = match["language"]
            counts[language] = counts.get(language, 0) + 1
            inner = re.sub(rf"^{match['indent']}", "", match["text"], flags=re.MULTILINE)
            is_made = any(match.start() in span for span in made)
            where = page.relative_to(ROOT).as_posix()
            found.append(Block(where, counts[language], language, inner, is_made))
    return found
