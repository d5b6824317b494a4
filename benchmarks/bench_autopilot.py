"""How long autopilot takes to decide, with a compiler and without, and whether its intervals hold what they promise.

It decides on days of made-up loads, every ten seconds, with the readings that Spark gives. A process in which numba
cannot be found decides on two hours of one of them, and must decide the same, to the last bit.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time

from benchmarks.common import Row, best_s, reference_s, report

from headgate.core.objective import DAY_S, parse_objective
from headgate.core.types import JSON, Instant, Proposal
from headgate.core.window import Window
from headgate.journal.contract import Journal
from headgate.journal.memory import MemoryJournal
from headgate.policies.autopilot import Autopilot, AutopilotSettings
from headgate.policies.frame.base import Context
from headgate.render.story import coverage
from headgate.research.promises.runs import (
    BOUNDS,
    INTERVAL_S,
    JOB,
    SERVICE_RATE_PER_S,
    STARTUP_SPREAD,
    LoadDay,
    first_size,
    make_load,
)
from headgate.runtime.simulate import simulate

LOADS = ("waves", "stairs", "bursts", "walk", "teeth")
TIMED, SHORT_S = "walk", 2 * 3600.0
OBJECTIVE = "latency p95 < 10s"
STARTUP_S = 30.0
STATED = ("latency_s", "backlog", "instances")
WITHOUT_NUMBA = "import sys; sys.modules['numba'] = None; from benchmarks.bench_autopilot import tell; story_of()"


class TimedAutopilot(Autopilot):
    """Remembers how long each decision took."""

    def __init__(self, settings: AutopilotSettings, context: Context) -> None:
        super().__init__(settings, context)
        self.took_ms: list[float] = []

    def decide(self, now: Instant, window: Window) -> Proposal:
        began_s = time.perf_counter()
        proposal = super().decide(now, window)
        self.took_ms.append(1000 * (time.perf_counter() - began_s))
        return proposal


class Maker:
    """Makes the policy, and keeps hold of it."""

    policy: TimedAutopilot

    def make(self, context: Context) -> TimedAutopilot:
        self.policy = TimedAutopilot(AutopilotSettings(), context)
        return self.policy


def play(load: LoadDay, seconds: float = DAY_S, journal: Journal | None = None) -> list[float]:
    """Decide on a load, as the lab's promises are tried; gives how long each decision took, in milliseconds."""
    maker = Maker()
    simulate(
        maker,
        load.workload,
        objective=parse_objective(OBJECTIVE).within(*BOUNDS),
        service_rate_per_s=SERVICE_RATE_PER_S,
        model=JOB,
        start=first_size(load),
        startup_s=STARTUP_S,
        startup_spread=STARTUP_SPREAD,
        interval_s=INTERVAL_S,
        seconds=seconds,
        seed=load.seed,
        journal=journal,
    )
    return maker.policy.took_ms


def two_hours() -> JSON:
    """How long the decisions of two hours took, and what they were, with all the numbers behind them."""
    journal = MemoryJournal()
    took_ms = play(make_load(TIMED), SHORT_S, journal)
    verdicts = ((decision.at_s, verdict) for decision in journal.decisions() for verdict in decision.verdicts.values())
    return {
        "took_ms": took_ms,
        "decided": [[at_s, verdict.target, dict(verdict.numbers)] for at_s, verdict in verdicts],
    }


def story_of() -> None:
    """What a process without numba has to say."""
    json.dump(two_hours(), sys.stdout)


def bench_decision() -> None:
    """Milliseconds of a decision, and seconds of a day of them."""
    play(make_load(TIMED), 60.0)  # Compiled by now.
    compiled = two_hours()
    completed = subprocess.run([sys.executable, "-c", WITHOUT_NUMBA], check=True, capture_output=True, text=True)
    plain = json.loads(completed.stdout)
    is_the_same = plain["decided"] == json.loads(json.dumps(compiled["decided"]))
    assert is_the_same, "with numba and without, decisions are the same"
    day_s = best_s(lambda: play(make_load(TIMED)), repeats=3)
    rows: list[Row] = [
        {"what": what, "unit": unit, "value": value}
        for what, unit, value in (
            ("a decision with numba (median)", "ms", statistics.median(compiled["took_ms"])),
            ("a decision with numba (95 % are faster)", "ms", statistics.quantiles(compiled["took_ms"], n=20)[-1]),
            ("a decision without numba (median)", "ms", statistics.median(plain["took_ms"])),
            ("a decision without numba (95 % are faster)", "ms", statistics.quantiles(plain["took_ms"], n=20)[-1]),
            ("compared with and without, all the same", "decisions", len(plain["decided"])),
            ("a simulated day, a decision every 10 s, with numba", "s of one core", day_s),
            ("a simulated day, over a plain loop of a million steps", "times", day_s / reference_s()),
        )
    ]
    report("autopilot", rows)


def bench_coverage() -> None:
    """Of nine of ten answers it says that they lie within an interval: how many do."""
    rows: list[Row] = []
    together = dict.fromkeys(STATED, (0, 0))
    for name in LOADS:
        journal = MemoryJournal()
        play(make_load(name), journal=journal)
        covered = coverage(journal.decisions(), journal.observations())
        rows.append(_row(name, covered))
        together = {key: (together[key][0] + covered[key][0], together[key][1] + covered[key][1]) for key in STATED}
    report("autopilot-coverage", [*rows, _row("all", together)])


def _row(load: str, covered: dict[str, tuple[int, int]]) -> Row:
    answered = max(count for count, _ in covered.values())
    shares = {f"{name} within, %": 100 * met / count for name, (count, met) in covered.items()}
    return {"load": load, "answered": answered, **shares}


if __name__ == "__main__":
    bench_decision()
    bench_coverage()
