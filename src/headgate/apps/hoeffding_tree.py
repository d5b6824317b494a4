"""A decision tree that learns from a stream: each example is classified first, and learned from then (imai: VHT).

The work is divided by attribute, which is what makes it vertical. Spark routes the examples of a batch to the leaves of
the tree and counts, for each attribute by itself and on as many cores as there are, what the leaves have seen. The
driver adds the counts up, which are few, and lets the tree grow. So the tree changes between batches and not within
one, and examples of a batch are classified by the tree of the batch before.

A tree is written to a file for each batch, and what a batch learns is added to the tree of the batch before: a batch
that is run again after a failure gives the same tree and the same results.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from headgate.apps.contract import Application
from headgate.apps.learned_tree import Counts, Leaf, LearnedTree, Node, Told
from headgate.apps.records.examples import SCHEMA
from headgate.apps.whole_files import write_whole
from headgate.core.errors import StateError


def results(events: DataFrame) -> DataFrame:
    return events.select("number", "at_ms", "attributes", "label")


def learn(examples: DataFrame, batch: int, folder: Path, write: Callable[[DataFrame], None]) -> None:
    """Classify the examples of a batch by the tree of the batch before, and learn from them."""
    tree = LearnedTree() if batch == 0 else _read(_file(folder, batch - 1))
    kept = examples.persist()
    try:
        predicted = _at_leaves(tree.root, lambda leaf: leaf.label)
        write(kept.select("number", "at_ms", "label", predicted.alias("predicted"), f.lit(batch).alias("batch")))
        tree.take(_told(kept, tree))
    finally:
        kept.unpersist()
    tree.grow()
    write_whole(_file(folder, batch), tree.to_json())
    _file(folder, batch - 2).unlink(missing_ok=True)


def _told(examples: DataFrame, tree: LearnedTree) -> list[Told]:
    """What the examples tell of each leaf, attribute and label."""
    values = examples.select(
        _at_leaves(tree.root, lambda leaf: leaf.number).alias("leaf"),
        "label",
        f.posexplode("attributes").alias("attribute", "value"),
    )
    counts = values.groupBy("leaf", "attribute", "label").agg(
        f.count("*"), f.avg("value"), f.var_pop("value") * f.count("*"), f.min("value"), f.max("value")
    )
    return [Told(row[0], row[1], row[2], Counts(*row[3:])) for row in counts.collect()]


def _at_leaves(node: Node, value: Callable[[Leaf], int]) -> Column:
    """A value of the leaf that an example belongs to: the tree as an expression of Spark."""
    if isinstance(node, Leaf):
        return f.lit(value(node))
    left, right = _at_leaves(node.left, value), _at_leaves(node.right, value)
    # An example may lack an attribute; it then goes to the right.
    return f.when(f.get("attributes", f.lit(node.attribute)) <= node.threshold, left).otherwise(right)


def _file(folder: Path, batch: int) -> Path:
    return folder / f"tree-{batch}.json"


def _read(path: Path) -> LearnedTree:
    try:
        return LearnedTree.from_json(path.read_text(encoding="utf-8"))
    except (OSError, KeyError, ValueError) as error:
        raise StateError(f"the tree {str(path)!r}, to be learned on from, cannot be read: {error}.") from error


HOEFFDING_TREE = Application(
    name="hoeffding-tree",
    summary="a decision tree that learns from each batch, by attribute",
    document="imai §IV-A",
    data="generated",
    schema=SCHEMA,
    results=results,
    learn=learn,
    keys=("number",),
)
