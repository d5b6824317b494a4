"""The sizes that Flink was asked for: all vertices in one request, and only when something differs."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.core.errors import UnsupportedEngineError
from headgate.engines.flink.answers import Bounds, JobDetails, Required
from headgate.engines.flink.graph import Graph
from headgate.engines.flink.rest import AnsweredError, FlinkRest

FEWEST = 1
"""Flink may run a job with this few while slots are missing, rather than not at all."""


class Requirements:
    def __init__(self, rest: FlinkRest, graph: Graph) -> None:
        self._rest = rest
        self._graph = graph

    def wanted_at_first(self, job: JobDetails) -> dict[str, int]:
        """The sizes that the job is meant to have, as it was submitted or as somebody asked for."""
        try:
            required = self._rest.requirements(job.jid)
        except AnsweredError as error:
            raise UnsupportedEngineError(
                f"job {job.name!r} cannot be rescaled while it runs, for Flink says: {error.told}; the cluster needs "
                "Flink 1.18 or newer, and 'jobmanager.scheduler: adaptive'."
            ) from error
        sizes = {one.id: one.parallelism for one in job.vertices}
        wanted = {}
        for member in self._graph.members:
            bounds, has = required.get(member.vertex), sizes.get(member.vertex, FEWEST)
            # A job that may grow as far as it goes, as in the reactive mode, is meant to have what it has.
            is_open = bounds is None or bounds.parallelism.upper >= member.max_parallelism > has
            wanted[member.operator] = max(FEWEST, has if is_open or bounds is None else bounds.parallelism.upper)
        return wanted

    def bring_to(self, job: str, sizes: Mapping[str, int]) -> frozenset[str]:
        """Have these sizes; gives the operators that Flink had to be asked for."""
        has = self._rest.requirements(job)
        wanted = {
            member.vertex: Required(parallelism=Bounds(lowerBound=FEWEST, upperBound=sizes[member.operator]))
            for member in self._graph.members
        }
        differing = {
            member.operator
            for member in self._graph.members
            if member.vertex not in has or has[member.vertex].parallelism.upper != sizes[member.operator]
        }
        if differing:
            self._rest.require(job, wanted)
        return frozenset(differing)
