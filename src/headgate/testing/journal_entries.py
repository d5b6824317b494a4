"""What the checks of journals write: a run, one entry of each kind, and how findings are compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from headgate.core.types import (
    Answer,
    Decision,
    Event,
    GuardNote,
    Instances,
    Observation,
    Outcome,
    Receipt,
    Run,
    Sample,
    Verdict,
)
from headgate.journal.contract import Journal
from headgate.testing.contract import ensure

RUN = Run(5.0, "check", {"instances": None, "limits": [1, 2.5]}, "latency p95 < 10s", "check", ("job", "sink"), seed=7)
OBSERVATION = Observation(
    10.0,
    {
        "job": Sample("job", 9.5, input_rate_per_s=12.25, backlog=0.0, warming=True),
        "sink": Sample("sink", 10.0, latency_s=0.1, metrics={"heap": 0.75, "files": None}),
    },
    {"job": Instances(3, 2, 1), "sink": Instances(1, 1, 1)},
)
DECISION = Decision(
    10.0,
    "check",
    {
        "job": Verdict(
            "job",
            3,
            9,
            8,
            "slo-violated",
            "latency 12 s is over the 10 s bound – ±½",
            {"rate_per_s": 410.5, "needed": 9, "mode": "exploration", "latency_s": None},
            (GuardNote("bounds", 9, 8, "at most 8 instances"), GuardNote("blind", 8, 8)),
        ),
        "sink": Verdict("sink", 1, 1, 1, "steady", "nothing to do"),
    },
)
RECEIPT = Receipt(
    10.5,
    {
        "job": Answer(Outcome.REFUSED, 3, "the cluster is full"),
        "sink": Answer(Outcome.DELIVERED, 1),
    },
)
EVENT = Event(11.0, "observe-failed", "no answer", {"seconds": 2.5, "attempt": 3, "host": None})


@contextmanager
def opened(factory: Callable[[], Journal]) -> Iterator[Journal]:
    journal = factory()
    try:
        yield journal
    finally:
        journal.close()


def write_one_of_each(journal: Journal) -> None:
    """One entry of each kind."""
    journal.observed(OBSERVATION)
    journal.decided(DECISION)
    journal.received(RECEIPT)
    journal.noted(EVENT)


def ensure_equal(what: str, found: object, expected: object) -> None:
    ensure(found == expected, f"{what} should have been {expected!r}; they were {found!r}")
