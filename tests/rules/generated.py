"""Rule policies of every shape, for properties."""

from __future__ import annotations

from hypothesis import strategies as st

from headgate.core.metrics import METRICS, Aggregation, Dimension
from headgate.rules.model import (
    ALL_OPERATORS,
    ALL_READINGS,
    Comparison,
    Constraint,
    Direction,
    FiresOn,
    Forbidden,
    Readings,
    ReadingsKind,
    Rule,
    RulePolicy,
    ScaleFactor,
    ScaleLimit,
    Trigger,
)
from headgate.rules.schedule import Schedule
from headgate.rules.units import Quantity, Unit

OWN_METRICS = ("fraud_score", "queue: depth", "1", "true")
# Made of what can be printed rather than filtered for it: a filter would throw most of the texts away.
WORDS = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=10)
NAMES = st.lists(WORDS, min_size=1, max_size=3).map(" ".join)
OPERATORS = st.one_of(st.just(ALL_OPERATORS), st.sampled_from(["parse", "enrich"]), NAMES)
TIMES_S = st.one_of(
    st.just(0.0),
    st.integers(1, 2_592_000).map(float),
    st.floats(0.001, 86400.0, allow_nan=False).map(lambda seconds: round(seconds, 3)),
    st.floats(1e-9, 1000.0),
)
RELATIVE = st.one_of(st.integers(2, 50).map(float), st.floats(1.001, 100.0))
FACTORS = st.one_of(
    st.integers(1, 1000).map(lambda count: ScaleFactor(float(count))),
    RELATIVE.map(lambda times: ScaleFactor(times, relative=True)),
)
LIMITS = st.one_of(
    st.integers(1, 1000).map(lambda count: ScaleLimit(float(count))),
    st.floats(0.01, 100.0).map(lambda times: ScaleLimit(times, relative=True)),
)
READINGS = st.one_of(
    st.just(ALL_READINGS),
    st.sampled_from([Readings(ReadingsKind.AVERAGE), Readings(ReadingsKind.MEDIAN)]),
    st.floats(0.01, 100.0).map(lambda percent: Readings(ReadingsKind.SHARE, percent)),
)
UNITS = {
    Dimension.RECORDS: [Unit.PLAIN, Unit.RECORDS],
    Dimension.RATE: [Unit.PLAIN, Unit.RECORDS_PER_S],
    Dimension.TIME: [Unit.PLAIN, Unit.MILLISECONDS, Unit.SECONDS, Unit.MINUTES, Unit.HOURS],
    Dimension.SHARE: [Unit.PLAIN, Unit.PERCENT],
    Dimension.COUNT: [Unit.PLAIN, Unit.PERCENT],
}


@st.composite
def triggers(draw: st.DrawFn) -> Trigger:
    metric = draw(st.sampled_from([*METRICS, *OWN_METRICS]))
    known = METRICS.get(metric)
    comparison = draw(st.sampled_from(list(Comparison)))
    readings, lasting_s = draw(READINGS), draw(TIMES_S)
    if known is None:
        quantity = Quantity(draw(st.floats(-1e12, 1e12)), draw(st.sampled_from(list(Unit))))
        return Trigger(metric, comparison, quantity, lasting_s, readings, draw(st.sampled_from(list(Aggregation))))
    unit = draw(st.sampled_from(UNITS[known.dimension]))
    most = 0.99 if known.dimension is Dimension.SHARE else 1e9
    value = draw(st.floats(1e-6, most)) * (100 if unit is Unit.PERCENT and most < 1 else 1)
    over = draw(st.sampled_from(list(Aggregation))) if known.per_instance else Aggregation.MEAN
    return Trigger(metric, comparison, Quantity(value, unit), lasting_s, readings, over)


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    direction = draw(st.sampled_from(list(Direction)))
    limit = draw(LIMITS if direction is Direction.OUT else st.one_of(st.none(), LIMITS))
    found = draw(st.lists(triggers(), min_size=1, max_size=3))
    fires_on = draw(st.sampled_from(FiresOn))
    times_s = draw(TIMES_S), draw(TIMES_S)
    return Rule(draw(NAMES), draw(OPERATORS), direction, draw(FACTORS), tuple(found), limit, *times_s, fires_on)


SCHEDULES = st.builds(
    lambda minute, hours, days: Schedule(f"{minute} {hours[0]}-{hours[1]} * nov-feb {days}"),
    st.sampled_from(["*", "0", "*/15", "0-29"]),
    st.tuples(st.integers(0, 23), st.integers(0, 23)),
    st.sampled_from(["1", "2,3", "5-6"]),
)


@st.composite
def constraints(draw: st.DrawFn) -> Constraint:
    at_least = draw(st.one_of(st.none(), st.integers(1, 10)))
    at_most = draw(st.one_of(st.none(), st.integers(10, 20)))
    forbid = draw(st.sampled_from([*Forbidden, *([None] if at_least or at_most else [])]))
    during = tuple(draw(st.lists(SCHEDULES, max_size=2)))
    zone = draw(st.sampled_from(["UTC", "Europe/Berlin"])) if during else "UTC"
    return Constraint(draw(NAMES), draw(OPERATORS), at_least, at_most, forbid, during, zone)


POLICIES = st.builds(
    lambda found, limits: RulePolicy(tuple(found), tuple(limits), OWN_METRICS),
    st.lists(rules(), max_size=4, unique_by=lambda rule: (rule.name, rule.operator)),
    st.lists(constraints(), max_size=3, unique_by=lambda limit: (limit.name, limit.operator)),
)
