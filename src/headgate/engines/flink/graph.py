"""A Flink job as a topology: each vertex is an operator, and one restart rescales all of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from headgate.core.errors import EngineError
from headgate.core.topology import Sizing, Topology
from headgate.engines.flink.responses import KEYED, JobDetails, Vertex

LONGEST = 63
_NUMBER = re.compile(r"\[\d+\]")
_ROLE = re.compile(r"^(?:(?:Source|Sink): )+")
_PART = re.compile(r"(?:: (?:Writer|Committer))+$")
_OTHER = re.compile(r"[^A-Za-z0-9_]+")
NAMELESS = "vertex"


def operator_name(vertex: str) -> str:
    """Return the name of a vertex's first operator, of letters, digits, - and _ only.

    A vertex is a chain of operators, and Flink's name for it lists all of theirs.

    >>> operator_name("Source: clicks[1] -> Calc[2]"), operator_name("GroupAggregate[13] -> sink2[14]: Writer")
    ('clicks', 'GroupAggregate')
    """
    first = _NUMBER.sub("", vertex.split(" -> ", maxsplit=1)[0]).strip()
    plain = _OTHER.sub("-", _PART.sub("", _ROLE.sub("", first))).strip("-_")
    return plain[:LONGEST].rstrip("-_") or NAMELESS


def operator_names(vertices: Sequence[str]) -> list[str]:
    """Return a name for each vertex; equal names are numbered in the order of the plan.

    >>> operator_names(["Window[3] -> Calc[4]", "Window[7]", "Sink: out: Writer"])
    ['Window', 'Window-2', 'out']
    """
    names: list[str] = []
    for vertex in vertices:
        name = plain = operator_name(vertex)
        count = 1
        while name in names:
            count += 1
            name = f"{plain[: LONGEST - len(str(count)) - 1]}-{count}"
        names.append(name)
    return names


def useful_sizes(key_groups: int, most: int) -> tuple[int, ...]:
    """Return the sizes up to ``most`` whose fullest subtask has fewer key groups than that of any smaller size.

    Flink gives whole key groups to subtasks, so the fullest has ⌈groups / size⌉. A size at which that is the same as at
    the next smaller size costs a slot for nothing: of 12 groups, five subtasks have 3, 3, 2, 2 and 2, four have 3 each.

    >>> useful_sizes(12, 12)
    (1, 2, 3, 4, 6, 12)
    >>> useful_sizes(128, 8)
    (1, 2, 3, 4, 5, 6, 7, 8)
    """
    sizes = range(1, max(1, min(most, key_groups)) + 1)
    return tuple(size for size in sizes if size == 1 or _fullest(key_groups, size) < _fullest(key_groups, size - 1))


def _fullest(key_groups: int, size: int) -> int:
    return -(-key_groups // size)


@dataclass(frozen=True)
class GraphVertex:
    """One vertex, under its operator name."""

    operator: str
    vertex: str
    """Its id in Flink, which stays the same when the same program is submitted again."""
    max_parallelism: int
    is_keyed: bool
    sharing_group: str
    """Vertices of one group share slots: together they take as many as the largest of them."""


@dataclass(frozen=True)
class Graph:
    """The vertices in the order of the plan, and the streams between them."""

    job: str
    members: tuple[GraphVertex, ...]
    streams: tuple[tuple[str, str], ...]

    @cached_property
    def by_operator(self) -> dict[str, GraphVertex]:
        return {member.operator: member for member in self.members}

    @cached_property
    def by_vertex(self) -> dict[str, GraphVertex]:
        return {member.vertex: member for member in self.members}

    @property
    def operators(self) -> tuple[str, ...]:
        return tuple(member.operator for member in self.members)

    def topology(self, fewest: int = 1, most: int | None = None, price_per_slot_hour: float | None = None) -> Topology:
        """Return what can be scaled, from ``fewest`` to ``most`` instances each.

        Operators that share a slot share its price.
        """
        return Topology(
            self.operators,
            self.streams,
            {member.operator: self._sizing(member, fewest, most, price_per_slot_hour) for member in self.members},
        )

    def _sizing(self, member: GraphVertex, fewest: int, most: int | None, price: float | None) -> Sizing:
        highest = member.max_parallelism if most is None else min(most, member.max_parallelism)
        sharing = sum(other.sharing_group == member.sharing_group for other in self.members)
        return Sizing(
            min_instances=max(1, min(fewest, highest)),
            max_instances=highest,
            price_per_instance_hour=None if price is None else price / sharing,
            allowed=useful_sizes(member.max_parallelism, highest) if member.is_keyed else None,
            group=self.job,
        )

    def sizes(self, job: JobDetails) -> dict[str, int]:
        """Return the number of subtasks of each operator, in whatever state."""
        return {name: vertex.parallelism for name, vertex in self.vertices(job).items()}

    def vertices(self, job: JobDetails) -> dict[str, Vertex]:
        """Return the vertices of the job by operator."""
        by_id = self.by_vertex
        return {by_id[vertex.id].operator: vertex for vertex in job.vertices if vertex.id in by_id}

    def slots(self, sizes: dict[str, int]) -> int:
        """Return how many slots operators of these sizes take."""
        largest: dict[str, int] = {}
        for member in self.members:
            largest[member.sharing_group] = max(largest.get(member.sharing_group, 0), sizes.get(member.operator, 1))
        return sum(largest.values())


def graph_of(job: JobDetails) -> Graph:
    """Return the graph of a job with a plan; Flink makes the plan when the job first gets its slots."""
    vertices: dict[str, Vertex] = {vertex.id: vertex for vertex in job.vertices}
    # The order of Flink's list of vertices changes from request to request; that of the plan does not.
    nodes = [node for node in job.plan.nodes if node.id in vertices]
    if not nodes:
        raise EngineError(
            f"job {job.name!r} has not started yet: it is {job.state} and has no plan, as long as it waits for slots."
        )
    names = operator_names([vertices[node.id].name for node in nodes])
    called = {node.id: name for node, name in zip(nodes, names, strict=True)}
    members = tuple(
        GraphVertex(
            called[node.id],
            node.id,
            max(1, vertices[node.id].max_parallelism),
            any(source.ship_strategy == KEYED for source in node.inputs),
            vertices[node.id].sharing_group,
        )
        for node in nodes
    )
    streams = dict.fromkeys(
        (called[source.id], called[node.id]) for node in nodes for source in node.inputs if source.id in called
    )
    return Graph(job.name, members, tuple(streams))
