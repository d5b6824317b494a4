"""The contract of adaptors as checks: what an engine in any language must offer over HTTP to be scaled.

    check_adaptor("http://127.0.0.1:9000")

The job behind the adaptor must be at work. It is brought to one instance more than it has, and back.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing

from headgate.core.errors import EngineError
from headgate.core.reading_gate import ReadingGate
from headgate.core.types import COUNTERS, Answer, Decision, Instances, Observation, Outcome, Verdict
from headgate.engines.adaptor import OPERATOR, AdaptorEngine
from headgate.testing.contract import ContractViolation, ensure

SETTLES_WITHIN_S = 60.0
ANSWERS_WITHIN_S = 2.0
_LOOK_EVERY_S = 0.2


def check_adaptor(url: str, settles_within_s: float = SETTLES_WITHIN_S) -> None:
    """Run every check on the adaptor at an address."""
    with closing(AdaptorEngine(url)) as engine:
        for check in ADAPTOR_CHECKS:
            try:
                check(engine, settles_within_s)
            except EngineError as error:
                raise ContractViolation(f"{check.__name__}: {error}") from error


def tells_sizes_and_a_reading(engine: AdaptorEngine, settles_within_s: float) -> None:
    """Planned, requested and ready instances, and records that arrived or are done: what a policy needs at least."""
    seen = engine.observe()
    sizes = _sizes(seen)
    ensure(min(sizes.planned, sizes.requested, sizes.ready) >= 0, f"sizes must not be below 0; they were {sizes}")
    ensure(OPERATOR in seen.samples, "there is no sample; a job that is at work has one")
    sample = seen.samples[OPERATOR]
    known = [name for name in (*COUNTERS, "backlog", "latency_s") if getattr(sample, name) is not None]
    ensure(bool({"arrived", "done"} & set(known)), f"the sample tells neither arrived nor done, only {known}")


def counters_do_not_fall(engine: AdaptorEngine, settles_within_s: float) -> None:
    """What is counted only grows, and no more is done than has arrived."""
    before = engine.observe().samples[OPERATOR]
    after = engine.observe().samples[OPERATOR]
    for name in COUNTERS:
        first, second = getattr(before, name), getattr(after, name)
        ensure(first is None or (second is not None and second >= first), f"{name} fell from {first} to {second}")
    gate = ReadingGate()
    for sample in (before, after):
        for event in gate.check(Observation(sample.at_s, {OPERATOR: sample}, {})).events:
            ensure(False, f"a reading would be refused: {event.detail}")
    if after.arrived is not None and after.done is not None:
        ensure(after.done <= after.arrived, f"{after.done} records are done, and only {after.arrived} have arrived")


def takes_a_size_and_gives_it_back(engine: AdaptorEngine, settles_within_s: float) -> None:
    """A size that was accepted is planned at once and ready in the end, out as well as in."""
    size = _sizes(engine.observe()).planned
    for wanted in (size + 1, size):
        answer = _applied(engine, wanted)
        ensure(answer.outcome.is_taken, f"size {wanted} was {answer.outcome}: {answer.detail}")
        planned = _sizes(engine.observe()).planned
        ensure(planned == wanted, f"after size {wanted} was {answer.outcome}, {planned} are planned")
        until_s = time.monotonic() + settles_within_s
        while (ready := _sizes(engine.observe()).ready) != wanted:
            ensure(
                time.monotonic() < until_s, f"{settles_within_s:g} s after size {wanted} was wanted, {ready} are ready"
            )
            time.sleep(_LOOK_EVERY_S)


def the_same_size_again_changes_nothing(engine: AdaptorEngine, settles_within_s: float) -> None:
    """A size is desired state: it is repeated in every call."""
    before = _sizes(engine.observe())
    for _ in range(2):
        answer = _applied(engine, before.planned)
        ensure(answer.outcome is Outcome.UNCHANGED, f"the size that it has was {answer.outcome}, not unchanged")
    ensure(_sizes(engine.observe()) == before, f"the same size again turned {before} into {_sizes(engine.observe())}")


def refuses_what_is_not_a_size(engine: AdaptorEngine, settles_within_s: float) -> None:
    """What cannot be a size is refused with a status of 400 to 499, and changes nothing."""
    before = _sizes(engine.observe()).planned
    for nonsense in ('{"version": 1, "size": -1}', '{"version": 1, "size": "many"}', '{"version": 1}', "size=3", "[]"):
        status = engine.send_raw(nonsense)
        ensure(400 <= status < 500, f"{nonsense} was answered with status {status}; 400 to 499 is needed")
    planned = _sizes(engine.observe()).planned
    ensure(planned == before, f"what is not a size turned {before} planned instances into {planned}")


def answers_in_time(engine: AdaptorEngine, settles_within_s: float) -> None:
    """The caller waits: an adaptor answers from what it knows, without measuring."""
    for action, ask in (
        ("observe", engine.observe),
        ("apply", lambda: _applied(engine, _sizes(engine.observe()).planned)),
    ):
        began_s = time.monotonic()
        ask()
        took_s = time.monotonic() - began_s
        ensure(took_s <= ANSWERS_WITHIN_S, f"{action} took {took_s:.1f} s; {ANSWERS_WITHIN_S:g} s are allowed")


ADAPTOR_CHECKS: tuple[Callable[[AdaptorEngine, float], None], ...] = (
    tells_sizes_and_a_reading,
    counters_do_not_fall,
    takes_a_size_and_gives_it_back,
    the_same_size_again_changes_nothing,
    refuses_what_is_not_a_size,
    answers_in_time,
)
"""Every check, in the order in which :func:`check_adaptor` runs them."""


def _sizes(seen: Observation) -> Instances:
    return seen.instances[OPERATOR]


def _applied(engine: AdaptorEngine, size: int) -> Answer:
    verdict = Verdict(OPERATOR, size, size, size, "check", "the check wants it")
    return engine.apply(Decision(time.time(), "check", {OPERATOR: verdict})).answers[OPERATOR]
