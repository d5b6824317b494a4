"""What a check has found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from headgate.core.types import JSON


class FindingStatus(StrEnum):
    OK = "ok"
    WARNING = "warning"
    """It works, and somebody should know."""
    PROBLEM = "problem"
    """Something will not work."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence on one thing, and what to do about it."""

    check: str
    status: FindingStatus
    text: str
    remedy: str = ""

    def to_json(self) -> dict[str, JSON]:
        return {"check": self.check, "status": str(self.status), "told": self.text, "remedy": self.remedy}


def ok_finding(check: str, text: str) -> Finding:
    return Finding(check, FindingStatus.OK, text)


def note_finding(check: str, text: str, remedy: str) -> Finding:
    return Finding(check, FindingStatus.WARNING, text, remedy)


def problem_finding(check: str, text: str, remedy: str) -> Finding:
    return Finding(check, FindingStatus.PROBLEM, text, remedy)
