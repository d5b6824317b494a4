"""Entries for the tests of journals: plain ones, and any that Hypothesis can think of."""

from __future__ import annotations

import random
from collections.abc import Iterator

from hypothesis import strategies as st

from headgate.core.types import (
    METRIC_FIELDS,
    Answer,
    Batch,
    Decision,
    Event,
    GuardNote,
    Instances,
    Observation,
    Outcome,
    Receipt,
    Role,
    Run,
    Sample,
    Startup,
    Verdict,
)

RUN = Run(0.0, "reactive", {"target": 0.8}, "latency p95 < 10s", "simulated", ("job",))


def observation(at_s: float, planned: int = 1, ready: int | None = None) -> Observation:
    sizes = Instances(planned, planned, planned if ready is None else ready)
    return Observation(at_s, {"job": Sample("job", at_s, latency_s=1.5)}, {"job": sizes})


def decision(
    at_s: float, current: int = 1, target: int = 1, *, code: str = "steady", proposed: int | None = None
) -> Decision:
    wanted = target if proposed is None else proposed
    why = "" if wanted == target else "the test said so"
    notes = (GuardNote("bounds", wanted, wanted), GuardNote("step-limit", wanted, target, why))
    verdict = Verdict("job", current, wanted, target, code, f"{code} at {at_s:g} s", {"latency_s": 1.5}, notes)
    return Decision(at_s, "reactive", {"job": verdict})


def event(at_s: float, kind: str = "started") -> Event:
    return Event(at_s, kind, f"{kind} in a test")


def receipt(at_s: float, outcome: Outcome = Outcome.ACCEPTED, requested: int = 1, detail: str = "") -> Receipt:
    return Receipt(at_s, {"job": Answer(outcome, requested, detail)})


def live(ticks: int, *, start_s: float = 1.7e9, interval_s: float = 5.0) -> Iterator[tuple[Observation, Decision]]:
    """What a real job gives: a batch a second, times and rates with all their digits, now and then another size."""
    random_numbers = random.Random(1)
    arrived = busy_s = available_s = 0.0
    for tick in range(ticks):
        now_s = start_s + interval_s * tick + 0.01 * random_numbers.random()
        batches = []
        for second in range(5):
            records = float(random_numbers.randint(200, 300))
            started_s = now_s - 5 + second + 0.01 * random_numbers.random()
            oldest_s = started_s - 1 - 0.1 * random_numbers.random()
            ended_s = started_s + 0.5 + 0.3 * random_numbers.random()
            batches.append(Batch(started_s, ended_s, records, oldest_s, 0.0, 1.0, 2))
            arrived += records
            busy_s += 1.7 * (ended_s - started_s)
            available_s += 4.0
        rate_per_s, latency_s = sum(batch.records for batch in batches) / 5.003, 1.5 * random_numbers.random()
        sample = Sample(
            "job",
            now_s,
            arrived=arrived + 100,
            done=arrived,
            emitted=arrived,
            late=0.0,
            busy_s=busy_s,
            available_s=available_s,
            batches=tuple(batches),
            backlog=100.0,
            latency_s=latency_s,
            running_s=random_numbers.random(),
            batch_ended_s=batches[-1].ended_s,
            useful_instances=16,
            skew=1 + 0.2 * random_numbers.random(),
            input_rate_per_s=rate_per_s,
            processed_rate_per_s=1.5 * rate_per_s,
            output_rate_per_s=rate_per_s,
            processing_time_s=batches[-1].processing_time_s,
            scheduling_delay_s=batches[-1].scheduling_delay_s,
            trigger_interval_s=1.0,
            utilization=random_numbers.random(),
        )
        size, target = 2 + tick // 1500 % 2, 2 + (tick + 1) // 1500 % 2
        reason = (
            f"latency {latency_s:.3g} s is within the 10s bound; {rate_per_s:.3g} records/s need {target} instances"
        )
        numbers = {"latency_s": latency_s, "bound_s": 10.0, "rate_per_s": rate_per_s, "needed": target}
        guards = ("bounds", "useful", "pending", "recovering", "blind", "attainable")
        notes = tuple(GuardNote(guard, target, target) for guard in guards)
        verdict = Verdict("job", size, target, target, "steady", reason, numbers, notes)
        yield (
            Observation(now_s, {"job": sample}, {"job": Instances(size, size, size)}),
            Decision(now_s, "reactive", {"job": verdict}),
        )


# Any text that Python can hold, half of a surrogate pair included: names and messages come from outside.
# The one key that is reserved has a test of its own.
texts = st.text(st.characters(exclude_categories=()), max_size=20).filter(lambda text: text != "$float")
instants = st.floats(allow_nan=False, allow_infinity=False)
floats = st.floats(allow_nan=False)  # A number that is not equal to itself has a test of its own.
counts = st.integers(min_value=0, max_value=10**6)
numbers = st.dictionaries(texts, st.none() | floats | st.integers() | texts, max_size=4)

batches = st.builds(
    Batch,
    started_s=instants,
    ended_s=instants,
    records=floats,
    oldest_s=st.none() | instants,
    late=st.none() | floats,
    trigger_interval_s=floats,
    instances=st.none() | counts,
    warming=st.booleans(),
    query=texts,
)
COUNTERS = ("arrived", "done", "emitted", "late", "busy_s", "available_s", "running_s", "batch_ended_s")


def samples_with(parts: st.SearchStrategy[dict[str, Sample]]) -> st.SearchStrategy[Sample]:
    return st.builds(
        Sample,
        operator=texts,
        at_s=instants,
        age_s=floats,
        batches=st.lists(batches, max_size=2).map(tuple),
        useful_instances=st.none() | counts,
        warming=st.booleans(),
        metrics=st.dictionaries(texts, st.none() | floats, max_size=3),
        parts=parts,
        **{name: st.none() | floats for name in (*METRIC_FIELDS, *COUNTERS)},
    )


samples = samples_with(st.dictionaries(texts, samples_with(st.just({})), max_size=2))
startups = st.builds(Startup, texts, instants, floats, st.none() | floats, st.none() | floats)
observations = st.builds(
    Observation,
    at_s=instants,
    samples=st.dictionaries(texts, samples, max_size=2),
    instances=st.dictionaries(texts, st.builds(Instances, counts, counts, counts, st.booleans()), max_size=3),
    startups=st.dictionaries(texts, st.lists(startups, max_size=2).map(tuple), max_size=2),
)
notes = st.builds(GuardNote, texts, counts, counts, texts)
verdicts = st.builds(
    Verdict, texts, counts, counts, counts, texts, texts, numbers, st.lists(notes, max_size=3).map(tuple)
)
decisions = st.builds(Decision, instants, texts, st.dictionaries(texts, verdicts, max_size=3), st.sampled_from(Role))
answers = st.builds(Answer, st.sampled_from(Outcome), counts, texts)
receipts = st.builds(Receipt, instants, st.dictionaries(texts, answers, max_size=3))
events = st.builds(Event, instants, texts, texts, numbers)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | floats | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
states = st.dictionaries(texts, json_values, max_size=4)
runs = st.builds(Run, instants, texts, states, texts, texts, st.lists(texts, max_size=3).map(tuple), st.integers())
