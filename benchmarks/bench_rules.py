"""How long a decision of a thousand rules over a hundred operators takes, and what the evaluator keeps in memory."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable

import numpy as np
from benchmarks.common import Row, reference_s, report

from headgate.core.objective import parse_objective
from headgate.core.topology import Topology
from headgate.core.types import Instances, Observation, Sample
from headgate.core.window import History
from headgate.policies.frame.base import Context
from headgate.rules import RulePolicy, Rules, policy, rule
from headgate.rules.fluent import FinishedRule
from headgate.rules.rules_policy import RulesPolicy

RULES, OPERATORS = 1000, 100
INTERVAL_S = 5.0
DECISIONS = 200
NAMES = tuple(f"operator-{number}" for number in range(OPERATORS))
METRICS = (("backlog", 300.0), ("latency", 5.0), ("input_rate", 500.0), ("utilization", 0.8))


def made_rule(number: int, operator: str, kind: str) -> FinishedRule:
    metric, threshold = METRICS[number % len(METRICS)]
    start = rule(f"rule {number}")
    if number % 2:
        base = start.scale_in(operator).by(1).when(metric).below(threshold * (1 + number / RULES) / 4)
    else:
        base = start.scale_out(operator).by(2).never_above(8).when(metric).above(threshold * (1 - number / RULES / 2))
    lasting = base.for_at_least(seconds=30 + number % 7 * 30)
    match kind if kind != "mixed" else ("all", "average", "median", "share")[number // 4 % 4]:
        case "average":
            lasting = lasting.on_average()
        case "median":
            lasting = lasting.at_median()
        case "share":
            lasting = lasting.tolerating(percent=10)
        case _:
            pass
    return lasting.with_no_scale_out_since(minutes=5)


def rules_for(kind: str, wildcard: bool) -> RulePolicy:
    """A thousand rules: ten for each operator, or each of them for all operators."""
    return policy(*(made_rule(number, "*" if wildcard else NAMES[number % OPERATORS], kind) for number in range(RULES)))


def observation(cycle: int, random: np.random.Generator) -> Observation:
    at_s = cycle * INTERVAL_S
    samples = {
        name: Sample(
            name,
            at_s,
            input_rate_per_s=float(random.uniform(100, 600)),
            backlog=float(random.uniform(0, 400)),
            latency_s=float(random.uniform(0, 7)),
            utilization=float(random.uniform(0, 1)),
        )
        for name in NAMES
    }
    return Observation(at_s, samples, dict.fromkeys(NAMES, Instances(2, 2, 2)))


def decisions_s(made: RulesPolicy, clock: Callable[[], float], decisions: int = DECISIONS) -> list[float]:
    """Seconds per decision, each on a new reading of every operator, once the longest time threshold is filled."""
    random = np.random.default_rng(1)
    history = History(Topology(NAMES))
    taken_s = []
    for cycle in range(decisions + 60):
        history.observe(observation(cycle, random))
        began_s = clock()
        made.decide(cycle * INTERVAL_S, history)
        taken_s.append(clock() - began_s)
    return taken_s[60:]


def bench_rules() -> None:
    """Milliseconds of CPU time per decision for each kind of condition; 10 rules per operator, then 1,000 each."""
    context = Context(parse_objective("latency p95 < 10s"), Topology(NAMES))
    yardstick_s = reference_s()
    rows: list[Row] = []
    for kind, wildcard in [(k, False) for k in ("all", "average", "median", "share", "mixed")] + [("all", True)]:
        made = Rules(rules_for(kind, wildcard)).make(context)
        taken_s = decisions_s(made, time.process_time, DECISIONS if not wildcard else 40)
        rows.append(
            {
                "conditions": kind,
                "rules": RULES,
                "operators": OPERATORS,
                "pairs": RULES * (OPERATORS if wildcard else 1),
                "median_ms": 1000 * float(np.median(taken_s)),
                "p95_ms": 1000 * float(np.percentile(taken_s, 95)),
                "times_reference_loop": float(np.median(taken_s)) / yardstick_s,
            }
        )
    report("rules", rows)


def bench_rules_memory() -> None:
    """Megabytes that the evaluator holds after a time, with one longest threshold of 210 s: it must not grow."""
    random = np.random.default_rng(1)
    made = Rules(rules_for("mixed", False)).make(Context(parse_objective("latency p95 < 10s"), Topology(NAMES)))
    history = History(Topology(NAMES), retention_s=240.0)
    rows: list[Row] = []
    tracemalloc.start()
    for cycle in range(1201):
        history.observe(observation(cycle, random))
        made.decide(cycle * INTERVAL_S, history)
        if cycle in (60, 300, 600, 1200):
            rows.append({"simulated_s": cycle * INTERVAL_S, "megabytes": tracemalloc.get_traced_memory()[0] / 1e6})
    tracemalloc.stop()
    report("rules_memory", rows)


if __name__ == "__main__":
    bench_rules()
    bench_rules_memory()
