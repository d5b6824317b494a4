"""The options of a run, checked before anything is started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from headgate.apps.contract import StreamingApplication
from headgate.apps.running.folder import RunFolder
from headgate.apps.running.results import Form
from headgate.core.errors import InputError
from headgate.core.objective import Objective
from headgate.core.types import JSON
from headgate.policies.frame.base import guards_for
from headgate.runtime.assembly import preview_policy
from headgate.workloads.load import AS_FAST_AS_ACCEPTED, Load

SourceKind = Literal["kafka", "embedded"]
PARTITIONS_PER_EXECUTOR = 2
"""More tasks than executors, so that new executors find work within a running batch."""


@dataclass(frozen=True)
class ApplicationRunPlan:
    """An application with its source, objective, policy and folder."""

    application: StreamingApplication
    source: SourceKind
    folder: RunFolder
    objective: Objective
    """With the fewest and the most executors."""
    policy: str
    settings: Mapping[str, object] = field(default_factory=dict)
    guards: Mapping[str, object] = field(default_factory=dict)
    load: Load | None = None
    """The load that is sent; ``None`` if others send records to the topic."""
    seconds: float | None = None
    """The duration of a run without a load; ``None``: until it is stopped."""
    bootstrap: str | None = None
    """The user's broker; by default that of ``headgate kafka``, which is started if needed."""
    topic: str | None = None
    output_topic: str | None = None
    form: Form = "parquet"
    master: str | None = None
    """The user's cluster; by default a local cluster for this run."""
    state_partitions: tuple[int, int] = (2, 8)
    """The fewest and the most partitions of an application's state, which are adjusted within these bounds."""
    trigger_interval_s: float = 1.0
    interval_s: float = 2.0
    record_cost_s: float = 0.0
    """How long each record waits in the job, as if for a remote service; nothing is computed meanwhile, so executors
    that share a small machine add up as on separate machines."""
    check: bool = False
    """Whether results are compared with a batch computation at the end."""

    def __post_init__(self) -> None:
        self._refuse_what_does_not_fit()
        if self.trigger_interval_s <= 0 or self.interval_s <= 0:
            raise InputError(
                f"a trigger every {self.trigger_interval_s:g} s and a decision every {self.interval_s:g} s are not "
                "possible; both must be above 0."
            )
        if self.record_cost_s < 0:
            raise InputError(f"a record cannot take {self.record_cost_s:g} s; 0 or more is possible.")
        fewest, most = self.state_partitions
        if not 1 <= fewest <= most:
            raise InputError(f"{fewest} to {most} state partitions are not possible; 1 to 1 or more are.")
        if self.master is not None and (not self.master or self.master.startswith("local")):
            raise InputError(
                f"--master {self.master!r} is not possible: all tasks would run in the driver, and there is nothing to "
                "scale; name a cluster, such as spark://HOST:PORT, or none to have one started."
            )
        guards_for(preview_policy(self.policy, self.objective, self.settings), self.guards)
        if self.load is not None:
            self.load.schedule, self.load.make_payloads()  # Both raise errors on invalid input.
        self.folder.check(self.identity)

    def _refuse_what_does_not_fit(self) -> None:
        if self.source == "embedded":
            given = {"--bootstrap": None if self.output_topic else self.bootstrap, "--topic": self.topic}
            for option, value in given.items():
                if value is not None:
                    raise InputError(f"{option} {value!r} does not go with --source embedded, which reads no topic.")
            if self.load is None:
                raise InputError("--source embedded needs a workload, which it gives; write --workload constant:100.")
            if self.load.speed == AS_FAST_AS_ACCEPTED:
                raise InputError("--speed max does not go with --source embedded; 1 to 1000 do.")
        elif self.load is None and self.topic is None:
            raise InputError("--no-load needs the topic that others send records to; write --topic NAME.")

    @property
    def identity(self) -> Mapping[str, JSON]:
        """The options that determine the results; they must be the same when a run is continued."""
        load = None if self.load is None else self.load.options()
        topic = {} if self.topic is None else {"topic": self.topic}
        return {"application": self.application.name, "source": self.source, "load": load, "form": self.form} | topic

    @property
    def partitions(self) -> int:
        """The partitions of the source, and of its topic if that is created."""
        return PARTITIONS_PER_EXECUTOR * self.objective.max_instances
