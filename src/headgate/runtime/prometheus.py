"""Prometheus as a source: a metric for rules and objectives is the answer to a query.

    metrics={"cpu": Prometheus('avg(rate(container_cpu_usage_seconds_total{pod=~"$operator.*"}[1m]))',
                               url="http://127.0.0.1:9090")}

Decisions do not wait for Prometheus: a thread queries it, and the newest answer counts while it is fresh. An older
answer, an empty one and NaN are no reading. ``$operator`` in a query stands for the operator's name.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from headgate.core.errors import EngineError, InputError, cause_of
from headgate.core.units import parse_duration_s

DEFAULT_URL = "http://127.0.0.1:9090"
LONGEST_ANSWER = 1_000_000
"""Bytes; more is no answer to a query for one metric."""


@dataclass(frozen=True)
class _Answer:
    values: Sequence[float] | None
    at_s: float
    error: EngineError | None = None


class _State:
    """The newest answers by operator, and the queries that are running."""

    def __init__(self) -> None:
        self._answers: dict[str, _Answer] = {}
        self._queried_s: dict[str, float] = {}
        self._running: dict[str, Future[_Answer]] = {}
        self._lock = threading.Lock()

    def newest(
        self,
        operator: str,
        ask: Callable[[str], _Answer],
        now: Callable[[], float],
        every_s: float,
        patience_s: float,
    ) -> _Answer | None:
        with self._lock:
            running = self._running.get(operator)
            if running is not None and running.done():
                del self._running[operator]
                self._answers[operator] = running.result()
                running = None
            if running is None and now() - self._queried_s.get(operator, -math.inf) >= every_s:
                running = self._running[operator] = _threads().submit(ask, operator)
                self._queried_s[operator] = now()
            known = self._answers.get(operator)
        if known is not None or running is None:
            return known
        # Only the first query is waited for, because there is no earlier answer to use.
        try:
            return running.result(patience_s)
        except TimeoutError:
            return None


@dataclass(frozen=True)
class Prometheus:
    """The answer to a PromQL query, one number or one per series; a rule's aggregation makes one of several.

    - ``url``: where Prometheus answers; its path, if any, comes before ``/api/v1/query``
    - ``every``: the shortest time between two queries
    - ``stale_after``: an older answer does not count
    - ``timeout``: how long an answer may take; only the first one is waited for
    - ``token_file``: a file with a bearer token, read again for each query
    """

    query: str
    url: str = DEFAULT_URL
    every: str | float = 5.0
    stale_after: str | float = 60.0
    timeout: str | float = 2.0
    token_file: str | Path | None = None
    now: Callable[[], float] = field(default=time.monotonic, repr=False, compare=False)
    _state: _State = field(default_factory=_State, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.query.strip():
            raise InputError("a query of Prometheus is empty; write one such as 'sum(rate(requests_total[1m]))'.")
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
            raise InputError(f"url {self.url!r} of Prometheus is not usable; write it as {DEFAULT_URL}.")
        for name in ("every", "stale_after", "timeout"):
            if not parse_duration_s(getattr(self, name)) > 0:
                raise InputError(f"{name} {getattr(self, name)!r} is not allowed; it must be above 0.")

    def __call__(self, operator: str) -> Sequence[float] | None:
        """The newest answer that is fresh; ``None`` when there is none, and an ``EngineError`` when it went wrong."""
        answer = self._state.newest(operator, self._ask, self.now, parse_duration_s(self.every), self._patience_s)
        if answer is None or self.now() - answer.at_s > parse_duration_s(self.stale_after):
            return None
        if answer.error is not None:
            raise answer.error
        return answer.values

    @property
    def _patience_s(self) -> float:
        return parse_duration_s(self.timeout) + 0.5

    def _ask(self, operator: str) -> _Answer:
        try:
            return _Answer(_values(self._fetch(self.query.replace("$operator", operator))), self.now())
        except EngineError as error:
            return _Answer(None, self.now(), error)

    def _fetch(self, query: str) -> Any:
        headers = {"Accept": "application/json"}
        try:
            if self.token_file is not None:
                headers["Authorization"] = f"Bearer {Path(self.token_file).read_text(encoding='utf-8').strip()}"
            address = f"{self.url.rstrip('/')}/api/v1/query?{urlencode({'query': query})}"
            request = Request(address, headers=headers)
            with _OPENER.open(request, timeout=parse_duration_s(self.timeout)) as answer:
                body = answer.read(LONGEST_ANSWER + 1)
        except HTTPError as error:
            with error:
                if (elsewhere := error.headers.get("Location")) is not None:
                    raise EngineError(f"what answers at {self.url} redirects to {elsewhere}; give that url.") from error
                raise EngineError(f"Prometheus refused {query!r}: {_reason(error.read(LONGEST_ANSWER))}") from error
        except (OSError, URLError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise EngineError(f"Prometheus at {self.url} cannot be queried: {cause_of(reason)}.") from error
        if len(body) > LONGEST_ANSWER:
            raise EngineError(f"Prometheus answered {query!r} with more than {LONGEST_ANSWER} bytes; query for less.")
        try:
            return json.loads(body)["data"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise EngineError(f"what answers at {self.url} is not Prometheus: {body[:60]!r}.") from error


class _NoRedirects(HTTPRedirectHandler):
    """Follows no redirect: the token would go to whatever address it names."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER = build_opener(_NoRedirects)


@cache
def _threads() -> ThreadPoolExecutor:
    """Return two threads for all queries of this process: a Prometheus that hangs must not take a thread per job."""
    return ThreadPoolExecutor(2, thread_name_prefix="headgate-prometheus")


def _values(data: Any) -> list[float] | None:
    """Return the finite numbers of an answer, or ``None`` if there are none."""
    try:
        found = [data["result"]] if data["resultType"] == "scalar" else [series["value"] for series in data["result"]]
        numbers = [float(value) for _, value in found]
    except (KeyError, TypeError, ValueError) as error:
        message = "Prometheus gave an answer that is not a number; query for a scalar or an instant vector."
        raise EngineError(message) from error
    return [number for number in numbers if math.isfinite(number)] or None


def _reason(body: bytes) -> str:
    """Return what Prometheus says is wrong with a query."""
    try:
        return str(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        return body[:200].decode("utf-8", errors="replace")
