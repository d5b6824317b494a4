"""Whether Kafka can be used from here, and a broker that was named answers."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

from headgate.local.checkup.finding import Finding, fine, odd, wrong
from headgate.local.jars import cache_directory

ANSWERS_WITHIN_S = 10.0


def check_kafka(bootstrap: str | None = None) -> Iterator[Finding]:
    if find_spec("confluent_kafka") is None:
        make = wrong if bootstrap else odd
        remedy = "pip install 'headgate[kafka]'" if bootstrap else "if you need it: pip install 'headgate[kafka]'"
        yield make("kafka", "Kafka cannot be asked: confluent-kafka is not installed.", remedy)
        return
    if bootstrap is None:
        at_hand = any((cache_directory() / "jars").glob("kafka*.jar"))
        told = "at hand" if at_hand else "fetched when it is first used"
        yield fine("kafka", f"Kafka's client is installed; a broker for trying things is {told}.")
        return
    yield _asked(bootstrap)


def _asked(bootstrap: str) -> Finding:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    settings: dict[str, str | int | float | bool] = {
        "bootstrap.servers": bootstrap,
        "log_level": 0,
        "socket.timeout.ms": int(1000 * ANSWERS_WITHIN_S),
    }
    try:
        found = AdminClient(settings).list_topics(timeout=ANSWERS_WITHIN_S)
    except KafkaException as error:
        remedy = "look whether it runs, and whether its advertised.listeners can be reached from here"
        return wrong("kafka", f"the broker at {bootstrap} does not answer: {error.args[0].str()}.", remedy)
    return fine("kafka", f"the broker at {bootstrap} answers, with {len(found.brokers)} broker(s) in its cluster.")
