"""What every application sustains at most on 1, 2 and 4 executors of this machine: ``headgate mst --all``, with options
that keep it to about half an hour.

    python -m benchmarks.mst_applications [APP …]

measures those that are named anew, or else all that are missing, and reports all there are. Ctrl-C keeps what is
measured, and the same command goes on. It is no part of ``make bench``. Model files lie in
``artifacts/benchmarks/mst``; ``python scripts/make_docs.py --benchmarks mst mst-machine`` takes them over.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import typer
from benchmarks.common import RESULTS, Row, report

from headgate.cli.mst import mst
from headgate.core.errors import HeadgateError
from headgate.core.types import JSON
from headgate.lab.mst import measurable
from headgate.local.machine import java

MODELS = RESULTS / "mst"
SIZES = (1, 2, 4)
measure_mst = partial(
    mst,
    executors=",".join(str(size) for size in SIZES),
    partitions=4,  # A multiple of every size, so that no executor is idle while others do a last task.
    batch="1.5s",  # Less than usual, to save time; what is fixed in a batch weighs a little more for it.
    timeout="45s",
)


def measure(apps: Sequence[str], folder: Path = MODELS) -> int:
    """Measure, report all there is, and give the exit code."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        for app in apps:
            measure_mst(app, save=folder / f"{app}.json")
        if not apps:
            measure_mst(every=True, save=folder)
        code = 0
    except typer.Exit as ended:
        code = ended.exit_code
    except HeadgateError as error:
        print(error, file=sys.stderr)
        code = 1
    files = [file for name in measurable() if (file := folder / f"{name}.json").exists()]
    models = {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in files}
    if models:
        report("mst", [row(name, model) for name, model in models.items()], curves=curves(models))
        report("mst-machine", machine(list(models.values())))
    return code


def row(name: str, model: dict[str, JSON]) -> Row:
    """What was measured of one application, and how much more several executors sustain."""
    per_s = {measurement["executors"]: measurement["throughput_per_s"] for measurement in model["measurements"]}
    settled = {measurement["executors"]: measurement["settled"] for measurement in model["measurements"]}
    found: dict[str, str | float | int] = {"application": name}
    for size in SIZES:
        shown = "too few batches" if per_s[size] is None else f"{per_s[size]:,.0f}"
        found[f"{size} executors, records/s"] = shown if settled[size] else f"about {shown}"
    for size in SIZES[1:]:
        both = per_s[1] is not None and per_s[size] is not None
        found[f"{size} over 1"] = round(per_s[size] / per_s[1], 2) if both else ""
    found["batches"] = ", ".join(str(len(measurement["readings_per_s"])) for measurement in model["measurements"])
    found["model"] = model["selected"]
    predicted = {point["executors"]: point["throughput_per_s"] for point in model["curve"]}
    known = [size for size in SIZES if per_s[size] is not None]
    found["model over measured"] = ", ".join(f"{predicted[size] / per_s[size]:.2f}" for size in known)
    found["measure next"] = "" if model["next_executors"] is None else model["next_executors"]
    return found


def curves(models: dict[str, dict[str, JSON]]) -> dict[str, JSON]:
    """By application: the chosen model, and the batches that agreed."""
    return {
        name: {
            "curve": [[point["executors"], point["throughput_per_s"]] for point in model["curve"]],
            "measured": [
                [measurement["executors"], value]
                for measurement in model["measurements"]
                for value in measurement["agreeing_per_s"]
            ],
        }
        for name, model in models.items()
    }


def machine(models: Sequence[dict[str, JSON]]) -> list[Row]:
    """What was measured on, without what would tell which machine it was."""
    name = _value_in(Path("/proc/cpuinfo"), "model name")
    memory_kb = int(_value_in(Path("/proc/meminfo"), "MemTotal").split()[0])
    # A kernel's version is the first of its parts; what a vendor adds to it says more than needs to be known.
    kernel = f"{platform.system()} {platform.release().split('-')[0]}"
    completed = subprocess.run([java(needed_by="Spark"), "--version"], capture_output=True, text=True, check=True)
    facts = {
        "processors": f"{os.cpu_count()} × {name} ({platform.machine()})",
        "memory": f"{memory_kb / 2**20:.1f} GiB",
        "kernel": kernel,
        "Java": " ".join(completed.stdout.splitlines()[0].split()[:2]),
        "Spark": ", ".join(sorted({str(model["spark"]) for model in models})),
        "Python": platform.python_version(),
        "Headgate": ", ".join(sorted({str(model["headgate"]) for model in models})),
        "tasks per batch": ", ".join(sorted({str(model["app"]["partitions"]) for model in models})),
        "a batch lasts about": ", ".join(sorted({f"{model['app']['batch_s']:g} s" for model in models})),
    }
    return [{"what": what, "measured with": value} for what, value in facts.items()]


def _value_in(file: Path, key: str) -> str:
    """The value of the first line with a key."""
    lines = (line.partition(":") for line in file.read_text(encoding="utf-8").splitlines())
    return next((value.strip() for name, _, value in lines if name.strip() == key), "unknown")


if __name__ == "__main__":
    sys.exit(measure(sys.argv[1:]))
