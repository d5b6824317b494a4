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
COMMENT = re.compile(r"\s+#\s+")
INNER = re.compile(r"\$\(([^)]*)\)")
"""A command whose output another takes."""
VARIABLES = re.compile(r"^([A-Z_]+=\S+ )+")
LEFT_OUT = "…"


@dataclass(frozen=True)
class Typed:
    """A line that is typed."""

    text: str
    """Without what a page says of it."""
    says: str = ""
    """The comment behind it: what it is for, or what it prints."""

    @property
    def target(self) -> str | None:
        """The file that its output goes to."""
        return self.text.partition(" > ")[2].strip() or None

    @property
    def words(self) -> list[str]:
        """The command alone: without variables, and without where its output goes."""
        return shlex.split(VARIABLES.sub("", self.text.partition(" > ")[0]))

    @property
    def program(self) -> str:
        return self.words[0].removeprefix(".venv/bin/")


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
        for typed in self.typed():
            for inner in INNER.findall(typed.text):
                yield shlex.split(inner)
            words = Typed(INNER.sub("given", typed.text)).words
            if words and words[0] != "eval":
                yield words

    def typed(self) -> Iterator[Typed]:
        """What is typed, line by line."""
        joined = re.sub(r"\\\n\s*", " ", self.text)
        for line in joined.splitlines():
            if self.language == "console" and not line.startswith("$ "):
                continue
            text, *says = COMMENT.split(line.removeprefix("$ ").strip(), maxsplit=1)
            if text:
                yield Typed(text, *says)


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
