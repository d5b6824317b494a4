"""The tree that is learned from counts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.apps.hoeffding_tree import GRACE, Branch, Counts, Leaf, LeafTally, LearnedTree

VALUES = st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=30)


def counts(values: list[float]) -> Counts:
    array = np.array(values, dtype=np.float64)
    return Counts(len(array), array.mean(), array.var() * len(array), array.min(), array.max())


def reported(examples: int, *, apart: float = 10.0, leaf: int = 0) -> list[LeafTally]:
    """Two attributes, of which the first tells the labels apart."""
    random = np.random.default_rng(0)
    return [
        LeafTally(
            leaf,
            attribute,
            label,
            counts((random.normal(size=examples) + (0 if attribute else apart * label)).tolist()),
        )
        for attribute in (0, 1)
        for label in (0, 1)
    ]


@given(VALUES, VALUES)
def test_counts_of_two_parts_are_those_of_the_whole(part: list[float], other: list[float]) -> None:
    assert counts(part).plus(counts(other)) == pytest.approx(counts(part + other), rel=1e-6, abs=1e-4)


def test_a_leaf_is_split_by_the_attribute_that_tells_labels_apart() -> None:
    tree = LearnedTree()
    tree.take(reported(GRACE))
    tree.grow()
    assert isinstance(tree.root, Branch)
    assert tree.root.attribute == 0
    assert 2 < tree.root.threshold < 8
    assert [leaf.label for leaf in tree.leaves()] == [0, 1]
    assert [leaf.number for leaf in tree.leaves()] == [1, 2]


@pytest.mark.parametrize(
    ("examples", "apart"), [(GRACE // 2 - 1, 10.0), (GRACE, 0.01)], ids=["too few examples", "no attribute is better"]
)
def test_a_leaf_stays_whole_while_it_is_not_certain_how_to_split_it(examples: int, apart: float) -> None:
    tree = LearnedTree()
    tree.take(reported(examples, apart=apart))
    tree.grow()
    assert isinstance(tree.root, Leaf)


def test_a_leaf_with_one_label_stays_whole() -> None:
    tree = LearnedTree()
    tree.take([each for each in reported(2 * GRACE) if each.label == 0])
    tree.grow()
    assert isinstance(tree.root, Leaf)
    assert tree.root.label == 0


def test_a_tree_that_was_saved_learns_on_as_if_it_had_not_been() -> None:
    tree = LearnedTree()
    tree.take(reported(GRACE))
    tree.grow()
    again = LearnedTree.from_json(tree.to_json())
    for learner in (tree, again):
        learner.take(reported(GRACE, leaf=1))
        learner.grow()
    assert again.to_json() == tree.to_json()
    assert len(list(again.leaves())) == 3
