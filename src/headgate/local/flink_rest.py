"""Requests to the REST API of any Flink cluster, as far as starting one and running jobs on it needs them."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

from headgate.core.errors import EngineError, QueryFailedError

TIMEOUT_S = 10.0
POLL_S = 0.3
FINISHED = "FINISHED"
ENDED_STATES = (FINISHED, "CANCELED", "FAILED")

# The proxy that the environment names for the web knows nothing of a cluster.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def flink_response(url: str, path: str, body: object = None, method: str | None = None) -> Any:
    """Return the JSON that a cluster answers; a request with a ``body`` is a POST by default."""
    data = None if body is None else json.dumps(body).encode()
    try:
        request = urllib.request.Request(f"{url}/{path}", data, {"Content-Type": "application/json"}, method=method)
        with _OPENER.open(request, timeout=TIMEOUT_S) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        raise EngineError(f"the Flink cluster at {url} refused {path}: {_error_text(error)}.") from error
    except urllib.error.URLError as error:
        raise EngineError(f"no Flink cluster answers at {url}: {error.reason}.") from error
    except (OSError, ValueError) as error:
        raise EngineError(f"no Flink cluster answers at {url}: {error}.") from error


def await_end(url: str, job: str, stopped: Callable[[], bool] = lambda: False) -> None:
    """Wait until a job has finished; raise ``QueryFailedError`` with the reason if it ends otherwise."""
    while not stopped():
        found = flink_response(url, f"jobs/{job}")
        if found["state"] == FINISHED:
            return
        if found["state"] in ENDED_STATES:
            raise QueryFailedError(
                f"the job {found['name']!r} has {found['state'].lower()}: {_failure_reason(url, job)}."
            )
        time.sleep(POLL_S)


def drain(url: str, job: str) -> None:
    """End a job after it has written all its results, those of open windows included."""
    flink_response(url, f"jobs/{job}/stop", {"drain": True})
    await_end(url, job)


def stop_with_savepoint(url: str, job: str) -> str:
    """End a job with a savepoint; return its location, from which another job can continue."""
    request = flink_response(url, f"jobs/{job}/stop", {"drain": False})["request-id"]
    await_end(url, job)
    while (found := flink_response(url, f"jobs/{job}/savepoints/{request}"))["status"]["id"] != "COMPLETED":
        time.sleep(POLL_S)
    return str(found["operation"]["location"])


def _error_text(error: urllib.error.HTTPError) -> str:
    """Return the first line of the cluster's error message."""
    try:
        lines = "".join(json.load(error)["errors"]).splitlines()
    except (ValueError, KeyError, TypeError):
        lines = []
    return next((line.strip().rstrip(".") for line in lines if line.strip()), f"status {error.code}")


def _failure_reason(url: str, job: str) -> str:
    """Return the deepest cause of a job's last failure."""
    entries = flink_response(url, f"jobs/{job}/exceptions")["exceptionHistory"]["entries"]
    if not entries:
        return "it was cancelled"
    trace = str(entries[0]["stacktrace"]).splitlines()
    lines = [line for line in trace if line.strip() and not line.startswith("\t")] or [str(entries[0]["exceptionName"])]
    return lines[-1].removeprefix("Caused by: ").rstrip(".")
