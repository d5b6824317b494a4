"""What may be said of a file with a recorded load: its columns and zone, what is mended in it, and how it is used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from headgate.core.errors import InputError
from headgate.core.units import parse_duration_s
from headgate.workloads.numbers import plain, require_rate
from headgate.workloads.steps import Steps
from headgate.workloads.timestamps import find_zone

_TIMES = ("timestamp",)
_COUNTS = ("count", "value")
_RATES = ("rate",)
KEYS = ("time", "count", "rate", "zone", "repair", "gaps", "scale", "step")


@dataclass(frozen=True)
class LoadColumns:
    """How a file is read.

    >>> LoadColumns.from_text({"time": "ts", "count": "n", "repair": "yes"}).found_in("it", ["ts", "n"])
    ('ts', 'n', True)
    """

    time: str | None = None
    count: str | None = None
    rate: str | None = None
    zone: ZoneInfo | None = None
    repair: bool = False
    fill_gaps: bool = False
    scale: float = 1.0
    step_s: float | None = None

    @classmethod
    def from_text(cls, given: Mapping[str, str]) -> LoadColumns:
        if "count" in given and "rate" in given:
            raise InputError(f"count={given['count']} and rate={given['rate']} do not go together; one is the amount.")
        repair = given.get("repair", "no").lower()
        if repair not in ("yes", "no"):
            raise InputError(f"repair={given['repair']} is not allowed; yes or no is.")
        gaps = given.get("gaps", "empty").lower()
        if gaps not in ("empty", "fill"):
            raise InputError(f"gaps={given['gaps']} is not allowed; empty or fill is.")
        named = {key: given[key].strip().lower() for key in ("time", "count", "rate") if key in given}
        return cls(
            **named,
            zone=find_zone(given["zone"]) if "zone" in given else None,
            repair=repair == "yes",
            fill_gaps=gaps == "fill",
            scale=parse_scale(given.get("scale", "1")),
            step_s=parse_duration_s(given["step"]) if "step" in given else None,
        )

    def found_in(self, file: str, names: Sequence[str]) -> tuple[str, str, bool]:
        """The column of the time, that of the amount, and whether the amount is a count."""
        times = [name for name in ((self.time,) if self.time else _TIMES) if name in names]
        if self.count or self.rate:
            amounts = [name for name in (self.count, self.rate) if name in names]
        else:
            amounts = [name for name in (*_COUNTS, *_RATES) if name in names]
        if len(times) != 1 or len(amounts) != 1:
            named = self.count or self.rate
            needed = f"{named!r}" if named else "one of 'count', 'value' or 'rate'"
            # A quotation mark that is never closed makes one name of all lines.
            listed = ", ".join(name if name.isprintable() else repr(name) for name in names)
            apart = len(names) == 1 and any(sign in names[0] for sign in ";\t|")
            raise InputError(
                f"{file} has the columns {listed or '(none)'}; "
                f"{(self.time or _TIMES[0])!r} and {needed} are needed"
                + (", with a comma between columns." if apart else ".")
                + ("" if self.time or named else " time=NAME and count=NAME or rate=NAME choose others.")
            )
        amount = amounts[0] or ""
        for name in (times[0], amount):
            if names.count(name) > 1:
                raise InputError(f"{file} has the column {name!r} {names.count(name)} times; once is allowed.")
        return times[0], amount, bool(self.count) or (not self.rate and amount in _COUNTS)

    def applied(self, steps: Steps, second_times: int = 0) -> Steps:
        """A load as it is to be used: resampled, scaled, and with all that was done to it told."""
        notes, options = list(steps.notes), self._options()
        if second_times:
            notes.append(f"{second_times} timestamps taken for the second of an hour that the clocks had twice")
        if self.step_s is not None:
            notes.append(f"resampled to steps of {plain(self.step_s)} s, from {_steps(steps)}")
        steps = steps if self.step_s is None else steps.resampled(self.step_s)
        if self.scale != 1:
            notes.append(f"multiplied by {plain(self.scale)}")
        steps = steps if self.scale == 1 else steps.scaled(self.scale)
        return steps.told(",".join((steps.describe(), *options)), tuple(notes))

    def _options(self) -> list[str]:
        found = [f"{key}={getattr(self, key)}" for key in ("time", "count", "rate") if getattr(self, key) is not None]
        found += [f"zone={self.zone.key}"] if self.zone is not None else []
        found += ["repair=yes"] if self.repair else []
        found += ["gaps=fill"] if self.fill_gaps else []
        found += [f"step={plain(self.step_s)}s"] if self.step_s is not None else []
        return found + ([f"scale={plain(self.scale)}"] if self.scale != 1 else [])


def parse_scale(text: str) -> float:
    try:
        scale = float(text)
    except ValueError as error:
        raise InputError(f"scale {text!r} is not a number; write for example 2 or 0.5.") from error
    require_rate("scale", scale)
    return scale


def _steps(steps: Steps) -> str:
    return f"{len(steps)} of {plain(round(steps.end_s / len(steps), 3))} s on average"
