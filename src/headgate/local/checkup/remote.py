"""Whether a service that was named answers, and does its work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import urlopen

from headgate.core.errors import InputError, cause_of
from headgate.local.checkup.finding import Finding, note_finding, ok_finding, problem_finding
from headgate.local.jars import cache_directory

ANSWERS_WITHIN_S = 10.0


@dataclass(frozen=True)
class ServiceAnswer:
    """A service's answer to the question whether it is healthy."""

    url: str
    status: int | None = None
    body: str = ""
    date: str | None = None
    """Its clock."""

    @classmethod
    def of(cls, url: str) -> ServiceAnswer:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(f"service {url!r} is not usable; write it as http://127.0.0.1:8420.")
        try:
            with urlopen(f"{url.rstrip('/')}/healthz", timeout=ANSWERS_WITHIN_S) as answer:
                body = answer.read(500).decode("utf-8", errors="replace")
                return cls(url, answer.status, body, answer.headers.get("Date"))
        except HTTPError as error:
            with error:
                body = error.read(500).decode("utf-8", errors="replace")
                return cls(url, error.code, body, error.headers.get("Date"))
        except (URLError, OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            return cls(url, None, cause_of(reason) if isinstance(reason, BaseException) else str(reason))

    def findings(self) -> Iterator[Finding]:
        if self.status is None:
            remedy = "look whether headgate serve runs there; agents keep their sizes meanwhile"
            yield problem_finding("service", f"{self.url} does not answer: {self.body}.", remedy)
        elif self.status == 200:
            yield ok_finding("service", f"{self.url} lives and does its work.")
        else:
            remedy = "look into its log; the address may also be that of something else"
            yield problem_finding(
                "service", f"{self.url} answers {self.status}: {self.body.strip() or 'nothing'}", remedy
            )


KAFKA_ANSWERS_WITHIN_S = 10.0


def check_kafka(bootstrap: str | None = None) -> Iterator[Finding]:
    if find_spec("confluent_kafka") is None:
        make = problem_finding if bootstrap else note_finding
        remedy = "pip install 'headgate[kafka]'" if bootstrap else "if you need it: pip install 'headgate[kafka]'"
        yield make("kafka", "Kafka cannot be reached: confluent-kafka is not installed.", remedy)
        return
    if bootstrap is None:
        at_hand = any((cache_directory() / "jars").glob("kafka*.jar"))
        state = "at hand" if at_hand else "fetched when it is first used"
        yield ok_finding("kafka", f"Kafka's client is installed; a broker for trying things is {state}.")
        return
    yield _check_broker(bootstrap)


def _check_broker(bootstrap: str) -> Finding:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    settings: dict[str, str | int | float | bool] = {
        "bootstrap.servers": bootstrap,
        "log_level": 0,
        "socket.timeout.ms": int(1000 * KAFKA_ANSWERS_WITHIN_S),
    }
    try:
        found = AdminClient(settings).list_topics(timeout=KAFKA_ANSWERS_WITHIN_S)
    except KafkaException as error:
        remedy = "look whether it runs, and whether its advertised.listeners can be reached from here"
        return problem_finding("kafka", f"the broker at {bootstrap} does not answer: {error.args[0].str()}.", remedy)
    return ok_finding(
        "kafka", f"the broker at {bootstrap} answers, with {len(found.brokers)} broker(s) in its cluster."
    )
