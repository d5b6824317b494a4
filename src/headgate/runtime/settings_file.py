"""Settings kept in a file: a policy with its settings and guards, as ``headgate lab tune`` writes them.

A file is YAML; every mistake in it is told with its line and column.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headgate.core.errors import InputError, UnknownNameError, cause_of
from headgate.policies.frame.base import GuardSettings, PolicyMaker, policy_class
from headgate.policies.frame.settings import Settings, make_settings
from headgate.rules.fields import FieldReader, Fields
from headgate.rules.keys import Key
from headgate.rules.nodes import Mapping as MappingNode
from headgate.rules.nodes import Node, RuleErrors, Scalar, ScalarKind
from headgate.rules.yaml_form import yaml_nodes
from headgate.runtime.model_file import SETTING as MODEL_FILE

VERSION = 1
_SCALARS = {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}
KEYS = {
    "version": Key("The version of this format.", {"const": VERSION}, required=True),
    "policy": Key("Which policy; headgate policies lists them.", {"type": "string"}, required=True),
    "settings": Key("Settings of the policy; those not named keep their defaults.", _SCALARS),
    "guards": Key("Settings of the guards.", _SCALARS),
    "tuned": Key("What they were found on, for people.", _SCALARS),
    "headgate": Key("The version that wrote the file.", {"type": "string"}),
}
_MEANT = {"guard": "guards", "params": "settings", "name": "policy", "parameters": "settings"}


@dataclass(frozen=True, slots=True)
class ChosenSettings:
    """What a settings file says: values as text, as ``--set`` and ``--guard`` take them."""

    policy: str
    settings: Mapping[str, str]
    guards: Mapping[str, str]


def read_settings(path: Path) -> ChosenSettings:
    """The settings in a file; raises an ``InputError`` with everything that is wrong with it."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"settings file {str(path)!r} cannot be read: {cause_of(error)}.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"settings file {str(path)!r} is not UTF-8 text: {error.reason}.") from error
    return _Reader(path).chosen(yaml_nodes(text, str(path)))


def with_settings_file(
    policy: str | PolicyMaker | None,
    settings: Mapping[str, object] | str | Path | None,
    guards: Mapping[str, object] | None,
) -> tuple[str | PolicyMaker | None, Mapping[str, object] | None, Mapping[str, object] | None]:
    """Who decides, with what settings and guards, where a file may say all three; guards given beside it come first."""
    if settings is None or isinstance(settings, Mapping):
        return policy, settings, guards
    path = Path(settings)
    found = read_settings(path)
    if policy is not None and policy != found.policy:
        named = f"policy {policy!r}" if isinstance(policy, str) else "a policy that is set up already"
        raise InputError(f"settings file {str(path)!r} is for policy {found.policy!r}, and does not go with {named}.")
    return found.policy, found.settings, {**found.guards, **(guards or {})}


class _Reader(FieldReader):
    def __init__(self, path: Path) -> None:
        super().__init__(str(path), _MEANT, (KEYS,))
        self._folder = path.parent

    def chosen(self, root: Node) -> ChosenSettings:
        if isinstance(root, Scalar) and root.kind is ScalarKind.NOTHING:
            self._problem(root, "the file is empty; headgate lab tune writes such files.")
            raise RuleErrors(self._source, self._problems)
        fields = self._fields(root, "a settings file", KEYS)
        self._version(fields, VERSION)
        kind = self._value(fields, "policy", lambda text: policy_class(str(text)))
        settings = {} if kind is None else self._checked(fields, "settings", kind.Settings, kind.name)
        guards = self._checked(fields, "guards", GuardSettings, "guards")
        if self._problems or kind is None:
            raise RuleErrors(self._source, self._problems)
        if MODEL_FILE in settings:
            settings[MODEL_FILE] = str(self._folder / settings[MODEL_FILE])
        return ChosenSettings(kind.name, settings, guards)

    def _checked(self, fields: Fields, key: str, kind: type[Settings], owner: str) -> dict[str, str]:
        before = len(self._problems)
        found = self._plain(fields, key)
        if len(self._problems) > before or not found:
            return found
        node = fields[key][1]
        assert isinstance(node, MappingNode)
        known: dict[str, str] = {}
        for name, value in node.entries:
            if not isinstance(name, Scalar):
                continue
            if name.text not in kind.model_fields:
                self._problem(name, str(UnknownNameError(f"setting of {owner}", name.text, kind.model_fields)))
            elif name.text in known:
                self._problem(name, f"{name.text}: found a second time, expected once.")
            else:
                known[name.text] = found[name.text]
                self._alone(kind, owner, name.text, value)
        if len(self._problems) == before:
            # What a model file says is read when the policy is made.
            together = {name: text for name, text in known.items() if name != MODEL_FILE}
            self._made(node, lambda: make_settings(kind, owner, together))
        return known

    def _alone(self, kind: type[Settings], owner: str, name: str, value: Node) -> None:
        """A value that no other could make right is told where it stands."""
        assert isinstance(value, Scalar)
        try:
            make_settings(kind, owner, {name: value.text})
        except InputError as error:
            # Beside the defaults it may be wrong only because another setting is needed with it.
            if "do not go together" not in str(error):
                self._problem(value, str(error))
