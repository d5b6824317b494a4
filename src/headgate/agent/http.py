"""The controller of an agent, over HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from urllib.parse import quote

from headgate.core.errors import ControllerAwayError, InputError, SupersededError
from headgate.core.extras import needing
from headgate.core.types import Instant
from headgate.engines.agents.wire import Reply, Report, reply_from_text, report_to_text

ANSWER_WITHIN_S = 2.0
SUPERSEDED = 409
"""The status with which a service answers an agent whose place another one has taken."""


class HttpController:
    """Reports for operators of ``job`` to the service at ``url``, such as ``http://127.0.0.1:8420``.

    ``token`` is its proof that it may.
    """

    def __init__(self, url: str, token: str, job: str, *, now: Callable[[], Instant] = time.time) -> None:
        with needing("an agent"):
            import httpx
        self._errors = httpx.HTTPError
        self._url = url.rstrip("/")
        self._operators = f"{self._url}/v1/jobs/{quote(job, safe='')}/operators"
        self._now = now
        self._client = httpx.Client(timeout=ANSWER_WITHIN_S, headers={"Authorization": f"Bearer {token}"})

    def report(self, operator: str, report: Report) -> Reply:
        try:
            answer = self._client.post(
                f"{self._operators}/{quote(operator, safe='')}/reports", content=report_to_text(report, self._now())
            )
        except self._errors as error:
            told = str(error) or type(error).__name__
            raise ControllerAwayError(f"the controller at {self._url} does not answer: {told}.") from error
        if answer.is_success:
            return reply_from_text(answer.text)
        told = answer.text.strip() or f"status {answer.status_code}"
        if answer.status_code == SUPERSEDED:
            raise SupersededError(told)
        if answer.is_server_error:
            raise ControllerAwayError(f"the controller at {self._url} cannot answer: {told}")
        raise InputError(f"the controller at {self._url} refuses {operator!r}: {told}")

    def close(self) -> None:
        self._client.close()

    def __enter__(self) -> HttpController:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
