"""size-file: scales whatever follows a number in a file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headgate.engines import (
    Answer,
    Decision,
    EngineBase,
    EngineError,
    EngineGoneError,
    Instances,
    Instant,
    Observation,
    Outcome,
    Receipt,
    Sample,
    Topology,
)


class SizeFile(EngineBase):
    """A job that writes ``status.json`` into a folder and follows ``size.json`` there.

    Its status has the instances that are ready, the records that arrived and are done since its start, and for how many
    seconds the oldest that is not done has waited: ``{"ready": 2, "arrived": 900, "done": 880, "latency_s": 0.4}``.
    """

    name = "size-file"
    summary = "A job that follows a number in a file."

    def __init__(self, target: str, now: Callable[[], Instant]) -> None:
        super().__init__(target, now)
        self._folder = Path(target)
        self._is_closed = False
        self._planned = self._ready()

    def topology(self) -> Topology:
        return Topology.single()

    def observe(self) -> Observation:
        status, at_s = self._status(), self.now()
        arrived, done = status["arrived"], status["done"]
        sample = Sample("job", at_s, arrived=arrived, done=done, backlog=arrived - done, latency_s=status["latency_s"])
        return Observation(at_s, {"job": sample}, {"job": Instances(self._planned, self._planned, status["ready"])})

    def apply(self, decision: Decision) -> Receipt:
        self._status()  # A job that is gone is not scaled.
        at_s = self.now()
        if unknown := decision.verdicts.keys() - {"job"}:
            why = f"there is no operator {min(unknown)!r}"
            return Receipt(at_s, {name: Answer(Outcome.REFUSED, self._planned, why) for name in decision.verdicts})
        size = decision.verdicts["job"].target if decision.verdicts else self._planned
        if size < 0:
            return Receipt(at_s, {"job": Answer(Outcome.REFUSED, self._planned, f"{size} instances are not possible")})
        if size == self._planned:
            return Receipt(at_s, {"job": Answer(Outcome.UNCHANGED, size)})
        new = self._folder / "size.new"
        new.write_text(json.dumps({"size": size}))
        new.replace(self._folder / "size.json")  # All at once: the job never reads half a number.
        self._planned = size
        return Receipt(at_s, {"job": Answer(Outcome.ACCEPTED, size)})

    def close(self) -> None:
        self._is_closed = True

    def _ready(self) -> int:
        return int(self._status()["ready"])

    def _status(self) -> dict[str, Any]:
        if self._is_closed:
            raise EngineGoneError(f"{self.target} was let go of.")
        try:
            found: dict[str, Any] = json.loads((self._folder / "status.json").read_text())
        except (OSError, ValueError) as error:
            raise EngineError(f"{self.target}/status.json cannot be read: {error}.") from error
        return found
