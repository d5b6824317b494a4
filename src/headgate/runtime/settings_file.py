"""Settings files: a policy with its settings and guards, as ``headgate lab tune`` writes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from headgate import documents
from headgate.core.errors import InputError, UnknownNameError
from headgate.documents import Form, Mistake, key
from headgate.documents.form import Mistakes
from headgate.documents.values import Plain, Value, only_version
from headgate.policies.frame.base import GuardSettings, PolicyMaker, policy_class
from headgate.policies.frame.settings import Settings, make_settings
from headgate.runtime.model_file import SETTING as MODEL_FILE

VERSION = 1


@dataclass(frozen=True, slots=True)
class ChosenSettings:
    """The content of a settings file: values as text, as ``--set`` and ``--guard`` take them."""

    policy: str
    settings: Mapping[str, str]
    guards: Mapping[str, str]


class SettingsForm(Form[ChosenSettings]):
    noun = "a settings file"
    synonyms: ClassVar = {"guard": "guards", "params": "settings", "name": "policy", "parameters": "settings"}
    when_empty = "headgate lab tune writes such files"

    version: Annotated[int, only_version(VERSION)] = key("The version of this format.", ...)
    policy: Annotated[Any, Value(policy_class, {"type": "string"})] = key(
        "Which policy; headgate policies lists them.", ...
    )
    settings: Plain = key("Settings of the policy; those not named keep their defaults.", {})
    guards: Plain = key("Settings of the guards.", {})
    tuned: Plain = key("The workload they were found on, for the reader.", {})
    headgate: Annotated[str, Value(str, {"type": "string"})] = key("The version that wrote the file.", "")

    def build(self, context: Path) -> ChosenSettings:
        """The settings in a file of the folder ``context``."""
        mistakes = [
            *_mistakes_in("settings", self.settings, self.policy.Settings, self.policy.name),
            *_mistakes_in("guards", self.guards, GuardSettings, "guards"),
        ]
        if mistakes:
            raise Mistakes(mistakes)
        settings = dict(self.settings)
        if MODEL_FILE in settings:
            settings[MODEL_FILE] = str(context / settings[MODEL_FILE])
        return ChosenSettings(self.policy.name, settings, self.guards)


def _mistakes_in(part: str, given: Mapping[str, str], kind: type[Settings], owner: str) -> Iterator[Mistake]:
    are_single_right = True
    for name, text in given.items():
        if name not in kind.model_fields:
            error = UnknownNameError(f"setting of {owner}", name, kind.model_fields)
            yield Mistake(str(error), part, name, at_key=True)
            are_single_right = False
            continue
        try:
            make_settings(kind, owner, {name: text})
        except InputError as error:
            # With the defaults of the others it may be wrong only because another setting is needed with it.
            if "do not go together" not in str(error):
                yield Mistake(str(error), part, name)
                are_single_right = False
    if are_single_right:
        try:
            # A model file is read when the policy is made.
            make_settings(kind, owner, {name: text for name, text in given.items() if name != MODEL_FILE})
        except InputError as error:
            yield Mistake(str(error), part)


def read_settings(path: Path) -> ChosenSettings:
    """Return the settings in a file; an ``InputError`` reports everything that is wrong with it."""
    return documents.read(documents.read_text(path, "settings file"), SettingsForm, str(path), path.parent)


def with_settings_file(
    policy: str | PolicyMaker | None,
    settings: Mapping[str, object] | str | Path | None,
    guards: Mapping[str, object] | None,
) -> tuple[str | PolicyMaker | None, Mapping[str, object] | None, Mapping[str, object] | None]:
    """Return policy, settings and guards, from a settings file if one is named; ``guards`` take precedence."""
    if settings is None or isinstance(settings, Mapping):
        return policy, settings, guards
    path = Path(settings)
    found = read_settings(path)
    if policy is not None and policy != found.policy:
        named = f"policy {policy!r}" if isinstance(policy, str) else "a policy that is set up already"
        raise InputError(f"settings file {str(path)!r} is for policy {found.policy!r}, and does not go with {named}.")
    return found.policy, found.settings, {**found.guards, **(guards or {})}
