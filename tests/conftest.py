"""Settings that hold for every test."""

import copy
import functools
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import hypothesis
import pytest
import typer

from headgate.core.plugins import Functions
from headgate.policies import EXPLORATIONS, INITIALISERS, REWARDS, STRATEGIES
from headgate.policies.frame.base import _REGISTRY
from tests.postgres import PostgresMissing, PostgresServer

TESTS = Path(__file__).parent
WITH_SERVERS = ("live", "browser", "local")

# A slow example on a busy machine is no failure, and CI must give the same answer to the same code.
hypothesis.settings.register_profile("headgate", deadline=None, derandomize="CI" in os.environ)
hypothesis.settings.load_profile("headgate")

# To make all commands from their functions takes as long as most commands do, and tests run thousands of them: each
# gets a copy, for a command makes its help fit the terminal.
_made = functools.cache(typer.main.get_command)
mock.patch("typer.testing._get_command", lambda app: copy.deepcopy(_made(app))).start()

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
        # Those that run them look nowhere else: to collect all tests takes half a minute.
        if item.get_closest_marker("live") and not any(
            item.path.is_relative_to(TESTS / folder) for folder in WITH_SERVERS
        ):
            raise pytest.UsageError(f"{item.nodeid} is live; such tests are in {', '.join(WITH_SERVERS)}")


@pytest.fixture(autouse=True)
def _registered_by_tests() -> Iterator[None]:
    """Forget what a test registers: the tests after it list all policies, and all functions of a job's own."""
    functions: list[Functions[Any]] = [REWARDS, INITIALISERS, EXPLORATIONS, STRATEGIES]
    registries: list[dict[str, Any]] = [_REGISTRY, *(known._known for known in functions)]
    before = [set(registry) for registry in registries]
    yield
    for registry, names in zip(registries, before, strict=True):
        for name in set(registry) - names:
            # Those of Headgate come with their modules, which are imported once.
            if not registry[name].__module__.startswith("headgate."):
                del registry[name]


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
