"""What a tuning is: which policy and space, on which parts of a load, how judged, and how searched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from headgate.core.errors import InputError
from headgate.core.objective import Objective
from headgate.core.objective_form import objective_from
from headgate.core.slo import By
from headgate.core.topology import Topology
from headgate.core.types import JSON
from headgate.lab.experiments.carry import Row
from headgate.lab.experiments.case import Case
from headgate.lab.experiments.model import DEFAULT_INTERVAL_S, Experiment, JobPart, ObjectivePart, PolicyPart
from headgate.lab.tuning.pruning import Prune
from headgate.lab.tuning.searching import Values
from headgate.lab.tuning.space import Space
from headgate.lab.tuning.splitting import Stretch
from headgate.lab.tuning.trial import Minimise
from headgate.policies.frame.base import Context, guards_for
from headgate.runtime.model_file import policy_with_files

_ONE_JOB = Topology(("job",))


@dataclass(frozen=True)
class TunePlan:
    space: Space
    workload: str
    """As the user wrote it, for people."""
    training: Sequence[Stretch]
    held_back: Sequence[Stretch]
    job: JobPart
    asked: ObjectivePart
    seeds: tuple[int, ...] = (0, 1, 2)
    interval_s: float = DEFAULT_INTERVAL_S
    search: str = "optuna"
    minimise: Minimise = Minimise.BOTH
    prune: Prune = Prune.SURE
    trials: int = 64
    seed: int = 0
    files: Mapping[str, str] = field(default_factory=dict)
    """The files that it names, each with a hash of what is in it."""

    @property
    def objective(self) -> Objective:
        return objective_from(self.asked.objective)

    @property
    def allowed_pct(self) -> float:
        """What may be missed."""
        return float(100 * self.objective.slo.allowed_share)

    def cases(self, stretch: Stretch, wanted: Mapping[str, Values]) -> Iterator[Case]:
        """Runs of settings by their names, on one part of the load: for each all seeds."""
        policies = []
        for name, values in wanted.items():
            settings, guards = self.space.split(values)
            policies.append(PolicyPart(name, self.space.policy, settings, guards, stretch.start))
        experiment = Experiment(
            "tuning", (stretch.load,), (self.job,), tuple(policies), (self.asked,), self.seeds, self.interval_s
        )
        return experiment.cases()

    def is_allowed(self, values: Values) -> bool:
        """Whether settings go together."""
        try:
            self.check(values)
        except InputError:
            return False
        return True

    def check(self, values: Values) -> None:
        """Raise an ``InputError`` where the policy cannot be made with such settings."""
        settings, guards = self.space.split(values)
        guards_for(policy_with_files(self.space.policy, Context(self.objective, _ONE_JOB), settings), guards)

    def missed_pct(self, row: Row) -> float | None:
        """What a run missed: late records where the objective counts records, and time in violation otherwise."""
        late: float | None = row["late_records_pct"]
        violated: float | None = row["slo_violation_pct"]
        by_records = self.objective.slo.by is By.RECORDS and late is not None
        return late if by_records else violated

    def to_json(self) -> dict[str, JSON]:
        """All that the runs and the course of the search depend on, as plain data."""
        return {
            "space": self.space.to_json(),
            "workload": self.workload,
            "training": [asdict(one) for one in self.training],
            "held_back": [asdict(one) for one in self.held_back],
            "job": asdict(self.job),
            "objective": dict(self.asked.objective),
            "seeds": list(self.seeds),
            "interval_s": self.interval_s,
            "search": self.search,
            "minimise": str(self.minimise),
            "prune": str(self.prune),
            "trials": self.trials,
            "seed": self.seed,
            "files": dict(self.files),
        }
