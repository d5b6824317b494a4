"""Writes files whole or not at all, and every report: one HTML file that needs no network."""

from __future__ import annotations

import gzip
import math
import os
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from headgate._version import __version__
from headgate.core.errors import InputError, OutputError, cause_of
from headgate.core.extras import needing
from headgate.core.types import JSON
from headgate.journal.codec import to_json

OWN_SCRIPT = "HEADGATE_PLOTLY"
"""The environment variable that names another bundle of plotly's script."""


def report_packages() -> tuple[str, ...]:
    """Return the packages that a report needs."""
    return () if os.environ.get(OWN_SCRIPT) else ("plotly",)


def require_plotly() -> str:
    """Return plotly's script as a page carries it, packed; raise an error that says how to install it."""
    if path := os.environ.get(OWN_SCRIPT):
        try:
            return _packed(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{OWN_SCRIPT}={path} cannot be read: {cause_of(error)}.") from error
    with needing("a report"):
        from plotly.offline import get_plotlyjs
    return _packed(get_plotlyjs())


@cache
def _packed(script: str) -> str:
    # Without the time of packing, so that the same script makes the same page.
    return b64encode(gzip.compress(script.encode(), mtime=0)).decode()


def write_page(
    path: Path,
    *,
    title: str,
    head: str,
    sections: Sequence[str],
    figures: Sequence[Mapping[str, JSON]],
    cards: str = "",
) -> Path:
    """Write a page and return its path; an existing file is replaced.

    Args:
        path: The file to write.
        title: The heading, as text.
        head: The lines under it, as HTML.
        sections: The parts after the cards, as HTML; the figure with index i is drawn into the element ``figure-i``.
        figures: The plots, as the data and layout that plotly's script takes.
        cards: The most important numbers, as HTML.
    """
    page = Template(files("headgate.render").joinpath("report.html").read_text(encoding="utf-8")).substitute(
        title=escape(title),
        head=head,
        cards=cards,
        sections="\n".join(section for section in sections if section),
        footer=f"Made by Headgate {escape(__version__)}.",
        plotly=require_plotly(),
        # Nothing is unescaped inside a script element, so the data must not contain its end tag.
        figures=to_json(_shortened(list(figures))).replace("<", "\\u003c"),
    )
    write_file(path, page)
    return path


def _shortened(value: JSON) -> JSON:
    """Return data with numbers as fine as a plot shows them, six digits or thousandths, which halves a large report."""
    if isinstance(value, float):
        return round(value, 3) if abs(value) >= 1000 or not math.isfinite(value) else float(f"{value:.6g}")
    if isinstance(value, Mapping):
        return {name: _shortened(part) for name, part in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_shortened(part) for part in value]
    return value


ODD = "replace"
"""How file names that are not valid UTF-8 are written."""


def write_file(path: Path, text: str) -> None:
    """Write all of the text or nothing: readers never see half a file, and a failure keeps the old one."""
    path = path.resolve()
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8", errors=ODD)  # A device or a pipe: not to be replaced by a file.
            return
        part.write_text(text, encoding="utf-8", errors=ODD)
        part.replace(path)
    except OSError as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise OutputError(f"{path} cannot be written: {cause_of(error)}.") from error
