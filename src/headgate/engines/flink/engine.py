"""The engine for a job on a Flink cluster, scaled through Flink's REST API without code in the job or on the cluster.

The cluster must have the adaptive scheduler (``jobmanager.scheduler: adaptive``): it takes new sizes of all vertices in
one request and restarts the job from its last checkpoint. Closing the engine leaves the job at its sizes.
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
from headgate.engines.flink.graph import graph_of
from headgate.engines.flink.job import GONE_AFTER_S, NamedJob, RestartTracker, SizeRequests
from headgate.engines.flink.responses import RUNNING, JobDetails
from headgate.engines.flink.rest import ANSWER_WITHIN_S, FlinkRest
from headgate.engines.flink.samples import SampleBuilder
from headgate.engines.flink.snapshot import OPTIONAL_METRICS, OptionalMetrics, SnapshotReader
from headgate.engines.flink.task_managers import Provider, TaskManagerFleet


class FlinkEngine(EngineBase):
    """Observes and resizes the vertices of one job.

    - ``target``: address and job, as ``http://127.0.0.1:8081#clicks``
    - ``fewest``, ``most``: instances of any operator; by default from 1 to the most that Flink allows
    - ``price_per_slot_hour``: the price of a slot
    - ``late_after_s``: a record whose result comes later than this counts as late
    - ``provider``: starts and stops TaskManagers; none by default
    - ``standby``: how many TaskManagers more than are needed run, so that growing does not wait for one to start
    - ``acts``: whether sizes will be requested. If not, any scheduler will do, and the sizes are the job's own,
      whatever changes them
    """

    name = "flink"
    summary = "Flink jobs by their REST API: headgate autoscale-flink, or autoscale_engine('flink', 'URL#JOB')."

    def __init__(  # noqa: PLR0913 - one keyword per option
        self,
        target: str,
        now: Callable[[], Instant] = time.time,
        *,
        fewest: int = 1,
        most: int | None = None,
        price_per_slot_hour: float | None = None,
        late_after_s: float | None = None,
        provider: Provider | None = None,
        standby: int = 0,
        acts: bool = True,
        answer_within_s: float = ANSWER_WITHIN_S,
        gone_after_s: float = GONE_AFTER_S,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(target, now)
        url, hash_, job = target.partition("#")
        if not (hash_ and job):
            raise InputError(
                f"Flink job {target!r} is not usable; write its address and name, as http://127.0.0.1:8081#clicks."
            )
        self._fleet = TaskManagerFleet(provider, standby=standby)
        self._lock = threading.RLock()
        self._closed = False
        self._acts = acts
        self._rest = FlinkRest(url, answer_within_s=answer_within_s)
        try:
            self._followed = NamedJob(self._rest, job, gone_after_s=gone_after_s)
            details = self._followed.details(now())
            self._graph = graph_of(details)
            self._requests = SizeRequests(self._rest, self._graph)
            sizes = self._requests.initial_sizes if acts else self._graph.sizes
            self._planned = sizes(details)
        except BaseException:
            self._rest.close()
            raise
        self._topology = self._graph.topology(fewest, most, price_per_slot_hour)
        self._snapshots = SnapshotReader(self._rest, self._followed, now, sleep)
        self._samples = SampleBuilder(self._topology, late_after_s)
        self._optional = OptionalMetrics(self._rest)
        self._restarts = RestartTracker()

    @property
    def job(self) -> str:
        """The name of the job."""
        return self._followed.name

    @property
    def end_to_end_s(self) -> float | None:
        """How long the oldest record has waited on the slowest path through the job, as of the last reading."""
        return self._samples.end_to_end_s()

    @property
    def usual_pause_s(self) -> float | None:
        """The measured median pause of a rescale; ``None`` before the first."""
        return self._restarts.usual_pause_s

    @property
    def extra_metrics(self) -> Collection[str]:
        return OPTIONAL_METRICS

    def subscribe(self, keys: Collection[str]) -> None:
        with self._lock:
            self._optional.subscribe(keys)

    def topology(self) -> Topology:
        return self._topology

    def take_events(self) -> list[Event]:
        """Return and forget the job's events since the last call, for the journal."""
        with self._lock:
            events = [*self._followed.take_events(), *self._restarts.take_events(), *self._fleet.take_events()]
            return sorted(events, key=lambda event: event.at_s)

    def observe(self) -> Observation:
        with self._lock:
            self._refuse_if_closed()
            snapshot = self._snapshots.take(self._graph, self._job())
            job = snapshot.job
            ready = self._ready(job)
            if not self._acts:
                self._planned = self._planned | self._graph.sizes(job)
            if self._restarts.is_new_run(job):
                vertices = {member.vertex: self._rest.vertex(job.jid, member.vertex) for member in self._graph.members}
                self._restarts.record_run(self.now(), job, vertices, ready)
            samples = self._with_optional_metrics(job, self._samples.take(snapshot, self._graph))
            self._fit(job, ready)
            now = self.now()
            return Observation(now, samples, self._instances(ready), self._restarts.take_startups())

    def apply(self, decision: Decision) -> Receipt:
        with self._lock:
            self._refuse_if_closed()
            now = self.now()
            if not self._acts:
                raise EngineError(f"the engine of job {self.job!r} was opened to observe only.")
            for name, verdict in decision.verdicts.items():
                if why := self._why_impossible(name, verdict.target):
                    return Receipt(now, {name: Answer(Outcome.REFUSED, self._planned.get(name, 0), why)})
            wanted = self._planned | decision.targets
            changed = {name for name, size in wanted.items() if size != self._planned[name]}
            job = self._job()
            missing = self._make_room(job, wanted) if changed else 0
            requested = self._requests.request(job.jid, wanted)
            self._planned = wanted
            if requested:
                self._restarts.record_request(now)
            detail = (
                _short_of(missing)
                if changed
                else ("Flink had other sizes; they were requested again" if requested else "")
            )
            answers = {
                name: Answer(Outcome.ACCEPTED, wanted[name], detail)
                if name in changed or name in requested
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

    def _job(self) -> JobDetails:
        """Return the current job; a new job under the same name must have the same operators."""
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
        self._requests = SizeRequests(self._rest, graph)
        return job

    def _ready(self, job: JobDetails) -> dict[str, int]:
        vertices = self._graph.vertices(job)
        return {name: vertices[name].running if name in vertices else 0 for name in self._graph.operators}

    def _instances(self, ready: Mapping[str, int]) -> dict[str, Instances]:
        return {name: Instances(size, size, ready[name]) for name, size in self._planned.items()}

    def _with_optional_metrics(self, job: JobDetails, samples: Mapping[str, Sample]) -> dict[str, Sample]:
        paused_s = self._restarts.paused_s
        metrics = self._optional.of(job, self._graph, samples) if samples and self._optional.is_wanted else {}
        return {
            name: replace(sample, paused_s=paused_s, metrics=metrics.get(name, NO_METRICS))
            for name, sample in samples.items()
        }

    def _fit(self, job: JobDetails, ready: Mapping[str, int]) -> None:
        if self._acts and self._fleet.is_managed and job.is_at_work:
            managers = self._rest.task_managers()
            self._fleet.shrink(self.now(), managers, self._graph.slots(self._planned), self._graph.slots(dict(ready)))

    def _make_room(self, job: JobDetails, wanted: Mapping[str, int]) -> int:
        """Start TaskManagers for the wanted sizes; return how many slots will be missing."""
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
    return f"the cluster has {missing} slots too few: Flink runs what fits, and uses more when TaskManagers register"
