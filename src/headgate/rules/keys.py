"""The keys of a rule file: what each is for and what may stand there. Reader and schema are both made of these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

DURATION = {"type": ["string", "number"], "pattern": r"^\s*(\d+(\.\d+)?|\.\d+)\s*(ms|s|m|h|d)?\s*$", "minimum": 0}


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a mapping; ``schema`` is what a JSON schema says of its value."""

    help: str
    schema: dict[str, Any]
    required: bool = False
