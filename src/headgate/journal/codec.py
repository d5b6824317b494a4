"""Core values as plain dictionaries and as JSON text, both ways and without loss.

Two layers: ``*_to_dict`` and ``*_from_dict`` give and take plain values; :func:`to_json` and :func:`from_json` write
and read them. JSON has no infinity and no not-a-number, yet a pressure can be infinite, so such a number is written as
``{"$float": "inf"}``: valid JSON for every reader, and never taken for a word or a missing value.

>>> from_json(to_json({"pressure": float("inf"), "share": 0.1}))
{'pressure': inf, 'share': 0.1}
"""

from __future__ import annotations

import dataclasses
import json
import math
import numbers
import zlib
from collections.abc import Mapping
from typing import Any

from headgate.core.errors import JournalError
from headgate.core.types import (
    JSON,
    Answer,
    Batch,
    Decision,
    Event,
    GuardNote,
    Instances,
    Observation,
    Outcome,
    PricedSize,
    Receipt,
    Role,
    Run,
    Sample,
    Severity,
    Startup,
    Verdict,
)

_FLOAT = "$float"


# ------------------------------------------------------------------------------------------------------- JSON as text


def to_json(value: JSON, *, indent: int | None = None) -> str:
    """JSON text; mappings, numbers of numpy and numbers that are not finite are all taken."""
    encoder = _COMPACT if indent is None else json.JSONEncoder(allow_nan=False, default=_plain, indent=indent)
    try:
        text = encoder.encode(value)
        if f'"{_FLOAT}"' in text:
            _refuse_reserved(value)
    except ValueError as error:
        if "JSON compliant" not in str(error):
            raise JournalError(f"a value of type {type(value).__name__} cannot be written as JSON: {error}.") from error
        # Rare, so only now is it worth walking through the value.
        _refuse_reserved(value)
        text = encoder.encode(_marked(value))
    except TypeError as error:
        raise JournalError(f"a value of type {type(value).__name__} cannot be written as JSON: {error}.") from error
    return text


def from_json(text: str) -> JSON:
    """What :func:`to_json` was given, with plain dictionaries and lists."""
    try:
        return json.loads(text, object_hook=_unmarked if _FLOAT in text else None)
    except RecursionError as error:
        raise JournalError(f"an entry of {len(text)} characters is nested too deeply.") from error
    except (ValueError, TypeError) as error:
        raise JournalError(f"an entry of {len(text)} characters is not JSON: {error}.") from error


def _plain(value: object) -> JSON:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _marked(value: JSON) -> JSON:
    if isinstance(value, Mapping):
        return {key: _marked(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_marked(item) for item in value]
    if isinstance(value, numbers.Real) and not isinstance(value, numbers.Integral) and not math.isfinite(value):
        return {_FLOAT: str(float(value))}
    return value


def _unmarked(value: dict[str, JSON]) -> JSON:
    return float(value[_FLOAT]) if value.keys() == {_FLOAT} else value


def _refuse_reserved(value: JSON) -> None:
    if isinstance(value, Mapping):
        if _FLOAT in value:
            raise JournalError(f"the key {_FLOAT!r} cannot be written: it marks numbers that are not finite.")
        for item in value.values():
            _refuse_reserved(item)
    elif isinstance(value, list | tuple):
        for item in value:
            _refuse_reserved(item)


_COMPACT = json.JSONEncoder(allow_nan=False, default=_plain, separators=(",", ":"))


# ----------------------------------------------------------------------------------------------- values as plain data


def observation_to_dict(observation: Observation) -> dict[str, JSON]:
    return {
        "at_s": observation.at_s,
        "samples": {name: sample_to_dict(sample) for name, sample in observation.samples.items()},
        "instances": {name: _known(instances) for name, instances in observation.instances.items()},
        **(
            {"startups": {name: [_known(startup) for startup in found] for name, found in observation.startups.items()}}
            if observation.startups
            else {}
        ),
    }


def observation_from_dict(data: Mapping[str, JSON]) -> Observation:
    return Observation(
        data["at_s"],
        {name: sample_from_dict(sample) for name, sample in data["samples"].items()},
        {name: Instances(**instances) for name, instances in data["instances"].items()},
        {name: tuple(Startup(**startup) for startup in found) for name, found in data.get("startups", {}).items()},
    )


def sample_to_dict(sample: Sample) -> dict[str, JSON]:
    """The fields that say something: most engines leave most metrics out."""
    known = _known(sample)
    if sample.metrics:
        known["metrics"] = dict(sample.metrics)
    if sample.batches:
        known["batches"] = [_known(batch) for batch in sample.batches]
    if sample.parts:
        known["parts"] = {name: sample_to_dict(part) for name, part in sample.parts.items()}
    return known


def sample_from_dict(data: Mapping[str, JSON]) -> Sample:
    return Sample(
        **{
            **data,
            "batches": tuple(Batch(**batch) for batch in data.get("batches", ())),
            "parts": {name: sample_from_dict(part) for name, part in data.get("parts", {}).items()},
        }
    )


def decision_to_dict(decision: Decision) -> dict[str, JSON]:
    return {
        "at_s": decision.at_s,
        "policy": decision.policy,
        "verdicts": {name: verdict_to_dict(verdict) for name, verdict in decision.verdicts.items()},
        **_alternatives_to_dict(decision),
        **({"role": str(decision.role)} if decision.role is not Role.ACTING else {}),
    }


def decision_from_dict(data: Mapping[str, JSON]) -> Decision:
    alternatives = data.get("alternatives", {})
    verdicts = {
        name: Verdict(
            **{**verdict, "notes": tuple(GuardNote(**note) for note in verdict["notes"])},
            alternatives=tuple(PricedSize(*row) for row in alternatives.get(name, ())),
        )
        for name, verdict in data["verdicts"].items()
    }
    return Decision(data["at_s"], data["policy"], verdicts, Role(data.get("role", Role.ACTING)))


def verdict_to_dict(verdict: Verdict) -> dict[str, JSON]:
    """The fields of a verdict but its alternatives, which a decision holds together as rows."""
    fields = _fields(verdict)
    del fields["alternatives"]
    return {**fields, "numbers": dict(verdict.numbers), "notes": [_fields(note) for note in verdict.notes]}


def _alternatives_to_dict(decision: Decision) -> dict[str, JSON]:
    """The priced sizes of each operator, outside of its verdict: readers of earlier versions know no such field."""
    priced = {
        name: [list(size) for size in verdict.alternatives]
        for name, verdict in decision.verdicts.items()
        if verdict.alternatives
    }
    return {"alternatives": priced} if priced else {}


def receipt_to_dict(receipt: Receipt) -> dict[str, JSON]:
    answers = {name: {**_fields(answer), "outcome": str(answer.outcome)} for name, answer in receipt.answers.items()}
    return {"at_s": receipt.at_s, "answers": answers}


def receipt_from_dict(data: Mapping[str, JSON]) -> Receipt:
    answers = {
        name: Answer(Outcome(answer["outcome"]), answer["requested"], answer["detail"])
        for name, answer in data["answers"].items()
    }
    return Receipt(data["at_s"], answers)


def event_to_dict(event: Event) -> dict[str, JSON]:
    return {**_fields(event), "numbers": dict(event.numbers), "severity": str(event.severity)}


def event_from_dict(data: Mapping[str, JSON]) -> Event:
    severity = data.get("severity", severity_of_kind(str(data.get("kind"))))
    return Event(**{**data, "severity": Severity(severity)})


def severity_of_kind(kind: str) -> Severity:
    """The severity of an event written before events had one.

    >>> severity_of_kind("observe-failed"), severity_of_kind("started")
    (<Severity.ERROR: 'error'>, <Severity.INFO: 'info'>)
    """
    if kind.endswith(("failed", "given-up")):
        return Severity.ERROR
    return Severity.WARNING if kind.endswith(("refused", "lost", "no-room")) else Severity.INFO


def run_to_dict(run: Run) -> dict[str, JSON]:
    bounds = None if run.bounds is None else list(run.bounds)
    fields = _fields(run)
    if not run.starts_at_s:
        del fields["starts_at_s"]
    return {**fields, "settings": dict(run.settings), "operators": list(run.operators), "bounds": bounds}


def run_from_dict(data: Mapping[str, JSON]) -> Run:
    bounds = data.get("bounds")
    return Run(
        **{
            **data,
            "operators": tuple(data["operators"]),
            "bounds": None if bounds is None else (int(bounds[0]), int(bounds[1])),
        }
    )


def _known(value: Any) -> dict[str, JSON]:
    """The fields that differ from what a reader takes for granted."""
    return {
        field.name: found
        for field in dataclasses.fields(value)
        if (found := getattr(value, field.name)) != field.default
        and (field.default_factory is dataclasses.MISSING or found != field.default_factory())
    }


def _fields(value: Any) -> dict[str, JSON]:
    """The fields as they are; unlike ``dataclasses.asdict``, nothing inside them is copied."""
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


_LEVEL = 6

# What is likely stands at the end, where it costs least to refer to. Never to be changed: what was packed with it could
# not be unpacked any more. A better one would be a new format of the journal.
_DICTIONARY = (
    '"startups":{"job":[{"instance":"1","requested_s":17,"registered_after_s":4.,"first_task_after_s":6.,'
    '"warm_after_s":11.}]}"metrics":{"parts":{"query":"role":"shadow","age_s":0."warming":true,"stale":true'
    '{"at_s":17,"kind":"observe-failed","detail":"started","stopped","policy-changed","numbers":{}}'
    '{"at_s":17,"answers":{"job":{"outcome":"accepted","requested":2,"detail":"refused","delivered","failed"}}}'
    '"code":"no-data","reason":"no fresh reading of the job: holding","code":"slo-violated","why":"at most '
    "the newest reading was made while instances were starting, joining or leaving"
    "of planned instances are ready, not waiting longer than 2m, guard time 5m, so no scale-in"
    '"guard":"strategy","guard":"step-limit","guard":"hysteresis","guard":"sizes","guard":"guard-times",'
    '"guard":"monotonicity","guard":"together"'
    '{"at_s":17,"policy":"reactive","verdicts":{"job":{"operator":"job","current":2,"proposed":2,"target":2,'
    '"code":"steady","reason":"latency 0.5 s is within the 10s bound; 250 records/s need 2 instances of 180/s with '
    'headroom","numbers":{"latency_s":0.5,"bound_s":10.0,"rate_per_s":250.0,"capacity_per_s":180.0,"needed":2},'
    '"notes":[{"guard":"bounds","before":2,"after":2,"why":""},{"guard":"useful","before":2,"after":2,"why":""},'
    '{"guard":"pending","before":2,"after":2,"why":""},{"guard":"recovering","before":2,"after":2,"why":""},'
    '{"guard":"blind","before":2,"after":2,"why":""},{"guard":"attainable","before":2,"after":2,"why":""}]}}}'
    '{"at_s":17,"samples":{"job":{"operator":"job","at_s":17,"arrived":0.0,"done":0.0,"emitted":0.0,"late":0.0,'
    '"busy_s":0.0,"available_s":0.0,"batches":[{"started_s":17,"ended_s":17,"records":0.0,"oldest_s":17,"late":0.0,'
    '"trigger_interval_s":1.0,"instances":2},{"started_s":17,"ended_s":17}],"backlog":0.0,"latency_s":0.0,'
    '"running_s":0.0,"batch_ended_s":17,"useful_instances":8,"skew":1.0,"input_rate_per_s":0.0,'
    '"processed_rate_per_s":0.0,"output_rate_per_s":0.0,"processing_time_s":0.0,"scheduling_delay_s":0.0,'
    '"trigger_interval_s":1.0,"utilization":0.0}},"instances":{"job":{"planned":2,"requested":2,"ready":2}}}'
).encode("ascii")


def packed(text: str) -> bytes:
    """The bytes of a text; a checksum of it is among them."""
    packer = zlib.compressobj(_LEVEL, zdict=_DICTIONARY)
    return packer.compress(text.encode("ascii")) + packer.flush()


MOST_TIMES = 150
"""Entries are at most this many times as long as what they are packed into: a small file must not fill the memory."""
LEAST_ALLOWED = 10_000
"""Short entries may be packed better."""
LONGEST_STATE = 32_000_000
"""Learned state may be thousands of equal numbers; it is read one at a time."""


def unpacked(body: bytes, *, is_state: bool = False) -> str:
    """What :func:`packed` was given."""
    unpacker = zlib.decompressobj(zdict=_DICTIONARY)
    allowed = LONGEST_STATE if is_state else LEAST_ALLOWED + MOST_TIMES * len(body)
    try:
        text = unpacker.decompress(body, allowed)
        if unpacker.unconsumed_tail:
            raise JournalError(f"an entry cannot be unpacked: it is longer than {allowed} characters.")
        text += unpacker.flush()
    except (zlib.error, TypeError) as error:
        raise JournalError(f"an entry cannot be unpacked: {error}.") from error
    if not unpacker.eof:
        raise JournalError(f"an entry cannot be unpacked: it ends after {len(body)} bytes.")
    return text.decode("ascii")
