"""Objective files, YAML or JSON; see ``objective_from`` for the same as plain data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from headgate import documents
from headgate.core.errors import InputError
from headgate.core.objective import Objective, objective_from
from headgate.documents import Form, Mistake, key, nodes
from headgate.documents.form import Mistakes
from headgate.documents.values import NodeValue

SUFFIXES = (".yaml", ".yml", ".json")


_SLO = {"type": "string"}
_TEXT_OR_NUMBER = {"type": ["string", "number"]}
_OPERATOR = {"anyOf": [_SLO, {"type": "object", "properties": {"slo": _SLO, "per": _TEXT_OR_NUMBER, "by": _SLO}}]}


class ObjectiveFileForm(Form[Objective]):
    noun = "an objective file"
    when_empty = "expected slo: and a limit, such as latency p95 < 10s"

    slo: Annotated[Any, NodeValue(nodes.plain, _SLO)] = key("The limit, such as latency p95 < 10s.", ...)
    per: Annotated[Any, NodeValue(nodes.plain, _TEXT_OR_NUMBER)] = key("The period that it is judged over, such as 6h.")
    by: Annotated[Any, NodeValue(nodes.plain, _SLO)] = key("What is counted: records or time.")
    cost: Annotated[Any, NodeValue(nodes.plain, {"type": ["string", "number", "object"]})] = key(
        "The most that it may cost, such as 12 per day."
    )
    price: Annotated[Any, NodeValue(nodes.plain, {"type": ["string", "number"]})] = key(
        "What an instance costs for an hour."
    )
    instances: Annotated[Any, NodeValue(nodes.plain, {"type": "array", "minItems": 2, "maxItems": 2})] = key(
        "The fewest and the most instances, such as [1, 8]."
    )
    operators: Annotated[Any, NodeValue(nodes.plain, {"type": "object", "additionalProperties": _OPERATOR})] = key(
        "Limits of single operators, by name."
    )

    def build(self, context: object) -> Objective:
        plain = {name: value for name in self.fields_by_key() if (value := getattr(self, name)) is not None}
        mistakes = []
        for name, value in plain.items():
            try:
                # Each key with the limit alone, so that an error has the position of the key that causes it.
                objective_from({"slo": self.slo, name: value})
            except InputError as error:
                mistakes.append(Mistake(str(error), name))
                if name == "slo":
                    break
        if mistakes:
            raise Mistakes(mistakes)
        return objective_from(plain)


def read_objective(path: Path) -> Objective:
    """Return the objective in a file; an ``InputError`` reports everything that is wrong with it."""
    return documents.read(documents.read_text(path, "objective file"), ObjectiveFileForm, str(path))


def text_or_file(given: str) -> Objective:
    """Return an objective from its friendly form, or from the file that is named instead."""
    return read_objective(Path(given)) if given.lower().endswith(SUFFIXES) else objective_from(given)
