"""Notice edits of files that a running loop depends on, such as the rule file of its policy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from headgate.core.metrics import MetricSource
from headgate.rules.model import Named, RulePolicy
from headgate.rules.rules_policy import Rules


class RuleFileWatch:
    """Reads a rule file again when it has changed; ``in_force`` are the rules that the loop follows."""

    def __init__(self, path: Path, in_force: RulePolicy, metrics: Mapping[str, MetricSource]) -> None:
        self.path = path
        self.in_force = in_force
        self._metrics = dict(metrics)
        self._signature = signature(path)

    def changed(self) -> tuple[Rules, str] | None:
        """The rules of an edited file with a summary of the changes, or ``None`` if they are the same.

        An edit that is not valid is an ``InputError``, once.
        """
        found = signature(self.path)
        if found == self._signature:
            return None
        self._signature = found
        rules = Rules.from_file(self.path, self._metrics)
        if rules.policy == self.in_force:
            return None
        return rules, f"{self.path}: {_difference(self.in_force, rules.policy)}"


def signature(path: Path) -> tuple[int, int, int] | None:
    """Modification time, size and inode, which differ when the content does; ``None`` if there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _difference(before: RulePolicy, after: RulePolicy) -> str:
    """Which rules are new, gone and changed, by name."""
    old, new = _by_name(before), _by_name(after)
    parts: tuple[tuple[str, list[Named]], ...] = (
        ("new", [rule for key, rule in new.items() if key not in old]),
        ("gone", [rule for key, rule in old.items() if key not in new]),
        ("changed", [rule for key, rule in new.items() if key in old and old[key] != rule]),
    )
    texts = [f"{word} {', '.join(repr(rule.name) for rule in found)}" for word, found in parts if found]
    return "; ".join(texts) or "the same rules in another order"


def _by_name(policy: RulePolicy) -> dict[tuple[type[Named], str, str], Named]:
    named: tuple[Named, ...] = (*policy.rules, *policy.constraints)
    return {(type(rule), rule.name, rule.operator): rule for rule in named}
