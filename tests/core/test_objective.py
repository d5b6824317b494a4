"""What users may ask for, and when a reading breaks it."""

import math

import numpy as np
import pytest

from headgate.core.errors import InputError
from headgate.core.objective import LatencySlo, Objective, Slo, SlowShareSlo, ThroughputSlo, parse_objective
from headgate.core.types import Sample


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
    ],
)
def test_an_objective_is_read_from_its_friendly_form(text: str, slo: Slo) -> None:
    assert parse_objective(text).slo == slo


@pytest.mark.parametrize("text", ["latency p95 < 10s", "latency p99.9 < 2m", "slow records < 5%", "throughput >= 95%"])
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
    ],
)
def test_an_objective_that_cannot_be_used_is_named_in_the_error(text: str) -> None:
    with pytest.raises(InputError) as raised:
        parse_objective(text)
    assert repr(text) in str(raised.value)


@pytest.mark.parametrize(
    ("bounds", "told"),
    [((0, 4), "min_instances 0"), ((5, 4), "max_instances 4"), ((-1, -1), "min_instances -1")],
)
def test_bounds_must_leave_room_for_a_size(bounds: tuple[int, int], told: str) -> None:
    with pytest.raises(InputError, match=told):
        Objective(LatencySlo(10), *bounds)


@pytest.mark.parametrize("price", [-0.01, math.nan])
def test_a_price_cannot_be_negative(price: float) -> None:
    with pytest.raises(InputError, match="price"):
        Objective(LatencySlo(10), price_per_instance_hour=price)


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
