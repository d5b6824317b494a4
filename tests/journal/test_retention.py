"""How long entries are retained, and that the file stays small; the contract has its own checks of retention."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path

import pytest

from headgate.core.errors import InputError
from headgate.core.types import Event, Outcome, Sample
from headgate.journal import writer as thinning
from headgate.journal.contract import Retention
from headgate.journal.writer import SqliteJournal
from tests.journal.entries import RUN, decision, event, live, observation, receipt

DAY_S = 86400.0


class Wall:
    """A wall clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now_s = 1e9

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def wall() -> Wall:
    return Wall()


Open = Callable[..., SqliteJournal]


@pytest.fixture
def journal_with(tmp_path: Path, wall: Wall) -> Iterator[Open]:
    """Opens a journal in the same file, with other settings each time if need be."""
    journals = []

    def make(**retention: object) -> SqliteJournal:
        journals.append(SqliteJournal(tmp_path / "run.sqlite", retention=retention, now=wall))
        return journals[-1]

    yield make
    for journal in journals:
        journal.close()


def times(entries: object) -> list[float]:
    assert isinstance(entries, list)
    return [entry.at_s for entry in entries]


# ---------------------------------------------------------------------------------------------------------- settings


def test_by_default_detail_is_retained_for_two_days_and_minutes_for_two_weeks() -> None:
    retention = Retention()
    assert (retention.full_detail_s, retention.minutes_s, retention.hours_s) == (2 * DAY_S, 14 * DAY_S, None)
    assert retention.max_file_mb == 64


def test_durations_may_be_texts(journal_with: Open) -> None:
    retention = journal_with(full_detail_s="12h", minutes_s="2d", hours_s="365d").retention
    assert (retention.full_detail_s, retention.minutes_s, retention.hours_s) == (DAY_S / 2, 2 * DAY_S, 365 * DAY_S)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"full_detail_s": "-1h"}, "retention setting full_detail_s '-1h' is not allowed"),
        ({"minutes": 5}, "unknown setting of retention 'minutes', did you mean 'minutes_s'?"),
        ({"max_file_mb": 1}, "retention setting max_file_mb 1 is not allowed: allowed is a number, ≥ 16"),
        ({"minutes_s": "1h"}, "minutes_s 1h is less than full_detail_s 2d; it must be at least that"),
        ({"hours_s": "10d"}, "hours_s 10d is less than minutes_s 14d"),
    ],
)
def test_bad_settings_are_refused_in_one_sentence(
    given: Mapping[str, object], message: str, journal_with: Open, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        journal_with(**given)
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------------------------------------------------- thinning


def test_the_times_of_a_simulation_do_not_make_its_entries_old(journal_with: Open) -> None:
    journal = journal_with(full_detail_s=3600)
    journal.begin(RUN)
    for day in range(100):
        journal.observed(observation(DAY_S * day))
    assert len(journal.observations()) == 100
    assert not journal.thinned()


def test_what_another_run_left_is_thinned_after_a_restart(journal_with: Open, wall: Wall) -> None:
    before = journal_with(full_detail_s=3600)
    before.begin(RUN)
    for second in range(0, 600, 5):
        before.observed(observation(second))
    before.close()
    wall.now_s += 3 * 3600
    after = journal_with(full_detail_s=3600)
    after.begin(RUN)
    for tick in range(30):
        wall.now_s += 5
        after.observed(observation(tick))
    # The first observation of a run says something new; of the rest, the last of each minute is left.
    assert times(after.observations(run=1)) == [0, *range(55, 600, 60)]
    assert after.thinned(run=1).minutes_until_s == 595
    assert not after.thinned(run=2)


REPEATED: list[tuple[str, Callable[[SqliteJournal, float], None]]] = [
    ("receipts", lambda journal, at_s: journal.received(receipt(at_s, Outcome.REFUSED, detail=f"at {at_s:g}"))),
    ("events", lambda journal, at_s: journal.noted(Event(at_s, "observe-failed", "no answer"))),
    ("decisions", lambda journal, at_s: journal.decided(decision(at_s, 1, 3))),
]


@pytest.mark.parametrize(("kind", "write"), REPEATED, ids=[kind for kind, _ in REPEATED])
def test_the_same_said_again_and_again_is_thinned_however_important_it_is(
    kind: str, write: Callable[[SqliteJournal, float], None], journal_with: Open, wall: Wall
) -> None:
    """A cluster that refuses the same size every few seconds would fill the file otherwise."""
    journal = journal_with(full_detail_s=600)
    journal.begin(RUN)
    for second in range(0, 3600, 10):
        wall.now_s += 10
        write(journal, second)
        # Something else in between does not make it news.
        journal.noted(event(second, f"other-{second}"))
    found = [entry.at_s for entry in getattr(journal, kind)() if not getattr(entry, "kind", "").startswith("other")]
    assert [at_s for at_s in found if at_s < 2400] == [0, *range(50, 2400, 60)]
    assert [at_s for at_s in found if at_s >= 3000] == [*range(3000, 3600, 10)]
    assert len([noted for noted in journal.events() if noted.kind.startswith("other")]) == 360


def test_readings_that_come_often_are_thinned_in_steps_of_bounded_size(
    journal_with: Open, wall: Wall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thinning, "AT_MOST", 20)
    journal = journal_with(full_detail_s=60)
    journal.begin(RUN)
    sizes = []
    for tick in range(3000):
        wall.now_s += 0.1
        journal.observed(observation(tick / 10))
        sizes.append(len(journal.observations()) if tick % 50 == 0 else None)
    counts = [count for count in sizes if count is not None]
    assert min(after - before for before, after in pairwise(counts)) >= -20 * 50
    assert max(counts) <= 1300
    assert [at_s for at_s in times(journal.observations()) if at_s < 120] == [0, 59.9, 119.9]


# --------------------------------------------------------------------------------------------------------- the limit


def noise(random_numbers: random.Random, count: int) -> dict[str, float | None]:
    """Readings that cannot be packed well."""
    return {f"metric-{number}": random_numbers.random() for number in range(count)}


def test_the_file_stays_below_its_limit_and_gives_up_detail_before_it_gives_up_the_past(
    journal_with: Open, wall: Wall
) -> None:
    """A simulated run is written in no time, so nothing of it is ever old."""
    journal = journal_with(max_file_mb=16)
    journal.begin(RUN)
    random_numbers = random.Random(1)
    for tick in range(2400):
        seen = observation(10.0 * tick)
        sample = Sample("job", seen.at_s, arrived=5.0 * tick, metrics=noise(random_numbers, 600))
        journal.observed(type(seen)(seen.at_s, {"job": sample}, seen.instances))
        if tick % 200 == 199:
            journal.noted(event(seen.at_s, f"event-{tick}"))
    files = sum(found.stat().st_size for found in journal.path.parent.iterdir())
    assert files < 16e6
    seen_s = times(journal.observations())
    assert (seen_s[0], seen_s[-1]) == (0, 23990)
    assert journal.thinned().minutes_until_s is not None
    assert len(journal.events()) == 12


def test_when_there_is_nothing_else_to_give_up_the_oldest_goes(journal_with: Open) -> None:
    journal = journal_with(max_file_mb=16)
    random_numbers = random.Random(1)
    for number in range(1, 9):
        journal.begin(RUN)
        for second in range(300):
            journal.noted(Event(second, "check", random_numbers.randbytes(6000).hex()))
        assert journal.runs()[-1][0] == number
    files = sum(found.stat().st_size for found in journal.path.parent.iterdir())
    assert files < 16e6
    numbers = [number for number, _ in journal.runs()]
    assert numbers == [*range(numbers[0], 9)]
    assert numbers[0] > 1
    assert len(journal.events(run=8)) == 300


def test_large_learned_state_does_not_cost_the_newest_entries(journal_with: Open) -> None:
    journal = journal_with(max_file_mb=16)
    journal.begin(RUN)
    journal.save_state("policy", {"table": random.Random(1).randbytes(20_000_000).hex()})
    for second in range(thinning.FEWEST):
        journal.noted(event(second, f"event-{second}"))
    assert len(journal.events()) == thinning.FEWEST


def test_the_entries_of_a_job_that_runs_for_ever_fit_below_the_limit(journal_with: Open, wall: Wall) -> None:
    """A decision every 5 s, a batch a second: two days of those, twelve of minutes and a year of hours."""
    journal = journal_with()
    journal.begin(RUN)
    ticks = 3000
    for seen, decided in live(ticks):
        wall.now_s = seen.at_s
        journal.observed(seen)
        journal.decided(decided)
    journal.close()
    bytes_per_tick = journal.path.stat().st_size / ticks
    # Pages that were thinned are not as full as those that were only ever appended to.
    assert bytes_per_tick * (2 * 17_280 + 1.5 * (12 * 1440 + 365 * 24)) < 56e6


def test_the_size_of_the_file_settles(journal_with: Open, wall: Wall) -> None:
    """The same at another scale: full detail for half an hour, minutes for two hours."""
    journal = journal_with(full_detail_s="30m", minutes_s="2h")
    journal.begin(RUN)
    sizes = []
    for tick, (seen, decided) in enumerate(live(12 * 360), start=1):
        wall.now_s = seen.at_s
        journal.observed(seen)
        journal.decided(decided)
        if tick % 360 == 0:
            sizes.append(journal.path.stat().st_size)
    # The log is written back now and then, so a size is known only roughly.
    assert max(sizes[7:]) < 1.05 * sizes[6]
    assert journal.thinned().hours_until_s is not None


# ------------------------------------------------------------------------------------------------------ runs and state


def test_a_run_goes_with_its_last_entry_and_its_number_is_not_given_again(journal_with: Open, wall: Wall) -> None:
    journal = journal_with(full_detail_s=60, minutes_s=600, hours_s=3600)
    for number in (1, 2, 3):
        assert journal.begin(RUN) == number
        journal.observed(observation(1.0))
        wall.now_s += 4 * 3600
    for second in range(50):
        journal.observed(observation(2.0 + second))
    assert [number for number, _ in journal.runs()] == [3]
    assert journal.begin(RUN) == 4


def test_learned_state_outlives_the_retention(journal_with: Open, wall: Wall) -> None:
    journal = journal_with(full_detail_s=60, minutes_s=600, hours_s=3600)
    journal.begin(RUN)
    journal.save_state("policy", {"learned": 1})
    wall.now_s += 1e6
    for second in range(50):
        journal.observed(observation(second))
    assert journal.load_state("policy") == {"learned": 1}
