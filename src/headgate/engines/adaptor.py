"""An engine in any language, behind a small HTTP server: the adaptor. Version 1 of what it offers:

    GET  /observe            sizes and a reading, as JSON; ``?metrics=heap,files`` asks for further metrics by name
    POST /apply              ``{"version": 1, "size": 3}``: have so many instances; the answer says what became of it

What is observed: ``{"version": 1, "instances": {"planned": 2, "requested": 2, "ready": 2}, "sample": {…}}``, with
those fields of a sample (``core/types.py``) that are known, and ages in place of moments (``started_age_s``).
What is answered: ``{"version": 1, "outcome": "accepted", "requested": 3, "detail": ""}``. Status 410 says that the job
has ended for good. ``headgate.testing.check_adaptor`` checks one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, TypeAdapter

from headgate.core.errors import EngineError, EngineGoneError, InputError, cause_of
from headgate.core.extras import needing
from headgate.core.topology import Topology
from headgate.core.types import Answer, Decision, Instances, Instant, Observation, Outcome, Receipt, Sample
from headgate.engines.agents.wire import VERSION, check_sizes, checked, message_body, timed
from headgate.journal.codec import to_json

if TYPE_CHECKING:
    import httpx

ANSWER_WITHIN_S = 5.0
GONE = 410
OPERATOR = "job"


@dataclass(frozen=True, slots=True)
class AdaptorReading:
    """What an adaptor tells when it is observed."""

    instances: Instances
    sample: Sample | None = None
    extra_metrics: Annotated[tuple[str, ...], Field(validation_alias="further_metrics")] = ()
    """Metrics that can be subscribed to."""


class AdaptorEngine:
    """The one operator that the adaptor at ``url`` stands for."""

    def __init__(self, url: str, *, now: Callable[[], Instant] = time.time) -> None:
        with needing("an adaptor"):
            import httpx
        if not url.startswith(("http://", "https://")):
            raise InputError(f"adaptor {url!r} is not usable; an address such as http://127.0.0.1:9000 is needed.")
        self._url = url.rstrip("/")
        self._now = now
        self._client = httpx.Client(timeout=ANSWER_WITHIN_S, headers={"Content-Type": "application/json"})
        self._errors = httpx.HTTPError
        self._extra: frozenset[str] = frozenset()
        self._subscribed: tuple[str, ...] = ()
        self._closed = False

    def topology(self) -> Topology:
        return Topology.single(OPERATOR)

    @property
    def extra_metrics(self) -> Collection[str]:
        """What could be subscribed to, as far as the adaptor has said."""
        return self._extra

    def subscribe(self, keys: Collection[str]) -> None:
        self._subscribed = tuple(sorted(keys))

    def observe(self) -> Observation:
        params = {"metrics": ",".join(self._subscribed)} if self._subscribed else {}
        answer = self._request("GET", "observe", params=params)
        now = self._now()
        if not answer.is_success:
            raise EngineError(f"the adaptor at {self._url} cannot be observed: {_response_text(answer)}")
        try:
            reading = _reading(answer.text, now)
        except InputError as error:
            raise EngineError(f"the adaptor at {self._url} cannot be understood: {error}") from error
        self._extra = frozenset(reading.extra_metrics)
        samples = {} if reading.sample is None else {OPERATOR: reading.sample}
        return Observation(now, samples, {OPERATOR: reading.instances})

    def apply(self, decision: Decision) -> Receipt:
        size = decision.targets[OPERATOR]
        if size < 0:
            answer = Answer(Outcome.REFUSED, 0, f"{size} instances are not possible; at least 0 are.")
        else:
            answer = self._ask_for(size)
        return Receipt(self._now(), {OPERATOR: answer})

    def send_raw(self, body: str) -> int:
        """Send a body to ``/apply`` as it is; gives the status of the answer. For checks."""
        return self._request("POST", "apply", content=body).status_code

    def close(self) -> None:
        """Let go of the adaptor, whose job keeps its size; calling it twice is fine."""
        self._closed = True
        self._client.close()

    def _ask_for(self, size: int) -> Answer:
        answer = self._request("POST", "apply", content=to_json({"version": VERSION, "size": size}))
        if answer.is_success:
            try:
                return checked(_ANSWER, message_body(answer.text, "an answer"), "an answer")
            except InputError as error:
                raise EngineError(f"the adaptor at {self._url} cannot be understood: {error}") from error
        if answer.is_server_error:
            raise EngineError(f"the adaptor at {self._url} cannot be changed: {_response_text(answer)}")
        return Answer(Outcome.REFUSED, size, _response_text(answer))

    def _request(self, method: str, path: str, **what: Any) -> httpx.Response:
        if self._closed:
            raise EngineError(f"the adaptor at {self._url} was let go of.")
        try:
            answer = self._client.request(method, f"{self._url}/{path}", **what)
        except self._errors as error:
            raise EngineError(f"the adaptor at {self._url} does not answer: {cause_of(error)}.") from error
        if answer.status_code == GONE:
            raise EngineGoneError(f"the job behind {self._url} has ended: {_response_text(answer)}")
        return answer


_READING = TypeAdapter(AdaptorReading)
_ANSWER = TypeAdapter(Answer)


def _reading(text: str, now: Instant) -> AdaptorReading:
    body = message_body(text, "an observation")
    if isinstance(body.get("sample"), Mapping):
        body["sample"] = timed({"at_age_s": 0.0, **body["sample"], "operator": OPERATOR}, now)
    reading = checked(_READING, body, "an observation")
    check_sizes(reading.instances)
    return reading


def _response_text(answer: httpx.Response) -> str:
    return answer.text.strip() or f"status {answer.status_code}"
