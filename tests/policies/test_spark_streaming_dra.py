"""spark-streaming-dra: batch processing time over batch interval, once per interval."""

from __future__ import annotations

import pytest

from headgate.core.types import Batch, Sample
from headgate.core.window import History
from headgate.policies.frame.base import AnyPolicy
from tests.core.building import JOB, observation, policy


def batch(at_s: float, ratio: float | None) -> Sample:
    return Sample("job", at_s, processing_time_s=None if ratio is None else 10 * ratio, trigger_interval_s=10)


def run(chosen: AnyPolicy, samples: list[Sample], planned: int = 4) -> list[tuple[float, int, str]]:
    """What it wants at each reading: time, instances, code."""
    window = History(JOB)
    wanted = []
    for sample in samples:
        window.observe(observation(sample.at_s, planned, sample=sample))
        target = chosen.decide(sample.at_s, window).targets["job"]
        wanted.append((sample.at_s, target.instances, target.code))
    return wanted


@pytest.mark.parametrize(
    ("ratios", "instances", "code"),
    [
        ((0.9, 0.9, 0.9), 5, "ratio-high"),
        ((0.8, 1.0, 0.9), 5, "ratio-high"),
        ((1.4, 1.4, 1.4), 5, "ratio-high"),
        ((1.5, 1.5, 1.5), 6, "ratio-high"),
        ((2.5, 2.5, 2.5), 7, "ratio-high"),
        ((0.89, 0.89, 0.89), 4, "steady"),
        ((0.31, 0.31, 0.31), 4, "steady"),
        ((0.3, 0.3, 0.3), 3, "ratio-low"),
        ((0.1, 0.2, 0.3), 3, "ratio-low"),
        ((0.1, None, 0.1), 4, "partial-data"),
        ((1.0, None, 1.0), 5, "ratio-high"),
        ((None, None, None), 4, "no-data"),
    ],
)
def test_the_mean_ratio_since_the_last_look_decides(
    ratios: tuple[float | None, float | None, float | None], instances: int, code: str
) -> None:
    samples = [batch(at_s, ratio) for at_s, ratio in zip((0, 20, 40, 60), (0.5, *ratios), strict=True)]
    assert run(policy("spark-streaming-dra"), samples)[-1] == (60, instances, code)


def test_of_a_job_with_batches_those_that_ended_count_and_not_the_one_that_runs() -> None:
    # Two batches of half their interval have ended; the one that runs has taken four intervals already.
    ended = (Batch(0.0, 5.0, 9, trigger_interval_s=10.0), Batch(10.0, 15.0, 9, trigger_interval_s=10.0))
    samples = [
        Sample("job", 0.0, trigger_interval_s=10.0),
        Sample("job", 20.0, trigger_interval_s=10.0, batches=ended, batch_ended_s=15.0),
        Sample("job", 60.0, trigger_interval_s=10.0, batch_ended_s=15.0, running_s=40.0),
        Sample("job", 120.0, trigger_interval_s=10.0, batch_ended_s=15.0, running_s=100.0),
    ]
    assert [code for _, _, code in run(policy("spark-streaming-dra"), samples)] == [
        "between-looks",
        "between-looks",
        "steady",
        "no-batch",
    ]


def test_it_looks_once_per_interval() -> None:
    wanted = run(policy("spark-streaming-dra", interval_s=30), [batch(at_s, 2.0) for at_s in range(0, 100, 10)])
    assert [at_s for at_s, _, code in wanted if code == "ratio-high"] == [30, 60, 90]
    assert {code for at_s, _, code in wanted if at_s % 30} == {"between-looks"}


def test_only_batches_since_the_last_look_count() -> None:
    ratios = [2.0] * 4 + [0.1] * 3
    wanted = run(policy("spark-streaming-dra", interval_s=30), [batch(10 * i, ratio) for i, ratio in enumerate(ratios)])
    assert (wanted[3][2], wanted[6][2]) == ("ratio-high", "ratio-low")


@pytest.mark.parametrize(("utilization", "code"), [(0.95, "ratio-high"), (0.5, "steady"), (0.2, "ratio-low")])
def test_without_a_trigger_interval_utilization_is_the_ratio(utilization: float, code: str) -> None:
    samples = [Sample("job", at_s, utilization=utilization) for at_s in (0, 30, 60)]
    assert run(policy("spark-streaming-dra"), samples)[-1][2] == code


def test_it_adds_to_what_is_planned_and_not_to_what_is_ready() -> None:
    window = History(JOB)
    chosen = policy("spark-streaming-dra")
    wanted = []
    for at_s in (0, 30, 60):
        window.observe(observation(at_s, planned=6, ready=2, sample=batch(at_s, 1.0)))
        wanted.append(chosen.decide(at_s, window).targets["job"].instances)
    assert wanted == [6, 6, 7]


def test_state_that_was_saved_on_a_later_clock_does_not_stop_it() -> None:
    chosen = policy("spark-streaming-dra")
    chosen.restore({"policy": "spark-streaming-dra", "version": 1, "looked_s": {"job": 1e9}})
    assert run(chosen, [batch(0, 2.0), batch(60, 2.0)])[-1][2] == "ratio-high"
