"""Shadows decide and never act; a loop that recommends changes nothing."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from headgate.core.errors import InputError
from headgate.core.objective import parse_objective
from headgate.core.types import JSON, Decision, Event, Instances, Instant, Proposal, Role, Sample, Target
from headgate.core.window import Window
from headgate.journal.memory import MemoryJournal
from headgate.policies.frame.base import AnyPolicy, Context, OperatorPolicy, make_policy
from headgate.policies.frame.settings import Settings
from headgate.runtime.assembly import wire
from headgate.runtime.autoscaler import autoscale
from headgate.runtime.loop import ControlLoop, Mode
from headgate.runtime.simulate import SimulationResult, simulate
from headgate.simulation.batch_job import MicroBatchJob
from headgate.simulation.engine import SimulatedEngine
from headgate.simulation.micro_batch import MicroBatch
from headgate.workloads import parse_workload

OBJECTIVE = parse_objective("latency p95 < 20s").within(1, 12)
WORKLOAD = parse_workload("sine:mean=50,amplitude=40,period=20m")


class Scripted(OperatorPolicy[Settings]):
    """Wants a size, or fails; counts its decisions, and checks that it can read the window."""

    summary = "for tests"
    Settings = Settings

    def __init__(self, name: str, wanted: int = 3, fails: Exception | None = None) -> None:
        super().__init__(Settings(), Context(OBJECTIVE, SimulatedEngine(job()).topology()))
        self.name = name  # type: ignore[misc]  # a class attribute of those that are registered
        self.wanted, self.fails, self.calls = wanted, fails, 0
        self.seen: list[tuple[float, int, int]] = []
        self.events: list[Event] = []

    def decide(self, now: Instant, window: Window) -> Proposal:
        self.seen.append((now, len(window.observations), len(window.decisions)))
        return super().decide(now, window)

    def size(self, now: Instant, window: Window, operator: str, instances: Instances, sample: Sample) -> Target:
        self.calls += 1
        if self.fails is not None:
            raise self.fails
        return Target(self.wanted, "scripted", f"{self.wanted} as set")

    def take_events(self) -> Sequence[Event]:
        taken, self.events = self.events, []
        return taken

    def _state(self) -> dict[str, JSON]:
        return {"calls": self.calls}

    def _restore_state(self, state: Mapping[str, JSON]) -> None:
        self.calls = int(state["calls"])


def job() -> MicroBatchJob:
    return MicroBatchJob(WORKLOAD, 10.0, MicroBatch(trigger_interval_s=10.0), ready=2)


class Bench:
    """A simulated job under an acting policy with shadows."""

    def __init__(self, acting: AnyPolicy, *shadows: AnyPolicy, mode: Mode = Mode.ACT) -> None:
        self.engine = SimulatedEngine(job())
        self.journal = MemoryJournal()
        self.loop = self.start(acting, *shadows, mode=mode)

    def start(self, acting: AnyPolicy, *shadows: AnyPolicy, mode: Mode = Mode.ACT) -> ControlLoop:
        return wire(
            self.engine, acting, self.engine, engine_name="simulated", journal=self.journal, mode=mode, shadows=shadows
        )

    def run(self, first: int, last: int) -> None:
        for tick in range(first, last):
            self.engine.advance(10.0 * tick)
            self.loop.tick()

    def decided(self, role: Role) -> list[Decision]:
        return [decision for decision in self.journal.decisions() if decision.role is role]

    @property
    def planned(self) -> int:
        return self.engine.observe().instances["job"].planned


def test_a_shadow_decides_at_every_tick_and_never_acts() -> None:
    bench = Bench(Scripted("calm", 2), Scripted("eager", 9))
    bench.run(0, 10)
    assert bench.planned == 2
    shadows = bench.decided(Role.SHADOW)
    assert [decision.targets["job"] for decision in shadows[1:]] == [9] * 9
    assert {decision.verdicts["job"].current for decision in shadows} == {2}
    assert len(bench.decided(Role.ACTING)) == 10


def test_a_shadow_sees_what_the_acting_policy_sees() -> None:
    acting, shadow = Scripted("acting", 5), Scripted("shadow", 3)
    Bench(acting, shadow).run(0, 20)
    assert shadow.seen == acting.seen


def test_the_acting_policy_decides_as_if_there_were_no_shadow() -> None:
    alone, with_shadows = Bench(policy("reactive")), Bench(policy("reactive"), policy("hpa"), policy("proactive"))
    for bench in (alone, with_shadows):
        bench.run(0, 120)
    assert with_shadows.decided(Role.ACTING) == alone.decided(Role.ACTING)
    assert any(not decision.is_hold for decision in alone.decided(Role.ACTING))


def policy(name: str) -> AnyPolicy:
    return make_policy(name, Context(OBJECTIVE, SimulatedEngine(job()).topology()))


def test_a_shadow_that_fails_harms_nobody_and_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    failing = Scripted("broken", fails=ValueError("no model"))
    bench = Bench(Scripted("acting", 5), failing, Scripted("fine", 3))
    with caplog.at_level(logging.WARNING):
        bench.run(0, 10)
    assert bench.planned == 5
    assert {decision.policy for decision in bench.decided(Role.SHADOW)} == {"fine"}
    (event,) = [event for event in bench.journal.events() if event.kind == "shadow-failed"]
    assert event.detail == "shadow broken failed with ValueError: no model; the acting policy continues"
    failing.fails = None
    bench.run(10, 12)
    assert {decision.policy for decision in bench.decided(Role.SHADOW)} == {"broken", "fine"}


def test_what_happens_to_a_shadow_is_journalled_as_its_own() -> None:
    shadow = Scripted("learning")
    shadow.events.append(Event(0.0, "switched", "to exploiting"))
    bench = Bench(Scripted("acting"), shadow)
    bench.run(0, 2)
    events = [(event.kind, event.detail) for event in bench.journal.events()]
    assert events == [("shadow-switched", "shadow learning: to exploiting")]


def test_a_shadow_goes_on_with_what_it_had_learned_also_when_it_comes_to_act() -> None:
    bench = Bench(Scripted("acting"), Scripted("learning"))
    bench.run(0, 10)
    bench.loop.save_state()
    again, promoted = Scripted("learning"), Scripted("learning")
    bench.start(Scripted("acting"), again)
    bench.start(promoted)
    assert again.calls == promoted.calls > 0


@pytest.mark.parametrize(("shadows", "message"), [(["a"], "is the acting policy"), (["b", "c", "b"], "is named twice")])
def test_each_policy_decides_once(shadows: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Bench(Scripted("a"), *(Scripted(name) for name in shadows))


# --------------------------------------------------------------------------------------------------------- recommending


def test_a_loop_that_recommends_changes_nothing_and_journals_everything() -> None:
    bench = Bench(Scripted("acting", 5), Scripted("shadow", 3), mode=Mode.RECOMMEND)
    bench.run(0, 10)
    assert bench.planned == 2
    recommended = bench.decided(Role.RECOMMENDED)
    assert [decision.targets["job"] for decision in recommended[1:]] == [5] * 9
    assert len(bench.decided(Role.SHADOW)) == 10
    assert bench.journal.receipts() == []
    assert bench.loop.history.last_change("job") is None


def test_a_size_set_by_another_scaler_is_followed() -> None:
    bench = Bench(Scripted("acting", 5), mode=Mode.RECOMMEND)
    bench.run(0, 5)
    wire(bench.engine, Scripted("somebody", 4), bench.engine, engine_name="simulated").tick()
    bench.run(6, 8)
    assert bench.decided(Role.RECOMMENDED)[-1].verdicts["job"].current == 4


def simulated(**options: Any) -> SimulationResult:
    return simulate(
        "reactive", WORKLOAD, objective=OBJECTIVE, service_rate_per_s=10.0, startup_s=30.0, seconds=1200.0, **options
    )


def test_a_simulation_reports_shadows_and_its_run_is_the_same_as_without() -> None:
    plain, watched = simulated(), simulated(shadows=["hpa", "static"])
    assert watched.summary == plain.summary
    assert set(watched.shadows) == {"hpa", "static"}
    shadow = watched.to_json()["shadows"]["static"]
    assert shadow["decisions"] == 240
    assert 0 < shadow["differed"] < 240
    assert "shadows" not in plain.to_json()


def test_a_simulated_recommendation_leaves_the_job_at_its_size() -> None:
    result = simulated(mode="recommend")
    assert (result.summary.rescales, result.summary.mean_instances) == (0, 1.0)
    rows = result.to_json()["decisions"]
    assert {row["role"] for row in rows} == {"recommended"}
    assert len(rows) < 60, "a row of equal decisions is listed once"
    assert result.run["mode"] == "recommend"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "recomend"}, "did you mean 'recommend'"),
        ({"shadows": ["hpaa"]}, "did you mean 'hpa'"),
        ({"shadows": ["reactive"]}, "is the acting policy"),
    ],
)
def test_a_mode_or_shadow_that_cannot_be_is_refused_before_anything_is_touched(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        simulated(**options)
    with pytest.raises(InputError, match=message):
        autoscale(None, policy="reactive", **options)  # type: ignore[arg-type]  # no session is needed to find out
