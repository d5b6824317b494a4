"""A job on a Flink cluster, scaled from outside by Flink's REST API: no code in the job, and none on the cluster.

The cluster must have the adaptive scheduler (``jobmanager.scheduler: adaptive``): it takes new sizes of all vertices in
one request and starts the job again at them, from its own memory of the last checkpoint. Closing the engine leaves the
job at its sizes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from headgate.core.errors import EngineError, EngineGoneError, InputError
from headgate.core.topology import Topology
from headgate.core.types import (
    NO_METRICS,
    Answer,
    Decision,
    Event,
    Instances,
    Instant,
    Observation,
    Outcome,
    Receipt,
    Sample,
)
from headgate.engines.base import EngineBase
from headgate.engines.flink.answers import RUNNING, JobDetails
from headgate.engines.flink.fleet import TaskManagerFleet
from headgate.engines.flink.following import GONE_AFTER_S, Followed
from headgate.engines.flink.further import FURTHER_METRICS, Further
from headgate.engines.flink.graph import graph_of
from headgate.engines.flink.looking import Looking
from headgate.engines.flink.providers import Provider
from headgate.engines.flink.readings import Readings
from headgate.engines.flink.requirements import Requirements
from headgate.engines.flink.rest import ANSWER_WITHIN_S, FlinkRest
from headgate.engines.flink.restarts import Restarts


class FlinkEngine(EngineBase):
    """Observes and resizes the vertices of one job.

    - ``target``: where and which, as ``http://127.0.0.1:8081#clicks``
    - ``fewest``, ``most``: instances of any operator; as many as Flink can do where not given
    - ``price_per_slot_hour``: what a slot costs for an hour
    - ``late_after_s``: a record whose result comes later than this counts as late
    - ``provider``: who starts and stops TaskManagers; nobody where not given
    - ``acts``: whether sizes will be asked for. Otherwise any scheduler will do: the sizes are those that the job
      has, whoever changes them
    """

    name = "flink"
    summary = "Flink jobs by their REST API: headgate autoscale-flink, or autoscale_engine('flink', 'URL#JOB')."

    def __init__(  # noqa: PLR0913 - one keyword per thing that can be said
        self,
        target: str,
        now: Callable[[], Instant] = time.time,
        *,
        fewest: int = 1,
        most: int | None = None,
        price_per_slot_hour: float | None = None,
        late_after_s: float | None = None,
        provider: Provider | None = None,
        acts: bool = True,
        answer_within_s: float = ANSWER_WITHIN_S,
        gone_after_s: float = GONE_AFTER_S,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(target, now)
        url, hash_, job = target.partition("#")
        if not (hash_ and job):
            raise InputError(
                f"Flink job {target!r} is not usable; write where and which, as http://127.0.0.1:8081#clicks."
            )
        self._lock = threading.RLock()
        self._closed = False
        self._acts = acts
        self._rest = FlinkRest(url, answer_within_s=answer_within_s)
        try:
            self._followed = Followed(self._rest, job, gone_after_s=gone_after_s)
            details = self._followed.details(now())
            self._graph = graph_of(details)
            self._requirements = Requirements(self._rest, self._graph)
            sizes = self._requirements.wanted_at_first if acts else self._graph.sizes
            self._planned = sizes(details)
        except BaseException:
            self._rest.close()
            raise
        self._topology = self._graph.topology(fewest, most, price_per_slot_hour)
        self._looking = Looking(self._rest, self._followed, now, sleep)
        self._readings = Readings(self._topology, late_after_s)
        self._further = Further(self._rest)
        self._restarts = Restarts()
        self._fleet = TaskManagerFleet(provider)

    @property
    def job(self) -> str:
        """The name of the job."""
        return self._followed.name

    @property
    def end_to_end_s(self) -> float | None:
        """What the oldest record has waited on the slowest way through the job, as of the last reading."""
        return self._readings.end_to_end_s()

    @property
    def usual_pause_s(self) -> float | None:
        """How long the job stands still for a rescale, as measured; ``None`` before it was."""
        return self._restarts.usual_pause_s

    @property
    def further_metrics(self) -> Collection[str]:
        return FURTHER_METRICS

    def subscribe(self, keys: Collection[str]) -> None:
        with self._lock:
            self._further.subscribe(keys)

    def topology(self) -> Topology:
        return self._topology

    def take_events(self) -> list[Event]:
        """What happened to the job since this was last asked, for the journal."""
        with self._lock:
            told = [*self._followed.take_events(), *self._restarts.take_events(), *self._fleet.take_events()]
            return sorted(told, key=lambda event: event.at_s)

    def observe(self) -> Observation:
        with self._lock:
            self._refuse_if_closed()
            job = self._seen()
            look = self._looking.look(self._graph, job)
            job = look.job
            ready = self._ready(job)
            if not self._acts:
                self._planned = self._planned | self._graph.sizes(job)
            if self._restarts.glance(job):
                vertices = {one.vertex: self._rest.vertex(job.jid, one.vertex) for one in self._graph.members}
                self._restarts.began(self.now(), job, vertices, ready)
            samples = self._with_further(job, self._readings.take(look, self._graph))
            self._fit(job, ready)
            now = self.now()
            return Observation(now, samples, self._instances(ready), self._restarts.take_startups())

    def apply(self, decision: Decision) -> Receipt:
        with self._lock:
            self._refuse_if_closed()
            now = self.now()
            if not self._acts:
                raise EngineError(f"the engine of job {self.job!r} only looks; it was opened so.")
            for name, verdict in decision.verdicts.items():
                if why := self._why_impossible(name, verdict.target):
                    return Receipt(now, {name: Answer(Outcome.REFUSED, self._planned.get(name, 0), why)})
            wanted = self._planned | decision.targets
            changed = {name for name, size in wanted.items() if size != self._planned[name]}
            job = self._seen()
            missing = self._make_room(job, wanted) if changed else 0
            asked = self._requirements.bring_to(job.jid, wanted)
            self._planned = wanted
            if asked:
                self._restarts.asked(now)
            detail = _short_of(missing) if changed else ("Flink had other sizes, and was asked again" if asked else "")
            answers = {
                name: Answer(Outcome.ACCEPTED, wanted[name], detail)
                if name in changed or name in asked
                else Answer(Outcome.UNCHANGED, wanted[name])
                for name in decision.verdicts
            }
            return Receipt(now, answers)

    def close(self) -> None:
        with self._lock:
            if not self._closed:
                self._closed = True
                self._fleet.close()
                self._rest.close()

    # --------------------------------------------------------------------------------------------------------- inside

    def _seen(self) -> JobDetails:
        """The job as it is now; if it is another one under the same name, with the same operators."""
        job = self._followed.details(self.now())
        if not job.plan.nodes:
            return job
        graph = graph_of(job)
        if graph == self._graph:
            return job
        if graph.operators != self._graph.operators or graph.streams != self._graph.streams:
            raise EngineGoneError(
                f"job {self.job!r} has other operators now: {', '.join(graph.operators)}; "
                f"it was {', '.join(self._graph.operators)}."
            )
        self._graph = graph
        self._requirements = Requirements(self._rest, graph)
        return job

    def _ready(self, job: JobDetails) -> dict[str, int]:
        by_vertex = self._graph.by_vertex
        running = {by_vertex[one.id].operator: one.running for one in job.vertices if one.id in by_vertex}
        return {name: running.get(name, 0) for name in self._graph.operators}

    def _instances(self, ready: Mapping[str, int]) -> dict[str, Instances]:
        return {name: Instances(size, size, ready[name]) for name, size in self._planned.items()}

    def _with_further(self, job: JobDetails, samples: Mapping[str, Sample]) -> dict[str, Sample]:
        paused_s = self._restarts.paused_s
        found = self._further.of(job, self._graph, samples) if samples and self._further.is_wanted else {}
        return {
            name: replace(one, paused_s=paused_s, metrics=found.get(name, NO_METRICS)) for name, one in samples.items()
        }

    def _fit(self, job: JobDetails, ready: Mapping[str, int]) -> None:
        if self._acts and self._fleet.is_managed and job.is_at_work:
            managers = self._rest.task_managers()
            self._fleet.shrink(self.now(), managers, self._graph.slots(self._planned), self._graph.slots(dict(ready)))

    def _make_room(self, job: JobDetails, wanted: Mapping[str, int]) -> int:
        """Have TaskManagers for what is wanted; gives how many slots there will not be."""
        # A job that is starting has its slots already.
        own = self._graph.slots(self._graph.sizes(job)) if job.state == RUNNING else 0
        return self._fleet.grow(self.now(), self._rest.task_managers(), self._graph.slots(dict(wanted)), own)

    def _why_impossible(self, name: str, target: int) -> str:
        if name not in self._planned:
            return f"operator {name!r} is not of job {self.job!r}; operators: {', '.join(self._planned)}."
        most = self._topology.sizing_of(name).max_instances or target
        return "" if 1 <= target <= most else f"{target} instances of {name!r} are not possible; 1 to {most} are."

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise EngineError(f"the engine of job {self.job!r} is closed.")


def _short_of(missing: int) -> str:
    if not missing:
        return ""
    return f"the cluster has {missing} slots too few: Flink runs what fits, and takes more when TaskManagers come"
