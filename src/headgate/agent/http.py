"""The controller of an agent, over HTTP: one service, or several of which one leads."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import TracebackType
from urllib.parse import quote

from headgate.client.client import Turn, service_urls, trusting
from headgate.core.errors import (
    ControllerAwayError,
    InputError,
    NotLeadingError,
    SupersededError,
    TokenRefusedError,
    cause_of,
)
from headgate.core.extras import needing
from headgate.core.types import Instant
from headgate.engines.agents.wire import LEADER_HEADER, NOT_LEADING, Reply, Report, reply_from_text, report_to_text

ANSWER_WITHIN_S = 2.0
SUPERSEDED = 409
"""The status with which a service answers an agent whose place another one has taken."""
NOT_LET_IN = (401, 403)
"""The token is none of the service's, or one of another scope."""
NOT_FOUND = 404


class HttpController:
    """Reports for operators of ``job`` to the service at ``service``, such as ``http://127.0.0.1:8420``.

    Of several (a sequence, or one text with commas) the one that leads is found, and found again when it changes: a
    standby names the leader. Only the addresses given here are contacted, because requests carry the token.
    ``token`` is the proof that it may report; ``certificate`` a file with the one to trust, where not everybody does.
    """

    def __init__(
        self,
        service: str | Sequence[str],
        token: str,
        job: str,
        *,
        certificate: str | None = None,
        now: Callable[[], Instant] = time.time,
    ) -> None:
        with needing("an agent"):
            import httpx
        self._errors = httpx.HTTPError
        self._urls = service_urls(service)
        self._url = self._urls[0]
        self._operators = f"/v1/jobs/{quote(job, safe='')}/operators"
        self._now = now
        headers = {"Authorization": f"Bearer {token}"}
        self._client = httpx.Client(timeout=ANSWER_WITHIN_S, headers=headers, verify=trusting(certificate))

    def report(self, operator: str, report: Report) -> Reply:
        """Deliver a report to the leader, trying the last known one first and each address once."""
        turn = Turn(self._urls, self._url)
        problems: list[str] = []
        stands_by = False
        for url in turn:
            try:
                reply = self._ask(url, operator, report)
            except NotLeadingError as error:
                problems.append(str(error))
                stands_by = True
                turn.leads(error.leader)
            except ControllerAwayError as error:
                problems.append(str(error))
            else:
                self._url = url
                return reply
        raise (NotLeadingError if stands_by else ControllerAwayError)(" ".join(problems))

    def _ask(self, url: str, operator: str, report: Report) -> Reply:
        where = f"{url}{self._operators}/{quote(operator, safe='')}/reports"
        try:
            answer = self._client.post(where, content=report_to_text(report, self._now()))
        except self._errors as error:
            raise ControllerAwayError(f"the controller at {url} does not answer: {cause_of(error)}.") from error
        if answer.is_success:
            return reply_from_text(answer.text)
        # A sentence is what a service says; a page is of something else that answers there.
        is_sentence = answer.headers.get("content-type", "").startswith("text/plain")
        problem = answer.text.strip() if is_sentence and answer.text.strip() else f"status {answer.status_code}."
        if answer.status_code == NOT_LEADING:
            raise NotLeadingError(f"the service at {url} stands by.", answer.headers.get(LEADER_HEADER, ""))
        if answer.status_code == SUPERSEDED:
            raise SupersededError(problem)
        if answer.is_server_error:
            raise ControllerAwayError(f"the controller at {url} cannot answer: {problem}")
        refused = f"the controller at {url} refuses {operator!r}: {problem}"
        if answer.status_code in NOT_LET_IN:
            raise TokenRefusedError(f"{refused} One is made by: headgate token make NAME --scope agent")
        if answer.status_code == NOT_FOUND:
            raise InputError(f"{refused} Give a name that it knows, or add this one to the file that it serves.")
        raise InputError(refused)

    def close(self) -> None:
        self._client.close()

    def __enter__(self) -> HttpController:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
