"""Operators and the streams between them."""

import pytest

from headgate.core.errors import InputError
from headgate.core.topology import Topology

DIAMOND = Topology.of(("source", "left"), ("source", "right"), ("left", "sink"), ("right", "sink"))


def test_operators_are_named_in_the_order_in_which_streams_name_them() -> None:
    assert DIAMOND.operators == ("source", "left", "right", "sink")


def test_every_operator_comes_after_all_that_feed_it() -> None:
    backwards = Topology(("sink", "right", "left", "source"), DIAMOND.streams)
    for source, target in backwards.streams:
        assert backwards.order.index(source) < backwards.order.index(target)


def test_neighbours_are_known() -> None:
    assert DIAMOND.sources == ("source",)
    assert DIAMOND.upstream("sink") == ("left", "right")
    assert DIAMOND.downstream("source") == ("left", "right")
    assert DIAMOND.downstream("sink") == ()


def test_a_single_operator_is_its_own_source() -> None:
    assert Topology.single().operators == Topology.single().sources == Topology.single().order == ("job",)


@pytest.mark.parametrize(
    ("operators", "streams", "message"),
    [
        ((), (), "no operators"),
        (("a", "a"), (), "twice: a, a"),
        (("a",), (("a", "b"),), "stream a -> b names 'b'"),
        (("a", "b"), (("a", "b"), ("b", "a")), "cycles"),
        (("a",), (("a", "a"),), "cycles"),
    ],
)
def test_a_graph_that_is_no_topology_is_refused(
    operators: tuple[str, ...], streams: tuple[tuple[str, str], ...], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        Topology(operators, streams)
