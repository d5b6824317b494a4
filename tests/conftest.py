"""Settings that hold for every test."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.postgres import PostgresMissing, PostgresServer

TESTS = Path(__file__).parent

# A slow example on a busy machine is no failure, and CI must give the same answer to the same code.
hypothesis.settings.register_profile("headgate", deadline=None, derandomize="CI" in os.environ)
hypothesis.settings.load_profile("headgate")


# A shell has SIGINT ignored in what it starts in the background (`make test &`), which is inherited from process to
# process: what tests start would not hear of being interrupted.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark by folder, so that a test which needs a cluster or a browser can't slip into the fast ones."""
    for item in items:
        for marker in ("live", "browser"):
            if item.path.is_relative_to(TESTS / marker):
                item.add_marker(marker)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server for all tests of a process."""
    try:
        server = PostgresServer()
    except PostgresMissing as missing:
        pytest.skip(str(missing))
    with server:
        yield server


@pytest.fixture
def database_url(postgres: PostgresServer) -> str:
    """A database of its own, with nothing in it."""
    return postgres.new_database()
