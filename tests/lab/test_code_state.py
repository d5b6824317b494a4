"""The code that a result depends on is found by its imports."""

from __future__ import annotations

from pathlib import Path

import pytest

import headgate
from headgate.lab.run_folder import code_of, fingerprint

HOME = Path(headgate.__file__).parent
RUNS = (
    "headgate.lab.experiments.run_case",
    "headgate.lab.tuning.tune",
    "headgate.research.promises.runs",
    "headgate.research.demeter.simulated_runs",
)


@pytest.mark.parametrize("module", RUNS)
def test_runs_depend_on_policies_and_the_simulator_and_on_no_engine_or_command(module: str) -> None:
    files = {path.relative_to(HOME).as_posix() for path in code_of(module)}
    assert {
        "core/step.py",
        "forecast/linear_trend.py",
        "policies/autopilot.py",
        "policies/rules.py",
        "rules/evaluate.py",
        "runtime/loop.py",
        "simulation/micro_batch.py",
        "workloads/shapes.py",
        module.removeprefix("headgate.").replace(".", "/") + ".py",
    } <= files
    assert {name.partition("/")[0] for name in files} & {"cli", "engines", "service", "agent", "local", "apps"} == set()


def test_the_fingerprint_tells_modules_and_formats_apart() -> None:
    prints = {fingerprint(module) for module in RUNS} | {fingerprint(RUNS[0], 2)}
    assert len(prints) == len(RUNS) + 1
    assert fingerprint(RUNS[0]) == fingerprint(RUNS[0])
