"""The folder of a lab run: ``manifest.json`` says what is run by what, ``runs`` has the rows, ``summary.parquet`` what
they come to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from headgate.core.errors import InputError
from headgate.core.types import JSON
from headgate.lab.code_state import fingerprint
from headgate.lab.experiments.carry import DECISIVE
from headgate.lab.experiments.model import Experiment
from headgate.lab.manifest import MANIFEST, begin_folder, other_code, refuse

FORMAT_VERSION = 1
TUNING = "tuning"
"""What the manifest of a folder of ``headgate lab tune`` says it is."""


class LabFolder:
    """One lab run on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.runs = path / "runs"
        self.summary = path / "summary.parquet"
        self.log = path / "spark.log"

    @property
    def is_there(self) -> bool:
        return (self.path / MANIFEST).is_file()

    def manifest(self) -> Mapping[str, JSON]:
        try:
            found = json.loads((self.path / MANIFEST).read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(
                f"{self.path} is no folder of a lab run: it has no {MANIFEST}; headgate lab run FILE --out makes one."
            ) from error
        except ValueError as error:
            raise InputError(f"{self.path / MANIFEST} is no JSON: {error}.") from error
        if isinstance(found, dict) and found.get("kind") == TUNING:
            raise InputError(f"{self.path} is of headgate lab tune, not of headgate lab run; look at its tuned.json.")
        version = found.get("version") if isinstance(found, dict) else None
        if version != FORMAT_VERSION:
            raise InputError(f"{self.path} has version {version!r} of the format; {FORMAT_VERSION} can be read.")
        assert isinstance(found, dict)
        return found

    def begin(self, experiment: Experiment, versions: Mapping[str, str]) -> None:
        """Make the folder, or see that what is in it is the same experiment by the same code."""
        ours = made_by(experiment)
        if self.is_there:
            self._refuse_other(ours)
            return
        begin_folder(self.runs, {**ours, "cases": len(experiment), "seeds": list(experiment.seeds)}, versions)

    def _refuse_other(self, ours: Mapping[str, JSON]) -> None:
        theirs = self.manifest()
        what = other_code(theirs, ours)
        before, now = theirs.get("experiment"), ours["experiment"]
        if before != now:
            before = before if isinstance(before, Mapping) else {}
            differ = [name for name in now if before.get(name) != now[name]]
            what.append(f"it is of another experiment (other {', '.join(differ)})")
        refuse(self.path, what)


def made_by(experiment: Experiment) -> dict[str, JSON]:
    """What the rows depend on: the code, and the experiment with hashes of its files."""
    plain = json.loads(json.dumps(experiment.to_json()))
    return {"version": FORMAT_VERSION, "code": fingerprint(DECISIVE, FORMAT_VERSION), "experiment": plain}
