"""A decision tree that learns from a stream: each example is first classified, then learned (imai: VHT).

The work is divided by attribute (vertically). Spark routes the examples of a batch to the leaves of the tree and
computes statistics by leaf and attribute, in parallel. The driver adds up these few statistics and grows the tree. So
the tree changes between batches and not within a batch, whose examples are classified by the tree of the batch before.

The tree of each batch is written to a file, and a batch adds to the tree of the batch before: a batch that is repeated
after a failure has the same tree and the same results.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from headgate.apps.contract import StreamingApplication, write_whole
from headgate.apps.records.examples import SCHEMA
from headgate.core.errors import StateError

GRACE = 200
"""New examples in a leaf before it is examined again."""
DELTA = 1e-7
"""The allowed probability that another attribute is in fact the best."""
TIE = 0.05
"""Below this bound the two best attributes count as equally good."""
LEAST_SHARE = 0.01
"""The least share of the examples on each side of a split."""


class Counts(NamedTuple):
    """Statistics of the values of an attribute, among the examples of a label."""

    examples: int
    mean: float
    squares: float
    """The sum of squared distances from the mean."""
    lowest: float
    highest: float

    def plus(self, other: Counts) -> Counts:
        """Return the statistics of both sets of examples.

        >>> Counts(2, 1.0, 2.0, 0.0, 2.0).plus(Counts(1, 4.0, 0.0, 4.0, 4.0))
        Counts(examples=3, mean=2.0, squares=8.0, lowest=0.0, highest=4.0)
        """
        examples = self.examples + other.examples
        apart = other.mean - self.mean
        return Counts(
            examples,
            self.mean + apart * other.examples / examples,
            self.squares + other.squares + apart * apart * self.examples * other.examples / examples,
            min(self.lowest, other.lowest),
            max(self.highest, other.highest),
        )


@dataclass
class Leaf:
    number: int
    labels: dict[int, float]
    """Examples by label; those from before the leaf's split are an estimate."""
    counts: dict[int, dict[int, Counts]] = field(default_factory=dict)
    """By attribute and label."""
    last_checked: float = 0.0
    """The number of examples at the last attempt to split it."""

    @property
    def examples(self) -> float:
        return sum(self.labels.values())

    @property
    def label(self) -> int:
        """The most frequent label."""
        return min(self.labels, key=lambda label: (-self.labels[label], label), default=0)


@dataclass
class Branch:
    attribute: int
    threshold: float
    """Values up to the threshold go to the left."""
    left: Node
    right: Node


Node = Leaf | Branch


class LeafTally(NamedTuple):
    """The statistics of a leaf, attribute and label in a batch."""

    leaf: int
    attribute: int
    label: int
    counts: Counts


class LearnedTree:
    def __init__(self, root: Node | None = None, leaves: int = 1) -> None:
        self.root = root or Leaf(0, {})
        self._next = leaves
        """The number of the next leaf."""

    def leaves(self) -> Iterator[Leaf]:
        waiting = [self.root]
        while waiting:
            node = waiting.pop()
            if isinstance(node, Branch):
                waiting += [node.right, node.left]
            else:
                yield node

    def take(self, tallies: Iterable[LeafTally]) -> None:
        """Add the statistics of a batch."""
        leaves = {leaf.number: leaf for leaf in self.leaves()}
        for number, attribute, label, counts in tallies:
            leaf = leaves[number]
            if attribute == 0:  # Every example has each attribute, so a single attribute is enough to count examples.
                leaf.labels[label] = leaf.labels.get(label, 0.0) + counts.examples
            known = leaf.counts.setdefault(attribute, {})
            known[label] = known[label].plus(counts) if label in known else counts

    def grow(self) -> None:
        """Split the leaves that have enough examples."""
        self.root = self._grown(self.root)

    def _grown(self, node: Node) -> Node:
        if isinstance(node, Branch):
            node.left, node.right = self._grown(node.left), self._grown(node.right)
            return node
        if node.examples - node.last_checked < GRACE or len(node.labels) < 2:
            return node
        node.last_checked = node.examples
        split = best_split(node)
        if split is None:
            return node
        attribute, threshold, sides = split
        left, right = (Leaf(self._next + side, labels, {}, sum(labels.values())) for side, labels in enumerate(sides))
        self._next += 2
        return Branch(attribute, threshold, left, right)

    def to_json(self) -> str:
        return json.dumps({"root": asdict(self.root), "leaves": self._next})

    @classmethod
    def from_json(cls, text: str) -> LearnedTree:
        saved = json.loads(text)
        return cls(_node(saved["root"]), saved["leaves"])


def best_split(leaf: Leaf) -> tuple[int, float, list[dict[int, float]]] | None:
    """Return the attribute, threshold and labels of both sides of a split, if it is certain enough to be the best."""
    from river.tree.split_criterion import InfoGainSplitCriterion

    criterion: Any = InfoGainSplitCriterion(LEAST_SHARE)  # type: ignore[no-untyped-call]
    found = sorted(
        _observer(by_label).best_evaluated_split_suggestion(criterion, leaf.labels, attribute, True)
        for attribute, by_label in sorted(leaf.counts.items())
    )
    bound = math.sqrt(criterion.range_of_merit(leaf.labels) ** 2 * math.log(1 / DELTA) / (2 * leaf.examples))
    best = found[-1]
    second = found[-2].merit if len(found) > 1 else 0.0
    if best.merit <= 0 or (best.merit - second <= bound and bound >= TIE):
        return None
    return best.feature, best.split_info, best.children_stats


def _observer(by_label: dict[int, Counts]) -> Any:
    """Return river's observer of an attribute with these statistics."""
    from river.proba import Gaussian
    from river.tree.splitter import GaussianSplitter

    gaussian: Any = Gaussian
    observer = GaussianSplitter()
    for label, counts in by_label.items():
        variance = counts.squares / (counts.examples - 1) if counts.examples > 1 else 0.0
        observer._att_dist_per_class[label] = gaussian._from_state(counts.examples, counts.mean, variance, 1)
        observer._min_per_class[label] = counts.lowest
        observer._max_per_class[label] = counts.highest
    return observer


def _node(saved: dict[str, Any]) -> Node:
    if "threshold" in saved:
        return Branch(saved["attribute"], saved["threshold"], _node(saved["left"]), _node(saved["right"]))
    counts = {
        int(attribute): {int(label): Counts(*values) for label, values in by_label.items()}
        for attribute, by_label in saved["counts"].items()
    }
    return Leaf(saved["number"], {int(label): n for label, n in saved["labels"].items()}, counts, saved["last_checked"])


def results(events: DataFrame) -> DataFrame:
    return events.select("number", "at_ms", "attributes", "label")


def learn(examples: DataFrame, batch: int, folder: Path, write: Callable[[DataFrame], None]) -> None:
    """Classify the examples of a batch by the tree of the batch before, and learn from them."""
    tree = LearnedTree() if batch == 0 else _read(_file(folder, batch - 1))
    cached = examples.persist()
    try:
        predicted = _at_leaves(tree.root, lambda leaf: leaf.label)
        write(cached.select("number", "at_ms", "label", predicted.alias("predicted"), f.lit(batch).alias("batch")))
        tree.take(_leaf_tallies(cached, tree))
    finally:
        cached.unpersist()
    tree.grow()
    write_whole(_file(folder, batch), tree.to_json())
    _file(folder, batch - 2).unlink(missing_ok=True)


def _leaf_tallies(examples: DataFrame, tree: LearnedTree) -> list[LeafTally]:
    """Return the statistics of the examples by leaf, attribute and label."""
    values = examples.select(
        _at_leaves(tree.root, lambda leaf: leaf.number).alias("leaf"),
        "label",
        f.posexplode("attributes").alias("attribute", "value"),
    )
    counts = values.groupBy("leaf", "attribute", "label").agg(
        f.count("*"), f.avg("value"), f.var_pop("value") * f.count("*"), f.min("value"), f.max("value")
    )
    return [LeafTally(row[0], row[1], row[2], Counts(*row[3:])) for row in counts.collect()]


def _at_leaves(node: Node, value: Callable[[Leaf], int]) -> Column:
    """Return a value of the leaf that an example belongs to: the tree as a Spark expression."""
    if isinstance(node, Leaf):
        return f.lit(value(node))
    left, right = _at_leaves(node.left, value), _at_leaves(node.right, value)
    # An example without the attribute goes to the right.
    return f.when(f.get("attributes", f.lit(node.attribute)) <= node.threshold, left).otherwise(right)


def _file(folder: Path, batch: int) -> Path:
    return folder / f"tree-{batch}.json"


def _read(path: Path) -> LearnedTree:
    try:
        return LearnedTree.from_json(path.read_text(encoding="utf-8"))
    except (OSError, KeyError, ValueError) as error:
        raise StateError(f"the tree {str(path)!r}, to be learned on from, cannot be read: {error}.") from error


HOEFFDING_TREE = StreamingApplication(
    name="hoeffding-tree",
    summary="a decision tree that learns from each batch, by attribute",
    document="imai §IV-A",
    schema=SCHEMA,
    results=results,
    learn=learn,
    keys=("number",),
)
