"""The contract of engines as checks, for the engines of this package and for yours.

    check_engine(make_engine, settle)

``make_engine`` gives an engine whose operators are at work, and can be brought to ``SMALL`` and to ``LARGE`` instances;
``settle`` lets time pass until an engine has done what it was asked for. Each check makes its own engine and closes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TypeAlias

from headgate.core.contracts import Engine
from headgate.core.errors import EngineError
from headgate.core.types import Decision, Instances, Outcome, Verdict
from headgate.testing.contract import ContractViolation, ensure
from headgate.testing.readings import check_readings

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
                asked = receipt.requested.get(name)
                ensure(asked == size, f"the receipt says that {asked} instances of {name} were requested, not {size}")
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
    """Readings are of now, counters never go back, every batch is told once and sizes stay within the plans, also while
    sizes change."""
    with _opened(factory) as engine:
        settle(engine)
        seen = [engine.observe()]
        for size in (LARGE, SMALL):
            engine.apply(_decision(engine, size))
            seen.append(engine.observe())
            settle(engine)
            # Twice, for nothing may be told again that was told already.
            seen += [engine.observe(), engine.observe()]
        for name in engine.topology().operators:
            ensure(any(name in one.samples for one in seen), f"nothing was read of {name}, which should be at work")
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
