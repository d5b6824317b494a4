"""Policies and fixed sizes on a Kafka job whose load rises tenfold within 40 s and falls: who is late, at what cost.

A job reads a topic of 8 partitions with a trigger of 2 s, waits with each record (``mapInPandas``) and writes another
topic. The times of records are read from the broker (``tests/live/truth.py``), the cost from the processes of this
machine. Contenders take turns, so that whatever else the machine does hits all alike.

    python -m benchmarks.kafka_load [RUNS]

makes the next so many runs, all that are missing where nothing is said, and reports all there are. A run takes over
three minutes, so this is no part of ``make bench``. What a run came to lies next to its journal in
``artifacts/benchmarks/kafka-load``; delete it to run anew.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import fmean

import numpy as np
from benchmarks.common import RESULTS, Row, report

import headgate
from headgate.core.types import Decision, Observation
from headgate.forecast.base import FloatArray
from headgate.lab.observed_run import Executors
from headgate.local.connector import find_connector
from headgate.local.kafka import LocalKafka
from headgate.local.spark.cluster import LocalCluster
from tests.live.truth import Load, Truth, create_topics, start_job

RUNS = RESULTS / "kafka-load"
MOST_EXECUTORS = 4
"""Eight partitions take five to seven executors as long as four: two rounds of tasks."""
COST_S = 0.006
BOUND_S = 10.0
OBJECTIVE = f"latency p95 < {BOUND_S:g}s"
INTERVAL_S = 2.0
LOW_PER_S, HIGH_PER_S = 40.0, 400.0
SETTLED_S = 20.0
"""From then on a job is scaled and judged: one that has just started has much to load first."""
RISES_S, HIGH_S, FALLS_S, LOW_S, ENDS_S = 70.0, 110.0, 140.0, 155.0, 180.0
"""When the load begins to rise, is at its top, begins to fall, is low again, and ends."""
DRAWN_S = 2.0


@dataclass(frozen=True)
class Contender:
    name: str
    policy: str
    settings: Mapping[str, object] = field(default_factory=dict)
    executors: tuple[int, int] = (1, MOST_EXECUTORS)
    runs: int = 3


def fixed(size: int) -> Contender:
    """A size that stays, which does the same each time: one run tells."""
    return Contender(f"{size} fixed", "static", {"instances": size}, (size, size), runs=1)


# How long a smaller size must have been enough is a tenth of what it is otherwise: the whole run lasts minutes.
CONTENDERS = (
    Contender("autopilot", "autopilot", {"scale_in_window_s": 30.0}),
    Contender("hpa", "hpa", {"scale_in_window_s": 30.0}),
    Contender("reactive", "reactive", {"idle_for_s": 15.0}),
    *map(fixed, (2, 4)),
)


def load_per_s(since_s: float) -> float:
    edges_s = [0.0, RISES_S, HIGH_S, FALLS_S, LOW_S, ENDS_S]
    return float(np.interp(since_s, edges_s, [LOW_PER_S, LOW_PER_S, HIGH_PER_S, HIGH_PER_S, LOW_PER_S, LOW_PER_S]))


@dataclass(frozen=True)
class Run:
    """What one run came to."""

    contender: str
    number: int
    records: int
    missing: int
    doubled: int
    late_share: float
    """Records that were in the sink later than the bound after they had come."""
    delay_p50_s: float
    delay_p95_s: float
    delay_p99_s: float
    executor_s: float
    """From ``SETTLED_S`` to when the last record was in the sink: processes there were, or that were requested."""
    changes: int
    most_executors: int
    sizes: Sequence[tuple[float, int]]
    """How many were paid for, from when on after the first record; the last is the end."""
    delays: Sequence[tuple[float, float]]
    """The longest delay of the records that came within ``DRAWN_S`` from a time on."""


class Changes:
    """A watcher that counts the decisions to have another size."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, observation: Observation | None, decision: Decision | None) -> None:
        self.count += decision is not None and not decision.is_hold


def run(contender: Contender, number: int, cluster: LocalCluster, kafka: LocalKafka) -> Run:
    """One run, in a session of its own with topics of its own."""
    topic = f"in-{contender.name.replace(' ', '-')}-{number}"
    sink = f"out-{topic}"
    create_topics(kafka.bootstrap, topic, sink)
    executors, changes = Executors(), Changes()
    settings = {"spark.jars": find_connector().spark_jars}
    spark = cluster.session("kafka load", executors=contender.executors[0], settings=settings)
    with ExitStack() as undone, tempfile.TemporaryDirectory() as folder:
        undone.callback(spark.stop)
        load = Load(kafka.bootstrap, topic, load_per_s, ENDS_S).start()
        query = start_job(spark, kafka.bootstrap, topic, sink, Path(folder), COST_S)
        undone.callback(query.stop)
        time.sleep(SETTLED_S)
        with headgate.autoscale(
            spark,
            OBJECTIVE,
            contender.policy,
            contender.executors,
            settings=contender.settings,
            interval=INTERVAL_S,
            journal=_path(contender, number).with_suffix(".db"),
            take_over=True,
        ) as autoscaler:
            autoscaler.watch(executors)
            autoscaler.watch(changes)
            while not load.is_over:
                time.sleep(1.0)
            query.processAllAvailable()
            time.sleep(2 * INTERVAL_S)
    return scored(contender.name, number, Truth.of(kafka.bootstrap, topic, sink), executors, changes)


def scored(contender: str, number: int, truth: Truth, executors: Executors, changes: Changes) -> Run:
    began_s = float(truth.arrived_s.min())
    arrived_s = truth.arrived_s - began_s
    delay_s = truth.done_s - truth.arrived_s
    judged_s = delay_s[arrived_s >= SETTLED_S]
    p50_s, p95_s, p99_s = np.percentile(judged_s, (50, 95, 99))
    to_s = float(truth.done_s[np.isfinite(truth.done_s)].max()) - began_s
    sizes = list(_paid(executors, began_s, to_s))
    return Run(
        contender=contender,
        number=number,
        records=len(delay_s),
        missing=truth.missing,
        doubled=truth.doubled,
        late_share=float((judged_s > BOUND_S).mean()),
        delay_p50_s=float(p50_s),
        delay_p95_s=float(p95_s),
        delay_p99_s=float(p99_s),
        executor_s=sum(size * (until_s - from_s) for (from_s, size), (until_s, _) in pairwise([*sizes, (to_s, 0)])),
        changes=changes.count,
        most_executors=max(size for _, size in sizes),
        sizes=[(round(at_s, 1), size) for at_s, size in [*sizes, (to_s, sizes[-1][1])]],
        delays=list(_longest(arrived_s, delay_s)),
    )


def _longest(arrived_s: FloatArray, delay_s: FloatArray) -> Iterator[tuple[float, float]]:
    """The longest delay of what came in each short time."""
    place = (arrived_s / DRAWN_S).astype(np.int64)
    for index in range(int(place.max()) + 1):
        if (place == index).any():
            yield DRAWN_S * index, round(float(delay_s[place == index].max()), 2)


def _paid(executors: Executors, began_s: float, to_s: float) -> Iterator[tuple[float, int]]:
    """From when on how many executors were paid for, where that changes."""
    before = 0
    for at_s, _, _, paid in executors.seen:
        if paid != before and at_s - began_s < to_s:
            yield (at_s - began_s if before else SETTLED_S), paid
            before = paid


def _path(contender: Contender, number: int) -> Path:
    return RUNS / f"{contender.name.replace(' ', '-')}-{number}.json"


def missing_runs() -> list[tuple[Contender, int]]:
    """The runs still to be made: those that are made several times take turns, those that are made once come last."""
    planned = [(contender, number) for contender in CONTENDERS for number in range(1, 1 + contender.runs)]
    in_turns = sorted(planned, key=lambda each: (each[0].runs == 1, each[1]))
    return [(contender, number) for contender, number in in_turns if not _path(contender, number).exists()]


def made_runs() -> list[Run]:
    paths = (_path(contender, number) for contender in CONTENDERS for number in range(1, 1 + contender.runs))
    return [Run(**json.loads(path.read_text(encoding="utf-8"))) for path in paths if path.exists()]


def row(contender: str, runs: Sequence[Run]) -> Row:
    """What all runs of a contender came to, on average."""
    late = [100 * run.late_share for run in runs]
    return {
        "contender": contender,
        "runs": len(runs),
        "late %": fmean(late),
        "in each run": ", ".join(f"{share:.2f}" for share in late),
        "delay p50 s": fmean(run.delay_p50_s for run in runs),
        "p95 s": fmean(run.delay_p95_s for run in runs),
        "p99 s": fmean(run.delay_p99_s for run in runs),
        "executor-seconds": round(fmean(run.executor_s for run in runs)),
        "changes": fmean(run.changes for run in runs),
        "most executors": max(run.most_executors for run in runs),
        "lost or doubled": sum(run.missing + run.doubled for run in runs),
    }


def compare(most: int | None = None) -> None:
    """Make the next runs, and report all there are."""
    RUNS.mkdir(parents=True, exist_ok=True)
    due = missing_runs()[:most]
    if due:
        with LocalCluster(slots=MOST_EXECUTORS) as cluster, LocalKafka() as kafka:
            for contender, number in due:
                _path(contender, number).with_suffix(".db").unlink(missing_ok=True)
                found = run(contender, number, cluster, kafka)
                _path(contender, number).write_text(json.dumps(asdict(found), indent=2) + "\n", encoding="utf-8")
                print(f"{contender.name}, run {number}: {100 * found.late_share:.2f} % late, {found.executor_s:.0f} s")
    made = made_runs()
    by_name = {contender.name: [run for run in made if run.contender == contender.name] for contender in CONTENDERS}
    rows = [row(name, runs) for name, runs in by_name.items() if runs]
    load = [(at_s, load_per_s(at_s)) for at_s in np.arange(0.0, ENDS_S + DRAWN_S, DRAWN_S).tolist()]
    report("kafka-load", rows, bound_s=BOUND_S, load=load, runs=[asdict(run) for run in made])


if __name__ == "__main__":
    compare(int(sys.argv[1]) if len(sys.argv) > 1 else None)
