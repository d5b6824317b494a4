"""Micro-batch jobs joined by topics: records come through in order, and are looked at from end to end."""

from __future__ import annotations

import pytest

from headgate.core.errors import InputError
from headgate.core.topology import Topology
from headgate.simulation.batch_job import MicroBatchJob
from headgate.simulation.batch_network import BatchNetwork
from headgate.simulation.micro_batch import MicroBatch
from headgate.workloads import parse_workload

CHAIN = Topology.of(("parse", "enrich"), ("enrich", "sum"))
LOAD = parse_workload("constant:10")
FAST = {"parse": 100.0, "enrich": 100.0, "sum": 100.0}


def test_all_that_went_in_comes_out_in_the_end() -> None:
    load = parse_workload("spike:base=0,peak=50,at=0s,width=60s")
    network = BatchNetwork(load, FAST | {"enrich": 20.0}, CHAIN, late_after_s=10.0)
    network.advance(400.0)
    assert [network.done(name) for name in CHAIN.operators] == pytest.approx([3000.0] * 3, abs=1e-3)


def test_an_operator_downstream_gets_what_those_before_it_have_done() -> None:
    network = BatchNetwork(LOAD, FAST | {"parse": 4.0}, CHAIN, late_after_s=10.0)
    network.advance(600.0)
    samples = network.samples()
    assert samples["enrich"].arrived == pytest.approx(samples["parse"].done or 0.0, rel=0.02)
    assert (samples["sum"].arrived or 0.0) < 0.5 * 6000


def test_the_first_operator_is_like_a_job_of_its_own() -> None:
    model = MicroBatch(trigger_interval_s=5.0, overhead_s=1.0)
    alone = MicroBatchJob(LOAD, 20.0, model, readings="kafka")
    network = BatchNetwork(LOAD, dict.fromkeys(CHAIN.operators, 20.0), CHAIN, model, late_after_s=60.0)
    for kernel in (alone, network):
        kernel.advance(300.0)
    assert network.done("parse") == alone.processed()


def test_late_is_what_comes_out_at_the_end_after_the_bound() -> None:
    in_time = BatchNetwork(LOAD, FAST, CHAIN, late_after_s=60.0)
    too_late = BatchNetwork(LOAD, FAST, CHAIN, late_after_s=1.0)
    for network in (in_time, too_late):
        network.advance(600.0)
    assert in_time.samples()["sum"].late == 0
    assert (too_late.samples()["sum"].late or 0.0) > 0.8 * too_late.done("sum")
    assert in_time.samples()["parse"].late is None


def test_how_time_is_cut_makes_no_difference() -> None:
    whole = BatchNetwork(LOAD, FAST, CHAIN, late_after_s=10.0)
    cut = BatchNetwork(LOAD, FAST, CHAIN, late_after_s=10.0)
    whole.advance(120.0)
    for second in range(120):
        cut.advance(second + 1.0)
    assert [cut.done(name) for name in CHAIN.operators] == [whole.done(name) for name in CHAIN.operators]


def test_a_join_is_refused() -> None:
    join = Topology.of(("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"))
    with pytest.raises(InputError, match="'d' reads from b, c; one is possible here"):
        BatchNetwork(LOAD, dict.fromkeys(join.operators, 10.0), join, late_after_s=10.0)
