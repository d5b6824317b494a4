"""The contract of engines as checks, for the engines of this package and for yours.

    check_engine(make_engine, settle)

``make_engine`` gives an engine whose operators are at work, and can be brought to ``SMALL`` and to ``LARGE`` instances;
``settle`` lets time pass until an engine has carried out a request. Each check makes its own engine and closes it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import TypeAlias

from headgate.core.contracts import Engine
from headgate.core.errors import EngineError
from headgate.core.reading_gate import ReadingGate, Refusal
from headgate.core.types import COUNTERS, Batch, Decision, Instances, Observation, Outcome, Sample, Verdict
from headgate.testing.contract import ContractViolation, ensure

NOW_S = 1.0
"""What a reading says is the state of now: it may be older than its observation by no more than this."""
GAUGES = ("age_s", "backlog", "latency_s", "running_s")
COUNTED_WITHIN = 0.01
"""By what share the records of batches may differ from what was counted as done: rows are not always offsets."""
_ROUNDING = 1e-6


def check_readings(observations: Sequence[Observation], operator: str) -> None:
    """Run every check on the observations of one engine, oldest first, of an operator that has been at work."""
    for check in READING_CHECKS:
        check(observations, operator)


def readings_are_of_now(observations: Sequence[Observation], operator: str) -> None:
    """Time goes on; a reading is of the moment of its observation, and what it rests on that is older has an age."""
    for before, after in pairwise(observations):
        ensure(after.at_s >= before.at_s, f"an observation of {after.at_s} came after one of {before.at_s}")
    for observation, sample in _readings(observations, operator):
        behind_s = observation.at_s - sample.at_s
        ensure(
            0 <= behind_s <= NOW_S,
            f"a reading of {operator} is {behind_s:g} s older than its observation; it should say what is now, and "
            "tell the age of what that rests on",
        )
        for name in GAUGES:
            value = getattr(sample, name)
            ensure(value is None or value >= 0, f"{name} of {operator} was {value}; it cannot be negative")
        ended_s = sample.batch_ended_s
        ensure(
            ended_s is None or ended_s <= sample.at_s + _ROUNDING,
            f"a batch of {operator} that ends at {ended_s} was reported at {sample.at_s}",
        )


def counters_never_go_back(observations: Sequence[Observation], operator: str) -> None:
    """Whatever happens to the size, what was counted stays counted."""
    samples = [sample for _, sample in _readings(observations, operator)]
    known = 0
    for name in COUNTERS:
        values = [value for sample in samples if (value := getattr(sample, name)) is not None]
        known += len(values) > 1
        for before, after in pairwise(values):
            ensure(after >= before - _ROUNDING, f"the counter {name} of {operator} went back from {before} to {after}")
    ensure(known > 0, f"none of {', '.join(COUNTERS)} of {operator} was ever known")


def every_batch_is_reported_once(observations: Sequence[Observation], operator: str) -> None:
    """In the order in which they ended, none again, and all: together they are what was done meanwhile."""
    samples = [sample for _, sample in _readings(observations, operator)]
    newest: dict[str, Batch] = {}
    for sample in samples:
        for batch in sample.batches:
            before = newest.get(batch.query)
            ensure(
                before is None or batch.started_s >= before.ended_s - _ROUNDING,
                f"a batch of {operator} from {batch.started_s} came after one until {before and before.ended_s}",
            )
            ensure(
                batch.started_s <= batch.ended_s <= sample.at_s + _ROUNDING,
                f"a batch of {operator} from {batch.started_s} to {batch.ended_s} was reported at {sample.at_s}",
            )
            newest[batch.query] = batch
    if newest:
        _ensure_complete(samples, operator)


def _ensure_complete(samples: Sequence[Sample], operator: str) -> None:
    counted = [sample for sample in samples if sample.done is not None]
    if len(counted) < 2:
        return
    first, last = counted[0], counted[-1]
    batches = [batch for sample in counted[1:] for batch in sample.batches]
    reported, done = sum(batch.records for batch in batches), (last.done or 0.0) - (first.done or 0.0)
    # The finished part of a running batch is counted before the batch is reported.
    is_between = first.running_s is None and last.running_s is None
    # Before any batch is reported, its records may be all that waited or arrived.
    available = (first.backlog or 0.0) + (last.arrived or 0.0) - (first.arrived or 0.0)
    open_records = 0.0 if is_between else max((batch.records for batch in batches), default=available)
    ensure(
        abs(reported - done) <= open_records + COUNTED_WITHIN * max(reported, done) + _ROUNDING,
        f"the batches of {operator} had {reported:g} records, and {done:g} were counted as done meanwhile",
    )


def sizes_stay_within_the_plans(observations: Sequence[Observation], operator: str) -> None:
    """No size is below 0, and there are never more instances ready than any plan so far wanted."""
    most = 0
    for observation in observations:
        instances = observation.instances[operator]
        lowest = min(instances.planned, instances.requested, instances.ready)
        ensure(lowest >= 0, f"sizes of {operator} cannot be {instances}; none may be negative")
        most = max(most, instances.planned)
        ensure(instances.ready <= most, f"{instances.ready} of {operator} were ready; no plan wanted more than {most}")


def readings_pass_the_gate(observations: Sequence[Observation], operator: str) -> None:
    """A true reading is never refused: values are finite and possible, and counters agree with each other."""
    gate = ReadingGate()
    for observation in observations:
        for event in gate.check(observation).events:
            ensure(
                event.numbers["operator"] != operator or event.kind == Refusal.REBASED,
                f"at {observation.at_s:g} s a reading of {operator} was refused: {event.detail}",
            )


READING_CHECKS: tuple[Callable[[Sequence[Observation], str], None], ...] = (
    readings_are_of_now,
    counters_never_go_back,
    every_batch_is_reported_once,
    sizes_stay_within_the_plans,
    readings_pass_the_gate,
)


def _readings(observations: Sequence[Observation], operator: str) -> Iterator[tuple[Observation, Sample]]:
    """Yield readings with their observations; an engine may repeat a reading within one moment."""
    newest_s = -math.inf
    for observation in observations:
        sample = observation.samples.get(operator)
        if sample is not None and sample.at_s != newest_s:
            newest_s = sample.at_s
            yield observation, sample


EngineFactory: TypeAlias = Callable[[], Engine]
Settle: TypeAlias = Callable[[Engine], None]

SMALL, LARGE = 1, 3
"""The sizes that the checks ask for."""


def check_engine(factory: EngineFactory, settle: Settle) -> None:
    """Run every check on an engine."""
    for check in ENGINE_CHECKS:
        check(factory, settle)


def observes_its_own_operators(factory: EngineFactory, settle: Settle) -> None:
    """The topology stays; every operator has sizes, and every reading belongs to one and is not of the future."""
    with _opened(factory) as engine:
        operators = set(engine.topology().operators)
        for _ in range(2):
            observation = engine.observe()
            ensure(set(engine.topology().operators) == operators, "the topology changed while it was observed")
            ensure(
                set(observation.instances) == operators,
                f"sizes of {sorted(observation.instances)} were observed; the operators are {sorted(operators)}",
            )
            for name, sample in observation.samples.items():
                ensure(name in operators, f"a reading of {name!r} was observed, which is not an operator")
                ensure(sample.operator == name, f"the reading of {name!r} says that it is of {sample.operator!r}")
                ensure(sample.at_s <= observation.at_s, f"the reading of {name!r} is younger than its observation")
            settle(engine)


def reaches_the_decided_size(factory: EngineFactory, settle: Settle) -> None:
    """A decision is planned and requested at once and ready in the end, out as well as in."""
    with _opened(factory) as engine:
        for size in (LARGE, SMALL, LARGE):
            receipt = engine.apply(_decision(engine, size))
            ensure(receipt.outcome is not Outcome.REFUSED, f"{size} instances were refused: {receipt.detail}")
            ensure(receipt.outcome is not Outcome.FAILED, f"going to {size} instances failed: {receipt.detail}")
            for name in engine.topology().operators:
                requested = receipt.requested.get(name)
                ensure(
                    requested == size,
                    f"the receipt says that {requested} instances of {name} were requested, not {size}",
                )
            for name, instances in _sizes(engine).items():
                _ensure_valid(name, instances)
                ensure(
                    instances.planned == instances.requested == size,
                    f"after deciding on {size} instances of {name} there were {instances}",
                )
            settle(engine)
            for name, instances in _sizes(engine).items():
                ensure(
                    instances == Instances(size, size, size),
                    f"once settled there should be {size} instances of {name} throughout; there were {instances}",
                )


def reads_what_holds_together(factory: EngineFactory, settle: Settle) -> None:
    """While sizes change, readings are current, counters never fall, and every batch is reported once."""
    with _opened(factory) as engine:
        settle(engine)
        seen = [engine.observe()]
        for size in (LARGE, SMALL):
            engine.apply(_decision(engine, size))
            seen.append(engine.observe())
            settle(engine)
            # Observe twice: nothing that was reported may be reported again.
            seen += [engine.observe(), engine.observe()]
        for name in engine.topology().operators:
            ensure(
                any(name in observation.samples for observation in seen),
                f"nothing was read of {name}, which should be at work",
            )
            check_readings(seen, name)


def keeps_to_possible_sizes(factory: EngineFactory, settle: Settle) -> None:
    """A size below 0, or beyond what the topology says is possible, is not carried out."""
    with _opened(factory) as engine:
        settle(engine)
        before = _sizes(engine)
        for impossible in _impossible_sizes(engine):
            with suppress(EngineError):
                engine.apply(_decision(engine, impossible))
            ensure(
                _sizes(engine) == before,
                f"deciding on {impossible} instances, which is not possible, turned {before} into {_sizes(engine)}",
            )


def applies_a_decision_only_once(factory: EngineFactory, settle: Settle) -> None:
    """A decision is desired state: to apply it again changes nothing, before and after it has settled."""
    with _opened(factory) as engine:
        for size in (LARGE, SMALL):
            decision = _decision(engine, size)
            engine.apply(decision)
            planned = _planned(engine)
            engine.apply(decision)
            ensure(_planned(engine) == planned, f"applied twice, {size} instances became {_planned(engine)}")
            settle(engine)
            settled = _sizes(engine)
            receipt = engine.apply(decision)
            ensure(
                receipt.outcome is Outcome.UNCHANGED,
                f"applied again once it had settled, a decision was answered with {receipt.outcome}, not unchanged",
            )
            settle(engine)
            ensure(_sizes(engine) == settled, f"applied again, a decision turned {settled} into {_sizes(engine)}")


def holds(factory: EngineFactory, settle: Settle) -> None:
    """A decision to hold leaves every size as it is, and so does one that says nothing."""
    with _opened(factory) as engine:
        settle(engine)
        before = _sizes(engine)
        hold = Decision(
            engine.observe().at_s, "check", {n: _verdict(n, s.planned, s.planned) for n, s in before.items()}
        )
        for decision in (hold, Decision(hold.at_s, "check", {})):
            receipt = engine.apply(decision)
            ensure(receipt.outcome is Outcome.UNCHANGED, f"a hold was answered with {receipt.outcome}, not unchanged")
            settle(engine)
            ensure(_sizes(engine) == before, f"a hold turned {before} into {_sizes(engine)}")


def observing_changes_nothing(factory: EngineFactory, settle: Settle) -> None:
    """However often it is observed, sizes stay as they are."""
    with _opened(factory) as engine:
        engine.apply(_decision(engine, LARGE))
        planned = _planned(engine)
        for _ in range(5):
            engine.observe()
        ensure(_planned(engine) == planned, f"observing turned the plan {planned} into {_planned(engine)}")
        settle(engine)
        ensure(_planned(engine) == planned, f"in the end the plan {planned} had become {_planned(engine)}")


def refuses_an_unknown_operator(factory: EngineFactory, settle: Settle) -> None:
    """A decision on an operator it does not have is refused as a whole, by a receipt or an ``EngineError``."""
    with _opened(factory) as engine:
        before = _planned(engine)
        known = _decision(engine, LARGE + SMALL)
        strange = "no-such-operator"
        decision = Decision(known.at_s, "check", {**known.verdicts, strange: _verdict(strange, SMALL, LARGE)})
        try:
            receipt = engine.apply(decision)
        except EngineError:
            pass
        else:
            ensure(
                receipt.outcome is Outcome.REFUSED,
                f"a decision on an unknown operator was answered with {receipt.outcome}, not refused",
            )
        ensure(_planned(engine) == before, f"part of a refused decision was carried out: {before} → {_planned(engine)}")


def closes_cleanly(factory: EngineFactory, settle: Settle) -> None:
    """Closing twice is fine; afterwards it can neither be observed nor changed, and says so by an ``EngineError``."""
    engine = factory()
    decision = _decision(engine, LARGE)
    engine.close()
    engine.close()
    for what, call in (("observed", engine.observe), ("changed", lambda: engine.apply(decision))):
        try:
            call()
        except EngineError:
            continue
        raise ContractViolation(f"a closed engine could be {what}; it must raise EngineError")


ENGINE_CHECKS: tuple[Callable[[EngineFactory, Settle], None], ...] = (
    observes_its_own_operators,
    reaches_the_decided_size,
    reads_what_holds_together,
    keeps_to_possible_sizes,
    applies_a_decision_only_once,
    holds,
    observing_changes_nothing,
    refuses_an_unknown_operator,
    closes_cleanly,
)
"""Every check, in the order in which :func:`check_engine` runs them."""


@contextmanager
def _opened(factory: EngineFactory) -> Iterator[Engine]:
    engine = factory()
    try:
        yield engine
    finally:
        engine.close()


def _sizes(engine: Engine) -> Mapping[str, Instances]:
    return dict(engine.observe().instances)


def _planned(engine: Engine) -> dict[str, int]:
    return {name: instances.planned for name, instances in _sizes(engine).items()}


def _impossible_sizes(engine: Engine) -> list[int]:
    """A size that no operator can have: below 0, or beyond what the topology says of any of them."""
    topology = engine.topology()
    most = [size for name in topology.operators if (size := topology.sizing_of(name).max_instances) is not None]
    return [-1, *([max(most) + 1] if most else [])]


def _verdict(operator: str, current: int, target: int) -> Verdict:
    return Verdict(operator, current, target, target, "check", "a check of the contract asks for it")


def _decision(engine: Engine, size: int) -> Decision:
    """The decision to bring every operator to a size."""
    observation = engine.observe()
    verdicts = {name: _verdict(name, sizes.planned, size) for name, sizes in observation.instances.items()}
    return Decision(observation.at_s, "check", verdicts)


def _ensure_valid(name: str, instances: Instances) -> None:
    lowest = min(instances.planned, instances.requested, instances.ready)
    ensure(lowest >= 0, f"sizes of {name} cannot be {instances}; none may be negative")
