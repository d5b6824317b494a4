"""What the documentation site adds to ``docs/``: pages of the repository's root, the whole navigation, settings.

MkDocs calls these functions while ``make docs`` builds the site; see ``mkdocs.yml``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
POLICIES = ROOT / "src" / "headgate" / "policies"
OF_ROOT = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md", "security.md": "SECURITY.md"}
"""Pages of the site that lie next to ``docs/``, where people look for them."""
SETTINGS_PAGE = "api/settings.md"
LINK = re.compile(r"\[(?P<text>[^\[\]]*)\]\((?P<target>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")
SETTINGS = re.compile(r"^class (\w+Settings)\(", re.MULTILINE)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the files that ``folder/*``, or ``*``, stands for in its place: those that are not named by themselves."""
    named = set(_named(config.nav or []))
    config.nav = [_expanded(entry, named) for entry in config.nav or []]
    return config


def _named(entries: list[Any]) -> Iterator[str]:
    for entry in entries:
        for value in entry.values() if isinstance(entry, dict) else [entry]:
            yield from _named(value) if isinstance(value, list) else [value]


def _expanded(entry: Any, named: set[str]) -> Any:
    if not isinstance(entry, dict):
        return entry
    return {title: _with_rest(value, named) if isinstance(value, list) else value for title, value in entry.items()}


def _with_rest(entries: list[Any], named: set[str]) -> list[Any]:
    found: list[Any] = []
    for entry in entries:
        if isinstance(entry, str) and entry.endswith("*"):
            pages = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.glob(f"{entry}.md"))
            found += [page for page in pages if page not in named]
        else:
            found.append(_expanded(entry, named))
    return found


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages of the root."""
    for page, source in OF_ROOT.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    return files


def _settings() -> str:
    """The settings of every policy, and of the guards."""
    classes = [
        f"policies.{path.stem}.{name}"
        for path in sorted(POLICIES.glob("[a-z]*.py"))
        for name in SETTINGS.findall(path.read_text(encoding="utf-8"))
    ]
    return "\n".join(f"::: headgate.{name}\n" for name in (*classes, "policies.frame.base.GuardSettings"))


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links that lead out of ``docs/``: to pages of the root, or, to what the site does not have, only its path.

    The page of settings gets those of every policy that there is.
    """
    source = OF_ROOT.get(page.file.src_uri)
    here = ROOT if source else (DOCS / page.file.src_uri).parent

    def lead(match: re.Match[str]) -> str:
        target, anchor = match["target"], match["anchor"] or ""
        if ":" in target:
            return match[0]
        aim = Path(os.path.normpath(here / target))
        if aim.is_relative_to(DOCS):
            inside = aim.relative_to(DOCS).as_posix() + ("/README.md" if aim.is_dir() else "")
            return f"[{match['text']}]({_from(page, inside)}{anchor})"
        for name, origin in OF_ROOT.items():
            if aim == ROOT / origin:
                return f"[{match['text']}]({_from(page, name)}{anchor})"
        path = aim.relative_to(ROOT).as_posix()
        return match["text"] if path in match["text"].replace("`", "") else f"{match['text']} (`{path}`)"

    text = LINK.sub(lead, markdown)
    return f"{text}\n{_settings()}" if page.file.src_uri == SETTINGS_PAGE else text


def _from(page: Page, target: str) -> str:
    return os.path.relpath(target, Path(page.file.src_uri).parent)
