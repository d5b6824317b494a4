"""What became of records: batches add up once, also after the process that wrote them was killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.apps.running.accounts import Account, Accounts, Totals
from headgate.core.errors import StateError


def account(batch: int, read: int = 10, late: int | None = 0, watermark_ms: int | None = None) -> Account:
    return Account(batch, {"records": 10 * batch}, {"records": 10 * batch + read}, read, 1, late, watermark_ms)


def test_the_batches_of_a_run_add_up(tmp_path: Path) -> None:
    accounts = Accounts(tmp_path / "accounts.jsonl")
    accounts.add(account(0, watermark_ms=0))
    accounts.add(account(1, read=7, late=2, watermark_ms=5000))
    wanted = Totals(read=17, malformed=2, late=2, batches=2, watermark_ms=5000, end={"records": 17})
    assert accounts.totals() == Accounts(tmp_path / "accounts.jsonl").totals() == wanted


def test_before_the_first_batch_there_is_nothing(tmp_path: Path) -> None:
    assert Accounts(tmp_path / "accounts.jsonl").totals() == Totals()


def test_a_batch_that_is_written_again_counts_once(tmp_path: Path) -> None:
    accounts = Accounts(tmp_path / "accounts.jsonl")
    for read in (3, 8):
        accounts.add(account(4, read))
    assert Accounts(tmp_path / "accounts.jsonl").totals().read == accounts.totals().read == 8


def test_half_a_line_is_as_good_as_none_and_the_next_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "accounts.jsonl"
    Accounts(path).add(account(0))
    whole = path.read_bytes()
    path.write_bytes(whole + whole[: len(whole) // 2])
    accounts = Accounts(path)
    assert [account.batch for account in accounts.all()] == [0]
    accounts.add(account(1))
    assert [account.batch for account in Accounts(path).all()] == [0, 1]


def test_what_was_late_in_a_batch_may_be_unknown_and_is_said_so(tmp_path: Path) -> None:
    accounts = Accounts(tmp_path / "accounts.jsonl")
    accounts.add(account(0, late=None))
    accounts.add(account(1, late=3))
    assert (accounts.totals().late, accounts.totals().unknown_late) == (3, 1)


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "accounts.jsonl"
    path.write_text('{"some": "thing"}\n{"some": "thing"}\n')
    with pytest.raises(StateError, match=r"accounts\.jsonl, line 1, is not an account of a batch"):
        Accounts(path)
