"""The search: probes and Optuna's draws in batches, then the worst cases made as small as they can be.

The course depends on the seed alone, not on the machine; a time limit ends it between two batches. What was judged is
cached, so that the same search with more time continues where it stopped.
"""

from __future__ import annotations

import hashlib
import inspect
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from headgate.core.errors import InputError
from headgate.core.types import JSON
from headgate.lab.adversary.grammar import (
    PROBES,
    AttackedPolicy,
    Gene,
    Genes,
    Value,
    completed,
    complexity,
    drawn,
    load_text,
    scenario_text,
)
from headgate.lab.adversary.judge import RIVALS, Attack, AttackOutcome, judge
from headgate.lab.processes import workers
from headgate.lab.run_cache import RunCache
from headgate.lab.scenario import Progress
from headgate.lab.tuning.search import BATCH, require_optuna
from headgate.policies.frame.base import policy_class

SEARCHED = 0.7
"""The share of the time after which the search ends and what was found is made smaller."""
STAYS_DEAR = 0.7
"""A case remains dear while it has this share of the extra cost that was found."""
FORMAT_VERSION = 1


class Seek(StrEnum):
    BOTH = "both"
    """Broken objectives first, then cost."""
    LATE = "late"
    COST = "cost"


@dataclass(frozen=True)
class HuntPlan:
    attacked: AttackedPolicy
    seek: Seek = Seek.BOTH
    seconds: float | None = None
    """The time limit."""
    trials: int | None = None
    """The most cases that are drawn; one of the two limits is needed."""
    cases: int = 3
    """How many of the worst are reported."""
    rivals: tuple[str, ...] = RIVALS

    def __post_init__(self) -> None:
        if self.seconds is None and self.trials is None:
            raise InputError("a search needs an end: a time or a number of trials.")

    def attack(self, genes: Genes) -> Attack:
        return Attack(scenario_text(genes, self.attacked), self.rivals)

    def value(self, outcome: AttackOutcome) -> float:
        """Return what the search makes as large as it can."""
        if outcome.harm < 0 or self.seek is Seek.BOTH:
            return outcome.harm
        if self.seek is Seek.COST:
            return 0.0 if outcome.is_broken else outcome.cost
        return outcome.harm if outcome.is_broken else outcome.missed_pct / max(1e-9, outcome.allowed_pct)


@dataclass(frozen=True)
class FoundCase:
    genes: Genes
    outcome: AttackOutcome

    def to_json(self, attacked: AttackedPolicy) -> dict[str, JSON]:
        return {
            "kind": self.outcome.kind,
            "workload": load_text(self.genes, attacked.seed),
            **asdict(self.outcome),
            "genes": dict(self.genes),
        }


@dataclass(frozen=True)
class HuntResult:
    found: Sequence[FoundCase]
    """The smallest first."""
    tried: int
    impossible: int
    """Cases in which nobody who knows the load meets the objective; they do not count."""
    failed: int
    error: str | None
    """The error of a case that failed, if any did."""

    def to_json(self, plan: HuntPlan) -> dict[str, JSON]:
        return {
            "version": FORMAT_VERSION,
            "policy": plan.attacked.policy,
            "objective": str(plan.attacked.objective),
            "seed": plan.attacked.seed,
            "tried": self.tried,
            "impossible": self.impossible,
            "failed": self.failed,
            "cases": [case.to_json(plan.attacked) for case in self.found],
        }


Judge: TypeAlias = Callable[[Sequence[Attack]], Sequence[AttackOutcome]]


def hunt(
    plan: HuntPlan, judge_all: Judge, progress: Progress, clock: Callable[[], float] = time.monotonic
) -> HuntResult:
    """Search, and make the worst cases smaller."""
    began_s = clock()

    def spent(share: float = 1.0) -> float:
        """Return how much of a share of the time is over."""
        return 0.0 if plan.seconds is None else (clock() - began_s) / (share * plan.seconds)

    study, genes = _study(plan), plan.attacked.genes
    judged: dict[str, FoundCase] = {}
    count = 0
    while spent(SEARCHED) < 1 and count < (plan.trials or count + 1):
        proposed = [study.ask() for _ in range(min(BATCH, (plan.trials or count + BATCH) - count))]
        made = [drawn(genes, trial) for trial in proposed]
        attacks = [plan.attack(case) for case in made]
        for trial, case, attack, outcome in zip(proposed, made, attacks, judge_all(attacks), strict=True):
            study.tell(trial, plan.value(outcome))
            judged.setdefault(attack.text, FoundCase(case, outcome))
        count += len(proposed)
        progress(min(1.0, max(spent(), SEARCHED * count / plan.trials if plan.trials else 0.0)))
    worst = list(_worst(plan, list(judged.values())))
    smaller = []
    for place, found in enumerate(worst):
        share = SEARCHED + (1 - SEARCHED) * (place + 1) / len(worst)
        smaller.append(_smaller(plan, genes, found, judge_all, lambda until=share: spent(until) >= 1))  # type: ignore[misc]  # mypy cannot infer a default of a lambda
        progress(min(1.0, max(spent(), share)))
    errors = [case.outcome.error for case in judged.values() if case.outcome.error is not None]
    return HuntResult(
        sorted(smaller, key=lambda case: (complexity(genes, case.genes), -case.outcome.harm)),
        tried=len(judged),
        impossible=sum(not case.outcome.is_possible for case in judged.values()),
        failed=len(errors),
        error=errors[0] if errors else None,
    )


def _study(plan: HuntPlan) -> Any:
    optuna = require_optuna()
    with warnings.catch_warnings():
        # In Optuna 4 these arguments still count as experimental.
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(
            seed=plan.attacked.seed, multivariate=True, group=True, constant_liar=True, n_startup_trials=3 * BATCH
        )
    study = optuna.create_study(direction="maximize", sampler=sampler)
    for probe in PROBES:
        study.enqueue_trial(_within(plan.attacked.genes, completed(plan.attacked.genes, probe)))
    return study


def _within(genes: Sequence[Gene], known: Genes) -> dict[str, Value]:
    """Return the values of a probe within the ranges, which depend on the objective and the length."""
    return {
        gene.name: value if gene.choices else min(gene.high, max(gene.low, float(value)))
        for gene in genes
        if (value := known.get(gene.name)) is not None
    }


def _worst(plan: HuntPlan, judged: Sequence[FoundCase]) -> Iterator[FoundCase]:
    """Yield the worst cases, each of another kind, load or job."""
    seen: set[tuple[Value, ...]] = set()
    for case in sorted(judged, key=lambda case: -plan.value(case.outcome)):
        key = (case.outcome.kind, *(case.genes[name] for name in ("base", "job")))
        if case.outcome.harm > 0 and key not in seen and len(seen) < plan.cases:
            seen.add(key)
            yield case


def _smaller(
    plan: HuntPlan, genes: Sequence[Gene], case: FoundCase, judge_all: Judge, is_over: Callable[[], bool]
) -> FoundCase:
    """Return the case with everything made simple that is not needed for it."""
    found, has_changed = case, True
    while has_changed:
        has_changed = False
        for gene in genes:
            if gene.name not in found.genes or is_over():
                continue
            tried = [
                completed(genes, {**found.genes, gene.name: value}) for value in gene.simpler(found.genes[gene.name])
            ]
            tried = [candidate for candidate in tried if candidate != found.genes]
            outcomes = judge_all([plan.attack(candidate) for candidate in tried])
            for candidate, outcome in zip(tried, outcomes, strict=True):
                if _remains(case.outcome, outcome):
                    found, has_changed = FoundCase(candidate, outcome), True
                    break
    return found


def _remains(found: AttackOutcome, outcome: AttackOutcome) -> bool:
    """Return whether a smaller case shows the same weakness."""
    if outcome.error is not None or outcome.kind != found.kind or not outcome.is_possible:
        return False
    return found.is_broken or outcome.cost - 1 >= STAYS_DEAR * (found.cost - 1)


def comments_of(case: FoundCase, plan: HuntPlan) -> list[str]:
    """Return what stands above a case in its file."""
    outcome, attacked = case.outcome, plan.attacked
    lines = [
        f"A case on which {attacked.policy} is {outcome.kind}, found by headgate lab break (seed {attacked.seed}).",
        f"Missed: {outcome.missed_pct:.3g} % ({outcome.allowed_pct:.3g} % allowed). "
        f"Cost: {outcome.cost:.3g} times that of a scaler that knows the load and meets the objective.",
    ]
    if outcome.met_by:
        rivals = ", ".join(f"{rival} at {cost:.3g} times that cost" for rival, cost in outcome.met_by.items())
        lines.append(f"Met by {rivals}.")
    return [*lines, "Run it with: headgate lab run FILE"]


def write_cases(folder: Path, result: HuntResult, plan: HuntPlan) -> list[Path]:
    """Write each case as an experiment file, the smallest first, and return the files."""
    files = []
    for number, case in enumerate(result.found, start=1):
        name = f"{plan.attacked.policy}-{number}"
        files.append(folder / f"{name}.yaml")
        files[-1].write_text(
            scenario_text(case.genes, plan.attacked, name=name, comments=comments_of(case, plan)), encoding="utf-8"
        )
    return files


@contextmanager
def judging(attacked: AttackedPolicy, processes: int, folder: Path | None = None) -> Iterator[Judge]:
    """Yield a judge of many cases that caches its outcomes; with one process, cases run in this one."""
    cache: RunCache[Attack, AttackOutcome] = RunCache(
        "break",
        judge,
        partial(_request, policy_code(attacked.policy)),
        to_json=asdict,
        from_json=lambda plain: AttackOutcome(**plain),
        folder=folder,
    )

    def judged(attacks: Sequence[Attack], run: Callable[[Sequence[Attack]], Iterator[AttackOutcome]]) -> list[Any]:
        missing = [attack for attack in dict.fromkeys(attacks) if cache.get(attack) is None]
        for attack, outcome in zip(missing, run(missing), strict=True):
            cache.add(attack, outcome)
        return [cache.get(attack) for attack in attacks]

    if processes == 1:
        yield lambda attacks: judged(attacks, lambda missing: map(judge, missing))
        return
    with workers(processes) as run_in:
        yield lambda attacks: judged(attacks, lambda missing: run_in(judge, missing))


def _request(code: str, attack: Attack) -> dict[str, JSON]:
    return {"attack": asdict(attack), "policy": code}


def policy_code(policy: str) -> str:
    """Return a hash of the file of a policy of another package; Headgate's own are in the cache's fingerprint."""
    kind = policy_class(policy)
    if kind.__module__.startswith("headgate."):
        return ""
    file = inspect.getsourcefile(kind)
    return "" if file is None else hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16]


def found_rows(result: HuntResult, plan: HuntPlan, files: Sequence[Path]) -> list[Mapping[str, JSON]]:
    """Return a row per case for a table, the smallest first."""
    return [
        {
            "file": file.name,
            "": case.outcome.kind,
            "missed, %": round(case.outcome.missed_pct, 2),
            "cost × clairvoyant": round(case.outcome.cost, 2),
            "met by": ", ".join(case.outcome.met_by),
            "load": load_text(case.genes, plan.attacked.seed),
        }
        for file, case in zip(files, result.found, strict=True)
    ]
