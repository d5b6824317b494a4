"""One HTML file that needs no network, with plotly's script in it: what every report is written as."""

from __future__ import annotations

import gzip
import logging
import math
import os
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from headgate._version import __version__
from headgate.core.errors import InputError, cause_of
from headgate.core.extras import needing
from headgate.core.types import JSON
from headgate.journal.codec import to_json
from headgate.render.files import write_file
from headgate.render.plotly_bundle import DRAWN, smaller_bundle

logger = logging.getLogger("headgate")

OWN_SCRIPT = "HEADGATE_PLOTLY"
"""The environment variable that names another bundle of plotly's script."""


def report_packages() -> tuple[str, ...]:
    """The packages without which no report can be written."""
    return () if os.environ.get(OWN_SCRIPT) else ("plotly",)


def require_plotly() -> str:
    """Plotly's script as a page carries it, packed, or one sentence on how to get it.

    Of the package's bundle only what is drawn is taken, where its form is known; another bundle may be named.
    """
    if named := os.environ.get(OWN_SCRIPT):
        try:
            return _packed(Path(named).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{OWN_SCRIPT}={named} cannot be read: {cause_of(error)}.") from error
    with needing("a report"):
        from plotly.offline import get_plotlyjs
    return _packed_drawn(get_plotlyjs())


@cache
def _packed_drawn(script: str) -> str:
    smaller = smaller_bundle(script)
    if smaller is None:
        logger.warning(
            "plotly's script has a form that is not known here, so a report carries all of it and is 2 MB large."
        )
    return _packed(script if smaller is None else smaller)


@cache
def _packed(script: str) -> str:
    # The same script, the same page: no time of packing in it.
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
    """Write a page and give its path; a file that exists is replaced.

    Args:
        path: The file to write.
        title: The heading, as text.
        head: What stands under it, as HTML.
        sections: What follows the cards, as HTML; the figure with index i is drawn into the element ``figure-i``.
        figures: The plots, as the data and layout that plotly's script takes.
        cards: The most important numbers, as HTML.
    """
    _require_drawn(figures)
    page = Template(files("headgate.render").joinpath("report.html").read_text(encoding="utf-8")).substitute(
        title=escape(title),
        head=head,
        cards=cards,
        sections="\n".join(section for section in sections if section),
        footer=f"Made by Headgate {escape(__version__)}.",
        plotly=require_plotly(),
        # Inside a script element nothing is unescaped, so its end must not be found in the data.
        figures=to_json(_shortened(list(figures))).replace("<", "\\u003c"),
    )
    write_file(path, page)
    return path


def _shortened(value: JSON) -> JSON:
    """Numbers no finer than a plot shows them, which halves a large report: six digits, or thousandths above 1,000."""
    if isinstance(value, float):
        return round(value, 3) if abs(value) >= 1000 or not math.isfinite(value) else float(f"{value:.6g}")
    if isinstance(value, Mapping):
        return {name: _shortened(part) for name, part in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_shortened(part) for part in value]
    return value


def _require_drawn(figures: Sequence[Mapping[str, JSON]]) -> None:
    """Plotly draws a kind that it does not have as lines, without a word."""
    for figure in figures:
        traces = figure.get("data", [])
        for trace in traces if isinstance(traces, Sequence) else []:
            kind = trace.get("type", "scatter") if isinstance(trace, Mapping) else "scatter"
            if kind != "scatter" and kind not in DRAWN:
                raise ValueError(
                    f"a plot of kind {kind!r} is not drawn in reports: add it to plotly_bundle.DRAWN ({sorted(DRAWN)})."
                )
