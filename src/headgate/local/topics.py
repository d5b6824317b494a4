"""Making, deleting and listing the topics of a broker, with confluent-kafka."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headgate.core.errors import EngineError, InputError
from headgate.core.extras import needing
from headgate.local.broker import release

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

TIMEOUT_S = 10.0
LOOK_EVERY_S = 0.05
INTERNAL = "__"
"""Topics that Kafka keeps for itself begin so."""
BROKERS_DEFAULT = -1


def topics(bootstrap: str) -> dict[str, int]:
    """The number of partitions of each topic but Kafka's own."""
    with _admin(bootstrap, f"the topics at {bootstrap} cannot be listed") as admin:
        found = admin.list_topics(timeout=TIMEOUT_S).topics
    return {name: len(found[name].partitions) for name in sorted(found) if not name.startswith(INTERNAL)}


def require_topic(bootstrap: str, name: str) -> None:
    """Refuse a topic that is not there."""
    known = topics(bootstrap)
    if name not in known:
        named = ", ".join(known) or "none"
        raise InputError(
            f"there is no topic {name!r} at {bootstrap} (there are: {named}); make it with: "
            f"headgate kafka topic {name}."
        )


def create_topic(bootstrap: str, name: str, partitions: int = 1, *, broker_stamps: bool = False) -> None:
    """Make a topic, and wait until the broker has it; its records carry the time of whoever sent them, or, if the
    broker stamps them, that at which it got them."""
    if partitions < 1:
        raise InputError(f"a topic with {partitions} partitions is not possible; at least 1 is needed.")
    with _admin(bootstrap, f"topic {name!r} was not made at {bootstrap}") as admin:
        from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined] # its stubs do not name it

        stamps = {"message.timestamp.type": "LogAppendTime"} if broker_stamps else {}
        wanted = NewTopic(name, partitions, BROKERS_DEFAULT, config=stamps)
        admin.create_topics([wanted], operation_timeout=TIMEOUT_S, request_timeout=TIMEOUT_S)[name].result()
        _await(admin, lambda known: name in known)


def delete_topic(bootstrap: str, name: str) -> None:
    """Delete a topic with all that is in it, and wait until it is gone."""
    with _admin(bootstrap, f"topic {name!r} was not deleted at {bootstrap}") as admin:
        admin.delete_topics([name], operation_timeout=TIMEOUT_S, request_timeout=TIMEOUT_S)[name].result()
        _await(admin, lambda known: name not in known)


def _await(admin: AdminClient, is_done: Callable[[Container[str]], bool]) -> None:
    """Kafka answers when its controller has done it; on a busy machine its brokers hear of that a moment later.

    It is done in any case: one who may not list topics waits for as long as a request may take, and goes on.
    """
    until_s = time.monotonic() + TIMEOUT_S
    while not is_done(admin.list_topics(timeout=TIMEOUT_S).topics) and time.monotonic() < until_s:
        time.sleep(LOOK_EVERY_S)


@contextmanager
def _admin(bootstrap: str, failed: str) -> Iterator[AdminClient]:
    """A client for the block, whose errors are told as ours."""
    with needing("a topic"):
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient
    release(bootstrap)  # The client would try again and again, where this says at once what is wrong.
    # Its own log would tell of every attempt; the error that comes back tells it once.
    settings: dict[str, str | int | float | bool] = {
        "bootstrap.servers": bootstrap,
        "log_level": 0,
        "socket.timeout.ms": int(TIMEOUT_S * 1000),
    }
    try:
        yield AdminClient(settings)
    except KafkaException as error:
        problem = error.args[0]
        # A broker's own answers have positive numbers: it did not like what it was asked for.
        kind = InputError if problem.code() > 0 else EngineError
        raise kind(f"{failed}: {problem.str().rstrip('.')}.") from error
