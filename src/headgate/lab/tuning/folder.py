"""The folder of a tuning: what is tuned by what code, the rows of its runs, and what it came to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from headgate.core.errors import InputError
from headgate.core.types import JSON
from headgate.lab.code_state import fingerprint
from headgate.lab.experiments.carry import DECISIVE
from headgate.lab.experiments.folder import TUNING
from headgate.lab.manifest import MANIFEST, begin_folder, other_code, refuse
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
        begin_folder(self.runs, ours, versions)
        return False

    def _refuse_other(self, manifest: Path, ours: Mapping[str, JSON]) -> None:
        try:
            theirs = json.loads(manifest.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"{manifest} cannot be read; give another --out, or remove the folder.") from error
        if not isinstance(theirs, dict) or theirs.get("kind") != TUNING:
            refuse(self.path, ["it is of no tuning"])
        what = other_code(theirs, ours)
        before, now = theirs.get("plan") or {}, ours["plan"]
        differ = [name for name in now if before.get(name) != now[name]]
        if differ:
            what.append(f"it is of another tuning (other {', '.join(differ)})")
        refuse(self.path, what)


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
