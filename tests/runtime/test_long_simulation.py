"""The memory of a simulated run is counted in objects: megabytes depend on the machine and on Python's allocator."""

from __future__ import annotations

import gc
import types
from collections.abc import Iterable

import numpy as np
import pytest

from headgate.core.objective import parse_objective
from headgate.policies.frame.base import Context
from headgate.runtime.assembly import wire
from headgate.runtime.model_file import policy_with_files
from headgate.runtime.summary import RunRecord
from headgate.simulation.batch_job import MicroBatchJob
from headgate.simulation.engine import SimulatedEngine
from headgate.simulation.fleet import SimulatedFleet
from headgate.simulation.micro_batch import MicroBatch
from headgate.simulation.queue import QueueNetwork
from headgate.workloads import parse_workload

INTERVAL_S = 5.0
STEPS = 3_000
FEW = 100
"""The most that is retained of each kind: with the usual bounds a run would have to last for weeks to reach it."""
_CODE = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.CodeType)


def held(roots: Iterable[object]) -> int:
    """How many objects, and numbers in arrays, can be reached from some; what is code is not looked into."""
    seen: set[int] = set()
    waiting, numbers = list(roots), 0
    while waiting:
        item = waiting.pop()
        if id(item) in seen or isinstance(item, _CODE):
            continue
        seen.add(id(item))
        numbers += item.size if isinstance(item, np.ndarray) else 0
        waiting.extend(gc.get_referents(item))
    return len(seen) + numbers


@pytest.mark.parametrize("model", ["queue", "micro-batch"])
def test_what_a_run_holds_does_not_grow_with_its_length(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    defaults = SimulatedFleet.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "most_changes", FEW)
    load, objective = parse_workload("sine:mean=50,amplitude=30,period=10m"), parse_objective("latency p95 < 10s")
    kernel = (
        QueueNetwork(load, 10.0, late_after_s=10.0, most_retained=FEW)
        if model == "queue"
        else MicroBatchJob(load, 10.0, MicroBatch(), late_after_s=10.0, most_batches=FEW)
    )
    engine = SimulatedEngine(kernel, startup_s=30.0)
    policy = policy_with_files("reactive", Context(objective, engine.topology(), 0), None)
    loop = wire(engine, policy, engine, engine_name=engine.name, resumes=False)
    record = RunRecord(objective, most=5 * FEW, most_batches=5 * FEW)
    loop.watchers.append(record)
    found = []
    for step in range(1, 4 * STEPS + 1):
        engine.advance(step * INTERVAL_S)
        loop.tick()
        if step in (STEPS, 4 * STEPS):
            found.append(held([loop, engine, record]))
    assert record.summary().rescales > 2 * FEW  # There was enough to be forgotten.
    # With all that was seen and done it would be four times as much.
    assert found[1] <= 1.5 * found[0]
