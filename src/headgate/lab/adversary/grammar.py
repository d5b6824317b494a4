"""The loads and jobs that an adversary tries: choices and numbers, and the experiment file that they make.

A load is a base and an extra, with or without noise, written as ``headgate simulate`` takes it. A job is a queue or has
micro-batches, with its start-up, its pauses, its scaling and the swing of the work per record. Levels are given in
instances: the load that so many of them could just process.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ruamel.yaml import YAML

from headgate.core.objective import Objective
from headgate.core.types import JSON
from headgate.lab.experiments.document import VERSION

Value: TypeAlias = str | float | int
Genes: TypeAlias = Mapping[str, Value]
"""The choices and numbers of a case, by name; only those that have an effect."""

RATE_PER_S = 50
"""Records per second that an instance processes."""
MOST_BUSY = 0.8
"""The share of all allowed instances that the highest load needs at most."""
_DIGITS = 2


@dataclass(frozen=True, slots=True)
class Gene:
    """A choice, or a number between ``low`` and ``high``, which is ``simplest`` where it does not matter."""

    name: str
    simplest: Value
    choices: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 0.0
    is_log: bool = False
    needs: tuple[str, tuple[Value, ...]] | None = None
    """Another gene and those of its values with which this one has an effect."""

    def is_active(self, genes: Genes) -> bool:
        return self.needs is None or genes.get(self.needs[0]) in self.needs[1]

    def suggest(self, trial: Any) -> Value:
        """Return the value that a trial of Optuna draws."""
        if self.choices:
            return str(trial.suggest_categorical(self.name, self.choices))
        return rounded(trial.suggest_float(self.name, self.low, self.high, log=self.is_log))

    def simpler(self, value: Value) -> Iterator[Value]:
        """Yield simpler values, the simplest first."""
        if value == self.simplest:
            return
        yield self.simplest
        if not self.choices:
            halfway = rounded((float(value) + float(self.simplest)) / 2)
            if halfway not in (value, self.simplest):
                yield halfway


def rounded(number: float) -> float:
    """Return a number with two digits, as people would write it."""
    return float(f"{number:.{_DIGITS}g}")


BATCHES = ("micro-batch",)
_WAVES = ("sine", "pulses")


def genes_for(objective: Objective, most_minutes: float) -> tuple[Gene, ...]:
    """Return the genes of cases under an objective, in the order in which they are drawn."""
    most = MOST_BUSY * objective.max_instances
    span_s = 60 * most_minutes
    return (
        Gene("minutes", 20.0, low=20.0, high=max(21.0, most_minutes), is_log=True),
        Gene("base", "flat", ("flat", "step", "sine", "pulses", "ramp", "hill", "flush", "onoff", "tails")),
        Gene("low", 1.0, low=0.1, high=most / 2, is_log=True),
        Gene("high", 4.0, low=0.5, high=most, is_log=True, needs=("base", ("step", "ramp", "hill", *_WAVES, *CLOCKS))),
        Gene("from_share", 0.5, low=0.05, high=0.9, needs=("base", ("step", "hill"))),
        Gene("period_s", 600.0, low=60.0, high=span_s / 2, is_log=True, needs=("base", _WAVES)),
        Gene("on_share", 0.5, low=0.02, high=0.9, needs=("base", ("pulses",))),
        Gene("extra", "none", ("none", "spike", "pulses")),
        Gene("extra_high", 2.0, low=0.5, high=most / 2, is_log=True, needs=("extra", ("spike", "pulses"))),
        Gene("extra_from_share", 0.5, low=0.05, high=0.9, needs=("extra", ("spike",))),
        Gene("extra_s", 300.0, low=10.0, high=span_s / 4, is_log=True, needs=("extra", ("spike", "pulses"))),
        Gene("extra_every_s", 1200.0, low=60.0, high=span_s / 2, is_log=True, needs=("extra", ("pulses",))),
        Gene("noise", 0.0, low=0.0, high=0.4),
        Gene("startup_s", 0.0, low=0.0, high=180.0),
        Gene("drain_s", 0.0, low=0.0, high=60.0),
        Gene("start", "fewest", ("fewest", "enough", "most")),
        Gene("job", "queue", ("queue", *BATCHES)),
        Gene("readings", "kafka", ("kafka", "spark"), needs=("job", BATCHES)),
        Gene("trigger_s", 2.0, low=0.5, high=5.0, needs=("job", BATCHES)),
        Gene("overhead_s", 0.25, low=0.05, high=1.5, needs=("job", BATCHES)),
        Gene("batch_noise", 0.0, low=0.0, high=0.3, needs=("job", BATCHES)),
        Gene("cold_factor", 1.0, low=1.0, high=3.0, needs=("job", BATCHES)),
        Gene("pause_s", 0.0, low=0.0, high=60.0, needs=("job", BATCHES)),
        Gene("skew", 0.0, low=0.0, high=0.1, needs=("job", BATCHES)),
        Gene("scaling", "linear", ("linear", "saturating", "retrograde", "superlinear"), needs=("job", BATCHES)),
        Gene("swing", 0.0, low=0.0, high=0.8, needs=("job", BATCHES)),
        Gene("swing_s", 3600.0, low=300.0, high=span_s, is_log=True, needs=("job", BATCHES)),
    )


CLOCKS = ("flush", "onoff", "tails")
PROBES: tuple[Genes, ...] = (
    {"base": "flat", "low": 0.5, "extra": "none", "start": "most", "startup_s": 30.0, "noise": 0.0, "job": "queue"},
    {"base": "step", "low": 1.0, "high": 8.0, "from_share": 0.3, "extra": "none", "startup_s": 30.0, "job": "queue"},
    {"base": "flat", "low": 1.0, "extra": "spike", "extra_high": 6.0, "extra_s": 300.0, "startup_s": 30.0},
    {"base": "pulses", "low": 1.0, "high": 6.0, "period_s": 600.0, "on_share": 0.2, "extra": "none", "job": "queue"},
    {"base": "sine", "low": 1.0, "high": 8.0, "period_s": 1800.0, "extra": "none", "job": "micro-batch"},
    {"base": "flat", "low": 4.0, "extra": "none", "job": "micro-batch", "swing": 0.6, "swing_s": 1800.0},
    {
        "base": "ramp",
        "low": 1.0,
        "high": 10.0,
        "extra": "none",
        "startup_s": 90.0,
        "job": "micro-batch",
        "pause_s": 20.0,
    },
    {"base": "tails", "low": 1.0, "high": 8.0, "extra": "none", "startup_s": 60.0, "job": "micro-batch"},
)
"""What is tried first: the ways in which policies commonly fail."""


def drawn(genes: Sequence[Gene], trial: Any) -> dict[str, Value]:
    """Return the genes that a trial of Optuna draws."""
    found: dict[str, Value] = {}
    for gene in genes:
        if gene.is_active(found):
            found[gene.name] = gene.suggest(trial)
    return found


def completed(genes: Sequence[Gene], known: Genes) -> dict[str, Value]:
    """Return the active genes, with the simplest value where none is known."""
    found: dict[str, Value] = {}
    for gene in genes:
        if gene.is_active(found):
            found[gene.name] = known.get(gene.name, gene.simplest)
    return found


def complexity(genes: Sequence[Gene], known: Genes) -> tuple[int, float]:
    """Return how many genes are not at their simplest value, and the minutes: the smallest case is the smallest."""
    return sum(known.get(gene.name, gene.simplest) != gene.simplest for gene in genes), float(known["minutes"])


@dataclass(frozen=True)
class AttackedPolicy:
    """The policy that is attacked."""

    policy: str
    objective: Objective
    settings: Mapping[str, str] = field(default_factory=dict)
    seed: int = 0
    interval_s: float = 5.0
    most_minutes: float = 60.0

    @property
    def genes(self) -> tuple[Gene, ...]:
        return genes_for(self.objective, self.most_minutes)


def load_text(genes: Genes, seed: int) -> str:
    """Return the load of a case as ``parse_workload`` takes it."""
    seconds = 60 * float(genes["minutes"])
    low = RATE_PER_S * float(genes["low"])
    high = max(low, RATE_PER_S * float(genes.get("high", 0.0)))
    share = float(genes.get("from_share", 0.5))
    period_s = float(genes.get("period_s", 600.0))
    on_s = max(1.0, rounded(period_s * float(genes.get("on_share", 0.5))))
    base = genes["base"]
    if base in CLOCKS:
        parts = [f"clock:{base},peak={high:g},lasting={seconds:g}s,seed={seed}"]
    else:
        parts = [
            {
                "flat": f"constant:{low:g}",
                "step": f"spike:base={low:g},peak={high:g},at={seconds * share:g}s,width={seconds:g}s",
                "sine": f"sine:mean={(low + high) / 2:g},amplitude={(high - low) / 2:g},period={period_s:g}s",
                "pulses": f"periodic:base={low:g},peak={high:g},high={on_s:g}s,low={max(1.0, period_s - on_s):g}s",
                "ramp": f"ramp:from={low:g},to={high:g},over={seconds:g}s",
                "hill": f"gaussian:base={low:g},peak={high:g},center={seconds * share:g}s,sigma={seconds / 10:g}s",
            }[str(base)]
        ]
    if genes["extra"] != "none":
        extra, extra_s = RATE_PER_S * float(genes["extra_high"]), float(genes["extra_s"])
        if genes["extra"] == "spike":
            at_s = seconds * float(genes["extra_from_share"])
            parts.append(f"spike:base=0,peak={extra:g},at={at_s:g}s,width={extra_s:g}s")
        else:
            rest_s = max(1.0, float(genes["extra_every_s"]) - extra_s)
            parts.append(f"periodic:base=0,peak={extra:g},high={extra_s:g}s,low={rest_s:g}s")
    text = " + ".join(parts)
    noise = float(genes["noise"])
    return f"{text} | noise {100 * noise:g}% every 30s seed {seed}" if noise else text


def _job(genes: Genes, most: int) -> dict[str, JSON]:
    job: dict[str, JSON] = {"name": "job", "startup": f"{genes['startup_s']:g}s", "drain": f"{genes['drain_s']:g}s"}
    if genes["job"] == "queue":
        return {**job, "rate": RATE_PER_S}
    batches: dict[str, JSON] = {
        "trigger_interval_s": genes["trigger_s"],
        "overhead_s": genes["overhead_s"],
        "noise": genes["batch_noise"],
        "cold_factor": genes["cold_factor"],
        "rescale_pause_s": genes["pause_s"],
        "skew": genes["skew"],
    }
    if genes["scaling"] != "linear":
        sizes = sorted({1, 2, 3, 5, 8, 12, 20, 30, most})
        batches["speed_up"] = [[size, rounded(_SCALING[str(genes["scaling"])](size))] for size in sizes if size <= most]
    if genes["swing"]:
        batches["work_factor"] = _swing(float(genes["swing"]), float(genes["swing_s"]), 60 * float(genes["minutes"]))
    return {**job, "model": "micro-batch", "rate": RATE_PER_S, "readings": genes["readings"], "batches": batches}


_SCALING = {
    "saturating": lambda size: size / (1 + 0.04 * (size - 1)),
    "retrograde": lambda size: size / (1 + 0.004 * size * (size - 1)),
    "superlinear": lambda size: size**1.1,
}
_POINTS = 8
"""Points of a period of the swing."""


def _swing(depth: float, period_s: float, seconds: float) -> list[list[float]]:
    """Return the weight of records over time as points, 1 on average."""
    count = math.ceil(seconds / period_s * _POINTS) + 1
    return [
        [round(period_s * place / _POINTS), rounded(1 + depth * math.sin(2 * math.pi * place / _POINTS))]
        for place in range(count)
    ]


def start_of(genes: Genes, objective: Objective) -> int:
    """Return the instances at the start of a case."""
    enough = math.ceil(1.5 * float(genes["low"]))
    wanted = {"fewest": objective.min_instances, "enough": enough, "most": objective.max_instances}
    return max(objective.min_instances, min(objective.max_instances, wanted[str(genes["start"])]))


def scenario_text(genes: Genes, target: AttackedPolicy, *, name: str = "case", comments: Sequence[str] = ()) -> str:
    """Return a case as an experiment file, after comments."""
    objective = target.objective
    goal = str(objective.slo)
    policy: dict[str, JSON] = {"policy": target.policy, "start": start_of(genes, objective)}
    if target.settings:
        policy["settings"] = dict(target.settings)
    document = {
        "version": VERSION,
        "name": name,
        "seconds": f"{60 * float(genes['minutes']):g}s",
        "workloads": [{"name": "load", "workload": load_text(genes, target.seed)}],
        "objectives": [{"objective": goal, "min": objective.min_instances, "max": objective.max_instances}],
        "jobs": [_job(genes, objective.max_instances)],
        "policies": [policy],
        "repeats": [target.seed],
        "interval": f"{target.interval_s:g}s",
    }
    writer = YAML()
    writer.default_flow_style = None
    writer.width = 110
    out = io.StringIO()
    writer.dump(document, out)
    return "".join(f"# {comment}\n" for comment in comments) + out.getvalue()
