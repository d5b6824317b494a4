"""Whether a query is held back by its number of state partitions, and whether more of them pay for the pause.

A stage that keeps state has as many tasks as there are partitions. With more slots than that, some have nothing to do
while such a stage runs, and more executors cannot help. Spreading the state over more partitions takes a restart of the
query; it pays if what batches become faster by saves more time than the restart costs, before long.

>>> strain = Strain(2, slots=2, most_slots=8, work=StageWork(2, 9.0, 2, 1.0), busy_share=1.0, pressure=1.2)
>>> growth = worthwhile(strain, most_partitions=16, pause_s=10.0)
>>> growth.partitions, round(growth.faster, 2)
(8, 0.68)
>>> worthwhile(strain, most_partitions=16, pause_s=300.0) is None
True
"""

from __future__ import annotations

from dataclasses import dataclass

from headgate.engines.spark.query_plan import StageWork

PAYS_WITHIN_S = 600.0
"""What batches are faster by must save the pause within this time …"""
PAYS_TIMES = 2.0
"""… so many times over: what is expected is not certain."""
LEAST_FASTER = 0.1
"""Batches that become faster by a smaller share are not worth a restart."""
THREATENED = 0.5
"""From this share of the objective on, a policy would add instances if they could help."""
BUSY = 0.6
"""From this share of the time on, a query counts as busy."""


@dataclass(frozen=True, slots=True)
class Strain:
    """How a query stands."""

    partitions: int
    """Of its state."""
    slots: int
    """Tasks that its instances can run at once."""
    most_slots: int
    """Tasks that they could run at once if there were as many instances as are allowed."""
    work: StageWork
    busy_share: float
    """The share of the last while in which a batch ran."""
    pressure: float | None
    """How much of the objective is used up: 1 is its bound; ``None`` where that is not known."""


@dataclass(frozen=True, slots=True)
class Growth:
    """More state partitions, and what they are for."""

    partitions: int
    slots: int
    """That are then of use."""
    faster: float
    """The share of the time of a batch that is saved."""
    saves_s: float
    """Within ``PAYS_WITHIN_S``."""


def worthwhile(strain: Strain, most_partitions: int, pause_s: float) -> Growth | None:
    """How many state partitions there should be instead; ``None`` if as many as there are, or if more do not pay."""
    threatened = strain.pressure is not None and strain.pressure >= THREATENED and strain.busy_share >= BUSY
    slots = strain.most_slots if threatened else strain.slots
    wanted = strain.partitions
    while wanted < slots:
        wanted *= 2
    wanted = min(wanted, most_partitions)
    if wanted <= strain.partitions:
        return None
    share = strain.work.state_share(strain.slots)
    # What is gained without a restart by instances that the other stages can use is not its merit.
    faster = share * (1 - min(strain.partitions, slots) / min(wanted, slots))
    saves_s = faster * strain.busy_share * PAYS_WITHIN_S
    if faster < LEAST_FASTER or saves_s < PAYS_TIMES * pause_s:
        return None
    return Growth(wanted, min(wanted, slots), faster, saves_s)
