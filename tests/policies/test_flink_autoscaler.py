"""flink-autoscaler: capacity for a target utilization and to catch up, by averages over a long time."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.core.objective import parse_objective
from headgate.core.topology import Sizing, Topology
from headgate.core.types import Instances, Observation, Sample
from headgate.core.window import History
from headgate.policies import Context, make_policy
from headgate.policies.frame.base import AnyPolicy
from headgate.policies.frame.recommendations import ScaleInDelay
from tests.core.building import JOB, decision, observation, policy

AT_ONCE = {"metrics_window_s": 30, "stabilization_interval_s": 0, "scale_in_interval_s": 0}
"""Settings with which a decision takes half a minute of readings and no more."""


class Job:
    """A job of one operator, seen every 10 s."""

    def __init__(self, chosen: AnyPolicy, planned: int = 4) -> None:
        self.chosen, self.window, self.planned, self.now = chosen, History(JOB), planned, -10.0

    def see(self, seconds: float, **fields: Any) -> tuple[int, str]:
        """What it wants after so long of readings; what it wants is not done."""
        wanted = (0, "")
        for _ in range(int(seconds / 10)):
            self.now += 10
            self.window.observe(observation(self.now, self.planned, sample=Sample("job", self.now, **fields)))
            target = self.chosen.decide(self.now, self.window).targets["job"]
            wanted = target.instances, target.code
        return wanted

    def resize(self, planned: int) -> None:
        self.window.record(decision(self.now, self.planned, planned))
        self.planned = planned


def busy(rate: float, true_each: float, planned: int, backlog: float = 0.0) -> dict[str, float]:
    return {"input_rate_per_s": rate, "processed_rate_per_s": true_each * planned, "backlog": backlog}


@pytest.mark.parametrize(
    ("rate", "backlog", "planned", "instances", "code"),
    [
        # 400/0.7 for the target and 400/6 for a restart are 638/s: seven instances of 100/s. Four are too few even if
        # they are busy all the time.
        (401, 0, 4, 7, "needs-more"),
        # Busy for 87 %: more would be right, but this is within the limits.
        (350, 0, 4, 4, "within-limits"),
        # 18,000 waiting are 10/s more over half an hour, which four cannot do on top.
        (395, 0, 4, 4, "within-limits"),
        (395, 18000, 4, 7, "needs-more"),
        (400, 0, 7, 7, "as-planned"),
        # Busy for 20 % and 40 %: below the lower limit of 40 % with a restart, which is at 37 %.
        (200, 0, 10, 4, "needs-fewer"),
        (400, 0, 10, 10, "within-limits"),
        # No more than 60 % of the instances are removed at once.
        (10, 0, 10, 4, "needs-fewer"),
        (0, 0, 10, 4, "needs-fewer"),
    ],
)
def test_the_size_follows_utilization_restart_and_backlog(
    rate: float, backlog: float, planned: int, instances: int, code: str
) -> None:
    job = Job(policy("flink-autoscaler", **AT_ONCE), planned)
    assert job.see(50, **busy(rate, 100, planned, backlog)) == (instances, code)


def test_while_more_than_five_minutes_of_load_wait_nothing_is_removed() -> None:
    for backlog, code in ((100 * 299, "needs-fewer"), (100 * 301, "within-limits")):
        settings = {**AT_ONCE, "catch_up_duration_s": 0}
        assert Job(policy("flink-autoscaler", **settings), 10).see(50, **busy(100, 100, 10, backlog))[1] == code


def test_it_decides_when_a_metrics_window_is_full_after_stabilising() -> None:
    job = Job(policy("flink-autoscaler"))
    codes = [job.see(10, **busy(800, 100, 4))[1] for _ in range(121)]
    assert codes == ["stabilising"] * 30 + ["collecting"] * 90 + ["needs-more"]


def test_a_rescale_starts_both_waits_again() -> None:
    job = Job(policy("flink-autoscaler"))
    assert job.see(1210, **busy(800, 100, 4)) == (13, "needs-more")
    job.resize(13)
    codes = [job.see(10, **busy(2000, 100, 13))[1] for _ in range(121)]
    # The new instances are seen with the first reading.
    assert codes == ["stabilising"] * 30 + ["collecting"] * 90 + ["needs-more"]


def test_rates_are_means_of_the_metrics_window() -> None:
    job = Job(policy("flink-autoscaler", stabilization_interval_s=0))
    job.see(910, **busy(200, 100, 4))
    # One reading of ten times the load makes the mean of ninety a tenth larger.
    assert job.see(10, **busy(2000, 100, 4)) == (4, "as-planned")


def test_fewer_must_have_been_enough_for_an_hour_and_the_largest_of_that_time_is_taken() -> None:
    job = Job(policy("flink-autoscaler", metrics_window_s=30, stabilization_interval_s=0), 20)
    assert job.see(60, **busy(100, 100, 20))[1] == "waiting"
    assert job.see(1200, **busy(500, 100, 20))[1] == "waiting"
    assert job.see(2340, **busy(100, 100, 20))[1] == "waiting"
    # 500/0.7 + 500/6 = 798/s were the largest that was needed.
    assert job.see(40, **busy(100, 100, 20)) == (8, "needs-fewer")
    # A single time in which all are needed puts it off for another hour.
    assert job.see(40, **busy(1300, 100, 20)) == (20, "within-limits")
    assert job.see(3000, **busy(100, 100, 20))[1] == "waiting"


@pytest.mark.parametrize(("blocks", "wanted"), [(False, (14, "needs-more")), (True, (8, "ineffective"))])
def test_growth_that_brought_nothing_can_stop_more_growth(blocks: bool, wanted: tuple[int, str]) -> None:
    job = Job(policy("flink-autoscaler", **AT_ONCE, block_ineffective=blocks))
    assert job.see(50, **busy(450, 100, 4)) == (8, "needs-more")
    job.resize(8)
    # Twice as many get through 5 % more: something else is the bottleneck.
    assert job.see(60, **busy(450, 52.5, 8)) == wanted


def test_growth_that_brought_less_than_proportionally_asks_for_more_the_next_time() -> None:
    job = Job(policy("flink-autoscaler", **AT_ONCE, observed_scalability=True), 8)
    proportional = Job(policy("flink-autoscaler", **AT_ONCE), 8)
    job.chosen.restore(
        {
            "policy": "flink-autoscaler",
            "version": 1,
            "vertices": {
                "job": [[[[-90.0, 1, 2, 100.0], [-60.0, 2, 4, 150.0], [-30.0, 4, 8, 240.0]], None], [None, []]]
            },
        }
    )
    wanted = [entry.see(60, **busy(820, 100, 8))[0] for entry in (job, proportional)]
    # 820/0.7 + 820/6 = 1308/s: 14 of 100/s, and 21 of what 0.65 of that is.
    assert wanted == [21, 14]


def test_what_gets_done_while_far_behind_counts_where_busy_time_flatters() -> None:
    job = Job(policy("flink-autoscaler", **AT_ONCE, catch_up_duration_s=0))
    fields = [
        {"arrived": 300 * t, "done": 200 * t, "backlog": 9000 + 100 * t, "utilization": 0.5} for t in range(0, 70, 10)
    ]
    wanted = [job.see(10, **entry) for entry in fields]
    # By busy time each of the four would be good for 100/s; with 30 s of work waiting they get 50/s done.
    assert wanted[-1] == (9, "needs-more")


def graph_job(group: str | None) -> dict[str, str]:
    """What becomes of two operators of which only the second is too busy."""
    names = ("parse", "enrich")
    graph = Topology(names, (names,), {name: Sizing(group=group) for name in names})
    chosen = make_policy("flink-autoscaler", Context(parse_objective("latency < 10s"), graph), AT_ONCE)
    window = History(graph)
    codes: dict[str, str] = {}
    for at_s in range(0, 50, 10):
        samples = {
            "parse": Sample("parse", at_s, input_rate_per_s=350, processed_rate_per_s=400, backlog=0),
            "enrich": Sample("enrich", at_s, input_rate_per_s=700, processed_rate_per_s=400, backlog=0),
        }
        window.observe(Observation(at_s, samples, {name: Instances(4, 4, 4) for name in names}))
        codes = {name: target.code for name, target in chosen.decide(at_s, window).targets.items()}
    return codes


def test_operators_that_are_rescaled_together_all_change_when_one_has_to() -> None:
    assert graph_job("job") == {"parse": "needs-more", "enrich": "needs-more"}
    assert graph_job(None) == {"parse": "within-limits", "enrich": "needs-more"}


def test_a_bottleneck_does_not_hide_what_those_after_it_will_get() -> None:
    """parse gets 100/s of 400/s done and gives two for each: enrich needs capacity for 800/s though it gets 200/s."""
    names = ("parse", "enrich")
    graph = Topology(names, (names,))
    settings = {**AT_ONCE, "catch_up_duration_s": 0}
    chosen = make_policy("flink-autoscaler", Context(parse_objective("latency < 10s"), graph), settings)
    window = History(graph)
    wanted: dict[str, int] = {}
    for at_s in range(0, 50, 10):
        samples = {
            "parse": Sample("parse", at_s, arrived=400 * at_s, done=100 * at_s, processed_rate_per_s=100),
            "enrich": Sample("enrich", at_s, arrived=200 * at_s, done=200 * at_s, processed_rate_per_s=300),
        }
        window.observe(Observation(at_s, samples, {"parse": Instances(1, 1, 1), "enrich": Instances(3, 3, 3)}))
        wanted = {name: target.instances for name, target in chosen.decide(at_s, window).targets.items()}
    assert wanted == {"parse": 6, "enrich": 12}


@pytest.mark.parametrize(
    ("was_outside", "is_outside", "code"),
    [(True, False, "needs-fewer"), (False, True, "within-limits"), (True, True, "needs-fewer")],
)
def test_a_delayed_scale_in_counts_by_the_limits_of_the_time_with_the_largest_recommendation(
    was_outside: bool, is_outside: bool, code: str
) -> None:
    """``DelayedScaleDown`` of the source carries the flag along with the parallelism that was recommended."""
    delay = ScaleInDelay()
    recommended = [(0.0, 5, was_outside), (60.0, 4, is_outside), (120.0, 3, is_outside)]
    found = [delay.allowed(at_s, 120.0, fewer, outside) for at_s, fewer, outside in recommended]
    assert found == [None, None, (5, was_outside)]
    assert ScaleInDelay.from_json(delay.to_json()).allowed(120.0, 120.0, 3, is_outside) == (5, was_outside)
    assert (code == "needs-fewer") is was_outside


def test_a_job_catches_up_by_what_it_gets_done_and_not_by_what_arrives() -> None:
    """100,000 records are 500 s at the 200/s that are read, and 250 s at the 400/s that arrive; the limit is 300 s."""
    settings = {**AT_ONCE, "catch_up_duration_s": 0, "restart_time_s": 0, "observe_lag_threshold_s": 1e6}
    job = Job(policy("flink-autoscaler", **settings), 10)
    # At 1,333/s, the ten are busy for less than a third by what arrives: fewer would do, but for the backlog.
    fields = {"input_rate_per_s": 400.0, "utilization": 0.15, "backlog": 100_000.0}
    wanted = [job.see(10, **fields, done=2000.0 * step, arrived=4000.0 * step) for step in range(6)]
    assert wanted[-1] == (10, "within-limits")
    few = Job(policy("flink-autoscaler", **settings), 10)
    fields = {**fields, "backlog": 50_000.0}
    wanted = [few.see(10, **fields, done=2000.0 * step, arrived=4000.0 * step) for step in range(6)]
    assert wanted[-1][1] == "needs-fewer"


def test_what_waits_before_an_operator_in_the_middle_counts_for_its_source() -> None:
    graph = Topology(("read", "join"), (("read", "join"),), {name: Sizing(group="job") for name in ("read", "join")})
    codes = {}
    for backlog in (0.0, 100_000.0):
        found = []
        chosen = make_policy(
            "flink-autoscaler",
            Context(parse_objective("latency < 10s").within(1, 20), graph),
            {**AT_ONCE, "catch_up_duration_s": 0, "restart_time_s": 0},
        )
        window = History(graph)
        for at_s in range(0, 60, 10):
            rates: dict[str, Any] = {
                "input_rate_per_s": 200.0,
                "output_rate_per_s": 200.0,
                "done": 200.0 * at_s,
                "utilization": 0.2,
            }
            samples = {
                "read": Sample("read", at_s, backlog=0.0, **rates),
                "join": Sample("join", at_s, backlog=backlog, **rates),
            }
            window.observe(Observation(at_s, samples, {name: Instances(10, 10, 10) for name in samples}))
            found.append(chosen.decide(at_s, window).targets["read"].code)
        codes[backlog] = found[-1]
    assert codes == {0.0: "needs-fewer", 100_000.0: "within-limits"}
