"""The topic of a run: the broker is found or started, and the topic made, where that is needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headgate.apps.running.plan import RunPlan
from headgate.apps.running.sources import Offset
from headgate.core.errors import EngineError, InputError
from headgate.local import kafka
from headgate.local.records import Offsets, topic_offsets
from headgate.local.topics import check_broker, create_topic, require_topic, topics


@dataclass(frozen=True)
class Broker:
    bootstrap: str
    is_ours: bool
    """Whether it was started for this run. It goes on afterwards, with what is in its topics."""


def find_broker(plan: RunPlan, stage: Callable[[str], None]) -> Broker:
    """The broker that was named, the one that is up here, or one that is started now."""
    if plan.bootstrap is not None:
        try:
            check_broker(plan.bootstrap)
        except EngineError as error:  # Before anything was started, a broker that is not there is a wrong address.
            raise InputError(str(error)) from error
        return Broker(plan.bootstrap, is_ours=False)
    found = kafka.status()
    if found is not None and found.gone is None:
        return Broker(found.state.bootstrap, is_ours=False)
    if plan.load is None:
        raise InputError("no broker is up; start one with: headgate kafka up, or name yours with --bootstrap.")
    stage("starting a Kafka broker")
    return Broker(kafka.up().bootstrap, is_ours=True)


def have_topic(plan: RunPlan, bootstrap: str, topic: str) -> None:
    """Make the topic of the load if it is not there; a topic that others fill must be."""
    if plan.load is None:
        require_topic(bootstrap, topic)
    elif topic not in topics(bootstrap):
        create_topic(bootstrap, topic, plan.partitions)


def reached(bootstrap: str, topic: str) -> tuple[Offset, Offset]:
    """Where a topic begins and ends, as Spark writes it."""
    starts, ends = topic_offsets(bootstrap, topic)
    return _offset(topic, starts), _offset(topic, ends)


def _offset(topic: str, by_partition: Offsets) -> Offset:
    return {topic: {str(number): offset for number, offset in by_partition.items()}}
