"""Flink's REST API: every request has a time limit, and whatever goes wrong is one sentence.

A fault is one of three: Flink does not answer (``EngineError``), it answers what cannot be understood (``EngineError``,
too), or it knows no such job (:class:`UnknownJobError`), which is for who follows the job to judge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from pydantic import TypeAdapter, ValidationError

from headgate.core.errors import EngineError, InputError, cause_of
from headgate.core.extras import needing
from headgate.engines.flink.answers import (
    Aggregated,
    Checkpoints,
    Failures,
    JobDetails,
    JobEntry,
    Jobs,
    MetricName,
    Required,
    TaskManager,
    TaskManagers,
    Value,
    VertexDetails,
)

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
ANSWER_WITHIN_S = 5.0
NOT_FOUND = 404
UNSUPPORTED = "java.lang.UnsupportedOperationException"
"""What the scheduler of a job cannot do is a fault of the server to Flink, with the status 500."""
NO_WORDS = frozenset({"", "Internal server error."})
SERVER_SIDE = "<Exception on server side:"
"""What stands before the reason where Flink puts a fault down to itself."""


class AnsweredError(EngineError):
    """Flink does not do what it was asked for; ``told`` is what it said itself, without a full stop."""

    def __init__(self, message: str, told: str) -> None:
        super().__init__(message)
        self.told = told


class UnknownJobError(AnsweredError):
    """It knows no job by this number."""


class RefusedError(AnsweredError):
    """It will not, or cannot."""


class FlinkRest:
    """The API at an address such as ``http://127.0.0.1:8081``."""

    def __init__(self, url: str, *, answer_within_s: float = ANSWER_WITHIN_S) -> None:
        with needing("the Flink engine"):
            import httpx
        self.url = usable_url(url)
        # Who is asked is named by the user: a proxy that the environment names for the web knows nothing of it.
        self._client = httpx.Client(timeout=answer_within_s, trust_env=False)
        self._errors = (httpx.HTTPError, httpx.InvalidURL)
        self._within_s = answer_within_s

    def close(self) -> None:
        self._client.close()

    # ------------------------------------------------------------------------------------------------------- asking

    def jobs(self) -> tuple[JobEntry, ...]:
        return self._got("/jobs/overview", _JOBS).jobs

    def job(self, job: str) -> JobDetails:
        return self._got(f"/jobs/{job}", _JOB)

    def vertex(self, job: str, vertex: str) -> VertexDetails:
        return self._got(f"/jobs/{job}/vertices/{vertex}", _VERTEX)

    def job_metrics(self, job: str, names: Sequence[str]) -> dict[str, float]:
        """Those that are known by now: they are fetched because they are asked for, and come with the next answer."""
        values = self._got(f"/jobs/{job}/metrics", _VALUES, {"get": ",".join(names)})
        return {one.id: one.number for one in values if one.number is not None}

    def metric_names(self, job: str, vertex: str) -> tuple[str, ...]:
        return tuple(one.id for one in self._got(f"/jobs/{job}/vertices/{vertex}/subtasks/metrics", _NAMES))

    def metrics(self, job: str, vertex: str, names: Sequence[str]) -> dict[str, Aggregated]:
        """Over the subtasks of a vertex. A single name that is not known would empty the whole answer: ask for those of
        :meth:`metric_names` only."""
        path = f"/jobs/{job}/vertices/{vertex}/subtasks/metrics"
        return {one.id: one for one in self._got(path, _AGGREGATED, {"get": ",".join(names)})}

    def watermarks_ms(self, job: str, vertex: str) -> tuple[float, ...]:
        """Of each subtask that has one."""
        values = self._got(f"/jobs/{job}/vertices/{vertex}/watermarks", _VALUES)
        return tuple(one.number for one in values if one.number is not None and one.number > 0)

    def checkpoints(self, job: str) -> Checkpoints:
        return self._got(f"/jobs/{job}/checkpoints", _CHECKPOINTS)

    def task_managers(self) -> tuple[TaskManager, ...]:
        return self._got("/taskmanagers", _TASK_MANAGERS).taskmanagers

    def requirements(self, job: str) -> dict[str, Required]:
        return self._got(f"/jobs/{job}/resource-requirements", _REQUIREMENTS)

    # ----------------------------------------------------------------------------------------------------- changing

    def require(self, job: str, required: Mapping[str, Required]) -> None:
        """Have other sizes from now on: of all vertices in one request, which makes one restart."""
        body = {name: one.model_dump(by_alias=True) for name, one in required.items()}
        self._asked("PUT", f"/jobs/{job}/resource-requirements", json=body)

    # ------------------------------------------------------------------------------------------------------- inside

    def _got(self, path: str, shape: TypeAdapter[T], params: Mapping[str, str] | None = None) -> T:
        answer = self._asked("GET", path, params=params)
        try:
            return shape.validate_json(answer.content)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"])) or "the answer"
            raise EngineError(
                f"Flink at {self.url} cannot be understood: its answer to GET {path} is not what it should be "
                f"({where}: {first['msg'].lower()})."
            ) from error

    def _asked(self, method: str, path: str, **what: Any) -> httpx.Response:
        try:
            answer = self._client.request(method, f"{self.url}{path}", **what)
        except self._errors as error:
            raise EngineError(f"Flink at {self.url} does not answer: {self._cause(error)}.") from error
        if answer.is_success:
            return answer
        told = _first_failure(answer)
        if answer.status_code == NOT_FOUND and path.startswith("/jobs/"):
            raise UnknownJobError(f"Flink at {self.url} does not know what it was asked for: {told}.", told)
        if answer.is_client_error or UNSUPPORTED in answer.text:
            raise RefusedError(f"Flink at {self.url} refused {method} {path}: {told}.", told)
        raise EngineError(f"Flink at {self.url} could not do {method} {path}: {told}.")

    def _cause(self, error: Exception) -> str:
        # What httpx says of a time-out has no words worth repeating.
        if "timeout" in type(error).__name__.lower():
            return f"no word came within {self._within_s:g} s"
        return cause_of(error)


def usable_url(url: str) -> str:
    """The address without what is too much of it."""
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # A port that is none.
        is_usable = False
    if not is_usable:
        raise InputError(f"Flink address {url!r} is not usable; one such as http://127.0.0.1:8081 is needed.")
    return url.rstrip("/")


def _first_failure(answer: httpx.Response) -> str:
    """What Flink says first, without the stack of Java's calls that follows."""
    try:
        errors = _FAILURES.validate_json(answer.content).errors
    except ValidationError:
        errors = ()
    lines = [line.strip() for error in errors for line in error.splitlines()]
    told = next((line for line in lines if line not in NO_WORDS and not line.startswith(SERVER_SIDE)), "")
    _, exception, said = told.partition("Exception: ")
    return (said if exception else told).strip().rstrip(".") or f"status {answer.status_code}"


_JOBS = TypeAdapter(Jobs)
_JOB = TypeAdapter(JobDetails)
_VERTEX = TypeAdapter(VertexDetails)
_VALUES = TypeAdapter(tuple[Value, ...])
_NAMES = TypeAdapter(tuple[MetricName, ...])
_AGGREGATED = TypeAdapter(tuple[Aggregated, ...])
_CHECKPOINTS = TypeAdapter(Checkpoints)
_TASK_MANAGERS = TypeAdapter(TaskManagers)
_REQUIREMENTS = TypeAdapter(dict[str, Required])
_FAILURES = TypeAdapter(Failures)
