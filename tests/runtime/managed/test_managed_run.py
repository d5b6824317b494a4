"""Waiting for a managed query returns at its end, also when the driver is gone."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from headgate.core.errors import QueryFailedError
from headgate.runtime.loop import SystemClock
from headgate.runtime.managed.run import ManagedRun


class GivenUp:
    """A supervisor that has given up, because the driver does not answer."""

    has_ended = True
    failure = QueryFailedError("the query was stopped for good: the Spark driver does not answer any more.")


class Unreachable:
    """An autoscaler that cannot give the job back."""

    def stop(self) -> None:
        raise ConnectionRefusedError("the driver is gone")


def test_waiting_ends_when_the_autoscaler_cannot_be_stopped() -> None:
    """After Ctrl-C, `headgate app run` waited for ever."""
    unused: Any = None
    supervisor: Any = GivenUp()
    autoscaler: Any = Unreachable()
    run = ManagedRun(
        unused, supervisor, SystemClock(), stop=threading.Event(), watch=lambda *_: None, drain_timeout_s=1.0
    )
    run.autoscaler = autoscaler
    run.start()
    with pytest.raises(QueryFailedError, match="does not answer"):
        run.wait(5.0)
