"""How true the readings of a real Kafka job are: lag, rate and latency next to those of an outside observer.

A job reads a topic of 8 partitions with a trigger of 2 s, waits with each record (``mapInPandas``) and writes another
topic. Its load rises tenfold in 40 s, past what it can do, so that batches grow long, and the autoscaler follows. The
observer knows from the broker when each record was in each topic (``tests/live/truth.py``).
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from benchmarks.common import Row, report

import headgate
from headgate.core.types import Observation
from headgate.engines.spark.sources import RATE_OVER_S
from headgate.local.connector import find_connector
from headgate.local.kafka import LocalKafka
from headgate.local.spark.cluster import LocalCluster
from tests.live.truth import Comparison, Load, Truth, compare, create_topics, start_job

LOAD_S = 90.0
COST_S = 0.006
EXECUTORS = (1, 4)
SHOWN_EVERY = 3
LONG_BATCH_S = 5.0


def rising(since_s: float) -> float:
    """50 records a second; ten times as much from 50 s on."""
    return 50.0 + 450.0 * max(0.0, min(1.0, (since_s - 10.0) / 40.0))


def watch() -> tuple[list[Observation], Truth]:
    seen: list[Observation] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(slots=EXECUTORS[1]) as cluster,
        LocalKafka() as kafka,
    ):
        spark = cluster.session("truth", executors=1, settings={"spark.jars": find_connector().spark_jars})
        create_topics(kafka.bootstrap, "in", "out")
        load = Load(kafka.bootstrap, "in", rising, LOAD_S).start()
        query = start_job(spark, kafka.bootstrap, "in", "out", Path(folder), COST_S)
        with headgate.autoscale(
            spark, objective="latency p95 < 8s", executors=EXECUTORS, interval=1.0, take_over=True
        ) as autoscaler:
            autoscaler.watch(lambda observation, _: seen.append(observation) if observation else None)
            while not load.is_over:
                time.sleep(0.5)
            query.processAllAvailable()
            time.sleep(2.0)
        query.stop()
        truth = Truth.of(kafka.bootstrap, "in", "out")
        spark.stop()
    return seen, truth


def off(read: float | None, true: float) -> float:
    """How far a reading is from the truth, in per cent of it; what is 0 in truth has no share."""
    return 100 * abs((read or 0.0) - true) / true if true else 0.0


def row(what: str, compared: Sequence[Comparison], name: str) -> Row:
    """How far the readings of one metric are off."""
    pairs = {
        "lag": [(comparison.sample.backlog, float(comparison.backlog)) for comparison in compared],
        "rate": [(comparison.sample.input_rate_per_s, comparison.rate_per_s) for comparison in compared],
        "latency": [(comparison.sample.latency_s, comparison.latency_s) for comparison in compared],
    }[name]
    shares = [off(read, true) for read, true in pairs]
    wrong = sum({"lag": "backlog"}.get(name, name) in comparison.wrong for comparison in compared)
    return {
        "readings": what,
        "metric": name,
        "count": len(compared),
        "off by, median %": float(np.median(shares)),
        "95 % are off by less than %": float(np.percentile(shares, 95)),
        "beyond 10 % and the allowance": wrong,
    }


def bench_truth() -> None:
    seen, truth = watch()
    compared = [comparison for observation in seen if (comparison := compare(observation, truth)) is not None]
    print(f"read (true), rates over {RATE_OVER_S:g} s; {len(truth.arrived_s)} records, ", end="")
    print(f"{truth.missing} missing, {truth.doubled} doubled")
    for number, comparison in enumerate(compared):
        if comparison.wrong or number % SHOWN_EVERY == 0:
            print(f"{comparison.sample.at_s - compared[0].sample.at_s:5.1f} s  {comparison}")
    inside = [comparison for comparison in compared if (comparison.sample.running_s or 0.0) > LONG_BATCH_S]
    groups = (("all", compared), (f"more than {LONG_BATCH_S:g} s into a batch", inside))
    report("truth", [row(what, some, name) for what, some in groups for name in ("lag", "rate", "latency")])


if __name__ == "__main__":
    bench_truth()
