"""A streaming query as py4j shows it, without a JVM: what the handle asks of Spark, and nothing else.

Its sources have all come equally far. Spark lists a source once for each place of the plan that reads it; everywhere
else it has it once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import getitem
from types import SimpleNamespace
from typing import Any

from headgate.engines.spark.backend import TRIGGERED_METHOD

BEGAN_S = 1_794_825_417.0
"""The wall time of 0 s."""


class Seq(list[Any]):
    def size(self) -> int:
        return len(self)

    def apply(self, index: int) -> Any:
        return self[index]

    def distinct(self) -> Seq:
        return Seq(dict.fromkeys(self))

    def indexOf(self, element: Any) -> int:  # noqa: N802 - its name in Scala
        return self.index(element)


def same(value: Any) -> Any:
    """A method that gives a value."""
    return lambda *_: value


def text_value(text: str) -> Any:
    return SimpleNamespace(toString=same(text))


JVM: Any = SimpleNamespace(
    java=SimpleNamespace(lang=SimpleNamespace(reflect=SimpleNamespace(Array=SimpleNamespace(get=getitem))))
)
"""As much of a JVM as looking at a query needs."""


class PlayedSource:
    """A source that is none of files."""

    def getClass(self) -> Any:  # noqa: N802
        return SimpleNamespace(getSimpleName=same("KafkaMicroBatchStream"))


@dataclass
class PlayedExecution:
    """A query whose batches take half a second, one a second; each takes what has come by then."""

    places: str
    """The source that each place of the plan reads, by a letter."""
    rate_per_s: int
    offset: Any
    """Makes the offset of so many records."""
    run: str = "run-1"
    first_s: int = 0
    """When its first batch begins; what came before a restart was done by the run before."""
    kind: str = "headgate-records"
    options: Mapping[str, str] = field(default_factory=dict)
    trigger: str = "ProcessingTimeTrigger"
    has_contexts: bool = True
    """Whether this Spark has an object for the newest batch, as it has since 4.0."""

    def __post_init__(self) -> None:
        self.by_letter = {letter: PlayedSource() for letter in dict.fromkeys(self.places)}
        self.now_s = 0.0

    def reached(self, at_s: float) -> str:
        return json.dumps(self.offset(int(self.rate_per_s * at_s)))

    @property
    def planned_s(self) -> int:
        return int(self.now_s)

    @property
    def is_running(self) -> bool:
        return self.now_s - self.planned_s < 0.5

    # ------------------------------------------------------------------------------------------ what the handle asks

    def as_query(self) -> Any:
        return SimpleNamespace(
            **self._of_this_version(),
            id=same(text_value("id")),
            name=same("played"),
            trigger=same(
                SimpleNamespace(intervalMs=same(1000), getClass=same(SimpleNamespace(getSimpleName=same(self.trigger))))
            ),
            sink=same(text_value("ForeachBatchSink")),
            sources=same(Seq(self.by_letter[letter] for letter in self.places)),
            analyzedPlan=same(SimpleNamespace(collectLeaves=same(Seq(map(self._leaf, self.places))))),
            checkpointFile=lambda name: f"checkpoint/{name}",
            committedOffsets=lambda: self._progress(self.planned_s - (1 if self.is_running else 0)),
            recentProgress=self._events,
            lastProgress=lambda: next(reversed(self._events()), None),
        )

    def _of_this_version(self) -> dict[str, Any]:
        context = self._context()
        if self.has_contexts:
            return {"getLatestExecutionContext": self._context}
        return {
            "currentBatchId": context.batchId,
            "availableOffsets": context.endOffsets,
            "latestOffsets": context.latestOffsets,
            TRIGGERED_METHOD: context.currentTriggerStartTimestamp,
        }

    def _leaf(self, letter: str) -> Any:
        options = dict(self.options) | {"letter": letter}
        return SimpleNamespace(
            getClass=same(SimpleNamespace(getSimpleName=same("StreamingRelationV2"))),
            isStreaming=same(True),
            sourceName=same(self.kind),
            extraOptions=same(SimpleNamespace(asCaseSensitiveMap=same(options))),
        )

    def _context(self) -> Any:
        return SimpleNamespace(
            batchId=lambda: self.planned_s,
            currentTriggerStartTimestamp=lambda: int(1000 * (BEGAN_S + self.planned_s)),
            startOffsets=lambda: self._progress(self.planned_s - 1),
            endOffsets=lambda: self._progress(self.planned_s),
            latestOffsets=lambda: self._progress(self.planned_s),
        )

    def _progress(self, at_s: int) -> Any:
        offset = None if at_s < 0 else self.reached(at_s)
        known = [] if offset is None else [offset] * len(self.by_letter)
        option = SimpleNamespace(isDefined=same(offset is not None), get=same(SimpleNamespace(json=same(offset))))
        return SimpleNamespace(
            values=same(SimpleNamespace(mkString=lambda between: between.join(known))),
            get=lambda source: option if source in self.by_letter.values() else None,
        )

    def _events(self) -> Sequence[Any]:
        until_s = self.planned_s + (0 if self.is_running else 1)
        return [_event(body) for body in self._bodies(until_s)]

    def _bodies(self, until_s: int) -> Iterator[dict[str, Any]]:
        for at_s in range(self.first_s, until_s):
            rows = int(self.rate_per_s * at_s) - int(self.rate_per_s * max(0, at_s - 1))
            yield {
                "timestamp": datetime.fromtimestamp(BEGAN_S + at_s, UTC).isoformat(timespec="milliseconds"),
                "durationMs": {"triggerExecution": 500, "addBatch": 400, "latestOffset": 0},
                "sources": [
                    {
                        "startOffset": json.loads(self.reached(at_s - 1)) if at_s else None,
                        "endOffset": json.loads(self.reached(at_s)),
                        "latestOffset": json.loads(self.reached(at_s)),
                        "numInputRows": rows * self.places.count(letter),
                    }
                    for letter in self.by_letter
                ],
            }


def _event(body: dict[str, Any]) -> Any:
    return SimpleNamespace(timestamp=same(body["timestamp"]), json=same(json.dumps(body)))
