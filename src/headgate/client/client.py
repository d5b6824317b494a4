"""A client of a service.

    with headgate.Client("http://127.0.0.1:8420", token="hg_…") as client:
        client.pause("clicks", why="a migration", lasts="30m")

Answers are plain dictionaries, as the interface's documentation (``/openapi.json``) has them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import quote

from headgate.core.errors import InputError, ServiceAwayError, cause_of
from headgate.core.extras import needing
from headgate.core.types import JSON
from headgate.engines.agents.wire import LEADER_HEADER, NOT_LEADING, Turn, service_urls
from headgate.journal.codec import from_json

if TYPE_CHECKING:
    from httpx import Response


ADDRESS_VARIABLE = "HEADGATE_SERVICE"
TOKEN_VARIABLE = "HEADGATE_TOKEN"
DEFAULT_ADDRESS = "http://127.0.0.1:8420"
ANSWER_WITHIN_S = 10.0


class Client:
    """Requests to the service at ``url``.

    - ``url``: ``HEADGATE_SERVICE``, or this machine where that is not set. Of several that share their jobs, as a
      sequence or one text with commas, the leader is found; only the named addresses are contacted, because the token
      would go there.
    - ``token``: ``HEADGATE_TOKEN`` where not given; reading on the service's own machine needs none
    - ``certificate``: a file with the certificate to trust, where it is not one that everybody does
    """

    def __init__(
        self, url: str | Sequence[str] | None = None, token: str | None = None, *, certificate: str | None = None
    ) -> None:
        with needing("headgate.Client"):
            import httpx
        self._urls = service_urls(url or os.environ.get(ADDRESS_VARIABLE) or DEFAULT_ADDRESS)
        self.url = self._urls[0]
        """Of the one that answered last."""
        secret = token or os.environ.get(TOKEN_VARIABLE)
        headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        self._errors = (httpx.HTTPError, httpx.InvalidURL)
        self._unreached = (httpx.ConnectError, httpx.ConnectTimeout)
        self._client = httpx.Client(headers=headers, timeout=ANSWER_WITHIN_S, verify=trusting(certificate))

    # ------------------------------------------------------------------------------------------------------- to read

    def service(self) -> dict[str, JSON]:
        """The service itself: its version, its file and what is wrong with that."""
        return self._get("/v1/service")

    def jobs(self) -> list[dict[str, JSON]]:
        return self._list("/v1/jobs")

    def job(self, job: str) -> dict[str, JSON]:
        return self._get(_job(job))

    def operators(self, job: str) -> list[dict[str, JSON]]:
        return self._list(f"{_job(job)}/operators")

    def readings(
        self, job: str, *, operator: str | None = None, since_s: float | None = None, last: int = 100
    ) -> list[dict[str, JSON]]:
        """What was seen, oldest first, in the form of the journal."""
        query = {"operator": operator, "since_s": since_s, "last": last}
        return self._list(f"{_job(job)}/readings", query, of="readings")

    def decisions(
        self, job: str, *, since_s: float | None = None, last: int = 100, holds: bool = True, shadows: bool = False
    ) -> list[dict[str, JSON]]:
        """What was decided and why, oldest first."""
        query = {"since_s": since_s, "last": last, "holds": holds, "shadows": shadows}
        return self._list(f"{_job(job)}/decisions", query, of="decisions")

    def events(self, job: str, *, since_s: float | None = None, last: int = 100) -> list[dict[str, JSON]]:
        """What happened to a job, oldest first."""
        return self._list(f"{_job(job)}/events", {"since_s": since_s, "last": last}, of="events")

    def policy(self, job: str) -> dict[str, JSON]:
        """What decides for a job, with its settings and guards."""
        return self._get(f"{_job(job)}/policy")

    def policies(self) -> list[dict[str, JSON]]:
        return self._list("/v1/policies")

    def objective(self, job: str) -> dict[str, JSON]:
        return self._get(f"{_job(job)}/objective")

    def budget(self, job: str) -> dict[str, JSON]:
        """How the error budgets stand, and what was spent."""
        return self._get(f"{_job(job)}/budget")

    def rules(self, job: str) -> str | None:
        """The rules in force, as YAML."""
        found: str | None = self._get(f"{_job(job)}/rules")["rules"]
        return found

    def changes(self, job: str) -> list[dict[str, JSON]]:
        """The changes in force."""
        return self._list(f"{_job(job)}/changes")

    def audit(self, job: str | None = None, *, before: int | None = None, last: int = 100) -> list[dict[str, JSON]]:
        """Who changed what, and why, oldest first."""
        return self._list("/v1/audit", {"job": job, "before": before, "last": last}, of="entries")

    def listen(self, job: str | None = None, *, since: int | None = None) -> Iterator[tuple[str, dict[str, JSON]]]:
        """Yield what happens, without end: its kind (decision, event or change) and its content."""
        query = {name: value for name, value in (("job", job), ("since", since)) if value is not None}
        kind = ""
        with (
            self._errors_reported(),
            closing(self._sent("GET", "/v1/events", params=query, timeout=None, stream=True)) as answer,
        ):
            if not answer.is_success:
                self._refuse(answer, answer.read().decode())
            for line in answer.iter_lines():
                if line.startswith("event: "):
                    kind = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    yield kind, from_json(line.removeprefix("data: "))

    # ----------------------------------------------------------------------------------------------------- to change

    def pause(
        self, job: str, *, why: str, direction: str = "both", operator: str = "*", lasts: str | float | None = None
    ) -> dict[str, JSON]:
        """Pause scaling: ``both`` ways, only ``in`` or only ``out``; for a time, or until it is resumed."""
        return self._put(f"{_job(job)}/pause", why, direction=direction, operator=operator, lasts=lasts)

    def resume(self, job: str, *, why: str, operator: str = "*") -> list[dict[str, JSON]]:
        """End the pauses of a job, or of one operator; gives those that were ended."""
        found: list[dict[str, JSON]] = self._ask("POST", f"{_job(job)}/resume", {"why": why, "operator": operator})
        return found

    def force_size(self, job: str, operator: str, size: int, *, lasts: str | float, why: str) -> dict[str, JSON]:
        """Have an operator at a size for a time, whatever the policy wants."""
        return self._put(f"{_operator(job, operator)}/size", why, size=size, lasts=lasts)

    def release(self, job: str, operator: str, *, why: str) -> dict[str, JSON]:
        """Let another agent take the place of an operator's present one at once, although that reports."""
        return self._change("POST", f"{_operator(job, operator)}/release", why)

    def set_mode(self, job: str, mode: str, *, why: str, lasts: str | float | None = None) -> dict[str, JSON]:
        """``act``, or ``recommend``: everything is decided, and nothing is changed."""
        return self._put(f"{_job(job)}/mode", why, mode=mode, lasts=lasts)

    def set_period(self, job: str, period: str, *, why: str, **what: JSON) -> dict[str, JSON]:
        """What holds in a period of the week: ``forbid``, ``at_least``, ``at_most``, ``during``, ``time_zone``."""
        return self._put(f"{_job(job)}/periods/{quote(period, safe='')}", why, **what)

    def set_policy(
        self,
        job: str,
        policy: str,
        *,
        why: str,
        settings: Mapping[str, JSON] | None = None,
        guards: Mapping[str, JSON] | None = None,
    ) -> dict[str, JSON]:
        return self._put(f"{_job(job)}/policy", why, policy=policy, settings=settings, guards=guards)

    def set_settings(
        self,
        job: str,
        *,
        why: str,
        settings: Mapping[str, JSON] | None = None,
        guards: Mapping[str, JSON] | None = None,
    ) -> dict[str, JSON]:
        """Other settings of the policy in force; those that are not named stay."""
        return self._change("PATCH", f"{_job(job)}/settings", why, settings=settings, guards=guards)

    def set_rules(self, job: str, rules: str, *, why: str) -> dict[str, JSON]:
        """Decide by these rules from now on, as YAML."""
        return self._put(f"{_job(job)}/rules", why, rules=rules)

    def set_bounds(self, job: str, operator: str, fewest: int, most: int, *, why: str) -> dict[str, JSON]:
        return self._put(f"{_operator(job, operator)}/bounds", why, instances=[fewest, most])

    def set_objective(self, job: str, objective: str, *, why: str) -> dict[str, JSON]:
        return self._put(f"{_job(job)}/objective", why, objective=objective)

    def revert(self, job: str, kind: str, name: str = "", *, why: str) -> dict[str, JSON]:
        """Take a change back: what the service's file says holds again."""
        return self._change("POST", f"{_job(job)}/revert", why, kind=kind, name=name)

    # -------------------------------------------------------------------------------------------------------- inside

    def _get(self, path: str) -> dict[str, JSON]:
        found: dict[str, JSON] = self._ask("GET", path)
        return found

    def _list(self, path: str, query: Mapping[str, JSON] | None = None, of: str | None = None) -> list[dict[str, JSON]]:
        text = self._ask("GET", path, params=_given(query or {}))
        found: list[dict[str, JSON]] = text if of is None else text[of]
        return found

    def _change(self, method: str, path: str, why: str, **body: JSON) -> dict[str, JSON]:
        made: dict[str, JSON] = self._ask(method, path, _given({"why": why, **body}))
        return made

    def _put(self, path: str, why: str, **body: JSON) -> dict[str, JSON]:
        return self._change("PUT", path, why, **body)

    def _ask(self, method: str, path: str, body: JSON = None, params: Mapping[str, JSON] | None = None) -> JSON:
        with self._errors_reported():
            answer = self._sent(method, path, json=body, params=dict(params or {}))
        if not answer.is_success:
            self._refuse(answer, answer.text)
        return from_json(answer.text)

    def _sent(self, method: str, path: str, *, stream: bool = False, **request: JSON) -> Response:
        """Return the answer of the leader, or of the last service that answered."""
        turn = Turn(self._urls, self.url)
        answer: Response | None = None
        unreached: Exception | None = None
        for self.url in turn:
            if answer is not None:
                answer.close()
            try:
                query = self._client.build_request(method, f"{self.url}{path}", **request)
                answer = self._client.send(query, stream=stream)
            except self._unreached as error:
                # No request was sent, so none is sent twice.
                unreached = error
                continue
            if answer.status_code != NOT_LEADING:
                return answer
            turn.leads(answer.headers.get(LEADER_HEADER, ""))
        if answer is None:
            assert unreached is not None, "there is one address at least"
            raise unreached
        return answer

    @contextmanager
    def _errors_reported(self) -> Iterator[None]:
        try:
            yield
        except self._errors as error:
            root: BaseException = error
            while root.__cause__ is not None:  # The system's own words are at the bottom.
                root = root.__cause__
            raise ServiceAwayError(f"the service at {self.url} does not answer: {cause_of(root)}.") from error

    def _refuse(self, answer: Response, text: str) -> NoReturn:
        status = answer.status_code
        text = text.strip() or f"status {status}."
        if status == NOT_LEADING:
            leader = answer.headers.get(LEADER_HEADER, "")
            unnamed = leader and leader not in self._urls
            help_ = f" Name that one, too: {','.join((*self._urls, leader))}." if unnamed else ""
            raise ServiceAwayError(f"the service at {answer.url.scheme}://{answer.url.netloc.decode()}: {text}{help_}")
        if status >= 500:
            raise ServiceAwayError(f"the service at {self.url} cannot answer: {text}")
        raise InputError(text)

    def close(self) -> None:
        self._client.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _given(values: Mapping[str, JSON]) -> dict[str, JSON]:
    return {name: value for name, value in values.items() if value is not None}


def _job(job: str) -> str:
    return f"/v1/jobs/{quote(job, safe='')}"


def _operator(job: str, operator: str) -> str:
    return f"{_job(job)}/operators/{quote(operator, safe='')}"


def trusting(certificate: str | None) -> JSON:
    """What to check certificates by: those that everybody trusts, or one of a file."""
    if certificate is None:
        return True
    import ssl

    try:
        return ssl.create_default_context(cafile=certificate)
    except OSError as error:
        raise InputError(f"certificate {certificate!r} cannot be used: {cause_of(error)}.") from error
