"""Jobs that were recorded on a real cluster, observed as they were at that time."""

from __future__ import annotations

from headgate.core.types import Observation
from headgate.engines.flink import FlinkEngine
from headgate.testing.clock import FakeClock
from tests.engines.flink.stand_in import StandIn, recorded


def observe_recorded(stand_in: StandIn, name: str, job: str) -> tuple[FlinkEngine, list[Observation]]:
    """Observe a recorded job at that time."""
    number, looks = recorded(name)
    clock = FakeClock(looks[0][f"/jobs/{number}"]["now"] / 1000)
    stand_in.answers = looks[0]
    engine = FlinkEngine(f"{stand_in.url}#{job}", clock.now, late_after_s=10, sleep=lambda seconds: None)
    seen = []
    for look in looks:
        stand_in.answers = look
        clock.advance(max(0.0, look[f"/jobs/{number}"]["now"] / 1000 - clock.now()))
        seen.append(engine.observe())
    return engine, seen
