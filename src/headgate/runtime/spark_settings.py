"""Settings from Spark's configuration: ``spark.headgate.windowSize=2m``, where a job's other settings are.

Names are those of the policy's settings, in any case, with or without underscores and the unit at their end, so that
``window_size_s``, ``windowSize`` and ``windowsize`` are the same. ``spark.headgate.guards.`` precedes those of guards.
``minExecutors``, ``maxExecutors`` and ``seed`` are the run's; ``executorGranularity`` and ``executorStrategy`` are the
guards' ``granularity`` and ``strategy``: with these, every parameter of azimi's table 4.4 can be set by its name there.
Arguments of the program win.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from headgate.core.errors import InputError, UnknownNameError
from headgate.core.objective import DEFAULT_MAX_INSTANCES
from headgate.core.plugins import DEFAULT_POLICY
from headgate.policies.frame.base import GuardSettings, PolicyMaker, policy_class

PREFIX = "spark.headgate."
_GUARDS = "guards."
_SYNONYMS = {"executorgranularity": "granularity", "executorstrategy": "strategy"}
"""Guards by azimi's names."""
_FEWEST, _MOST, _SEED = "minExecutors", "maxExecutors", "seed"


@dataclass(frozen=True)
class GivenSettings:
    """What a program says about its run, and what is missing there."""

    policy: str | PolicyMaker | None = None
    settings: Mapping[str, object] | str | Path | None = None
    guards: Mapping[str, object] | None = None
    executors: tuple[int, int] | None = None
    seed: int = 0

    def completed(self, conf: Mapping[str, str]) -> GivenSettings:
        """Return the same with what Spark's configuration says in addition.

        >>> given = GivenSettings(policy="q-learning", settings={"epsilon": 0.1})
        >>> conf = {"spark.headgate.windowSize": "2m", "spark.headgate.epsilon": "0.3", "spark.app.name": "plugs"}
        >>> dict(given.completed(conf).settings)
        {'window_size_s': '2m', 'epsilon': 0.1}
        """
        texts = {key.removeprefix(PREFIX): value for key, value in conf.items() if key.startswith(PREFIX)}
        if not texts:
            return self
        run = {_plain(name): name for name in (_FEWEST, _MOST, _SEED)}
        named = DEFAULT_POLICY if self.policy is None else self.policy
        known = _by_plain_name(policy_class(named).Settings.model_fields) if isinstance(named, str) else {}
        guards_known = _by_plain_name(GuardSettings.model_fields)
        settings: dict[str, object] = {}
        guards: dict[str, object] = {}
        of_run: dict[str, int] = {}
        for key, value in texts.items():
            plain = _plain(key.removeprefix(_GUARDS))
            if key.startswith(_GUARDS) or plain in _SYNONYMS:
                guards[_found(key, _SYNONYMS.get(plain, plain), guards_known)] = value
            elif plain in run:
                of_run[run[plain]] = _whole(key, value)
            else:
                settings[_found(key, plain, known)] = value
        if settings and isinstance(self.settings, str | Path):
            raise InputError(
                f"settings come from {self.settings} and from {PREFIX}{next(iter(texts))}; leave one of them out."
            )
        return replace(
            self,
            settings={**settings, **self.settings} if isinstance(self.settings, Mapping) else settings or self.settings,
            guards={**guards, **(self.guards or {})} or None,
            executors=self.executors or _bounds(of_run),
            seed=self.seed or of_run.get(_SEED, 0),
        )


def _plain(name: str) -> str:
    return name.removesuffix("_s").replace("_", "").lower()


def _by_plain_name(names: Iterable[str]) -> dict[str, str]:
    return {_plain(name): name for name in names}


def _found(key: str, plain: str, known: Mapping[str, str]) -> str:
    if plain not in known:
        raise UnknownNameError(
            "setting in Spark's configuration", f"{PREFIX}{key}", [PREFIX + name for name in known.values()]
        )
    return known[plain]


def _whole(key: str, value: str) -> int:
    if not value.strip().isdecimal():
        raise InputError(f"{PREFIX}{key} is {value!r}; a whole number is needed.")
    return int(value)


def _bounds(of_run: Mapping[str, int]) -> tuple[int, int] | None:
    if _FEWEST not in of_run and _MOST not in of_run:
        return None
    fewest = of_run.get(_FEWEST, 1)
    return fewest, of_run.get(_MOST, max(fewest, DEFAULT_MAX_INSTANCES))
