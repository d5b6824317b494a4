"""What every folder of the lab begins with: a manifest of what is made in it, by which code and versions."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from headgate._version import __version__
from headgate.core.errors import InputError
from headgate.core.types import JSON
from headgate.render.files import write_file

MANIFEST = "manifest.json"


def begin_folder(runs: Path, ours: Mapping[str, JSON], versions: Mapping[str, str]) -> None:
    """Make a folder whose rows go to ``runs``; one that has anything else in it is left as it is."""
    path = runs.parent
    if path.is_dir() and any(path.iterdir()):
        raise InputError(f"{path} has other files in it; a folder of its own is needed (--out).")
    runs.mkdir(parents=True, exist_ok=True)
    written = {
        **ours,
        "began": datetime.now(UTC).isoformat(timespec="seconds"),
        "headgate": __version__,
        "versions": {"python": platform.python_version(), "numpy": np.__version__, **versions},
    }
    write_file(path / MANIFEST, json.dumps(written, indent=2) + "\n")


def other_code(theirs: Mapping[str, JSON], ours: Mapping[str, JSON]) -> list[str]:
    """What is wrong with rows that other code has made; nothing where it is the same."""
    if theirs.get("code") == ours["code"]:
        return []
    return [f"it was made by other code ({theirs.get('code')}; this is {ours['code']})"]


def refuse(path: Path, what: Sequence[str]) -> None:
    """Do not go on with a folder of which something was found, if only one thing."""
    if what:
        raise InputError(
            f"{path} cannot be gone on with: {' and '.join(what)}. Give another --out, or remove the folder."
        )
