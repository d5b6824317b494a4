"""The keys of an experiment file: what each is for and what may stand there. Reader and schema are made of these."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

from headgate.rules.keys import DURATION, Key
from headgate.simulation.micro_batch import MicroBatch

VERSION = 1
MODELS = ("queue", "micro-batch")
_NAME = {"type": "string", "minLength": 1, "maxLength": 60}
_COUNT = {"type": "integer", "minimum": 1}
_SEED = {"type": "integer", "minimum": 0}
_POSITIVE = {"type": "number", "exclusiveMinimum": 0}
_NOT_NEGATIVE = {"type": "number", "minimum": 0}
_SCALARS = {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}
_PAIRS = {"type": "array", "items": {"type": "array", "minItems": 2, "maxItems": 2, "items": {"type": "number"}}}


def _list_of(part: str) -> dict[str, Any]:
    """A list of parts, each in full or, where that says it all, as a text."""
    return {"type": "array", "minItems": 1, "items": {"oneOf": [{"type": "string"}, {"$ref": f"#/$defs/{part}"}]}}


FILE_KEYS = {
    "version": Key("The version of this format.", {"const": VERSION}, required=True),
    "name": Key("What the experiment is called; the file's name where not given.", _NAME),
    "workloads": Key("What arrives: a list of workloads.", _list_of("workload"), required=True),
    "jobs": Key(
        "How fast the job is: a list of service models.",
        {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/job"}},
        required=True,
    ),
    "policies": Key("Who decides: a list of policies.", _list_of("policy"), required=True),
    "objectives": Key("What is asked: a list of objectives.", _list_of("objective"), required=True),
    "repeats": Key(
        "How often each case is run, such as 5; or the seeds, as [0, 7, 8]. Once where not given.",
        {"oneOf": [_COUNT, {"type": "array", "minItems": 1, "uniqueItems": True, "items": _SEED}]},
    ),
    "interval": Key("Time between two decisions, such as 5s, which it is where not given.", DURATION),
    "seconds": Key("How long a run is, such as 2h; needed where a workload has no end.", DURATION),
}
WORKLOAD_KEYS = {
    "workload": Key(
        "What arrives, as headgate simulate has it, such as constant:20 or csv:load.csv * 3.",
        {"type": "string"},
        required=True,
    ),
    "name": Key("What tables call it; its text where not given.", _NAME),
    "seconds": Key("How long a run with it is, such as 2h.", DURATION),
    "scale": Key("How many times as much comes.", _POSITIVE),
    "jobs": Key(
        "The names of the jobs it is run with; all of them where not given.",
        {"type": "array", "minItems": 1, "uniqueItems": True, "items": _NAME},
    ),
}
JOB_KEYS = {
    "name": Key("What tables call it.", _NAME),
    "rate": Key("Records per second that one instance processes.", _POSITIVE),
    "model_file": Key("A model file of headgate mst, which says the rate and how several add up.", {"type": "string"}),
    "service": Key(
        "A service model, by which several instances may add up to less, such as saturating:rate=50,contention=0.05, "
        "or an application as it was measured, such as nexmark-5.",
        {"type": "string"},
    ),
    "model": Key("How the job works: queue or micro-batch.", {"enum": list(MODELS)}),
    "batches": Key("How micro-batches behave.", {"$ref": "#/$defs/batches"}),
    "readings": Key("What is seen of micro-batches: spark, kafka or perfect.", {"enum": ["spark", "kafka", "perfect"]}),
    "startup": Key("Time until a new instance can work, such as 30s.", DURATION),
    "startup_spread": Key("How much start-up times differ: the deviation of their logarithm.", _NOT_NEGATIVE),
    "drain": Key("Time until an instance that has nothing more to do is gone.", DURATION),
}
POLICY_KEYS = {
    "policy": Key("Which policy; headgate policies lists them.", {"type": "string"}, required=True),
    "name": Key("What tables call it; the policy's own name where not given.", _NAME),
    "settings": Key("Settings of the policy.", _SCALARS),
    "guards": Key("Settings of the guards.", _SCALARS),
    "start": Key("Instances at the start; the fewest allowed where not given.", _COUNT),
}
OBJECTIVE_KEYS = {
    "objective": Key("What is asked, such as latency p95 < 10s.", {"type": "string"}, required=True),
    "name": Key("What tables call it; its text where not given.", _NAME),
    "min": Key("Never fewer instances.", _SEED),
    "max": Key("Never more instances.", _COUNT),
    "price": Key("What an instance costs for an hour.", _NOT_NEGATIVE),
}


def _batch_key(name: str, default: object) -> Key:
    told = "what it is where not given" if default in (None, ()) else f"{default} where not given"
    schema: dict[str, Any]
    if name.endswith("_s"):
        schema = DURATION
    elif isinstance(default, tuple):
        schema = _PAIRS
    elif isinstance(default, bool):
        schema = {"type": "boolean"}
    else:
        schema = {"type": "number", "minimum": 0}
    return Key(f"{name} of the micro-batch model; {told}.", schema)


BATCH_KEYS = {one.name: _batch_key(one.name, one.default) for one in fields(MicroBatch) if one.default is not MISSING}
MEANT = {
    "slo": "objective",
    "slos": "objectives",
    "goal": "objective",
    "service_models": "jobs",
    "services": "jobs",
    "loads": "workloads",
    "load": "workload",
    "duration": "seconds",
    "label": "name",
    "seeds": "repeats",
    "runs": "repeats",
    "rate_per_s": "rate",
    "service_rate": "rate",
    "micro_batch": "batches",
    "startup_s": "startup",
    "drain_s": "drain",
    "factor": "scale",
    "cost": "price",
    "min_instances": "min",
    "max_instances": "max",
    "params": "settings",
}
"""What people may write who know other parts of Headgate or other systems, and the key that does it here."""
