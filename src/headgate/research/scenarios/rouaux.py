"""rouaux-5.2.2 … rouaux-5.2.7: scaling rules on simulated streams, with the document's own results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from headgate.core.objective import parse_objective
from headgate.core.topology import Topology
from headgate.core.types import JSON, Decision, Observation
from headgate.lab.scenario import Progress, ScenarioOutcome, scenario
from headgate.policies.frame.base import Context
from headgate.render.page import Plot, line_plot
from headgate.rules import RulePolicy, Rules, policy, rule
from headgate.rules.fluent import FinishedRule
from headgate.runtime.assembly import wire
from headgate.simulation.engine import SimulatedEngine
from headgate.simulation.queue import QueueNetwork
from headgate.workloads.contract import Workload
from headgate.workloads.shapes import Constant, Periodic
from headgate.workloads.steps import Steps

SAMPLING_S = 5.0
"""The document's own sampling period."""
OPERATOR = "SimpleStatelessOperator"
OBJECTIVE = parse_objective("latency p95 < 10s")
"""Rules do not use it."""


@dataclass
class RulesRun:
    """The observations and decisions of a run."""

    observations: list[Observation] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)

    def __call__(self, observation: Observation | None, decision: Decision | None) -> None:
        assert observation is not None
        assert decision is not None
        self.observations.append(observation)
        self.decisions.append(decision)

    def changes(self, operator: str = OPERATOR) -> list[tuple[float, int, int]]:
        """Return the time, the old size and the new size of each change."""
        verdicts = [(decision.at_s, decision.verdicts[operator]) for decision in self.decisions]
        return [(at_s, verdict.current, verdict.target) for at_s, verdict in verdicts if verdict.change]

    def backlog(self, at_s: float, operator: str = OPERATOR) -> float:
        """Return the queue at the time of a reading."""
        return dict(self.queue(operator))[at_s]

    def queue(self, operator: str = OPERATOR) -> list[tuple[float, float]]:
        """Return the time and the backlog of each reading."""
        backlogs = [(reading.at_s, reading.samples[operator].backlog) for reading in self.observations]
        return [(at_s, backlog) for at_s, backlog in backlogs if backlog is not None]

    def codes(self, operator: str = OPERATOR) -> set[str]:
        return {decision.verdicts[operator].code for decision in self.decisions}

    def plots(self, threshold: float) -> list[Plot]:
        """Plot queues and sizes as the document does."""
        operators = self.observations[0].instances
        queues = {name: [(at_s / 60, backlog) for at_s, backlog in self.queue(name)] for name in operators}
        sizes: dict[str, Sequence[tuple[float, float | None]]] = {
            name: [(reading.at_s / 60, reading.instances[name].ready) for reading in self.observations]
            for name in operators
        }
        return [
            line_plot("Input queue", "records", queues, bound=threshold),
            line_plot("Size", "instances", sizes),
        ]


@dataclass(frozen=True)
class RulesExperiment:
    """Rules on a query with a chain of operators."""

    rules: RulePolicy
    threshold: float
    """The queue above which they scale out."""
    workload: Workload
    service_rate_per_s: float | Mapping[str, float]
    seconds: float
    operators: tuple[str, ...] = (OPERATOR,)

    def play(self, sampling_s: float = SAMPLING_S) -> RulesRun:
        query = Topology(self.operators, tuple(pairwise(self.operators)))
        engine = SimulatedEngine(QueueNetwork(self.workload, self.service_rate_per_s, topology=query))
        made = Rules(self.rules).make(Context(OBJECTIVE, query))
        loop = wire(engine, made, engine, engine_name=engine.name)
        played = RulesRun()
        loop.watchers.append(played)
        for cycle in range(int(self.seconds / sampling_s) + 1):
            engine.advance(cycle * sampling_s)
            loop.tick()
        return played


def _long_queue(by: int, never_above: int, operator: str = OPERATOR) -> FinishedRule:
    return (
        rule("Queue length is above 300 for 30 seconds")
        .scale_out(operator)
        .by(by)
        .never_above(never_above)
        .when("backlog")
        .above("300 tuples")
        .for_at_least(seconds=30)
        .with_no_scale_out_since(minutes=5)
        .once_until_not_met()
    )


def _peaks(*lengths_s: tuple[float, float]) -> Steps:
    """Return a load from pairs of how long the base rate and the following peak last."""
    times_s, rates = [0.0], []
    for base_s, peak_s in lengths_s:
        for rate, duration_s in ((10.0, base_s), (20.0, peak_s)):
            if duration_s:
                times_s.append(times_s[-1] + duration_s)
                rates.append(rate)
    return Steps(times_s, rates, "peaks of 20/s on a base of 10/s")


_FULL_QUEUE = (
    rule("Queue length is above 100 for 5 seconds")
    .scale_out(OPERATOR)
    .by(2)
    .never_above(3)
    .when("backlog")
    .above("100 tuples")
    .for_at_least(seconds=5)
    .once_until_not_met()
)
_EMPTY_QUEUE = (
    rule("Queue length is below 1 for 5 seconds")
    .scale_in(OPERATOR)
    .by(2)
    .never_below(1)
    .when("backlog")
    .below("1 tuple")
    .for_at_least(seconds=5)
    .once_until_not_met()
)
_VERY_LONG_QUEUE = (
    rule("Queue length is above 10000 for 60 seconds")
    .scale_out(OPERATOR)
    .by(2)
    .never_above(3)
    .when("backlog")
    .above("10000 tuples")
    .for_at_least(seconds=60)
    .once_until_not_met()
)

FIRST, SECOND = f"{OPERATOR} (1)", f"{OPERATOR} (2)"
PEAK_EVERY_S, FIRST_PEAK_S = 60.0, 40.0
_PEAKS = Periodic(base=10.0, peak=20.0, high_s=20.0, low_s=40.0)

SCALE_OUT = RulesExperiment(policy(_long_queue(1, 2)), 300, Constant(10.0), 5.0, seconds=600.0)
MORE_CAPACITY = RulesExperiment(policy(_long_queue(2, 3)), 300, Constant(10.0), 5.0, seconds=600.0)
BOTTLENECK = RulesExperiment(
    policy(_long_queue(2, 3, FIRST), _long_queue(2, 3, SECOND)),
    300,
    Constant(10.0),
    {FIRST: 20.0, SECOND: 5.0},
    seconds=600.0,
    operators=(FIRST, SECOND),
)
# The document draws random lengths of its peaks and prints only the first.
SHORT_PEAKS = RulesExperiment(
    policy(_VERY_LONG_QUEUE),
    10_000,
    _peaks((30, 5), (40, 15), (35, 25), (55, 10), (45, 20), (60, 5), (155, 0)),
    10.0,
    seconds=500.0,
)
LONG_PEAKS = RulesExperiment(policy(_FULL_QUEUE, _EMPTY_QUEUE), 100, _PEAKS, 10.0, seconds=380.0)
RELUCTANT = RulesExperiment(
    policy(_FULL_QUEUE, _EMPTY_QUEUE.with_no_scale_out_since(minutes=5)), 100, _PEAKS, 10.0, seconds=720.0
)


NOTES = (
    "The document runs SEEP on a cluster and describes its charts, which are not in the text. Here "
    "operators are queues of exactly the document's rates, instances are ready at once, and readings come every "
    f"{SAMPLING_S:g} s as in the document. Its queue length is the metric backlog.",
    "The rules are the document's own, on an edge as in its Alg. 4.2, followed by all guards. A trigger fires when its "
    "condition holds in all readings of its whole time threshold, so an action follows the crossing of the bound by "
    "that time and up to a reading more. Alg. 4.3 requires readings that span more than the threshold (here: at least "
    "it), takes values at a lower bound for below it (here: not) and looks at each instance by itself (here: their "
    "mean); none of this matters to these figures.",
)


@scenario("rouaux-5.2.2", "λ 10, μ 5: a long queue gets one more instance, and stops growing.")
def scale_out(progress: Progress) -> ScenarioOutcome:
    played = SCALE_OUT.play()
    rows = [
        *_growth(played, SCALE_OUT, "1 → 2 at about 92"),
        _row("queue when scaled, records", _queue_when_scaled(played), "not printed; 5/s × 92 s = 460"),
        _row("queue at the end, records", _at_end(played), "as long as when scaled"),
    ]
    return _outcome(played, SCALE_OUT, rows, progress)


@scenario("rouaux-5.2.3", "λ 10, μ 5: a long queue gets two more instances, and is emptied.")
def more_capacity(progress: Progress) -> ScenarioOutcome:
    played = MORE_CAPACITY.play()
    rows = [
        *_growth(played, MORE_CAPACITY, "1 → 3 at around 90"),
        _row("queue empty again, s", _emptied_s(played), "not printed; emptied progressively"),
        _row("queue at the end, records", _at_end(played), "0"),
    ]
    return _outcome(played, MORE_CAPACITY, rows, progress)


@scenario("rouaux-5.2.4", "Two operators under the same rule: only the slow operator is scaled.")
def bottleneck(progress: Progress) -> ScenarioOutcome:
    played = BOTTLENECK.play()
    rows = [
        _row("changes of operator 1 (μ 20)", _changes_text(played, FIRST), "none"),
        _row("longest queue of operator 1, records", _longest(played, FIRST), "not printed"),
        _row("changes of operator 2 (μ 5), s", _changes_text(played, SECOND), "1 → 3 at approximately 90"),
        _row("queue of operator 2 empty again, s", _emptied_s(played, SECOND), "eventually"),
    ]
    return _outcome(played, BOTTLENECK, rows, progress)


@scenario("rouaux-5.2.5", "Peaks of 20 against μ 10 that are too short for a patient rule: nothing is scaled.")
def short_peaks(progress: Progress) -> ScenarioOutcome:
    played = SHORT_PEAKS.play()
    rows = [
        _row("queue after the first peak of 5 s, records", played.backlog(35.0), "50"),
        _row("longest queue, records", _longest(played), "not printed; never above 10,000"),
        _row("changes", _changes_text(played), "none"),
    ]
    notes = (
        "The lengths of the peaks, 5 to 25 s, are ours but for the first: the document draws them. At the base rate "
        "arrivals equal the service rate, so the backlog of a peak remains until the end.",
    )
    return _outcome(played, SHORT_PEAKS, rows, progress, notes)


@scenario("rouaux-5.2.6", "Peaks of 20 s every minute: out in each of them, and in again when the queue is empty.")
def long_peaks(progress: Progress) -> ScenarioOutcome:
    played = LONG_PEAKS.play()
    rows = [
        *_first_peak(played, LONG_PEAKS),
        _row("changes, s", _changes_text(played), "1 → 3 in a peak, 3 → 1 after it"),
    ]
    notes = (
        "The document says that the operator is scaled roughly 10 s into a peak, when the queue passes 100; by its own "
        "rule this must hold for 5 s more. It also speaks of no scale-out during the last 60 s before a scale-in, "
        "which the printed rule does not require; with it, the operator would still be large at the next peak.",
    )
    return _outcome(played, LONG_PEAKS, rows, progress, notes)


@scenario("rouaux-5.2.7", "The same with five minutes of hysteresis: the size stays, and meets the next peaks.")
def reluctant(progress: Progress) -> ScenarioOutcome:
    played = RELUCTANT.play()
    after = [backlog for at_s, backlog in played.queue() if at_s >= _emptied_s(played)]
    rows = [
        *_first_peak(played, RELUCTANT),
        _row("longest queue in the peaks afterwards, records", max(after), "not printed"),
        _row("changes, s", _changes_text(played), "1 → 3 once"),
    ]
    notes = (
        "The document mentions no scale-in. The empty queue fires its rule once, within the guard time; as the queue "
        "stays empty on three instances, the rule never fires again (Alg. 4.2). With trigger: level the operator would "
        "scale in as soon as the five minutes are over.",
    )
    return _outcome(played, RELUCTANT, rows, progress, notes)


def _growth(played: RulesRun, experiment: RulesExperiment, change: str) -> list[dict[str, JSON]]:
    at_s = next(at_s for at_s, backlog in played.queue() if backlog >= experiment.threshold)
    return [
        _row(f"queue reaches {experiment.threshold:g}, s", at_s, "approximately 60"),
        _row("changes, s", _changes_text(played), change),
    ]


def _first_peak(played: RulesRun, experiment: RulesExperiment) -> list[dict[str, JSON]]:
    (out_s, before, after), *_ = played.changes()
    passed_s = next(at_s for at_s, backlog in played.queue() if backlog >= experiment.threshold)
    return [
        _row("queue reaches 100, s into the first peak", passed_s - FIRST_PEAK_S, "roughly 10"),
        _row(f"{before} → {after}, s into the first peak", out_s - FIRST_PEAK_S, "1 → 3 at this time"),
        _row("queue empty again, s into the first peak", _emptied_s(played) - FIRST_PEAK_S, "cleared progressively"),
    ]


def _changes_text(played: RulesRun, operator: str = OPERATOR) -> str:
    changes = [f"{before} → {after} at {at_s:g}" for at_s, before, after in played.changes(operator)]
    return ", ".join(changes) or "none"


def _queue_when_scaled(played: RulesRun) -> float:
    return played.backlog(played.changes()[0][0])


def _emptied_s(played: RulesRun, operator: str = OPERATOR) -> float:
    """Return when the queue is first empty after the operator was scaled."""
    scaled_s = played.changes(operator)[0][0]
    return next(at_s for at_s, backlog in played.queue(operator) if at_s > scaled_s and backlog == 0)


def _longest(played: RulesRun, operator: str = OPERATOR) -> float:
    return max(backlog for _, backlog in played.queue(operator))


def _at_end(played: RulesRun) -> float:
    return played.queue()[-1][1]


def _row(what: str, value: JSON, document: str) -> dict[str, JSON]:
    return {"what": what, "value": value, "document": document}


def _outcome(
    played: RulesRun,
    experiment: RulesExperiment,
    rows: Sequence[Mapping[str, JSON]],
    progress: Progress,
    notes: Sequence[str] = (),
) -> ScenarioOutcome:
    progress(1.0)
    return ScenarioOutcome(rows, (*NOTES, *notes), played.plots(experiment.threshold))
