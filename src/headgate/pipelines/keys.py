"""The keys of a pipeline file: what each is for and what may stand there. Reader and schema are both made of these."""

from __future__ import annotations

from headgate.rules.keys import DURATION, Key

VERSION = 1
_NAME = {"type": "string", "pattern": r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$"}
_TOPIC = {"type": "string", "pattern": r"^[A-Za-z0-9._-]{1,249}$"}
_COUNT = {"type": "integer", "minimum": 1}
_OBJECTIVE = {"type": "string", "minLength": 1}
_SCALARS = {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}

FILE_KEYS = {
    "version": Key("The version of this format.", {"const": VERSION}, required=True),
    "name": Key("What the pipeline is called in its journal; the file's name where not given.", _NAME),
    "objective": Key("What is asked from end to end, such as latency p95 < 30s.", _OBJECTIVE, required=True),
    "policy": Key("Who decides the sizes; headgate policies lists them. autopilot where not given.", _NAME),
    "settings": Key("Settings of the policy.", _SCALARS),
    "interval": Key("Time between two decisions, such as 5s.", DURATION),
    "seed": Key("Of the policy's randomness.", {"type": "integer", "minimum": 0}),
    "load": Key("What is sent into the first topic while the pipeline runs.", {"$ref": "#/$defs/load"}),
    "topics": Key(
        "How many partitions topics have, by name, where it matters.",
        {"type": "object", "propertyNames": _TOPIC, "additionalProperties": _COUNT},
    ),
    "jobs": Key(
        "The jobs by name, each a Spark application with executors of its own.",
        {"type": "object", "minProperties": 1, "propertyNames": _NAME, "additionalProperties": {"$ref": "#/$defs/job"}},
        required=True,
    ),
}
JOB_KEYS = {
    "app": Key("One of the known applications; headgate app list shows them.", {"type": "string"}),
    "build": Key(
        "A function of your own, as module:function; a module beside this file is found first.",
        {"type": "string", "pattern": r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$"},
    ),
    "from": Key(
        "The topic that it reads, or a list of them.",
        {"oneOf": [_TOPIC, {"type": "array", "minItems": 1, "items": _TOPIC}]},
        required=True,
    ),
    "to": Key("The topic that it writes.", _TOPIC, required=True),
    "executors": Key(
        "The fewest and the most executors, such as [1, 4].",
        {"type": "array", "minItems": 2, "maxItems": 2, "items": _COUNT},
    ),
    "price": Key("What an executor costs for an hour, in any unit.", {"type": "number", "minimum": 0}),
    "trigger": Key("Time between two batches, such as 2s; 0s for as soon as possible.", DURATION),
    "max_records_per_batch": Key(
        "How many records one batch takes at most; as many as get done in time where not given.", _COUNT
    ),
    "state_partitions": Key(
        "The fewest and the most partitions of its state, such as [2, 8]; it grows while it runs.",
        {"type": "array", "minItems": 2, "maxItems": 2, "items": _COUNT},
    ),
    "objective": Key("What is asked of this job alone, such as latency p95 < 5s.", _OBJECTIVE),
    "spark": Key("Settings of its Spark session.", _SCALARS),
}
LOAD_KEYS = {
    "workload": Key(
        "How many records come when, as headgate load has it, such as constant:20.", {"type": "string"}, required=True
    ),
    "to": Key("The topic that gets the records.", _TOPIC, required=True),
    "seconds": Key("How long it lasts, such as 4m; needed where the workload has no end.", DURATION),
    "speed": Key("How many times faster than the clock.", {"type": ["number", "string"]}),
    "app": Key("Whose records they are; numbered where not given.", {"type": "string"}),
    "keys": Key("How many different keys records have.", _COUNT),
    "skew": Key("How unevenly keys are used; 0 for evenly.", {"type": "number", "minimum": 0}),
    "seed": Key("Of the records.", {"type": "integer", "minimum": 0}),
}
MEANT = {
    "slo": "objective",
    "operators": "jobs",
    "applications": "jobs",
    "stages": "jobs",
    "input": "from",
    "inputs": "from",
    "source": "from",
    "reads": "from",
    "output": "to",
    "sink": "to",
    "writes": "to",
    "instances": "executors",
    "bounds": "executors",
    "function": "build",
    "application": "app",
    "duration": "seconds",
    "rate": "workload",
    "cost": "price",
    "conf": "spark",
    "config": "spark",
    "trigger_interval": "trigger",
}
"""What people who know other systems may write, and the key that does it here."""
