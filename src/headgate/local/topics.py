"""A Kafka broker and its topics, by confluent-kafka's admin client: reach it, list, make and delete topics."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from headgate.core.errors import EngineError, InputError
from headgate.core.extras import needing

if TYPE_CHECKING:
    from confluent_kafka import KafkaError
    from confluent_kafka.admin import AdminClient

REACH_TIMEOUT_S = 5.0
TIMEOUT_S = 10.0
POLL_S = 0.05
INTERNAL = "__"
"""The first characters of Kafka's internal topics."""
BROKERS_DEFAULT = -1
PROTOCOL_VERSION = "inter.broker.protocol.version"
"""A setting that brokers before 4.0 have; its default is their release."""
NEWER_RELEASE = "4.0 or newer"
_REASON = re.compile(r"(?:Connect to \S+ failed|Failed to resolve '[^']*'|Receive failed): (.+?)(?: \(after .*)?$")


def broker_answers(bootstrap: str) -> bool:
    """Return whether a Kafka broker answers at this address."""
    try:
        check_broker(bootstrap, timeout_s=1.0)
    except EngineError:
        return False
    return True


def check_broker(bootstrap: str, timeout_s: float = REACH_TIMEOUT_S) -> None:
    """Raise ``EngineError`` unless a broker of this list of addresses answers."""
    with _admin(bootstrap, f"the broker at {bootstrap} does not answer", timeout_s):
        pass


def broker_release(bootstrap: str) -> str:
    """Return the release of a broker, such as ``3.9``; from 4.0 on, brokers do not tell it."""
    with _admin(bootstrap, f"the release of the broker at {bootstrap} is not known") as admin:
        from confluent_kafka.admin import ConfigResource  # type: ignore[attr-defined] # its stubs do not name it

        broker = next(iter(admin.list_topics(timeout=TIMEOUT_S).brokers))
        resource = ConfigResource(ConfigResource.Type.BROKER, str(broker))
        settings = admin.describe_configs([resource], request_timeout=TIMEOUT_S)[resource].result()
    protocol = settings.get(PROTOCOL_VERSION)
    return NEWER_RELEASE if protocol is None else str(protocol.value).partition("-")[0]


def addresses(bootstrap: str) -> list[tuple[str, int]]:
    """Return hosts and ports from ``HOST:PORT``, or from several with commas between.

    >>> addresses("127.0.0.1:9092,[::1]:9093")
    [('127.0.0.1', 9092), ('::1', 9093)]
    """
    found = []
    for part in bootstrap.split(","):
        host, _, port = part.strip().rpartition(":")
        if not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            raise InputError(f"the bootstrap address {part!r} is not understood; write HOST:PORT, as 127.0.0.1:9092.")
        found.append((host.removeprefix("[").removesuffix("]"), int(port)))
    return found


def topics(bootstrap: str) -> dict[str, int]:
    """Return the number of partitions of each topic, without Kafka's internal topics."""
    with _admin(bootstrap, f"the topics at {bootstrap} cannot be listed") as admin:
        found = admin.list_topics(timeout=TIMEOUT_S).topics
    return {name: len(found[name].partitions) for name in sorted(found) if not name.startswith(INTERNAL)}


def require_topic(bootstrap: str, name: str) -> None:
    """Raise ``InputError`` for a topic that does not exist."""
    known = topics(bootstrap)
    if name not in known:
        listed = ", ".join(known) or "none"
        raise InputError(
            f"there is no topic {name!r} at {bootstrap} (there are: {listed}); make it with: "
            f"headgate kafka topic {name}."
        )


def create_topic(bootstrap: str, name: str, partitions: int = 1, *, broker_stamps: bool = False) -> None:
    """Make a topic, and wait until the broker has it.

    Its records carry the time of their producer or, with ``broker_stamps``, that of their arrival at the broker.
    """
    if partitions < 1:
        raise InputError(f"a topic with {partitions} partitions is not possible; at least 1 is needed.")
    with _admin(bootstrap, f"topic {name!r} was not made at {bootstrap}") as admin:
        from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined] # its stubs do not name it

        stamps = {"message.timestamp.type": "LogAppendTime"} if broker_stamps else {}
        wanted = NewTopic(name, partitions, BROKERS_DEFAULT, config=stamps)
        admin.create_topics([wanted], operation_timeout=TIMEOUT_S, request_timeout=TIMEOUT_S)[name].result()
        _await(admin, lambda known: name in known)


def delete_topic(bootstrap: str, name: str) -> None:
    """Delete a topic with all its records, and wait until it is gone."""
    with _admin(bootstrap, f"topic {name!r} was not deleted at {bootstrap}") as admin:
        admin.delete_topics([name], operation_timeout=TIMEOUT_S, request_timeout=TIMEOUT_S)[name].result()
        _await(admin, lambda known: name not in known)


def _await(admin: AdminClient, is_done: Callable[[Container[str]], bool]) -> None:
    """Wait until the brokers know a change, which the controller reports a moment earlier.

    The change is made in any case: a client that may not list topics continues after the time-out.
    """
    until_s = time.monotonic() + TIMEOUT_S
    while not is_done(admin.list_topics(timeout=TIMEOUT_S).topics) and time.monotonic() < until_s:
        time.sleep(POLL_S)


@contextmanager
def _admin(bootstrap: str, failed: str, timeout_s: float = REACH_TIMEOUT_S) -> Iterator[AdminClient]:
    """Give a connected client for the block, and translate its errors."""
    addresses(bootstrap)
    with needing("a Kafka broker"):
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient
    errors: list[KafkaError] = []
    # The client's own log would repeat every attempt to connect.
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "log_level": 0,
        "socket.timeout.ms": int(TIMEOUT_S * 1000),
        "error_cb": errors.append,
    }
    try:
        admin = AdminClient(settings)
        _connect(admin, bootstrap, errors, timeout_s)
        yield admin
    except KafkaException as error:
        problem = error.args[0]
        # Errors that the broker answers have positive codes: the request was wrong.
        kind = InputError if problem.code() > 0 else EngineError
        raise kind(f"{failed}: {problem.str().rstrip('.')}.") from error


def _connect(admin: AdminClient, bootstrap: str, errors: list[KafkaError], timeout_s: float) -> None:
    """Wait until a broker answers, and fail as soon as none can: the client itself would try again until a time-out."""
    from confluent_kafka import KafkaError, KafkaException

    deadline_s = time.monotonic() + timeout_s
    while True:
        admin.poll(POLL_S)
        all_down = any(error.code() == KafkaError._ALL_BROKERS_DOWN for error in errors)
        left_s = deadline_s - time.monotonic()
        if all_down or left_s <= 0:
            reasons = dict.fromkeys(_reason(error) for error in errors if error.code() != KafkaError._ALL_BROKERS_DOWN)
            listed = "; ".join(reasons) or f"{bootstrap}: no answer within {timeout_s:g} s"
            raise EngineError(f"no Kafka broker can be reached ({listed}).")
        try:
            admin.list_topics(timeout=min(1.0, left_s))
        except KafkaException as error:
            if error.args[0].code() > 0:
                raise
        else:
            return


def _reason(error: KafkaError) -> str:
    """Return the address and the cause of a failed connection, such as ``127.0.0.1:9092: connection refused``."""
    address, _, text = error.str().partition("/bootstrap: ")
    found = _REASON.search(text)
    cause = (found[1] if found else text or error.str()).rstrip(".")
    return f"{address}: {cause[:1].lower()}{cause[1:]}" if text else cause
