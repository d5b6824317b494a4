"""Objectives as plain data, the form of YAML and JSON, and back.

>>> form = {"slo": "latency p99 < 2s", "per": "6h", "by": "time", "cost": 12, "price": 0.25, "instances": [1, 8]}
>>> str(objective_from(form))
'latency p99 < 2s per 6h by time, cost < 12 per day, price 0.25'
>>> objective_from(objective_to_data(objective_from(form))) == objective_from(form)
True
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from headgate.core.errors import InputError, UnknownNameError
from headgate.core.objective import (
    DAY_S,
    CostLimit,
    Objective,
    Slo,
    parse_amount,
    parse_cost,
    parse_objective,
    parse_slo,
)
from headgate.core.types import JSON
from headgate.core.units import exact_duration

SLO_KEYS = ("slo", "per", "by")
COST_KEYS = ("at_most", "per")
KEYS = (*SLO_KEYS, "cost", "price", "instances", "operators")


def objective_from(given: str | Objective | Mapping[str, JSON]) -> Objective:
    """An objective from any of its forms."""
    if isinstance(given, Objective):
        return given
    if isinstance(given, str):
        return parse_objective(given)
    if not isinstance(given, Mapping):
        raise InputError(f"objective {given!r} is not usable; a text or a mapping with {', '.join(KEYS)} is needed.")
    _refuse_unknown("key of an objective", given, KEYS)
    objective = Objective(_slo(given), bounded=False, operators=_operators(given.get("operators")))
    if (instances := given.get("instances")) is not None:
        objective = objective.within(*_bounds(instances))
    if (price := given.get("price")) is not None:
        objective = objective.priced(parse_amount("price", price))
    if (cost := given.get("cost")) is not None:
        objective = replace(objective, cost=_cost(cost))
    return objective


def objective_to_data(objective: Objective) -> dict[str, JSON]:
    """Plain data that reads back as the same objective; unset parts are left out."""
    data = _slo_to_data(objective.slo)
    if objective.cost is not None:
        data["cost"] = {"at_most": objective.cost.amount, "per": exact_duration(objective.cost.period_s)}
    if objective.price_per_instance_hour is not None:
        data["price"] = objective.price_per_instance_hour
    if objective.bounded:
        data["instances"] = [objective.min_instances, objective.max_instances]
    if objective.operators:
        data["operators"] = {name: _slo_to_data(slo) for name, slo in objective.operators.items()}
    return data


def _slo_to_data(slo: Slo) -> dict[str, JSON]:
    goal = str(replace(slo, period_s=DAY_S))
    return {"slo": goal.removesuffix(f" by {slo.by}"), "per": exact_duration(slo.period_s), "by": str(slo.by)}


def _slo(given: Mapping[str, JSON]) -> Slo:
    text = given.get("slo")
    if not isinstance(text, str):
        raise InputError(f"slo {text!r} of an objective is not usable; a text such as 'latency p95 < 10s' is needed.")
    return parse_slo(text, given.get("per"), given.get("by"))


def _operators(given: JSON) -> dict[str, Slo]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InputError(f"operators {given!r} of an objective are not usable; an SLO by name is needed for each.")
    found = {}
    for name, slo in given.items():
        form = {"slo": slo} if isinstance(slo, str) else slo
        if not isinstance(form, Mapping):
            raise InputError(f"objective {slo!r} of operator {name!r} is not usable; a text or a mapping is needed.")
        _refuse_unknown(f"key of operator {name!r}", form, SLO_KEYS)
        found[str(name)] = _slo(form)
    return found


def _bounds(given: JSON) -> tuple[int, int]:
    if (
        isinstance(given, list | tuple)
        and len(given) == 2
        and all(isinstance(count, int) and not isinstance(count, bool) for count in given)
    ):
        return given[0], given[1]
    raise InputError(f"instances {given!r} of an objective are not usable; the fewest and the most, as [1, 8].")


def _cost(given: JSON) -> CostLimit:
    if isinstance(given, Mapping):
        _refuse_unknown("key of cost", given, COST_KEYS)
        return parse_cost(given.get("at_most", "nothing"), given.get("per"))
    if isinstance(given, str):
        amount, _, per = given.partition(" per ")
        return parse_cost(amount, per or None)
    return parse_cost(given)


def _refuse_unknown(kind: str, given: Mapping[str, JSON], known: tuple[str, ...]) -> None:
    for key in given:
        if key not in known:
            raise UnknownNameError(kind, str(key), known)
