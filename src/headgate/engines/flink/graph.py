"""A Flink job as a topology: a vertex is an operator, and one restart rescales them all."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from headgate.core.errors import EngineError
from headgate.core.topology import Sizing, Topology
from headgate.engines.flink.answers import KEYED, JobDetails, Vertex
from headgate.engines.flink.key_groups import useful_sizes
from headgate.engines.flink.names import operator_names


@dataclass(frozen=True)
class Member:
    """One vertex, by the name it has here."""

    operator: str
    vertex: str
    """Its number in Flink, which is the same each time the same program is submitted."""
    max_parallelism: int
    is_keyed: bool
    sharing_group: str
    """Subtasks of vertices of one such group share slots: together they take as many as the largest of them."""


@dataclass(frozen=True)
class Graph:
    """The vertices in the order of the plan, and the streams between them."""

    job: str
    members: tuple[Member, ...]
    streams: tuple[tuple[str, str], ...]

    @cached_property
    def by_operator(self) -> dict[str, Member]:
        return {one.operator: one for one in self.members}

    @cached_property
    def by_vertex(self) -> dict[str, Member]:
        return {one.vertex: one for one in self.members}

    @property
    def operators(self) -> tuple[str, ...]:
        return tuple(one.operator for one in self.members)

    def topology(self, fewest: int = 1, most: int | None = None, price_per_slot_hour: float | None = None) -> Topology:
        """What can be scaled, from ``fewest`` to ``most`` instances each.

        An operator costs its part of the slot that it shares.
        """
        return Topology(
            self.operators,
            self.streams,
            {one.operator: self._sizing(one, fewest, most, price_per_slot_hour) for one in self.members},
        )

    def _sizing(self, one: Member, fewest: int, most: int | None, price: float | None) -> Sizing:
        highest = one.max_parallelism if most is None else min(most, one.max_parallelism)
        sharing = sum(other.sharing_group == one.sharing_group for other in self.members)
        return Sizing(
            min_instances=max(1, min(fewest, highest)),
            max_instances=highest,
            price_per_instance_hour=None if price is None else price / sharing,
            allowed=useful_sizes(one.max_parallelism, highest) if one.is_keyed else None,
            group=self.job,
        )

    def sizes(self, job: JobDetails) -> dict[str, int]:
        """How many subtasks of each operator a job has, in whatever state."""
        return {self.by_vertex[one.id].operator: one.parallelism for one in job.vertices if one.id in self.by_vertex}

    def slots(self, sizes: dict[str, int]) -> int:
        """How many slots operators of these sizes take."""
        largest: dict[str, int] = {}
        for one in self.members:
            largest[one.sharing_group] = max(largest.get(one.sharing_group, 0), sizes.get(one.operator, 1))
        return sum(largest.values())


def graph_of(job: JobDetails) -> Graph:
    """The graph of a job that has a plan; Flink makes it when the job first gets its slots."""
    vertices: dict[str, Vertex] = {one.id: one for one in job.vertices}
    # Flink lists vertices in any order, and another one each time; that of the plan stays.
    nodes = [node for node in job.plan.nodes if node.id in vertices]
    if not nodes:
        raise EngineError(
            f"job {job.name!r} has not started yet: it is {job.state} and has no plan, as long as it waits for slots."
        )
    names = operator_names([vertices[node.id].name for node in nodes])
    called = {node.id: name for node, name in zip(nodes, names, strict=True)}
    members = tuple(
        Member(
            called[node.id],
            node.id,
            max(1, vertices[node.id].max_parallelism),
            any(one.ship_strategy == KEYED for one in node.inputs),
            vertices[node.id].sharing_group,
        )
        for node in nodes
    )
    streams = dict.fromkeys(
        (called[one.id], called[node.id]) for node in nodes for one in node.inputs if one.id in called
    )
    return Graph(job.name, members, tuple(streams))
