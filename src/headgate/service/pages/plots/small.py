"""Plots of the size of a word: the load of a job beside its size, and a bar for what is left of a budget."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from headgate.core.types import Instant
from headgate.service.pages.plots.axes import TimeAxis
from headgate.service.pages.plots.panel import Line, Panel
from headgate.service.pages.plots.svg import element


def sparkline(time: TimeAxis, title: str, kind: str, course: Sequence[tuple[Instant, float | None]]) -> Markup:
    """A line without axes."""
    panel = Panel(title, "", time, [Line(title, kind, course, filled=True)])
    return element("span", panel.svg(is_small=True), class_="spark")


def meter(share: float, label: str, kind: str) -> Markup:
    """A bar that is full by a share, 0 to 1."""
    full = min(1.0, max(0.0, share))
    return element(
        "svg",
        element("rect", class_="rail", width="100%", height="100%", rx=3),
        element("rect", class_=f"full {kind}", width=f"{100 * full:.0f}%", height="100%", rx=3),
        class_="meter",
        role="img",
        aria_label=label,
    )
