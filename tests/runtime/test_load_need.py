"""The instances that a load needs follow from counters, whatever the engine and the policy."""

from __future__ import annotations

import pytest

from headgate.core.objective import LatencySlo
from headgate.core.topology import Topology
from headgate.core.types import Instances, Observation, Sample
from headgate.core.window import History
from headgate.runtime.arbitration import needed_for_load

SLO = LatencySlo(10.0)


def seen(
    ready: int, arrived_per_s: float, done_per_s: float, busy_share: float, latency_s: float = 0.1, seconds: int = 40
) -> History:
    history = History(Topology.single())
    for at_s in range(0, seconds + 1, 10):
        sample = Sample(
            "job",
            float(at_s),
            arrived=arrived_per_s * at_s,
            done=done_per_s * at_s,
            busy_s=busy_share * ready * at_s,
            available_s=float(ready * at_s),
            latency_s=latency_s,
        )
        history.observe(Observation(float(at_s), {"job": sample}, {"job": Instances(ready, ready, ready)}))
    return history


@pytest.mark.parametrize(
    ("what", "window", "expected"),
    [
        ("half idle: half of them, and a tenth more", seen(8, 40.0, 40.0, 0.5), 5),
        ("all busy, and half of what comes is done: twice as many", seen(4, 80.0, 40.0, 1.0), 9),
        ("all busy with what waited before: as many as come", seen(8, 20.0, 80.0, 1.0, 60.0), 3),
        ("hardly busy, but the objective is nearly used up", seen(6, 40.0, 40.0, 0.2, latency_s=7.0), 5),
        ("at its bound: no fewer than there are", seen(6, 40.0, 40.0, 0.2, latency_s=9.9), 6),
        ("nothing comes", seen(6, 0.0, 0.0, 0.0, latency_s=0.0), 0),
        ("nothing was done yet", seen(6, 40.0, 0.0, 1.0), None),
        ("too little was seen", seen(6, 40.0, 40.0, 0.5, seconds=20), None),
    ],
)
def test_what_a_load_takes(what: str, window: History, expected: int | None) -> None:
    assert needed_for_load(window, "job", SLO) == expected, what


def test_restarted_counters_give_no_need() -> None:
    window = seen(4, 40.0, 40.0, 0.5)
    window.observe(Observation(50.0, {"job": Sample("job", 50.0, arrived=1.0, done=1.0, busy_s=0.0)}, {}))
    assert needed_for_load(window, "job", SLO) is None
