"""The contract of policies as checks, for the policies of this package and for yours.

>>> check_policy("static")

A policy of yours is given as its class, ``check_policy(MyPolicy)``, with the defaults of its settings.

Each check takes a factory and raises ``ContractViolation`` where the contract is broken; to run them one by one:

    @pytest.mark.parametrize("check", POLICY_CHECKS, ids=lambda check: check.__name__)
    def test_my_policy_keeps_the_contract(check):
        check(lambda context: MyPolicy(MySettings(), context))
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from inspect import signature
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from headgate.core.contracts import Policy
from headgate.core.errors import InputError, StateError
from headgate.core.objective import Objective, parse_objective
from headgate.core.step import step
from headgate.core.topology import Topology
from headgate.core.types import (
    JSON,
    METRIC_FIELDS,
    Decision,
    Instances,
    Instant,
    Observation,
    Proposal,
    Sample,
    Target,
)
from headgate.core.units import format_duration
from headgate.core.window import History, Window
from headgate.policies import Context, make_policy
from headgate.policies.frame.base import AnyPolicy, GuardSettings, PolicyBase, lacking_of
from headgate.policies.frame.settings import make_settings
from headgate.testing.contract import ContractViolation, ensure
from headgate.testing.scenarios import SCENARIOS, LoadScenario, ScenarioRun

PolicyFactory: TypeAlias = Callable[[Context], Policy]
"""Makes a fresh policy."""

_STALE_S = 7200.0
_CODE = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def check_policy(policy: str | type[AnyPolicy] | PolicyFactory) -> None:
    """Run every check on a policy, given by its registered name, by its class or by a factory."""
    factory = factory_of(policy)
    for check in POLICY_CHECKS:
        check(factory)


def last_target(
    policy: str, objective: str | Objective, instances: int, *readings: Sample, **settings: object
) -> Target:
    """Return what a policy wants after the last of some readings of a job with one operator and a fixed size.

    >>> last_target("hpa", "latency < 10s", 5, Sample("job", 0, utilization=0.98)).instances
    7
    """
    job, size = Topology.single(), Instances(instances, instances, instances)
    objective = parse_objective(objective) if isinstance(objective, str) else objective
    made, history = make_policy(policy, Context(objective, job), settings), History(job)
    proposal = Proposal({})
    for reading in readings:
        history.observe(Observation(reading.at_s, {"job": reading}, {"job": size}))
        proposal = made.decide(reading.at_s, history)
    return proposal.targets["job"]


def factory_of(policy: Any) -> PolicyFactory:
    """Return what makes a policy that is given by its name, its class or a function."""
    if isinstance(policy, str):
        return named_policy(policy)
    if isinstance(policy, type) and issubclass(policy, PolicyBase) and _takes(policy, 2):
        return _of_class(policy)
    if not (callable(policy) and _takes(policy, 1)):
        raise InputError(
            f"{getattr(policy, '__name__', repr(policy))} cannot be checked; give the name of a policy, a class that "
            "extends PolicyBase, or a function that makes a policy from a context."
        )
    factory: PolicyFactory = policy
    return factory


def _takes(made_by: Callable[..., object], count: int) -> bool:
    """Whether it can be called with so many arguments."""
    try:
        signature(made_by).bind(*range(count))
    except (TypeError, ValueError):
        return False
    return True


def _of_class(kind: type[AnyPolicy]) -> PolicyFactory:
    """The factory of a class, with its default settings."""
    if lacking := lacking_of(kind):
        raise InputError(f"{kind.__name__} cannot be checked; a policy needs {', '.join(lacking)}.")
    return lambda context: kind(make_settings(kind.Settings, kind.name, {}), context)


def named_policy(name: str) -> PolicyFactory:
    """The factory of a registered policy, with its default settings."""
    return lambda context: make_policy(name, context)


def is_deterministic(factory: PolicyFactory) -> None:
    """Two policies with the same seed propose the same, whatever the seed."""
    for scenario in SCENARIOS:
        for seed in (0, 1):
            twin = _made(factory, scenario, seed)
            for cycle in _run(scenario, _made(factory, scenario, seed)):
                _ensure_same(cycle, twin, scenario, "a second policy with the same seed")


def leaves_its_inputs_unchanged(factory: PolicyFactory) -> None:
    """Neither the window nor anything in it is changed by deciding."""
    for scenario in SCENARIOS:
        looking = _LookingForChanges(_made(factory, scenario))
        for cycle in _run(scenario, looking):
            ensure(not looking.changed, f"deciding changed the window at {cycle.now:g} s of {scenario.name}")


def saves_its_state_as_json(factory: PolicyFactory) -> None:
    """A snapshot is plain JSON, and a snapshot that was taken does not change when the policy goes on."""
    for scenario in SCENARIOS:
        policy = _made(factory, scenario)
        taken: list[tuple[Mapping[str, JSON], str]] = []
        for cycle in _run(scenario, policy):
            snapshot = policy.snapshot()
            taken.append((snapshot, _as_json(snapshot, f"the snapshot at {cycle.now:g} s of {scenario.name}")))
        for snapshot, text in taken:
            ensure(json.dumps(snapshot) == text, f"a snapshot changed after it was taken, in {scenario.name}")


def continues_from_restored_state(factory: PolicyFactory) -> None:
    """Saved at any point and restored into a fresh policy, it goes on as if nothing had happened."""
    for scenario in SCENARIOS:
        policy = _made(factory, scenario)
        restored: list[tuple[Instant, Policy]] = []
        for index, cycle in enumerate(_run(scenario, policy)):
            for saved_s, other in restored:
                _ensure_same(cycle, other, scenario, f"the policy restored from its state at {saved_s:g} s")
            # Not a multiple of anything the policies or the scenarios do.
            if index % 17 == 0:
                other = _made(factory, scenario)
                other.restore(json.loads(json.dumps(policy.snapshot())))
                restored.append((cycle.now, other))


def holds_without_data(factory: PolicyFactory) -> None:
    """Without readings, with readings that say nothing and with stale ones it holds, also after it has learned."""
    for scenario in SCENARIOS:
        learned = _made(factory, scenario)
        for _ in _run(scenario, learned):
            pass
        for policy in (_made(factory, scenario), learned):
            nothing = _proposal(policy, 0.0, History(scenario.topology)).targets
            ensure(not nothing, f"before anything was observed it proposed {dict(nothing)}; nothing is known to size")
            for blindness, window, now in _blind_windows(scenario):
                for name, target in _proposal(policy, now, window).targets.items():
                    ensure(
                        target.instances == scenario.start_instances,
                        f"with {blindness} it proposed {target.instances} instances of {name} "
                        f"({target.reason}); it must hold at {scenario.start_instances}",
                    )


def never_scales_in_on_partial_data(factory: PolicyFactory) -> None:
    """It does without any one metric, and never scales in once readings say nothing at all."""
    for scenario in SCENARIOS:
        for metric in METRIC_FIELDS:
            for _ in _run(scenario, _made(factory, scenario), partial(_without, metric)):
                pass
        half_s = scenario.duration_s / 2
        for cycle in _run(scenario, _made(factory, scenario), partial(_blank_from, half_s)):
            for name, verdict in cycle.decision.verdicts.items():
                ensure(
                    cycle.now < half_s or verdict.proposed >= verdict.current,
                    f"it proposed to scale {name} in from {verdict.current} to {verdict.proposed} "
                    f"at {cycle.now:g} s of {scenario.name}, when no metric was known",
                )


def stays_within_bounds(factory: PolicyFactory) -> None:
    """After the guards, every size lies within the bounds of the objective."""
    for scenario in SCENARIOS:
        for lowest, highest in ((1, 2), (2, 4), (2, 2)):
            bounded = replace(scenario, objective=scenario.objective.within(lowest, highest))
            for cycle in _run(bounded, _made(factory, bounded)):
                for name, target in cycle.decision.targets.items():
                    ensure(
                        lowest <= target <= highest,
                        f"{name} was given {target} instances at {cycle.now:g} s of {scenario.name}; "
                        f"the bounds are {lowest} and {highest}",
                    )


def explains_itself(factory: PolicyFactory) -> None:
    """Every target, a hold too, has a code for machines, a reason for people and numbers that JSON can carry."""
    for scenario in SCENARIOS:
        for cycle in _run(scenario, _made(factory, scenario)):
            for name, target in cycle.proposal.targets.items():
                where = f"of {name} at {cycle.now:g} s of {scenario.name}"
                ensure(isinstance(target.instances, int), f"target {target.instances!r} {where} is no whole number")
                ensure(bool(_CODE.fullmatch(target.code)), f"code {target.code!r} {where} is not like 'slo-violated'")
                ensure(bool(target.reason.strip()), f"the target {where} has no reason")
                _as_json(target.numbers, f"the numbers {where}")


def takes_readings_of_numpy(factory: PolicyFactory) -> None:
    """It proposes the same whether readings are Python's floats or numpy's, in values that JSON can carry."""
    for scenario in SCENARIOS:
        policy = _made(factory, scenario)
        plain = _run(scenario, _made(factory, scenario))
        for expected, cycle in zip(plain, _run(scenario, policy, _of_numpy), strict=True):
            where = f"at {cycle.now:g} s of {scenario.name}, with readings of numpy"
            ensure(
                cycle.proposal == expected.proposal, f"{where}, it proposed {cycle.proposal}, not {expected.proposal}"
            )
            for name, target in cycle.proposal.targets.items():
                ensure(isinstance(target.instances, int), f"{where}, target {target.instances!r} is no whole number")
                _as_json(target.numbers, f"{where}, the numbers of {name}")
            _as_json(policy.snapshot(), f"{where}, the snapshot")


def handles_several_operators(factory: PolicyFactory) -> None:
    """It speaks of the operators of the topology only, and does without one whose size is not known."""
    for scenario in SCENARIOS:
        known = set(scenario.topology.operators)
        for cycle in _run(scenario, _made(factory, scenario)):
            strange = sorted(set(cycle.proposal.targets) - known)
            ensure(not strange, f"it proposed sizes of {strange} at {cycle.now:g} s; there are only {sorted(known)}")
    partly = next(scenario for scenario in SCENARIOS if len(scenario.topology.operators) > 1)
    lost, seen = partly.topology.operators[:2]
    window = History(partly.topology)
    window.observe(Observation(0.0, {seen: Sample(seen, 0.0)}, {seen: Instances(2, 2, 2)}))
    decision = step(_made(factory, partly), (), 0.0, window)
    ensure(lost not in decision.targets, f"it decided on {lost}, whose size is not known")


def refuses_state_that_is_not_its_own(factory: PolicyFactory) -> None:
    """State of another policy, of another version or of nobody raises ``StateError``."""
    scenario = SCENARIOS[0]
    policy = _made(factory, scenario)
    own = policy.snapshot()
    for what, state in (
        ("another policy", {**own, "policy": f"not-{policy.name}"}),
        ("another version", {**own, "version": "another"}),
        ("nobody", {}),
    ):
        try:
            policy.restore(state)
        except StateError:
            continue
        raise ContractViolation(f"it took the state of {what}; it must raise StateError")


POLICY_CHECKS: tuple[Callable[[PolicyFactory], None], ...] = (
    is_deterministic,
    leaves_its_inputs_unchanged,
    saves_its_state_as_json,
    continues_from_restored_state,
    holds_without_data,
    never_scales_in_on_partial_data,
    stays_within_bounds,
    explains_itself,
    takes_readings_of_numpy,
    handles_several_operators,
    refuses_state_that_is_not_its_own,
)
"""Every check, in the order in which :func:`check_policy` runs them."""


def _made(factory: PolicyFactory, scenario: LoadScenario, seed: int = 0) -> Policy:
    return factory(Context(scenario.objective, scenario.topology, seed))


def _proposal(policy: Policy, now: Instant, window: Window) -> Proposal:
    """Return what a policy proposes, or fail with a sentence if that is something else than sizes with reasons."""
    found: object = policy.decide(now, window)
    ensure(isinstance(found, Proposal), f"it returned {found!r}; a Proposal of targets by operator is needed")
    assert isinstance(found, Proposal)
    for name, target in found.targets.items():
        ensure(
            isinstance(target, Target),
            f"it returned {target!r} for {name}; a Target(instances, code, reason) is needed",
        )
    return found


class _Watched:
    """A policy whose last proposal can be looked at after a control cycle."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.name = policy.name
        self.proposal = Proposal({})

    def decide(self, now: Instant, window: Window) -> Proposal:
        self.proposal = _proposal(self._policy, now, window)
        return self.proposal

    def snapshot(self) -> Mapping[str, JSON]:
        return self._policy.snapshot()

    def restore(self, state: Mapping[str, JSON]) -> None:
        self._policy.restore(state)


class _LookingForChanges(_Watched):
    """Compares the window before and after each decision, every few decisions since that is slow."""

    def __init__(self, policy: Policy, every: int = 13) -> None:
        super().__init__(policy)
        self._every = every
        self._decided = 0
        self.changed = False

    def decide(self, now: Instant, window: Window) -> Proposal:
        self._decided += 1
        if self._decided % self._every:
            return super().decide(now, window)
        before = _written(window)
        proposal = super().decide(now, window)
        self.changed = _written(window) != before
        return proposal


class _Cycle(NamedTuple):
    """One control cycle, before its decision is carried out."""

    now: Instant
    window: Window
    proposal: Proposal
    decision: Decision


def _run(scenario: LoadScenario, policy: Policy, alter: Callable[[Sample], Sample] | None = None) -> Iterator[_Cycle]:
    """Drive a scenario with a policy."""
    watched = _Watched(policy)
    guards = GuardSettings().build(scenario.objective)
    run = ScenarioRun(scenario, alter)
    for now in scenario.times():
        run.observe(now)
        decision = step(watched, guards, now, run.history)
        yield _Cycle(now, run.history, watched.proposal, decision)
        run.history.record(decision)
        run.resize(now, decision.targets)


def _blind_windows(scenario: LoadScenario) -> Iterator[tuple[str, Window, Instant]]:
    """Windows that tell nothing about the load, as they would grow from one decision to the next."""
    names = scenario.topology.operators
    count = scenario.start_instances
    sizes = {name: Instances(count, count, count) for name in names}
    silent, blank, stale = (History(scenario.topology) for _ in range(3))
    stale.observe(ScenarioRun(scenario).observe(scenario.interval_s))
    for at_s in scenario.times():
        silent.observe(Observation(at_s, {}, sizes))
        yield "no readings", silent, at_s
        blank.observe(Observation(at_s, {name: Sample(name, at_s) for name in names}, sizes))
        yield "readings that say nothing", blank, at_s
        later_s = at_s + _STALE_S
        stale.observe(Observation(later_s, {}, sizes))
        yield f"a newest reading {format_duration(later_s - scenario.interval_s)} old", stale, later_s


def _without(metric: str, sample: Sample) -> Sample:
    missing: dict[str, Any] = {metric: None}
    return replace(sample, **missing)


def _of_numpy(sample: Sample) -> Sample:
    known = {name: value for name in METRIC_FIELDS if (value := getattr(sample, name)) is not None}
    values: dict[str, Any] = {name: np.float64(value) for name, value in known.items()}
    return replace(sample, **values)


def _blank_from(since_s: Instant, sample: Sample) -> Sample:
    return sample if sample.at_s < since_s else Sample(sample.operator, sample.at_s)


def _written(window: Window) -> str:
    """All that a window holds, in a form that no later change can reach into."""
    samples = {name: window.samples(name) for name in window.operators}
    changes = {name: (window.last_change(name), window.streak(name)) for name in window.operators}
    return repr((list(window.observations), list(window.decisions), samples, changes))


def _as_json(value: Mapping[str, JSON], what: str) -> str:
    try:
        return json.dumps(dict(value), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ContractViolation(f"{what} cannot be written as JSON: {error}") from error


def _ensure_same(cycle: _Cycle, other: Policy, scenario: LoadScenario, who: str) -> None:
    proposal = other.decide(cycle.now, cycle.window)
    ensure(
        proposal == cycle.proposal,
        f"at {cycle.now:g} s of {scenario.name}, {who} proposed {proposal} instead of {cycle.proposal}",
    )
