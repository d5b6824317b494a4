"""Finding the function that ``build: module:function`` names, without running the module."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from headgate.core.errors import InputError, UnknownNameError
from headgate.lab.own_job import functions_of
from headgate.pipelines.model import Build

_FORM = re.compile(r"(?P<module>[A-Za-z_][\w.]*):(?P<function>[A-Za-z_]\w*)")


def find_build(text: str, folder: Path) -> Build:
    """The function; a module in the folder is found before those that Python knows."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise InputError(f"found {text!r}, expected module:function.")
    module, function = match["module"], match["function"]
    beside = folder / Path(*module.split(".")).with_suffix(".py")
    file = beside if beside.is_file() else _installed(module)
    if file is None:
        raise InputError(f"there is no module {module!r}: neither {beside}, nor one that Python finds.")
    known = functions_of(file)
    if function not in known:
        raise UnknownNameError(f"function of {file.name}", function, known)
    return Build(module, function, beside if file == beside else None)


def _installed(module: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    found = None if spec is None or spec.origin is None else Path(spec.origin)
    return found if found is not None and found.suffix == ".py" else None
