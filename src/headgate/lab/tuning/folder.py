"""The folder of a tuning: its manifest, the rows of its runs, and the files with its result."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from ruamel.yaml import YAML

from headgate._version import __version__
from headgate.core.types import JSON
from headgate.core.units import format_duration
from headgate.lab.run_folder import TUNING, ResultFolder, fingerprint
from headgate.lab.tuning.plan import TunePlan
from headgate.lab.tuning.space import GUARDS, Value
from headgate.lab.tuning.trial import TuningTrial, importances
from headgate.lab.tuning.tune import TuningResult
from headgate.render.page import write_file
from headgate.runtime.model_file import SETTING as MODEL_FILE
from headgate.runtime.settings_file import VERSION as SETTINGS_VERSION


class TuneFolder(ResultFolder):
    """The folder of ``headgate lab tune``."""

    kind = TUNING
    subject = "plan"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.settings = path / "settings.yaml"
        self.result = path / "tuned.json"
        self.trials = path / "trials.parquet"

    def begin(self, plan: TunePlan, versions: Mapping[str, str]) -> bool:
        """Create the folder; return whether it was there already, of the same tuning by the same code."""
        return self.resume_or_create(fingerprint(TuningResult.__module__), plan.to_json(), {}, versions)


def write_trials(path: Path, trials: Sequence[TuningTrial]) -> None:
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


TUNED_VERSION = 1


def write_settings(path: Path, tuned: TuningResult, home: Path) -> None:
    """Write the recommended settings for :func:`~headgate.runtime.settings_file.read_settings`.

    Where the default stays, only the settings that the user has fixed are written.
    """
    plan = tuned.plan
    texts, guard_texts = plan.space.split(tuned.recommended)
    settings: dict[str, JSON] = {**texts}
    guards: dict[str, JSON] = {**guard_texts}
    for name, value in tuned.recommended.items():
        if name.startswith(GUARDS):
            guards[name.removeprefix(GUARDS)] = _unquoted(value)
        else:
            settings[name] = _unquoted(value)
    if MODEL_FILE in settings:
        # Paths are relative to the settings file.
        settings[MODEL_FILE] = os.path.relpath(home / settings[MODEL_FILE], path.parent)
    seconds = sum(stretch.load.seconds for stretch in plan.training)
    plain: dict[str, JSON] = {
        "version": SETTINGS_VERSION,
        "policy": plan.space.policy,
        "settings": settings,
        "guards": guards,
        "tuned": {
            "workload": plan.workload,
            "job": plan.job.name,
            "objective": plan.objective_part.name,
            "load": f"{format_duration(seconds)}, seeds {', '.join(map(str, plan.seeds))}",
            "search": f"{plan.search}, {len(tuned.trials) - 1} trials, seed {plan.seed}",
            "verdict": tuned.verdict.sentence,
        },
        "headgate": __version__,
    }
    writer = YAML(typ="safe", pure=True)
    writer.default_flow_style = False
    writer.allow_unicode = True
    writer.width = 10_000
    writer.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    out = io.StringIO()
    writer.dump(plain, out)
    write_file(path, out.getvalue())


def _unquoted(value: Value) -> Value:
    """Return a whole number without its decimal point."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def tuned_to_json(tuned: TuningResult) -> dict[str, JSON]:
    plan = tuned.plan
    return {
        "version": TUNED_VERSION,
        "headgate": __version__,
        "plan": plan.to_json(),
        "allowed_pct": plan.allowed_pct,
        "trials": [trial.to_json() for trial in tuned.trials],
        "front": [trial.number for trial in tuned.front],
        "found": tuned.found.number,
        "refused": tuned.refused,
        "runs": tuned.runs,
        "saved_pct": tuned.saved_pct,
        "importance": {
            name: {"cost": cost, "missed": missed}
            for name, (cost, missed) in importances(plan.space, tuned.trials).items()
        },
        "held_back": {
            name: {"instance_hours": list(seen.hours), "missed_pct": list(seen.missed_pct)}
            for name, seen in tuned.held_back.items()
        },
        "verdict": tuned.verdict.to_json(),
    }
