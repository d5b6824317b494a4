"""What the user asks for: a service-level objective, bounds on the size, what an instance costs and what may be spent.

>>> parse_objective("latency p95 < 10s per 6h").slo
LatencySlo(bound_s=10.0, percentile=95.0, period_s=21600.0, by=<By.RECORDS: 'records'>)
>>> str(parse_objective("slow records < 5%, cost <= 12 a day, price 0.25"))
'slow records < 5%, cost < 12 per day, price 0.25'

``latency p95 < 10s`` allows at most 5 % of the records of any day to have their result later than after 10 s. ``per``
sets another period; ``by time`` counts the seconds in which a record was late instead of the late records. Readings may
be numbers of numpy; results are a plain ``bool`` or ``float``, as ``is`` and JSON need.

>>> str(LatencySlo(10.0, percentile=99.0, period_s=6 * 3600, by=By.TIME))
'latency p99 < 10s per 6h by time'
>>> LatencySlo(10.0).allowed_share, ThroughputSlo(0.99).allowed_share
(0.05, 0.01)

As plain data, an objective has the form of YAML and JSON:

>>> form = {"slo": "latency p99 < 2s", "per": "6h", "by": "time", "cost": 12, "price": 0.25, "instances": [1, 8]}
>>> str(objective_from(form))
'latency p99 < 2s per 6h by time, cost < 12 per day, price 0.25'
>>> objective_from(objective_to_data(objective_from(form))) == objective_from(form)
True
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from operator import index
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar

from headgate.core.errors import InputError, UnknownNameError
from headgate.core.topology import Topology
from headgate.core.types import JSON, Sample
from headgate.core.units import exact_duration, exact_number, exact_share, parse_duration_s, parse_share

DAY_S = 86400.0
SHORTEST_PERIOD_S = 60.0
"""Over less than this a share says nothing."""


class By(StrEnum):
    """What a share is a share of."""

    RECORDS = "records"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class LatencySlo:
    """At least ``percentile`` percent of the records of a period have their result within the bound.

    A reading violates it when any record has waited longer: there it can still be helped.
    """

    bound_s: float
    percentile: float = 95.0
    period_s: float = DAY_S
    by: By = By.RECORDS
    """By time: of the period, the share in which no record that was not done was older than the bound."""

    def __post_init__(self) -> None:
        if not 0 < self.bound_s < math.inf:
            raise InputError(f"latency bound {self.bound_s} s is not allowed; it must be finite and above 0.")
        if not 0 < self.percentile <= 100:
            raise InputError(f"percentile {self.percentile} is not allowed; it must be above 0 and at most 100.")
        _check_period(self.period_s)

    @property
    def allowed_share(self) -> float:
        """The share that may be late."""
        return _share(100 - self.percentile) / 100

    def violated_by(self, sample: Sample) -> bool | None:
        latency_s = sample.worst_latency_s
        return None if latency_s is None else bool(latency_s >= self.bound_s)

    def pressure(self, sample: Sample) -> float | None:
        """How much of the objective is used up: 1 is the bound."""
        latency_s = sample.worst_latency_s
        return None if latency_s is None else float(latency_s / self.bound_s)

    def __str__(self) -> str:
        head = f"latency p{exact_number(self.percentile)} < {exact_duration(self.bound_s)}"
        return head + _tail(self.period_s, self.by, By.RECORDS)


@dataclass(frozen=True, slots=True)
class SlowShareSlo:
    """Of one second's records, at most this share is still waiting (backlog / input rate).

    Over a period, at most this share of all its records was slow in that sense.
    """

    share: float
    period_s: float = DAY_S

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise InputError(f"share of slow records {self.share} is not allowed; it must be above 0 and at most 1.")
        _check_period(self.period_s)

    @property
    def by(self) -> By:
        """Always by records: that is what it is a share of."""
        return By.RECORDS

    @property
    def allowed_share(self) -> float:
        """The share that may be slow."""
        return self.share

    def violated_by(self, sample: Sample) -> bool | None:
        pressure = self.pressure(sample)
        return None if pressure is None else bool(pressure >= 1)

    def pressure(self, sample: Sample) -> float | None:
        if sample.backlog is None or sample.input_rate_per_s is None:
            return None
        if sample.backlog <= 0:
            return 0.0
        # Records wait although none arrive: all of them are slow.
        slow_share = sample.backlog / sample.input_rate_per_s if sample.input_rate_per_s > 0 else float("inf")
        return float(slow_share / self.share)

    def __str__(self) -> str:
        return f"slow records < {exact_share(self.share)}" + _tail(self.period_s, self.by, By.RECORDS)


@dataclass(frozen=True, slots=True)
class ThroughputSlo:
    """With at least this probability, the job gets through what arrives: in at least this share of a period."""

    probability: float = 0.95
    period_s: float = DAY_S
    by: By = By.TIME
    """By records: the share of a period's records that arrived while the job was keeping up."""

    def __post_init__(self) -> None:
        if not 0 < self.probability < 1:
            raise InputError(f"throughput target {self.probability} is not allowed; it must lie between 0 and 1.")
        _check_period(self.period_s)

    @property
    def allowed_share(self) -> float:
        """The share in which it may fall behind."""
        return _share(1 - self.probability)

    def violated_by(self, sample: Sample) -> bool | None:
        if sample.backlog is not None and sample.backlog <= 0:
            return False
        if sample.processed_rate_per_s is None or sample.input_rate_per_s is None:
            return None
        return bool(sample.processed_rate_per_s < sample.input_rate_per_s)

    def pressure(self, sample: Sample) -> float | None:
        if sample.processed_rate_per_s is None or sample.input_rate_per_s is None:
            return None
        if sample.processed_rate_per_s <= 0:
            return float("inf") if sample.input_rate_per_s > 0 else 0.0
        return float(sample.input_rate_per_s / sample.processed_rate_per_s)

    def __str__(self) -> str:
        return f"throughput >= {exact_share(self.probability)}" + _tail(self.period_s, self.by, By.TIME)


Slo: TypeAlias = LatencySlo | SlowShareSlo | ThroughputSlo


def _share(value: float) -> float:
    # 100 - 99.9 is not exactly 0.1 in binary, and people will see the difference.
    return round(value, 12)


def _check_period(period_s: float) -> None:
    if not SHORTEST_PERIOD_S <= period_s < math.inf:
        raise InputError(
            f"period {period_s:g} s is not allowed; an objective holds over at least "
            f"{exact_duration(SHORTEST_PERIOD_S)}, and not for ever."
        )


def _tail(period_s: float, by: By, usual: By) -> str:
    """What differs from what goes without saying."""
    per = "" if period_s == DAY_S else f" per {exact_duration(period_s)}"
    return per + ("" if by is usual else f" by {by}")


FORMS = "'latency p95 < 10s', 'slow records < 5%' or 'throughput >= 95%'"

_WHOLE = re.compile(r"(?P<goal>.+?)(?:\s+per\s+(?P<per>.+?))?(?:\s+by\s+(?P<by>.+?))?")
_LATENCY = re.compile(
    r"(?:(?P<before>p\d+(?:\.\d+)?)\s+)?latency(?:\s+(?P<after>p\d+(?:\.\d+)?))?\s*<=?\s*(?P<bound>.+)"
)
_SLOW = re.compile(r"slow(?:\s+records)?\s*<=?\s*(?P<share>.+)")
_THROUGHPUT = re.compile(r"throughput\s*>=?\s*(?P<probability>.+)")
T = TypeVar("T")
_PERIODS = {"minute": "1m", "hour": "1h", "day": "1d", "week": "7d"}


def parse_slo(text: str, per: str | float | None = None, by: str | None = None) -> Slo:
    """A service-level objective from its friendly form; ``per`` and ``by`` may be said apart from it."""
    whole = _WHOLE.fullmatch(" ".join(text.lower().split()))
    if whole is None:
        raise InputError(f"objective {text!r} is not understood; write for example {FORMS}.")
    try:
        period_s = _once("per", whole["per"], per, parse_period_s)
        share_of = _once("by", whole["by"], by, _parse_by)
        slo = _slo(whole["goal"], DAY_S if period_s is None else period_s, share_of)
    except InputError as error:
        raise InputError(f"objective {text!r} is not usable: {error}") from error
    if slo is None:
        raise InputError(f"objective {text!r} is not understood; write for example {FORMS}.")
    return slo


def parse_period_s(value: str | float) -> float:
    """Seconds from ``6h``, ``day``, ``a day`` or a plain number of seconds."""
    if not isinstance(value, str):
        return parse_duration_s(value)
    word = value.strip().lower().removeprefix("a ").strip()
    return parse_duration_s(_PERIODS.get(word, word))


def _slo(goal: str, period_s: float, by: By | None) -> Slo | None:
    if match := _LATENCY.fullmatch(goal):
        if match["before"] and match["after"]:
            raise InputError(f"two percentiles are given, {match['before']} and {match['after']}; one is allowed.")
        percentile = match["before"] or match["after"] or "p95"
        bound_s = parse_duration_s(match["bound"])
        return LatencySlo(bound_s, float(percentile[1:]), period_s, by or By.RECORDS)
    if match := _SLOW.fullmatch(goal):
        if by is By.TIME:
            raise InputError("'by time' is not allowed for slow records; they are a share of records.")
        return SlowShareSlo(parse_share(match["share"]), period_s)
    if match := _THROUGHPUT.fullmatch(goal):
        return ThroughputSlo(parse_share(match["probability"]), period_s, by or By.TIME)
    return None


def _parse_by(value: str) -> By:
    try:
        return By(value.strip().lower())
    except (AttributeError, ValueError):
        raise UnknownNameError("way to count", str(value), map(str, By)) from None


def _once(name: str, inside: str | None, separate: Any, parse: Callable[[Any], T]) -> T | None:
    if inside is not None and separate is not None:
        raise InputError(f"{name!r} is said twice, as {inside!r} and {separate!r}; once is allowed.")
    value = inside if separate is None else separate
    return None if value is None else parse(value)


__all__ = [
    "By",
    "CostLimit",
    "LatencySlo",
    "Objective",
    "Slo",
    "SlowShareSlo",
    "ThroughputSlo",
    "excused_wait_s",
    "parse_objective",
]

HOUR_S = 3600.0
HIGHEST_PRICE = 1e15
"""The highest price of an instance for an hour; sums of higher ones would lose precision."""
SHORTEST_COST_PERIOD_S = HOUR_S
"""Over less than this instances are started and gone."""
LONG_TRIGGER_S = 60.0
"""Without a bound on latency, a trigger interval from this on is one that nobody waits for."""


def excused_wait_s(trigger_interval_s: float, bound_s: float | None) -> float:
    """How much of what records wait for their trigger does not count as latency.

    A trigger interval that is at least as long as the bound (a query that runs once an hour) makes records wait
    whatever the size; for such a query only what exceeds the interval counts.

    >>> excused_wait_s(5.0, 10.0), excused_wait_s(3600.0, 10.0), excused_wait_s(5.0, None)
    (0.0, 3600.0, 0.0)
    """
    longest_s = LONG_TRIGGER_S if bound_s is None else bound_s
    return trigger_interval_s if trigger_interval_s >= longest_s else 0.0


@dataclass(frozen=True, slots=True)
class CostLimit:
    """The most that may be spent in any period, in the unit of the prices."""

    amount: float
    period_s: float = DAY_S

    def __post_init__(self) -> None:
        if not 0 < self.amount < math.inf:
            raise InputError(f"cost limit {self.amount} is not allowed; it must be finite and above 0.")
        if not SHORTEST_COST_PERIOD_S <= self.period_s < math.inf:
            raise InputError(
                f"cost period {self.period_s:g} s is not allowed; money is counted over at least "
                f"{exact_duration(SHORTEST_COST_PERIOD_S)}, and not for ever."
            )

    @property
    def per_hour(self) -> float:
        """What may be spent in an hour if it is spent evenly."""
        return self.amount * HOUR_S / self.period_s

    def __str__(self) -> str:
        period = "day" if self.period_s == DAY_S else exact_duration(self.period_s)
        return f"cost < {exact_number(self.amount)} per {period}"


_NO_SLOS: Mapping[str, Slo] = MappingProxyType({})
DEFAULT_MAX_INSTANCES = 10


@dataclass(frozen=True, slots=True)
class Objective:
    """The whole of what the user asks for.

    Bounds and price hold for every operator whose topology says nothing else.
    """

    slo: Slo
    """From end to end; for one operator, where it has no objective of its own."""
    min_instances: int = 1
    max_instances: int = DEFAULT_MAX_INSTANCES
    price_per_instance_hour: float | None = None
    """What an instance costs for an hour; ``None``: nobody said."""
    operators: Mapping[str, Slo] = field(default_factory=lambda: _NO_SLOS)
    """Objectives of single operators."""
    bounded: bool = True
    """Whether the user set these bounds. Assumed ones must not shrink a running job."""
    cost: CostLimit | None = None
    """The most that all operators together may cost, the other side of the bargain."""

    def __post_init__(self) -> None:
        for name, count in (("min_instances", self.min_instances), ("max_instances", self.max_instances)):
            try:
                index(count)
            except TypeError:
                raise InputError(f"{name} {count!r} is not allowed; it must be a whole number.") from None
        if self.min_instances < 0:
            raise InputError(f"min_instances {self.min_instances} is not allowed; it must be at least 0.")
        if self.max_instances < 1:
            raise InputError(f"max_instances {self.max_instances} is not allowed; it must be at least 1.")
        if self.max_instances < self.min_instances:
            raise InputError(
                f"max_instances {self.max_instances} is below min_instances {self.min_instances}; "
                "it must be at least as large."
            )
        price = self.price_per_instance_hour
        if price is not None and not 0 <= price < math.inf:
            raise InputError(f"price {price} is not allowed; it must be finite and not negative.")
        if price is not None and price > HIGHEST_PRICE:
            raise InputError(f"price {price:g} is not allowed; it is at most {HIGHEST_PRICE:g}.")

    def within(self, min_instances: int, max_instances: int) -> Objective:
        return replace(self, min_instances=min_instances, max_instances=max_instances, bounded=True)

    def priced(self, price_per_instance_hour: float | None) -> Objective:
        """The same at another price; ``None`` leaves the one there is."""
        if price_per_instance_hour is None:
            return self
        return replace(self, price_per_instance_hour=price_per_instance_hour)

    def fitting(self, instances: int) -> Objective:
        """Return it with assumed bounds widened to the size of a running job; bounds that the user set stay."""
        if self.bounded or self.min_instances <= instances <= self.max_instances:
            return self
        lowest, highest = min(self.min_instances, max(1, instances)), max(self.max_instances, instances)
        return replace(self, min_instances=lowest, max_instances=highest)

    def clamp(self, instances: int) -> int:
        return max(self.min_instances, min(self.max_instances, instances))

    @property
    def late_after_s(self) -> float | None:
        """The latency after which a record is late; ``None`` where the objective is not about latency."""
        return self.slo.bound_s if isinstance(self.slo, LatencySlo) else None

    def slo_of(self, operator: str) -> Slo:
        """The objective of one operator."""
        return self.operators.get(operator, self.slo)

    def bounds_of(self, operator: str, topology: Topology) -> tuple[int, int]:
        """Fewest and most instances of one operator."""
        sizing = topology.sizing_of(operator)
        lowest = self.min_instances if sizing.min_instances is None else sizing.min_instances
        highest = self.max_instances if sizing.max_instances is None else sizing.max_instances
        return lowest, max(lowest, highest)

    def prices(self, topology: Topology) -> dict[str, float]:
        """What an instance of each operator costs per hour; without those of which nobody said it.

        A limit on the cost needs them all.
        """
        found = {
            name: self.price_per_instance_hour if own is None else own
            for name in topology.operators
            for own in [topology.sizing_of(name).price_per_instance_hour]
        }
        missing = [name for name, price in found.items() if price is None]
        if self.cost is not None and missing:
            raise InputError(
                f"'{self.cost}' cannot be enforced without a price of {', '.join(missing)}; say what an instance "
                "costs for an hour, as in 'price 0.25'."
            )
        return {name: price for name, price in found.items() if price is not None}

    def __str__(self) -> str:
        parts = [str(self.slo)]
        if self.cost is not None:
            parts.append(str(self.cost))
        if self.price_per_instance_hour is not None:
            parts.append(f"price {exact_number(self.price_per_instance_hour)}")
        return ", ".join(parts)


_COST = re.compile(r"cost\s*<=?\s*(?P<amount>\S+)(?:\s+(?:per|a)\s+(?P<per>.+))?")
_PRICE = re.compile(r"price\s*=?\s*(?P<price>\S+)(?:\s+per\s+instance[- ]hour)?")


def parse_objective(text: str) -> Objective:
    """An objective from its friendly form: an SLO, and after commas what may be spent and what an instance costs."""
    goal, *parts_after_goal = text.split(",")
    objective = Objective(parse_slo(goal), bounded=False)
    for part in parts_after_goal:
        wanted = " ".join(part.lower().split())
        try:
            if match := _COST.fullmatch(wanted):
                _refuse_second("cost", objective.cost)
                objective = replace(objective, cost=parse_cost(match["amount"], match["per"]))
            elif match := _PRICE.fullmatch(wanted):
                _refuse_second("price", objective.price_per_instance_hour)
                objective = objective.priced(parse_amount("price", match["price"]))
            else:
                raise InputError(
                    f"{part.strip()!r} is not understood; write for example 'cost < 12 per day' or 'price 0.25'."
                )
        except InputError as error:
            raise InputError(f"objective {text!r} is not usable: {error}") from error
    return objective


def parse_cost(amount: str | float, per: str | float | None = None) -> CostLimit:
    """A limit on the cost, per day where nothing is said."""
    return CostLimit(parse_amount("cost limit", amount), DAY_S if per is None else parse_period_s(per))


def parse_amount(name: str, value: str | float) -> float:
    """A plain number, in whatever unit prices are."""
    try:
        if isinstance(value, bool):
            raise TypeError
        return float(value)
    except (TypeError, ValueError):
        raise InputError(f"{name} {value!r} is not understood; write a number, as 0.25.") from None


def _refuse_second(name: str, found: object) -> None:
    if found is not None:
        raise InputError(f"the {name} is given twice; once is allowed.")


def equal_shares(topology: Topology) -> dict[str, float]:
    """What part of a bound from end to end each operator gets if all on the longest path through it get the same.

    >>> equal_shares(Topology.of(("a", "b"), ("b", "d"), ("a", "d")))
    {'a': 0.3333333333333333, 'b': 0.3333333333333333, 'd': 0.3333333333333333}
    """
    before: dict[str, int] = {}
    for name in topology.order:
        before[name] = 1 + max((before[source] for source in topology.upstream(name)), default=0)
    after: dict[str, int] = {}
    for name in reversed(topology.order):
        after[name] = 1 + max((after[target] for target in topology.downstream(name)), default=0)
    return {name: 1 / (before[name] + after[name] - 1) for name in topology.operators}


def divided(objective: Objective, topology: Topology, own: Mapping[str, Slo], *, sees_graph: bool) -> Objective:
    """An objective, with the operators' own objectives and bounds that hold for all of them.

    A policy that does not see the whole graph gets the bound divided. So does any policy where an operator has an
    objective of its own, for the others.
    """
    slo, each = objective.slo, dict(own)
    if len(topology.operators) > 1 and (own or not sees_graph) and isinstance(slo, LatencySlo):
        shares = equal_shares(topology)
        each = {name: replace(slo, bound_s=slo.bound_s * share) for name, share in shares.items()} | each
    bounds = [objective.bounds_of(name, topology) for name in topology.operators]
    return replace(objective, operators=each).within(min(low for low, _ in bounds), max(high for _, high in bounds))


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
    objective = Objective(_slo_from(given), bounded=False, operators=_operators(given.get("operators")))
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


def _slo_from(given: Mapping[str, JSON]) -> Slo:
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
        found[str(name)] = _slo_from(form)
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
