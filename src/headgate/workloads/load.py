"""A load from the command line or the options of a source: the same text gives the same records."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from headgate.core.errors import InputError
from headgate.core.types import JSON
from headgate.core.units import exact_number, parse_duration_s
from headgate.workloads.composed import end_of
from headgate.workloads.contract import Workload
from headgate.workloads.draws import Keys
from headgate.workloads.parse import parse_workload
from headgate.workloads.payloads import DEFAULT, Payloads, make_payloads, require_payloads
from headgate.workloads.schedule import RecordSchedule

FASTEST = 1000.0
AS_FAST_AS_ACCEPTED = math.inf
"""The speed at which records do not wait until they are due."""
_MAX = "max"


@dataclass(frozen=True)
class Load:
    """Which records there are, and when.

    >>> load = Load.from_options({"workload": "constant:10", "seconds": "1m", "speed": "60"})
    >>> load.schedule.total, load.due_after(0.5)
    (600, 300)
    """

    workload: str
    app: str = DEFAULT
    """The application whose records these are."""
    seconds: float | None = None
    """The length of the workload in seconds; all of it where ``None`` and it has an end."""
    speed: float = 1.0
    """Seconds of the workload per second of the clock."""
    keys: int = 1000
    skew: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        require_payloads(self.app)
        if not (1 <= self.speed <= FASTEST or self.speed == AS_FAST_AS_ACCEPTED):
            raise InputError(f"a speed of {self.speed:g} is not allowed; 1 to {FASTEST:g} are, and {_MAX}.")

    @cached_property
    def offered(self) -> Workload:
        return parse_workload(self.workload)

    @cached_property
    def schedule(self) -> RecordSchedule:
        if self.seconds is not None:
            return RecordSchedule(self.offered, self.seconds)
        end_s = end_of(self.offered)
        if end_s is not None:
            return RecordSchedule(self.offered, end_s)
        raise InputError(f"workload {self.offered.describe()} has no end; give its length as seconds, such as 10m.")

    def make_payloads(self) -> Payloads:
        return make_payloads(self.app, seed=self.seed, keys=Keys(self.keys, self.skew, self.seed))

    def due_after(self, elapsed_s: float) -> int:
        """Return the number of records due after a time by the clock."""
        if self.speed == AS_FAST_AS_ACCEPTED:
            return self.schedule.total if elapsed_s >= 0 else 0
        return self.schedule.due_by(elapsed_s * self.speed)

    @property
    def lasting_s(self) -> float | None:
        """The duration by the clock; ``None`` at the fastest speed."""
        return None if self.speed == AS_FAST_AS_ACCEPTED else self.schedule.seconds / self.speed

    # ----------------------------------------------------------------------------------------------------- as text

    def to_json(self) -> dict[str, JSON]:
        speed = _MAX if self.speed == AS_FAST_AS_ACCEPTED else self.speed
        return {
            "workload": self.offered.describe(),
            "app": self.app,
            "seconds": self.schedule.seconds,
            "speed": speed,
            "keys": self.keys,
            "skew": self.skew,
            "seed": self.seed,
        }

    def options(self) -> dict[str, str]:
        """Return options of a source, which ``from_options`` reads."""
        speed = _MAX if self.speed == AS_FAST_AS_ACCEPTED else exact_number(self.speed)
        found = {"workload": self.workload, "app": self.app, "speed": speed}
        if self.seconds is not None:
            found["seconds"] = exact_number(self.seconds)
        return found | {"keys": str(self.keys), "skew": exact_number(self.skew), "seed": str(self.seed)}

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Load:
        """Return a load from options; missing ones have defaults, unknown ones are ignored."""
        if "workload" not in options:
            raise InputError("a load needs the option workload; write for example constant:10.")
        seconds = options.get("seconds")
        return cls(
            workload=options["workload"],
            app=options.get("app", DEFAULT),
            seconds=None if seconds is None else parse_duration_s(seconds),
            speed=parse_speed(options.get("speed", "1")),
            keys=_whole("keys", options.get("keys", "1000")),
            skew=_skew(options.get("skew", "0")),
            seed=_whole("seed", options.get("seed", "0")),
        )


def parse_speed(text: str) -> float:
    """A speed from ``60`` or ``max``."""
    if text.strip().lower() == _MAX:
        return AS_FAST_AS_ACCEPTED
    try:
        return float(text)
    except ValueError as error:
        raise InputError(f"speed {text!r} is not understood; 1 to {FASTEST:g} are allowed, and {_MAX}.") from error


def _whole(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise InputError(f"{name} {text!r} is not allowed; it must be a whole number that is not negative.")
    return int(text)


def _skew(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise InputError(f"skew {text!r} is not a number; write for example 0 or 1.2.") from error
