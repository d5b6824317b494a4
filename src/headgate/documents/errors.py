"""Everything that is wrong with a document, each problem with its line and column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headgate.core.errors import InputError
from headgate.documents.nodes import Position

MOST_SHOWN = 100


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake and its position."""

    source: str
    position: Position
    message: str

    def __str__(self) -> str:
        return f"{self.source}:{self.position.line}:{self.position.column}: {self.message}"


class DocumentError(InputError):
    """Everything that is wrong with one document, in the order of the lines."""

    def __init__(self, source: str, problems: Sequence[Problem]) -> None:
        self.source = source
        self.problems = tuple(sorted(problems, key=lambda problem: problem.position))
        shown = [str(problem) for problem in self.problems[:MOST_SHOWN]]
        if len(self.problems) > MOST_SHOWN:
            shown.append(f"{source}: and {len(self.problems) - MOST_SHOWN} more.")
        head = [] if len(shown) == 1 else [f"{source} has {len(self.problems)} errors:"]
        super().__init__("\n".join([*head, *shown]))
