"""One plot, as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headgate.core.types import JSON


@dataclass(frozen=True)
class Plot:
    """One plot, as the data and layout that plotly's script takes."""

    title: str
    data: Sequence[Mapping[str, JSON]]
    layout: Mapping[str, JSON] = field(default_factory=dict)
    key: str = ""
    """What its lines, points, boxes and bars are, where their names do not say so."""
