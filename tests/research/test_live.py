"""The expected duration of live scenarios is that of their loads and starts."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import headgate.apps.payloads  # noqa: F401 - which registers the payloads of all applications
from headgate.lab.scenario import Progress, find_scenario
from headgate.research.scenarios.live import START_S, LiveResult, LiveRun
from headgate.workloads.load import Load


class _PlayedError(Exception):
    pass


@pytest.mark.parametrize("name", ["giannakopoulos-live", "azimi-live"])
def test_a_live_scenario_is_expected_to_take_as_long_as_its_loads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    played: list[LiveRun] = []

    def play(runs: Sequence[LiveRun], progress: Progress) -> list[LiveResult]:
        played.extend(runs)
        raise _PlayedError

    monkeypatch.setattr("headgate.research.scenarios.live.play", play)
    found = find_scenario(name)
    with pytest.raises(_PlayedError):
        found.run(lambda _: None)
    lasting_s = [Load(run.workload, run.application, run.seconds, run.speed).lasting_s or 0.0 for run in played]
    assert found.takes_s == pytest.approx(sum(START_S + run_s for run_s in lasting_s))
