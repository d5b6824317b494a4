"""Every engine that needs no cluster keeps the contract; those that do are checked under tests/live."""

from collections.abc import Callable

import pytest

from headgate.core.contracts import Engine
from headgate.core.topology import Topology
from headgate.simulation.batch_job import MicroBatchJob
from headgate.simulation.engine import SimulatedEngine
from headgate.simulation.queue import QueueNetwork
from headgate.testing.engines import ENGINE_CHECKS, EngineFactory, Settle, check_engine
from headgate.workloads import parse_workload

STARTUP_S = 30.0
LOAD = parse_workload("constant:10")
ENGINES: dict[str, EngineFactory] = {
    "queue": lambda: SimulatedEngine(QueueNetwork(LOAD, 5.0), startup_s=STARTUP_S),
    "queue-network": lambda: SimulatedEngine(
        QueueNetwork(LOAD, 5.0, topology=Topology.of(("parse", "enrich"))), startup_s=STARTUP_S
    ),
    "micro-batch": lambda: SimulatedEngine(MicroBatchJob(LOAD, 5.0), startup_s=STARTUP_S),
    "at-once": lambda: SimulatedEngine(QueueNetwork(LOAD, 5.0)),
}


def settle(engine: Engine) -> None:
    assert isinstance(engine, SimulatedEngine)
    engine.advance(engine.now() + 2 * STARTUP_S)


@pytest.mark.parametrize("check", ENGINE_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("engine", ENGINES)
def test_engine(engine: str, check: Callable[[EngineFactory, Settle], None]) -> None:
    check(ENGINES[engine], settle)


def test_all_checks_can_be_run_at_once() -> None:
    check_engine(ENGINES["queue"], settle)
