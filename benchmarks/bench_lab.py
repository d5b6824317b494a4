"""How fast the lab gets through an experiment: the same one on one and two threads and on local clusters.

Every arrangement runs in a process of its own, as users start it, into a fresh folder; all must give the same rows. The
time is that of the runs alone: before it begins, Spark is up and each of its Python workers has carried out a case.
Plain processes without Spark do the same: what two of them gain over one is what this machine allows at most.
A second table tells how much of a short run is the simulation itself.

    python -m benchmarks.bench_lab [--quick] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

from benchmarks.common import Row, best_s, reference_s, report

from headgate.lab.experiments import run_case
from headgate.lab.experiments.document import read_experiment
from headgate.lab.experiments.results import packed, read_parts, run_cases, work_in
from headgate.local.spark.cluster import LocalCluster
from headgate.runtime.simulate import SimulationResult, simulate

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

EXPERIMENT = """\
version: 1
name: lab-speed
workloads:
  - {{name: wave, workload: "sine:mean=50,amplitude=30,period=10m | noise 10%"}}
  - {{name: burst, workload: "constant:20 + spike:base=0,peak=60,at=3m,width=2m | noise 10%"}}
jobs:
  - {{name: queue, rate: 10, startup: 5s, startup_spread: 0.3}}
  - name: micro-batch
    model: micro-batch
    rate: 12
    startup: 15s
    batches: {{trigger_interval_s: 2s, noise: 0.1}}
policies: [autopilot, hpa, threshold, reactive, {{name: 8 fixed, policy: static, start: 8}}]
objectives: [{{objective: latency p95 < 10s, min: 1, max: 12, price: 0.25}}]
repeats: {repeats}
seconds: {minutes}m
"""
SHORT = """\
version: 1
name: lab-overhead
workloads: [{workload}]
jobs: [{{rate: 10, startup: 5s, startup_spread: 0.3}}]
policies: [{policy}]
objectives: [{{objective: latency p95 < 10s, min: 1, max: 12}}]
repeats: {runs}
seconds: {minutes}m
"""
SHORT_RUNS = (("constant:15", "static", 2), ("constant:15 | noise 20%", "static", 2), ("constant:15", "static", 20))
"""Load, policy and simulated minutes of runs that cost next to nothing."""
GOAL = 1.8
"""Times as fast on two cores as on one."""
WARM_WITHIN_S = 180.0
FEW = 4
"""Cases that a plain process takes at a time."""


@dataclass(frozen=True)
class Arrangement:
    """Where the runs are carried out."""

    where: str
    cores: int

    @property
    def is_cluster(self) -> bool:
        return self.where == "cluster"

    @property
    def is_plain(self) -> bool:
        """Whether there is no Spark."""
        return self.where == "processes"


ARRANGEMENTS = (
    Arrangement("processes", 1),
    Arrangement("processes", 2),
    Arrangement("threads", 1),
    Arrangement("threads", 2),
    Arrangement("cluster", 1),
    Arrangement("cluster", 2),
    Arrangement("cluster", 4),
)


@dataclass(frozen=True)
class Measured:
    arrangement: Arrangement
    start_s: float
    """Until Spark was up and every worker warm."""
    seconds: float
    rows: pa.Table


def bench_lab(*, is_quick: bool = False, json_file: Path | None = None) -> None:
    """Runs per second of every arrangement, and how many times as fast as on one core of its kind that is."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "lab-speed.yaml")
        sized = EXPERIMENT.format(repeats=1, minutes=5) if is_quick else EXPERIMENT.format(repeats=40, minutes=15)
        file.write_text(sized, encoding="utf-8")
        found = [measured(file, arrangement) for arrangement in ARRANGEMENTS]
    rows = table(found)
    speed_up = {row["where"]: row["times_one_core"] for row in rows if row["cores"] == 2}
    report("lab-speed-quick" if is_quick else "lab-speed", rows, to=json_file, speed_up=speed_up, goal=GOAL)
    for where, times in speed_up.items():
        print(f"two cores are {times:.2f} times as fast as one ({where}; the goal is {GOAL})")
    assert not any(row["rows_that_differ"] for row in rows), "the same experiment gave other rows elsewhere"


def measured(file: Path, arrangement: Arrangement) -> Measured:
    """Have a process of its own carry out the experiment, and read what it left."""
    cores = arrangement.cores
    out = file.parent / f"{arrangement.where}-{cores}"
    with ExitStack() as stack:
        master, environment = "" if arrangement.is_plain else f"local[{cores}]", dict(os.environ)
        if arrangement.is_cluster:
            master = stack.enter_context(LocalCluster(slots=cores)).master_url
            # As many executors as cores, and not one with all of them.
            environment["PYSPARK_SUBMIT_ARGS"] = (
                "--conf spark.executor.cores=1 --conf spark.executor.memory=512m pyspark-shell"
            )
        command = [sys.executable, "-m", "benchmarks.bench_lab", "--child", str(file), str(out), master, str(cores)]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    times = json.loads(done.stdout.splitlines()[-1])
    print(
        f"{arrangement.where}, {cores}: {times['seconds']:.1f} s after a start of {times['start_s']:.1f} s", flush=True
    )
    return Measured(arrangement, times["start_s"], times["seconds"], read_parts(out / "runs"))


def child(file: Path, out: Path, master: str, cores: int) -> None:
    """Carry out an experiment and print how long that took; without a master, in plain processes."""
    runs, scratch = out / "runs", out / "scratch"
    runs.mkdir(parents=True)
    scratch.mkdir()
    texts = [packed(place, case) for place, case in enumerate(read_experiment(file).cases())]
    start_s, seconds = (on_spark if master else in_processes)(texts, file.parent, out, master, cores)
    print(json.dumps({"start_s": start_s, "seconds": seconds}))


def on_spark(texts: Sequence[str], home: Path, out: Path, master: str, cores: int) -> tuple[float, float]:
    """How long Spark takes to start, and then for all cases."""
    from headgate.engines.spark.spread import batch_session, spread

    began_s = time.perf_counter()
    with batch_session(master, "headgate lab benchmark", out / "spark.log") as session:
        warm_up(session, texts[0], out / "scratch", cores)
        start_s = time.perf_counter()
        spread(session, texts, work_in(home, out / "runs"), watch=lambda: None)
        return start_s - began_s, time.perf_counter() - start_s


def in_processes(texts: Sequence[str], home: Path, out: Path, master: str, cores: int) -> tuple[float, float]:
    """The same for as many plain processes as cores: a few cases at a time to whichever has none."""
    began_s = time.perf_counter()
    with ProcessPoolExecutor(cores) as pool:
        scratch = out / "scratch"
        while len(list(scratch.glob("worker-*"))) < cores:
            list(pool.map(partial(_warm, scratch=str(scratch)), 4 * cores * [texts[:1]]))
        start_s = time.perf_counter()
        few = [texts[first : first + FEW] for first in range(0, len(texts), FEW)]
        list(pool.map(work_in(home, out / "runs"), few))
        return start_s - began_s, time.perf_counter() - start_s


def warm_up(session: SparkSession, text: str, scratch: Path, cores: int) -> None:
    """Give out cases until as many workers as there are to be have done one: executors come one after the other."""
    from headgate.engines.spark.spread import spread

    until_s = time.monotonic() + WARM_WITHIN_S
    while len(list(scratch.glob("worker-*"))) < cores:
        assert time.monotonic() < until_s, f"not all of {cores} workers came"
        spread(session, 4 * cores * [text], partial(_warm, scratch=str(scratch)), watch=lambda: None, tasks=4 * cores)


def _warm(texts: Iterable[str], scratch: str) -> int:
    Path(scratch, f"worker-{os.getpid()}").touch()
    return run_cases(texts, scratch, scratch)


def table(found: Sequence[Measured]) -> list[Row]:
    """A row for each arrangement; rows of runs are compared with those of the first, every column, to the last bit."""
    alone_s = {run.arrangement.where: run.seconds for run in found if run.arrangement.cores == 1}
    return [
        {
            "where": run.arrangement.where,
            "cores": run.arrangement.cores,
            "runs": run.rows.num_rows,
            "seconds": run.seconds,
            "runs_per_s": run.rows.num_rows / run.seconds,
            "times_one_core": alone_s[run.arrangement.where] / run.seconds,
            "start_s": run.start_s,
            "rows_that_differ": differing(found[0].rows, run.rows),
        }
        for run in found
    ]


def differing(table: pa.Table, other: pa.Table) -> int:
    """How many rows of two tables are not the same, or only in one of them."""
    first, second = table.to_pylist(), other.to_pylist()
    shorter = min(len(first), len(second))
    return max(len(first), len(second)) - sum(first[place] == second[place] for place in range(shorter))


def bench_overhead(*, is_quick: bool = False) -> None:
    """Milliseconds of a short run in an experiment, and how much of that is the simulation itself."""
    yardstick_s = reference_s()
    rows: list[Row] = []
    for workload, policy, minutes in SHORT_RUNS:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "short.yaml")
            sized = {"runs": 10 if is_quick else 500, "minutes": minutes}
            file.write_text(SHORT.format(workload=json.dumps(workload), policy=policy, **sized), encoding="utf-8")
            texts = [packed(place, case) for place, case in enumerate(read_experiment(file).cases())]
            spent = Spent()
            with patch.object(run_case, "simulate", spent):
                run_cases(texts[:1], folder, folder)  # What is imported once does not count.
                spent.seconds = 0.0
                whole_s = best_s(lambda: run_cases(texts, folder, folder), repeats=1)  # noqa: B023 - called here
        rows.append(
            {
                "workload": workload,
                "policy": policy,
                "simulated_minutes": minutes,
                "ms_per_run": 1000 * whole_s / len(texts),
                "simulation_pct": 100 * spent.seconds / whole_s,
                "thousandths_of_reference_loop": 1000 * whole_s / len(texts) / yardstick_s,
            }
        )
    report("lab-overhead-quick" if is_quick else "lab-overhead", rows)


class Spent:
    """Simulates, and adds up the CPU time that it takes."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self, *arguments: object, **named: object) -> SimulationResult:
        began_s = time.process_time()
        try:
            return simulate(*arguments, **named)  # type: ignore[arg-type]
        finally:
            self.seconds += time.process_time() - began_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a small one, to see that it works")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results to this file, too")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        file, out, master, cores = given.child
        child(Path(file), Path(out), master, int(cores))
        return
    bench_overhead(is_quick=given.quick)
    bench_lab(is_quick=given.quick, json_file=given.json)


if __name__ == "__main__":
    main()
