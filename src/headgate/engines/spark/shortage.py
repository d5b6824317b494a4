"""Why executors that were requested do not come, in the words of the cluster.

Spark itself only requests again. On Kubernetes the pods say why they wait; one that the API server refuses to create
leaves no trace, so its creation is tried without effect (a dry run), which needs no right but that of creating pods. On
YARN the queue says how full it is. Where neither says anything, the newest executor that failed may be the reason.
Otherwise, and where the driver may not look, the reason is unknown.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from headgate.core.types import Event, Instant, Severity
from headgate.core.units import printable
from headgate.engines.spark.backend import method_names, private_field, started
from headgate.engines.spark.snapshots import Executor

logger = logging.getLogger("headgate")

LOOK_AFTER_S = 15.0
"""An executor that comes within so long is not missing."""
LOOK_EVERY_S = 10.0
REPORT_AGAIN_AFTER_S = 600.0
FAILED_LATELY_S = 60.0
FULL_SHARE = 0.95
"""A queue of which so much is used has no room for another executor."""
MOST_CHARACTERS = 300
ENDED = ("Succeeded", "Failed")
OWN_METADATA = ("labels", "annotations", "namespace")
"""What a pod that is only tried has in common with one that is there."""

Words = Callable[[int], str]
"""Asks the cluster why there are fewer executors than so many; empty where it does not say."""


class Shortage:
    """Follows what is missing of an application, and asks for the reason on a thread of its own."""

    def __init__(self, words: Words | None) -> None:
        self._words = words
        self._since_s: Instant | None = None
        self._last_look_s = -math.inf
        self._open: Future[str] | None = None
        self._why = ""
        self._reported = ("", -math.inf)
        self.events: list[Event] = []
        """What there is to say; the caller takes it."""

    @property
    def is_settled(self) -> bool:
        """Whether no question is open."""
        return self._open is None

    def look(self, now: Instant, since_s: Instant, planned: int, ready: int, failure: str = "") -> str:
        """Return why executors are missing since then; empty while the reason is not known.

        ``failure`` is how an executor failed lately.
        """
        if since_s != self._since_s:
            # An answer that is still to come is of the last shortage.
            self._since_s, self._why, self._open = since_s, "", None
        if self._open is not None and self._open.done():
            self._why = _answer(self._open)
            self._open = None
        if self._words is not None and self._open is None and now - self._last_look_s >= LOOK_EVERY_S:
            self._last_look_s = now
            words = self._words
            self._open = started(lambda: words(planned))
        why = self._why or failure
        # What failed may be the answer only where the cluster has none.
        if self._open is None:
            self._report(now, planned, ready, why)
        return why

    def _report(self, now: Instant, planned: int, ready: int, why: str) -> None:
        """Say it once, and again after a while: a plan that the cluster does not fulfil is tried time and again."""
        kind, reported_s = self._reported
        # Numbers in a reason change while it stays the same.
        this = "".join(character for character in why if not character.isdigit())
        if not this or (this == kind and now - reported_s < REPORT_AGAIN_AFTER_S):
            return
        self._reported = (this, now)
        detail = f"{ready} of {planned} planned executors are ready; the cluster says: {why}"
        numbers = {"planned": planned, "ready": ready}
        self.events.append(Event(now, "executors-missing", detail, numbers, Severity.WARNING))


def _answer(future: Future[str]) -> str:
    error = future.exception()
    if error is not None:
        # It is an explanation only: whatever is wrong with the cluster shows elsewhere too.
        logger.debug("the cluster did not say why executors are missing: %s", error)
        return ""
    return printable(future.result()[:MOST_CHARACTERS])


def words_of(spark: SparkSession) -> Words | None:
    """How to ask the cluster of a session; ``None`` where there is no way."""
    jvm: Any = spark.sparkContext._jvm
    context: Any = spark.sparkContext._jsc.sc()
    master = str(spark.sparkContext.master)
    try:
        if master.startswith("k8s"):
            client = private_field(context.schedulerBackend(), "kubernetesClient")
            namespace = spark.sparkContext.getConf().get("spark.kubernetes.namespace", "default") or "default"
            return None if client is None else KubernetesWords(jvm, client, namespace, context.applicationId()).ask
        if master == "yarn":
            return YarnWords(jvm, context).ask
    except (Py4JError, TypeError) as error:
        logger.debug("there is no way to the reason why executors are missing: %s", error)
    return None


def failure_of(executors: Iterable[Executor], ours: Collection[str], since_ms: float) -> str:
    """Return how the newest executor failed, in Spark's words; empty where none has lately.

    ``ours`` were sent away by Headgate.
    """
    failed = [
        executor
        for executor in executors
        if executor.removed_ms is not None and executor.removed_ms >= since_ms and executor.id not in ours
    ]
    newest = max(failed, key=lambda executor: executor.removed_ms or 0, default=None)
    if newest is None or not newest.removed_why:
        return ""
    # On Kubernetes a description of the containers follows.
    why = " ".join(newest.removed_why.split("The API gave")[0].split())
    return printable(f"executor {newest.id} has failed: {why}"[:MOST_CHARACTERS])


# ---------------------------------------------------------------------------------------------------------- Kubernetes


class KubernetesWords:
    """What Kubernetes says of the pods of an application, by the client that Spark has in the driver."""

    def __init__(self, jvm: Any, client: Any, namespace: str, application: str) -> None:
        self._client = client
        self._namespace = namespace
        self._application = application
        self._jvm = jvm
        self._codec = jvm.io.fabric8.kubernetes.client.utils.Serialization

    def ask(self, planned: int) -> str:
        """Ask about the pods there are, and where they wait for nothing and are too few, whether another would do."""
        labelled = self._pods().withLabel("spark-app-selector", self._application).withLabel("spark-role", "executor")
        pods = json.loads(self._codec.asJson(labelled.list()))["items"]
        are_too_few = sum(is_alive(pod) for pod in pods) < planned
        return reason_of(pods) or (self._refusal(pods) if are_too_few else "")

    def _pods(self) -> Any:
        return self._client.pods().inNamespace(self._namespace)

    def _refusal(self, pods: Sequence[Mapping[str, Any]]) -> str:
        """Why the API server would refuse one more pod like those that are there; empty if it would not."""
        if not pods:
            return ""
        text = json.dumps(another_like(pods[-1]))
        kind = self._jvm.java.lang.Class.forName("io.fabric8.kubernetes.api.model.Pod")
        try:
            self._pods().resource(self._codec.unmarshal(text, kind)).dryRun().create()
        except Py4JJavaError as error:
            return refusal_of(error.java_exception)
        return ""


def is_alive(pod: Mapping[str, Any]) -> bool:
    """Whether a pod has not ended and is not about to."""
    return pod.get("status", {}).get("phase") not in ENDED and not pod.get("metadata", {}).get("deletionTimestamp")


def reason_of(pods: Sequence[Mapping[str, Any]]) -> str:
    """Return what keeps executors from starting, by the pods of an application as the API server describes them.

    >>> condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "too small"}
    >>> reason_of([{"status": {"phase": "Pending", "conditions": [condition]}}])
    '1 pod cannot be scheduled: too small'
    >>> waiting = {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}
    >>> reason_of([{"status": {"phase": "Pending", "containerStatuses": [waiting]}}] * 2)
    '2 pods wait (ImagePullBackOff): no such image'
    """
    reasons: dict[tuple[str, str], int] = {}
    for pod in pods:
        status = pod.get("status", {})
        for found in (*_unscheduled(status), *_waiting(status)) if is_alive(pod) else ():
            reasons[found] = reasons.get(found, 0) + 1
    if not reasons:
        return ""
    (kind, message), count = max(reasons.items(), key=lambda entry: entry[1])
    plural = count != 1
    what = "cannot be scheduled" if kind == "Unschedulable" else f"{'wait' if plural else 'waits'} ({kind})"
    return f"{count} pod{'s' * plural} {what}{f': {message}' if message else ''}"


def _unscheduled(status: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [
        (str(condition.get("reason", "Unschedulable")), str(condition.get("message", "")).strip().rstrip("."))
        for condition in status.get("conditions", ())
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False"
    ]


def _waiting(status: Mapping[str, Any]) -> list[tuple[str, str]]:
    waiting = [container.get("state", {}).get("waiting") or {} for container in status.get("containerStatuses", ())]
    return [
        (str(found["reason"]), str(found.get("message", "")).strip().rstrip("."))
        for found in waiting
        # The ordinary course of any start.
        if found.get("reason", "ContainerCreating") not in ("ContainerCreating", "PodInitializing")
    ]


def another_like(pod: Mapping[str, Any]) -> dict[str, Any]:
    """Return a pod with what a cluster judges it by: its size, image and owner, and no node or name of its own."""
    metadata = {name: pod["metadata"][name] for name in OWN_METADATA if name in pod["metadata"]}
    spec = {name: value for name, value in pod["spec"].items() if name != "nodeName"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata | {"generateName": "headgate-dry-run-"},
        "spec": spec,
    }


def refusal_of(error: Any) -> str:
    """Return the reason of an API server; empty where it has not answered, or gives none."""
    if "getStatus" not in method_names(error):
        return ""
    status = error.getStatus()
    message = str(error.getMessage() if status is None else status.getMessage() or "")
    return refusal_in(message)


def refusal_in(message: str) -> str:
    """Return the reason in a refusal of the API server.

    >>> refusal_in('pods "x" is forbidden: exceeded quota: limit, requested: pods=1, used: pods=2, limited: pods=2')
    'exceeded quota: limit, requested: pods=1, used: pods=2, limited: pods=2'
    >>> refusal_in('pods is forbidden: User "u" cannot create resource "pods" in API group "" in the namespace "n"')
    ''
    """
    _, is_refused, reason = message.partition(" is forbidden: ")
    if not is_refused:
        return message.strip().rstrip(".")
    return "" if reason.startswith("User ") else reason.strip().rstrip(".")


# ---------------------------------------------------------------------------------------------------------------- YARN


class YarnWords:
    """What the ResourceManager says of the queue of an application."""

    def __init__(self, jvm: Any, context: Any) -> None:
        self._context = context
        settings = jvm.org.apache.hadoop.yarn.conf.YarnConfiguration(context.hadoopConfiguration())
        self._client = jvm.org.apache.hadoop.yarn.client.api.YarnClient.createYarnClient()
        self._client.init(settings)
        self._client.start()
        self._id = jvm.org.apache.hadoop.yarn.api.records.ApplicationId.fromString(context.applicationId())

    def ask(self, planned: int) -> str:
        """Ask how full the queue is, unless all executors have their containers and only start."""
        report = self._client.getApplicationReport(self._id)
        usage = report.getApplicationResourceUsageReport()
        # One container is the ApplicationMaster's.
        if usage is not None and int(usage.getNumUsedContainers()) > planned:
            return ""
        name = str(report.getQueue())
        queue = self._client.getQueueInfo(name)
        return fullness_of(
            name.removeprefix("root."),
            float(queue.getCurrentCapacity()) * float(queue.getCapacity()),
            float(queue.getMaximumCapacity()),
            None if usage is None else float(usage.getClusterUsagePercentage()) / 100,
        )


def fullness_of(queue: str, used_share: float, most_share: float, own_share: float | None) -> str:
    """Say that a queue is full; empty if it is not. Shares are of what the queue's parent has.

    >>> fullness_of("default", 1.0, 1.0, 0.75)
    "the queue 'default' is full: 100 % of it is used, 75 % of the cluster by this application"
    >>> fullness_of("default", 0.4, 1.0, 0.3)
    ''
    """
    share = used_share / most_share if most_share > 0 else 1.0
    if share < FULL_SHARE:
        return ""
    own = "" if own_share is None else f", {own_share:.0%} of the cluster by this application".replace("%", " %")
    return f"the queue '{queue}' is full: {share:.0%}".replace("%", " %") + f" of it is used{own}"
