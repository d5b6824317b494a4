"""trigger-ratio: the smoothed time of batches over their interval, held within a band."""

from __future__ import annotations

import pytest

from headgate.core.errors import InputError
from headgate.core.types import Batch, Sample
from headgate.core.window import History
from headgate.policies.frame.base import AnyPolicy
from tests.core.building import JOB, observation, policy


def batch(index: int, ratio: float | None) -> Sample:
    return Sample("job", 10 * index, processing_time_s=None if ratio is None else 10 * ratio, trigger_interval_s=10)


def run(chosen: AnyPolicy, samples: list[Sample], planned: int = 4, ready: int | None = None) -> list[tuple[int, str]]:
    window = History(JOB)
    wanted = []
    for sample in samples:
        window.observe(observation(sample.at_s, planned, ready, sample))
        target = chosen.decide(sample.at_s, window).targets["job"]
        wanted.append((target.instances, target.code))
    return wanted


@pytest.mark.parametrize(
    ("ratios", "planned", "instances", "code"),
    [
        # It begins at 1: (0.6 · 1 + 1.5) / 1.6 = 1.3125.
        ((1.5,), 4, 6, "ratio-high"),
        # (0.6 · 2.1 + 1.5) / 1.96 = 1.408, and so on towards 1.5.
        ((1.5, 1.5), 4, 6, "ratio-high"),
        ((1.5,) * 12, 10, 15, "ratio-high"),
        ((1.0,) * 3, 4, 4, "steady"),
        ((0.75,) * 9, 4, 4, "steady"),
        ((0.5,) * 9, 4, 3, "ratio-low"),
        ((0.5,) * 9, 10, 6, "ratio-low"),
        ((0.7,) * 9, 2, 2, "steady"),
        ((0.1,) * 9, 1, 1, "steady"),
        ((0.5, 0.5, 0.5, None), 8, 8, "partial-data"),
        ((None,), 4, 4, "no-data"),
    ],
)
def test_outside_of_the_band_the_size_is_what_the_mean_ratio_makes_of_it(
    ratios: tuple[float | None, ...], planned: int, instances: int, code: str
) -> None:
    samples = [batch(index, ratio) for index, ratio in enumerate(ratios)]
    assert run(policy("trigger-ratio"), samples, planned)[-1] == (instances, code)


def test_every_batch_counts_and_each_once_however_often_it_is_seen() -> None:
    batches = (Batch(0, 15, 100, trigger_interval_s=10), Batch(15, 20, 100, trigger_interval_s=10))
    reason = [Sample("job", 20, batches=batches, batch_ended_s=20), Sample("job", 25, batch_ended_s=20)]
    chosen = policy("trigger-ratio")
    run(chosen, reason)
    # 1, then 1.5, then 0.5, each earlier one worth 0.6 of the one after it.
    assert chosen.snapshot()["occupations"]["job"] == [pytest.approx(0.6 * 2.1 + 0.5), pytest.approx(1.96), 20.0]


def test_batches_without_records_say_nothing() -> None:
    chosen = policy("trigger-ratio")
    empty = Batch(0, 1, 0, trigger_interval_s=10)
    run(chosen, [Sample("job", 1, batches=(empty,), batch_ended_s=1, trigger_interval_s=10)])
    assert chosen.snapshot()["occupations"]["job"] == [1.0, 1.0, None]


def test_nothing_is_requested_while_instances_come() -> None:
    samples = [batch(index, 2.0) for index in range(3)]
    assert run(policy("trigger-ratio"), samples, planned=4, ready=3)[-1] == (4, "rescaling")


@pytest.mark.parametrize(("duration_s", "instances"), [(None, 4), (20, 8)])
def test_a_job_without_a_trigger_interval_needs_to_be_reported_one(duration_s: float | None, instances: int) -> None:
    samples = [Sample("job", 10 * index, processing_time_s=40) for index in range(30)]
    assert run(policy("trigger-ratio", batch_duration_s=duration_s), samples)[-1][0] == instances


def test_the_band_must_have_a_width() -> None:
    with pytest.raises(InputError, match=r"threshold_low 1 must be below threshold_high 1"):
        policy("trigger-ratio", threshold_low=1)
