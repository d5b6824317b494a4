"""Results in the folder of a lab run, complete or not: read, filtered, sorted, compared with another run's."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path

from headgate.core.errors import InputError, UnknownNameError
from headgate.core.types import JSON
from headgate.lab.experiments.parts import LabFolder, read_parts
from headgate.lab.experiments.run_case import FIGURES, LABELS
from headgate.lab.experiments.summary import (
    COST,
    GroupVerdict,
    RepeatGroup,
    differs,
    groups_by_arrow,
    notes_on,
    read_summary,
    verdicts,
)
from headgate.lab.measures.repeats import Estimate

FORMAT_VERSION = 1


@dataclass(frozen=True)
class LabResults:
    """Groups of a lab run with their verdicts, in the order of their cases."""

    name: str
    path: Path
    groups: Sequence[RepeatGroup]
    judged: Sequence[GroupVerdict]
    done: int
    total: int
    headgate: str = ""
    """The version that made them."""
    experiment: Mapping[str, JSON] = field(default_factory=dict)
    """The experiment, from the manifest."""

    @property
    def rows(self) -> list[tuple[RepeatGroup, GroupVerdict]]:
        return list(zip(self.groups, self.judged, strict=True))

    @property
    def unfinished(self) -> list[str]:
        """A sentence on missing runs, where some are missing."""
        missing = self.total - self.done
        sentence = f"{missing:,} of {self.total:,} runs are still to be done; the same headgate lab run goes on."
        return [sentence] if missing else []

    @property
    def notes(self) -> list[str]:
        return [*self.unfinished, *notes_on(self.groups)]

    def where(self, wanted: Mapping[str, str]) -> LabResults:
        """Return only groups whose labels match the patterns."""
        rows = self.rows
        for label, pattern in wanted.items():
            if label not in LABELS:
                raise UnknownNameError("label", label, LABELS)
            known = list(dict.fromkeys(_label(group, label) for group, _ in rows))
            rows = [(group, verdict) for group, verdict in rows if fnmatchcase(_label(group, label), pattern)]
            if not rows:
                raise InputError(f"no {label} is {pattern!r}; there are {', '.join(map(repr, known))}.")
        return replace(self, groups=[group for group, _ in rows], judged=[verdict for _, verdict in rows])

    def sorted_by(self, figure: str | None) -> LabResults:
        """Sort each contest by a figure; without one, by cost, with groups that met the objective first."""
        if figure is not None and figure not in FIGURES:
            raise UnknownNameError("figure", figure, FIGURES)
        contests = list(dict.fromkeys(group.contest for group in self.groups))

        def order(row: tuple[RepeatGroup, GroupVerdict]) -> tuple[float, ...]:
            group, _ = row
            found = group.figures[COST if figure in (None, "cost") else figure]
            value = math.inf if found is None else found.mean
            return contests.index(group.contest), figure is None and not group.is_met, value, group.place

        rows = sorted(self.rows, key=order)
        return replace(self, groups=[group for group, _ in rows], judged=[verdict for _, verdict in rows])

    def to_json(self) -> dict[str, JSON]:
        return {
            "version": FORMAT_VERSION,
            "name": self.name,
            "headgate": self.headgate,
            "done": self.done,
            "total": self.total,
            "rows": [{**group.to_json(), "verdict": str(verdict)} for group, verdict in self.rows],
            "notes": list(self.notes),
        }


def read_results(path: Path) -> LabResults:
    """Read the results of a run that is complete, running or stopped."""
    folder = LabFolder(path)
    manifest = folder.manifest()
    total, experiment = manifest["cases"], manifest["experiment"]
    if folder.summary.is_file():
        groups, done = read_summary(folder.summary), total
    else:
        table = read_parts(folder.runs)
        groups, done = groups_by_arrow(table), table.num_rows
    if not groups:
        raise InputError(f"{path} has no runs yet; at least one of its {total:,} must be done.")
    return LabResults(
        experiment["name"],
        path,
        groups,
        verdicts(groups),
        done,
        total,
        headgate=str(manifest.get("headgate", "")),
        experiment=experiment,
    )


@dataclass(frozen=True)
class GroupComparison:
    """The same group in two lab runs; ``None`` where it is missing."""

    labels: tuple[str, str, str, str]
    before: RepeatGroup | None
    after: RepeatGroup | None

    def change(self, figure: str) -> tuple[float | None, float | None, bool]:
        """Return a figure before and after, and whether the difference is more than noise."""
        before, after = _figure(self.before, figure), _figure(self.after, figure)
        is_change = before is not None and after is not None and differs(before, after)
        return None if before is None else before.mean, None if after is None else after.mean, is_change

    def to_json(self) -> dict[str, JSON]:
        row: dict[str, JSON] = dict(zip(LABELS, self.labels, strict=True))
        for name in FIGURES:
            before, after, is_change = self.change(name)
            row |= {f"{name}_before": before, f"{name}_after": after, f"{name}_differs": is_change}
        return row


def compared_to_json(pairs: Sequence[GroupComparison]) -> dict[str, JSON]:
    return {"version": FORMAT_VERSION, "rows": [pair.to_json() for pair in pairs]}


def compare(before: LabResults, after: LabResults) -> list[GroupComparison]:
    """Compare two runs group by group, in the order of the second, then groups that only the first has."""
    old = {group.labels: group for group in before.groups}
    new = {group.labels: group for group in after.groups}
    return [GroupComparison(labels, old.get(labels), new.get(labels)) for labels in dict.fromkeys([*new, *old])]


def _figure(group: RepeatGroup | None, name: str) -> Estimate | None:
    return None if group is None else group.figures[name]


def _label(group: RepeatGroup, label: str) -> str:
    return group.labels[LABELS.index(label)]
