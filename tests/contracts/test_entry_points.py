"""What works in one entry point works in all: one table of features over everything that opens a loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

import headgate.engines.spark
from headgate.agent.fallback import Fallback
from headgate.core.errors import InputError
from headgate.core.objective import parse_objective
from headgate.core.types import JSON, Decision, Instances, Instant, Role, Sample, Target
from headgate.core.window import Window
from headgate.journal.memory import MemoryJournal
from headgate.journal.writer import SqliteJournal
from headgate.policies.frame.base import Context, OperatorPolicy
from headgate.policies.frame.settings import Settings
from headgate.rules import Rules
from headgate.runtime import autoscaler, simulate
from headgate.runtime.assembly import LoopSpec
from headgate.runtime.autoscaler import Autoscaler, autoscale, autoscale_engine
from headgate.service.config import JobSpec, OperatorSpec
from headgate.service.jobs import ServedJob
from headgate.simulation.engine import SimulatedEngine
from headgate.simulation.queue import QueueNetwork
from headgate.workloads import parse_workload

INTERVAL_S = 5.0
TICKS = 12
MOST = 12
OBJECTIVE = "latency p95 < 10s"
WORKLOAD = parse_workload("constant:10")
RATE_PER_S = 5.0
RULES = """\
metrics: [fraud]
rules:
  - name: fraud
    scale_out: job
    by: {by}
    never_above: 5
    when: {{metric: fraud, above: {above}, for_at_least: 0s}}
"""

OnTick = Callable[[int], None]
EntryPoint = Callable[..., None]
"""Runs ``TICKS`` cycles with the given features, and calls ``on_tick`` before each."""


class SparkLikeEngine(SimulatedEngine):
    """A simulated job of one instance that several fit into; ``planned`` is what ``autoscale`` asks a Spark engine."""

    planned = 1

    def __init__(self) -> None:
        super().__init__(QueueNetwork(WORKLOAD, RATE_PER_S))

    def drive(self, tick: Callable[[], object], on_tick: OnTick) -> None:
        for cycle in range(TICKS):
            self.advance(cycle * INTERVAL_S)
            on_tick(cycle)
            tick()


def with_autoscale(patch: pytest.MonkeyPatch, on_tick: OnTick, **features: Any) -> None:
    engine = SparkLikeEngine()
    patch.setattr(headgate.engines.spark, "application_id", lambda spark: "application")
    patch.setattr(headgate.engines.spark, "application_name", lambda spark: "job")
    patch.setattr(headgate.engines.spark, "configuration", lambda spark: {})
    patch.setattr(headgate.engines.spark, "open_engine", lambda spark, **options: engine)
    patch.setattr(autoscaler, "SystemClock", lambda: engine)
    patch.setattr(Autoscaler, "start", lambda running: running)
    running = autoscale(cast("Any", None), OBJECTIVE, executors=(1, MOST), **features)
    engine.drive(running.loop.tick, on_tick)
    running.stop()


def with_autoscale_engine(patch: pytest.MonkeyPatch, on_tick: OnTick, **features: Any) -> None:
    engine = SparkLikeEngine()
    patch.setattr(Autoscaler, "start", lambda running: running)
    running = autoscale_engine(engine, objective=OBJECTIVE, instances=(1, MOST), job="job", clock=engine, **features)
    engine.drive(running.loop.tick, on_tick)
    running.stop()


def with_simulate(patch: pytest.MonkeyPatch, on_tick: OnTick, **features: Any) -> None:
    patch.setattr(simulate, "REPORT_EVERY_S", 0.0)
    simulate.simulate(
        features.pop("policy", None),
        WORKLOAD,
        objective=parse_objective(OBJECTIVE).within(1, MOST),
        service_rate_per_s=RATE_PER_S,
        interval_s=INTERVAL_S,
        seconds=TICKS * INTERVAL_S,
        progress=lambda share: on_tick(round(share * TICKS)),
        watch_files=True,
        **features,
    )


def with_fallback(patch: pytest.MonkeyPatch, on_tick: OnTick, **features: Any) -> None:
    engine = SparkLikeEngine()
    spec = LoopSpec(objective=parse_objective(OBJECTIVE).within(1, MOST), **features)
    fallback = Fallback(spec, engine, interval_s=INTERVAL_S, now=engine.now)
    engine.drive(lambda: fallback.decide(engine.observe()), on_tick)
    fallback.close()


def with_service(patch: pytest.MonkeyPatch, on_tick: OnTick, **features: Any) -> None:
    engine = SparkLikeEngine()
    given = features.pop("journal", None)
    journal = SqliteJournal(given) if isinstance(given, Path) else given or MemoryJournal()
    if (state := features.pop("state", None)) is not None:
        # The service has one place for what was learned: its journal.
        patch.setattr(journal, "load_state", lambda key: state if "/policy/" in key else None)
    spec = JobSpec("job", (OperatorSpec("job", 1, MOST),), parse_objective(OBJECTIVE), **features)
    job = ServedJob(spec, journal, engine, wrap_engine=lambda mailbox: engine)
    engine.drive(job.tick, on_tick)
    job.close()


ENTRY_POINTS = [with_autoscale, with_autoscale_engine, with_simulate, with_fallback, with_service]


@pytest.fixture(params=ENTRY_POINTS, ids=lambda entry: entry.__name__.removeprefix("with_"))
def entry(request: pytest.FixtureRequest) -> Callable[..., None]:
    found: Callable[..., None] = request.param
    return found


class Run:
    """Runs an entry point, and reads its journal."""

    def __init__(self, entry: Callable[..., None], patch: pytest.MonkeyPatch) -> None:
        self._entry = entry
        self._patch = patch
        self.journal = MemoryJournal()

    def __call__(self, on_tick: OnTick = lambda cycle: None, **features: Any) -> None:
        self._entry(self._patch, on_tick, **{"journal": self.journal, **features})

    def decisions(self, role: Role = Role.ACTING) -> list[Decision]:
        return [decision for decision in self.journal.decisions() if decision.role is role]

    def sizes(self, role: Role = Role.ACTING) -> list[int]:
        return [decision.targets["job"] for decision in self.decisions(role)]

    def events(self, kind: str) -> list[str]:
        return [event.detail for event in self.journal.events() if event.kind == kind]


@pytest.fixture
def run(entry: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(entry, monkeypatch)


class Learned(OperatorPolicy[Settings]):
    """Wants the size that it has learned; also its own maker."""

    name = "learned"
    summary = "for tests"
    Settings = Settings

    def __init__(self, context: Context) -> None:
        super().__init__(Settings(), context)
        self.learned = 1

    def size(self, now: Instant, window: Window, operator: str, instances: Instances, sample: Sample) -> Target:
        return Target(self.learned, "learned", f"{self.learned} was learned")

    def _state(self) -> dict[str, JSON]:
        return {"size": self.learned}

    def _restore_state(self, state: Mapping[str, JSON]) -> None:
        self.learned = int(state["size"])


class LearnedMaker:
    def make(self, context: Context) -> Learned:
        return Learned(context)


def rules_in(folder: Path, **values: object) -> Path:
    path = folder / "rules.yaml"
    new = path.with_suffix(".new")
    new.write_text(RULES.format(**{"by": 1, "above": 4, **values}))
    new.replace(path)
    return path


def fraud(operator: str) -> float:
    return 5.0


def test_a_settings_file_names_the_policy_its_settings_and_its_guards(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "tuned.yaml"
    file.write_text("version: 1\npolicy: static\nsettings: {instances: 9}\nguards: {max_out: 2}\n")
    run(policy="static", settings=file)
    assert run.sizes()[-1] == 9
    assert max(after - before for before, after in zip([1, *run.sizes()], run.sizes(), strict=False)) == 2


def test_guards_limit_the_policy(run: Run) -> None:
    run(policy="static", settings={"instances": 9}, guards={"max_out": 1})
    assert run.sizes()[:3] == [2, 3, 4]


def test_constraints_limit_every_policy(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "constraints.yaml"
    file.write_text("constraints: [{name: large, at_least: 4}]\n")
    constraints: Any = file
    if run._entry is with_service:
        from headgate.core.topology import Topology
        from headgate.rules.rules_policy import load_constraints

        constraints = load_constraints(file, Topology.single())  # The service's file is where paths are resolved.
    run(policy="static", constraints=constraints)
    assert set(run.sizes()) == {4}


def test_custom_metrics_reach_the_policy(run: Run, tmp_path: Path) -> None:
    run(policy="rules", settings={"file": str(rules_in(tmp_path))}, metrics={"fraud": fraud})
    assert run.sizes()[-1] == 5


def test_rules_bring_metrics_of_their_own(run: Run, tmp_path: Path) -> None:
    run(policy=Rules.from_file(rules_in(tmp_path), {"fraud": fraud}))
    assert run.sizes()[-1] == 5


@pytest.mark.parametrize("by_name", [True, False], ids=["by name", "as Rules"])
def test_edits_of_a_rule_file_are_picked_up_and_bad_ones_refused(run: Run, tmp_path: Path, by_name: bool) -> None:
    path = rules_in(tmp_path, above=100)

    def on_tick(cycle: int) -> None:
        if cycle == 4:
            rules_in(tmp_path, by="many")
        if cycle == 6:
            rules_in(tmp_path, by=3)

    if by_name:
        run(on_tick, policy="rules", settings={"file": str(path)}, metrics={"fraud": fraud})
    else:
        run(on_tick, policy=Rules.from_file(path, {"fraud": fraud}))
    assert set(run.sizes()[:6]) == {1}
    assert 4 in run.sizes()[6:8]
    (refused,), (changed,) = run.events("policy-refused"), run.events("policy-changed")
    assert "by: " in refused
    assert changed == f"{path}: changed 'fraud'"


def test_shadows_decide_and_are_journalled(run: Run) -> None:
    run(policy="static", shadows=("reactive", "hpa"))
    assert set(run.sizes()) == {1}
    assert {decision.policy for decision in run.decisions(Role.SHADOW)} == {"reactive", "hpa"}


def test_a_loop_that_recommends_changes_nothing(run: Run) -> None:
    run(policy="static", settings={"instances": 5}, mode="recommend")
    assert set(run.sizes(Role.RECOMMENDED)) == {5}
    assert run.journal.receipts() == []
    assert {seen.instances["job"].planned for seen in run.journal.observations()} == {1}


def test_learned_state_is_restored(run: Run) -> None:
    run(policy=LearnedMaker(), state={"policy": "learned", "version": 1, "size": 6})
    assert run.sizes()[-1] == 6


def test_a_journal_may_be_named_by_its_path(run: Run, tmp_path: Path) -> None:
    run(policy="reactive", journal=tmp_path / "run.sqlite")
    journal = SqliteJournal.read(tmp_path / "run.sqlite")
    assert len(journal.decisions()) >= TICKS
    journal.close()


def test_a_policy_is_chosen_where_none_is_named(entry: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(entry, monkeypatch)
    run()
    assert {decision.policy for decision in run.decisions()} == {"autopilot"}


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ({"policy": "reactiv"}, "did you mean 'reactive'"),
        ({"policy": "reactive", "settings": {"headroom": 7}}, "headroom"),
        ({"policy": "reactive", "settings": "missing.yaml"}, "missing.yaml.* cannot be read"),
        ({"policy": "reactive", "guards": {"max_uot": 2}}, "max_uot"),
        ({"policy": "reactive", "shadows": ("reactive",)}, "is the acting policy"),
        ({"policy": "reactive", "shadows": ("hpa", "hpa")}, "is named twice"),
        ({"policy": "reactive", "shadows": ("hpaa",)}, "did you mean 'hpa'"),
        ({"policy": "reactive", "mode": "recomend"}, "did you mean 'recommend'"),
        (
            {"policy": "rules", "settings": {"rules": RULES.format(by=1, above=4)}},
            "unknown metric for this engine 'fraud'",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_is_refused_before_the_job_is_touched(run: Run, features: dict[str, Any], message: str) -> None:
    ticks: list[int] = []
    with pytest.raises(InputError, match=message):
        run(ticks.append, **features)
    assert ticks == []
    assert run.journal.runs() == []
