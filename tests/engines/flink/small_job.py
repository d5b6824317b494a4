"""A job of three vertices in virtual time, behind answers in Flink's form: its middle one is slow.

A source reads what is offered, as far as those after it have room; records are a fluid. A rescale takes a second, and
every count begins anew with it, as on Flink.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from headgate.testing.clock import FakeClock
from tests.engines.flink.stand_in import StandIn, refusals

JOB = "0" * 31 + "1"
SOURCE, SLOW, COUNT = "a" * 32, "b" * 32, "c" * 32
NAMES = {SOURCE: "Source: clicks", SLOW: "slow", COUNT: "count -> Sink: out: Writer"}
ROOM = 200.0
"""Records that fit between two vertices."""
STEP_S = 0.05
PARTITION = "Source__clicks.KafkaSourceReader.topic.page.clicks.partition.{}.currentOffset"


class WallClock(FakeClock):
    """For a job that others look at from another process: its time is everybody's."""

    def now(self) -> float:
        return time.time()


class SmallJob:
    """``per_s`` is what an instance of each vertex gets through."""

    def __init__(self, clock: FakeClock, offered_per_s: float = 100.0, max_parallelism: int = 12) -> None:
        self.clock = clock
        self.offered_per_s = offered_per_s
        self.max_parallelism = max_parallelism
        self.per_s = {SOURCE: 1000.0, SLOW: 60.0, COUNT: 1000.0}
        self.wanted = dict.fromkeys(NAMES, 1)
        self.sizes = dict(self.wanted)
        self.slots = 100
        self.job, self.state, self.name = JOB, "RUNNING", "clicks"
        self.task_state = "RUNNING"
        self.life_s = clock.now()
        self.pending = 0.0
        self.reported_pending = 0.0
        self.buffer = 0.0
        """Once held back, the source goes on only when there is room for so many, and tells nothing new till then."""
        self.is_stuck = False
        self.partitions = 0
        """Of the topic that the source reads, as far as it tells of them; none if it does not."""
        self.restarts = 0
        self.rescale_s: float | None = None
        self._at_s = clock.now()
        self._reset_counts()
        self.read[SOURCE] = 1.0  # It has begun to read.

    def _reset_counts(self) -> None:
        self.read = dict.fromkeys(NAMES, 0.0)
        self.busy = dict.fromkeys(NAMES, 0.0)
        self.held = dict.fromkeys(NAMES, 0.0)
        self.began_s = self._at_s

    def restart(self) -> None:
        """As a failure does."""
        self.restarts += 1
        self.life_s = self._at_s
        self._reset_counts()

    def run(self) -> None:
        """Do what is to be done by now."""
        until_s = self.clock.now()
        while self._at_s < until_s - 1e-9:
            step_s = min(STEP_S, until_s - self._at_s)
            self._at_s += step_s
            if self.rescale_s is not None and self._at_s >= self.rescale_s:
                self.rescale_s = None
                self.sizes = {vertex: min(size, self.slots) for vertex, size in self.wanted.items()}
                self.restart()
            self._step(step_s)

    def _step(self, step_s: float) -> None:
        self.pending += self.offered_per_s * step_s
        between = {SLOW: self.read[SOURCE] - self.read[SLOW], COUNT: self.read[SLOW] - self.read[COUNT]}
        room = ROOM + self.buffer - between[SLOW]
        self.is_stuck = room < (self.buffer if self.is_stuck else min(self.buffer, 10.0))
        rooms = {SOURCE: 0.0 if self.is_stuck else room, SLOW: ROOM - between[COUNT], COUNT: float("inf")}
        given = {SOURCE: self.pending, SLOW: between[SLOW], COUNT: between[COUNT]}
        for vertex in NAMES:
            able = self.sizes[vertex] * self.per_s[vertex] * step_s
            done = max(0.0, min(able, given[vertex], rooms[vertex]))
            self.read[vertex] += done
            available_s = self.sizes[vertex] * step_s
            busy_s = available_s * done / able
            self.busy[vertex] += busy_s
            if rooms[vertex] < min(able, given[vertex]):
                self.held[vertex] += available_s - busy_s
            if vertex == SOURCE:
                self.pending -= done
                self.reported_pending = self.reported_pending if self.is_stuck else self.pending

    # ------------------------------------------------------------------------------------------------------- answers

    def answer(self, method: str, path: str, body: Any) -> Any:
        self.run()
        if path == "/jobs/overview":
            return {"jobs": [{"jid": self.job, "name": self.name, "state": self.state, "start-time": 0}]}
        if path == "/taskmanagers":
            own = max(self.sizes.values())
            return {"taskmanagers": [{"id": "tm-1", "slotsNumber": self.slots, "freeSlots": self.slots - own}]}
        if not path.startswith(f"/jobs/{self.job}"):
            return None
        return self._of_job(method, path.removeprefix(f"/jobs/{self.job}"), body)

    def _of_job(self, method: str, rest: str, body: Any) -> Any:
        if rest == "":
            return self._details()
        if rest == "/resource-requirements":
            return self._required(method, body)
        if rest == "/metrics":
            return [{"id": "uptime", "value": str(round(1000 * (self.clock.now() - self.life_s)))}]
        if rest.endswith("/subtasks/metrics"):
            return [
                {"id": "Source__clicks.numRecordsOut", "sum": self.read[SOURCE]},
                {"id": "Source__clicks.pendingRecords", "sum": self.reported_pending},
                *({"id": PARTITION.format(number), "sum": 0.0} for number in range(self.partitions)),
            ]
        if rest == "/checkpoints":
            return {"latest": {"completed": {"id": 7, "end_to_end_duration": 120}, "savepoint": None}}
        if rest.endswith("/watermarks"):
            return [{"id": "0.currentInputWatermark", "value": str(round(1000 * (self.clock.now() - 3)))}]
        vertex = rest.removeprefix("/vertices/")
        return self._vertex(vertex) if vertex in NAMES else None

    def _required(self, method: str, body: Any) -> Any:
        if method == "PUT":
            wanted = {vertex: requirement["parallelism"]["upperBound"] for vertex, requirement in body.items()}
            if max(wanted.values()) > self.max_parallelism or set(wanted) != set(NAMES):
                return 400, {
                    "errors": ["x.RestHandlerException: The newly requested parallelism is too large.\n\tat …"]
                }
            self.wanted = wanted
            self.rescale_s = self.clock.now() + 1.0
            return {}
        return {vertex: {"parallelism": {"lowerBound": 1, "upperBound": size}} for vertex, size in self.wanted.items()}

    def _work(self, vertex: str, share: float = 1.0) -> dict[str, Any]:
        available_s = self.sizes[vertex] * (self._at_s - self.began_s)
        written = 0.0 if vertex == COUNT else self.read[vertex]
        return {
            "read-records": 0 if vertex == SOURCE else share * self.read[vertex],
            "read-records-complete": True,
            "write-records": share * written,
            "write-records-complete": True,
            "accumulated-busy-time": 1000 * share * self.busy[vertex],
            "accumulated-backpressured-time": 1000 * share * self.held[vertex],
            "accumulated-idle-time": 1000 * share * max(0.0, available_s - self.busy[vertex] - self.held[vertex]),
        }

    def _details(self) -> dict[str, Any]:
        now_ms, life_ms = round(1000 * self.clock.now()), round(1000 * self.life_s)
        inputs = {SLOW: [{"id": SOURCE, "ship_strategy": "REBALANCE"}], COUNT: [{"id": SLOW, "ship_strategy": "HASH"}]}
        return {
            "jid": self.job,
            "name": self.name,
            "state": self.state,
            "now": now_ms,
            "timestamps": {"RUNNING": life_ms, "CREATED": life_ms - 200},
            "vertices": [
                {
                    "id": vertex,
                    "name": name,
                    "maxParallelism": self.max_parallelism,
                    "parallelism": self.sizes[vertex],
                    "tasks": {self.task_state: self.sizes[vertex]},
                    "slotSharingGroupId": "shared",
                    "metrics": self._work(vertex),
                }
                # In another order than that of the plan, as Flink does.
                for vertex, name in reversed(NAMES.items())
            ],
            "plan": {"nodes": [{"id": vertex, "inputs": inputs.get(vertex, [])} for vertex in NAMES]},
        }

    def _vertex(self, vertex: str) -> dict[str, Any]:
        size = self.sizes[vertex]
        lasting_ms = {"RUNNING": round(1000 * (self.clock.now() - self.life_s))}
        subtasks = [
            {
                "subtask": number,
                "status": "RUNNING",
                "attempt": self.restarts,
                "metrics": self._work(vertex, 1 / size),
                "status-duration": lasting_ms,
            }
            for number in range(size)
        ]
        return {"id": vertex, "now": round(1000 * self.clock.now()), "subtasks": subtasks}


def played_by(job: SmallJob, stand_in: StandIn) -> str:
    """Have a stand-in play a job; gives the target of an engine."""
    stand_in.answered_by = job.answer
    return f"{stand_in.url}#{job.name}"


def without_sizes(job: SmallJob, release: str) -> Callable[[str, str, Any], Any]:
    """Answers of a job whose cluster, of a release that was recorded, cannot rescale it while it runs."""
    refusal = refusals()[release]

    def answer(method: str, path: str, body: Any) -> Any:
        if path.endswith("/resource-requirements"):
            return refusal
        return job.answer(method, path, body)

    return answer
