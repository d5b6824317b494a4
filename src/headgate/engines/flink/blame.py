"""Because of whom records wait.

Flink holds a source back when any operator after it has no room, so that records wait far from the one that is too
slow. Whoever sizes operators one by one would then enlarge the source, which has nothing to do. So what waits somewhere
is told of the operator that it waits for: from where it is, downstream as long as operators are held back themselves.

>>> chain = Topology.of(("source", "slow"), ("slow", "sink"))
>>> shares = {"source": Shares(0.1, 0.8), "slow": Shares(1.0, 0.0), "sink": Shares(0.2, 0.0)}
>>> ratios = {("source", "slow"): 2.0, ("slow", "sink"): 1.0}
>>> blamed(chain, shares, ratios, {"source": 100.0, "slow": 30.0, "sink": 0.0})
{'source': 0.0, 'slow': 230.0, 'sink': 0.0}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headgate.core.topology import Topology

HELD_BACK = 0.1
"""From this share of its time on, an operator counts as held back."""
PRESSED = 0.9
"""Who has something to do for this share of its time may hold others back, of whom nobody knows whether they are."""

Ratios = Mapping[tuple[str, str], float]
"""Records that an operator gets for each that one before it does."""


@dataclass(frozen=True, slots=True)
class Shares:
    """What an operator did with its time lately; ``None`` where Flink does not know."""

    busy: float | None
    held_back: float | None

    @property
    def pressure(self) -> float:
        """The share in which it was not idle."""
        return (self.busy or 0.0) + (self.held_back or 0.0)


NOTHING = Shares(None, None)


def blamed(
    topology: Topology, shares: Mapping[str, Shares], ratios: Ratios, pools: Mapping[str, float]
) -> dict[str, float]:
    """Records that wait because of each operator, in records of its own, from those that wait in front of each."""
    waiting = dict.fromkeys(topology.operators, 0.0)
    for operator, records in pools.items():
        whose, ratio = culprit(topology, shares, ratios, operator)
        waiting[whose] += ratio * records
    return waiting


def culprit(topology: Topology, shares: Mapping[str, Shares], ratios: Ratios, operator: str) -> tuple[str, float]:
    """Whom records in front of an operator wait for, and what one of them comes to there."""
    ratio = 1.0
    while (pressing := _pressing(topology, shares, operator)) is not None:
        ratio *= ratios.get((operator, pressing), 1.0)
        operator = pressing
    return operator, ratio


def _pressing(topology: Topology, shares: Mapping[str, Shares], operator: str) -> str | None:
    """The operator downstream that holds this one back; ``None`` when none does."""
    downstream = topology.downstream(operator)
    if not downstream:
        return None
    hardest = max(downstream, key=lambda name: shares.get(name, NOTHING).pressure)
    held_back = shares.get(operator, NOTHING).held_back
    if held_back is None:
        return hardest if shares.get(hardest, NOTHING).pressure >= PRESSED else None
    return hardest if held_back >= HELD_BACK else None
