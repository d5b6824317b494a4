"""Another policy for a job that runs: it takes effect at the next decision, and the history stays."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from headgate.core.errors import InputError
from headgate.core.metrics import MetricSource
from headgate.core.types import Severity
from headgate.policies.frame.base import Context, PolicyMaker
from headgate.rules.model import Constraint, Named
from headgate.rules.rules_policy import Rules, RulesPolicy
from headgate.runtime.loop import ControlLoop
from headgate.runtime.model_file import policy_with_files
from headgate.runtime.wiring import guards_around

logger = logging.getLogger("headgate")


class PolicySwitch:
    """Changes the policy of a loop; safe to call from any thread.

    Each policy comes with the guards that suit it; ``guards`` is what the user set instead, and holds for all of them.
    """

    def __init__(
        self,
        loop: ControlLoop,
        context: Context,
        guards: Mapping[str, object] | None = None,
        constraints: Sequence[Constraint] = (),
    ) -> None:
        self._loop = loop
        self._context = context
        self._guards = dict(guards or {})
        self._constraints = tuple(constraints)

    def change(self, policy: str | PolicyMaker, settings: Mapping[str, object] | None = None, told: str = "") -> None:
        """Put a policy in force at the next decision; one that cannot be used is refused with an ``InputError``."""
        try:
            made = policy_with_files(policy, self._context, settings)
            self._loop.change(made, guards_around(made, self._guards, self._constraints), told)
        except InputError as error:
            self._loop.note("policy-refused", f"{error} The policy in force stays.", severity=Severity.WARNING)
            raise


class RuleFileWatch:
    """Looks at a rule file before each decision, and takes up what has changed if it is valid."""

    def __init__(
        self, switch: PolicySwitch, loop: ControlLoop, path: Path, metrics: Mapping[str, MetricSource]
    ) -> None:
        self._switch = switch
        self._loop = loop
        self._path = path
        self._metrics = dict(metrics)
        self._seen = signature(path)

    def __call__(self) -> None:
        found = signature(self._path)
        if found == self._seen:
            return
        self._seen = found
        try:
            rules = Rules.from_file(self._path, self._metrics)
        except InputError as error:
            self._loop.note("policy-refused", f"{error} The rules in force stay.", severity=Severity.WARNING)
            logger.warning("changed rules are refused: %s", error)
            return
        before = self._loop.policy.policy if isinstance(self._loop.policy, RulesPolicy) else None
        if before == rules.policy:
            return
        told = f"{self._path}: {_difference(() if before is None else (*before.rules, *before.constraints), rules)}"
        try:
            self._switch.change(rules, told=told)
        except InputError as error:
            logger.warning("changed rules are refused: %s", error)


def signature(path: Path) -> tuple[int, int, int] | None:
    """What tells one content of a file from another; ``None`` when there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _difference(before: Sequence[Named], rules: Rules) -> str:
    """Which rules came, went and changed, by name."""
    old = {(type(one), one.name, one.operator): one for one in before}
    after: tuple[Named, ...] = (*rules.policy.rules, *rules.policy.constraints)
    new = {(type(one), one.name, one.operator): one for one in after}
    parts: tuple[tuple[str, list[Named]], ...] = (
        ("new", [one for key, one in new.items() if key not in old]),
        ("gone", [one for key, one in old.items() if key not in new]),
        ("changed", [one for key, one in new.items() if key in old and old[key] != one]),
    )
    told = [f"{word} {', '.join(repr(one.name) for one in found)}" for word, found in parts if found]
    return "; ".join(told) or "the same rules in another order"
