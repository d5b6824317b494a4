"""The cache of finished runs: resumed, never of other code, and no run depends on its file."""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from headgate.lab.run_cache import RunCache


@dataclass(frozen=True)
class Toss:
    coin: str
    times: int


def heads(toss: Toss) -> list[float]:
    return [toss.times / 3, len(toss.coin) / 7]


def make_cache(folder: Path) -> RunCache[Toss, list[float]]:
    return RunCache("tosses", heads, asdict, to_json=list, from_json=list, folder=folder)


TOSSES = [Toss("penny", 1), Toss("dime", 2), Toss("dime", 3)]


def test_finished_runs_are_read_back_and_a_line_that_was_cut_off_is_run_again(tmp_path: Path) -> None:
    cache = make_cache(tmp_path)
    assert cache.get(TOSSES[0]) is None
    cache.add(TOSSES[0], heads(TOSSES[0]))
    cache.add(TOSSES[1], heads(TOSSES[1]))
    whole = cache.path.read_bytes()
    cache.path.write_bytes(whole[:-20])
    again = make_cache(tmp_path)
    assert again.get(TOSSES[0]) == heads(TOSSES[0])
    assert again.get(TOSSES[1]) is None
    again.add(TOSSES[1], heads(TOSSES[1]))
    assert [make_cache(tmp_path).get(toss) for toss in TOSSES] == [heads(TOSSES[0]), heads(TOSSES[1]), None]


def test_only_what_is_missing_runs_and_the_share_that_was_done_is_reported_first(tmp_path: Path) -> None:
    make_cache(tmp_path).add(TOSSES[1], [0.5])
    shares: list[float] = []
    assert make_cache(tmp_path).run(TOSSES[1:2], shares.append) == {TOSSES[1]: [0.5]}
    assert shares == [1.0]


def test_results_of_other_code_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_cache(tmp_path).add(TOSSES[0], [1.0])
    monkeypatch.setattr("headgate.lab.run_cache.fingerprint", lambda *_: "0123")
    other = make_cache(tmp_path)
    assert other.path.name == "tosses-0123.jsonl"
    assert other.get(TOSSES[0]) is None


def test_a_cache_that_cannot_be_written_costs_no_run_and_warns_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "cache").touch()
    cache = make_cache(tmp_path / "cache")
    with caplog.at_level(logging.WARNING):
        for toss in TOSSES[:2]:
            cache.add(toss, [1.0])
    assert [cache.get(toss) for toss in TOSSES] == [[1.0], [1.0], None]
    (message,) = [record.getMessage() for record in caplog.records]
    assert message.startswith("runs are not cached: ")
    assert message.endswith(".jsonl cannot be written: file exists")
