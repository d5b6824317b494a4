"""What a check has found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from headgate.core.types import JSON


class Status(StrEnum):
    OK = "ok"
    WARNING = "warning"
    """It works, and somebody should know."""
    PROBLEM = "problem"
    """Something will not work."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence on one thing, and what to do about it."""

    check: str
    status: Status
    told: str
    remedy: str = ""

    def to_json(self) -> dict[str, JSON]:
        return {"check": self.check, "status": str(self.status), "told": self.told, "remedy": self.remedy}


def ok_finding(check: str, told: str) -> Finding:
    return Finding(check, Status.OK, told)


def note_finding(check: str, told: str, remedy: str) -> Finding:
    return Finding(check, Status.WARNING, told, remedy)


def problem_finding(check: str, told: str, remedy: str) -> Finding:
    return Finding(check, Status.PROBLEM, told, remedy)
