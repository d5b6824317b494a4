"""What the gate for readings costs, and what it changes where all readings are true: the loads of ``promises-short``.

    python -m benchmarks.bench_gate [LOAD …]

Loads that are named are measured again; the rows of others stay as they were.
"""

from __future__ import annotations

import json
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from time import process_time
from unittest.mock import patch

from benchmarks.common import Row, report

from headgate.core.objective import LatencySlo, parse_objective
from headgate.core.reading_gate import GateResult, ReadingGate
from headgate.core.types import Observation
from headgate.research.promises.runs import DayRun, make_load, run
from headgate.research.scenarios.promises import SHORT
from headgate.runtime import loop
from headgate.runtime.simulate import simulate
from headgate.workloads import parse_workload

POLICIES = ("autopilot", *SHORT.contenders)
BOUND = LatencySlo(10.0, 95.0)
REPEATS = 5
PUBLISHED = Path(__file__).parents[1] / "docs" / "benchmarks" / "gate.json"


class OpenGate(ReadingGate):
    """Lets every reading pass unseen."""

    def check(self, seen: Observation) -> GateResult:
        return GateResult(seen)


def without_gate() -> AbstractContextManager[object]:
    """Let loops begin with an open gate inside the block."""
    return patch.object(loop, "ReadingGate", OpenGate)


def simulated_s(policy: str) -> float:
    """Return the CPU time of six hours with a decision every five seconds."""
    began_s = process_time()
    simulate(
        policy,
        parse_workload("sine:mean=50,amplitude=30,period=1h"),
        objective=parse_objective("latency p95 < 10s"),
        service_rate_per_s=10.0,
        start=5,
        startup_s=60.0,
        interval_s=5.0,
        seconds=6 * 3600.0,
    )
    return process_time() - began_s


def bench_gate() -> None:
    """CPU time of whole control cycles with the gate relative to that without it, in turns and the best of each."""
    rows: list[Row] = []
    for policy in ("static", "reactive", "ds2"):
        simulated_s(policy)
        gated_s, open_s = [], []
        for _ in range(REPEATS):
            gated_s.append(simulated_s(policy))
            with without_gate():
                open_s.append(simulated_s(policy))
        cycles = 6 * 720
        more_s = max(0.0, min(gated_s) - min(open_s))
        rows.append(
            {
                "policy": policy,
                "µs per cycle": 1e6 * min(open_s) / cycles,
                "µs of the gate": 1e6 * more_s / cycles,
                "ratio": min(gated_s) / min(open_s),
            }
        )
    report("gate-cost", rows, to=PUBLISHED.with_name("gate-cost.json"))


def measured(name: str) -> list[Row]:
    """Return what policies make of a day of a load, with and without the gate."""
    load = make_load(name)
    rows: list[Row] = []
    for policy in POLICIES:
        gated = run(policy, load, BOUND, startup_s=30.0)
        with without_gate():
            ungated = run(policy, load, BOUND, startup_s=30.0)
        rows.append({"load": name, "policy": policy, **_figures(gated), **_figures(ungated, "without the gate: ")})
    return rows


def _figures(day: DayRun, prefix: str = "") -> dict[str, float]:
    return {
        f"{prefix}late_pct": round(100 * day.late_share, 3),
        f"{prefix}instance_hours": round(day.instance_seconds / 3600, 2),
    }


def main(loads: list[str]) -> None:
    """Measure loads one after the other, and publish after each."""
    bench_gate()
    for name in loads or SHORT.loads:
        rows = json.loads(PUBLISHED.read_text(encoding="utf-8"))["rows"] if PUBLISHED.exists() else []
        report("gate", [*(row for row in rows if row["load"] != name), *measured(name)], to=PUBLISHED)


if __name__ == "__main__":
    main(sys.argv[1:])
