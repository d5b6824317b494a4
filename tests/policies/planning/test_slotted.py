"""What the planning policies share: slots, measuring, trust, and state."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from headgate.core.errors import InputError, StateError
from headgate.core.objective import Objective, parse_objective
from headgate.core.topology import Topology
from headgate.core.types import Instances, Observation, Proposal, Sample
from headgate.core.window import History
from headgate.policies import Context, make_policy
from headgate.policies.frame.base import AnyPolicy
from headgate.policies.planning.model import Weights
from headgate.policies.planning.slotted import SlottedPolicy

GRAPH = Topology.of(("parse", "join"))
GOAL = parse_objective("latency < 2s").within(1, 5)
PLAN_EVERY_SLOT: dict[str, dict[str, object]] = {"mdp": {"replan_every_s": 60}}
PLANNERS = ("mdp", "mdp-path", "rl-centralized", "rl-decentralized")


def policy(name: str, objective: Objective = GOAL, /, **settings: object) -> AnyPolicy:
    return make_policy(name, Context(objective, GRAPH), settings)


def look(
    window: History,
    at_s: float,
    rate: float | None = 6.0,
    *,
    sizes: int = 2,
    ready: int | None = None,
    speed: float | None = 5.0,
    warming: bool = False,
    backlog: float | None = None,
    paused_s: float | None = None,
) -> None:
    """Readings of both operators; ``join`` sees half of the rate."""
    samples, instances = {}, {}
    for name, share in (("parse", 1.0), ("join", 0.5)):
        here = None if rate is None else share * rate
        samples[name] = Sample(
            name,
            at_s,
            input_rate_per_s=here,
            processed_rate_per_s=None if speed is None else sizes * speed,
            backlog=backlog,
            latency_s=0.4,
            utilization=None if here is None or speed is None else min(1.0, here / (sizes * speed)),
            warming=warming,
            paused_s=paused_s,
        )
        instances[name] = Instances(sizes, sizes, sizes if ready is None else ready)
    window.observe(Observation(at_s, samples, instances))


def codes(proposal: Proposal) -> set[str]:
    return {target.code for target in proposal.targets.values()}


def slots(count: int, chosen: AnyPolicy, **reading: object) -> Iterator[Proposal]:
    window = History(GRAPH)
    for slot in range(1, count + 1):
        look(window, 60.0 * slot, **reading)  # type: ignore[arg-type]
        yield chosen.decide(60.0 * slot, window)


@pytest.mark.parametrize("name", PLANNERS)
def test_between_slots_it_holds(name: str) -> None:
    chosen, window = policy(name, service_rate_per_s=5), History(GRAPH)
    look(window, 60)
    chosen.decide(60, window)
    for at_s in (70, 90, 119):
        look(window, at_s)
        assert codes(chosen.decide(at_s, window)) == {"between-slots"}
    look(window, 120)
    assert codes(chosen.decide(120, window)) != {"between-slots"}


@pytest.mark.parametrize("name", PLANNERS)
def test_a_threshold_policy_acts_until_a_load_has_been_seen_often_enough(name: str) -> None:
    chosen = policy(name, service_rate_per_s=5, trusted_visits=3, **PLAN_EVERY_SLOT.get(name, {}))
    acting = [codes(proposal) for proposal in slots(6, chosen)]
    assert acting[:3] == [{"start-up"}] * 3
    assert all("start-up" not in entry for entry in acting[3:])


@pytest.mark.parametrize("name", PLANNERS)
def test_a_speed_that_is_not_given_is_measured_before_anything_is_planned(name: str) -> None:
    chosen = policy(name, trusted_visits=0)
    acting = [codes(proposal) for proposal in slots(4, chosen)]
    assert acting[:2] == [{"start-up"}] * 2
    assert acting[2] <= {"plan-stay", "plan-in", "plan-out"}
    model = chosen.snapshot()["model"]
    assert model["service_rates_per_s"] == pytest.approx([5.0, 5.0])
    assert model["shares"] == pytest.approx([1.0, 0.5])


def test_without_a_processed_rate_the_speed_follows_from_how_busy_instances_are() -> None:
    chosen, window = policy("mdp-path"), History(GRAPH)
    for slot in range(1, 4):
        sample = Sample("parse", 60.0 * slot, input_rate_per_s=6.0, utilization=0.75)
        other = Sample("join", 60.0 * slot, input_rate_per_s=3.0, utilization=0.25)
        sizes = {"parse": Instances(2, 2, 2), "join": Instances(3, 3, 3)}
        window.observe(Observation(60.0 * slot, {"parse": sample, "join": other}, sizes))
        chosen.decide(60.0 * slot, window)
    # 6 / (0.75 · 2) and 3 / (0.25 · 3)
    assert chosen.snapshot()["model"]["service_rates_per_s"] == pytest.approx([4.0, 4.0])


def test_a_speed_that_has_moved_is_planned_with_and_what_was_learned_stays() -> None:
    chosen, window = policy("rl-centralized"), History(GRAPH)
    for slot in range(1, 40):
        look(window, 60.0 * slot, speed=5.0 if slot < 20 else 3.0)
        chosen.decide(60.0 * slot, window)
    state = chosen.snapshot()
    assert state["model"]["service_rates_per_s"][0] < 3.4
    assert sum(count for _, _, count in state["planner"]["transitions"]) > 30


@pytest.mark.parametrize("name", PLANNERS)
def test_a_slot_without_a_rate_breaks_the_sequence_of_rates(name: str) -> None:
    chosen, window = (
        policy(name, service_rate_per_s=5, **PLAN_EVERY_SLOT.get(name, {})),
        History(GRAPH),
    )
    for slot, rate in enumerate((6.0, 6.0, None, 6.0, 6.0), start=1):
        look(window, 60.0 * slot, rate)
        proposal = chosen.decide(60.0 * slot, window)
        assert (codes(proposal) == {"no-data"}) == (rate is None)
    transitions = chosen.snapshot()["planner"]["transitions"]
    counts = transitions if name != "rl-decentralized" else transitions[0]
    assert sum(count for _, _, count in counts) == 2


def test_violations_of_a_slot_in_which_instances_arrived_are_not_learned() -> None:
    settings = {"response_time": "learned", "service_rate_per_s": 5, "trusted_visits": 0}
    goal = parse_objective("latency < 500ms").within(1, 5)
    for warming, learns in ((True, False), (False, True)):
        chosen = policy("rl-centralized", goal, **settings)
        for _ in slots(4, chosen, warming=warming):
            pass
        learned = chosen.snapshot()["planner"]["learned"]
        assert any(cell for row in learned for column in row for cell in column) is learns


@pytest.mark.parametrize("name", PLANNERS)
def test_while_records_wait_nothing_is_removed_and_the_plan_is_for_working_them_off(name: str) -> None:
    for waiting, sizes in ((0.0, "fewer"), (900.0, "more")):
        chosen, window = (
            policy(name, service_rate_per_s=5, trusted_visits=0, **PLAN_EVERY_SLOT.get(name, {})),
            History(GRAPH),
        )
        wanted = []
        for slot in range(1, 120):
            look(window, 60.0 * slot, 1.0, sizes=3)
            if slot == 119:
                look(window, 60.0 * slot + 1, 1.0, sizes=3, backlog=waiting)
            wanted = [target.instances for target in chosen.decide(60.0 * slot + slot // 119, window).targets.values()]
        assert min(wanted) < 3 if sizes == "fewer" else max(wanted) > 3
        assert sizes == "fewer" or min(wanted) >= 3


def test_a_clock_that_was_set_back_does_not_stop_the_decisions() -> None:
    chosen, window = policy("rl-centralized", service_rate_per_s=5), History(GRAPH)
    look(window, 1e9)
    chosen.decide(1e9, window)
    later = History(GRAPH)
    look(later, 60)
    assert codes(chosen.decide(60, later)) != {"between-slots"}


@pytest.mark.parametrize("objective", ["slow records < 5%", "throughput >= 95%"])
@pytest.mark.parametrize("name", PLANNERS)
def test_it_plans_for_objectives_without_a_latency_bound(name: str, objective: str) -> None:
    chosen = policy(name, parse_objective(objective).within(1, 4), service_rate_per_s=5, trusted_visits=0)
    assert all(proposal.targets for proposal in slots(3, chosen))


@pytest.mark.parametrize("name", PLANNERS)
@pytest.mark.parametrize(
    "damage",
    [
        {"speeds": None},
        {"before": "noon"},
        {"planner": {}},
        {"model": {"service_rates_per_s": [1.0], "shares": [1.0], "grids": [[1.0, 3]]}},
        {"model": {"service_rates_per_s": [5.0, 5.0], "shares": [1.0, 1.0], "grids": [[0.0, 3]]}},
    ],
)
def test_damaged_state_is_refused_and_changes_nothing(name: str, damage: dict[str, object]) -> None:
    chosen = policy(name, service_rate_per_s=5)
    for _ in slots(4, chosen):
        pass
    before = json.dumps(chosen.snapshot())
    with pytest.raises(StateError, match="damaged"):
        chosen.restore({**chosen.snapshot(), **damage})
    assert json.dumps(chosen.snapshot()) == before


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"weight_resources": 0.5}, "weights 0.5, 0.4, 0.4 are not allowed"),
        ({"service_rate_per_s": {"sort": 5}}, "'sort', which is no operator; allowed: parse, join"),
        ({"slot_s": 0}, "slot_s 0 is not allowed"),
        ({"discount": 1}, "discount 1 is not allowed"),
    ],
)
def test_settings_that_cannot_be_used_are_reported(settings: dict[str, object], reason: str) -> None:
    with pytest.raises(InputError) as raised:
        policy("mdp-path", **settings)
    assert reason in str(raised.value)


@pytest.mark.parametrize("name", ["mdp", "rl-centralized"])
def test_a_graph_that_is_too_large_is_refused_at_once(name: str) -> None:
    names = tuple(f"o{index}" for index in range(20))
    large = Context(GOAL, Topology(names))
    with pytest.raises(InputError, match="mdp-path plans for more"):
        make_policy(name, large)
    assert make_policy("mdp-path", large).name == "mdp-path"


@pytest.mark.parametrize("name", PLANNERS)
def test_a_change_of_size_costs_the_time_that_it_was_measured_to_stop_the_job(name: str) -> None:
    """Ten sizes in turn, each change with a standstill of 12 s of the 60 s of a slot, as the engine measures it."""
    settings = {"service_rate_per_s": 5.0, "reconfiguration": "measured", **PLAN_EVERY_SLOT.get(name, {})}
    chosen, window = policy(name, **settings), History(GRAPH)
    assert isinstance(chosen, SlottedPolicy)
    for slot in range(1, 11):
        for part in (0.0, 20.0, 40.0):
            look(window, 60.0 * slot + part, sizes=2 + slot % 2, paused_s=12.0 * slot)
            chosen.decide(60.0 * slot + part, window)
    weights = chosen._application.weights if chosen._application else None
    assert weights is not None
    assert weights.reconfiguration / weights.violation == pytest.approx(12 / 60, rel=0.01)
    assert weights.resources / weights.violation == pytest.approx(0.5)
    again = policy(name, **settings)
    again.restore(json.loads(json.dumps(chosen.snapshot())))
    assert isinstance(again, SlottedPolicy)
    assert again._application == chosen._application


def test_without_a_measured_change_its_weight_counts() -> None:
    chosen = policy("mdp-path", service_rate_per_s=5, reconfiguration="measured")
    list(slots(3, chosen))
    assert isinstance(chosen, SlottedPolicy)
    assert chosen._application is not None
    assert chosen._application.weights == Weights()
