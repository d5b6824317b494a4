"""What policies make of wrong readings: every stream of ``headgate.testing.hostile`` on every load, by policy.

    python -m benchmarks.bench_hostile [POLICY …]

Policies that are named are measured again; the rows of others stay as they were.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from benchmarks.common import Row, report

from headgate.testing.hostile import HOSTILE_LOADS, HOSTILE_STREAMS, HostileOutcome, hostile_outcome
from headgate.testing.policies import factory_of

POLICIES = ("autopilot", "reactive", "hpa", "ds2", "flink-autoscaler", "rules", "threshold", "q-learning")
PUBLISHED = Path(__file__).parents[1] / "docs" / "benchmarks" / "hostile.json"


def measured(policy: str) -> Row:
    """Return the figures of one policy."""
    factory = factory_of(policy)
    singles: list[HostileOutcome] = []
    lasting: list[HostileOutcome] = []
    for load in HOSTILE_LOADS:
        for stream in HOSTILE_STREAMS:
            (singles if stream.is_single else lasting).append(hostile_outcome(factory, stream, load))
    return {
        "policy": policy,
        "runs with a single wrong sample": len(singles),
        "wrong scale-ins": sum(outcome.wrong_scale_ins for outcome in singles),
        "of these worse than holding": sum(outcome.worse_than_holding for outcome in singles),
        "runs stuck low": sum(outcome.is_stuck_low for outcome in singles),
        "runs with a lasting fault": len(lasting),
        "wrong scale-ins in these": sum(outcome.wrong_scale_ins for outcome in lasting),
        "of them worse than holding": sum(outcome.worse_than_holding for outcome in lasting),
        "of these stuck low": sum(outcome.is_stuck_low for outcome in lasting),
        "most ticks failed in a row": max(outcome.failed_ticks for outcome in (*singles, *lasting)),
    }


def main(policies: list[str]) -> None:
    """Measure policies one after the other, and publish after each."""
    for policy in policies or POLICIES:
        row = measured(policy)
        rows = json.loads(PUBLISHED.read_text(encoding="utf-8"))["rows"] if PUBLISHED.exists() else []
        others = {known["policy"]: known for known in rows if known.keys() == row.keys()} | {policy: row}
        report("hostile", [others[name] for name in POLICIES if name in others], to=PUBLISHED)


if __name__ == "__main__":
    main(sys.argv[1:])
