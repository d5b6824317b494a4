"""Small plots over time (axes, lines, bands, levels, markers, panels of an operator), and the graph of a job.

They are SVG drawn where the page is made: nothing to load, and they are there with the first paint. They are as wide as
their place: lines lie in a box that is stretched, texts and markers at percentages of its width.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from markupsafe import Markup, escape

from headgate.core.objective import LatencySlo, Objective
from headgate.core.topology import Topology
from headgate.core.types import Decision, Instant, Observation, Role, Sample, Verdict
from headgate.core.units import format_duration, plain
from headgate.render.figures import peaks, samples_of, violations
from headgate.render.story import AFTER, PREFIX, Item, RowKind, is_decision_on, row_of
from headgate.service.config.model import JobSpec
from headgate.service.pages.rendering import latency

WIDTH, HEIGHT = 1000.0, 100.0
"""Of the box that lines are drawn in, whatever its size on the screen."""
_STEPS_S = (10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
_MOST_LABELS = 5


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """From some time ago to now, and a little beyond."""

    now_s: Instant
    span_s: float
    ahead_s: float = 0.0

    @property
    def from_s(self) -> Instant:
        return self.now_s - self.span_s

    @property
    def to_s(self) -> Instant:
        return self.now_s + self.ahead_s

    def share(self, at_s: Instant) -> float:
        """How far from the left edge a time lies, 0 to 1; beyond that outside the plot."""
        return (at_s - self.from_s) / (self.span_s + self.ahead_s)

    def x(self, at_s: Instant) -> float:
        return WIDTH * self.share(at_s)

    def ticks(self) -> list[tuple[Instant, str]]:
        """Round times before now, and now.

        >>> [label for _, label in TimeAxis(1000.0, 900.0).ticks()]
        ['−15m', '−10m', '−5m', 'now']
        """
        step_s = next((step for step in _STEPS_S if self.span_s / step < _MOST_LABELS), _STEPS_S[-1])
        count = math.floor(self.span_s / step_s + 1e-9)
        before = [(self.now_s - index * step_s, f"−{format_duration(index * step_s)}") for index in range(count, 0, -1)]
        return [*before, (self.now_s, "now")]


@dataclass(frozen=True, slots=True)
class ValueAxis:
    """From 0 up to a round value."""

    top: float
    step: float

    @classmethod
    def reaching(cls, largest: float, *, whole: bool = False) -> ValueAxis:
        """An axis with two to four steps on which a value fits.

        >>> ValueAxis.reaching(37.0), ValueAxis.reaching(3, whole=True)
        (ValueAxis(top=40.0, step=20.0), ValueAxis(top=3.0, step=1.0))
        """
        largest = largest if math.isfinite(largest) and largest > 0 else 1.0
        if whole:
            largest = max(2.0, largest)
        decade = 10.0 ** math.floor(math.log10(largest))
        for factor in (0.5, 1.0, 2.0, 2.5, 5.0):
            step = factor * decade
            if whole and step != round(step):
                continue
            count = math.ceil(largest / step - 1e-9)
            if count <= 3:
                return cls(max(2, count) * step if whole else count * step, step)
        return cls(10 * decade, 5 * decade)

    def y(self, value: float) -> float:
        """From the top; what is above it lies outside."""
        return HEIGHT * (1 - value / self.top)

    def ticks(self) -> list[float]:
        """The labelled values, without 0."""
        return [index * self.step for index in range(1, round(self.top / self.step) + 1)]


def element(name: str, *content: str, **attributes: str | float | None) -> Markup:
    """An element; attributes that are ``None`` are left out, ``_`` stands for a dash and one at the end for nothing.

    >>> element("text", "a < b", class_="tick", text_anchor="end", x=1.25)
    Markup('<text class="tick" text-anchor="end" x="1.25">a &lt; b</text>')
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(number(value) if isinstance(value, int | float) else value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{written}>{Markup().join(escape(part) for part in content)}</{name}>")


def number(value: float) -> str:
    """A coordinate: a tenth of a unit is less than a pixel of any screen.

    >>> number(12.0), number(12.345)
    ('12', '12.3')
    """
    return f"{value:.2f}".rstrip("0").rstrip(".") if abs(value) < 10 else f"{value:.1f}".removesuffix(".0")


def points(pairs: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{number(x)},{number(y)}" for x, y in pairs)


def percent(share: float) -> str:
    return f"{number(100 * share)}%"


MOST_POINTS = 360
"""Of a line; a screen cannot show more."""
_HIGHEST_BAND = 1.5
"""A band may be this many times as high as the measured values; the rest is outside the plot."""
MARKS = {
    "out": "M0 -7 L6.5 5 L-6.5 5 Z",
    "in": "M0 7 L6.5 -5 L-6.5 -5 Z",
    "stopped": "M-5 0 A5 5 0 1 0 5 0 A5 5 0 1 0 -5 0 M-3.5 -3.5 L3.5 3.5",
    "capped": "M-5.5 -5.5 H5.5 V5.5 H-5.5 Z",
    "advice": "M0 -7 L7 0 L0 7 L-7 0 Z",
}
"""Shapes that differ without their colours."""

Points = Sequence[tuple[Instant, float | None]]


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    kind: str
    """The CSS class that colours it."""
    points: Points
    filled: bool = False
    steps: bool = False


@dataclass(frozen=True, slots=True)
class Band:
    """The interval in which a quantity was predicted to lie."""

    name: str
    points: Sequence[tuple[Instant, float, float]]


@dataclass(frozen=True, slots=True)
class Level:
    """A limit."""

    value: float
    label: str


@dataclass(frozen=True, slots=True)
class Mark:
    at_s: Instant
    value: float
    kind: str
    key: str
    """The id of the story row with the details."""
    label: str


@dataclass(frozen=True, slots=True)
class Panel:
    """One plot; ``svg`` draws it."""

    title: str
    unit: str
    time: TimeAxis
    lines: Sequence[Line]
    bands: Sequence[Band] = ()
    levels: Sequence[Level] = ()
    marks: Sequence[Mark] = ()
    shaded: Sequence[tuple[Instant, Instant]] = ()
    """Times in which the objective was violated."""
    whole: bool = False
    format_value: Callable[[float], str] = field(default=plain)

    @property
    def newest(self) -> str:
        """The newest value of the first line."""
        value = next((value for _, value in reversed(self.lines[0].points) if value is not None), None)
        return "–" if value is None else f"{self.format_value(value)} {self.unit}".strip()

    @property
    def alt(self) -> str:
        """The plot in a sentence, for screen readers."""
        values = [value for _, value in self.lines[0].points if value is not None]
        if not values:
            return f"{self.title}: nothing is known yet."
        largest = f"{self.format_value(max(values))} {self.unit}".strip()
        return f"{self.title}: {self.newest} now, at most {largest} in this time."

    def svg(self, *, is_small: bool = False) -> Markup:
        """Return the drawing; a small one has neither grid nor labels."""
        values = self._axis()
        area = element(
            "svg",
            *self._shades(),
            *(() if is_small else self._grid(values)),
            *(self._band(band, values) for band in self.bands if len(band.points) > 1),
            *(shape for line in self.lines for shape in self._line(line, values)),
            *(self._level(level, values) for level in self.levels),
            class_="area",
            viewBox=f"0 0 {number(WIDTH)} {number(HEIGHT)}",
            preserveAspectRatio="none",
        )
        if is_small:
            return element("svg", area, class_="small", role="img", aria_label=self.alt)
        over = element(
            "svg",
            *self._labels(values),
            *(self._mark(mark, values) for mark in self.marks if 0 <= self.time.share(mark.at_s) <= 1),
            class_="over",
        )
        return element(
            "svg",
            area,
            over,
            class_="plot",
            role="group" if self.marks else "img",
            aria_label=self.alt,
            data_top=values.top,
            data_unit=self.unit,
            data_from=f"{-self.time.span_s:g}",
            data_to=f"{self.time.ahead_s:g}",
        )

    def _axis(self) -> ValueAxis:
        seen = [value for line in self.lines for at_s, value in line.points if value is not None and self._shows(at_s)]
        seen += [level.value * 1.15 for level in self.levels] + [mark.value + 0.4 for mark in self.marks]
        largest = max(seen, default=0.0)
        highs = [high for band in self.bands for at_s, _, high in band.points if self._shows(at_s)]
        most = _HIGHEST_BAND * largest if largest > 0 else max(highs, default=0.0)
        return ValueAxis.reaching(max(largest, min(max(highs, default=0.0), most)) * 1.02, whole=self.whole)

    def _shows(self, at_s: Instant) -> bool:
        return self.time.from_s <= at_s <= self.time.to_s

    def _shades(self) -> Iterator[Markup]:
        for from_s, to_s in self.shaded:
            left, right = max(0.0, self.time.x(from_s)), min(WIDTH, self.time.x(to_s))
            if right > left:
                yield element("rect", class_="violated", x=left, y=0, width=right - left, height=HEIGHT)

    def _grid(self, values: ValueAxis) -> Iterator[Markup]:
        for value in values.ticks():
            yield element("path", class_="grid", d=f"M0 {number(values.y(value))} H{number(WIDTH)}")
        if self.time.ahead_s:
            yield element("path", class_="now", d=f"M{number(self.time.x(self.time.now_s))} 0 V{number(HEIGHT)}")

    def _band(self, band: Band, values: ValueAxis) -> Markup:
        upper = [(self.time.x(at_s), values.y(high)) for at_s, _, high in band.points]
        lower = [(self.time.x(at_s), values.y(low)) for at_s, low, _ in reversed(band.points)]
        return element("polygon", class_="band", points=points([*upper, *lower]))

    def _line(self, line: Line, values: ValueAxis) -> Iterator[Markup]:
        for part in _parts(line.points if line.steps else peaks(line.points, MOST_POINTS)):
            course = list(_stepped(part)) if line.steps else part
            drawn = [(self.time.x(at_s), values.y(value)) for at_s, value in course]
            if line.filled:
                around = [(drawn[0][0], HEIGHT), *drawn, (drawn[-1][0], HEIGHT)]
                yield element("polygon", class_=f"fill {line.kind}", points=points(around))
            yield element("polyline", class_=f"line {line.kind}", points=points(drawn), data_name=line.name)

    def _level(self, level: Level, values: ValueAxis) -> Markup:
        return element("path", class_="level", d=f"M0 {number(values.y(level.value))} H{number(WIDTH)}")

    def _labels(self, values: ValueAxis) -> Iterator[Markup]:
        for value in values.ticks():
            y = percent(values.y(value) / HEIGHT)
            yield element("text", self.format_value(value), class_="tick", x=4, y=y, dy="1.05em")
        for level in self.levels:
            y = percent(values.y(level.value) / HEIGHT)
            yield element("text", level.label, class_="tick level", x="100%", dx=-4, y=y, dy="-.4em", text_anchor="end")

    def _mark(self, mark: Mark, values: ValueAxis) -> Markup:
        shape = element("path", d=MARKS[mark.kind])
        # Larger than the visible mark, for touch screens.
        around = element("circle", r=13, class_="around")
        place = element(
            "svg", around, shape, x=percent(self.time.share(mark.at_s)), y=percent(values.y(mark.value) / HEIGHT)
        )
        return element("a", place, href=f"#{mark.key}", class_=f"mark {mark.kind}", aria_label=mark.label)


def times(axis: TimeAxis) -> Markup:
    """The labels of the time axis, for below the last of several plots."""
    ticks = axis.ticks()
    labels = [
        element(
            "text",
            label,
            class_="tick",
            x=percent(axis.share(at_s)),
            y="1em",
            text_anchor="start" if axis.share(at_s) < 0.02 else "end" if at_s == axis.now_s else "middle",
        )
        for at_s, label in ticks
    ]
    return element("svg", *labels, class_="times", aria_hidden="true")


def _parts(course: Points) -> Iterator[list[tuple[Instant, float]]]:
    """The stretches in which values are known."""
    part: list[tuple[Instant, float]] = []
    for at_s, value in course:
        if value is not None:
            part.append((at_s, value))
        elif part:
            yield part
            part = []
    if part:
        yield part


def _stepped(course: Sequence[tuple[Instant, float]]) -> Iterator[tuple[Instant, float]]:
    """The corners of a course that stays at a value until the next."""
    yield course[0]
    for (_, before), (at_s, value) in pairwise(course):
        if value != before:
            yield at_s, before
            yield at_s, value
    yield course[-1]


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


EXPECTED = "expected"


def panels(
    time: TimeAxis,
    observations: Sequence[Observation],
    decisions: Sequence[Decision],
    items: Sequence[Item],
    objective: Objective,
    operator: str,
) -> list[Panel]:
    """Return four plots over one time axis."""
    samples = list(samples_of(observations, operator))
    sizes = [(seen.at_s, seen.instances[operator]) for seen in observations if operator in seen.instances]
    shaded = list(violations(samples, objective.slo_of(operator)))
    acting = [
        (decision.at_s, decision.verdicts[operator])
        for decision in decisions
        if decision.role is not Role.SHADOW and operator in decision.verdicts
    ]
    slo = objective.slo_of(operator)
    levels = [Level(slo.bound_s, f"objective {format_duration(slo.bound_s)}")] if isinstance(slo, LatencySlo) else []

    def measured(name: str, unit: str, kind: str, value_of: Callable[[Sample], float | None], expected: str) -> Panel:
        points = [(sample.at_s, value_of(sample)) for sample in samples]
        bands = _bands(acting, expected)
        return Panel(name, unit, time, [Line(name.lower(), kind, points, filled=True)], bands, shaded=shaded)

    load = measured("Load", "records/s", "rate", lambda sample: sample.input_rate_per_s, "rate_per_s")
    waits = measured("Latency", "", "latency", lambda sample: sample.worst_latency_s, "latency_s")
    backlog = measured("Backlog", "records", "backlog", lambda sample: sample.backlog, "backlog")
    lines = [
        Line("ready", "ready", [(at_s, size.ready) for at_s, size in sizes], steps=True),
        Line("planned", "planned", [(at_s, size.planned) for at_s, size in sizes], steps=True),
    ]
    marks = list(_marks(items, operator))
    size = Panel("Instances", "", time, lines, marks=marks, shaded=shaded, whole=True)
    return [load, replace(waits, levels=levels, format_value=latency), backlog, size]


def end_to_end(time: TimeAxis, observations: Sequence[Observation], spec: JobSpec) -> Panel:
    """Return the plot of the latency from end to end: the sum along the path where it is longest."""
    topology, slo = spec.topology, spec.end_to_end.slo
    points = [(seen.at_s, longest_path_s(topology, seen)) for seen in observations]
    levels = [Level(slo.bound_s, f"objective {format_duration(slo.bound_s)}")] if isinstance(slo, LatencySlo) else []
    lines = [Line("end to end", "latency", points, filled=True)]
    return Panel("Latency, end to end", "", time, lines, levels=levels, format_value=latency)


def longest_path_s(topology: Topology, observation: Observation) -> float | None:
    """Return the sum of the operators' latencies along the path where it is longest; ``None`` if one is unknown."""
    until_s: dict[str, float] = {}
    for operator in topology.order:
        sample = observation.samples.get(operator)
        if sample is None or sample.worst_latency_s is None:
            return None
        before_s = max((until_s[name] for name in topology.upstream(operator)), default=0.0)
        until_s[operator] = before_s + float(sample.worst_latency_s)
    return max(until_s.values(), default=None)


def _bands(verdicts: Sequence[tuple[Instant, Verdict]], what: str) -> list[Band]:
    """Return the predictions of a quantity, each at the time it was made for."""
    found = []
    for at_s, verdict in verdicts:
        after_s, low, high = (
            verdict.numbers.get(key) for key in (AFTER, f"{PREFIX}{what}_low", f"{PREFIX}{what}_high")
        )
        if isinstance(after_s, int | float) and isinstance(low, int | float) and isinstance(high, int | float):
            found.append((at_s + after_s, float(low), float(high)))
    return [Band(EXPECTED, found)] if len(found) > 1 else []


def _marks(items: Sequence[Item], operator: str) -> Iterator[Mark]:
    for item in items:
        if not is_decision_on(item, operator):
            continue
        row = row_of(item)
        if row.kind is not RowKind.HOLD and row.size is not None:
            yield Mark(row.at_s, row.size, row.kind, row.key, f"{row.change}: {row.reason}")


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
