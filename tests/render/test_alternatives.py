"""A decision that priced several sizes says why each of the others was not chosen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import headgate
from headgate.core.errors import InputError
from headgate.core.types import Decision, GuardNote, PricedSize, Verdict
from headgate.journal import codec
from headgate.journal.writer import SqliteJournal
from headgate.render.explanation import why_not
from tests.cli.commands import headgate as command
from tests.journal.entries import RUN, observation

SIZES = (
    PricedSize(3, 90.0, 185.5, 0.68, 0.07),
    PricedSize(5, 150.0, 0.0, 0.0, 0.05),
    PricedSize(8, 240.0, 0.0, 0.0, 0.05),
)
PRICED = Verdict("job", 4, 5, 5, "needed", "80 records/s expected", alternatives=SIZES)
STEADY = Verdict("job", 8, 8, 8, "steady", "the size was raised just now", alternatives=SIZES)
CAPPED = Verdict("job", 4, 5, 4, "needed", "a reason", {}, (GuardNote("bounds", 5, 4, "at most 4"),), SIZES)
PLAIN = Verdict("job", 4, 4, 4, "steady", "latency 2 s")


@pytest.mark.parametrize(
    ("verdict", "size", "answer"),
    [
        (PRICED, 5, "5 instances: that is what was decided; 80 records/s expected."),
        (
            PRICED,
            3,
            "3 instances would cost 90 instance-seconds and 186 for late records (68% of them late, 7% chance to miss "
            "the objective). 5 cost 150 instance-seconds and 0 for late records (0% of them late, 5% chance to miss "
            "the objective): 126 less.",
        ),
        (PRICED, 6, "6 instances: not simulated; of the sizes next to it, 5 would cost 150 instance-seconds"),
        (PRICED, 2, "2 instances: not simulated; fewer than 3 are not allowed, or would not work off what is late"),
        (PRICED, 9, "9 instances: not simulated; more than 8 are not allowed, not useful, or cost more than"),
        (STEADY, 5, "not less; 8 has another reason: the size was raised just now."),
        (CAPPED, 5, "5 instances: that was proposed, and guards made it 4; bounds: at most 4."),
        (PLAIN, 2, "2 instances: this decision compared no sizes; its reason for 4 is: latency 2 s."),
    ],
)
def test_each_size_has_an_answer(verdict: Verdict, size: int, answer: str) -> None:
    assert answer in why_not(verdict, size)


def test_readers_of_earlier_versions_do_not_come_across_priced_sizes() -> None:
    decision = Decision(10.0, "autopilot", {"job": PRICED})
    data = json.loads(codec.to_json(codec.decision_to_dict(decision)))
    assert codec.decision_from_dict(data) == decision
    assert "alternatives" not in data["verdicts"]["job"]
    del data["alternatives"]
    assert codec.decision_from_dict(data).verdicts["job"].alternatives == ()


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    path = tmp_path / "run.sqlite"
    writer = SqliteJournal(path)
    writer.begin(RUN)
    for second, verdict in ((0, PLAIN), (60, PRICED), (120, STEADY)):
        writer.observed(observation(second, verdict.current))
        writer.decided(Decision(second, "autopilot", {"job": verdict}))
    writer.close()
    return path


def test_the_newest_decision_is_explained_or_that_of_a_time(journal: Path) -> None:
    newest = command("explain", str(journal), "--why-not", "5").stdout
    assert "8 has another reason" in " ".join(newest.split())
    earlier = command("explain", str(journal), "--why-not", "3", "--at", "90s").stdout
    assert "126 less" in " ".join(earlier.split())
    assert "▸ 5" in earlier
    (found,) = headgate.explain(journal, why_not=3, at="90s").why_not
    assert (found.at_s, found.to_json()["target"]) == (60, 5)


def test_a_time_needs_a_size_and_a_size_a_decision(journal: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at goes with why_not"):
        headgate.explain(journal, at="1m")
    empty = tmp_path / "empty.sqlite"
    writer = SqliteJournal(empty)
    writer.begin(RUN)
    writer.close()
    with pytest.raises(InputError, match="has no decision"):
        headgate.explain(empty, why_not=2)
