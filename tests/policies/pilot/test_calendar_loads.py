"""What a calendar announces is expected at its date, on the clock of the loop."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from headgate.core.errors import InputError
from headgate.core.objective import parse_objective
from headgate.core.units import parse_date_s
from headgate.core.window import History
from headgate.journal import codec
from headgate.policies.pilot.calendar_loads import CalendarLoads
from headgate.runtime.simulate import SimulationResult, simulate
from headgate.workloads import parse_workload
from tests.core.building import JOB
from tests.journal.entries import RUN


@pytest.mark.parametrize(
    ("date", "begins"),
    [
        ("2026-10-31 23:58", [(120.0, 240.0, 100.0)]),
        ("2026-10-31 23:50", []),
        ("2026-11-01 00:00", []),
        ("2026-11-02 00:58", []),
    ],
)
def test_an_entry_is_expected_before_it_begins_and_measured_after_it(
    date: str, begins: list[tuple[float, float, float]]
) -> None:
    at_s = parse_date_s(date)
    found = CalendarLoads("* 0-1 1 * * = x3").expected(at_s, 300.0, level_per_s=50.0, now=1000.0)
    assert [(burst.begins_s - 1000.0, burst.lasts_s, burst.height_per_s) for burst in found] == begins


def test_it_goes_by_its_time_zone() -> None:
    calendar = CalendarLoads("* 8 * * mon-fri = +200; 30 8 * * * = x2", ZoneInfo("Europe/Berlin"))
    (burst,) = calendar.expected(parse_date_s("2026-11-20 06:57"), 300.0, level_per_s=50.0)
    assert burst.begins_s == parse_date_s("2026-11-20 08:00+01:00")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("every day", "calendar entry 'every day' is not understood"),
        ("* 8 * * * = 3", "expected minutes as in cron and a load"),
        ("* 8 * * * = x1", "factor 1 of calendar entry .* must be above 1"),
        ("* 25 * * * = x2", "hour '25'"),
    ],
)
def test_a_calendar_that_is_not_understood_is_refused_with_what_was_given(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        CalendarLoads(text)


def test_a_window_knows_the_date_of_its_clock() -> None:
    window = History(JOB, starts_at_s=parse_date_s("2026-11-20 07:45"))
    assert window.date(900.0) == datetime(2026, 11, 20, 8, tzinfo=UTC)
    assert window.date(900.0, ZoneInfo("Europe/Berlin")).hour == 9
    assert History(JOB).date(0.0).year == 1970


def test_a_run_without_a_date_is_written_as_by_earlier_versions() -> None:
    plain = codec.run_to_dict(RUN)
    assert "starts_at_s" not in plain
    assert codec.run_from_dict(plain) == RUN


def run(starts_at: str) -> SimulationResult:
    return simulate(
        "autopilot",
        parse_workload("spike:base=100,peak=400,at=900s,width=300s"),
        objective=parse_objective("latency p95 < 10s").within(1, 20),
        settings={"calendar": "* 8 * * mon-fri = x4"},
        service_rate_per_s=50.0,
        startup_s=60.0,
        seconds=1200.0,
        starts_at_s=parse_date_s(starts_at),
    )


def test_instances_are_there_when_the_calendar_says_so() -> None:
    friday, saturday = run("2026-11-20 07:45"), run("2026-11-21 07:45")
    before = [entry for entry in friday.decisions if entry.at_s < 900 and "by the calendar" in str(entry.verdicts)]
    assert before
    assert friday.summary.late_records_pct is not None
    assert saturday.summary.late_records_pct is not None
    assert friday.summary.late_records_pct < 0.4 * saturday.summary.late_records_pct
