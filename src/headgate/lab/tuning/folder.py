"""The folder of a tuning: what is tuned by what code, the rows of its runs, and what it came to."""

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
from headgate.lab.code_state import fingerprint
from headgate.lab.experiments.carry import DECISIVE
from headgate.lab.experiments.folder import MANIFEST, TUNING
from headgate.lab.files import write_file
from headgate.lab.tuning.plan import TunePlan
from headgate.lab.tuning.trial import Trial

FORMAT_VERSION = 1


class TuneFolder:
    """One tuning on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.runs = path / "runs"
        self.log = path / "spark.log"
        self.settings = path / "settings.yaml"
        self.result = path / "tuned.json"
        self.trials = path / "trials.parquet"

    def begin(self, plan: TunePlan, versions: Mapping[str, str]) -> bool:
        """Make the folder, or see that what is in it is the same tuning by the same code; whether it was there."""
        ours: dict[str, JSON] = {
            "version": FORMAT_VERSION,
            "kind": TUNING,
            "code": fingerprint((*DECISIVE, "lab/tuning"), FORMAT_VERSION),
            "plan": json.loads(json.dumps(plan.to_json())),
        }
        manifest = self.path / MANIFEST
        if manifest.is_file():
            self._refuse_other(manifest, ours)
            return True
        if self.path.is_dir() and any(self.path.iterdir()):
            raise InputError(f"{self.path} has other files in it; a folder of its own is needed (--out).")
        self.runs.mkdir(parents=True, exist_ok=True)
        written = {
            **ours,
            "began": datetime.now(UTC).isoformat(timespec="seconds"),
            "headgate": __version__,
            "versions": {"python": platform.python_version(), "numpy": np.__version__, **versions},
        }
        write_file(manifest, json.dumps(written, indent=2) + "\n")
        return False

    def _refuse_other(self, manifest: Path, ours: Mapping[str, JSON]) -> None:
        try:
            theirs = json.loads(manifest.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"{manifest} cannot be read; give another --out, or remove the folder.") from error
        what = []
        if not isinstance(theirs, dict) or theirs.get("kind") != TUNING:
            theirs, what = {}, ["it is of no tuning"]
        elif theirs.get("code") != ours["code"]:
            what.append(f"it was made by other code ({theirs.get('code')}; this is {ours['code']})")
        before, now = theirs.get("plan") or {}, ours["plan"]
        differ = [name for name in now if before.get(name) != now[name]]
        if theirs and differ:
            what.append(f"it is of another tuning (other {', '.join(differ)})")
        if what:
            raise InputError(
                f"{self.path} cannot be gone on with: {' and '.join(what)}. Give another --out, or remove the folder."
            )


def write_trials(path: Path, trials: Sequence[Trial]) -> None:
    """One row per trial; its settings as JSON, as they differ from policy to policy."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {"number": pa.int64(), "runs": pa.int64(), "instance_hours": pa.float64(), "missed_pct": pa.float64()}
    names = ("number", "status", "why", "runs", "instance_hours", "missed_pct", "settings")
    rows = []
    for trial in trials:
        plain = trial.to_json()
        rows.append({**plain, "settings": json.dumps(plain["settings"], sort_keys=True)})
    schema = pa.schema([pa.field(name, kinds.get(name, pa.string())) for name in names])
    unfinished = path.with_name(f".{path.name}")
    pq.write_table(pa.Table.from_pylist(rows, schema), unfinished)
    unfinished.replace(path)
