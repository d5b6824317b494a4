"""One cell of an experiment: all that a run depends on, as plain data that travels to whoever carries it out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields

from headgate.core.errors import InputError
from headgate.core.types import JSON

FORMAT_VERSION = 1
_KEY_LENGTH = 20


@dataclass(frozen=True)
class Case:
    """What is run; labels (``workload``, ``job``, ``objective``, ``label``) say what it is called in tables."""

    workload: str
    load: str
    scale: float
    seconds: float
    job: str
    rate_per_s: float
    batches: Mapping[str, JSON] | None
    readings: str
    startup_s: float
    startup_spread: float
    drain_s: float
    objective: str
    asked: Mapping[str, JSON]
    label: str
    policy: str
    settings: Mapping[str, str]
    guards: Mapping[str, str]
    start: int | None
    interval_s: float
    seed: int

    def to_json(self) -> str:
        """The same text for the same case, whatever order its parts were written in."""
        return json.dumps({"version": FORMAT_VERSION, **vars(self)}, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Case:
        given = json.loads(text)
        version = given.pop("version", None)
        if version != FORMAT_VERSION:
            raise InputError(f"a case of version {version!r} cannot be read; {FORMAT_VERSION} is known.")
        names = {one.name for one in fields(cls)}
        if given.keys() != names:
            raise InputError(f"a case has the keys {', '.join(sorted(given))}; {', '.join(sorted(names))} are needed.")
        return cls(**given)

    @property
    def key(self) -> str:
        """Tells it from every other case."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:_KEY_LENGTH]
