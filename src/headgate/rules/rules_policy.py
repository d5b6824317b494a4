"""rules: scale when a metric stays beyond a value for a time (rouaux §4.2–4.4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headgate import documents
from headgate.core.contracts import Guard
from headgate.core.errors import InputError, UnknownNameError
from headgate.core.metrics import MetricSource
from headgate.core.topology import Topology
from headgate.core.types import JSON, Instances, Instant, Proposal, Sample, Target
from headgate.core.window import DEFAULT_RETENTION_S, Window
from headgate.documents import Document
from headgate.policies.frame.base import AnyPolicy, Context, PolicyBase, hold
from headgate.policies.frame.settings import Settings
from headgate.rules import explain
from headgate.rules.conflicts import make_wish, resolve
from headgate.rules.constraints import constrained
from headgate.rules.document import Known, read_policy
from headgate.rules.evaluate import FRESH_FOR_S, Evaluator, Holding
from headgate.rules.model import ALL_OPERATORS, Constraint, FiresOn, Named, Rule, RulePolicy


class RulesSettings(Settings):
    file: str | None = None
    """The rule file, YAML or (by its name) JSON; a running autoscaler takes up its changes."""
    rules: str = ""
    """The rules themselves, as YAML, where they are not in a file."""


class RulesPolicy(PolicyBase[RulesSettings]):
    """Follows rules; without any, it leaves every size alone.

    >>> from headgate.core.objective import parse_objective
    >>> from headgate.core.topology import Topology
    >>> from headgate.core.types import Instances, Observation, Sample
    >>> from headgate.core.window import History
    >>> from headgate.rules import Rules, policy, rule
    >>> short = rule("short").scale_out("job").by(2).never_above(8).when("backlog").above(300).for_at_least(seconds=10)
    >>> job = Topology.single()
    >>> rules = Rules(policy(short)).make(Context(parse_objective("latency < 10s"), job))
    >>> history = History(job)
    >>> for at_s in (0, 5, 10):
    ...     sample = Sample("job", at_s, backlog=500)
    ...     history.observe(Observation(at_s, {"job": sample}, {"job": Instances(1, 1, 1)}))
    >>> target = rules.decide(10, history).targets["job"]
    >>> target.instances, target.reason
    (3, "'short': backlog 500 has been above 300 since +0s, for 10s")
    """

    name = "rules"
    summary = "Scales when metrics stay beyond given values for given times, as written in a rule file."
    Settings = RulesSettings

    def __init__(self, settings: RulesSettings, context: Context, policy: RulePolicy | None = None) -> None:
        super().__init__(settings, context)
        operators = context.topology.operators
        if policy is None:
            policy = _from_settings(settings, Known(operators))
        require_operators(policy, operators)
        self.policy = policy
        self.subscriptions = policy.subscriptions
        self._evaluator = Evaluator(policy.rules, operators)
        # Explanations reach less far back than the window, so that they are the same after a restart.
        self._explained_s = max(DEFAULT_RETENTION_S / 2, policy.longest_s)
        self.lookback_s = self._explained_s + DEFAULT_RETENTION_S / 2
        self._original: dict[str, int] = {}
        self._fired: set[tuple[str, str]] = set()
        """Rules and operators for which a rule on an edge has fired, and whose conditions have been met since."""

    def decide(self, now: Instant, window: Window) -> Proposal:
        evaluator = self._evaluator
        evaluator.update(window)
        holding = evaluator.holding(now)
        fired: dict[int, list[int]] = {}
        repeated: dict[int, Rule] = {}
        self._rearm(now)
        for pair in evaluator.fired(holding).tolist():
            index = evaluator.pairs[pair][1]
            name = self._name(pair)
            if name in self._fired:
                repeated[index] = self.policy.rules[evaluator.pairs[pair][0]]
                continue
            fired.setdefault(index, []).append(pair)
            if self.policy.rules[evaluator.pairs[pair][0]].fires_on is FiresOn.EDGE:
                self._fired.add(name)
        begun = evaluator.begun()
        targets = {}
        for index, operator in enumerate(self.topology.operators):
            instances = window.instances(operator)
            if instances is None:
                continue
            original = self._original.setdefault(operator, instances.planned)
            if index in fired:
                wishes = [
                    make_wish(*self._of_pair(pair, holding), now, window, operator, instances.planned, original)
                    for pair in fired[index]
                ]
                targets[operator] = explain.acting(*resolve(wishes), self._explained_s)
            elif index in repeated:
                reason = f"{repeated[index].name!r} has fired, and fires again after its conditions were not met"
                targets[operator] = hold(instances, "has-fired", reason)
            elif index in begun and evaluator.is_fresh(index, now):
                pair = self._of_pair(begun[index], holding)
                targets[operator] = explain.waiting(*pair, instances, self._explained_s)
            else:
                targets[operator] = self._idle(index, instances, now, window.sample(operator))
        return Proposal(targets)

    def _rearm(self, now: Instant) -> None:
        """Let rules fire again whose conditions a reading at the present size does not meet."""
        if not self._fired:
            return
        beyond = set(self._evaluator.beyond().tolist())
        for pair, (_, index) in enumerate(self._evaluator.pairs):
            if pair not in beyond and self._evaluator.is_fresh(index, now):
                self._fired.discard(self._name(pair))

    def _name(self, pair: int) -> tuple[str, str]:
        """Return the names of the rule and the operator of a pair."""
        rule, operator = self._evaluator.pairs[pair]
        return self.policy.rules[rule].name, self.topology.operators[operator]

    def _of_pair(self, pair: int, holding: NDArray[np.bool_]) -> tuple[Rule, list[Holding]]:
        return self.policy.rules[self._evaluator.pairs[pair][0]], self._evaluator.of_pair(pair, holding)

    def _idle(self, index: int, instances: Instances, now: Instant, newest: Sample | None) -> Target:
        """Why nothing is to be done."""
        if not self.policy.rules:
            return hold(instances, "no-rules", "there are no rules, so the size stays")
        if self._evaluator.is_fresh(index, now):
            return hold(instances, "steady", "the conditions of no rule are met")
        if newest is not None and now - newest.at_s <= FRESH_FOR_S:
            return hold(instances, "no-reading-yet", "no reading yet, at the present size, that a rule could go by")
        return hold(instances, "no-data", "no fresh reading that a rule could go by: holding")

    def guarded(self, guards: tuple[Guard, ...]) -> tuple[Guard, ...]:
        return constrained(guards, self.policy.constraints, self.objective)

    def _state(self) -> dict[str, JSON]:
        # The rest is recomputed from the window, so that changed rules see the same past.
        fired = {"fired": [list(name) for name in sorted(self._fired)]} if self._fired else {}
        return {"original": dict(self._original), **fired}

    def _restore_state(self, state: Mapping[str, JSON]) -> None:
        self._original = {str(name): int(size) for name, size in state["original"].items()}
        self._fired = {(str(rule), str(operator)) for rule, operator in state.get("fired", [])}


@dataclass(frozen=True)
class Rules:
    """Rules to run, from Python, a text or a file; pass it to ``autoscale`` or ``simulate`` as the policy.

    - ``Rules(policy(rule("queue too long")…))``
    - ``Rules.from_file("rules.yaml")``: a running autoscaler takes up changes of the file
    - ``metrics``: where metrics of your own come from, by name: a callable that takes the operator's name, or
      ``Observed("name", "column")`` of a Spark ``df.observe``
    """

    policy: RulePolicy
    path: Path | None = None
    metrics: Mapping[str, MetricSource] = field(default_factory=dict)
    written: _Written | None = field(default=None, repr=False, compare=False)

    @classmethod
    def from_file(cls, path: str | Path, metrics: Mapping[str, MetricSource] | None = None) -> Rules:
        """The rules in a file, JSON if it is called so and YAML otherwise."""
        return cls._of(_Written(read_text(Path(path)), str(path)), metrics, Path(path))

    @classmethod
    def from_yaml(cls, text: str, metrics: Mapping[str, MetricSource] | None = None) -> Rules:
        return cls._of(_Written(text, "rules"), metrics)

    @classmethod
    def from_json(cls, text: str, metrics: Mapping[str, MetricSource] | None = None) -> Rules:
        return cls._of(_Written(text, "rules.json"), metrics)

    @classmethod
    def _of(cls, written: _Written, metrics: Mapping[str, MetricSource] | None, path: Path | None = None) -> Rules:
        own = dict(metrics or {})
        return cls(written.policy(Known(metrics=own)), path, own, written)

    def make(self, context: Context) -> RulesPolicy:
        """The policy for these operators; one that a rule names and that is not there is an error, with its line."""
        policy, text = self.policy, ""
        if self.written is not None:
            policy = self.written.policy(Known(context.topology.operators, self.metrics))
            text = self.written.text
        settings = RulesSettings(file=None if self.path is None else str(self.path), rules=text or str(policy))
        return RulesPolicy(settings, context, policy)

    def __str__(self) -> str:
        return str(self.policy)


@dataclass(frozen=True)
class _Written:
    """Rules as text: parsed once, and checked again when the operators are known."""

    text: str
    source: str

    def policy(self, known: Known) -> RulePolicy:
        return read_policy(_parsed(self.text, self.source), known)


@lru_cache(maxsize=4)
def _parsed(text: str, source: str) -> Document:
    """The newest few, because the rules of a change are read several times before it is in force."""
    return documents.parse(text, source)


def read_text(path: Path) -> str:
    """The text of a rule file; the one place where rules touch the disk, and never while deciding."""
    return documents.read_text(path, "rule file")


def read_rules(path: Path, known: Known) -> RulePolicy:
    """The rules in a file, checked against the names of the job."""
    return _Written(read_text(path), str(path)).policy(known)


def load_constraints(given: str | Path | RulePolicy | None, topology: Topology) -> tuple[Constraint, ...]:
    """The constraints of a file or of a policy that has nothing else."""
    if given is None:
        return ()
    if isinstance(given, RulePolicy):
        policy, source = given, "the policy"
    else:
        policy, source = read_rules(Path(given), Known(topology.operators)), str(given)
    if policy.rules:
        names = ", ".join(repr(rule.name) for rule in policy.rules)
        raise InputError(f"{source} has the rules {names}; only constraints go with another policy.")
    require_operators(policy, topology.operators)
    return policy.constraints


def require_operators(policy: RulePolicy, operators: tuple[str, ...]) -> None:
    """Refuse rules for operators that are not there."""
    named: tuple[Named, ...] = (*policy.rules, *policy.constraints)
    for rule in named:
        if rule.operator != ALL_OPERATORS and rule.operator not in operators:
            kind = type(rule).__name__.lower()
            raise UnknownNameError(f"operator in {kind} {rule.name!r}", rule.operator, operators)


def require_rules(policy: AnyPolicy) -> None:
    """Refuse the policy of rules where it has none: it would never change a size."""
    if isinstance(policy, RulesPolicy) and policy.settings.file is None and policy.policy == RulePolicy():
        raise InputError(
            "policy 'rules' has no rules to go by; give policy=Rules.from_file(...) of headgate.rules, or the settings "
            "file or rules."
        )


def _from_settings(settings: RulesSettings, known: Known) -> RulePolicy:
    if settings.rules:
        return _Written(settings.rules, "rules").policy(known)
    if settings.file is not None:
        return read_rules(Path(settings.file), known)
    return RulePolicy()
