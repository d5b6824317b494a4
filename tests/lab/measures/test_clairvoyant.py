"""Somebody who knew the load: what was needed, and what that would have cost."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.course import Course
from headgate.forecast.base import FloatArray
from headgate.lab.measures.clairvoyant import needed_instances, paid_instances
from headgate.research.promises.runs import BOUNDS, JOB, SERVICE_RATE_PER_S, clairvoyant_seconds, make_load
from headgate.simulation.batch_job import MicroBatchJob
from headgate.simulation.micro_batch import MicroBatch, parse_service_model
from headgate.simulation.queue import QueueNetwork
from headgate.workloads import parse_workload
from headgate.workloads.day_load import STEP_S
from headgate.workloads.steps import Steps

RATE_PER_S = 10.0


def first_clairvoyant_seconds(rates_per_s: FloatArray, bound_s: float, startup_s: float) -> float:
    """The first implementation, for promises, whose results must stay what they are to the last bit."""
    batch_s = bound_s / 2
    spare = max(0.1, 1 - JOB.overhead_s / batch_s)
    span = max(1, round(batch_s / STEP_S))
    rates = np.convolve(rates_per_s, np.full(span, 1 / span), mode="same")
    needed = np.clip(np.ceil(rates / SERVICE_RATE_PER_S / spare - 1e-9), *BOUNDS)
    early = round(startup_s / STEP_S)
    padded = np.concatenate([needed, np.full(early, needed[-1])])
    paid = np.lib.stride_tricks.sliding_window_view(padded, early + 1).max(axis=1)
    return float(paid.sum() * STEP_S)


@pytest.mark.parametrize("name", ["waves", "stairs", "bursts", "walk", "teeth"])
def test_promises_are_compared_with_the_very_same_as_before(name: str) -> None:
    load = make_load(name, 1)
    for bound_s in (5.0, 10.0, 30.0, 60.0):
        for startup_s in (0.0, 30.0, 120.0):
            was = first_clairvoyant_seconds(load.rates_per_s, bound_s, startup_s)
            assert clairvoyant_seconds(load, bound_s, startup_s) == was


@given(values=st.lists(st.integers(0, 9), min_size=1, max_size=30), early=st.integers(0, 40))
def test_an_instance_is_paid_for_from_when_it_has_to_be_requested(values: list[int], early: int) -> None:
    needed = np.array(values, dtype=float)
    paid = paid_instances(needed, 5.0, 5.0 * early)
    assert paid.tolist() == [max(values[index : index + early + 1]) for index in range(len(values))]


@given(rates=st.lists(st.integers(0, 60), min_size=4, max_size=30), bound_steps=st.integers(1, 4))
def test_in_a_queue_nothing_is_late_with_what_is_needed(rates: list[int], bound_steps: int) -> None:
    step_s, bound_s = 5.0, 5.0 * bound_steps
    load = Steps([step_s * index for index in range(len(rates) + 1)], [float(rate) for rate in rates])
    needed = needed_instances(
        np.array(rates, dtype=float), step_s, service_rate_per_s=RATE_PER_S, job=None, bound_s=bound_s, bounds=(0, 9)
    )
    queue = QueueNetwork(load, RATE_PER_S, ready=int(needed[0]), late_after_s=bound_s)
    for index, size in enumerate(needed):
        queue.advance(index * step_s)
        queue.resize("job", int(size))
    queue.advance(len(rates) * step_s)
    waits = queue.course("job").waits
    assert waits is not None
    assert waits[:, 2:].max(initial=0.0) <= bound_s + 1e-6


def needs(job: MicroBatch, rate_per_s: float, bound_s: float | None, most: int = 20) -> int:
    found = needed_instances(
        np.full(200, rate_per_s), 5.0, service_rate_per_s=RATE_PER_S, job=job, bound_s=bound_s, bounds=(1, most)
    )
    return int(found[100])


def course(job: MicroBatch, rate_per_s: float, ready: int) -> Course:
    running = MicroBatchJob(parse_workload(f"constant:{rate_per_s}"), RATE_PER_S, job, ready=ready)
    running.advance(600.0)
    return running.course()


JOBS = {
    "linear": MicroBatch(trigger_interval_s=2.0, overhead_s=0.5),
    "long trigger": MicroBatch(trigger_interval_s=7.0),
    "tasks": MicroBatch(trigger_interval_s=2.0, partitions=6, task_overhead_s=0.1),
    "two cores": MicroBatch(trigger_interval_s=2.0, partitions=12, cores=2),
    "skewed": MicroBatch(trigger_interval_s=2.0, skew=0.2),
    "saturating": parse_service_model("saturating:rate=10,contention=0.1").micro_batch(20),
    "retrograde": parse_service_model("retrograde:rate=10,contention=0.05,coherency=0.01").micro_batch(20),
}


@pytest.mark.parametrize("name", JOBS)
def test_in_micro_batches_a_steady_load_is_in_time_with_what_is_needed_and_not_with_much_less(name: str) -> None:
    job, bound_s = JOBS[name], 10.0
    size = needs(job, 28.0, bound_s)
    assert 2 < size < 20
    assert course(job, 28.0, size).late_share(bound_s) == 0.0
    assert (course(job, 28.0, size - 2).late_share(bound_s) or 0.0) > 0.0


def test_an_interval_longer_than_the_bound_is_excused_and_then_a_batch_may_take_the_bound() -> None:
    job = MicroBatch(trigger_interval_s=60.0, overhead_s=0.0)
    assert needs(job, 10.0, 10.0) == 6
    assert needs(job, 10.0, None) == 1, "without a bound it only has to keep up"


def test_what_no_size_can_do_is_given_the_one_that_does_most() -> None:
    retrograde = JOBS["retrograde"]
    assert needs(retrograde, 1000.0, 10.0) == round(math.sqrt(0.95 / 0.01))
    assert needs(JOBS["linear"], 1000.0, 10.0) == 20
    assert needs(JOBS["skewed"], 1000.0, 10.0) == 5, "more than five slots are of no use"


def test_heavier_records_need_more() -> None:
    job = MicroBatch(trigger_interval_s=2.0, overhead_s=0.0, work_factor=((0.0, 1.0), (500.0, 1.0), (500.0, 3.0)))
    found = needed_instances(
        np.full(200, 20.0), 5.0, service_rate_per_s=RATE_PER_S, job=job, bound_s=10.0, bounds=(1, 20)
    )
    assert (found[50], found[150]) == (2, 6)
