"""A watcher that records what a measurement reports."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.lab.mst import Measurement


class Watched:
    def __init__(self) -> None:
        self.stages: list[str] = []
        self.measured: list[Measurement] = []

    def stage(self, text: str) -> None:
        self.stages.append(text)

    def reading(self, executors: int, readings: Sequence[float]) -> None:
        assert readings

    def settled(self, measurement: Measurement) -> None:
        self.measured.append(measurement)
