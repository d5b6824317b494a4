"""The fluid queue, against numbers worked out by hand and properties that every queue has."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.errors import InputError
from headgate.core.topology import Topology
from headgate.core.types import Observation, Sample
from headgate.core.window import History
from headgate.simulation.queue import QueueNetwork
from headgate.workloads import Workload, parse_workload

CHAIN = Topology.of(("first", "second"))


def queue(spec: str, service_rate_per_s: float, ready: int = 1) -> QueueNetwork:
    return QueueNetwork(parse_workload(spec), service_rate_per_s, ready=ready)


def sample_at(network: QueueNetwork, at_s: float, operator: str = "job") -> Sample:
    network.advance(at_s)
    return network.samples()[operator]


def rates_at(network: QueueNetwork, *times_s: float) -> History:
    """Readings with the rates that the window makes of them."""
    window = History(network.topology)
    for at_s in times_s:
        network.advance(at_s)
        window.observe(Observation(at_s, network.samples(), {}))
    return window


def backlog_at(network: QueueNetwork, at_s: float, operator: str = "job") -> float | None:
    return sample_at(network, at_s, operator).backlog


def test_a_backlog_grows_by_what_arrives_and_is_not_served() -> None:
    network = queue("constant:10", 5)
    assert [backlog_at(network, at_s) for at_s in (0, 30, 60, 90)] == [0, 150, 300, 450]


def test_as_much_service_as_load_stops_the_growth() -> None:
    network = queue("constant:10", 5)
    network.advance(92)
    network.resize("job", 2)
    assert [backlog_at(network, at_s) for at_s in (92, 150, 1000)] == [460, 460, 460]


def test_more_service_than_load_clears_the_backlog_at_the_moment_it_should() -> None:
    network = queue("constant:10", 5)
    network.advance(90)
    network.resize("job", 3)
    assert [backlog_at(network, at_s) for at_s in (135, 179, 180, 600)] == [225, 5, 0, 0]


def test_in_a_chain_the_bottleneck_alone_builds_a_backlog() -> None:
    network = QueueNetwork(parse_workload("constant:10"), {"first": 20, "second": 5}, topology=CHAIN)
    assert backlog_at(network, 90, "first") == 0
    assert backlog_at(network, 90, "second") == 450
    network.resize("second", 3)
    assert [backlog_at(network, at_s, "second") for at_s in (135, 180)] == [225, 0]


def test_a_bottleneck_upstream_spares_those_downstream_until_it_drains() -> None:
    workload = parse_workload("spike:base=0,peak=20,at=0s,width=30s")
    network = QueueNetwork(workload, {"first": 10, "second": 8}, topology=CHAIN)
    # The first gets 600 records and is done with them after 60 s; the second lags by 2 a second until then.
    assert backlog_at(network, 30, "first") == 300
    assert (backlog_at(network, 60, "second"), network.arrived("second")) == (120, 600)
    assert backlog_at(network, 75, "second") == 0


def test_what_an_operator_has_done_is_what_it_gives_to_those_downstream() -> None:
    network = QueueNetwork(parse_workload("constant:10"), {"first": 6, "second": 5}, topology=CHAIN)
    window = rates_at(network, 0, 60)
    first, second = (window.samples(name)[-1] for name in CHAIN.operators)
    assert (first.emitted, first.output_rate_per_s, first.selectivity) == (360, 6, 1)
    assert (second.arrived, second.input_rate_per_s, second.output_rate_per_s) == (360, 6, 5)


def test_streams_that_meet_again_add_up() -> None:
    diamond = Topology.of(("source", "left"), ("source", "right"), ("left", "join"), ("right", "join"))
    rates = {"source": 100, "left": 100, "right": 6, "join": 100}
    network = QueueNetwork(parse_workload("sine:mean=10,amplitude=5,period=60s"), rates, topology=diamond)
    network.advance(600)
    assert network.arrived("join") == pytest.approx(network.processed("left") + network.processed("right"))
    assert network.arrived("join") == pytest.approx(6000 + 600 * 6, rel=1e-3)


@pytest.mark.parametrize(
    ("spec", "at_s", "backlog"),
    [
        # Capacity 10: nothing waits until the rate passes it at 10 s, then the integral of (t − 10).
        ("ramp:from=0,to=20,over=20s", 10, 0),
        ("ramp:from=0,to=20,over=20s", 20, 50),
        ("ramp:from=0,to=20,over=20s", 30, 150),
        # The same slope falling: what the first half builds up, the second half takes away.
        ("ramp:from=20,to=0,over=20s", 10, 50),
        ("ramp:from=20,to=0,over=20s", 20, 0),
        ("ramp:from=20,to=0,over=20s", 40, 0),
        ("periodic:base=10,peak=20,high=20s,low=40s", 40, 0),
        ("periodic:base=10,peak=20,high=20s,low=40s", 60, 200),
        ("periodic:base=10,peak=20,high=20s,low=40s", 120, 400),
        ("periodic:base=5,peak=20,high=20s,low=40s", 60, 200),
        ("periodic:base=5,peak=20,high=20s,low=40s", 99, 5),
        ("periodic:base=5,peak=20,high=20s,low=40s", 100, 0),
        ("periodic:base=5,peak=20,high=20s,low=40s", 120, 200),
        ("sine:mean=0,amplitude=10,period=60s", 60, 0),
    ],
)
def test_a_changing_rate_is_integrated_exactly(spec: str, at_s: float, backlog: float) -> None:
    assert backlog_at(queue(spec, 10), at_s) == pytest.approx(backlog, abs=1e-9)


def test_a_smooth_rate_gives_what_tiny_steps_come_close_to() -> None:
    workload = parse_workload("sine:mean=50,amplitude=60,period=10m")
    network = QueueNetwork(workload, 11, ready=5)
    step_s, backlog = 0.01, 0.0
    for index in range(int(900 / step_s)):
        backlog = max(0.0, backlog + (workload.rate_per_s((index + 0.5) * step_s) - 55) * step_s)
    assert backlog_at(network, 900) == pytest.approx(backlog, rel=1e-3)


def test_a_reading_tells_rates_of_its_own_period() -> None:
    network = queue("spike:base=10,peak=30,at=60s,width=60s", 20)
    _, first, second = rates_at(network, 0, 60, 120).samples("job")
    assert (first.input_rate_per_s, first.processed_rate_per_s, first.utilization) == (10, 20, 0.5)
    assert (second.input_rate_per_s, second.processed_rate_per_s, second.utilization) == (30, 20, 1)


def test_latency_is_what_the_oldest_record_that_is_not_done_has_waited() -> None:
    network = queue("constant:10", 5)
    sample = sample_at(network, 60)
    # 300 of 600 records are done: the next one came at 30 s.
    assert (sample.latency_s, sample.scheduling_delay_s, sample.processing_time_s) == (30, 30, 0.2)
    network.resize("job", 10)
    assert sample_at(network, 70).latency_s == 0


def test_latency_is_counted_from_arrival_at_the_operator_itself() -> None:
    network = QueueNetwork(parse_workload("constant:10"), {"first": 5, "second": 4}, topology=CHAIN)
    network.advance(100)
    # The first is through with what came until 50 s; the second gets 5/s and is through with what came until 80 s.
    assert [network.samples()[name].latency_s for name in CHAIN.operators] == [50, 20]


@pytest.mark.parametrize(
    ("spec", "at_s"),
    [("ramp:from=0,to=20,over=20s", 30.0), ("sine:mean=10,amplitude=10,period=60s", 25.0)],
)
def test_latency_follows_a_rate_that_bends(spec: str, at_s: float) -> None:
    network = queue(spec, 10)
    sample = sample_at(network, at_s)
    assert sample.latency_s is not None
    workload = parse_workload(spec)
    assert workload.arrivals(0, at_s - sample.latency_s) == pytest.approx(network.processed("job"))


def test_late_records_are_counted_as_their_time_runs_out() -> None:
    network = QueueNetwork(parse_workload("spike:base=0,peak=10,at=0s,width=60s"), 5, late_after_s=10)
    # Record x comes after x/10 s and is done after x/5 s: from the hundredth on they are late, the first at 20 s.
    assert [sample_at(network, at_s).late for at_s in (20, 30, 60, 70, 119, 500)] == [0, 100, 400, 500, 500, 500]


def test_what_was_never_busy_has_shown_no_rate() -> None:
    sample = rates_at(queue("constant:0", 5), 0, 60).samples("job")[-1]
    assert (sample.processed_rate_per_s, sample.utilization, sample.backlog) == (None, 0, 0)


def test_without_instances_records_wait_and_get_older() -> None:
    sample = sample_at(queue("constant:10", 5, ready=0), 60)
    assert (sample.backlog, sample.latency_s, sample.processed_rate_per_s) == (600, 60, None)


def test_asking_again_at_the_same_time_gives_the_same_reading() -> None:
    network = queue("constant:10", 5)
    network.advance(60)
    assert network.samples() == network.samples()


@pytest.mark.parametrize(("changes_s", "warming"), [([30], True), ([0], False), ([60], False)])
def test_a_reading_is_a_mixture_only_if_the_size_changed_within_its_period(
    changes_s: list[float], warming: bool
) -> None:
    network = queue("constant:10", 5)
    network.samples()
    for at_s in changes_s:
        network.advance(at_s)
        network.resize("job", 2)
    assert sample_at(network, 60).warming is warming


def test_a_mixed_reading_tells_the_mean_of_both_capacities() -> None:
    network = queue("constant:100", 5)
    network.advance(45)
    network.resize("job", 5)
    assert sample_at(network, 60).processed_rate_per_s == 0.75 * 5 + 0.25 * 25


@pytest.mark.parametrize("rate", [0, -1, float("nan"), float("inf")])
def test_a_service_rate_that_cannot_be_is_refused(rate: float) -> None:
    with pytest.raises(InputError, match=r"service rate .* of job is not allowed; it must be finite and above 0"):
        queue("constant:10", rate)


RATES = st.floats(0, 50)
LENGTHS = st.floats(1, 100)
WORKLOADS = st.one_of(
    st.builds("constant:{:f}".format, RATES),
    st.builds("periodic:base={:f},peak={:f},high={:f}s,low={:f}s".format, RATES, RATES, LENGTHS, LENGTHS),
    st.builds("sine:mean={:f},amplitude={:f},period={:f}s".format, RATES, RATES, LENGTHS),
    st.builds("gaussian:base={:f},peak={:f},center={:f}s,sigma={:f}s".format, RATES, RATES, LENGTHS, LENGTHS),
    st.builds("ramp:from={:f},to={:f},over={:f}s".format, RATES, RATES, LENGTHS),
).map(parse_workload)
SIZES = st.lists(st.tuples(st.floats(0, 300), st.integers(0, 5)), max_size=4).map(sorted)
TIMES = st.lists(st.floats(0, 300), max_size=20)


def run(workload: Workload, sizes: list[tuple[float, int]], stops_s: list[float]) -> QueueNetwork:
    """A chain whose first operator changes its size, for 300 s with some stops on the way."""
    network = QueueNetwork(workload, {"first": 10, "second": 15}, topology=CHAIN)
    events = sorted([*sizes, *((at_s, None) for at_s in stops_s)], key=lambda event: event[0])
    for at_s, ready in events:
        network.advance(at_s)
        if ready is not None:
            network.resize("first", ready)
    network.advance(300)
    return network


@given(WORKLOADS, SIZES)
def test_no_record_is_lost_or_made(workload: Workload, sizes: list[tuple[float, int]]) -> None:
    network = run(workload, sizes, [])
    assert network.arrived("first") == pytest.approx(workload.arrivals(0, 300), rel=1e-9, abs=1e-6)
    assert network.arrived("second") == pytest.approx(network.processed("first"), rel=1e-9, abs=1e-6)
    for name, sample in network.samples().items():
        assert sample.backlog is not None
        assert sample.backlog >= 0
        assert network.arrived(name) == pytest.approx(network.processed(name) + sample.backlog, rel=1e-9, abs=1e-6)


@given(WORKLOADS, SIZES, TIMES)
def test_how_time_is_cut_makes_no_difference(
    workload: Workload, sizes: list[tuple[float, int]], stops_s: list[float]
) -> None:
    at_once, in_pieces = run(workload, sizes, []), run(workload, sizes, stops_s)
    for name in CHAIN.operators:
        assert in_pieces.samples()[name].backlog == pytest.approx(at_once.samples()[name].backlog, rel=1e-9, abs=1e-6)


@given(WORKLOADS, st.integers(1, 5), st.integers(1, 5), st.floats(0, 300))
def test_more_instances_never_leave_more_backlog(workload: Workload, ready: int, more: int, at_s: float) -> None:
    few, many = (backlog_at(QueueNetwork(workload, 5, ready=size), at_s) for size in (ready, ready + more))
    assert few is not None
    assert many is not None
    assert many <= few + 1e-9
