"""The keys of a service's file: what each is for and what may stand there. Reader and schema are both made of these."""

from __future__ import annotations

from headgate.rules.keys import DURATION, Key

VERSION = 1
NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}"
_NAME = {"type": "string", "pattern": f"^{NAME_PATTERN}$"}
_COUNT = {"type": "integer", "minimum": 1}
_NOT_NEGATIVE = {"type": "number", "minimum": 0}
_TEXT = {"type": "string", "minLength": 1}
_SCALARS = {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}


def _named(what: str) -> dict[str, object]:
    return {"type": "object", "propertyNames": _NAME, "additionalProperties": {"$ref": f"#/$defs/{what}"}}


FILE_KEYS = {
    "version": Key("The version of this format.", {"const": VERSION}, required=True),
    "store": Key(
        "Where tokens, changes, audit and journal are kept, such as sqlite:///headgate.db, seen from this file.", _TEXT
    ),
    "listen": Key("Address and port, such as 127.0.0.1:8420, which it is where not given.", _TEXT),
    "tls": Key("The certificate to serve with; none where not given.", {"$ref": "#/$defs/tls"}),
    "access": Key("Who may read without a token, and how much may be asked.", {"$ref": "#/$defs/access"}),
    "retention": Key("How long the journal keeps what, and how large it may get.", _SCALARS),
    "groups": Key("Jobs that share what there is, by name, with their quotas.", _named("group")),
    "jobs": Key("The jobs by name.", {"minProperties": 1, **_named("job")}, required=True),
}
TLS_KEYS = {
    "certificate": Key("A file in PEM form with the certificate and those that lead to its root.", _TEXT, True),
    "key": Key("A file in PEM form with its private key.", _TEXT, True),
}
ACCESS_KEYS = {
    "open_reading": Key(
        "Whether who asks from this machine may read without a token; true where not given.", {"type": "boolean"}
    ),
    "requests_per_s": Key("How many requests per second one token, or one address without one, may make.", _COUNT),
    "hosts": Key(
        "Names by which the service may be called, beside those of this machine.", {"type": "array", "items": _TEXT}
    ),
}
GROUP_KEYS = {
    "instances": Key("The most instances that its jobs may have together.", _COUNT),
    "cores": Key("The most cores.", _NOT_NEGATIVE),
    "memory_gb": Key("The most memory, in GB.", _NOT_NEGATIVE),
    "money_per_hour": Key("The most that its jobs may cost per hour, in the unit of the prices.", _NOT_NEGATIVE),
    "priority": Key("A larger number comes first where quotas do not suffice; 0 where not given.", {"type": "integer"}),
}
JOB_KEYS = {
    "objective": Key("What is asked from end to end, such as latency p95 < 10s.", _TEXT, required=True),
    "operators": Key(
        "What is scaled on its own, by name: each has an agent.",
        {
            "type": "object",
            "minProperties": 1,
            "propertyNames": _NAME,
            "additionalProperties": {"anyOf": [{"$ref": "#/$defs/operator"}, {"type": "null"}]},
        },
        required=True,
    ),
    "streams": Key(
        "Which operator feeds which, such as parse -> sum.",
        {"type": "array", "items": {"type": "string", "pattern": f"^{NAME_PATTERN}\\s*->\\s*{NAME_PATTERN}$"}},
    ),
    "policy": Key("Who decides the sizes; headgate policies lists them. autopilot where not given.", _NAME),
    "settings": Key("Settings of the policy.", _SCALARS),
    "guards": Key("Settings of the guards.", _SCALARS),
    "rules": Key("A file of rules, seen from this one; the policy is then rules.", _TEXT),
    "constraints": Key("A file of constraints, which hold whatever the policy decides.", _TEXT),
    "interval": Key("Time between two decisions, such as 10s, which it is where not given.", DURATION),
    "report_every": Key("How often agents report; half of interval where not given.", DURATION),
    "group": Key("The group whose quotas count; none where not given.", _NAME),
    "priority": Key("Of this job in its group; that of the group where not given.", {"type": "integer"}),
    "mode": Key("act, or recommend: everything is decided and nothing is changed.", {"enum": ["act", "recommend"]}),
    "shadows": Key("Policies that decide beside the acting one and never act.", {"type": "array", "items": _NAME}),
    "seed": Key("Of the policy's randomness.", {"type": "integer", "minimum": 0}),
}
OPERATOR_KEYS = {
    "instances": Key(
        "The fewest and the most instances, such as [1, 8]; 1 to 10 where not given.",
        {"type": "array", "minItems": 2, "maxItems": 2, "items": {"type": "integer", "minimum": 0}},
    ),
    "price": Key("What an instance costs for an hour, in any unit.", _NOT_NEGATIVE),
    "cores": Key("Cores of an instance, for quotas.", _NOT_NEGATIVE),
    "memory_gb": Key("Memory of an instance, in GB, for quotas.", _NOT_NEGATIVE),
    "objective": Key("What is asked of this operator alone, such as latency p95 < 5s.", _TEXT),
    "starts": Key("The size that it is started with, until its agent tells; the fewest where not given.", _COUNT),
}
MEANT = {
    "database": "store",
    "url": "store",
    "bind": "listen",
    "address": "listen",
    "port": "listen",
    "cert": "certificate",
    "private_key": "key",
    "quota": "groups",
    "quotas": "groups",
    "pipelines": "jobs",
    "slo": "objective",
    "executors": "instances",
    "bounds": "instances",
    "cpu": "cores",
    "cpus": "cores",
    "memory": "memory_gb",
    "money": "money_per_hour",
    "cost": "price",
    "edges": "streams",
    "params": "settings",
}
"""What people who know other systems may write, and the key that does it here."""
