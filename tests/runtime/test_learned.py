"""Learned state can be saved in a file, read from it, and used after a restart."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from headgate.core.errors import InputError, StateError
from headgate.core.objective import Objective, parse_objective
from headgate.core.types import Decision
from headgate.journal.memory import MemoryJournal
from headgate.journal.writer import SqliteJournal
from headgate.policies.frame.base import Context, make_policy
from headgate.runtime.assembly import wire
from headgate.runtime.loop import ControlLoop
from headgate.runtime.past import read_state
from headgate.runtime.simulate import SimulationResult, simulate
from headgate.simulation.batch_job import MicroBatchJob
from headgate.simulation.engine import SimulatedEngine
from headgate.simulation.micro_batch import MicroBatch
from headgate.workloads import parse_workload

OBJECTIVE = parse_objective("latency p95 < 20s").within(1, 12)
WORKLOAD = parse_workload("sine:mean=50,amplitude=40,period=20m")
MODEL = MicroBatch(trigger_interval_s=10.0, noise=0.1)
SETTINGS = {"policy": "one-minus-epsilon", "epsilon": 0.3, "decision_interval_s": 30}
INTERVAL_S = 10.0


def learned(journal: SqliteJournal | None = None, objective: Objective = OBJECTIVE) -> SimulationResult:
    return simulate(
        "q-learning",
        WORKLOAD,
        objective=objective,
        settings=SETTINGS,
        service_rate_per_s=10.0,
        model=MODEL,
        seconds=1200,
        interval_s=INTERVAL_S,
        journal=journal,
    )


def test_state_is_read_from_a_snapshot_and_from_a_journal(tmp_path: Path) -> None:
    with closing(SqliteJournal(tmp_path / "run.journal")) as journal:
        result = learned(journal)
    (tmp_path / "state.json").write_text(json.dumps(result.state))
    assert read_state(tmp_path / "state.json", "q-learning") == result.state
    assert read_state(tmp_path / "run.journal", "q-learning") == result.state


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "is not a snapshot: "),
        (b"", "is not a snapshot: it is empty."),
        (b"[1]", "holds list, an object is needed"),
        (b"\xff\xfe\x00", "neither a snapshot in JSON nor a journal"),
        (b'{"policy": "hpa"}', "holds the state of policy 'hpa'; that of 'q-learning' is needed"),
        (None, "cannot be read: no such file"),
    ],
)
def test_a_file_without_such_state_is_refused(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "state"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_state(path, "q-learning")


def test_a_journal_without_such_state_is_refused(tmp_path: Path) -> None:
    with closing(SqliteJournal(tmp_path / "run.journal")) as journal:
        learned(journal)
    with pytest.raises(InputError, match="nothing that policy 'value-iteration' has learned"):
        read_state(tmp_path / "run.journal", "value-iteration")


def test_a_run_begins_with_the_state_it_is_given() -> None:
    state = learned().state
    again = simulate(
        "q-learning",
        WORKLOAD,
        objective=OBJECTIVE,
        settings=SETTINGS,
        service_rate_per_s=10.0,
        model=MODEL,
        seconds=5,
        state=state,
    )
    assert again.state["agents"]["job"]["table"] == state["agents"]["job"]["table"]
    strange = {**state, "policy": "hpa"}
    with pytest.raises(StateError, match="policy 'hpa'"):
        simulate("q-learning", WORKLOAD, objective=OBJECTIVE, service_rate_per_s=10.0, seconds=5, state=strange)


def ticked(policy_name: str, stops: tuple[int, ...], ticks: int = 150) -> list[Decision]:
    """The decisions of a simulated run whose loop is stopped and started anew before the given ticks."""
    engine = SimulatedEngine(MicroBatchJob(WORKLOAD, 10.0, MODEL, ready=2), startup_s=15.0)
    journal = MemoryJournal()
    decisions: list[Decision] = []

    def started() -> ControlLoop:
        settings = SETTINGS if policy_name == "q-learning" else {}
        policy = make_policy(policy_name, Context(OBJECTIVE, engine.topology(), 3), settings)
        return wire(engine, policy, engine, journal=journal, engine_name="simulated")

    loop = started()
    for tick in range(ticks):
        engine.advance(tick * INTERVAL_S)
        if tick in stops:
            loop.save_state()
            loop = started()
        decided = loop.tick()
        assert decided is not None
        decisions.append(decided)
    return decisions


@pytest.mark.parametrize(
    "policy", ["q-learning", "value-iteration", "committee", "spark-dra", "online-parameter-optimization", "reactive"]
)
def test_a_loop_that_is_stopped_and_started_again_decides_as_one_that_was_not(policy: str) -> None:
    uninterrupted = ticked(policy, stops=())
    assert ticked(policy, stops=(20, 21, 77)) == uninterrupted
    assert any(not decision.is_hold for decision in uninterrupted)


def test_a_job_that_starts_again_finds_its_own_size_and_not_that_of_another_job() -> None:
    """Two jobs share a journal; each was at another size when it was last seen."""
    journal = MemoryJournal()

    def ended_at(job: str, size: int) -> None:
        engine = SimulatedEngine(MicroBatchJob(WORKLOAD, 10.0, MODEL, ready=size))
        policy = make_policy("static", Context(OBJECTIVE, engine.topology()))
        wire(engine, policy, engine, journal=journal, engine_name="simulated", job=job).tick()

    ended_at("clicks", 3)
    ended_at("orders", 5)
    for job, size in (("clicks", 3), ("orders", 5), ("a new one", 1)):
        engine = SimulatedEngine(MicroBatchJob(WORKLOAD, 10.0, MODEL, ready=1))
        policy = make_policy("static", Context(OBJECTIVE, engine.topology()))
        wire(engine, policy, engine, journal=journal, engine_name="simulated", job=job).tick()
        assert engine.observe().instances["job"].planned == size
