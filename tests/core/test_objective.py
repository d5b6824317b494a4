"""What users may ask for, and when a reading breaks it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.errors import InputError
from headgate.core.objective import (
    By,
    CostLimit,
    LatencySlo,
    Objective,
    Slo,
    SlowShareSlo,
    ThroughputSlo,
    objective_from,
    objective_to_data,
    parse_objective,
)
from headgate.core.topology import Sizing, Topology
from headgate.core.types import JSON, Sample

HOUR_S, DAY_S = 3600.0, 86400.0


@pytest.mark.parametrize(
    ("text", "slo"),
    [
        ("latency p95 < 10s", LatencySlo(10, 95)),
        ("p99 latency < 500ms", LatencySlo(0.5, 99)),
        ("latency p99.9 <= 2m", LatencySlo(120, 99.9)),
        ("latency < 10s", LatencySlo(10, 95)),
        ("latency<10", LatencySlo(10, 95)),
        ("  Latency   P50 < 1H ", LatencySlo(3600, 50)),
        ("slow records < 5%", SlowShareSlo(0.05)),
        ("slow < 0.1", SlowShareSlo(0.1)),
        ("throughput >= 95%", ThroughputSlo(0.95)),
        ("throughput > 0.9", ThroughputSlo(0.9)),
        ("latency p95 < 10s per 6h", LatencySlo(10, 95, 6 * HOUR_S)),
        ("latency p95 < 10s per day", LatencySlo(10, 95, DAY_S)),
        ("latency p95 < 10s per a week by records", LatencySlo(10, 95, 7 * DAY_S, By.RECORDS)),
        ("Latency P99 < 10s BY Time", LatencySlo(10, 99, DAY_S, By.TIME)),
        ("p99 latency < 500ms per hour by time", LatencySlo(0.5, 99, HOUR_S, By.TIME)),
        ("slow records < 5% per 1h", SlowShareSlo(0.05, HOUR_S)),
        ("throughput >= 95% per 12h", ThroughputSlo(0.95, 12 * HOUR_S, By.TIME)),
        ("throughput >= 95% by records", ThroughputSlo(0.95, DAY_S, By.RECORDS)),
    ],
)
def test_an_objective_is_read_from_its_friendly_form(text: str, slo: Slo) -> None:
    assert parse_objective(text).slo == slo


@pytest.mark.parametrize(
    "text",
    [
        "latency p95 < 10s",
        "latency p99.9 < 2m",
        "latency p95 < 10.04s per 90m by time",
        "slow records < 5%",
        "slow records < 5% per 6h",
        "throughput >= 95%",
        "throughput >= 99.5% by records",
        "latency p95 < 10s, cost < 12 per day",
        "latency p95 < 10s per 6h, cost < 0.5 per 1h, price 0.25",
        "throughput >= 95%, price 0.1",
    ],
)
def test_an_objective_prints_itself_back(text: str) -> None:
    assert str(parse_objective(text)) == text
    assert parse_objective(str(parse_objective(text))) == parse_objective(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "fast please",
        "latency",
        "latency < ",
        "latency > 10s",
        "latency < 0s",
        "latency < soon",
        "latency p0 < 10s",
        "latency p101 < 10s",
        "p95 latency p99 < 10s or less",
        "slow records < 0%",
        "slow records < 150%",
        "throughput >= 100%",
        "throughput < 95%",
        "latency p95 < 10s per",
        "latency p95 < 10s per soon",
        "latency p95 < 10s per 10s",
        "latency p95 < 10s by size",
        "p95 latency p99 < 10s",
        "slow records < 5% by time",
        "latency p95 < 10s, cost < nothing",
        "latency p95 < 10s, cost < 0 per day",
        "latency p95 < 10s, cost < 12 per minute",
        "latency p95 < 10s, cost < 12 per day, cost < 13 per day",
        "latency p95 < 10s, price -1",
        "latency p95 < 10s, price inf",
        "latency p95 < 10s, cheap",
        "latency p95 < 10s,",
        "cost < 12 per day",
    ],
)
def test_an_objective_that_cannot_be_used_is_named_in_the_error(text: str) -> None:
    with pytest.raises(InputError) as raised:
        parse_objective(text)
    assert repr(text) in str(raised.value)


@pytest.mark.parametrize(
    ("bounds", "message"),
    [((-2, 4), "min_instances -2"), ((5, 4), "max_instances 4"), ((-1, -1), "min_instances -1")],
)
def test_bounds_must_leave_room_for_a_size(bounds: tuple[int, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Objective(LatencySlo(10), *bounds)


@pytest.mark.parametrize("price", [-0.01, math.nan, math.inf, 1e308])
def test_a_price_must_be_finite_and_not_negative(price: float) -> None:
    with pytest.raises(InputError, match="price"):
        Objective(LatencySlo(10), price_per_instance_hour=price)


def test_a_limit_on_the_cost_needs_the_price_of_every_operator() -> None:
    limited = parse_objective("latency p95 < 10s, cost < 12 per day")
    pipeline = Topology(("parse", "join"), (("parse", "join"),), {"join": Sizing(price_per_instance_hour=3.0)})
    with pytest.raises(InputError, match="'cost < 12 per day' cannot be enforced without a price of parse"):
        limited.prices(pipeline)
    assert limited.priced(0.5).prices(pipeline) == {"parse": 0.5, "join": 3.0}
    assert parse_objective("latency p95 < 10s").prices(pipeline) == {"join": 3.0}


@pytest.mark.parametrize(
    ("slo", "share"),
    [
        (LatencySlo(10), 0.05),
        (LatencySlo(10, 99.9), 0.001),
        (LatencySlo(10, 100), 0.0),
        (SlowShareSlo(0.1), 0.1),
        (ThroughputSlo(0.99), 0.01),
    ],
)
def test_the_allowed_share_is_the_rest_of_the_required_one(slo: Slo, share: float) -> None:
    assert slo.allowed_share == share


@pytest.mark.parametrize(("instances", "clamped"), [(1, 2), (2, 2), (3, 3), (5, 5), (9, 5)])
def test_a_size_is_brought_within_the_bounds(instances: int, clamped: int) -> None:
    assert parse_objective("latency < 10s").within(2, 5).clamp(instances) == clamped


LATENCY, SLOW, THROUGHPUT = LatencySlo(10), SlowShareSlo(0.1), ThroughputSlo(0.95)


@pytest.mark.parametrize(
    ("slo", "sample", "violated", "pressure"),
    [
        (LATENCY, Sample("job", 0), None, None),
        (LATENCY, Sample("job", 0, latency_s=5), False, 0.5),
        (LATENCY, Sample("job", 0, latency_s=10), True, 1.0),
        (LATENCY, Sample("job", 0, latency_s=25), True, 2.5),
        (SLOW, Sample("job", 0, backlog=5), None, None),
        (SLOW, Sample("job", 0, input_rate_per_s=100), None, None),
        (SLOW, Sample("job", 0, input_rate_per_s=100, backlog=5), False, 0.5),
        (SLOW, Sample("job", 0, input_rate_per_s=100, backlog=10), True, 1.0),
        (SLOW, Sample("job", 0, input_rate_per_s=0, backlog=0), False, 0.0),
        (SLOW, Sample("job", 0, input_rate_per_s=0, backlog=1), True, math.inf),
        (THROUGHPUT, Sample("job", 0), None, None),
        (THROUGHPUT, Sample("job", 0, backlog=0), False, None),
        (THROUGHPUT, Sample("job", 0, backlog=9, input_rate_per_s=100, processed_rate_per_s=80), True, 1.25),
        (THROUGHPUT, Sample("job", 0, backlog=9, input_rate_per_s=100, processed_rate_per_s=125), False, 0.8),
        (THROUGHPUT, Sample("job", 0, backlog=0, input_rate_per_s=100, processed_rate_per_s=80), False, 1.25),
        (THROUGHPUT, Sample("job", 0, input_rate_per_s=1, processed_rate_per_s=0), True, math.inf),
        (THROUGHPUT, Sample("job", 0, input_rate_per_s=0, processed_rate_per_s=0), False, 0.0),
    ],
)
def test_a_reading_is_judged_by_the_objective(
    slo: Slo, sample: Sample, violated: bool | None, pressure: float | None
) -> None:
    assert slo.violated_by(sample) is violated
    assert slo.pressure(sample) == (pressure if pressure is None else pytest.approx(pressure))


@pytest.mark.parametrize("slo", [LATENCY, SLOW, THROUGHPUT])
@pytest.mark.parametrize("load", [0.5, 2.0])
def test_the_judgement_of_a_reading_of_numpy_is_a_plain_one(slo: Slo, load: float) -> None:
    rate, many = np.float64(100.0), np.float64(10.0 * load)
    sample = Sample("job", 0, latency_s=many, backlog=many, input_rate_per_s=rate, processed_rate_per_s=rate / load)
    assert slo.violated_by(sample) is (load > 1)
    assert type(slo.pressure(sample)) is float


SPANS_S = st.one_of(
    st.integers(1, 10**6).map(float), st.integers(1, 10**9).map(lambda ms: ms / 1000), st.floats(1e-6, 1e7)
)
PERIODS_S = SPANS_S.map(lambda span_s: max(60.0, span_s))
SHARES = st.one_of(
    st.integers(1, 999).map(lambda tenth: tenth / 1000), st.floats(0, 1, exclude_min=True, exclude_max=True)
)
PERCENTILES = st.one_of(st.sampled_from([50.0, 95.0, 99.9, 100.0]), st.floats(1e-6, 100))
SLOS = st.one_of(
    st.builds(LatencySlo, SPANS_S, PERCENTILES, PERIODS_S, st.sampled_from(By)),
    st.builds(SlowShareSlo, SHARES, PERIODS_S),
    st.builds(ThroughputSlo, SHARES, PERIODS_S, st.sampled_from(By)),
)
AMOUNTS = st.one_of(st.integers(1, 10**6).map(float), st.floats(1e-9, 1e12))
COSTS = st.builds(CostLimit, AMOUNTS, PERIODS_S.map(lambda period_s: max(HOUR_S, period_s)))
OBJECTIVES = st.builds(
    Objective,
    SLOS,
    price_per_instance_hour=st.none() | AMOUNTS,
    bounded=st.just(False),
    cost=st.none() | COSTS,
)


@given(OBJECTIVES)
def test_any_objective_reads_back_from_its_text_as_it_was(objective: Objective) -> None:
    assert parse_objective(str(objective)) == objective


@given(OBJECTIVES, st.none() | st.tuples(st.integers(1, 50), st.integers(50, 90)), st.dictionaries(st.text(), SLOS))
def test_any_objective_reads_back_from_plain_data_as_it_was(
    objective: Objective, bounds: tuple[int, int] | None, operators: dict[str, Slo]
) -> None:
    whole = Objective(
        objective.slo,
        *(bounds or (1, 10)),
        objective.price_per_instance_hour,
        operators,
        bounded=bounds is not None,
        cost=objective.cost,
    )
    assert objective_from(objective_to_data(whole)) == whole


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ({"slo": "latency p95 < 10s"}, "latency p95 < 10s"),
        ({"slo": "latency p95 < 10s", "per": "1d", "by": "records"}, "latency p95 < 10s"),
        ({"slo": "latency p95 < 10s", "per": 7200, "by": "time"}, "latency p95 < 10s per 2h by time"),
        ({"slo": "throughput >= 99%", "cost": "3 per 6h", "price": 1}, "throughput >= 99%, cost < 3 per 6h, price 1"),
        (
            {"slo": "throughput >= 99%", "cost": {"at_most": 3, "per": "day"}, "price": 1},
            "throughput >= 99%, cost < 3 per day, price 1",
        ),
    ],
)
def test_an_objective_is_read_from_plain_data(form: dict[str, JSON], text: str) -> None:
    assert str(objective_from(form)) == text
    assert objective_from(text) == objective_from(form)


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({}, "slo None"),
        ({"slo": "latency p95 < 10s", "operator": {}}, "'operator', did you mean 'operators'"),
        ({"slo": "latency p95 < 10s per 1d", "per": "6h"}, "'per' is said twice, as '1d' and '6h'"),
        ({"slo": "latency p95 < 10s", "by": "recrods"}, "did you mean 'records'"),
        ({"slo": "latency p95 < 10s", "by": 3}, "way to count '3'"),
        ({"slo": "latency p95 < 10s", "instances": 3}, "instances 3"),
        ({"slo": "latency p95 < 10s", "instances": [3, 1]}, "max_instances 1"),
        ({"slo": "latency p95 < 10s", "cost": {"per": "day"}}, "cost limit 'nothing'"),
        ({"slo": "latency p95 < 10s", "cost": True}, "cost limit True"),
        ({"slo": "latency p95 < 10s", "price": "cheap"}, "price 'cheap'"),
        ({"slo": "latency p95 < 10s", "operators": ["a"]}, "operators ['a']"),
        ({"slo": "latency p95 < 10s", "operators": {"a": 3}}, "objective 3 of operator 'a'"),
        ({"slo": "latency p95 < 10s", "operators": {"a": {"slo": "latency < 1s", "price": 3}}}, "'price'"),
        (["latency p95 < 10s"], "['latency p95 < 10s']"),
    ],
)
def test_plain_data_that_is_no_objective_is_refused(form: dict[str, JSON], message: str) -> None:
    with pytest.raises(InputError) as raised:
        objective_from(form)
    assert message in str(raised.value)
