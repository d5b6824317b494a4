"""Names of operators made from those of Flink's vertices: short, usable anywhere, and the same after a restart.

A vertex is a chain of operators, and its name is all of theirs. The first of them is what people call it by.

>>> operator_name("Source: clicks[1] -> Calc[2]"), operator_name("GroupAggregate[13] -> sink2[14]: Writer")
('clicks', 'GroupAggregate')
>>> operator_names(["Window[3] -> Calc[4]", "Window[7]", "Sink: out: Writer"])
['Window', 'Window-2', 'out']
"""

from __future__ import annotations

import re
from collections.abc import Sequence

LONGEST = 63
_NUMBER = re.compile(r"\[\d+\]")
_ROLE = re.compile(r"^(?:(?:Source|Sink): )+")
_PART = re.compile(r"(?:: (?:Writer|Committer))+$")
_OTHER = re.compile(r"[^A-Za-z0-9_]+")
NAMELESS = "vertex"


def operator_name(vertex: str) -> str:
    """The name of a vertex's first operator, of letters, digits, - and _ only."""
    first = _NUMBER.sub("", vertex.split(" -> ", maxsplit=1)[0]).strip()
    plain = _OTHER.sub("-", _PART.sub("", _ROLE.sub("", first))).strip("-_")
    return plain[:LONGEST].rstrip("-_") or NAMELESS


def operator_names(vertices: Sequence[str]) -> list[str]:
    """One for each; those that would be alike are numbered, in the order of the plan."""
    names: list[str] = []
    for vertex in vertices:
        name = plain = operator_name(vertex)
        count = 1
        while name in names:
            count += 1
            name = f"{plain[: LONGEST - len(str(count)) - 1]}-{count}"
        names.append(name)
    return names
