"""One plot: lines, bands, levels and markers over time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from markupsafe import Markup

from headgate.core.types import Instant
from headgate.core.units import plain
from headgate.render.figures import peaks
from headgate.service.pages.plots.axes import HEIGHT, WIDTH, TimeAxis, ValueAxis
from headgate.service.pages.plots.svg import element, number, percent, points

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
