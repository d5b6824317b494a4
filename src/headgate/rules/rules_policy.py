"""rules: what most operators trust first — scale when a metric stays beyond a value for a time (rouaux §4.2–4.4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headgate.core.contracts import Guard
from headgate.core.errors import InputError, UnknownNameError
from headgate.core.metrics import MetricSource
from headgate.core.topology import Topology
from headgate.core.types import JSON, Instant, Proposal
from headgate.core.window import DEFAULT_RETENTION_S, Window
from headgate.policies.base import Context, PolicyBase, hold
from headgate.policies.settings import Settings
from headgate.rules import explain
from headgate.rules.conflicts import resolve, wish
from headgate.rules.constraints import constrained
from headgate.rules.evaluate import Evaluator
from headgate.rules.json_form import from_json
from headgate.rules.model import ALL_OPERATORS, Constraint, Named, RulePolicy
from headgate.rules.reading import Known
from headgate.rules.yaml_form import from_yaml


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
            policy = _written(settings, Known(operators))
        require_operators(policy, operators)
        self.policy = policy
        self.subscriptions = policy.subscriptions
        self._evaluator = Evaluator(policy.rules, operators)
        self._told_s = max(DEFAULT_RETENTION_S / 2, 2 * policy.longest_s)
        # What is told of the past lies well within what is kept of it: restored or not, the same is told.
        self.lookback_s = 2 * self._told_s
        self._original: dict[str, int] = {}

    def decide(self, now: Instant, window: Window) -> Proposal:
        self._evaluator.update(window)
        holding = self._evaluator.holding(now)
        fired: dict[int, list[int]] = {}
        for pair in self._evaluator.fired(holding).tolist():
            fired.setdefault(self._evaluator.pairs[pair][1], []).append(pair)
        begun: dict[int, int] = {}
        for pair in self._evaluator.begun().tolist():
            begun.setdefault(self._evaluator.pairs[pair][1], pair)
        targets = {}
        for index, operator in enumerate(self.topology.operators):
            instances = window.instances(operator)
            if instances is None:
                continue
            original = self._original.setdefault(operator, instances.planned)
            if index in fired:
                wishes = [
                    wish(
                        self.policy.rules[self._evaluator.pairs[pair][0]],
                        self._evaluator.of_pair(pair, holding),
                        now,
                        window,
                        operator,
                        instances.planned,
                        original,
                    )
                    for pair in fired[index]
                ]
                targets[operator] = explain.acting(*resolve(wishes), now, self._told_s)
            elif not self.policy.rules:
                targets[operator] = hold(instances, "no-rules", "there are no rules, so the size stays")
            elif not self._evaluator.is_fresh(index, now):
                targets[operator] = hold(instances, "no-data", "no fresh reading that a rule could go by: holding")
            elif index in begun:
                pair = begun[index]
                rule = self.policy.rules[self._evaluator.pairs[pair][0]]
                held = self._evaluator.of_pair(pair, holding)
                targets[operator] = explain.waiting(rule, held, instances, now, self._told_s)
            else:
                targets[operator] = hold(instances, "steady", "the conditions of no rule are met")
        return Proposal(targets)

    def guarded(self, guards: tuple[Guard, ...]) -> tuple[Guard, ...]:
        return constrained(guards, self.policy.constraints, self.objective)

    def _state(self) -> dict[str, JSON]:
        # All else is found again in the window, so that rules which are changed meet the same past.
        return {"original": dict(self._original)}

    def _restore_state(self, state: Mapping[str, JSON]) -> None:
        self._original = {str(name): int(size) for name, size in state["original"].items()}


@dataclass(frozen=True)
class Rules:
    """Rules to run, from Python, a text or a file; give it to ``autoscale`` or ``simulate`` as the policy.

    - ``Rules(policy(rule("queue too long")…))``
    - ``Rules.from_file("rules.yaml")``: a running autoscaler takes up changes of the file
    - ``metrics``: where metrics of your own come from, by name: a callable that is given the operator's name, or
      ``Observed("name", "column")`` of a Spark ``df.observe``
    """

    policy: RulePolicy
    path: Path | None = None
    text: str | None = None
    metrics: Mapping[str, MetricSource] = field(default_factory=dict)

    name = "rules"

    @classmethod
    def from_file(cls, path: str | Path, metrics: Mapping[str, MetricSource] | None = None) -> Rules:
        """The rules in a file, JSON if it is called so and YAML otherwise."""
        text = read_text(Path(path))
        own = dict(metrics or {})
        return cls(parse_rules(text, str(path), Known(metrics=own)), Path(path), text, own)

    @classmethod
    def from_yaml(cls, text: str, metrics: Mapping[str, MetricSource] | None = None) -> Rules:
        own = dict(metrics or {})
        return cls(from_yaml(text, "rules", Known(metrics=own)), None, text, own)

    @classmethod
    def from_json(cls, text: str, metrics: Mapping[str, MetricSource] | None = None) -> Rules:
        own = dict(metrics or {})
        return cls(from_json(text, "rules", Known(metrics=own)), None, None, own)

    def make(self, context: Context) -> RulesPolicy:
        """The policy for these operators; one that a rule names and that is not there is an error, with its line."""
        if self.text is not None:
            source = "rules" if self.path is None else str(self.path)
            known = Known(context.topology.operators, self.metrics)
            policy = parse_rules(self.text, source, known)
        else:
            policy = self.policy
        settings = RulesSettings(file=None if self.path is None else str(self.path), rules=str(policy))
        return RulesPolicy(settings, context, policy)

    def __str__(self) -> str:
        return str(self.policy)


def parse_rules(text: str, source: str, known: Known | None = None) -> RulePolicy:
    """Rules from the text of a file, JSON if the file is called so and YAML otherwise."""
    read = from_json if source.lower().endswith(".json") else from_yaml
    return read(text, source, known)


def read_text(path: Path) -> str:
    """The text of a rule file; the one place where rules touch the disk, and never while deciding."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"rule file {path} is not text in UTF-8: {error.reason} at byte {error.start}.") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"rule file {path} cannot be read: {reason}.") from error


def load_constraints(given: str | Path | RulePolicy | None, topology: Topology) -> tuple[Constraint, ...]:
    """The constraints of a file or of a policy that has nothing else."""
    if given is None:
        return ()
    if isinstance(given, RulePolicy):
        policy, source = given, "the policy"
    else:
        policy, source = parse_rules(read_text(Path(given)), str(given), Known(topology.operators)), str(given)
    if policy.rules:
        names = ", ".join(repr(rule.name) for rule in policy.rules)
        raise InputError(f"{source} has the rules {names}; only constraints go with another policy.")
    require_operators(policy, topology.operators)
    return policy.constraints


def require_operators(policy: RulePolicy, operators: tuple[str, ...]) -> None:
    """Refuse rules for operators that are not there."""
    named: tuple[Named, ...] = (*policy.rules, *policy.constraints)
    for one in named:
        if one.operator != ALL_OPERATORS and one.operator not in operators:
            kind = type(one).__name__.lower()
            raise UnknownNameError(f"operator in {kind} {one.name!r}", one.operator, operators)


def _written(settings: RulesSettings, known: Known) -> RulePolicy:
    if settings.rules:
        return parse_rules(settings.rules, "rules", known)
    if settings.file is not None:
        return parse_rules(read_text(Path(settings.file)), settings.file, known)
    return RulePolicy()
