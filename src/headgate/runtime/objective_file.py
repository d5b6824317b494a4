"""Objectives kept in a file: YAML, of which JSON is a part."""

from __future__ import annotations

from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from headgate.core.errors import InputError, cause_of
from headgate.core.objective import Objective
from headgate.core.objective_form import objective_from

SUFFIXES = (".yaml", ".yml", ".json")


def read_objective(path: Path) -> Objective:
    """The objective in a file; see ``core/objective_form.py`` for its keys."""
    try:
        given = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"objective file {str(path)!r} cannot be read: {cause_of(error)}.") from error
    except (UnicodeDecodeError, YAMLError) as error:
        told = " ".join(str(error).split())
        raise InputError(f"objective file {str(path)!r} is no YAML: {told}.") from error
    try:
        return objective_from(given)
    except InputError as error:
        raise InputError(f"objective file {str(path)!r}: {error}") from error


def text_or_file(given: str) -> Objective:
    """An objective from its friendly form, or from the file that is named instead."""
    return read_objective(Path(given)) if given.lower().endswith(SUFFIXES) else objective_from(given)
