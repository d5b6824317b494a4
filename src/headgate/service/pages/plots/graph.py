"""The graph of a job's operators from left to right, with their states."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from markupsafe import Markup

from headgate.core.topology import Topology
from headgate.service.pages.plots.panel import element

WIDTH, HEIGHT = 196, 92
GAP_X, GAP_Y = 44, 18
_MARGIN = 3
_MOST_DOTS = 14
_MOST_LETTERS = 15
"""Of a name, next to the word for its state."""


@dataclass(frozen=True, slots=True)
class Node:
    """An operator as the graph shows it."""

    operator: str
    ready: int
    planned: int
    first: str
    second: str
    """Two short lines."""
    state: str
    """The class that gives it its colour; ``word`` says the same."""
    word: str
    href: str
    is_chosen: bool


def graph(topology: Topology, node_of: Callable[[str], Node]) -> Markup:
    """The drawing, as large as it has to be; what holds it scrolls."""
    places = _places(topology)
    columns = 1 + max(column for column, _ in places.values())
    rows = 1 + max(row for _, row in places.values())
    width = columns * (WIDTH + GAP_X) - GAP_X + 2 * _MARGIN
    height = rows * (HEIGHT + GAP_Y) - GAP_Y + 2 * _MARGIN
    corners = {
        name: (_MARGIN + column * (WIDTH + GAP_X), _MARGIN + row * (HEIGHT + GAP_Y))
        for name, (column, row) in places.items()
    }
    return element(
        "svg",
        *(_stream(corners[source], corners[target]) for source, target in topology.streams),
        *(_drawn(node_of(name), *corners[name]) for name in topology.order),
        class_="graph",
        width=width,
        height=height,
        viewBox=f"0 0 {width} {height}",
        role="group",
        aria_label="The operators and the streams between them",
    )


def _places(topology: Topology) -> dict[str, tuple[int, int]]:
    """The column and the row of each operator: one column after the last of those that feed it."""
    columns: dict[str, int] = {}
    filled: dict[int, int] = {}
    places: dict[str, tuple[int, int]] = {}
    for name in topology.order:
        columns[name] = 1 + max((columns[source] for source in topology.upstream(name)), default=-1)
        row = filled.get(columns[name], 0)
        filled[columns[name]] = row + 1
        places[name] = (columns[name], row)
    return places


def _stream(source: tuple[float, float], target: tuple[float, float]) -> Markup:
    from_x, from_y = source[0] + WIDTH, source[1] + HEIGHT / 2
    to_x, to_y = target[0] - 7, target[1] + HEIGHT / 2
    bend = (to_x - from_x) / 2
    path = f"M{from_x:g} {from_y:g} C{from_x + bend:g} {from_y:g} {to_x - bend:g} {to_y:g} {to_x:g} {to_y:g}"
    head = f"M{to_x - 2:g} {to_y - 5:g} L{to_x + 6:g} {to_y:g} L{to_x - 2:g} {to_y + 5:g} Z"
    return element("g", element("path", d=path), element("path", d=head, class_="head"), class_="stream")


def _drawn(node: Node, x: float, y: float) -> Markup:
    chosen = " chosen" if node.is_chosen else ""
    return element(
        "a",
        element("rect", x=x, y=y, width=WIDTH, height=HEIGHT, rx=10),
        element("title", node.operator),
        element("text", _shortened(node.operator), class_="name", x=x + 14, y=y + 24),
        element("text", node.word, class_="word", x=x + WIDTH - 14, y=y + 24, text_anchor="end"),
        *_dots(node.ready, node.planned, x + 19, y + 42),
        element("text", node.first, class_="info", x=x + 14, y=y + 64),
        element("text", node.second, class_="info", x=x + 14, y=y + 81),
        href=node.href,
        class_=f"node {node.state}{chosen}",
        aria_label=f"{node.operator}: {node.word}, {node.ready} of {node.planned} ready, {node.first}, {node.second}",
        aria_current="true" if node.is_chosen else None,
    )


def _shortened(name: str) -> str:
    """
    >>> _shortened("enrich"), _shortened("enrich-with-customers-of-last-year")
    ('enrich', 'enrich…ast-year')
    """
    # The ends of names are what they differ by.
    return name if len(name) <= _MOST_LETTERS else f"{name[:6]}…{name[-8:]}"


def _dots(ready: int, planned: int, x: float, y: float) -> Iterator[Markup]:
    """One dot for each instance: full when it is ready, hollow when it is still to come, crossed when it is to go."""
    count = max(ready, planned)
    shown = count if count <= _MOST_DOTS else _MOST_DOTS - 3
    for index in range(shown):
        place: Mapping[str, float] = {"cx": x + 12 * index, "cy": y, "r": 4}
        kind = "leaving" if planned <= index < ready else "ready" if index < ready else "coming"
        yield element("circle", class_=f"dot {kind}", **place)
    if shown < count:
        yield element("text", f"+{count - shown}", class_="info", x=x + 12 * shown - 3, y=y + 4)
