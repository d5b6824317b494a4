"""One control cycle, pure: the policy proposes, each guard in turn has its say, and what is left is the decision.

This is the whole of it; everything else in Headgate feeds this function or carries out what it returns.
"""

from __future__ import annotations

from collections.abc import Sequence

from headgate.core.contracts import Guard, Policy
from headgate.core.guarded import guarded
from headgate.core.quick import quickly
from headgate.core.types import Decision, Instant, Proposal, Target, Verdict
from headgate.core.window import Window

_verdict, _decision = quickly(Verdict), quickly(Decision)


def step(policy: Policy, guards: Sequence[Guard], now: Instant, window: Window) -> Decision:
    """What to do now, with the reason, the numbers behind it and what each guard did."""
    return guarded(guards, window, _unguarded(policy.name, now, window, policy.decide(now, window)))


def hold(policy_name: str, now: Instant, window: Window, code: str, reason: str) -> Decision:
    """The decision to leave every operator as it is, for one reason."""
    targets = {
        name: Target(instances.planned, code, reason)
        for name in window.operators
        if (instances := window.instances(name)) is not None
    }
    return _unguarded(policy_name, now, window, Proposal(targets))


def _unguarded(policy_name: str, now: Instant, window: Window, proposal: Proposal) -> Decision:
    verdicts = {}
    for name in window.operators:
        instances = window.instances(name)
        if instances is None:
            continue  # An operator of unknown size cannot be resized; the loop reports that it was not observed.
        target = proposal.targets.get(name) or Target(
            instances.planned, "no-opinion", f"{policy_name} has no opinion on {name}"
        )
        size = target.instances
        verdicts[name] = _verdict(name, instances.planned, size, size, target.code, target.reason, target.numbers)
    return _decision(now, policy_name, verdicts)
