"""TaskManagers that are processes of this machine, of a cluster that ``headgate flink up`` started."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.local.flink import FlinkCluster


class LocalProvider:
    """Has the warden of the cluster at ``url`` start and stop them."""

    def __init__(self, url: str) -> None:
        self._cluster = FlinkCluster.at(url)

    def wanted(self) -> int:
        return len(self._cluster.wanted())

    def add(self, count: int) -> None:
        for _ in range(count):
            self._cluster.add_taskmanager()

    def remove(self, free: Sequence[str], count: int) -> None:
        there = self._cluster.wanted()
        for name in [one for one in free if one in there][:count]:
            self._cluster.remove_taskmanager(name)

    def close(self) -> None:
        """What runs goes on."""
