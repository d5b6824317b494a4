"""Jobs of which several instances add up to less, by name."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.errors import InputError
from headgate.simulation.batch_job import MicroBatchJob
from headgate.simulation.micro_batch import SERVICE_MODEL_EXAMPLES, MicroBatch, ServiceModel, parse_service_model
from headgate.workloads import parse_workload

RETROGRADE = "retrograde:rate=10,contention=0.03,coherency=0.02"


def test_a_text_says_all_of_a_model() -> None:
    model = parse_service_model(" Retrograde: rate=50, contention=0.03,coherency=0.02,pause=30s,skew=20%,startup=1m ")
    assert model == ServiceModel("retrograde", 50.0, 0.03, 0.02, pause_s=30.0, skew=0.2, startup_s=60.0)
    assert parse_service_model(model.describe()) == model
    assert [parse_service_model(text).describe() for text in SERVICE_MODEL_EXAMPLES] == list(SERVICE_MODEL_EXAMPLES)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("linaer:rate=1", r"unknown service model 'linaer', did you mean 'linear'\?"),
        ("linear", r"service model 'linear' says no more than its name; write for example linear:rate=50"),
        ("linear:50", r"'50', which is not key=value; write for example linear:rate=50"),
        ("linear:rate=50,contention=0.1", r"unknown key of service model linear 'contention'"),
        ("linear:rate=50,rate=40", r"gives rate twice; once is allowed"),
        ("linear:pause=1s", r"service model 'linear:pause=1s' lacks rate"),
        ("linear:rate=fast", r"is not usable: 'fast' is not a number"),
        ("linear:rate=0", r"service rate 0.0 of an instance is not allowed"),
        ("saturating:rate=5,contention=0", r"contention 0 is not allowed; saturating needs one above 0"),
        ("saturating:rate=5,contention=1", r"contention 1 is not allowed; it must be at least 0 and below 1"),
        ("retrograde:rate=5,contention=0,coherency=0", r"coherency 0 is not allowed; retrograde needs one above 0"),
        ("linear:rate=5,skew=120%", r"share '120%' is not allowed"),
        ("linear:rate=5,pause=soon", r"duration 'soon' is not understood"),
    ],
)
def test_what_is_wrong_with_a_text_is_said(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_service_model(text)


def test_a_job_is_the_usual_one_with_what_the_model_says() -> None:
    usual = MicroBatch(trigger_interval_s=2.0, overhead_s=0.5, noise=0.1)
    job = parse_service_model("linear:rate=50,pause=30s,skew=0.1").micro_batch(8, usual)
    assert job == MicroBatch(trigger_interval_s=2.0, overhead_s=0.5, noise=0.1, rescale_pause_s=30.0, skew=0.1)
    curve = parse_service_model("saturating:rate=50,contention=0.25").micro_batch(4).speed_up
    assert dict(curve) == pytest.approx({1: 1.0, 2: 1.6, 3: 2.0, 4: 16 / 7})


def test_a_retrograde_model_turns_within_the_bounds() -> None:
    model = parse_service_model(RETROGRADE)
    assert model.peak_instances == pytest.approx(math.sqrt(0.97 / 0.02))
    with pytest.raises(InputError, match=r"most at 7.0 instances, which is not below the 6 that are allowed"):
        model.micro_batch(6)
    assert len(model.micro_batch(7).speed_up) == 7


@given(contention=st.floats(0.001, 0.5), coherency=st.floats(0.001, 0.5), size=st.integers(1, 100))
def test_contention_bounds_what_many_get_through_and_coherency_turns_it(
    contention: float, coherency: float, size: int
) -> None:
    linear = ServiceModel("linear", 1.0)
    saturating = ServiceModel("saturating", 1.0, contention)
    retrograde = ServiceModel("retrograde", 1.0, contention, coherency)
    assert linear.speed_up(size) == size
    assert retrograde.speed_up(size) <= saturating.speed_up(size) <= min(size, 1 / contention) + 1e-9
    assert saturating.speed_up(size + 1) > saturating.speed_up(size)
    if size >= retrograde.peak_instances:
        assert retrograde.speed_up(size + 1) < retrograde.speed_up(size)
    elif size + 1 <= retrograde.peak_instances:
        assert retrograde.speed_up(size + 1) > retrograde.speed_up(size)


def p95_s(text: str, ready: int, rate: float) -> float:
    model = parse_service_model(text)
    job = MicroBatchJob(parse_workload(f"constant:{rate}"), model.rate_per_s, model.micro_batch(20), ready=ready)
    job.advance(600.0)
    [latency_s] = job.course().latencies_s(0.95)
    assert latency_s is not None
    return latency_s


def test_more_instances_hurt_a_retrograde_job_and_help_the_others_less_and_less() -> None:
    few, peak, many = (p95_s(RETROGRADE, ready, 30.0) for ready in (2, 7, 20))
    assert peak < 15 < min(few, many), "20 of them get through less than arrives, as 2 do"
    saturating = "saturating:rate=10,contention=0.2"
    latencies_s = [p95_s(saturating, ready, 30.0) for ready in (4, 8, 12, 20)]
    assert latencies_s == sorted(latencies_s, reverse=True)
    assert latencies_s[0] - latencies_s[1] > 10 * (latencies_s[2] - latencies_s[3])
